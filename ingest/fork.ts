/**
 * A final block that was replaced. Ingest never writes another history over the one in LEDGER: it asks
 * every endpoint, more than once, and when none agrees with LEDGER any more it stops with an alarm.
 * docs/operations.md, "A final block was replaced", says what to do then.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Nats } from '../infra/nats/connection.ts';
import { lastMessage, readRange } from '../infra/nats/read.ts';
import { BLOCK_SUBJECT, type BlockMarker, decodeLedgerEvent, LEDGER_STREAM } from './contract.ts';
import type { Rpc } from './rpc.ts';
import { RpcError } from './rpc-pool.ts';

const ASKED_TIMES = 3;
const ASK_AGAIN_MS = 500;
const WINDOW_MESSAGES = 10_000;

/** A final block was replaced: nothing that follows can be trusted. See docs/operations.md. */
export class FinalReorgError extends Error {}

export type Held = Pick<BlockMarker, 'blockNumber' | 'blockHash'>;

/** The first pause before blocks are read again that did not follow LEDGER, and the longest. */
const PAUSE_MIN_MS = 200;
const PAUSE_MAX_MS = 5_000;
/** Longer than endpoints behind one name take to agree on what is final. */
const CONTRADICTED_MS_MAX = 300_000;

/**
 * Repeated contradictions at one block of LEDGER: an endpoint still has it, but what comes after it does
 * not follow. Read again ever more rarely; when no endpoint has given a block that follows for
 * CONTRADICTED_MS_MAX, somebody has to decide which of them are right.
 */
export class Contradictions {
  #block = -1;
  #sinceMs = 0;
  #pauseMs = 0;

  /** How long to wait before reading again, milliseconds. Throws FinalReorgError. `nowMs` is monotonic. */
  pauseMs(held: Held, nowMs: number): number {
    if (held.blockNumber !== this.#block) {
      this.#block = held.blockNumber;
      this.#sinceMs = nowMs;
      this.#pauseMs = 0;
    }
    const forMs = nowMs - this.#sinceMs;
    if (forMs > CONTRADICTED_MS_MAX) {
      throw new FinalReorgError(
        `for ${Math.round(forMs / 1_000)} s no block followed ${held.blockHash}, block ` +
          `${held.blockNumber} of LEDGER, although an endpoint still has it: the endpoints are of two ` +
          'histories. Nothing was published. See docs/operations.md, "A final block was replaced".',
      );
    }
    this.#pauseMs = Math.min(Math.max(this.#pauseMs * 2, PAUSE_MIN_MS), PAUSE_MAX_MS);
    return this.#pauseMs;
  }
}

/**
 * Decides what it means that a block does not follow the newest one of LEDGER. Returns when an
 * endpoint still agrees with LEDGER, so that reading again is right.
 *
 * Throws FinalReorgError when every endpoint that has the block has another one, each time it was
 * asked; RpcError when none has it.
 */
export async function judgeFork(nats: Nats, rpc: Rpc, held: Held, signal: AbortSignal) {
  const others = new Set<string>();
  for (let asked = 0; asked < ASKED_TIMES; asked++) {
    const hashes = (await rpc.hashesOf(held.blockNumber)).filter((hash) => hash !== undefined);
    if (hashes.includes(held.blockHash)) return rpc.doubt();
    if (hashes.length === 0) throw new RpcError('lagging', `no block ${held.blockNumber}`);
    for (const hash of hashes) others.add(hash);
    await delay(ASK_AGAIN_MS, undefined, { signal });
  }
  const agreed = await newestAgreed(nats, rpc);
  const rewind = agreed === undefined ? 'nothing of it' : `up to block ${agreed.blockNumber}`;
  throw new FinalReorgError(
    `a final block was replaced: LEDGER holds ${held.blockHash} as block ${held.blockNumber}, the ` +
      `chain now has ${[...others].join(', ')}. Chain and LEDGER agree on ${rewind}. Nothing was ` +
      'published. See docs/operations.md, "A final block was replaced".',
  );
}

/** The newest block of LEDGER that the chain still has; undefined when there is none. */
export async function newestAgreed(nats: Nats, rpc: Rpc): Promise<BlockMarker | undefined> {
  const last = await lastMessage(nats, LEDGER_STREAM, BLOCK_SUBJECT);
  for (let to = last?.sequence ?? 0; to > 0; to -= WINDOW_MESSAGES) {
    const from = Math.max(1, to - WINDOW_MESSAGES + 1);
    const markers = await markersOf(nats, from, to);
    const [oldest] = markers;
    // Blocks link, so agreement on one is agreement on all before it: halve inside the window.
    if (oldest === undefined || !(await agrees(rpc, oldest))) continue;
    let [good, bad] = [0, markers.length];
    while (bad - good > 1) {
      const middle = Math.floor((good + bad) / 2);
      if (await agrees(rpc, markers[middle])) good = middle;
      else bad = middle;
    }
    return markers[good];
  }
  return undefined;
}

async function markersOf(nats: Nats, from: number, to: number): Promise<readonly BlockMarker[]> {
  const messages = await readRange(nats, LEDGER_STREAM, from, to - from + 1, BLOCK_SUBJECT);
  return messages
    .filter((message) => message.sequence <= to)
    .map((message) => decodeLedgerEvent(message.data))
    .filter((event) => event.kind === 'block');
}

async function agrees(rpc: Rpc, marker: BlockMarker | undefined): Promise<boolean> {
  if (marker === undefined) return false;
  return (await rpc.hashesOf(marker.blockNumber)).includes(marker.blockHash);
}
