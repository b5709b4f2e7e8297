/**
 * A final block that was replaced. Ingest never writes another history over the one in LEDGER. It asks every
 * endpoint several times; when none agrees with LEDGER any more, it stops with an alarm. docs/operations.md, "A final
 * block was replaced", describes the repair.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Nats } from '../infra/nats/connection.ts';
import { type Block, type LedgerMessage, lastBlock, messageUpTo, newestMessage } from './ledger.ts';
import type { BlockRef } from './ledger-writer.ts';
import type { Rpc } from './rpc.ts';
import { RpcError } from './rpc-pool.ts';

const ASKED_TIMES = 3;
const ASK_AGAIN_MS = 500;

/** A final block was replaced: nothing that follows can be trusted. See docs/operations.md. */
export class FinalReorgError extends Error {}

/** First and longest pause before blocks that did not follow LEDGER are read again. */
const PAUSE_MIN_MS = 200;
const PAUSE_MAX_MS = 5_000;
/** Longer than the endpoints behind one name need to agree on what is final. */
const CONTRADICTED_MS_MAX = 300_000;

/**
 * Repeated contradictions at one block of LEDGER: an endpoint still has it, but the next block does not follow it. The
 * pauses grow; when no endpoint has returned a block that follows for CONTRADICTED_MS_MAX, an operator has to decide
 * which endpoints are right.
 */
export class Contradictions {
  #block = -1;
  #sinceMs = 0;
  #pauseMs = 0;

  /** Pause before reading again, milliseconds. Throws FinalReorgError. `nowMs` is monotonic. */
  pauseMs(held: BlockRef, nowMs: number): number {
    if (held.number !== this.#block) {
      this.#block = held.number;
      this.#sinceMs = nowMs;
      this.#pauseMs = 0;
    }
    const forMs = nowMs - this.#sinceMs;
    if (forMs > CONTRADICTED_MS_MAX) {
      throw new FinalReorgError(
        `for ${Math.round(forMs / 1_000)} s no block followed ${held.hash}, block ` +
          `${held.number} of LEDGER, although an endpoint still has it: the endpoints are of two ` +
          'histories. Nothing was published. See docs/operations.md, "A final block was replaced".',
      );
    }
    this.#pauseMs = Math.min(Math.max(this.#pauseMs * 2, PAUSE_MIN_MS), PAUSE_MAX_MS);
    return this.#pauseMs;
  }
}

/**
 * Called when a block does not follow the newest one of LEDGER. Returns when an endpoint still agrees with LEDGER: the
 * blocks should be read again.
 *
 * Throws FinalReorgError when every endpoint that has the block has a different one each time, and RpcError when
 * none has it.
 */
export async function judgeFork(nats: Nats, rpc: Rpc, held: BlockRef, signal: AbortSignal) {
  const others = new Set<string>();
  for (let asked = 0; asked < ASKED_TIMES; asked++) {
    const hashes = (await rpc.hashesOf(held.number)).filter((hash) => hash !== undefined);
    if (hashes.includes(held.hash)) return rpc.doubt();
    if (hashes.length === 0) throw new RpcError('lagging', `no block ${held.number}`);
    for (const hash of hashes) others.add(hash);
    await delay(ASK_AGAIN_MS, undefined, { signal });
  }
  const agreed = await newestAgreed(nats, rpc);
  const rewind = agreed === undefined ? 'nothing of it' : `up to block ${agreed.number}`;
  throw new FinalReorgError(
    `a final block was replaced: LEDGER holds ${held.hash} as block ${held.number}, the ` +
      `chain now has ${[...others].join(', ')}. Chain and LEDGER agree on ${rewind}. Nothing was ` +
      'published. See docs/operations.md, "A final block was replaced".',
  );
}

/** The newest block of LEDGER that the chain still has; undefined when there is none. */
export async function newestAgreed(nats: Nats, rpc: Rpc): Promise<Block | undefined> {
  const newest = await newestMessage(nats);
  let agreed: Block | undefined;
  let [low, high] = [1, newest?.sequence ?? 0];
  // Blocks link, so agreement on one is agreement on all before it.
  while (low <= high) {
    const middle = Math.floor((low + high) / 2);
    const message = await messageUpTo(nats, middle);
    // Deleted from `low` on.
    if (message === undefined || message.sequence < low) {
      low = middle + 1;
      continue;
    }
    const found = await newestAgreedOf(rpc, message);
    agreed = found ?? agreed;
    if (found === undefined && message.range.kind === 'blocks') high = message.sequence - 1;
    else low = middle + 1;
  }
  return agreed;
}

/** The newest listed block of a message that the chain still has. */
async function newestAgreedOf(rpc: Rpc, { range }: LedgerMessage): Promise<Block | undefined> {
  if (range.kind !== 'blocks') return undefined;
  const isAgreed = async ({ number, hash }: Block) => (await rpc.hashesOf(number)).includes(hash);
  const newest = lastBlock(range);
  if (await isAgreed(newest)) return newest;
  let agreed: Block | undefined;
  let [low, high] = [0, range.blocks.length - 2];
  while (low <= high) {
    const middle = Math.floor((low + high) / 2);
    const block = range.blocks[middle];
    if (block !== undefined && (await isAgreed(block))) {
      agreed = block;
      low = middle + 1;
    } else high = middle - 1;
  }
  return agreed;
}
