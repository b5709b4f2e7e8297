/** Measures what a target of `npm run bench:feed` delivers, and what a listener costs. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { LoadOrder, LoadReport } from './feed-load.ts';
import { cpuSeconds, residentMiB, type Target } from './feed-targets.ts';
import { percentile } from './report.ts';

const WARM_SECONDS = 2;
const SAMPLED = 100;
const OPENED_PER_SECOND = 1_000;
const IDLE_MS = 2_000;

export type Measured = {
  readonly eventsPerSecond: number;
  readonly cores: number;
  /** Of the broker. */
  readonly brokerCores: number;
  readonly p50: number;
  readonly p99: number;
  readonly closed: number;
};

export async function measure(
  target: Target,
  wanted: {
    readonly connections: number;
    readonly groups: number;
    readonly rate: number;
    readonly seconds: number;
  },
): Promise<Measured> {
  const { connections, groups, rate } = wanted;
  const load = startLoad();
  load.send({
    port: target.port,
    requests: Array.from({ length: connections }, (_, n) => target.request(n, groups)),
    sampleEvery: groups > 1 ? 1 : Math.ceil(connections / SAMPLED),
    openedPerSecond: OPENED_PER_SECOND,
  } satisfies LoadOrder);
  await once(load, 'message');
  await target.publish(rate, WARM_SECONDS, groups);
  await drained(load);
  load.send('start');
  const broker = () => (target.brokerPid === undefined ? 0 : cpuSeconds(target.brokerPid));
  const [cpuBefore, brokerBefore] = [cpuSeconds(target.pid), broker()];
  const startedAtMs = performance.now();
  await target.publish(rate, wanted.seconds, groups);
  const seconds = (performance.now() - startedAtMs) / 1_000;
  const cpu = cpuSeconds(target.pid) - cpuBefore;
  const brokerCpu = broker() - brokerBefore;
  const report = await reported(load);
  await ended(load);
  return {
    eventsPerSecond: report.events / seconds,
    cores: cpu / seconds,
    brokerCores: brokerCpu / seconds,
    p50: percentile(report.latenciesMs, 0.5),
    p99: percentile(report.latenciesMs, 0.99),
    closed: report.closed,
  };
}

async function reported(load: ChildProcess): Promise<LoadReport> {
  load.send('report');
  const [report] = (await once(load, 'message')) as [LoadReport];
  return report;
}

/** Resolves when no more events arrive. */
async function drained(load: ChildProcess): Promise<void> {
  do {
    load.send('start');
    await delay(500);
  } while ((await reported(load)).events > 0);
}

/** KiB of resident memory of an idle listener without a filter, after the first ones. */
export async function memoryOfListener(
  target: Target,
  first: number,
  listeners: number,
): Promise<number> {
  const load = startLoad();
  let opened = 0;
  const open = async (count: number) => {
    const requests = Array.from({ length: count }, (_, n) => target.request(opened + n, 1));
    const order = { sampleEvery: count, openedPerSecond: OPENED_PER_SECOND };
    load.send({ ...order, port: target.port, requests } satisfies LoadOrder);
    await once(load, 'message');
    opened += count;
    await delay(IDLE_MS);
    return residentMiB(target.pid);
  };
  const before = await open(first);
  const after = await open(listeners);
  await ended(load);
  return ((after - before) * 1_024) / listeners;
}

function startLoad(): ChildProcess {
  const module = fileURLToPath(new URL('feed-load.ts', import.meta.url));
  return fork(module, { serialization: 'advanced' });
}

async function ended(load: ChildProcess): Promise<void> {
  const exit = once(load, 'exit');
  load.disconnect();
  await exit;
}
