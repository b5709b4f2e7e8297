/**
 * Folds the fills that the live tables hold, with the stored resolutions between them, into the tables
 * beside: for the part of history that LEDGER does not have. A stored fill has everything that the fold
 * needs; what the old fold made of it (PnL, positions, settlements) is not read.
 */
import type { ClickHouseClient } from '@clickhouse/client';
import { z } from 'zod';
import {
  Address,
  Fill,
  Hash,
  type Match,
  PARTITIONS,
  type Resolution,
} from '../ingest/contract.ts';
import { type BookedEvent, batchesOf } from './batch.ts';
import { Book } from './fold.ts';
import type { Cut, Source } from './rebuild-source.ts';
import type { Store } from './store.ts';

/** About so many rows are sorted and sent at once: 60 MB of JSON. */
const SLICE_ROWS = 200_000;
const HEX = (column: string) => `concat('0x', lower(hex(${column})))`;
/** `bookings` does not keep the exchange, and the fold does not ask for it. */
const UNKNOWN_EXCHANGE: Address = `0x${'0'.repeat(40)}`;

const UInt = z.union([z.number(), z.string()]).transform(Number).pipe(z.int().nonnegative());
const Amount = z.union([z.number(), z.string()]).transform((value) => BigInt(value));
const Hour = z.object({ hour: UInt, fills: UInt });
const StoredFill = z.tuple([
  UInt, // block
  UInt, // time
  UInt, // log of the match
  Hash,
  Hash, // condition
  UInt, // sequence
  UInt, // log of the fill
  Hash, // order
  Address,
  z.boolean(),
  z.enum(['BUY', 'SELL']),
  Fill.shape.outcomeIndex,
  z.coerce.string(), // token
  Amount,
  Amount,
  Amount,
]);
const StoredResolution = z.object({
  condition_id: Hash,
  payout_0: Amount,
  payout_1: Amount,
  block_number: UInt,
  block_time: UInt,
  log_index: UInt,
  sequence: UInt,
  tx_hash: Hash,
});

type Sequenced = { readonly event: Match | Resolution; readonly sequence: number };

/** Writes bookings and checkpoints up to the cut; `onProgress` hears fills done and in all. */
export async function foldStoredFills(options: {
  readonly live: ClickHouseClient;
  readonly store: Store;
  readonly source: Extract<Source, { kind: 'fills' }>;
  readonly signal: AbortSignal;
  readonly onProgress: (done: number, all: number) => void;
}): Promise<void> {
  const { live, store, source, signal, onProgress } = options;
  const book = new Book();
  const resolutions = await storedResolutions(live, source.cut);
  const slices = await slicesOf(live);
  const all = slices.reduce((sum, slice) => sum + slice.fills, 0);
  let done = 0;
  let settled = 0;
  for (const slice of slices) {
    signal.throwIfAborted();
    const matches = await storedMatches(live, source.cut, slice);
    const last = matches.at(-1);
    const between: Sequenced[] = [];
    for (let next = resolutions[settled]; next !== undefined; next = resolutions[settled]) {
      if (last === undefined || isAfter(next, last)) break;
      between.push(next);
      settled += 1;
    }
    const inOrder = [...matches, ...between].sort((a, b) => (isAfter(a, b) ? 1 : -1));
    await fold(book, store, inOrder);
    done += slice.fills;
    onProgress(done, all);
  }
  await fold(book, store, resolutions.slice(settled));
  // Sequence 0 is no message; an empty checkpoint then lets the projector find its own start.
  if (source.fromSequence > 1) await writeCheckpoints(book, store, source);
}

async function fold(book: Book, store: Store, events: readonly Sequenced[]): Promise<void> {
  const booked = events.map(({ event, sequence }): BookedEvent => {
    const messageId = `${event.kind}:${event.txHash}:${event.logIndex}`;
    const rows =
      event.kind === 'match'
        ? book.applyMatch(event, sequence)
        : book.applyResolution(event, sequence);
    return { sequence, messageId, rows };
  });
  for (const batch of batchesOf(booked)) await store.writeBatch(batch);
}

async function writeCheckpoints(
  book: Book,
  store: Store,
  { fromSequence, messageId, timeMs }: Extract<Source, { kind: 'fills' }>,
): Promise<void> {
  await store.writeProgress(
    Array.from({ length: PARTITIONS }, (_, partition) => {
      const { blockNumber, logIndex } = book.lastOf(partition);
      return {
        partition,
        sequence: fromSequence - 1,
        messageId,
        timeMs,
        lastBlock: blockNumber,
        lastLog: logIndex,
      };
    }),
  );
}

type Slice = { readonly from: number; readonly to: number; readonly fills: number };

/** Spans of whole hours with about SLICE_ROWS fills: a block, and so a match, is in one of them. */
async function slicesOf(live: ClickHouseClient): Promise<readonly Slice[]> {
  const result = await live.query({
    query: `SELECT toUnixTimestamp(toStartOfHour(block_time)) AS hour, count() AS fills
      FROM bookings WHERE kind = 'fill' GROUP BY hour ORDER BY hour`,
    format: 'JSONEachRow',
  });
  const slices: Slice[] = [];
  for (const { hour, fills } of z.array(Hour).parse(await result.json())) {
    const open = slices.at(-1);
    if (open === undefined || open.fills + fills > SLICE_ROWS) {
      slices.push({ from: hour, to: hour + 3_600, fills });
    } else {
      slices[slices.length - 1] = { from: open.from, to: hour + 3_600, fills: open.fills + fills };
    }
  }
  return slices;
}

async function storedMatches(
  live: ClickHouseClient,
  cut: Cut,
  { from, to }: Slice,
): Promise<readonly Sequenced[]> {
  const result = await live.query({
    query: `SELECT block_number, toUnixTimestamp(block_time), event_log_index, ${HEX('tx_hash')},
        ${HEX('condition_id')}, sequence, log_index, ${HEX('order_hash')}, ${HEX('trader')}, is_taker,
        side, outcome_index, toString(token_id), shares, usdc, fee
      FROM bookings
      WHERE kind = 'fill' AND block_time >= {from:UInt32} AND block_time < {to:UInt32}
        AND ${beforeCut(cut, 'event_log_index')}
      ORDER BY block_number, event_log_index, log_index`,
    query_params: { from, to },
    format: 'JSONCompactEachRow',
  });
  const matches: Sequenced[] = [];
  let fills: Fill[] = [];
  for await (const rows of result.stream()) {
    for (const row of rows) {
      const stored = StoredFill.parse(row.json());
      const [block, time, log, txHash, conditionId, sequence] = stored;
      const open = matches.at(-1)?.event;
      if (open?.blockNumber !== block || open.logIndex !== log) {
        fills = [];
        const at = { blockNumber: block, blockTime: time, logIndex: log, txHash, conditionId };
        const event = { kind: 'match', ...at, exchange: UNKNOWN_EXCHANGE, fills } as const;
        matches.push({ event, sequence });
      }
      const read = fillOf(stored);
      // A fill is its log: the same log again is a row too many.
      if (fills.at(-1)?.logIndex !== read.logIndex) fills.push(read);
    }
  }
  return matches;
}

function fillOf(row: z.infer<typeof StoredFill>): Fill {
  const [, , , , , , logIndex, orderHash, trader, isTaker, side, outcomeIndex, tokenId, ...rest] =
    row;
  const [shares, usdc, fee] = rest;
  return { logIndex, orderHash, trader, isTaker, side, outcomeIndex, tokenId, shares, usdc, fee };
}

async function storedResolutions(live: ClickHouseClient, cut: Cut): Promise<readonly Sequenced[]> {
  const result = await live.query({
    query: `SELECT ${HEX('condition_id')} AS condition_id, payout_0, payout_1, block_number,
        toUnixTimestamp(resolved_at) AS block_time, log_index, sequence, ${HEX('s.tx_hash')} AS tx_hash
      FROM (SELECT * FROM resolutions FINAL WHERE ${beforeCut(cut, 'log_index')}) AS r
      -- The transaction is only in the settlements; zero bytes where nobody held anything.
      LEFT ANY JOIN (SELECT condition_id, block_number, event_log_index AS log_index, tx_hash
        FROM bookings WHERE kind = 'settlement') AS s USING (condition_id, block_number, log_index)
      ORDER BY block_number, log_index`,
    format: 'JSONEachRow',
  });
  const rows = z.array(StoredResolution).parse(await result.json());
  return rows.map((row) => ({
    sequence: row.sequence,
    event: {
      kind: 'resolution',
      conditionId: row.condition_id,
      blockNumber: row.block_number,
      blockTime: row.block_time,
      logIndex: row.log_index,
      txHash: row.tx_hash,
      payouts: [row.payout_0, row.payout_1],
    },
  }));
}

function beforeCut(cut: Cut, logColumn: string): string {
  switch (cut.kind) {
    case 'none':
      return 'true';
    case 'sequence':
      return `sequence < ${cut.before}`;
    case 'chain':
      return `(block_number, ${logColumn}) < (${cut.block}, ${cut.log})`;
  }
}

function isAfter({ event: a }: Sequenced, { event: b }: Sequenced): boolean {
  if (a.blockNumber !== b.blockNumber) return a.blockNumber > b.blockNumber;
  return a.logIndex > b.logIndex;
}
