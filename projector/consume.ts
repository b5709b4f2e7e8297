/**
 * The projector's loop: LEDGER → book → batches → ClickHouse. A reader folds events as they come and
 * a writer stores what they became; the reader is at most QUEUE_ROWS_MAX rows ahead. Resolutions and refused events are
 * stored before the batch of the same events, progress after it. A dead ClickHouse is waited for.
 */
import type { Logger } from 'pino';
import { type Nats, streamState } from '../infra/nats/connection.ts';
import { firstMessageAtOrAfter, getMessage } from '../infra/nats/read.ts';
import { type TailMessage, tailBatches } from '../infra/nats/reader.ts';
import { retry } from '../infra/retry.ts';
import { decodeLedgerEvent, LEDGER_STREAM, type LedgerEvent } from '../ingest/contract.ts';
import { type BookedEvent, batchesOf } from './batch.ts';
import { Book } from './fold.ts';
import type { Stored } from './lag.ts';
import type { ProjectorMetrics } from './metrics.ts';
import { type Projected, Queue } from './queue.ts';
import type { Fact, Progress, Store } from './store.ts';

const PROGRESS_MS = 10_000;
/** How far before the checkpoint to read when the stream is not the one it was taken from. */
const REWIND_MS = 600_000;

export type ProjectorOptions = {
  readonly nats: Nats;
  readonly store: Store;
  /** Partitions that this projector owns; the events of others are read and left. */
  readonly partitions: readonly number[];
  /** Throws when the partitions may have another owner by now; asked before every write. */
  readonly assertOwner: () => void;
  readonly logger: Logger;
  readonly metrics?: ProjectorMetrics;
  readonly signal: AbortSignal;
  /** Ends when everything up to this LEDGER sequence is stored; goes on for ever by default. */
  readonly untilSequence?: number;
  /** Called when everything up to a LEDGER sequence is stored. */
  readonly onStored: (stored: Stored) => void;
  /** Called once, when the state is restored and reading begins. */
  readonly onStart: () => void;
};

type Start = { readonly fromSequence: number; readonly done: Map<number, Progress> };

/**
 * Runs until the signal aborts or `untilSequence` is stored. Throws on what a restart with a fresh
 * state must handle.
 */
export async function runProjector(options: ProjectorOptions): Promise<void> {
  const { store, logger, signal } = options;
  const book = new Book();
  const healed = await patiently(options, 'heal', () => store.heal());
  options.metrics?.healed.inc(healed.healedBatches);
  const progress = await patiently(options, 'restore', () => store.restore(book));
  const start = await findStart(options, progress);
  logger.info(
    { ...healed, openPositions: book.openPositions(), fromSequence: start.fromSequence },
    'projecting',
  );
  options.onStart();
  // Also without a new event: a LEDGER at rest is not one that nothing is stored of.
  if (start.fromSequence > 1) {
    const timeMs = Math.min(...[...start.done.values()].map((row) => row.timeMs));
    options.onStored({ sequence: start.fromSequence - 1, timeMs });
  }
  const stop = new AbortController();
  const both = AbortSignal.any([signal, stop.signal]);
  const queue = new Queue();
  const reader = read(options, book, start, queue, both).finally(() => queue.close());
  const writer = write(options, start.done, queue, both);
  try {
    await Promise.all([reader, writer]);
  } finally {
    stop.abort();
    await Promise.allSettled([reader, writer]);
  }
}

async function read(
  { nats, logger, metrics, partitions, untilSequence = Number.POSITIVE_INFINITY }: ProjectorOptions,
  book: Book,
  start: Start,
  queue: Queue,
  signal: AbortSignal,
): Promise<void> {
  if (start.fromSequence > untilSequence) return;
  const owned = new Set(partitions);
  const tail = tailBatches(nats, {
    stream: LEDGER_STREAM,
    fromSequence: start.fromSequence,
    signal,
    onRestart: (restart) => logger.warn(restart, 'LEDGER reader restarted'),
  });
  for await (const messages of tail) {
    for (const message of messages) {
      if (message.sequence > untilSequence) return;
      const partition = partitionOfSubject(message.subject);
      const isDone = message.sequence <= (start.done.get(partition)?.sequence ?? 0);
      const isOurs = owned.has(partition) && !isDone;
      queue.push(message, isOurs ? project(book, message, logger, metrics) : {});
    }
    await queue.room();
    if ((messages.at(-1)?.sequence ?? 0) >= untilSequence) return;
  }
}

/** `ledger.<partition>.<kind>`; what belongs to no market or trader is partition 0's. */
function partitionOfSubject(subject: string): number {
  const partition = Number(subject.split('.')[1]);
  return Number.isNaN(partition) ? 0 : partition;
}

function project(
  book: Book,
  message: TailMessage,
  logger: Logger,
  metrics: ProjectorMetrics | undefined,
): Projected {
  const { sequence, messageId } = message;
  let event: LedgerEvent;
  try {
    event = decodeLedgerEvent(message.data);
  } catch (error) {
    // Only ingest writes here, so this is a fault of ours: kept and shown, and the rest goes on.
    metrics?.unreadable.inc();
    logger.error({ sequence, err: error }, 'LEDGER message cannot be read');
    return { fact: { sequence, event: unreadable(message) } };
  }
  switch (event.kind) {
    case 'match':
      return { booked: { sequence, messageId, rows: book.applyMatch(event, sequence) } };
    case 'resolution': {
      // The first one stands, in the table as in the fold; one that is known is stored.
      const isFirst = !book.isResolved(event.conditionId);
      const booked = { sequence, messageId, rows: book.applyResolution(event, sequence) };
      return isFirst ? { booked, fact: { sequence, event } } : { booked };
    }
    case 'block':
      return {};
    default:
      return { fact: { sequence, event } };
  }
}

function unreadable(message: TailMessage): Fact['event'] {
  return {
    kind: 'refused',
    reason: 'unreadable_ledger_message',
    blockNumber: 0,
    txHash: `0x${'0'.repeat(64)}`,
    logIndex: message.sequence % 2 ** 32,
    detail: new TextDecoder().decode(message.data),
  };
}

async function write(
  options: ProjectorOptions,
  done: Map<number, Progress>,
  queue: Queue,
  signal: AbortSignal,
): Promise<void> {
  const { store, onStored, assertOwner, partitions } = options;
  let progressAt = 0;
  for (;;) {
    const chunk = await queue.take(signal);
    if (chunk === 'closed') break;
    if (chunk.facts.length > 0) {
      await patiently(options, 'facts', () => store.writeFacts(chunk.facts));
    }
    for (const batch of batchesOf(chunk.events)) {
      assertOwner();
      const stored = options.metrics?.insertSeconds.startTimer();
      await patiently(options, 'batch', () => store.writeBatch(batch));
      stored?.();
      options.metrics?.batchRows.observe(batch.rows.length);
    }
    const { last } = chunk;
    if (last === undefined) continue;
    advance(partitions, done, last, chunk.lasts);
    if (Date.now() - progressAt >= PROGRESS_MS) {
      await patiently(options, 'progress', () => store.writeProgress([...done.values()]));
      progressAt = Date.now();
    }
    onStored({ sequence: last.sequence, timeMs: last.timestampMs });
  }
  // Also without a new event: it says that the batches healed at the start are whole.
  if (done.size > 0) await store.writeProgress([...done.values()]);
}

/** Moves every owned partition to `last`: a chunk is all of LEDGER up to there. */
function advance(
  partitions: readonly number[],
  done: Map<number, Progress>,
  last: TailMessage,
  lasts: ReadonlyMap<number, BookedEvent>,
): void {
  for (const partition of partitions) {
    const before = done.get(partition);
    if (before !== undefined && before.sequence >= last.sequence) continue;
    const row = lasts.get(partition)?.rows[0];
    done.set(partition, {
      partition,
      sequence: last.sequence,
      messageId: last.messageId,
      timeMs: last.timestampMs,
      lastBlock: row?.blockNumber ?? before?.lastBlock ?? 0,
      lastLog: row?.eventLogIndex ?? before?.lastLog ?? 0,
    });
  }
}

/** First sequence to read; checks that the stream is the one that the checkpoint was taken from. */
async function findStart(options: ProjectorOptions, progress: readonly Progress[]): Promise<Start> {
  const { nats, logger } = options;
  const done = new Map(progress.map((row) => [row.partition, row]));
  const newest = progress.toSorted((a, b) => b.sequence - a.sequence)[0];
  if (newest === undefined) return { fromSequence: 1, done };
  const state = await streamState(nats, LEDGER_STREAM);
  const message = await getMessage(nats, LEDGER_STREAM, newest.sequence);
  const expired = message === undefined && newest.sequence < state.firstSequence;
  if (expired || message?.messageId === newest.messageId) {
    const oldest =
      progress.length < options.partitions.length
        ? 0
        : Math.min(...progress.map((row) => row.sequence));
    return { fromSequence: oldest + 1, done };
  }
  // Another stream, or one that lost its end: sequences mean nothing, time and chain order do.
  const sinceMs = Math.min(...progress.map((row) => row.timeMs)) - REWIND_MS;
  const first = await firstMessageAtOrAfter(nats, LEDGER_STREAM, sinceMs);
  const fromSequence = first?.sequence ?? state.lastSequence + 1;
  logger.error(
    { checkpoint: newest.sequence, lastSequence: state.lastSequence, fromSequence },
    'LEDGER is not the stream of the checkpoint: reading again from before it',
  );
  const before = await getMessage(nats, LEDGER_STREAM, Math.max(1, fromSequence - 1));
  const rewound = progress.map((row) => ({
    ...row,
    sequence: fromSequence - 1,
    messageId: before?.messageId ?? '',
  }));
  await options.store.writeProgress(rewound);
  return { fromSequence, done: new Map(rewound.map((row) => [row.partition, row])) };
}

/** Tries until it works or the signal aborts; errors are logged and waited out. */
async function patiently<T>(
  { logger, metrics, signal }: ProjectorOptions,
  what: string,
  attempt: () => Promise<T>,
): Promise<T> {
  return retry(attempt, {
    signal,
    isRetryable: () => true,
    onRetry(error) {
      metrics?.retries.inc({ what });
      logger.warn({ err: error, what }, 'ClickHouse did not take it, trying again');
    },
  });
}
