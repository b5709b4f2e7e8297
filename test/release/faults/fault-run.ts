/**
 * One fault run: live trading on the devnet while the node's endpoints lie and break, blocks above the final one are
 * reorganised, nats-server, the metadata API and ingest are killed and restarted, and a second ingest runs next to the
 * first. Then trading and faults end, and LEDGER and FEED are compared with the chain's own logs. The seed determines
 * what happens when, counted in matches on the chain, not in time.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { connectNats, type Nats } from '../../../infra/nats/connection.ts';
import { newestMessage } from '../../../ingest/ledger/ledger.ts';
import { Random } from '../../../local/devnet/random.ts';
import { storedFacts } from '../../support/chain-facts.ts';
import { answered } from '../../support/service.ts';
import { blockNumber, chainFacts } from './chain-facts.ts';
import { compare } from './compare.ts';
import { ROUGH, sumCounts } from './rates.ts';
import { reorganise } from './reorg.ts';
import type { Given } from './run.ts';
import { openStage, type Stage } from './stage.ts';

type FaultRunOptions = Given & {
  /** Live matches to trade. */
  readonly matches: number;
};

const MATCHES_PER_SECOND = 60;
/** How often each disturbance happens; a rival is a second ingest, which runs until one of the two is refused. */
const MATCHES_PER = {
  reorg: 150,
  natsKill: 1_000,
  gammaOutage: 1_000,
  endpointOutage: 500,
  ingestKill: 4_000,
  rival: 4_000,
};
const HISTORY_MATCHES = 300;
const ENDPOINTS = 3;
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

type Disturbances = Readonly<Record<keyof typeof MATCHES_PER, () => Promise<void>>>;

export async function runFaults(options: FaultRunOptions) {
  const { directory, seed } = options;
  const stage = await openStage({
    ...{ directory, seed, endpoints: ENDPOINTS },
    devnet: [
      ...['--history-matches', String(HISTORY_MATCHES), '--history-days', '1'],
      ...['--demo-rate', String(MATCHES_PER_SECOND), '--block-time', '1'],
    ],
  });
  let nats: Nats | undefined;
  try {
    await stage.startIngest({ PENDING_SECONDS_MAX: String(PENDING_SECONDS_MAX) });
    const liveAfter = await blockNumber(stage.rpcUrl, 'latest');
    for (const proxy of stage.proxies) proxy.set(ROUGH);
    const disturbed = await disturb(stage, options, liveAfter);
    await stage.freezeChain();
    for (const proxy of stage.proxies) proxy.set({});
    const head = await blockNumber(stage.rpcUrl, 'latest');
    const facts = await storedFacts(stage.rpcUrl, head);
    nats = await connectNats({ url: stage.natsUrl, name: 'fault run' });
    await settled(nats, facts.at(-1)?.block ?? 0, stage);
    const until = performance.now() + VOID_MS_MAX;
    for (;;) {
      const comparison = await compare({ nats, rpcUrl: stage.rpcUrl, facts, liveAfter });
      // Voids may come after the last match.
      if (comparison.differences.length > 0 && performance.now() < until) await delay(POLL_MS);
      else {
        const injected = sumCounts(stage.proxies.map(({ counts }) => counts));
        return { ...comparison, ...disturbed, injected, restarts: stage.restarts };
      }
    }
  } finally {
    await nats?.close();
    await stage.close();
  }
}

/** Runs the planned disturbances during trading; ends when all matches are on the chain. Returns what was done. */
async function disturb(stage: Stage, options: FaultRunOptions, liveAfter: number) {
  const random = new Random(`${options.seed}:plan`);
  const done = { moved: 0, replaced: 0 };
  let reorganising = Promise.resolve();
  const plan = planOf(random, options.matches, {
    async reorg() {
      const blocks = 1 + random.below(REORG_BLOCKS_MAX);
      reorganising = answered(() =>
        stage.whileNobodyAsks(async () => {
          const { moved, replaced } = await reorganise(stage.rpc, blocks, random);
          done.moved += moved;
          done.replaced += replaced;
        }),
      );
      await reorganising;
    },
    async natsKill() {
      await stage.killNats();
      await delay(random.below(NATS_DOWN_MS_MAX));
      await stage.reviveNats();
    },
    async gammaOutage() {
      stage.gamma.down();
      await delay(random.below(GAMMA_DOWN_MS_MAX));
      stage.gamma.up();
    },
    async endpointOutage() {
      const proxy = random.pick(stage.proxies);
      proxy.down();
      await delay(random.below(ENDPOINT_DOWN_MS_MAX));
      proxy.up();
    },
    ingestKill: async () => stage.killIngest(),
    rival: () => stage.rivalIngest(),
  });
  const disturbances = Object.fromEntries(
    [...Map.groupBy(plan, ({ name }) => name)].map(([name, { length }]) => [name, length]),
  );
  const running: Promise<void>[] = [];
  let matches = 0;
  let grownAt = performance.now();
  let next = liveAfter + 1;
  while (matches < options.matches || plan.length > 0) {
    const first = next;
    await reorganising;
    const [final, facts] = await answered(async () => {
      const number = await blockNumber(stage.rpcUrl, 'finalized');
      return [number, await chainFacts(stage.rpcUrl, first, number)] as const;
    });
    const found = facts.filter(({ kind }) => kind === 'match').length;
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
  return { disturbances, ...done };
}

/** All disturbances with the match at which they begin. Disturbances of one kind never overlap. */
function planOf(random: Random, matches: number, disturbances: Disturbances) {
  const plan = Object.entries(disturbances).flatMap(([name, run]) => {
    let previous = Promise.resolve();
    const one = () => {
      previous = previous.then(run);
      return previous;
    };
    const length = Math.ceil(matches / MATCHES_PER[name as keyof Disturbances]);
    return Array.from({ length }, () => ({ name, atMatch: random.below(matches), run: one }));
  });
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
