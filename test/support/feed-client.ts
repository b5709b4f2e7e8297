/** Clients of the order feed and of managed streams that tests disconnect at random. */
import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';

/** A match by its number, or a `gap`. */
export type Seen = number | 'gap';

export type ListenerOptions = {
  /** Path and query of the stream. */
  readonly target: string;
  readonly key: string;
  readonly ports: readonly number[];
  readonly random: () => number;
  /** Converts a hexadecimal transaction hash to the number of its match; by default the hash itself. */
  readonly numberOf?: (hash: string) => number;
};

/** Heartbeats come every 30 s, so after a longer silence the connection is dead. */
const STALE_MS = 45_000;

/**
 * Records the numbers of the matches that it receives, in order, and reconnects with its last cursor to any of several
 * api processes until it is stopped. It uses a bare socket, so that no HTTP client can hide or repeat anything.
 */
export class FeedListener {
  readonly seen: Seen[] = [];
  /** Counts of statuses other than 200: 503 while a process is not ready, 0 without a response. */
  readonly refusals = new Map<number, number>();
  connections = 0;
  /** The newest cursor; '' if there is none yet. */
  lastEventId: string;
  #stopped = false;
  #socket: Socket | undefined;
  readonly #options: ListenerOptions;
  readonly #running: Promise<void>;

  constructor(options: ListenerOptions, lastEventId = '') {
    this.#options = options;
    this.lastEventId = lastEventId;
    this.#running = this.#run();
  }

  /** Drops the connection; the listener reconnects by itself. */
  cut(): void {
    this.#socket?.destroy();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#socket?.destroy();
    await this.#running;
  }

  /** Called for each match with its cursor and its hash without 0x. */
  protected onMatch(_id: string, hash: string): void {
    const { numberOf = (digits: string) => Number.parseInt(digits, 16) } = this.#options;
    this.seen.push(numberOf(hash));
  }

  async #run(): Promise<void> {
    const { ports, random } = this.#options;
    while (!this.#stopped) {
      const status = await this.#listen(ports[Math.floor(random() * ports.length)] ?? 0);
      if (status === 200) continue;
      this.refusals.set(status, (this.refusals.get(status) ?? 0) + 1);
      await delay(50 + random() * 100);
    }
  }

  /** Resolves with the status when the connection is over. */
  async #listen(port: number): Promise<number> {
    const { target, key } = this.#options;
    const socket = connect(port, '127.0.0.1');
    this.#socket = socket;
    this.connections += 1;
    const position = this.lastEventId === '' ? '' : `Last-Event-ID: ${this.lastEventId}\r\n`;
    socket.write(`GET ${target} HTTP/1.0\r\nX-Service-Key: ${key}\r\n${position}\r\n`);
    socket.setEncoding('utf8');
    socket.setTimeout(STALE_MS, () => socket.destroy());
    let status = 0;
    let rest = '';
    socket.on('data', (text: string) => {
      rest += text;
      if (status === 0) {
        const end = rest.indexOf('\r\n\r\n');
        if (end === -1) return;
        status = Number(rest.split(' ')[1]);
        rest = rest.slice(end + 4);
      }
      if (status !== 200) return;
      for (let end = rest.indexOf('\n\n'); end !== -1; end = rest.indexOf('\n\n')) {
        this.#hear(rest.slice(0, end));
        rest = rest.slice(end + 2);
      }
    });
    socket.on('error', () => undefined);
    await new Promise((resolve) => socket.once('close', resolve));
    return status;
  }

  #hear(block: string): void {
    const id = /^id: (\d+)$/m.exec(block)?.[1];
    if (id !== undefined) this.lastEventId = id;
    const event = /^event: (\w+)$/m.exec(block)?.[1];
    if (event === 'gap') this.seen.push('gap');
    if (event !== 'order' && event !== 'tx') return;
    // The hash is the first element or the last member.
    const hash = /^data: \["0x([0-9a-f]{64})"|"tx_hash":"0x([0-9a-f]{64})"/m.exec(block);
    this.onMatch(id ?? '', hash?.[1] ?? hash?.[2] ?? '');
  }
}

/** A listener of one api process that keeps cursors and hashes. */
export class FeedClient extends FeedListener {
  readonly events: { readonly id: string; readonly txHash: string }[] = [];

  /** It resumes after `lastId`; '' is live. */
  constructor(url: string, key: string, query = '', lastId = '') {
    const ports = [Number(new URL(url).port)];
    super({ target: `/v1/stream/orders${query}`, key, ports, random: Math.random }, lastId);
  }

  /** `gap` events: history that the feed reports as lost. */
  get gaps(): number {
    return this.seen.length;
  }

  protected override onMatch(id: string, hash: string): void {
    this.events.push({ id, txHash: `0x${hash}` });
  }
}
