/**
 * Part `listeners` of `npm run bench:feed`: many listeners of one api and of four behind the same NATS. What each costs
 * idle and under load, latency and deliveries per core, and how long it takes until all are served again after all were
 * cut at once, by themselves or because every api was killed. The listeners are in as many processes as the limit on open
 * files requires.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { ReturningOrder, ReturningReport } from './feed-returning.ts';
import { cpuSeconds, residentMiB, type startFillstream, type Target } from './feed-targets.ts';
import { percentile, readable } from './report.ts';

type Fillstream = Awaited<ReturnType<typeof startFillstream>>;

/** Deliveries a second to all listeners: what two cores carry, the listeners themselves included. */
const DELIVERIES = 100_000;
/** Before the base of the memory is taken, for each api. */
const FIRST = 200;
const SAMPLED = 100;
const OPENED_PER_SECOND = 1_000;
const WARM_SECONDS = 5;
const IDLE_MS = 5_000;
const STORM_MS_MAX = 60_000;
const ASK_MS = 250;
/** Half of the quota of an account, because a listener may return before the server has seen it leave. */
const LISTENERS_PER_ACCOUNT = 50;
/** Files of a process that are no listeners. */
const OTHER_FILES = 100;

/** Open files that the system allows a process. */
function filesMax(): number {
  const limits = readFileSync('/proc/self/limits', 'utf8');
  const [, soft = '1024'] = /^Max open files\s+(\d+)/m.exec(limits) ?? [];
  return Number(soft);
}

/** So many keys `measureListeners` needs. */
export const KEYS_A_LISTENER = 100 / LISTENERS_PER_ACCOUNT;

export async function measureListeners(
  fillstream: Fillstream,
  wanted: { readonly listeners: number; readonly apis: number; readonly seconds: number },
) {
  const perProcess = filesMax() - OTHER_FILES;
  const count = Math.min(wanted.listeners, wanted.apis * perProcess);
  const rate = Math.max(1, Math.round(DELIVERIES / count));
  let apis = await Promise.all(Array.from({ length: wanted.apis }, () => fillstream.startApi()));
  const [publisher] = apis;
  if (publisher === undefined) throw new RangeError('no api');
  const clients = new Clients(fillstream, apis, count, perProcess);
  // So that every listener begins with a cursor.
  await publisher.publish(10, 1, 1);
  await clients.open(FIRST * apis.length);
  await delay(IDLE_MS);
  const base = resident(apis);
  await clients.open(count - FIRST * apis.length);
  await delay(IDLE_MS);
  const kibEach = () => readable(((resident(apis) - base) * 1_024) / (count - FIRST * apis.length));
  const idle = kibEach();
  await publisher.publish(rate, WARM_SECONDS, 1);
  await clients.settled();
  clients.send('start');
  const cpuBefore = cpu(apis);
  const startedAtMs = performance.now();
  await publisher.publish(rate, wanted.seconds, 1);
  const seconds = (performance.now() - startedAtMs) / 1_000;
  const cores = (cpu(apis) - cpuBefore) / seconds;
  const loaded = kibEach();
  await clients.settled();
  const found = await clients.report();
  const who = { apis: apis.length, listeners: count };
  const load = {
    ...who,
    'base, MiB an api': Math.round(base / apis.length),
    ...{ 'KiB each, idle': idle, 'after the load': loaded, 'events/s': rate },
    'delivered/s': readable(found.events / seconds),
    'cores of the apis': readable(cores),
    'delivered/s/core': readable(found.events / seconds / cores),
    'p50, ms': readable(percentile(found.latenciesMs, 0.5)),
    'p99, ms': readable(percentile(found.latenciesMs, 0.99)),
    ...{ missing: found.missing, cut: found.ended },
  };
  console.log(JSON.stringify(load));
  const storms = [];
  for (const cut of ['listeners', 'apis killed'] as const) {
    clients.send('start');
    const publishing = new AbortController();
    const published = publishUntil(publishing.signal, publisher, rate);
    if (cut === 'listeners') clients.send('cut');
    else apis = await restarted(fillstream, apis);
    const storm = await clients.back(count);
    publishing.abort();
    await published;
    await clients.settled();
    const last = await clients.report();
    storms.push({
      ...{ ...who, 'cut by': cut, open: storm.openMs.length, back: storm.eventMs.length },
      ...times('open', storm.openMs),
      ...times('next event', storm.eventMs),
      ...{ refused: storm.refused, missing: last.missing },
    });
    console.log(JSON.stringify(storms.at(-1)));
  }
  await clients.end();
  await Promise.all(apis.map((api) => api.stop()));
  return { load, storms };
}

const resident = (apis: readonly Target[]) =>
  apis.reduce((sum, { pid }) => sum + residentMiB(pid), 0);
const cpu = (apis: readonly Target[]) => apis.reduce((sum, { pid }) => sum + cpuSeconds(pid), 0);

function times(what: string, ms: readonly number[]) {
  const at = (part: number) => (ms.length === 0 ? '–' : readable(percentile(ms, part) / 1_000));
  return { [`${what}: p50, s`]: at(0.5), [`${what}: p99`]: at(0.99), [`${what}: last`]: at(1) };
}

async function publishUntil(signal: AbortSignal, api: Target, rate: number): Promise<void> {
  while (!signal.aborted) await api.publish(rate, 1, 1);
}

/** Kills every api at once and starts each again at its port. */
async function restarted(fillstream: Fillstream, apis: readonly Target[]): Promise<Target[]> {
  for (const { pid } of apis) process.kill(pid, 'SIGKILL');
  await Promise.all(apis.map((api) => api.stop()));
  return await Promise.all(apis.map(({ port }) => fillstream.startApi(port)));
}

/** All listeners, in several processes; listener n is at api n modulo their number. */
class Clients {
  readonly #fillstream: Fillstream;
  readonly #apis: readonly Target[];
  readonly #processes: readonly ChildProcess[];
  #opened = 0;

  constructor(fillstream: Fillstream, apis: readonly Target[], count: number, perProcess: number) {
    this.#fillstream = fillstream;
    this.#apis = apis;
    const module = fileURLToPath(new URL('feed-returning.ts', import.meta.url));
    this.#processes = Array.from({ length: Math.ceil(count / perProcess) }, () =>
      fork(module, { serialization: 'advanced' }),
    );
  }

  async open(count: number): Promise<void> {
    const numbers = Array.from({ length: count }, (_, n) => this.#opened + n);
    this.#opened += count;
    await Promise.all(
      this.#processes.map(async (child, at) => {
        const listeners = numbers
          .filter((n) => n % this.#processes.length === at)
          .map((n) => ({
            port: this.#apis[n % this.#apis.length]?.port ?? 0,
            key: this.#fillstream.key(n * KEYS_A_LISTENER),
          }));
        const sampleEvery = Math.ceil(count / SAMPLED);
        const openedPerSecond = OPENED_PER_SECOND / this.#processes.length;
        child.send({ listeners, sampleEvery, openedPerSecond } satisfies ReturningOrder);
        await once(child, 'message');
      }),
    );
  }

  send(what: 'start' | 'cut'): void {
    for (const child of this.#processes) child.send(what);
  }

  async report(): Promise<ReturningReport> {
    const reports = await Promise.all(
      this.#processes.map(async (child) => {
        child.send('report');
        const [report] = (await once(child, 'message')) as [ReturningReport];
        return report;
      }),
    );
    const sum = (of: 'events' | 'missing' | 'ended' | 'refused') =>
      reports.reduce((all, report) => all + report[of], 0);
    return {
      ...{ events: sum('events'), missing: sum('missing') },
      ...{ ended: sum('ended'), refused: sum('refused') },
      latenciesMs: reports.flatMap((report) => report.latenciesMs),
      openMs: reports.flatMap((report) => report.openMs),
      eventMs: reports.flatMap((report) => report.eventMs),
    };
  }

  /** Resolves when no more events arrive. */
  async settled(): Promise<void> {
    for (let before = -1; ; ) {
      const { events } = await this.report();
      if (events === before) return;
      before = events;
      await delay(2 * ASK_MS);
    }
  }

  /** Resolves when so many listeners have had an event again, or after STORM_MS_MAX. */
  async back(count: number): Promise<ReturningReport> {
    for (const startedAtMs = performance.now(); ; ) {
      const report = await this.report();
      const isOver = performance.now() - startedAtMs > STORM_MS_MAX;
      if (report.eventMs.length >= count || isOver) return report;
      await delay(ASK_MS);
    }
  }

  async end(): Promise<void> {
    await Promise.all(
      this.#processes.map(async (child) => {
        const exit = once(child, 'exit');
        child.disconnect();
        await exit;
      }),
    );
  }
}
