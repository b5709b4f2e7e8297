/**
 * Repairs LEDGER after a final block was replaced: removes everything after a given block, so that ingest continues
 * from there with the chain's new history. While a rewind is unfinished, ingest refuses to start; run the rewind again.
 * It cannot undo what consumers have read: docs/operations.md explains how to rebuild their data.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Nats } from '../infra/nats/connection.ts';
import type { Kv } from '../infra/nats/kv.ts';
import { removeMessages } from '../infra/nats/streams.ts';
import {
  addCounts,
  type Block,
  type BlockRange,
  type Counts,
  countsOf,
  encodeRange,
  LEDGER_STREAM,
  type LedgerMessage,
  messageAt,
  messageUpTo,
  newestMessage,
  storedMessages,
} from '../ingest/ledger/ledger.ts';
import {
  LedgerFencedError,
  LedgerStateError,
  LedgerWriter,
  REWIND_KEY,
} from '../ingest/ledger/ledger-writer.ts';

const STANDSTILL_MS = 1_000;

export type RewindPlan = {
  /** The last block of LEDGER after the rewind: the newest listed block up to `toBlock`. */
  readonly keeps: Block;
  /** The message that holds it; it is stored again without the blocks after it. */
  readonly message: LedgerMessage;
  /** Messages that are removed. */
  readonly sequences: readonly number[];
  /** Events that are removed. */
  readonly removed: Counts;
  /** Newest block that is removed. */
  readonly newest: number;
};

/** Lists what a rewind would remove. Throws LedgerStateError if LEDGER has no block up to `toBlock`. */
export async function planRewind(nats: Nats, toBlock: number): Promise<RewindPlan> {
  const { message, keeps } = await newestBlockUpTo(nats, toBlock);
  const sequences: number[] = [];
  let removed = countsOf([]);
  let newest = keeps.number;
  for await (const { sequence, range } of storedMessages(nats, { sequence: message.sequence })) {
    if (sequence > message.sequence) sequences.push(sequence);
    newest = Math.max(newest, range.to);
    const after = range.blocks.filter(({ number }) => number > keeps.number);
    removed = addCounts(removed, countsOf(after));
  }
  return { keeps, message, sequences, removed, newest };
}

/** Carries out the plan. Throws LedgerStateError if another process writes LEDGER at the same time. */
export async function rewind(nats: Nats, kv: Kv, plan: RewindPlan): Promise<void> {
  const { keeps, message, sequences } = plan;
  // Opened first, so that any message that another process writes from now on blocks the shortened
  // message.
  const writer = await LedgerWriter.open(nats);
  try {
    await refuseWritten(nats, sequences.at(-1) ?? message.sequence);
    await kv.put(REWIND_KEY, String(keeps.number));
    await removeMessages(nats, LEDGER_STREAM, sequences);
    const before = await messageUpTo(nats, message.sequence - 1);
    await storeAgain(writer, cut(message.range, keeps));
    // After an interrupted rewind, the original of this shortened message may still exist.
    const isCutFrom = before?.range.kind === 'blocks' && before.range.to >= message.range.from;
    const replaced = isCutFrom ? [before.sequence, message.sequence] : [message.sequence];
    await removeMessages(nats, LEDGER_STREAM, replaced);
    await kv.delete(REWIND_KEY);
  } finally {
    writer.close();
  }
}

async function newestBlockUpTo(nats: Nats, toBlock: number) {
  const newest = await newestMessage(nats);
  const end = Math.min(toBlock, newest?.range.to ?? -1);
  let message = await messageAt(nats, end);
  let keeps = message?.range.blocks.findLast(({ number }) => number <= toBlock);
  if (message !== undefined && keeps === undefined) {
    message = await messageUpTo(nats, message.sequence - 1);
    keeps = message?.range.kind === 'blocks' ? message.range.blocks.at(-1) : undefined;
  }
  if (message !== undefined && keeps !== undefined) return { message, keeps };
  throw new LedgerStateError(
    `LEDGER has no block up to ${toBlock}: empty it and start again instead`,
  );
}

function cut(range: BlockRange, { number }: Block): BlockRange {
  return { ...range, to: number, blocks: range.blocks.filter((block) => block.number <= number) };
}

/**
 * Stores a range as the newest message, even if nothing was cut from it: nats-server 2.9 does not find the newest
 * message of a subject after the end of the stream was removed.
 */
async function storeAgain(writer: LedgerWriter, range: BlockRange): Promise<void> {
  try {
    await writer.store(range.to, encodeRange(range));
  } catch (error) {
    if (!(error instanceof LedgerFencedError)) throw error;
    throw new LedgerStateError(
      'another process wrote LEDGER during the rewind: stop ingest and rewind again',
    );
  }
}

/** Throws LedgerStateError unless LEDGER still ends with this message after a while. */
async function refuseWritten(nats: Nats, sequence: number): Promise<void> {
  await delay(STANDSTILL_MS);
  const newest = await newestMessage(nats);
  if (newest?.sequence === sequence) return;
  throw new LedgerStateError('another process is writing LEDGER: stop ingest first');
}
