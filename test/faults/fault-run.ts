/**
 * One fault run: live trading on the devnet while the node's endpoints lie and break, blocks are
 * reorganised above the final one, nats-server, the metadata API and ingest are killed and started
 * again, and a second ingest runs beside the first; then the chain stands still, the faults end, and
 * LEDGER and FEED are held against the chain's own logs. What happens when is drawn from the seed, by
 * matches on the chain and not by the clock.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { Random } from '../../infra/local/devnet/random.ts';
import { connectNats, type Nats } from '../../infra/nats/connection.ts';
import { newestMessage } from '../../ingest/ledger.ts';
import { answered } from '../e2e/service.ts';
import { blockNumber, chainFacts, type Fact } from './chain-facts.ts';
import { type CompareOptions, type Comparison, compare } from './compare.ts';
import { type Fault, type Rates, sumCounts } from './rates.ts';
import { reorganise } from './reorg.ts';
import { type Restart, Stage } from './stage.ts';

export type FaultRunOptions = {
  readonly directory: string;
  readonly seed: string;
  /** Live matches to trade. */
  readonly matches: number;
  readonly matchesPerSecond: number;
  readonly blockSeconds: number;
  readonly endpoints: number;
  readonly rates: Rates;
  /** How often each happens in the run. */
  readonly reorgs: number;
  readonly natsKills: number;
  readonly gammaOutages: number;
  readonly endpointOutages: number;
  readonly ingestKills: number;
  /** A second ingest runs until one of the two is refused. */
  readonly rivals: number;
  readonly onProgress: (line: string) => void;
};

export type FaultRun = Comparison & {
  readonly injected: ReadonlyMap<Fault, number>;
  readonly reorgs: number;
  readonly reorganisedMatches: number;
  readonly replacedMatches: number;
  readonly natsKills: number;
  readonly gammaOutages: number;
  readonly endpointOutages: number;
  readonly ingestKills: number;
  readonly rivals: number;
  readonly restarts: readonly Restart[];
  readonly tradingSeconds: number;
  readonly settlingSeconds: number;
  readonly ingestMemoryMax: number;
};

const HISTORY_MATCHES = 300;
const POLL_MS = 100;
const NATS_DOWN_MS_MAX = 3_000;
const ENDPOINT_DOWN_MS_MAX = 6_000;
const GAMMA_DOWN_MS_MAX = 8_000;
/** anvil's finalized block is two behind the head. */
const REORG_BLOCKS_MAX = 2;
/** LEDGER must come nearer to the head within this time once the faults have ended. */
const STILL_MS_MAX = 60_000;
/** Chain time after which a shown match counts as never mined: short, so that a run sees it. */
const PENDING_SECONDS_MAX = 15;
/** A call that anvil lost in a reorg holds up all later ones of its sender, until it is read afresh. */
const TRADELESS_MS_MAX = 30_000;
/** That and some blocks, for what the last matches still cause. */
const VOID_MS_MAX = 30_000;

type Tally = { reorgs: number; moved: number; replaced: number; reorganising: Promise<void> };

export async function runFaults(options: FaultRunOptions): Promise<FaultRun> {
  const { directory, seed, endpoints, matchesPerSecond, blockSeconds } = options;
  const stage = await Stage.open({
    directory,
    seed,
    endpoints,
    devnet: [
      ...['--history-matches', String(HISTORY_MATCHES), '--history-days', '1'],
      ...['--demo-rate', String(matchesPerSecond), '--block-time', String(blockSeconds)],
    ],
  });
  let nats: Nats | undefined;
  try {
    await stage.startIngest({ PENDING_SECONDS_MAX: String(PENDING_SECONDS_MAX) });
    const liveAfter = await blockNumber(stage.rpcUrl, 'latest');
    const startedAt = performance.now();
    for (const proxy of stage.proxies) proxy.set(options.rates);
    const tally: Tally = { reorgs: 0, moved: 0, replaced: 0, reorganising: Promise.resolve() };
    await disturb(stage, options, liveAfter, tally);
    const frozenAt = performance.now();
    await stage.freezeChain();
    for (const proxy of stage.proxies) proxy.set({});
    const head = await blockNumber(stage.rpcUrl, 'latest');
    const facts = await chainFacts(stage.rpcUrl, 0, head);
    const last = facts.at(-1)?.block ?? 0;
    nats = await connectNats({ url: stage.natsUrl, name: 'fault run' });
    await settled(nats, last, stage);
    const comparison = await comparedPatiently({ nats, rpcUrl: stage.rpcUrl, facts, liveAfter });
    return {
      ...comparison,
      injected: sumCounts(stage.proxies.map(({ counts }) => counts)),
      reorgs: tally.reorgs,
      reorganisedMatches: tally.moved,
      replacedMatches: tally.replaced,
      natsKills: options.natsKills,
      gammaOutages: options.gammaOutages,
      endpointOutages: options.endpointOutages,
      ingestKills: options.ingestKills,
      rivals: options.rivals,
      restarts: stage.restarts,
      tradingSeconds: (frozenAt - startedAt) / 1_000,
      settlingSeconds: (performance.now() - frozenAt) / 1_000,
      ingestMemoryMax: stage.ingestMemoryMax,
    };
  } finally {
    await nats?.close();
    await stage.close();
  }
}

type Disturbance = { readonly atMatch: number; readonly run: () => Promise<void> };

/** Runs the plan of disturbances while the matches come in; ends when they are all on the chain. */
async function disturb(
  stage: Stage,
  options: FaultRunOptions,
  liveAfter: number,
  tally: Tally,
): Promise<void> {
  const plan = planOf(stage, options, tally);
  const running: Promise<void>[] = [];
  let matches = 0;
  let grownAt = performance.now();
  let next = liveAfter + 1;
  while (matches < options.matches || plan.length > 0) {
    const first = next;
    await tally.reorganising;
    const [final, facts] = await answered(async () => {
      const number = await blockNumber(stage.rpcUrl, 'finalized');
      return [number, await chainFacts(stage.rpcUrl, first, number)] as const;
    });
    const found = facts.filter(isMatch).length;
    matches += found;
    if (found > 0) grownAt = performance.now();
    else if (performance.now() - grownAt > TRADELESS_MS_MAX) {
      stage.restartTraders();
      grownAt = performance.now();
    }
    next = Math.max(next, final + 1);
    while (plan[0] !== undefined && plan[0].atMatch <= matches) {
      const disturbance = plan.shift()?.run() ?? Promise.resolve();
      running.push(disturbance);
      // Reported at the end, when the stage can be cleared.
      disturbance.catch(() => undefined);
      options.onProgress(`${matches} matches, ${plan.length} disturbances to come`);
    }
    await delay(POLL_MS);
  }
  await Promise.all(running);
}

/** All disturbances by the match at which they begin. Those of one kind never overlap. */
function planOf(stage: Stage, options: FaultRunOptions, tally: Tally): Disturbance[] {
  const { seed, matches } = options;
  const random = new Random(`${seed}:plan`);
  const spread = (count: number, run: () => Promise<void>): Disturbance[] => {
    let previous = Promise.resolve();
    const one = () => {
      previous = previous.then(run);
      return previous;
    };
    return Array.from({ length: count }, () => ({ atMatch: random.below(matches), run: one }));
  };
  const pause = (msMax: number) => delay(random.below(msMax));
  const plan = [
    ...spread(options.reorgs, async () => {
      const blocks = 1 + random.below(REORG_BLOCKS_MAX);
      tally.reorganising = answered(() =>
        stage.whileNobodyAsks(async () => {
          const reorg = await reorganise(stage.rpc, blocks, random);
          tally.reorgs += 1;
          tally.moved += reorg.moved;
          tally.replaced += reorg.replaced;
        }),
      );
      await tally.reorganising;
    }),
    ...spread(options.natsKills, async () => {
      await stage.killNats();
      await pause(NATS_DOWN_MS_MAX);
      await stage.reviveNats();
    }),
    ...spread(options.gammaOutages, async () => {
      stage.gamma.down();
      await pause(GAMMA_DOWN_MS_MAX);
      stage.gamma.up();
    }),
    ...spread(options.endpointOutages, async () => {
      const proxy = random.pick(stage.proxies);
      proxy.down();
      await pause(ENDPOINT_DOWN_MS_MAX);
      proxy.up();
    }),
    ...spread(options.ingestKills, async () => stage.killIngest()),
    ...spread(options.rivals, () => stage.rivalIngest()),
  ];
  return plan.sort((a, b) => a.atMatch - b.atMatch);
}

/** Waits until LEDGER has closed the block. Throws when it stands still for STILL_MS_MAX. */
async function settled(nats: Nats, block: number, stage: Stage): Promise<void> {
  let reached = -1;
  for (let movedAt = performance.now(); reached < block; ) {
    const range = (await newestMessage(nats))?.range;
    const now = range?.kind === 'blocks' ? range.to : -1;
    if (now > reached) movedAt = performance.now();
    reached = now;
    if (performance.now() - movedAt > STILL_MS_MAX) {
      const words = stage.restarts.at(-1)?.reason ?? 'it runs and says nothing';
      throw new Error(`LEDGER stands at block ${reached} of ${block}; ingest: ${words}`);
    }
    await delay(POLL_MS);
  }
}

/** A void may come later than the last match: compares again until all holds, or VOID_MS_MAX. */
async function comparedPatiently(options: CompareOptions): Promise<Comparison> {
  const until = performance.now() + VOID_MS_MAX;
  for (;;) {
    const comparison = await compare(options);
    if (comparison.differences.length === 0 || performance.now() > until) return comparison;
    await delay(POLL_MS);
  }
}

function isMatch({ kind }: Fact): boolean {
  return kind === 'match';
}
