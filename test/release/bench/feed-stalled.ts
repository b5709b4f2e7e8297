/**
 * How stalled readers affect others and the memory of the api process: the latency of 20 readers and the
 * resident memory, alone, beside 200 more that read, and beside 200 that never read.
 */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { market, match } from '../../unit/feed-matches.ts';
import { microsecondsNow, timeHash } from './feed-load.ts';
import { paced, residentMiB, type startFillstream } from './feed-targets.ts';
import { percentile, readable } from './report.ts';

type Fillstream = Awaited<ReturnType<typeof startFillstream>>;

const READERS = 20;
const OTHERS = 200;
/**
 * Normal events, in alternating rounds, and larger ones that fill the socket buffers of the operating
 * system, up to 10 MB each, within seconds, so that the limit of the feed is reached.
 */
const LOADS = [
  { name: '100 of 1 KB', questionBytes: 0, eventsPerSecond: 100, rounds: 5, seconds: 10 },
  { name: '20 of 40 KB', questionBytes: 40_000, eventsPerSecond: 20, rounds: 1, seconds: 30 },
];
type Load = (typeof LOADS)[number];
const KINDS = ['none', 'that read', 'stalled'] as const;
type Kind = (typeof KINDS)[number];
const WARM_SECONDS = 5;
const NEEDLE = Buffer.from('data: ["0x');

/** Medians of the rounds. */
export async function measureStalled(fillstream: Fillstream) {
  const rows = [];
  for (const load of LOADS) {
    const measured = new Map<Kind, Measured[]>(KINDS.map((kind) => [kind, []]));
    for (let round = 0; round < load.rounds; round++) {
      for (const kind of KINDS) measured.get(kind)?.push(await measureOnce(fillstream, load, kind));
    }
    for (const [kind, found] of measured) {
      const of = (figure: keyof Measured) =>
        percentile(
          found.map((one) => one[figure]),
          0.5,
        );
      rows.push({
        'events a second': load.name,
        others: kind === 'none' ? kind : `${OTHERS} ${kind}`,
        'cut at the bound': of('cut'),
        'p50 of the readers, ms': readable(of('p50')),
        'p99, ms': readable(of('p99')),
        'memory before, MiB': Math.round(of('idleMiB')),
        'most, MiB': Math.round(of('mostMiB')),
      });
    }
  }
  return rows;
}

type Measured = Readonly<Record<'cut' | 'p50' | 'p99' | 'idleMiB' | 'mostMiB', number>>;

async function measureOnce(fillstream: Fillstream, load: Load, kind: Kind): Promise<Measured> {
  const api = await fillstream.startApi();
  const latenciesMs: number[] = [];
  const readers = await Promise.all(
    Array.from({ length: READERS }, (_, n) => open(api.port, api.request(n, 1))),
  );
  for (const reader of readers) reader.on('data', (chunk) => hear(chunk, latenciesMs));
  await publish(fillstream, load, WARM_SECONDS);
  const idleMiB = residentMiB(api.pid);
  latenciesMs.length = 0;
  const others = await Promise.all(
    Array.from({ length: kind === 'none' ? 0 : OTHERS }, (_, n) =>
      open(api.port, api.request(READERS + n, 1)),
    ),
  );
  for (const other of others) {
    if (kind === 'stalled') other.pause();
    else other.resume();
  }
  let mostMiB = idleMiB;
  const watching = setInterval(() => {
    mostMiB = Math.max(mostMiB, residentMiB(api.pid));
  }, 100);
  await publish(fillstream, load, load.seconds);
  clearInterval(watching);
  // A disconnected socket still delivers what it holds, then ends.
  const cut = kind === 'stalled' ? await Promise.all(others.map(isCut)) : [];
  for (const socket of [...readers, ...others]) socket.destroy();
  await api.stop();
  return {
    cut: cut.filter(Boolean).length,
    p50: percentile(latenciesMs, 0.5),
    p99: percentile(latenciesMs, 0.99),
    idleMiB,
    mostMiB,
  };
}

async function publish(
  { publishMatch }: Fillstream,
  { questionBytes, eventsPerSecond }: Load,
  seconds: number,
): Promise<void> {
  const question = 'x'.repeat(questionBytes);
  await paced(eventsPerSecond, seconds, async () => {
    await publishMatch(match(1, { txHash: timeHash(), market: market({ question }) }));
  });
  await delay(200);
}

function hear(chunk: Buffer, latenciesMs: number[]): void {
  const at = chunk.indexOf(NEEDLE);
  if (at === -1 || at + 74 > chunk.length) return;
  const sentAt = Number.parseInt(chunk.toString('latin1', at + 60, at + 74), 16);
  latenciesMs.push((microsecondsNow() - sentAt) / 1_000);
}

async function open(port: number, request: string): Promise<Socket> {
  const socket = connect(port, '127.0.0.1');
  socket.on('error', () => undefined);
  socket.write(request);
  await once(socket, 'data');
  return socket;
}

async function isCut(socket: Socket): Promise<boolean> {
  socket.resume();
  const closed = once(socket, 'close').then(() => true);
  return await Promise.race([closed, delay(3_000, false)]);
}
