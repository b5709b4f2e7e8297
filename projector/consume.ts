/**
 * The projector's loop: LEDGER → fold → batches → ClickHouse. A reader decodes blocks as they arrive, at most
 * QUEUE_EVENTS_MAX events ahead. What has arrived is a chunk: its markets are read from the tables unless they are in
 * memory, it is folded, and its rows are stored while the next chunk is folded. Resolutions and refused events are
 * stored before the batch of the same blocks, the checkpoint after it. The loop waits while ClickHouse is unavailable.
 */
import { setTimeout as delay, setImmediate } from 'node:timers/promises';
import type { Logger } from 'pino';
import { ExpectedError } from '../infra/expected.ts';
import type { Nats } from '../infra/nats/connection.ts';
import { tailBatches } from '../infra/nats/reader.ts';
import { type Hash, type LedgerEvent, partitionOf, type Refused } from '../ingest/contract.ts';
import {
  type Block,
  type BlockRange,
  decodeRange,
  LEDGER_STREAM,
  lastBlock,
  missingMessages,
  newestMessage,
} from '../ingest/ledger/ledger.ts';
import type { Source, WholeLedger } from '../ingest/ledger/whole-ledger.ts';
import { BATCH_ROWS_MAX, type BookedEvent, batchesOf } from './fold/batches.ts';
import { OpenPositions } from './fold/positions.ts';
import { type ProjectorMetrics, type Reached, retryLogged } from './progress.ts';
import type { Checkpoint, Fact, Store, StoredState } from './store.ts';

const CHECKPOINT_MS = 10_000;
const WAIT_MS = 1_000;
/** Timers must run in between. */
const EVENTS_AT_ONCE = 1_000;
/** Read by one statement: memory may exceed its limit by their positions. */
const MARKETS_AT_ONCE = 100;
const QUEUE_EVENTS_MAX = 50_000;
/** A fill waits at most this long for others to share its insert. */
const FLUSH_MS = 250;

export type ProjectorOptions = {
  readonly nats: Nats;
  readonly ledger: WholeLedger;
  readonly store: Store;
  /** Partitions that this projector owns. Events of other partitions are read and skipped. */
  readonly partitions: readonly number[];
  /** Called before every write. Throws if the partitions may already have another owner. */
  readonly assertOwner: () => void;
  readonly logger: Logger;
  readonly metrics?: ProjectorMetrics;
  readonly signal: AbortSignal;
  /** Stops when everything up to this block is stored; runs forever if omitted. */
  readonly untilBlock?: number;
  /** Most open positions and markets in memory. */
  readonly inMemory?: number;
  /** Called when everything up to a block is stored. */
  readonly onStored: (reached: Reached) => void;
  /** Called once, after the state was restored. */
  readonly onStart: () => void;
  /** Called with the reason why LEDGER cannot be read yet, and with undefined when reading begins. */
  readonly onWait?: (reason: string | undefined) => void;
};

/** LEDGER and the tables hold different blocks: LEDGER was rewound, or belongs to another chain. */
export class LedgerRewrittenError extends ExpectedError {}

/**
 * Runs until the signal aborts or `untilBlock` is stored. Throws LedgerRewrittenError or UnreadableLedgerError, which
 * a restart does not fix. After any other error, restart it with a fresh state.
 */
export async function runProjector(options: ProjectorOptions): Promise<void> {
  const { store, logger, signal, inMemory, onStart, onWait } = options;
  const positions = new OpenPositions(inMemory);
  const healed = await retryLogged(options, 'heal', () => store.heal());
  options.metrics?.healed.inc(healed.healedBatches);
  const stored = await retryLogged(options, 'restore', () => store.restore(positions));
  const { source, checkpoints } = await findStart(options, stored);
  onWait?.(undefined);
  const { fromSequence } = source;
  logger.info({ ...healed, fromSequence }, 'projecting');
  onStart();
  const stop = new AbortController();
  const both = AbortSignal.any([signal, stop.signal]);
  const queue = new Queue();
  const reader = read(options, source, queue, both).finally(() => queue.close());
  const chunks = fold({ ...options, signal: both }, positions, queue);
  // Otherwise the reader would wait forever, because nothing empties the queue.
  const writer = write(options, checkpoints, chunks, both).finally(() => queue.close());
  try {
    await Promise.all([reader, writer]);
  } finally {
    stop.abort();
    await Promise.allSettled([reader, writer]);
  }
}

async function read(
  { nats, logger, partitions, untilBlock = Number.POSITIVE_INFINITY }: ProjectorOptions,
  { archived, fromSequence }: Source,
  queue: Queue,
  signal: AbortSignal,
): Promise<void> {
  const owned = new Set(partitions);
  let newest: Block | undefined;
  let before = fromSequence - 1;
  /** Resolves with true after the last message to read. */
  const take = async (range: BlockRange, sequence?: number): Promise<boolean> => {
    if (range.kind === 'blocks') {
      // The archive checks its own messages.
      if (newest !== undefined && sequence !== undefined) {
        assertFollows(range, newest, before, sequence);
      }
      newest = lastBlock(range);
    }
    before = sequence ?? before;
    queue.push(ownedPart(range, owned));
    if (range.to >= untilBlock || signal.aborted) return true;
    await queue.room();
    // Decoding takes up to 10 ms a message: timers must run in between.
    await setImmediate();
    return false;
  };
  for await (const range of archived) if (await take(range)) return;
  const messages = tailBatches(nats, {
    stream: LEDGER_STREAM,
    fromSequence,
    signal,
    onRestart: (restart) => logger.warn(restart, 'LEDGER reader restarted'),
  });
  for await (const batch of messages) {
    for (const message of batch) {
      if (await take(decodeRange(message), message.sequence)) return;
    }
  }
}

function assertFollows(
  { from, parentHash }: BlockRange & { readonly kind: 'blocks' },
  { number, hash }: Block,
  before: number,
  sequence: number,
): void {
  if (from === number + 1 && parentHash === hash) return;
  // NATS consumers silently skip messages that the server cannot read.
  if (from > number + 1 && sequence > before + 1) throw missingMessages(before, sequence);
  throw new LedgerRewrittenError(
    `LEDGER message ${sequence} begins with block ${from} after ${parentHash}, which does not follow block ` +
      `${number}, ${hash}: LEDGER was rewound. ${REPAIR}`,
  );
}

const REPAIR = 'See docs/operations.md, "A final block was replaced".';

/** The part of a range that belongs to these partitions. */
function ownedPart(range: BlockRange, owned: ReadonlySet<number>): Arrived {
  const refused: Refused[] = [];
  const events: ArrivedEvent[] = [];
  for (const block of range.blocks) {
    // Events without a market belong to partition 0.
    if (owned.has(0)) refused.push(...block.refused);
    const of = { blockHash: block.hash, coversMovements: block.coversMovements ?? false };
    for (const event of block.events) {
      if (owned.has(partitionOf(event.conditionId))) events.push({ event, ...of });
    }
  }
  const time = range.blocks.at(-1)?.time ?? 0;
  return { events, refused, reached: { block: range.to, time } };
}

/**
 * Folds chunks until the queue is closed. The next chunk may be requested while the newest one is being stored, but
 * only when all chunks before that are stored: so a market that is read here has all its rows in the tables.
 */
async function* fold(
  options: ProjectorOptions,
  positions: OpenPositions,
  queue: Queue,
): AsyncGenerator<Projected, void, undefined> {
  for (;;) {
    const arrived = await queue.take(options.signal);
    if (arrived === 'closed') return;
    let facts: Fact[] = arrived.refused;
    let from = 0;
    do {
      let end: number;
      try {
        end = await restoreMarkets(options, positions, arrived.events, from);
      } catch (error) {
        if (options.signal.aborted) return;
        throw error;
      }
      positions.beginChunk();
      const events: BookedEvent[] = [];
      for (const { event, blockHash, coversMovements } of arrived.events.slice(from, end)) {
        // Only the first resolution counts, in the table and in the fold. If it is known, it is already stored.
        if (event.kind === 'resolution' && !positions.isResolved(event.conditionId))
          facts.push(event);
        const rows = positions.apply(event, coversMovements);
        if (rows.length > 0) events.push({ blockHash, rows });
        from += 1;
        if (from % EVENTS_AT_ONCE !== 0) continue;
        await setImmediate();
        // Nothing of this chunk is stored yet, and the positions are discarded.
        if (options.signal.aborted) return;
      }
      const isWhole = from === arrived.events.length;
      yield { events, facts, reached: isWhole ? arrived.reached : undefined };
      facts = [];
    } while (from < arrived.events.length);
  }
}

/**
 * Makes room in memory and reads the markets of these events that are missing there, in order of their appearance,
 * until memory is full. Returns the end of the events that can be folded now: at least one, if there are any.
 */
async function restoreMarkets(
  options: ProjectorOptions,
  positions: OpenPositions,
  events: readonly ArrivedEvent[],
  from: number,
): Promise<number> {
  const { store } = options;
  const surplus = positions.surplus();
  if (surplus.length > 0) {
    // They will be read again, maybe from another replica.
    await retryLogged(options, 'restore', () => store.sync());
    positions.forget(surplus);
  }
  let end = from;
  do {
    const missing = new Set<string>();
    for (; end < events.length; end += 1) {
      const id = events[end]?.event.conditionId ?? '';
      if (positions.knows(id)) continue;
      // All events of a log are stored at once (batches.ts).
      const isSameLog = isOneLog(events[end - 1]?.event, events[end]?.event);
      if (missing.size >= MARKETS_AT_ONCE && !missing.has(id) && !isSameLog) break;
      missing.add(id);
    }
    if (missing.size === 0) break;
    const markets = await retryLogged(options, 'restore', () => store.markets([...missing]));
    for (const [conditionId, market] of markets) positions.restoreMarket(conditionId, market);
  } while (end < events.length && !positions.isFull);
  return end;
}

function isOneLog(a: LedgerEvent | undefined, b: LedgerEvent | undefined): boolean {
  return a !== undefined && a.blockNumber === b?.blockNumber && a.logIndex === b.logIndex;
}

async function write(
  options: ProjectorOptions,
  stored: ReadonlyMap<number, Checkpoint>,
  chunks: AsyncGenerator<Projected, void, undefined>,
  signal: AbortSignal,
): Promise<void> {
  const { store, onStored, assertOwner, partitions, metrics } = options;
  const checkpoints = new Map(stored);
  let checkpointAt = Number.NEGATIVE_INFINITY;
  let next = chunks.next();
  for (;;) {
    const { value: chunk } = await next;
    // When it has to stop, it stores no further chunk.
    if (chunk === undefined || signal.aborted) break;
    const { events, facts, reached } = chunk;
    next = chunks.next();
    // If storing fails first, nothing waits for it.
    next.catch(() => undefined);
    if (facts.length > 0) await retryLogged(options, 'facts', () => store.writeFacts(facts));
    for (const batch of batchesOf(events)) {
      const done = metrics?.insertSeconds.startTimer();
      await retryLogged(options, 'batch', async () => {
        assertOwner();
        await store.writeBatch(batch);
      });
      done?.();
      metrics?.batchRows.observe(batch.rows.length);
      metrics?.openings.inc(batch.rows.filter(({ kind }) => kind === 'opening').length);
    }
    // All partitions advance together, so this is the checkpoint of each of them.
    const newest = checkpointOf(events.at(-1));
    if (newest !== undefined) for (const id of partitions) checkpoints.set(id, newest);
    const isDue = performance.now() - checkpointAt >= CHECKPOINT_MS && !signal.aborted;
    if (isDue && checkpoints.size > 0) {
      await retryLogged(options, 'checkpoint', async () => {
        assertOwner();
        await store.writeCheckpoints(checkpoints);
      });
      checkpointAt = performance.now();
    }
    if (reached !== undefined) onStored(reached);
  }
  // Even without new events, because the batches healed at startup are complete now.
  if (checkpoints.size === 0) return;
  assertOwner();
  await store.writeCheckpoints(checkpoints);
}

function checkpointOf(event: BookedEvent | undefined): Checkpoint | undefined {
  const row = event?.rows[0];
  if (event === undefined || row === undefined) return undefined;
  return { blockNumber: row.blockNumber, blockHash: event.blockHash, logIndex: row.eventLogIndex };
}

/**
 * Finds where to read from, and the last stored event of each partition, which is beyond its checkpoint after a
 * crash. Reading starts with the block of the oldest checkpoint; the fold drops events that are already stored. Waits
 * until LEDGER reaches the newest stored block. Throws LedgerRewrittenError if LEDGER and the tables hold different
 * blocks.
 */
async function findStart(
  options: ProjectorOptions,
  stored: StoredState,
): Promise<{
  readonly source: Source;
  readonly checkpoints: ReadonlyMap<number, Checkpoint>;
}> {
  const { partitions, ledger } = options;
  const oldestFirst = [...stored.checkpoints.values()].sort(byPlace);
  const verified = new Set<Hash>();
  for (const { blockNumber, blockHash } of oldestFirst) {
    if (verified.has(blockHash)) continue;
    const block = await storedBlock(options, blockNumber);
    if (block.hash !== blockHash) throw rewritten(blockNumber, blockHash, block.hash);
    verified.add(blockHash);
  }
  const checkpoints = new Map(stored.checkpoints);
  for (const { partition, blockNumber, logIndex, txHash } of stored.tips) {
    const block = await storedBlock(options, blockNumber);
    const event = block.events.find((candidate) => candidate.logIndex === logIndex);
    if (event?.txHash !== txHash) throw rewritten(blockNumber, txHash, event?.txHash ?? 'nothing');
    checkpoints.set(partition, { blockNumber, blockHash: block.hash, logIndex });
  }
  const [oldest] = oldestFirst;
  const isComplete = oldest !== undefined && stored.checkpoints.size === partitions.length;
  const first = isComplete ? oldest.blockNumber : undefined;
  const source = await retryLogged(options, 'LEDGER', () => ledger.from(first));
  return { source, checkpoints };
}

function byPlace(a: Checkpoint, b: Checkpoint): number {
  return a.blockNumber - b.blockNumber || a.logIndex - b.logIndex;
}

function rewritten(block: number, stored: string, held: string): LedgerRewrittenError {
  return new LedgerRewrittenError(
    `the tables hold ${stored} in block ${block}, but LEDGER holds ${held}. ${REPAIR}`,
  );
}

/** Reads a block that has stored rows from LEDGER or its archive; waits until LEDGER reaches it. */
async function storedBlock(options: ProjectorOptions, number: number): Promise<Block> {
  const { nats, ledger, logger, signal, onWait } = options;
  for (;;) {
    const { range, newest } = await retryLogged(options, 'LEDGER', async () => ({
      range: await ledger.messageAt(number),
      newest: await newestMessage(nats),
    }));
    const block = range?.blocks.find((listed) => listed.number === number);
    if (block !== undefined) return block;
    const end = newest?.range.kind === 'blocks' ? newest.range.to : -1;
    if (end >= number) throw rewritten(number, 'an event', 'none');
    const reason = `LEDGER ends at block ${end}, but the tables already hold block ${number}: waiting`;
    logger.warn(reason);
    onWait?.(reason);
    await delay(WAIT_MS, undefined, { signal });
  }
}

type ArrivedEvent = {
  readonly event: LedgerEvent;
  readonly blockHash: Hash;
  readonly coversMovements: boolean;
};

/** The content of one or more LEDGER messages for this projector, in chain order. */
type Arrived = {
  readonly events: ArrivedEvent[];
  readonly refused: Refused[];
  readonly reached: Reached;
};

/** The result of folding it, or a part of it if memory is full; only the last part has `reached`. */
type Projected = {
  readonly events: readonly BookedEvent[];
  readonly facts: readonly Fact[];
  readonly reached: Reached | undefined;
};

/**
 * Events that the reader has decoded and that are not folded yet. The queue limits how far the reader is ahead and
 * collects fills for FLUSH_MS so that they share an insert.
 */
class Queue {
  #events: ArrivedEvent[] = [];
  #refused: Refused[] = [];
  #reached: Reached | undefined;
  /** Fills, resolutions and refused events. */
  #size = 0;
  #closed = false;
  #changed = Promise.withResolvers<void>();

  push({ events, refused, reached }: Arrived): void {
    this.#reached = reached;
    for (const one of refused) this.#refused.push(one);
    for (const one of events) {
      this.#events.push(one);
      this.#size += one.event.kind === 'match' ? one.event.fills.length : 1;
    }
    this.#size += refused.length;
    this.#notify();
  }

  /** Resolves when the reader may continue. */
  async room(): Promise<void> {
    while (this.#size >= QUEUE_EVENTS_MAX && !this.#closed) await this.#changed.promise;
  }

  close(): void {
    this.#closed = true;
    this.#notify();
  }

  /** Takes everything, once it fills a batch or FLUSH_MS have passed. */
  async take(signal: AbortSignal): Promise<Arrived | 'closed'> {
    while (this.#reached === undefined && !this.#closed) await this.#changed.promise;
    let isDue = false;
    const flush = delay(FLUSH_MS, undefined, { ref: false }).then(() => {
      isDue = true;
    });
    while (!isDue && !this.#closed && this.#size < BATCH_ROWS_MAX) {
      await Promise.race([this.#changed.promise, flush]);
    }
    if (this.#reached === undefined || (this.#closed && signal.aborted)) return 'closed';
    const arrived = { events: this.#events, refused: this.#refused, reached: this.#reached };
    this.#events = [];
    this.#refused = [];
    this.#reached = undefined;
    this.#size = 0;
    this.#notify();
    return arrived;
  }

  #notify(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers<void>();
  }
}
