/**
 * The projector's loop: LEDGER → fold → batches → ClickHouse. A reader folds blocks as they arrive, and a writer
 * stores the resulting rows. The reader may be QUEUE_ROWS_MAX rows ahead. Resolutions and refused events are stored
 * before the batch of the same blocks, the checkpoint after it. The loop waits while ClickHouse is unavailable.
 */
import { setTimeout as delay, setImmediate } from 'node:timers/promises';
import type { Logger } from 'pino';
import { ExpectedError } from '../infra/expected.ts';
import type { Nats } from '../infra/nats/connection.ts';
import { tailBatches } from '../infra/nats/reader.ts';
import { type Hash, partitionOf } from '../ingest/contract.ts';
import {
  type Block,
  type BlockRange,
  decodeRange,
  eventsOf,
  LEDGER_STREAM,
  lastBlock,
  missingMessages,
  newestMessage,
} from '../ingest/ledger.ts';
import type { Source, WholeLedger } from '../ingest/whole-ledger.ts';
import { BATCH_ROWS_MAX, type BookedEvent, batchesOf, OpenPositions } from './fold.ts';
import { type ProjectorMetrics, type Reached, retryLogged } from './metrics.ts';
import type { Checkpoint, Fact, Store, StoredState } from './store.ts';

const CHECKPOINT_MS = 10_000;
const WAIT_MS = 1_000;
const QUEUE_ROWS_MAX = 50_000;
/** A row waits at most this long for others to share its insert. */
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
  const { store, logger, signal, onStart, onWait } = options;
  const positions = new OpenPositions();
  const healed = await retryLogged(options, 'heal', () => store.heal());
  options.metrics?.healed.inc(healed.healedBatches);
  const stored = await retryLogged(options, 'restore', () => store.restore(positions));
  const { source, checkpoints } = await findStart(options, stored);
  onWait?.(undefined);
  const { fromSequence } = source;
  logger.info({ ...healed, openPositions: positions.openPositions(), fromSequence }, 'projecting');
  onStart();
  const stop = new AbortController();
  const both = AbortSignal.any([signal, stop.signal]);
  const queue = new Queue();
  const reader = read(options, positions, source, queue, both).finally(() => queue.close());
  // Otherwise the reader would wait forever for room that nobody makes.
  const writer = write(options, checkpoints, queue, both).finally(() => queue.close());
  try {
    await Promise.all([reader, writer]);
  } finally {
    stop.abort();
    await Promise.allSettled([reader, writer]);
  }
}

async function read(
  { nats, logger, partitions, untilBlock = Number.POSITIVE_INFINITY }: ProjectorOptions,
  positions: OpenPositions,
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
    queue.push(project(positions, owned, range));
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

function project(
  positions: OpenPositions,
  owned: ReadonlySet<number>,
  range: BlockRange,
): Projected {
  const events: BookedEvent[] = [];
  const facts: Fact[] = [];
  for (const block of range.blocks) {
    // Events without a market belong to partition 0.
    if (owned.has(0)) facts.push(...block.refused);
    for (const event of eventsOf(block)) {
      if (!owned.has(partitionOf(event.conditionId))) continue;
      // Only the first resolution counts, in the table and in the fold. If it is known, it is already stored.
      if (event.kind === 'resolution' && !positions.isResolved(event.conditionId))
        facts.push(event);
      const rows = positions.apply(event);
      if (rows.length > 0) events.push({ blockHash: block.hash, rows });
    }
  }
  const time = range.blocks.at(-1)?.time ?? 0;
  return { events, facts, reached: { block: range.to, time } };
}

async function write(
  options: ProjectorOptions,
  stored: ReadonlyMap<number, Checkpoint>,
  queue: Queue,
  signal: AbortSignal,
): Promise<void> {
  const { store, onStored, assertOwner, partitions, metrics } = options;
  const checkpoints = new Map(stored);
  let checkpointAt = Number.NEGATIVE_INFINITY;
  for (;;) {
    const chunk = await queue.take(signal);
    if (chunk === 'closed') break;
    const { events, facts, reached } = chunk;
    if (facts.length > 0) await retryLogged(options, 'facts', () => store.writeFacts(facts));
    for (const batch of batchesOf(events)) {
      const done = metrics?.insertSeconds.startTimer();
      await retryLogged(options, 'batch', async () => {
        assertOwner();
        await store.writeBatch(batch);
      });
      done?.();
      metrics?.batchRows.observe(batch.rows.length);
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
    onStored(reached);
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
    const event = eventsOf(block).find((candidate) => candidate.logIndex === logIndex);
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

/** The result of one or more LEDGER messages; events and facts are in chain order. */
type Projected = {
  readonly events: readonly BookedEvent[];
  readonly facts: readonly Fact[];
  readonly reached: Reached;
};

/**
 * Rows that the reader has folded and the writer has not taken yet. The queue limits how far the reader is ahead and
 * collects rows for FLUSH_MS so that they share an insert.
 */
class Queue {
  #events: BookedEvent[] = [];
  #facts: Fact[] = [];
  #reached: Reached | undefined;
  #rows = 0;
  #closed = false;
  #changed = Promise.withResolvers<void>();

  push({ events, facts, reached }: Projected): void {
    this.#reached = reached;
    for (const fact of facts) this.#facts.push(fact);
    for (const event of events) {
      this.#events.push(event);
      this.#rows += event.rows.length;
    }
    this.#rows += facts.length;
    this.#notify();
  }

  /** Resolves when the reader may continue. */
  async room(): Promise<void> {
    while (this.#rows >= QUEUE_ROWS_MAX && !this.#closed) await this.#changed.promise;
  }

  close(): void {
    this.#closed = true;
    this.#notify();
  }

  /** Takes all queued rows, once they fill a batch or FLUSH_MS have passed. */
  async take(signal: AbortSignal): Promise<Projected | 'closed'> {
    while (this.#reached === undefined && !this.#closed) await this.#changed.promise;
    let isDue = false;
    const flush = delay(FLUSH_MS, undefined, { ref: false }).then(() => {
      isDue = true;
    });
    while (!isDue && !this.#closed && this.#rows < BATCH_ROWS_MAX) {
      await Promise.race([this.#changed.promise, flush]);
    }
    if (this.#reached === undefined || (this.#closed && signal.aborted)) return 'closed';
    const chunk = { events: this.#events, facts: this.#facts, reached: this.#reached };
    this.#events = [];
    this.#facts = [];
    this.#reached = undefined;
    this.#rows = 0;
    this.#notify();
    return chunk;
  }

  #notify(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers<void>();
  }
}
