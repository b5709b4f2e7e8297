/**
 * Prefetches ranges of blocks in parallel and yields them in order. The size of a range adapts to what nodes accept
 * and to what earlier ranges held. A range that a node refuses is read again in smaller ones.
 */
import type { Logger } from 'pino';
import { NatsUnavailableError } from '../infra/nats/connection.ts';
import { retry } from '../infra/retry.ts';
import { RpcError } from './rpc-pool.ts';

const RANGE_BLOCKS_START = 32;
/** The most that public nodes accept in one search for logs. */
const RANGE_BLOCKS_MAX = 10_000;
/** Target content of a range. With RANGES_AHEAD ranges this bounds the memory of a catch-up. */
const RANGE_LOGS = 350;
const RANGE_TRANSACTIONS = 20_000;
export const RANGES_AHEAD = 4;
/** A refused size grows by this factor with each range: the node may only have been busy. */
const FORGET_REFUSED = 1.002;

export type AheadOptions<Range> = {
  readonly logger: Logger;
  readonly signal: AbortSignal;
  readonly readRange: (from: number, to: number) => Promise<Range>;
  /** Content of a range, which decides the size of the next ones. */
  readonly weigh: (range: Range) => { readonly logs: number; readonly transactions: number };
  /** Called after each attempt; with the error when the nodes gave no good answer. */
  readonly onAnswer?: (error: RpcError | undefined) => void;
};

/** Number of blocks of the next range. The caller keeps it between calls of `ahead`. */
export class RangeSize {
  #blocks = RANGE_BLOCKS_START;
  /** Smallest size that a node refused; approached again slowly. */
  #refused = Number.POSITIVE_INFINITY;

  get blocks(): number {
    return this.#blocks;
  }

  /** A range of this size was read: doubles, or shrinks to what a range should hold. */
  read(blocks: number, { logs, transactions }: { logs: number; transactions: number }): void {
    const room = Math.min(
      RANGE_LOGS / Math.max(logs, 1),
      RANGE_TRANSACTIONS / Math.max(transactions, 1),
      2,
    );
    // A short range says little, so it never makes later ranges smaller.
    const wanted = Math.floor(room >= 1 ? Math.max(this.#blocks, blocks * room) : blocks * room);
    const bounded = Math.min(wanted, RANGE_BLOCKS_MAX, Math.ceil(this.#refused) - 1);
    this.#blocks = Math.max(1, bounded);
    this.#refused *= FORGET_REFUSED;
  }

  /** A node refused a range of this size. */
  tooMany(blocks: number): void {
    this.#refused = Math.max(2, Math.min(this.#refused, blocks));
    this.#blocks = Math.max(1, Math.min(this.#blocks, Math.floor(blocks / 2)));
  }
}

/** Yields everything from `from` to `to` in order; a refused range comes as several. */
export async function* ahead<Range>(
  options: AheadOptions<Range>,
  size: RangeSize,
  from: number,
  to: number,
): AsyncGenerator<Range> {
  const reading: { first: number; last: number; range: Promise<Range | undefined> }[] = [];
  let next = from;
  while (next <= to || reading.length > 0) {
    while (next <= to && reading.length < RANGES_AHEAD) {
      const [first, last] = [next, Math.min(next + size.blocks - 1, to)];
      const range = readOnce(options, size, first, last);
      // A later range's failure is reported when its turn comes.
      range.catch(() => undefined);
      reading.push({ first, last, range });
      next = last + 1;
    }
    const oldest = reading.shift();
    if (oldest === undefined) return;
    const range = await oldest.range;
    if (range !== undefined) yield range;
    // The size is at most half of the range by now, so this terminates.
    else yield* ahead(options, size, oldest.first, oldest.last);
  }
}

/** Undefined when the range is too large for the nodes; `size` is reduced then. */
async function readOnce<Range>(
  options: AheadOptions<Range>,
  size: RangeSize,
  from: number,
  to: number,
): Promise<Range | undefined> {
  const blocks = to - from + 1;
  const range = await patiently(options, `blocks ${from} to ${to}`, async () => {
    try {
      return await options.readRange(from, to);
    } catch (error) {
      if (blocks > 1 && isTooMany(error)) return undefined;
      throw error;
    }
  });
  if (range === undefined) size.tooMany(blocks);
  else size.read(blocks, options.weigh(range));
  return range;
}

/**
 * Whether less at a time may help. Nodes name "too many results" and "range too large" by any of a
 * dozen codes, so every refusal of more than one block counts; so does an answer too slow or too long.
 */
function isTooMany(error: unknown): boolean {
  if (!(error instanceof RpcError)) return false;
  return (
    error.class === 'refused' ||
    error.class === 'timeout' ||
    (error.class === 'http' && error.code === 413)
  );
}

/**
 * Repeats until the chain nodes and NATS answer. Throws any other error, and `wrong_chain`. NATS is
 * waited for wherever something is read from it: what is published waits in the publisher.
 */
export async function patiently<T>(
  options: Pick<AheadOptions<unknown>, 'logger' | 'signal' | 'onAnswer'>,
  what: string,
  attempt: () => Promise<T>,
): Promise<T> {
  const { logger, signal, onAnswer } = options;
  const answer = await retry(attempt, {
    signal,
    isRetryable: (error) =>
      error instanceof NatsUnavailableError ||
      (error instanceof RpcError && error.class !== 'wrong_chain'),
    retryAfterMs: (error) => (error instanceof RpcError ? error.retryAfterMs : 0),
    onRetry(error) {
      if (error instanceof RpcError) {
        onAnswer?.(error);
        logger.warn({ err: error, what }, 'the chain nodes gave no good answer, asking again');
      } else logger.warn({ err: error, what }, 'NATS does not answer, asking again');
    },
  });
  onAnswer?.(undefined);
  return answer;
}
