/**
 * Measures what the targets of `npm run bench:feed` deliver to many listeners, and what a listener costs; and how long it
 * takes until all are served again after all were cut at once, by themselves or because every api was killed.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { Listeners, sum } from './feed-listeners.ts';
import type { Fillstream, Target } from './feed-targets.ts';
import { cpuSeconds, residentMiB } from './process-figures.ts';
import { percentile, readable } from './report.ts';

/** Before the base of the memory is taken, for each target. */
const FIRST = 200;
const IDLE_MS = 2_000;
const WARM_SECONDS = 2;
const STORM_MS_MAX = 60_000;
const ASK_MS = 250;

export type Wanted = {
  readonly connections: number;
  /** Each filter lets one in `groups` events through; 1 is no filter. */
  readonly groups: number;
  /** Events a second. */
  readonly rate: number;
  readonly seconds: number;
};

export type Measured = {
  readonly eventsPerSecond: number;
  readonly cores: number;
  /** Of the broker. */
  readonly brokerCores: number;
  readonly p50: number;
  readonly p99: number;
  readonly closed: number;
  /** Resident memory of a listener, idle and after the load. */
  readonly idleKib: number;
  readonly loadedKib: number;
};

type Targets = readonly [Target, ...Target[]];

export async function measure(target: Target, wanted: Wanted): Promise<Measured> {
  const options = { returns: false, samplesAll: wanted.groups > 1 };
  const listeners = new Listeners(wanted.connections, options);
  const measured = await measureOpen([target], listeners, wanted);
  await listeners.end();
  return measured;
}

/** Opens the listeners, each at one of the targets in turn, and leaves them open. */
async function measureOpen(targets: Targets, listeners: Listeners, wanted: Wanted) {
  const { connections, groups, rate } = wanted;
  const [publisher] = targets;
  const places = Array.from({ length: connections }, (_, n) => {
    const target = targets[n % targets.length] ?? publisher;
    return { port: target.port, request: target.request(n, groups) };
  });
  const first = Math.min(FIRST * targets.length, Math.floor(connections / 2));
  const resident = () => sum(targets.map(({ pid }) => residentMiB(pid)));
  const cpu = () => sum(targets.map(({ pid }) => cpuSeconds(pid)));
  const brokerCpu = () => (publisher.brokerPid ? cpuSeconds(publisher.brokerPid) : 0);
  await listeners.open(places.slice(0, first));
  await delay(IDLE_MS);
  const base = resident();
  const kibEach = () => ((resident() - base) * 1_024) / (connections - first);
  await listeners.open(places.slice(first));
  await delay(IDLE_MS);
  const idleKib = kibEach();
  await publisher.publish(rate, WARM_SECONDS, groups);
  await listeners.settled();
  listeners.send('start');
  const [cpuBefore, brokerBefore] = [cpu(), brokerCpu()];
  const startedAtMs = performance.now();
  await publisher.publish(rate, wanted.seconds, groups);
  const seconds = (performance.now() - startedAtMs) / 1_000;
  const [cores, brokerCores] = [cpu() - cpuBefore, brokerCpu() - brokerBefore];
  const loadedKib = kibEach();
  const report = await listeners.report();
  return {
    eventsPerSecond: sum(report.events) / seconds,
    ...{ cores: cores / seconds, brokerCores: brokerCores / seconds },
    ...{ p50: percentile(report.latenciesMs, 0.5), p99: percentile(report.latenciesMs, 0.99) },
    ...{ closed: report.ended, idleKib, loadedKib },
  };
}

export function shown(measured: Measured) {
  const { eventsPerSecond, cores, p50, p99, closed, idleKib, loadedKib } = measured;
  return {
    ...{ 'delivered/s': readable(eventsPerSecond), cores: readable(cores) },
    'delivered/s/core': readable(eventsPerSecond / cores),
    ...{ 'p50, ms': readable(p50), 'p99, ms': readable(p99), cut: closed },
    ...{ 'KiB a listener': readable(idleKib), 'after the load': readable(loadedKib) },
  };
}

/** Many listeners of so many apis, then both ways to cut all of them. */
export async function measureStorms(fillstream: Fillstream, apiCount: number, wanted: Wanted) {
  const { connections: count, rate } = wanted;
  const [one, ...others] = await startApis(fillstream, Array(apiCount).fill(0));
  let apis: Targets = [one, ...others];
  const listeners = new Listeners(count, { returns: true, samplesAll: false });
  const who = { apis: apiCount, listeners: count };
  const load = { ...who, ...shown(await measureOpen(apis, listeners, wanted)) };
  console.log(JSON.stringify(load));
  const storms = [];
  for (const cut of ['listeners', 'apis killed'] as const) {
    await listeners.settled();
    listeners.send('start');
    const publishing = new AbortController();
    const published = publishUntil(publishing.signal, apis[0], rate);
    if (cut === 'listeners') listeners.send('cut');
    else apis = await restarted(fillstream, apis);
    const { openMs, eventMs, refused } = await back(listeners, count);
    publishing.abort();
    const events = await published;
    const { events: heard } = await listeners.settled();
    storms.push({
      ...{ ...who, 'cut by': cut, open: openMs.length, back: eventMs.length },
      ...times('open', openMs),
      ...times('next event', eventMs),
      ...{ refused, 'missing or twice': sum(heard.map((each) => Math.abs(events - each))) },
    });
    console.log(JSON.stringify(storms.at(-1)));
  }
  await listeners.end();
  await Promise.all(apis.map((api) => api.stop()));
  return { load, storms };
}

async function startApis(fillstream: Fillstream, ports: readonly number[]): Promise<Targets> {
  const [first, ...others] = await Promise.all(ports.map((port) => fillstream.startApi(port)));
  if (first === undefined) throw new RangeError('no api');
  return [first, ...others];
}

/** Kills every api at once and starts each again at its port. */
async function restarted(fillstream: Fillstream, apis: Targets): Promise<Targets> {
  for (const { pid } of apis) process.kill(pid, 'SIGKILL');
  await Promise.all(apis.map((api) => api.stop()));
  return startApis(
    fillstream,
    apis.map(({ port }) => port),
  );
}

/** Resolves with the number of events. */
async function publishUntil(signal: AbortSignal, api: Target, rate: number): Promise<number> {
  let events = 0;
  while (!signal.aborted) events += await api.publish(rate, 1, 1);
  return events;
}

/** Resolves when so many listeners have had an event again, or after STORM_MS_MAX. */
async function back(listeners: Listeners, count: number) {
  for (const startedAtMs = performance.now(); ; ) {
    const report = await listeners.report();
    const isOver = performance.now() - startedAtMs > STORM_MS_MAX;
    if (report.eventMs.length >= count || isOver) return report;
    await delay(ASK_MS);
  }
}

function times(what: string, ms: readonly number[]) {
  const at = (part: number) => (ms.length === 0 ? '–' : readable(percentile(ms, part) / 1_000));
  return { [`${what}: p50, s`]: at(0.5), [`${what}: p99`]: at(0.99), [`${what}: last`]: at(1) };
}
