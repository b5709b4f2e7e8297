/**
 * One fault run: live trading on the devnet while the node's endpoints lie and break, blocks above the final one are
 * reorganised, nats-server, the metadata API and ingest are killed and restarted, and a second ingest runs next to the
 * first. Then trading and faults end, and LEDGER and FEED are compared with the chain's own logs. The seed determines
 * what happens when, counted in matches on the chain, not in time.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { Random } from '../../../infra/local/devnet/random.ts';
import { connectNats, type Nats } from '../../../infra/nats/connection.ts';
import { newestMessage } from '../../../ingest/ledger.ts';
import { answered } from '../../support/service.ts';
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
  /** How often each disturbance happens. */
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
/** Ends a run whose LEDGER makes no progress after the faults. */
const STILL_MS_MAX = 300_000;
/** Chain time after which a shown match counts as never mined; short, so that it happens during a run. */
const PENDING_SECONDS_MAX = 15;
/** A call that anvil lost in a reorg blocks all later ones of its sender, until the sender reads its nonce again. */
const TRADELESS_MS_MAX = 30_000;
/** Ends the wait for the sequels of the last matches. */
const VOID_MS_MAX = 300_000;

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

/** Runs the planned disturbances during trading; ends when all matches are on the chain. */
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
      // Reported at the end, after cleaning up.
      disturbance.catch(() => undefined);
      options.onProgress(`${matches} matches, ${plan.length} disturbances to come`);
    }
    await delay(POLL_MS);
  }
  await Promise.all(running);
}

/** All disturbances with the match at which they begin. Disturbances of one kind never overlap. */
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

/** Waits until LEDGER has the block. Throws if it makes no progress for STILL_MS_MAX. */
async function settled(nats: Nats, block: number, stage: Stage): Promise<void> {
  let reached = -1;
  for (let movedAt = performance.now(); reached < block; ) {
    const range = (await newestMessage(nats))?.range;
    const now = range?.kind === 'blocks' ? range.to : -1;
    if (now > reached) movedAt = performance.now();
    reached = now;
    if (performance.now() - movedAt > STILL_MS_MAX) {
      const reason = stage.restarts.at(-1)?.reason ?? 'running, without any message';
      throw new Error(`LEDGER is stuck at block ${reached} of ${block}; ingest: ${reason}`);
    }
    await delay(POLL_MS);
  }
}

/** Compares until there are no differences, or VOID_MS_MAX, because voids may come after the last match. */
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
