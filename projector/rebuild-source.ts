/**
 * Where a rebuild begins: at the first message of LEDGER, or, where LEDGER does not reach back to the
 * first stored fill, with the stored fills up to a cut and LEDGER from there. The cut is a sequence
 * where LEDGER is provably the stream that was stored, and a place in the chain otherwise.
 */
import type { ClickHouseClient } from '@clickhouse/client';
import { z } from 'zod';
import { type Nats, streamState } from '../infra/nats/connection.ts';
import { getMessage, readRange } from '../infra/nats/read.ts';
import { decodeLedgerEvent, LEDGER_STREAM, PARTITIONS } from '../ingest/contract.ts';

export type From = 'ledger' | 'fills';

/** Stored rows before this are folded from the tables; `none`: LEDGER has nothing to cut at. */
export type Cut =
  | { readonly kind: 'sequence'; readonly before: number }
  | { readonly kind: 'chain'; readonly block: number; readonly log: number }
  | { readonly kind: 'none' };

export type Source =
  | { readonly kind: 'ledger' }
  | {
      readonly kind: 'fills';
      readonly cut: Cut;
      /** LEDGER is read from here on. */
      readonly fromSequence: number;
      /** Id of the message before it, where LEDGER still has it. */
      readonly messageId: string;
      /** When that message was stored, or earlier. */
      readonly timeMs: number;
    };

/** LEDGER was asked for, but begins after the first stored fill. */
export class LedgerIncompleteError extends Error {}

const UInt = z.union([z.number(), z.string()]).transform(Number).pipe(z.int().nonnegative());
const Stored = z.object({ fills: UInt, first_block: UInt, last_time: UInt });
const Checkpoints = z.object({ partitions: UInt, sequence: UInt, message_id: z.string() });

/** Decides by what is there; `from` undefined prefers LEDGER. Throws LedgerIncompleteError. */
export async function findSource(
  nats: Nats,
  live: ClickHouseClient,
  from: From | undefined,
): Promise<Source> {
  const { firstSequence } = await streamState(nats, LEDGER_STREAM);
  const first = await firstOnChain(nats, firstSequence);
  const stored = await oneRow(
    live,
    `SELECT count() AS fills, min(block_number) AS first_block,
       toUnixTimestamp(max(block_time)) AS last_time FROM bookings WHERE kind = 'fill'`,
    Stored,
  );
  const reaches =
    stored.fills === 0 ||
    (firstSequence <= 1 && first !== undefined && first.block <= stored.first_block);
  if (from === 'ledger' && !reaches) {
    throw new LedgerIncompleteError(
      `LEDGER begins at sequence ${firstSequence}, after the first stored fill: use --from fills`,
    );
  }
  if (reaches && from !== 'fills') return { kind: 'ledger' };
  const checkpoint = from === 'fills' ? await provenCheckpoint(nats, live) : undefined;
  if (checkpoint !== undefined) {
    const fromSequence = checkpoint.sequence + 1;
    return {
      kind: 'fills',
      cut: { kind: 'sequence', before: fromSequence },
      ...checkpoint,
      fromSequence,
    };
  }
  const cut: Cut = first === undefined ? { kind: 'none' } : { kind: 'chain', ...first };
  const fromSequence = Math.max(1, firstSequence);
  const timeMs = (first?.time ?? stored.last_time) * 1_000;
  return { kind: 'fills', cut, fromSequence, messageId: '', timeMs };
}

/** Place in the chain of the first match or resolution from a sequence on. */
async function firstOnChain(nats: Nats, fromSequence: number) {
  const from = Math.max(1, fromSequence);
  const found = await Promise.all(
    ['ledger.*.match', 'ledger.*.resolution'].map((subject) =>
      readRange(nats, LEDGER_STREAM, from, 1, subject),
    ),
  );
  const [first] = found.flat().toSorted((a, b) => a.sequence - b.sequence);
  if (first === undefined) return undefined;
  const event = decodeLedgerEvent(first.data);
  if (event.kind !== 'match' && event.kind !== 'resolution') return undefined;
  return { block: event.blockNumber, log: event.logIndex, time: event.blockTime };
}

/** The oldest checkpoint of the live tables, if all partitions have one and LEDGER still proves it. */
async function provenCheckpoint(nats: Nats, live: ClickHouseClient) {
  const row = await oneRow(
    live,
    `SELECT count() AS partitions, min(c.sequence) AS sequence,
       argMin(c.message_id, c.sequence) AS message_id FROM projector_checkpoints AS c FINAL`,
    Checkpoints,
  );
  if (row.partitions < PARTITIONS || row.sequence === 0) return undefined;
  const message = await getMessage(nats, LEDGER_STREAM, row.sequence);
  if (message === undefined || message.messageId !== row.message_id) return undefined;
  const { sequence, messageId, timestampMs: timeMs } = message;
  return { sequence, messageId, timeMs };
}

async function oneRow<Row>(
  client: ClickHouseClient,
  query: string,
  schema: z.ZodType<Row>,
): Promise<Row> {
  const result = await client.query({ query, format: 'JSONEachRow' });
  return schema.parse((await result.json<unknown>())[0]);
}
