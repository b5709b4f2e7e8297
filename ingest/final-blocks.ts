/**
 * Final blocks → LEDGER, in chain order. Catch-up, backfill and following the head are one loop: read the final
 * head, prefetch the blocks up to it in parallel ranges, and store them in order. Every block must name its
 * predecessor's hash. If one does not, and no endpoint still agrees with LEDGER, a final block was replaced: ingest
 * stops with an alarm instead of writing a second history.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Nats } from '../infra/nats/connection.ts';
import type { Balances } from './chain/balances.ts';
import {
  checkLog,
  type PrefetchOptions,
  prefetch,
  type RangeCounts,
  RangeSize,
  readRange,
  retryReads,
} from './chain/block-range.ts';
import { type BlockFacts, type FeedFacts, factsOf, nothingIn } from './chain/blocks.ts';
import type { BlockHead, Header, RangeLog, Rpc } from './chain/rpc.ts';
import { RpcError } from './chain/rpc-pool.ts';
import type { SampledShares } from './chain/share-balances.ts';
import type { Chain } from './events/chains.ts';
import {
  CONDITION_RESOLUTION,
  CONDITION_RESOLVED,
  MIGRATION_RESOLVED,
} from './events/resolution.ts';
import type { BlockMovements } from './events/shares/block-movements.ts';
import { V2_TOPICS } from './events/shares/v2-logs.ts';
import {
  type Block,
  type BlockRef,
  eventsOf,
  type LedgerMessage,
  lastBlock,
  messageUpTo,
  newestMessage,
  RangeEncoder,
} from './ledger/ledger.ts';
import {
  blockOf,
  type FinalBlock,
  type LedgerEnd,
  type LedgerWriter,
} from './ledger/ledger-writer.ts';
import type { Metadata } from './metadata/metadata.ts';
import type { FinalBlocksProgress } from './progress.ts';

/**
 * Pause between requests for the head; it grows from the first to the second value while there is no new block.
 */
const POLL_MIN_MS = 150;
const POLL_MAX_MS = 1_000;
/** This close to the head, every block gets its own message. */
const NEAR_HEAD_BLOCKS = 32;

export type FinalBlocksOptions = {
  readonly rpc: Rpc;
  readonly chain: Chain;
  readonly finality: 'finalized' | number;
  /** First block of an empty LEDGER. */
  readonly startBlock: number;
  /** First block of the search for resolutions before `startBlock`. */
  readonly resolutionsFrom: number;
  /** Stops after this block; runs forever if omitted. */
  readonly toBlock?: number;
  readonly nats: Nats;
  readonly ledger: LedgerWriter;
  /** Where LEDGER ended when `ledger` was opened. A block that another ingest has stored since is read here as well. */
  readonly end: LedgerEnd;
  readonly metadata: Metadata;
  readonly balances: Balances;
  /** Undefined if movements are not watched. */
  readonly movements?: BlockMovements | undefined;
  /** The same. */
  readonly shares?: SampledShares | undefined;
  readonly progress: FinalBlocksProgress;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  /** Called before a block is stored, in order: for every block near the head, and for any block with facts. */
  readonly onBlock: (facts: FeedFacts) => Promise<void>;
  /** Called when every block that was read, up to this one, is stored. */
  readonly onFlushed?: (block: BlockRef) => void;
  /** Called with the newest block of LEDGER, at startup and after every write. */
  readonly onStored: (block: number) => void;
  /** Called once with the newest block, as soon as LEDGER holds every final block. */
  readonly onCaughtUp: (block: number) => void;
};

/** `facts` if it has any. */
type ReadBlock = { readonly head: BlockHead; readonly facts: BlockFacts | undefined };
type ReadRange = { readonly blocks: readonly ReadBlock[]; readonly counts: RangeCounts };

/** Follows the final head until the signal aborts or `toBlock` is done. Throws FinalReorgError. */
export async function writeFinalBlocks(options: FinalBlocksOptions): Promise<void> {
  const { end, startBlock, toBlock, progress, signal, finality, rpc } = options;
  const reading = readingOf(options);
  let held: BlockRef | undefined = end.block;
  if (end.block !== undefined) {
    progress.resume(end.block);
    options.onStored(end.block.number);
  } else if (startBlock > 0) await writeEarlierResolutions(options, end.earlierTo);
  const writing = {
    ...options,
    reading,
    size: new RangeSize(),
    contradictions: new Contradictions(),
  };
  let final = 0;
  let pauseMs = POLL_MIN_MS;
  let caughtUp = false;
  for (;;) {
    // A lagging endpoint returns an older final head, but final blocks stay final.
    const seen = await retryReads(reading, 'final head', () => finalBlock(rpc, finality));
    progress.final(seen);
    pauseMs = seen > final ? POLL_MIN_MS : Math.min(pauseMs * 1.5, POLL_MAX_MS);
    final = Math.max(final, seen);
    const next = held === undefined ? startBlock : held.number + 1;
    const to = Math.min(final, toBlock ?? final);
    held = await writeRanges(writing, held, next, to, final);
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

type WriteOptions = FinalBlocksOptions & {
  readonly reading: PrefetchOptions<ReadRange>;
  readonly size: RangeSize;
  readonly contradictions: Contradictions;
};

/** Stores blocks `from` to `to`, or as far as they link to LEDGER; resolves with its newest block. */
async function writeRanges(
  options: WriteOptions,
  held: BlockRef | undefined,
  from: number,
  to: number,
  final: number,
): Promise<BlockRef | undefined> {
  const { reading, size, contradictions, nats, rpc, signal, ledger, progress, onBlock } = options;
  let newest = held;
  for await (const { blocks } of prefetch(reading, size, from, to)) {
    for (const block of blocks) {
      const { head } = block;
      if (newest !== undefined && head.parentHash !== newest.hash) {
        settle(options, await ledger.flush());
        const doubted: BlockRef = newest;
        await retryReads(reading, 'fork', () => judgeFork(nats, rpc, doubted, signal));
        const pauseMs = contradictions.pauseMs(doubted, performance.now());
        progress.contradicted(doubted, head, pauseMs);
        await delay(pauseMs, undefined, { signal });
        return newest;
      }
      const isNear = final - head.number < NEAR_HEAD_BLOCKS;
      const facts = complete(options, block.facts);
      if (facts !== undefined || isNear) await onBlock(facts ?? nothingIn(head));
      settle(options, await ledger.add({ head, facts }));
      newest = head;
      if (isNear) await flush(options, newest);
    }
    if (ledger.isDue) await flush(options, newest);
  }
  await flush(options, newest);
  return newest;
}

async function flush(options: WriteOptions, newest: BlockRef | undefined): Promise<void> {
  settle(options, await options.ledger.flush());
  if (newest !== undefined) options.onFlushed?.(newest);
}

/** Adds the movements and what is unknown about them, if they are watched. Call it once for every block, in order. */
function complete({ movements }: WriteOptions, facts: BlockFacts | undefined) {
  if (movements === undefined || facts === undefined) return facts;
  const { block, events, shares } = facts;
  const decoded = { blockNumber: block.number, blockTime: block.timestamp, events, shares };
  const complete = movements.complete(decoded);
  const unknown = movements.alarms(decoded).map((alarm) => ({ ...alarm, logs: [] }));
  const matches = facts.matches.map((match) => movements.inMarket(match));
  return { ...facts, events: complete, matches, refused: [...facts.refused, ...unknown] };
}

/** Updates the state after blocks were stored in LEDGER. */
function settle(
  { progress, metadata, balances, shares, onStored }: WriteOptions,
  blocks: readonly FinalBlock[],
): void {
  const newest = blocks.at(-1);
  if (newest !== undefined) onStored(newest.head.number);
  for (const { head, facts } of blocks) {
    progress.block(head, facts);
    balances.reached(head.number);
    shares?.stored(head, facts?.events ?? []);
    if (facts === undefined) continue;
    const { matches } = facts;
    for (const { conditionId, payouts, blockTime } of eventsOf('resolutions', [facts])) {
      metadata.resolve(conditionId, payouts, blockTime);
      balances.resolved(conditionId);
    }
    // LEDGER never waits for metadata.
    metadata.learnOf(matches);
    for (const match of matches) balances.matched(match);
  }
}

function readingOf(options: FinalBlocksOptions): PrefetchOptions<ReadRange> {
  const { rpc, chain, metadata, logger, signal, progress } = options;
  return {
    logger,
    signal,
    onAnswer: progress.answered,
    weigh: ({ counts }) => counts,
    async readRange(from, to) {
      const source = { rpc, chain, onConfirmed: progress.confirmed };
      const { blocks, counts } = await readRange(source, from, to);
      const decoded: ReadBlock[] = [];
      for (const { head, raw } of blocks) {
        const facts = raw === undefined ? undefined : await factsOf(raw, chain, metadata);
        decoded.push({ head, facts });
      }
      return { blocks: decoded, counts };
    },
  };
}

const FORK_QUERIES = 3;
const FORK_QUERY_PAUSE_MS = 500;

/**
 * A final block was replaced. Ingest never writes a second history over the one in LEDGER. It queries every endpoint
 * several times and stops with an alarm if none agrees with LEDGER. docs/operations.md, "A final block was replaced",
 * describes the repair.
 */
export class FinalReorgError extends Error {}

/** First and longest pause before blocks that did not link to LEDGER are read again. */
const PAUSE_MIN_MS = 200;
const PAUSE_MAX_MS = 5_000;
/** Longer than the nodes behind one endpoint need to agree on finality. */
const CONTRADICTED_MS_MAX = 300_000;

/**
 * Counts contradictions at one block of LEDGER: an endpoint still has it, but the next block does not link to it. The
 * pauses grow. If no endpoint returns a linking block for CONTRADICTED_MS_MAX, an operator has to decide which
 * endpoints are right.
 */
export class Contradictions {
  #block = -1;
  #sinceMs = 0;
  #pauseMs = 0;

  /** Pause before reading again, milliseconds. Throws FinalReorgError. `nowMs` is monotonic. */
  pauseMs(held: BlockRef, nowMs: number): number {
    if (held.number !== this.#block) {
      this.#block = held.number;
      this.#sinceMs = nowMs;
      this.#pauseMs = 0;
    }
    const forMs = nowMs - this.#sinceMs;
    if (forMs > CONTRADICTED_MS_MAX) {
      throw new FinalReorgError(
        `for ${Math.round(forMs / 1_000)} s no block followed ${held.hash}, block ` +
          `${held.number} of LEDGER, although an endpoint still has it: the endpoints disagree on ` +
          'the history. Nothing was published. See docs/operations.md, "A final block was replaced".',
      );
    }
    this.#pauseMs = Math.min(Math.max(this.#pauseMs * 2, PAUSE_MIN_MS), PAUSE_MAX_MS);
    return this.#pauseMs;
  }
}

/**
 * Called when a block does not link to the newest one of LEDGER. Returns if an endpoint still agrees with LEDGER;
 * then the blocks should be read again. Throws FinalReorgError if all endpoints keep returning another block with
 * this number, and RpcError if none has one.
 */
async function judgeFork(nats: Nats, rpc: Rpc, held: BlockRef, signal: AbortSignal) {
  const others = new Set<string>();
  for (let query = 0; query < FORK_QUERIES; query++) {
    const hashes = (await rpc.hashesOf(held.number)).filter((hash) => hash !== undefined);
    if (hashes.includes(held.hash)) return rpc.doubt();
    if (hashes.length === 0) throw new RpcError('lagging', `no block ${held.number}`);
    for (const hash of hashes) others.add(hash);
    await delay(FORK_QUERY_PAUSE_MS, undefined, { signal });
  }
  const agreed = await newestAgreed(nats, rpc);
  const common = agreed === undefined ? 'no block' : `blocks up to ${agreed.number}`;
  throw new FinalReorgError(
    `a final block was replaced: LEDGER holds ${held.hash} as block ${held.number}, the ` +
      `chain now has ${[...others].join(', ')}. Chain and LEDGER agree on ${common}. Nothing was ` +
      'published. See docs/operations.md, "A final block was replaced".',
  );
}

/** The newest block of LEDGER that the chain still has; undefined if there is none. Throws RpcError. */
async function newestAgreed(nats: Nats, rpc: Rpc): Promise<Block | undefined> {
  const newest = await newestMessage(nats);
  let agreed: Block | undefined;
  let [low, high] = [1, newest?.sequence ?? 0];
  // Blocks are linked, so agreement on one implies agreement on all before it.
  while (low <= high) {
    const middle = Math.floor((low + high) / 2);
    const message = await messageUpTo(nats, middle);
    // The messages from `low` to `middle` were deleted.
    if (message === undefined || message.sequence < low) {
      low = middle + 1;
      continue;
    }
    const found = await newestAgreedOf(rpc, message);
    agreed = found ?? agreed;
    if (found === undefined && message.range.kind === 'blocks') high = message.sequence - 1;
    else low = middle + 1;
  }
  return agreed;
}

/** The newest listed block of a message that the chain still has. */
async function newestAgreedOf(rpc: Rpc, { range }: LedgerMessage): Promise<Block | undefined> {
  if (range.kind !== 'blocks') return undefined;
  const isAgreed = async ({ number, hash }: Block) => {
    const hashes = await rpc.hashesOf(number);
    // The caller retries. If we treated a missing response as a disagreement, an operator might remove good blocks.
    if (hashes.length === 0) throw new RpcError('network', `no endpoint returned block ${number}`);
    return hashes.includes(hash);
  };
  const newest = lastBlock(range);
  if (await isAgreed(newest)) return newest;
  let agreed: Block | undefined;
  let [low, high] = [0, range.blocks.length - 2];
  while (low <= high) {
    const middle = Math.floor((low + high) / 2);
    const block = range.blocks[middle];
    if (block !== undefined && (await isAgreed(block))) {
      agreed = block;
      low = middle + 1;
    } else high = middle - 1;
  }
  return agreed;
}

const PROGRESS_MS = 2_000;

type ResolutionBlock = { readonly header: Header; readonly logs: readonly RangeLog[] };
type ResolutionRange = { readonly to: number; readonly blocks: readonly ResolutionBlock[] };

/**
 * Stores the resolutions of blocks `resolutionsFrom` to `startBlock` − 1, before the first block of LEDGER, as
 * `earlier-resolutions` with their own blocks. `knownTo` is the last block that an interrupted run has covered; the
 * search resumes after it. Only blocks that hold resolutions are checked against their header, because reading every
 * header since the contract's deployment would take days.
 */
async function writeEarlierResolutions(
  options: FinalBlocksOptions,
  knownTo: number | undefined,
): Promise<void> {
  const { chain, ledger, metadata, movements, logger, progress, resolutionsFrom, startBlock } =
    options;
  const until = startBlock - 1;
  const reading = {
    ...options,
    onAnswer: progress.answered,
    readRange: (first: number, last: number) => readResolutions(options, first, last),
    weigh: ({ blocks }: ResolutionRange) => ({
      logs: blocks.reduce((sum, { logs }) => sum + logs.length, 0),
      transactions: 0,
    }),
  };
  const from = knownTo === undefined ? resolutionsFrom : knownTo + 1;
  if (knownTo !== undefined)
    logger.info({ from, until }, 'resuming the search for earlier resolutions');
  let resolutions = 0;
  let encoder = new RangeEncoder({ from });
  let loggedAt = performance.now();
  const store = async (to: number) => {
    if (encoder.isEmpty) return;
    await ledger.store(to, encoder.endAt(to));
    encoder = new RangeEncoder({ from: to + 1 });
  };
  for await (const { to, blocks } of prefetch(reading, new RangeSize(), from, until)) {
    for (const { header, logs } of blocks) {
      const raw = { block: { ...header, transactions: [] }, logs };
      const facts = await factsOf(raw, chain, metadata);
      const { number: blockNumber, timestamp: blockTime } = header;
      const events = movements?.complete({ ...facts, blockNumber, blockTime }) ?? facts.events;
      const block = blockOf({ ...facts, events }, false);
      if (!encoder.add(block)) {
        await store(block.number - 1);
        encoder.add(block);
      }
      const found = eventsOf('resolutions', [block]);
      resolutions += found.length;
      for (const { conditionId, payouts } of found)
        metadata.resolve(conditionId, payouts, blockTime);
    }
    await store(to);
    if (performance.now() - loggedAt < PROGRESS_MS) continue;
    loggedAt = performance.now();
    logger.info({ block: to, until, resolutions }, 'searching for earlier resolutions');
  }
  logger.info({ from, until, resolutions }, 'earlier resolutions stored');
}

/** What later results depend on: the legs of combos, continued markets, and results that follow from others. */
const EARLIER_V2 = [...V2_TOPICS];

async function readResolutions(
  { rpc, chain }: FinalBlocksOptions,
  from: number,
  to: number,
): Promise<ResolutionRange> {
  const modules = chain.shares?.v2?.modules ?? [];
  const filter = {
    addresses: [chain.conditionalTokens, ...modules],
    topics: [CONDITION_RESOLUTION, CONDITION_RESOLVED, MIGRATION_RESOLVED, ...EARLIER_V2],
  };
  const logs = await rpc.rangeLogs({ from, to, filter }, (found) => {
    if (found.every((log) => log.blockNumber >= from && log.blockNumber <= to)) return;
    throw new RpcError('inconsistent', 'a log outside the range');
  });
  const byNumber = [...Map.groupBy(logs, (log) => log.blockNumber)];
  const blocks = await Promise.all(
    byNumber.map(async ([number, some]) => {
      const header = await rpc.header(number);
      const transactions = new Set(header.transactions);
      for (const log of some) checkLog(log, header, transactions, filter);
      return { header, logs: some };
    }),
  );
  return { to, blocks };
}
