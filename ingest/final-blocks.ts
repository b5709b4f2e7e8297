/**
 * Final blocks → LEDGER, in chain order. Catch-up, backfill and following the head are one loop: read the final head,
 * prefetch the blocks up to it in parallel ranges, and store them in order. Every block must name its predecessor's hash.
 * If one does not and no endpoint agrees with LEDGER any more, "final" was wrong: ingest stops with an alarm and writes
 * no other history.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Nats } from '../infra/nats/connection.ts';
import type { Balances } from './balances.ts';
import { type RangeCounts, readRange } from './block-range.ts';
import { type BlockFacts, factsOf } from './blocks.ts';
import type { Chain } from './chains.ts';
import { writeEarlierResolutions } from './earlier-resolutions.ts';
import { judgeFork } from './fork.ts';
import { type BlockRef, type FinalBlock, type LedgerWriter, readEnd } from './ledger-writer.ts';
import type { Metadata } from './metadata.ts';
import { type AheadOptions, ahead, patiently, RangeSize } from './prefetch.ts';
import type { FollowProgress } from './progress.ts';
import type { BlockHead, Rpc } from './rpc.ts';

/** Pause before the head is requested again; it grows from the first to the second while nothing is new. */
const POLL_MIN_MS = 150;
const POLL_MAX_MS = 1_000;
/** This near to the head every block gets a message of its own. */
const NEAR_HEAD_BLOCKS = 32;

export type FollowOptions = {
  readonly rpc: Rpc;
  readonly chain: Chain;
  readonly finality: 'finalized' | number;
  /** First block of an empty LEDGER. */
  readonly startBlock: number;
  /** Where to look for resolutions before the first block. */
  readonly resolutionsFrom: number;
  /** Ends after this block; never when left out. */
  readonly toBlock?: number;
  readonly nats: Nats;
  readonly ledger: LedgerWriter;
  readonly metadata: Metadata;
  readonly balances: Balances;
  readonly progress: FollowProgress;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  /** Called before a block is stored, in order: every block near the head, and any with facts. */
  readonly onBlock: (facts: BlockFacts) => Promise<void>;
  /** Called once with the newest block, when LEDGER holds every block that was final. */
  readonly onCaughtUp: (block: number) => void;
};

type ReadRange = { readonly blocks: readonly FinalBlock[]; readonly counts: RangeCounts };

/** Follows the final head until the signal aborts or `toBlock` is done. Throws FinalReorgError. */
export async function followFinal(options: FollowOptions): Promise<void> {
  const { nats, startBlock, toBlock, progress, signal, finality, rpc } = options;
  const reading = readingOf(options);
  const end = await patiently(reading, 'the end of LEDGER', () => readEnd(nats));
  let held: BlockRef | undefined = end.block;
  if (end.block !== undefined) progress.resume(end.block);
  else if (startBlock > 0) await writeEarlierResolutions(options, end.earlierTo);
  const size = new RangeSize();
  let final = 0;
  let pauseMs = POLL_MIN_MS;
  let caughtUp = false;
  for (;;) {
    // A lagging endpoint returns an older final head, but final blocks stay final.
    const seen = await patiently(reading, 'final head', () => finalBlock(rpc, finality));
    progress.final(seen);
    pauseMs = seen > final ? POLL_MIN_MS : Math.min(pauseMs * 1.5, POLL_MAX_MS);
    final = Math.max(final, seen);
    const next = held === undefined ? startBlock : held.number + 1;
    const to = Math.min(final, toBlock ?? final);
    held = await writeRanges({ ...options, reading, size }, held, next, to, final);
    const isDone = toBlock !== undefined && (held?.number ?? -1) >= toBlock;
    if (!caughtUp && (isDone || (held?.number ?? startBlock - 1) >= to)) {
      caughtUp = true;
      progress.done();
      options.onCaughtUp(held?.number ?? 0);
    }
    if (isDone) return;
    await delay(pauseMs, undefined, { signal });
  }
}

async function finalBlock(rpc: Rpc, finality: 'finalized' | number): Promise<number> {
  if (finality === 'finalized') return rpc.blockNumber('finalized');
  return (await rpc.blockNumber('latest')) - finality;
}

type WriteOptions = FollowOptions & {
  readonly reading: AheadOptions<ReadRange>;
  readonly size: RangeSize;
};

/** Stores blocks `from` to `to`, or as far as they follow LEDGER; resolves with its newest block. */
async function writeRanges(
  options: WriteOptions,
  held: BlockRef | undefined,
  from: number,
  to: number,
  final: number,
): Promise<BlockRef | undefined> {
  const { reading, size, nats, rpc, signal, ledger, progress, onBlock } = options;
  let newest = held;
  for await (const { blocks } of ahead(reading, size, from, to)) {
    for (const block of blocks) {
      const { head, facts } = block;
      if (newest !== undefined && head.parentHash !== newest.hash) {
        settle(options, await ledger.flush());
        const doubted: BlockRef = newest;
        await patiently(reading, 'fork', () => judgeFork(nats, rpc, doubted, signal));
        const pauseMs = progress.contradicted(doubted, head);
        await delay(pauseMs, undefined, { signal });
        return newest;
      }
      const isNear = final - head.number < NEAR_HEAD_BLOCKS;
      if (facts !== undefined || isNear) await onBlock(facts ?? nothingIn(head));
      settle(options, await ledger.add(block));
      if (isNear) settle(options, await ledger.flush());
      newest = head;
    }
    if (ledger.isDue) settle(options, await ledger.flush());
  }
  settle(options, await ledger.flush());
  return newest;
}

function nothingIn(block: BlockHead): BlockFacts {
  return { block, matches: [], resolutions: [], operators: [], refused: [] };
}

/** Takes note of blocks that are in LEDGER. */
function settle(
  { progress, metadata, balances }: WriteOptions,
  blocks: readonly FinalBlock[],
): void {
  for (const { head, facts } of blocks) {
    progress.block(head, facts);
    if (facts === undefined) continue;
    const { block, matches, resolutions } = facts;
    for (const { conditionId, payouts } of resolutions) {
      metadata.resolve(conditionId, payouts, block.timestamp);
    }
    const traders = new Set(matches.flatMap((match) => match.fills.map((fill) => fill.trader)));
    const conditions = new Set(matches.map((match) => match.conditionId));
    // Metadata is learned in the background: LEDGER never waits for it.
    void metadata.learn(conditions, traders, 0);
    balances.touch(traders, block.number);
  }
}

function readingOf(options: FollowOptions): AheadOptions<ReadRange> {
  const { rpc, chain, metadata, logger, signal, progress } = options;
  // Whether most blocks of the previous range needed their bodies: the next ranges request these at once.
  let isCrowded = false;
  return {
    logger,
    signal,
    onAnswer: progress.answered,
    weigh: ({ counts }) => counts,
    async readRange(from, to) {
      const source = { rpc, chain, onConfirmed: progress.confirmed, isCrowded };
      const { blocks, counts, ...range } = await readRange(source, from, to);
      isCrowded = range.isCrowded;
      const decoded: FinalBlock[] = [];
      for (const { head, raw } of blocks) {
        const facts = raw === undefined ? undefined : await factsOf(raw, chain, metadata);
        decoded.push({ head, facts });
      }
      return { blocks: decoded, counts };
    },
  };
}
