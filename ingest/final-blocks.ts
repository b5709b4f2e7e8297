/**
 * Final blocks → LEDGER, in chain order. Catch-up, backfill and the life at the head are one loop: read
 * the final head, read the blocks up to it in ranges, ahead and in parallel, publish them in order.
 * Every block must name its predecessor's hash: where it does not, and no endpoint agrees with LEDGER,
 * "final" was wrong, and ingest stops with an alarm rather than write another history.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Nats } from '../infra/nats/connection.ts';
import type { OrderedPublisher } from '../infra/nats/publisher.ts';
import type { Balances } from './balances.ts';
import { type RangeCounts, readRange } from './block-range.ts';
import { type BlockFacts, factsOf } from './blocks.ts';
import type { Chain } from './chains.ts';
import type { BlockMarker } from './contract.ts';
import { writePrelude } from './earlier-resolutions.ts';
import { judgeFork } from './fork.ts';
import { LedgerWriter, readCursor } from './ledger-writer.ts';
import type { Metadata } from './metadata.ts';
import { type AheadOptions, ahead, patiently, RangeSize } from './prefetch.ts';
import type { FollowProgress } from './progress.ts';
import type { BlockHead, Rpc } from './rpc.ts';

/** Nothing new: the head is asked for again after a pause that grows from the first to the second. */
const POLL_MIN_MS = 150;
const POLL_MAX_MS = 1_000;
/** This near to the head every block gets a marker; farther away only those with facts do. */
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
  readonly ledger: OrderedPublisher;
  readonly metadata: Metadata;
  readonly balances: Balances;
  readonly progress: FollowProgress;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  /** Called before a block is published, in order: every block near the head, and any with facts. */
  readonly onBlock: (facts: BlockFacts) => Promise<void>;
  /** Called once, when LEDGER holds every block that was final. */
  readonly onCaughtUp: (sequence: number) => void;
};

type Held = Pick<BlockMarker, 'blockNumber' | 'blockHash'>;
type ReadBlock = { readonly head: BlockHead; readonly facts: BlockFacts | undefined };
type ReadRange = { readonly blocks: readonly ReadBlock[]; readonly counts: RangeCounts };

/** Follows the final head until the signal aborts or `toBlock` is done. Throws FinalReorgError. */
export async function followFinal(options: FollowOptions): Promise<void> {
  const { nats, ledger, startBlock, toBlock, progress, signal, finality, rpc } = options;
  const reading = readingOf(options);
  const cursor = await patiently(reading, 'cursor', () => readCursor(nats));
  const writer = new LedgerWriter(ledger, cursor);
  let held: Held | undefined = cursor.marker;
  if (cursor.marker !== undefined) progress.resume(cursor.marker);
  if (held === undefined && startBlock > 0) {
    await writePrelude(options, writer, options.resolutionsFrom, startBlock);
    await ledger.flush();
    held = (await patiently(reading, 'cursor', () => readCursor(nats))).marker;
  }
  const size = new RangeSize();
  let final = 0;
  let pauseMs = POLL_MIN_MS;
  let caughtUp = false;
  for (;;) {
    // An endpoint that lags knows an older final head: final blocks stay final.
    const seen = await patiently(reading, 'final head', () => finalBlock(rpc, finality));
    progress.final(seen);
    pauseMs = seen > final ? POLL_MIN_MS : Math.min(pauseMs * 1.5, POLL_MAX_MS);
    final = Math.max(final, seen);
    const next = held === undefined ? startBlock : held.blockNumber + 1;
    const to = Math.min(final, toBlock ?? final);
    held = await writeRanges({ ...options, reading, size, writer }, held, next, to, final);
    const isDone = toBlock !== undefined && (held?.blockNumber ?? -1) >= toBlock;
    if (!caughtUp && (isDone || (held?.blockNumber ?? startBlock - 1) >= to)) {
      caughtUp = true;
      const { lastSequence } = await ledger.flush();
      progress.done();
      options.onCaughtUp(lastSequence);
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
  readonly writer: LedgerWriter;
};

/** Publishes blocks `from` to `to`, or as far as they follow LEDGER; resolves with its newest block. */
async function writeRanges(
  options: WriteOptions,
  held: Held | undefined,
  from: number,
  to: number,
  final: number,
): Promise<Held | undefined> {
  const { reading, size, nats, rpc, signal, writer, progress, onBlock } = options;
  let newest = held;
  for await (const { blocks } of ahead(reading, size, from, to)) {
    const last = blocks.at(-1)?.head;
    for (const { head, facts } of blocks) {
      if (newest !== undefined && head.parentHash !== newest.blockHash) {
        const doubted: Held = newest;
        await patiently(reading, 'fork', () => judgeFork(nats, rpc, doubted, signal));
        const pauseMs = progress.contradicted(doubted, head);
        await delay(pauseMs, undefined, { signal });
        return newest;
      }
      const isNear = final - head.number < NEAR_HEAD_BLOCKS;
      if (facts !== undefined) await onBlock(facts);
      else if (isNear) await onBlock(nothingIn(head));
      if (facts !== undefined) await writeFacts(options, facts);
      if (isNear || head === last) await writer.writeMarker(head);
      newest = { blockNumber: head.number, blockHash: head.hash };
      progress.block(head, facts);
    }
  }
  return newest;
}

function nothingIn(block: BlockHead): BlockFacts {
  return { block, matches: [], resolutions: [], operators: [], refused: [] };
}

async function writeFacts(
  { writer, metadata, balances }: WriteOptions,
  facts: BlockFacts,
): Promise<void> {
  await writer.writeBlock(facts);
  const { block, matches, resolutions } = facts;
  for (const { conditionId, payouts } of resolutions) {
    metadata.resolve(conditionId, payouts, block.timestamp);
  }
  const traders = new Set(matches.flatMap((match) => match.fills.map((fill) => fill.trader)));
  const conditions = new Set(matches.map((match) => match.conditionId));
  // Metadata is learned beside: LEDGER never waits for it.
  void metadata.learn(conditions, traders, 0);
  balances.touch(traders, block.number);
}

function readingOf(options: FollowOptions): AheadOptions<ReadRange> {
  const { rpc, chain, metadata, logger, signal, progress } = options;
  // Of the range read last: what most of its blocks needed is asked for at once in the next ones.
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
      const decoded: ReadBlock[] = [];
      for (const { head, raw } of blocks) {
        const facts = raw === undefined ? undefined : await factsOf(raw, chain, metadata);
        decoded.push({ head, facts });
      }
      return { blocks: decoded, counts };
    },
  };
}
