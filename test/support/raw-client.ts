/**
 * A client of the event streams over a raw socket, for tests: it decodes HTTP/1.1 chunks, checks that
 * they are well formed, and keeps every byte and every block.
 */
import { connect, type Socket } from 'node:net';

export type Block = {
  readonly id?: string;
  readonly event?: string;
  readonly data?: string;
  readonly retry?: string;
};

export type Ask = {
  readonly path?: string;
  readonly query?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly method?: string;
  /** HTTP/1.1 by default; 1.0 has no chunks. */
  readonly version?: '1.0' | '1.1';
};

/** The bytes of a request. */
export function requestText(ask: Ask = {}): string {
  const { path = '/v1/stream/orders', query, method = 'GET', version = '1.1' } = ask;
  const target = `${path}${query === undefined ? '' : `?${query}`}`;
  const headers = { Host: '127.0.0.1', ...ask.headers };
  const fields = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  return [`${method} ${target} HTTP/${version}`, ...fields, '', ''].join('\r\n');
}

/** A raw client on its own connection. It keeps the decoded body. */
export class Client {
  readonly socket: Socket;
  ended = false;
  /** The complete blocks so far, without comments. */
  readonly blocks: Block[] = [];
  readonly #texts: string[] = [];
  /** The text after the head or the last complete block. */
  #rest = '';
  #inBody = false;
  readonly #decoder = new TextDecoder();
  readonly #answer = new Answer((bytes) => {
    const text = this.#decoder.decode(bytes, { stream: true });
    this.#texts.push(text);
    this.#parse(text);
  });
  #check: () => void = () => undefined;

  constructor(port: number, ask: Ask = {}) {
    this.socket = connect(port, '127.0.0.1');
    this.socket.write(requestText({ ...ask, headers: { Connection: 'close', ...ask.headers } }));
    this.socket.on('data', (bytes) => {
      this.#answer.feed(bytes);
      this.#check();
    });
    this.socket.on('error', () => undefined);
    this.socket.on('close', () => {
      this.ended = true;
      this.#check();
    });
  }

  /** See Answer. */
  get chunkSizes(): readonly number[] {
    return this.#answer.chunkSizes;
  }

  get text(): string {
    return this.#texts.join('');
  }

  get head(): string {
    return this.text.split('\r\n\r\n', 1)[0] ?? '';
  }

  get status(): number {
    return Number(this.head.split(' ')[1]);
  }

  get body(): string {
    const end = this.text.indexOf('\r\n\r\n');
    return end === -1 ? '' : this.text.slice(end + 4);
  }

  get orders(): Block[] {
    return this.blocks.filter((block) => block.event === 'order');
  }

  /** The newest id, as an EventSource would send it back. */
  get lastEventId(): string | undefined {
    return this.blocks.findLast((block) => block.id !== undefined)?.id;
  }

  /** Resolves once the condition holds; rejects when the connection ends before. */
  async until(condition: (client: Client) => boolean): Promise<this> {
    await new Promise<void>((resolve, reject) => {
      this.#check = () => {
        if (condition(this)) resolve();
        else if (this.ended)
          reject(new Error(`the connection ended after: ${this.text.slice(-500)}`));
      };
      this.#check();
    });
    return this;
  }

  /** Resolves when the stream has begun: nothing published afterwards is missed. */
  begun(): Promise<this> {
    return this.until((client) => client.body.includes('retry: 2000\n\n'));
  }

  close(): void {
    this.socket.destroy();
  }

  #parse(text: string): void {
    this.#rest += text;
    if (!this.#inBody) {
      const head = this.#rest.indexOf('\r\n\r\n');
      if (head === -1) return;
      this.#inBody = true;
      this.#rest = this.#rest.slice(head + 4);
    }
    const blocks = this.#rest.split('\n\n');
    this.#rest = blocks.pop() ?? '';
    for (const block of blocks) {
      const lines = block.split('\n').filter((line) => !line.startsWith(':'));
      const fields = lines.map((line) => [
        line.split(': ', 1)[0],
        line.slice(line.indexOf(': ') + 2),
      ]);
      this.blocks.push(Object.fromEntries(fields));
    }
  }
}

const HEAD_END = Buffer.from('\r\n\r\n');
const LINE_END = Buffer.from('\r\n');

/** Decodes one response: passes on its headers and then its body as they arrive. */
export class Answer {
  /** Sizes of the chunks so far, including the final 0; empty if the body is not chunked. */
  readonly chunkSizes: number[] = [];
  readonly #pass: (bytes: Buffer) => void;
  #rest: Buffer = Buffer.alloc(0);
  #state: 'head' | 'size' | 'chunk' | 'plain' = 'head';

  constructor(pass: (bytes: Buffer) => void) {
    this.#pass = pass;
  }

  /** The bytes after the response's last chunk; undefined until that has arrived. */
  get after(): Buffer | undefined {
    return this.chunkSizes.at(-1) === 0 && this.#state === 'size' ? this.#rest : undefined;
  }

  feed(bytes: Buffer): void {
    this.#rest = Buffer.concat([this.#rest, bytes]);
    while (this.after === undefined && this.#step());
  }

  /** False if more bytes are needed. Throws on a malformed chunk. */
  #step(): boolean {
    switch (this.#state) {
      case 'head': {
        const head = this.#upTo(HEAD_END);
        if (head === undefined) return false;
        this.#pass(head);
        this.#state = /^transfer-encoding: chunked\r$/im.test(String(head)) ? 'size' : 'plain';
        return true;
      }
      case 'plain':
        if (this.#rest.length > 0) this.#pass(this.#take(this.#rest.length));
        return false;
      case 'size': {
        const line = this.#upTo(LINE_END);
        if (line === undefined) return false;
        if (!/^[0-9a-f]+\r\n$/.test(String(line))) throw new Error(`not a chunk size: ${line}`);
        this.chunkSizes.push(Number.parseInt(String(line), 16));
        this.#state = 'chunk';
        return true;
      }
      case 'chunk': {
        const size = this.chunkSizes.at(-1) ?? 0;
        if (this.#rest.length < size + LINE_END.length) return false;
        const chunk = this.#take(size);
        const end = this.#take(LINE_END.length);
        if (!end.equals(LINE_END)) throw new Error(`a chunk of ${size} ends with ${end}`);
        if (size > 0) this.#pass(chunk);
        this.#state = 'size';
        return true;
      }
    }
  }

  /** The bytes up to and including `end`; undefined if it has not arrived yet. */
  #upTo(end: Buffer): Buffer | undefined {
    const at = this.#rest.indexOf(end);
    return at === -1 ? undefined : this.#take(at + end.length);
  }

  #take(length: number): Buffer {
    const taken = this.#rest.subarray(0, length);
    this.#rest = this.#rest.subarray(length);
    return taken;
  }
}

/** Transaction hashes of compact or labelled orders. */
export function txHashes(blocks: readonly Block[]): string[] {
  return blocks.map(({ data = '' }) => {
    const parsed: unknown = JSON.parse(data);
    if (Array.isArray(parsed)) return String(parsed[0]);
    return String((parsed as { tx_hash: unknown }).tx_hash);
  });
}
