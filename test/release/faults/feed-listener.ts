/**
 * A listener for fault runs: records the numbers of the matches that it receives, in order, and reconnects with its
 * last cursor to any of several api processes until it is stopped. It uses a bare socket, so that no HTTP client can
 * hide or repeat anything.
 */
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

const STALE_MS = 45_000;

export class FeedListener {
  readonly seen: Seen[] = [];
  /** Counts of statuses other than 200: 503 while a process is not ready, 0 without a response. */
  readonly refusals = new Map<number, number>();
  connections = 0;
  #lastEventId = '';
  #stopped = false;
  #socket: Socket | undefined;
  readonly #target: string;
  readonly #key: string;
  readonly #ports: readonly number[];
  readonly #random: () => number;
  readonly #numberOf: (hash: string) => number;
  readonly #running: Promise<void>;

  constructor(options: ListenerOptions) {
    this.#target = options.target;
    this.#key = options.key;
    this.#ports = options.ports;
    this.#random = options.random;
    this.#numberOf = options.numberOf ?? ((hash) => Number.parseInt(hash, 16));
    this.#running = this.#run();
  }

  /** The newest cursor; '' if there is none yet. */
  get lastEventId(): string {
    return this.#lastEventId;
  }

  cut(): void {
    this.#socket?.destroy();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.cut();
    await this.#running;
  }

  async #run(): Promise<void> {
    while (!this.#stopped) {
      const port = this.#ports[Math.floor(this.#random() * this.#ports.length)] ?? 0;
      const status = await this.#listen(port);
      if (status === 200) continue;
      this.refusals.set(status, (this.refusals.get(status) ?? 0) + 1);
      await delay(50 + this.#random() * 100);
    }
  }

  /** Resolves with the status when the connection is over. */
  async #listen(port: number): Promise<number> {
    const socket = connect(port, '127.0.0.1');
    this.#socket = socket;
    this.connections += 1;
    const position = this.#lastEventId === '' ? '' : `Last-Event-ID: ${this.#lastEventId}\r\n`;
    socket.write(`GET ${this.#target} HTTP/1.0\r\nX-Service-Key: ${this.#key}\r\n${position}\r\n`);
    socket.setEncoding('utf8');
    // Heartbeats come every 30 s, so after a longer silence the connection is dead.
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
    if (id !== undefined) this.#lastEventId = id;
    const event = /^event: (\w+)$/m.exec(block)?.[1];
    if (event === 'gap') this.seen.push('gap');
    if (event !== 'order' && event !== 'tx') return;
    // The hash is the first element or the last member.
    const hash = /^data: \["0x([0-9a-f]{64})"|"tx_hash":"0x([0-9a-f]{64})"/m.exec(block);
    this.seen.push(this.#numberOf(hash?.[1] ?? hash?.[2] ?? ''));
  }
}
