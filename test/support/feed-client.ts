/** A client of the order feed that is disconnected at random and resumes after the last id it saw. */
import { setTimeout as delay } from 'node:timers/promises';

export type Received = { readonly id: string; readonly txHash: string; readonly atMs: number };

export class FeedClient {
  readonly events: Received[] = [];
  /** `gap` events: history that the feed reports as lost. */
  gaps = 0;
  cuts = 0;
  #lastId = '';
  #stopped = false;
  #connection = new AbortController();
  readonly #url: string;
  readonly #key: string;
  readonly #running: Promise<void>;

  /** It resumes after `lastId`; '' is live. */
  constructor(url: string, key: string, query = '', lastId = '') {
    this.#lastId = lastId;
    this.#url = `${url}/v1/stream/orders${query}`;
    this.#key = key;
    this.#running = this.#run();
  }

  /** Drops the connection; the client reconnects by itself. */
  cut(): void {
    this.cuts += 1;
    this.#connection.abort();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#connection.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    while (!this.#stopped) {
      this.#connection = new AbortController();
      try {
        await this.#read(this.#connection.signal);
      } catch (error) {
        // A cut, or an API that is not there at the moment; anything else fails the test below.
        if (!(error instanceof TypeError) && (error as Error).name !== 'AbortError') throw error;
        await delay(20);
      }
    }
  }

  async #read(signal: AbortSignal): Promise<void> {
    const headers: Record<string, string> = { 'X-Service-Key': this.#key };
    if (this.#lastId !== '') headers['Last-Event-ID'] = this.#lastId;
    const response = await fetch(this.#url, { headers, signal });
    if (response.status !== 200 || response.body === null) {
      await response.body?.cancel();
      await delay(50);
      return;
    }
    let rest = '';
    for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
      const blocks = (rest + chunk).split('\n\n');
      rest = blocks.pop() ?? '';
      for (const block of blocks) this.#hear(block);
    }
  }

  #hear(block: string): void {
    const fields = new Map(
      block.split('\n').map((line): [string, string] => {
        const colon = line.indexOf(':');
        return [line.slice(0, colon), line.slice(colon + 1).trim()];
      }),
    );
    if (fields.get('event') === 'gap') this.gaps += 1;
    if (fields.get('event') === 'order') {
      const [txHash] = JSON.parse(fields.get('data') ?? '[]') as [string];
      this.events.push({ id: fields.get('id') ?? '', txHash, atMs: Date.now() });
    }
    this.#lastId = fields.get('id') ?? this.#lastId;
  }
}
