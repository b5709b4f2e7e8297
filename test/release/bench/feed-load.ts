/**
 * The listeners of `npm run bench:feed`, in their own process: opens event streams, counts events and,
 * for some connections, measures the time since each was published. It searches for one byte pattern and
 * parses nothing else, so that it costs less than the server that is measured.
 */
import { connect } from 'node:net';

/** Requests to send, one per connection. */
export type LoadOrder = {
  readonly port: number;
  readonly requests: readonly string[];
  /** Latencies are kept for one in this many connections. */
  readonly sampleEvery: number;
  /** Connections opened per second. */
  readonly openedPerSecond: number;
};

export type LoadReport = {
  readonly events: number;
  readonly bytes: number;
  readonly closed: number;
  /** Milliseconds, of the sampled connections. */
  readonly latenciesMs: readonly number[];
};

/** Microseconds of a clock that all processes of the machine share. */
export function microsecondsNow(): number {
  return Number(process.hrtime.bigint() / 1_000n);
}

/** An event's hash is its publishing time in hexadecimal; each one is later than the last. */
export function timeHash(): `0x${string}` {
  microseconds = Math.max(microsecondsNow(), microseconds + 1);
  return `0x${microseconds.toString(16).padStart(64, '0')}`;
}

let microseconds = 0;

const NEEDLE = Buffer.from('data: ["0x');
const HASH_DIGITS = 64;
const TIME_DIGITS = 14;
const KEPT_MAX = 2_000_000;

if (process.argv[1] === import.meta.filename) {
  process.on('message', (message: LoadOrder | 'start' | 'report') => {
    if (message === 'start') reset();
    else if (message === 'report') report();
    else void open(message);
  });
  process.on('disconnect', () => process.exit(0));
}

let events = 0;
let bytes = 0;
let closed = 0;
let latenciesMs: number[] = [];

function reset(): void {
  events = 0;
  bytes = 0;
  closed = 0;
  latenciesMs = [];
}

function report(): void {
  process.send?.({ events, bytes, closed, latenciesMs } satisfies LoadReport);
}

async function open(order: LoadOrder): Promise<void> {
  const opened = order.requests.map(async (request, n) => {
    await new Promise((resolve) => setTimeout(resolve, (n / order.openedPerSecond) * 1_000));
    await listen(order.port, request, n % order.sampleEvery === 0);
  });
  await Promise.all(opened);
  process.send?.('ready');
}

/** Resolves with the first bytes of the response. */
function listen(port: number, request: string, isSampled: boolean): Promise<void> {
  const socket = connect(port, '127.0.0.1');
  socket.setNoDelay(true);
  socket.write(request);
  let rest: Buffer = Buffer.alloc(0);
  return new Promise((resolve) => {
    socket.once('data', (head) => {
      if (!head.includes(' 200 ')) {
        console.error(String(head.subarray(0, 300)));
        process.exit(1);
      }
      resolve();
    });
    socket.on('data', (chunk) => {
      bytes += chunk.length;
      const text = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
      rest = count(text, isSampled);
    });
    socket.on('close', () => {
      closed += 1;
    });
    socket.on('error', () => undefined);
  });
}

/** Counts events, and returns the rest, which may begin another one. */
function count(text: Buffer, isSampled: boolean): Buffer {
  let from = 0;
  for (;;) {
    const at = text.indexOf(NEEDLE, from);
    if (at === -1) return text.subarray(Math.max(from, text.length - NEEDLE.length + 1));
    const end = at + NEEDLE.length + HASH_DIGITS;
    if (end > text.length) return text.subarray(at);
    events += 1;
    from = end;
    if (!isSampled || latenciesMs.length >= KEPT_MAX) continue;
    const sentAt = Number.parseInt(text.toString('latin1', end - TIME_DIGITS, end), 16);
    latenciesMs.push((microsecondsNow() - sentAt) / 1_000);
  }
}
