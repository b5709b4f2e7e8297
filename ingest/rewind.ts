/**
 * The repair of LEDGER after a final block was replaced: takes out every chain fact and marker after a
 * block, so that ingest goes on from there with the chain's new history. METADATA stays as it is.
 * Invariant: while a rewind is unfinished ingest refuses to start, and the rewind can be run again.
 * It cannot take back what consumers have read: docs/operations.md says how they are rebuilt.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { type Nats, streamState } from '../infra/nats/connection.ts';
import type { Kv } from '../infra/nats/kv.ts';
import { lastMessage, readRange, storedSince } from '../infra/nats/read.ts';
import { moveToEnd, removeMessages } from '../infra/nats/rewind.ts';
import { LedgerStateError } from './backfill.ts';
import { BLOCK_SUBJECT, type BlockMarker, decodeLedgerEvent, LEDGER_STREAM } from './contract.ts';

const REWIND_KEY = 'rewind';
const WINDOW_MESSAGES = 10_000;
const STANDSTILL_MS = 1_000;
const CHAIN_KINDS = ['match', 'resolution', 'refused', 'block'] as const;
type ChainKind = (typeof CHAIN_KINDS)[number];

export type RewindPlan = {
  /** The block that LEDGER will end with: the newest one with a marker, `toBlock` at most. */
  readonly keeps: BlockMarker;
  readonly keepsSequence: number;
  readonly sequences: readonly number[];
  readonly removed: Readonly<Record<ChainKind, number>>;
  /** Newest block that is removed. */
  readonly newest: number;
};

/** Throws LedgerStateError while a rewind is unfinished. */
export async function refuseHalfRewound(kv: Kv): Promise<void> {
  const entry = await kv.get(REWIND_KEY);
  if (entry === undefined) return;
  const block = new TextDecoder().decode(entry.value);
  throw new LedgerStateError(
    `a rewind was interrupted: run "rewind --to-block ${block} --yes" again before ingest starts`,
  );
}

/** What a rewind would remove. Throws LedgerStateError when LEDGER has no block up to `toBlock`. */
export async function planRewind(nats: Nats, toBlock: number): Promise<RewindPlan> {
  const found = await newestMarkerUpTo(nats, toBlock);
  if (found === undefined) {
    throw new LedgerStateError(
      `LEDGER has no block up to ${toBlock}: empty it instead, and start again`,
    );
  }
  const removed = { match: 0, resolution: 0, refused: 0, block: 0 };
  const sequences: number[] = [];
  let newest = found.marker.blockNumber;
  const start = { sequence: found.sequence + 1 };
  for await (const message of storedSince(nats, LEDGER_STREAM, start)) {
    const kind = CHAIN_KINDS.find((one) => message.messageId.startsWith(`${one}:`));
    if (kind === undefined) continue;
    removed[kind] += 1;
    sequences.push(message.sequence);
    if (kind !== 'block') continue;
    newest = Math.max(newest, Number(message.messageId.slice('block:'.length)));
  }
  return { keeps: found.marker, keepsSequence: found.sequence, sequences, removed, newest };
}

/** Removes what the plan says. Throws LedgerStateError when something else writes LEDGER meanwhile. */
export async function rewind(nats: Nats, kv: Kv, plan: RewindPlan): Promise<void> {
  await refuseWritten(nats);
  await kv.put(REWIND_KEY, String(plan.keeps.blockNumber));
  await removeMessages(nats, LEDGER_STREAM, plan.sequences);
  const { sequences } = await planRewind(nats, plan.keeps.blockNumber);
  if (sequences.length > 0) {
    throw new LedgerStateError('LEDGER was written meanwhile: stop ingest and rewind again');
  }
  await moveToEnd(nats, LEDGER_STREAM, plan.keepsSequence);
  await kv.delete(REWIND_KEY);
}

async function refuseWritten(nats: Nats): Promise<void> {
  const before = await lastMessage(nats, LEDGER_STREAM, BLOCK_SUBJECT);
  await delay(STANDSTILL_MS);
  const after = await lastMessage(nats, LEDGER_STREAM, BLOCK_SUBJECT);
  if (before?.sequence === after?.sequence) return;
  throw new LedgerStateError('LEDGER is being written: stop ingest first');
}

async function newestMarkerUpTo(nats: Nats, block: number) {
  const { lastSequence } = await streamState(nats, LEDGER_STREAM);
  for (let to = lastSequence; to > 0; to -= WINDOW_MESSAGES) {
    const from = Math.max(1, to - WINDOW_MESSAGES + 1);
    const messages = await readRange(nats, LEDGER_STREAM, from, to - from + 1, BLOCK_SUBJECT);
    const markers = messages.flatMap(({ sequence, data }) => {
      const event = decodeLedgerEvent(data);
      const fits = sequence <= to && event.kind === 'block' && event.blockNumber <= block;
      return fits ? [{ sequence, marker: event }] : [];
    });
    const newest = markers.at(-1);
    if (newest !== undefined) return newest;
  }
  return undefined;
}
