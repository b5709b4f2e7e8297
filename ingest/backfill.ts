/**
 * Where LEDGER begins. It is in chain order, so its first block is decided once, when it is empty, and
 * kept; an interrupted start goes on from the same block, and nothing can be put before it later.
 */
import { type Nats, streamState } from '../infra/nats/connection.ts';
import type { Kv } from '../infra/nats/kv.ts';
import { readRange } from '../infra/nats/read.ts';
import { BLOCK_SUBJECT, type BlockMarker, decodeLedgerEvent, LEDGER_STREAM } from './contract.ts';
import { readCursor } from './ledger-writer.ts';

const START_KEY = 'start_block';

/** The command contradicts what LEDGER holds, or LEDGER is half rewound; the message says what to do. */
export class LedgerStateError extends Error {}

export type Wanted = {
  /** First block for an empty LEDGER. */
  readonly startBlock: number;
  /** A backfill insists on its block; the follower goes on wherever LEDGER began. */
  readonly insists: boolean;
};

/** First block of LEDGER. Throws LedgerStateError when a backfill wants another one. */
export async function settleStart(nats: Nats, kv: Kv, wanted: Wanted): Promise<number> {
  const { marker, published } = await readCursor(nats);
  const stored = await kv.get(START_KEY);
  const isEmpty = marker === undefined && published.size === 0;
  if (isEmpty) {
    const isBegun = stored !== undefined && !wanted.insists;
    const start = isBegun ? numberOf(stored.value) : wanted.startBlock;
    await kv.put(START_KEY, String(start));
    return start;
  }
  const start =
    stored === undefined ? await firstMarkedBlock(nats, wanted.startBlock) : numberOf(stored.value);
  const { startBlock, insists } = wanted;
  const isNext = marker !== undefined && startBlock === marker.blockNumber + 1;
  if (insists && startBlock !== start && !isNext) throw refusal(startBlock, start, marker);
  return start;
}

function refusal(wanted: number, start: number, marker: BlockMarker | undefined): LedgerStateError {
  const end = marker === undefined ? '' : ` and ends with block ${marker.blockNumber}`;
  const why =
    wanted < start
      ? 'LEDGER is in chain order, so earlier blocks cannot be put before them: backfill into an empty LEDGER'
      : `go on with --from-block ${start}, or without backfill; a gap is never left`;
  return new LedgerStateError(
    `backfill --from-block ${wanted}: LEDGER begins with block ${start}${end}. ${why}.`,
  );
}

/** Of a ledger from before its start was kept. */
async function firstMarkedBlock(nats: Nats, otherwise: number): Promise<number> {
  const { firstSequence } = await streamState(nats, LEDGER_STREAM);
  const [first] = await readRange(nats, LEDGER_STREAM, firstSequence, 1, BLOCK_SUBJECT);
  const event = first === undefined ? undefined : decodeLedgerEvent(first.data);
  return event?.kind === 'block' ? event.blockNumber : otherwise;
}

function numberOf(value: Uint8Array): number {
  return Number(new TextDecoder().decode(value));
}
