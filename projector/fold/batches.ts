/** Cuts booking rows into insert batches. A batch's id depends only on its rows, so a repeated insert is recognised. */
import { createHash } from 'node:crypto';
import type { Hash } from '../../ingest/contract.ts';
import type { Booking } from '../contract.ts';

/** Most rows of a batch, unless a single event has more: events are never split. */
export const BATCH_ROWS_MAX = 20_000;

/** The rows of one LEDGER event. */
export type BookedEvent = {
  readonly blockHash: Hash;
  readonly rows: readonly Booking[];
};

export type Batch = {
  /** Decimal UInt64; also the deduplication token of the insert. */
  readonly id: string;
  readonly rows: readonly Booking[];
};

/** Cuts events, in chain order, into batches of one month each. Drops events without rows. */
export function batchesOf(events: readonly BookedEvent[]): readonly Batch[] {
  const batches: Batch[] = [];
  let open: BookedEvent[] = [];
  let rows = 0;
  const close = () => {
    if (open.length > 0) batches.push(batchOf(open));
    open = [];
    rows = 0;
  };
  for (const event of events) {
    const row = event.rows[0];
    if (row === undefined) continue;
    const sameMonth = open.length === 0 || monthOf(open[0]?.rows[0]) === monthOf(row);
    const isFull = rows > 0 && rows + event.rows.length > BATCH_ROWS_MAX;
    // The newest stored event is known by its log, so all events of a log are stored at once.
    if (!sameMonth || (isFull && !isSameLog(open.at(-1)?.rows[0], row))) close();
    open.push(event);
    rows += event.rows.length;
  }
  close();
  return batches;
}

function batchOf(events: readonly BookedEvent[]): Batch {
  const rows = events.flatMap((event) => event.rows);
  const first = events[0];
  const last = events.at(-1);
  const identity = JSON.stringify([
    first?.blockHash,
    first?.rows[0]?.eventLogIndex,
    last?.blockHash,
    last?.rows[0]?.eventLogIndex,
    rows.length,
  ]);
  const hash = createHash('sha256').update(identity).digest();
  return { id: hash.readBigUInt64BE(0).toString(), rows };
}

function isSameLog(a: Booking | undefined, b: Booking): boolean {
  return a?.blockNumber === b.blockNumber && a.eventLogIndex === b.eventLogIndex;
}

function monthOf(row: Booking | undefined): string {
  return row === undefined ? '' : new Date(row.blockTime * 1_000).toISOString().slice(0, 7);
}
