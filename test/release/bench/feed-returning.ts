/**
 * Listeners that come back, in their own process: each keeps the id of its last event, and resumes after it when its
 * connection has ended. They check that no event is missing, and measure the time until each is served again.
 */
import { connect } from 'node:net';
import { sequenceOf } from '../../../api/feed/cursor.ts';
import { microsecondsNow } from './feed-load.ts';
import { get } from './feed-targets.ts';

export type ReturningOrder = {
  /** One listener each, at the port of its api. */
  readonly listeners: readonly { readonly port: number; readonly key: string }[];
  readonly openedPerSecond: number;
  /** Latencies are kept for one in this many listeners. */
  readonly sampleEvery: number;
};

export type ReturningReport = {
  readonly events: number;
  readonly missing: number;
  readonly latenciesMs: readonly number[];
  /** Connections that ended, and requests that were refused or not answered. */
  readonly ended: number;
  readonly refused: number;
  /** For each listener that was cut: milliseconds until the response, and until the next event. */
  readonly openMs: readonly number[];
  readonly eventMs: readonly number[];
};

class Listener {
  readonly #port: number;
  readonly #key: string;
  readonly #isSampled: boolean;
  #cursor = 0;
  #cutAtMs: number | undefined;
  #rest: Buffer = Buffer.alloc(0);
  #hang: () => void = () => undefined;

  constructor(port: number, key: string, isSampled: boolean) {
    this.#port = port;
    this.#key = key;
    this.#isSampled = isSampled;
  }

  /** Resolves with the first response; connects again for ever. */
  open(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const fields = { 'X-Service-Key': this.#key, 'Last-Event-ID': String(this.#cursor || '') };
    const socket = connect(this.#port, '127.0.0.1');
    socket.setNoDelay(true);
    socket.write(get('/v1/stream/orders', fields));
    this.#rest = Buffer.alloc(0);
    this.#hang = () => socket.destroy();
    let isOpen = false;
    socket.once('data', (head) => {
      if (!head.includes(' 200 ')) {
        socket.destroy();
        return;
      }
      isOpen = true;
      if (this.#cutAtMs !== undefined) openMs.push(performance.now() - this.#cutAtMs);
      resolve();
    });
    socket.on('data', (chunk) => {
      if (isOpen) this.#read(chunk);
    });
    socket.on('error', () => undefined);
    socket.on('close', () => {
      if (isOpen) ended += 1;
      else refused += 1;
      this.#cutAtMs ??= performance.now();
      // At once after a cut; a refused client waits.
      setTimeout(
        () => void this.open().then(resolve),
        isOpen ? 0 : (RETRY_MS * (1 + Math.random())) / 2,
      );
    });
    return promise;
  }

  cut(): void {
    this.#hang();
  }

  #read(chunk: Buffer): void {
    const text = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    let from = 0;
    for (;;) {
      const at = text.indexOf(ID, from);
      const end = at === -1 ? -1 : text.indexOf('\n\n', at);
      if (end === -1) {
        this.#rest = text.subarray(at === -1 ? Math.max(from, text.length - ID.length + 1) : at);
        return;
      }
      this.#take(text.toString('latin1', at + ID.length, Math.min(end, at + HEAD_BYTES)));
      from = end;
    }
  }

  /** The beginning of a block after `id: `. Without an event it only moves the cursor. */
  #take(block: string): void {
    const before = this.#cursor;
    this.#cursor = Number.parseInt(block, 10);
    const hash = block.indexOf(HASH);
    if (hash === -1) return;
    events += 1;
    if (before !== 0) missing += Math.abs(sequenceOf(this.#cursor) - sequenceOf(before) - 1);
    if (this.#cutAtMs !== undefined) {
      eventMs.push(performance.now() - this.#cutAtMs);
      this.#cutAtMs = undefined;
    } else if (this.#isSampled) {
      const digits = block.slice(hash + HASH.length, hash + HASH.length + 64);
      latenciesMs.push((microsecondsNow() - Number.parseInt(digits.slice(-14), 16)) / 1_000);
    }
  }
}

const ID = Buffer.from('id: ');
const HASH = 'data: ["0x';
/** Contains the id and the hash of an event. */
const HEAD_BYTES = 160;
/** As the feed tells its clients; half of it at least. */
const RETRY_MS = 2_000;

const listeners: Listener[] = [];
let [events, missing, ended, refused] = [0, 0, 0, 0];
let latenciesMs: number[] = [];
let openMs: number[] = [];
let eventMs: number[] = [];

process.on('message', (message: ReturningOrder | 'start' | 'cut' | 'report') => {
  if (message === 'start') {
    [events, missing, ended, refused] = [0, 0, 0, 0];
    [latenciesMs, openMs, eventMs] = [[], [], []];
  } else if (message === 'cut') {
    for (const listener of listeners) listener.cut();
  } else if (message === 'report') {
    const counts = { events, missing, ended, refused };
    process.send?.({ ...counts, latenciesMs, openMs, eventMs } satisfies ReturningReport);
  } else void open(message);
});
process.on('disconnect', () => process.exit(0));

async function open(order: ReturningOrder): Promise<void> {
  await Promise.all(
    order.listeners.map(async ({ port, key }, n) => {
      await new Promise((resolve) => setTimeout(resolve, (n / order.openedPerSecond) * 1_000));
      const listener = new Listener(port, key, n % order.sampleEvery === 0);
      listeners.push(listener);
      await listener.open();
    }),
  );
  process.send?.('ready');
}
