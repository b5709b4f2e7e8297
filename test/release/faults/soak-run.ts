import { setTimeout as delay } from 'node:timers/promises';
import { storedFacts } from '../../support/chain-facts.ts';
import { allDifferences, recomputed } from '../../support/reconcile.ts';
import { generator } from '../../support/seed.ts';
import { answered, projectedTo } from '../../support/service.ts';
import { blockNumber, chainFacts } from './chain-facts.ts';
import { compare } from './compare.ts';
import { type Listeners, newKey } from './listeners.ts';
import { Disturber, KILLED, MEMORY_UNTIL, planOf } from './soak-faults.ts';
import { openSoakListeners, tradedNames } from './soak-listeners.ts';
import { readLogs } from './soak-logs.ts';
import { MemoryWatch } from './soak-memory.ts';
import { sendRequests } from './soak-requests.ts';
import { openSoakStage, type SoakStage } from './soak-stage.ts';

export type SoakOptions = {
  readonly directory: string;
  readonly seed: number;
  readonly minutes: number;
  readonly matchesPerSecond: number;
  readonly listeners: number;
  readonly requestsPerSecond: number;
  readonly onProgress: (line: string) => void;
};

export type SoakRun = Awaited<ReturnType<typeof runSoak>>;

/** Chain time after which a shown match counts as never mined; short, so that the run ends soon. */
const PENDING_SECONDS_MAX = 30;
/** Mean interval between two cuts of a listener's connection. */
const CUT_EVERY_SECONDS = 120;
const REQUEST_CLIENTS = 4;
const SAMPLE_MS = 2_000;
const TOLD_MS = 30_000;
const SETTLE_MS_MAX = 180_000;
const POLL_MS = 500;
/** Judges only the service's own processes; the devnet and this program keep everything in memory. */
const JUDGED: readonly string[] = [...KILLED, 'supervisor'];

export async function runSoak(options: SoakOptions) {
  const { directory, seed, matchesPerSecond } = options;
  const random = generator(seed);
  const stage = await openSoakStage({
    ...{ directory, seed, matchesPerSecond },
    env: {
      PENDING_SECONDS_MAX: String(PENDING_SECONDS_MAX),
      HTTP_CONNECTIONS_PER_ADDRESS_MAX: String(4 * options.listeners + 100),
    },
  });
  const { service, nats } = stage;
  const liveAfter = await blockNumber(stage.devnet.rpcUrl, 'latest');
  const traded = await tradedNames(service);
  const disturber = new Disturber(stage, random);
  const count = options.listeners;
  const { listeners, end } = await openSoakListeners({ service, nats, count, traded, random });
  const load = await underLoad({ options, stage, traded, disturber, listeners, random });

  process.kill(stage.devnet.process.pid, 'SIGUSR2');
  options.onProgress('trading ends; comparing everything');
  const { comparison, figures } = await compared(stage, liveAfter);
  const listened = await end(stage.nats);
  const restarts = unexplainedRestarts(stage, disturber);
  const code = await stage.close();
  const logs = readLogs(stage.data, disturber.windows);
  const memory = load.memory.filter(({ name }) => JUDGED.includes(name));
  const differences = [
    ...comparison.differences,
    ...figures,
    ...listened.differences,
    ...load.requests.differences,
    ...disturber.differences,
    ...stage.differences,
    ...restarts,
    ...(code === 0 ? [] : [`the service ended with ${code}: ${stage.service.up.errors()}`]),
    ...logs.shown.map((line) => `unexplained, of ${logs.unexplained}: ${line}`),
    ...memory.filter(({ isLevel }) => !isLevel).map(({ name }) => `memory of ${name} grows`),
  ];
  // The logs are on the disk.
  if (differences.length === 0) stage.disk?.remove();
  return {
    comparison,
    listened,
    requests: load.requests,
    faults: disturber.done,
    slowestRecoveryMs: load.slowestRecoveryMs,
    memory: load.memory,
    logs,
    differences,
  };
}

/** Runs for the configured time, and until the last fault is over. */
async function underLoad(run: {
  readonly options: SoakOptions;
  readonly stage: SoakStage;
  readonly traded: Awaited<ReturnType<typeof tradedNames>>;
  readonly disturber: Disturber;
  readonly listeners: Listeners;
  readonly random: () => number;
}) {
  const { options, stage, disturber, listeners, random, traded } = run;
  const { url } = stage.service.ready;
  const durationMs = options.minutes * 60_000;
  const startedAt = performance.now();
  const passed = () => performance.now() - startedAt;
  let isOver = false;
  let slowestRecoveryMs = 0;
  const watch = new MemoryWatch();

  async function disturb(): Promise<void> {
    for (const { atMs, fault } of planOf(durationMs, random)) {
      await delay(Math.max(0, atMs - passed()));
      const { recoveryMs } = await disturber.run(fault);
      slowestRecoveryMs = Math.max(slowestRecoveryMs, recoveryMs);
      options.onProgress(`${clock(passed())} ${fault}: ready after ${Math.round(recoveryMs)} ms`);
    }
    await delay(Math.max(0, durationMs - passed()));
    isOver = true;
  }

  async function watchMemory(): Promise<void> {
    for (let toldAt = 0; !isOver; await delay(SAMPLE_MS)) {
      if (passed() > MEMORY_UNTIL * durationMs) continue;
      const sample = watch.sample(pidsOf(stage));
      if (passed() - toldAt < TOLD_MS && toldAt > 0) continue;
      toldAt = passed();
      const sizes = [...sample].map(([name, bytes]) => `${name} ${Math.round(bytes / 1_048_576)}`);
      options.onProgress(
        `${clock(passed())} ${listeners.received} events; MiB: ${sizes.join(', ')}`,
      );
    }
  }

  const keys: string[] = [];
  for (let n = 0; n < REQUEST_CLIENTS; n += 1) keys.push(await newKey(stage.nats, `requests-${n}`));
  const [requests] = await Promise.all([
    sendRequests({
      url,
      keys,
      perSecond: options.requestsPerSecond,
      traded,
      random,
      isOver: () => isOver,
      disturbance: () => disturber.disturbances,
    }),
    disturb(),
    listeners.cutWhile(() => !isOver, CUT_EVERY_SECONDS, random),
    watchMemory(),
  ]);
  return { requests, slowestRecoveryMs, memory: watch.verdicts() };
}

/** Compares until there are no differences, or SETTLE_MS_MAX: final blocks, voids and projections take a while. */
async function compared({ nats, service, devnet }: SoakStage, liveAfter: number) {
  const { rpcUrl } = devnet;
  const until = performance.now() + SETTLE_MS_MAX;
  const head = await answered(() => emptyHead(rpcUrl));
  const facts = await answered(() => storedFacts(rpcUrl, head));
  const { chain } = await answered(() => recomputed(rpcUrl, devnet.env.GAMMA_URL));
  const projected = answered(() => projectedTo(service, chain.lastFillBlock));
  await Promise.race([projected, delay(SETTLE_MS_MAX)]);
  for (;;) {
    const comparison = await answered(() => compare({ nats, rpcUrl, facts, liveAfter }));
    const figures = await answered(() => allDifferences(service, chain));
    const isEqual = comparison.differences.length + figures.length === 0;
    if (isEqual || performance.now() > until) return { comparison, figures };
    await delay(POLL_MS);
  }
}

/** Number of a block that, like the two before it, has no transaction: the trading is over. */
async function emptyHead(rpcUrl: string): Promise<number> {
  for (;;) {
    const head = await blockNumber(rpcUrl, 'latest');
    const facts = await chainFacts(rpcUrl, Math.max(0, head - 2), head);
    if (facts.length === 0) return head;
    await delay(POLL_MS);
  }
}

/** Processes that ended although no fault killed them. */
function unexplainedRestarts({ lines }: SoakStage, disturber: Disturber): readonly string[] {
  return KILLED.flatMap((name) => {
    const restarts = lines.filter((line) => line.event === 'restarting' && line.name === name);
    const allowed = disturber.restarts.get(name) ?? 0;
    if (restarts.length <= allowed) return [];
    const reasons = restarts.map(({ reason }) => reason).join('; ');
    return [`${name} may start again ${allowed} times and did ${restarts.length}: ${reasons}`];
  });
}

function pidsOf(stage: SoakStage): ReadonlyMap<string, number | undefined> {
  const names = [...KILLED, 'supervisor', 'anvil'];
  return new Map([
    ...names.map((name) => [name, stage.pidOf(name)] as const),
    ['devnet', stage.devnet.process.pid],
    ['this program', process.pid],
  ]);
}

function clock(ms: number): string {
  const seconds = Math.floor(ms / 1_000);
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`;
}
