/**
 * Listeners of `npm run bench:feed`, in their own process: each opens an event stream, counts events and, if it is
 * sampled, measures the time since each was published. Listeners that return resume after their last event when their
 * connection has ended, and measure the time until they are served again. It searches for one byte pattern and parses
 * little else, so that it costs less than the server that is measured.
 */
import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { microsecondsNow } from './paced.ts';

export type Place = {
  readonly port: number;
  readonly request: string;
};

/** Listeners to open, one at each place. */
export type LoadOrder = {
  readonly places: readonly Place[];
  readonly returns: boolean;
  /** Latencies are kept for one in this many listeners. */
  readonly sampleEvery: number;
  readonly openedPerSecond: number;
};

export type LoadReport = {
  /** Of each listener. */
  readonly events: readonly number[];
  /** Milliseconds, of the sampled listeners. */
  readonly latenciesMs: readonly number[];
  /** Connections that ended, and requests that were refused or not answered. */
  readonly ended: number;
  readonly refused: number;
  /** For each listener that returned: milliseconds until the response, and until the next event. */
  readonly openMs: readonly number[];
  readonly eventMs: readonly number[];
};

const NEEDLE = Buffer.from('data: ["0x');
const HASH_DIGITS = 64;
const TIME_DIGITS = 14;
/** Before the needle; contains the id of the event. */
const HEAD_BYTES = 64;
const ID = 'id: ';
const KEPT_MAX = 2_000_000;
/** As the feed tells its clients; half of it at least. */
const RETRY_MS = 2_000;

const listeners: Listener[] = [];
let [ended, refused] = [0, 0];
let latenciesMs: number[] = [];
let openMs: number[] = [];
let eventMs: number[] = [];

class Listener {
  events = 0;
  readonly #place: Place;
  readonly #returns: boolean;
  readonly #isSampled: boolean;
  #socket: Socket | undefined;
  #cursor = 0;
  #cutAtMs: number | undefined;
  #rest: Buffer = Buffer.alloc(0);

  constructor(place: Place, returns: boolean, isSampled: boolean) {
    this.#place = place;
    this.#returns = returns;
    this.#isSampled = isSampled;
  }

  /** Resolves with the first bytes of a response. */
  open(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const socket = connect(this.#place.port, '127.0.0.1');
    socket.setNoDelay(true);
    socket.write(this.#request());
    this.#socket = socket;
    this.#rest = Buffer.alloc(0);
    let isOpen = false;
    socket.once('data', (head) => {
      isOpen = head.includes(' 200 ');
      if (isOpen) {
        if (this.#cutAtMs !== undefined) openMs.push(performance.now() - this.#cutAtMs);
        resolve();
      } else if (this.#returns) socket.destroy();
      else {
        console.error(String(head.subarray(0, 300)));
        process.exit(1);
      }
    });
    socket.on('data', (chunk) => {
      if (isOpen) this.#read(chunk);
    });
    socket.on('error', () => undefined);
    socket.on('close', () => {
      if (isOpen) ended += 1;
      else refused += 1;
      if (!this.#returns) return;
      this.#cutAtMs ??= performance.now();
      // At once after a cut; a refused client waits.
      const waitMs = isOpen ? 0 : (RETRY_MS * (1 + Math.random())) / 2;
      setTimeout(() => void this.open().then(resolve), waitMs);
    });
    return promise;
  }

  cut(): void {
    this.#socket?.destroy();
  }

  #request(): string {
    const { request } = this.#place;
    if (this.#cursor === 0) return request;
    return request.replace(/\r\n$/, `Last-Event-ID: ${this.#cursor}\r\n\r\n`);
  }

  #read(chunk: Buffer): void {
    const text = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    for (let from = 0; ; ) {
      const at = text.indexOf(NEEDLE, from);
      const end = at + NEEDLE.length + HASH_DIGITS;
      if (at === -1 || end > text.length) {
        const head = (at === -1 ? text.length : at) - HEAD_BYTES;
        this.#rest = text.subarray(Math.max(from, head));
        return;
      }
      this.events += 1;
      from = end;
      if (this.#returns) {
        const id = text.lastIndexOf(ID, at) + ID.length;
        this.#cursor = Number.parseInt(text.toString('latin1', id, at), 10);
      }
      if (this.#cutAtMs !== undefined) {
        eventMs.push(performance.now() - this.#cutAtMs);
        this.#cutAtMs = undefined;
      } else if (this.#isSampled && latenciesMs.length < KEPT_MAX) {
        const sentAt = Number.parseInt(text.toString('latin1', end - TIME_DIGITS, end), 16);
        latenciesMs.push((microsecondsNow() - sentAt) / 1_000);
      }
    }
  }
}

process.on('message', (message: LoadOrder | 'start' | 'cut' | 'report') => {
  if (message === 'start') reset();
  else if (message === 'cut') for (const listener of listeners) listener.cut();
  else if (message === 'report') report();
  else void open(message);
});
process.on('disconnect', () => process.exit(0));

function reset(): void {
  for (const listener of listeners) listener.events = 0;
  [ended, refused] = [0, 0];
  [latenciesMs, openMs, eventMs] = [[], [], []];
}

function report(): void {
  const events = listeners.map((listener) => listener.events);
  const found: LoadReport = { events, latenciesMs, ended, refused, openMs, eventMs };
  process.send?.(found);
}

async function open({ places, returns, ...order }: LoadOrder): Promise<void> {
  await Promise.all(
    places.map(async (place, n) => {
      await delay((n / order.openedPerSecond) * 1_000);
      const listener = new Listener(place, returns, n % order.sampleEvery === 0);
      listeners.push(listener);
      await listener.open();
    }),
  );
  process.send?.('ready');
}
