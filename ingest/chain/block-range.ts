/**
 * Reads a range of final blocks from the chain nodes and checks that it is consistent
 * (docs/decisions/0003-final-blocks.md). Every header must name its predecessor. Every log must belong to a block of
 * the range and to one of its transactions, and be in its bloom. If a block seems empty although its bloom allows
 * logs, its receipts decide.
 */
import type { Logger } from 'pino';
import type { Hex } from 'viem';
import { NatsUnavailableError } from '../../infra/nats/connection.ts';
import { retry } from '../../infra/retry.ts';
import type { Chain } from '../events/chains.ts';
import { canLog, finalLogFilter } from '../events/decode.ts';
import type { ChainLog, LogFilter } from '../events/log.ts';
import { ORDER_FILLED, ORDERS_MATCHED } from '../events/match.ts';
import { makersOfCall } from '../events/match-call.ts';
import { AcceptedSize, FAILURES_MAX } from './accepted-size.ts';
import type { RawBlock } from './blocks.ts';
import {
  type BlockHead,
  covers,
  filled,
  type Header,
  mayContain,
  type RangeLog,
  type Rpc,
  type Transaction,
} from './rpc.ts';
import { PAYLOAD_TOO_LARGE, RpcError, type RpcErrorClass } from './rpc-pool.ts';

/** Responses with more logs than this are read in smaller ranges: 20,000 take about 50 MB. */
const RANGE_LOGS_MAX = 20_000;
/** Far more than the gas limit of a block allows. */
const BLOCK_LOGS_MAX = 1_000_000;
/** Up to this share of set bits, two of three blooms prove that an item is absent. Polygon's blooms are fuller. */
const USEFUL_BLOOM_SHARE_MAX = 0.5;

/** The blocks of a range in order; `raw` is set only if a watched contract logged something. */
type RangeBlock = { readonly head: BlockHead; readonly raw: RawBlock | undefined };

export type RangeCounts = { readonly logs: number; readonly transactions: number };

export type Range = { readonly blocks: readonly RangeBlock[]; readonly counts: RangeCounts };

export type ReadOptions = {
  readonly rpc: Rpc;
  readonly chain: Chain;
  /** Called with the outcome for a block whose bloom and logs were inconclusive. */
  readonly onConfirmed?: (outcome: 'empty' | 'logs_missing') => void;
};

/** Reads blocks `from` to `to`. Throws RpcError if the nodes return inconsistent data. */
export async function readRange(options: ReadOptions, from: number, to: number): Promise<Range> {
  const { rpc, chain } = options;
  const filter = finalLogFilter(chain);
  const numbers = Array.from({ length: to - from + 1 }, (_, i) => from + i);
  const [read, found] = await Promise.all([
    Promise.all(numbers.map((number) => wholeBlock(rpc, number))),
    rpc.rangeLogs({ from, to, filter }, () => undefined),
  ]);
  const headers = read.map(({ header }) => header);
  for (const [i, header] of headers.entries()) {
    const parent = headers[i - 1];
    if (parent === undefined || parent.hash === header.parentHash) continue;
    rpc.doubt();
    throw new RpcError('inconsistent', `block ${header.number} does not follow ${parent.number}`);
  }
  const logs = await checkedLogs(rpc, headers, filter, found);
  const blocks = await Promise.all(
    read.map(async ({ header, transactions }): Promise<RangeBlock> => {
      const { number, hash, parentHash, timestamp } = header;
      const head = { number, hash, parentHash, timestamp };
      let found = await completeLogs(options, header, filter, logs.get(number) ?? []);
      const silent = await silentLogs(options, header, transactions, filter, found);
      if (silent.length > 0 || lacksFills(transactions, found, chain)) {
        found = await confirmedLogs(options, header, filter, found);
        const places = new Set(found.map(({ logIndex }) => logIndex));
        if (!silent.every(({ logIndex }) => places.has(logIndex)))
          throw new RpcError('inconsistent', `block ${number} lacks logs that its receipts have`);
      }
      if (found.length === 0) return { head, raw: undefined };
      const logged = new Set<string>(found.map(({ transactionHash }) => transactionHash));
      const ours = transactions.filter(({ hash }) => logged.has(hash));
      return { head, raw: { block: { ...head, transactions: ours }, logs: found } };
    }),
  );
  const counts = {
    logs: blocks.reduce((sum, { raw }) => sum + (raw?.logs.length ?? 0), 0),
    transactions: headers.reduce((sum, header) => sum + header.transactions.length, 0),
  };
  return { blocks, counts };
}

async function wholeBlock(rpc: Rpc, number: number) {
  const block = await rpc.block(number);
  if (block === undefined) throw new RpcError('lagging', `no block ${number}`);
  const { transactions } = block;
  return { header: { ...block, transactions: transactions.map(({ hash }) => hash) }, transactions };
}

/** The logs by block. They are read again if they do not match the headers. */
async function checkedLogs(
  rpc: Rpc,
  headers: readonly Header[],
  filter: LogFilter,
  found: readonly RangeLog[],
) {
  const [from, to] = [headers[0]?.number ?? 0, headers.at(-1)?.number ?? 0];
  const byNumber = new Map(headers.map((header) => [header.number, header]));
  const hashes = new Map<number, ReadonlySet<string>>();
  const check = (logs: readonly RangeLog[]) => {
    const places = new Set<number>();
    if (logs.length > RANGE_LOGS_MAX && from < to) {
      throw new RpcError('refused', `${logs.length} logs are too many for one range`);
    }
    for (const log of logs) {
      const header = byNumber.get(log.blockNumber);
      if (header === undefined) throw new RpcError('inconsistent', 'a log outside the range');
      const transactions = hashes.get(header.number) ?? new Set(header.transactions);
      hashes.set(header.number, transactions);
      checkLog(log, header, transactions, filter);
      places.add(log.blockNumber * BLOCK_LOGS_MAX + log.logIndex);
    }
    if (places.size < logs.length) throw new RpcError('inconsistent', 'duplicate log');
  };
  try {
    const logs = fits(check, found) ? found : await rpc.rangeLogs({ from, to, filter }, check);
    return Map.groupBy(logs, (log) => log.blockNumber);
  } catch (error) {
    // No endpoint's logs match, so the headers may be wrong.
    if (error instanceof RpcError && error.class === 'inconsistent') rpc.doubt();
    throw error;
  }
}

function fits(check: (logs: readonly RangeLog[]) => void, logs: readonly RangeLog[]): boolean {
  try {
    check(logs);
    return true;
  } catch (error) {
    if (error instanceof RpcError && error.class === 'inconsistent') return false;
    throw error;
  }
}

/** Throws RpcError unless the log belongs to this block, is watched and is in the bloom. */
export function checkLog(
  log: RangeLog,
  header: Header,
  transactions: ReadonlySet<string>,
  filter: LogFilter,
): void {
  const fits =
    log.blockHash === header.hash &&
    transactions.has(log.transactionHash) &&
    isWatched(log, filter) &&
    covers(header.logsBloom, log);
  if (!fits) throw new RpcError('inconsistent', `log ${log.logIndex} of block ${header.number}`);
}

/** The block's logs. They are read again if its bloom allows for a missing one. */
async function completeLogs(
  options: ReadOptions,
  header: Header,
  filter: LogFilter,
  logs: readonly RangeLog[],
): Promise<readonly RangeLog[]> {
  if (isComplete(options.chain, header, filter, logs)) return logs;
  return confirmedLogs(options, header, filter, logs);
}

/** Reads a block's logs again to settle a doubt. Throws RpcError if the result has fewer logs than before. */
async function confirmedLogs(
  { rpc, onConfirmed }: ReadOptions,
  header: Header,
  filter: LogFilter,
  logs: readonly RangeLog[],
): Promise<readonly RangeLog[]> {
  const watched = await decisiveLogs(rpc, header, filter);
  onConfirmed?.(watched.length > logs.length ? 'logs_missing' : 'empty');
  if (watched.length < logs.length) {
    throw new RpcError('inconsistent', `block ${header.number}: its receipts have fewer logs`);
  }
  return watched;
}

/**
 * An empty block is complete if its bloom proves that it is empty. A block with logs counts as complete if its bloom
 * is too full to decide, or if it leaves no room for another pair of address and topic. A block with fills that no
 * OrdersMatched closes is never complete.
 */
function isComplete(
  chain: Chain,
  header: Header,
  filter: LogFilter,
  logs: readonly RangeLog[],
): boolean {
  if (hasOpenMatch(logs)) return false;
  if (logs.length > 0 && filled(header.logsBloom) > USEFUL_BLOOM_SHARE_MAX) return true;
  const topics = filter.topics.filter((topic) => mayContain(header.logsBloom, topic));
  if (topics.length === 0) return true;
  const addresses = filter.addresses.filter((address) =>
    mayContain(header.logsBloom, address as Hex),
  );
  const isSeen = (address: string, topic: Hex) =>
    logs.some((log) => log.address === address && log.topics[0] === topic);
  return addresses.every((address) =>
    topics.every((topic) => !canLog(address as Hex, topic, chain) || isSeen(address, topic)),
  );
}

/** True if a transaction has fills of an exchange that no OrdersMatched of that exchange closes. */
function hasOpenMatch(logs: readonly RangeLog[]): boolean {
  let transaction = '';
  let closed: readonly string[] = [];
  // From the end, so that the closing log is known before its fills.
  return logs.toReversed().some(({ address, transactionHash, topics: [topic] }) => {
    if (transactionHash !== transaction) [transaction, closed] = [transactionHash, []];
    if (topic === ORDERS_MATCHED) closed = [...closed, address];
    return topic === ORDER_FILLED && !closed.includes(address);
  });
}

/** The logs from receipts. If no endpoint has receipts, the longest list of logs for the block's hash. */
async function decisiveLogs(rpc: Rpc, header: Header, filter: LogFilter) {
  try {
    const logs = await rpc.receiptLogs(header);
    return logs.filter((log) => isWatched(log, filter));
  } catch (error) {
    if (!(error instanceof RpcError) || error.class !== 'refused') throw error;
    const logs = await rpc.logsByHash(header.hash, filter);
    const transactions = new Set(header.transactions);
    for (const log of logs) checkLog(log, header, transactions, filter);
    return logs;
  }
}

function isWatched(log: RangeLog, filter: LogFilter): boolean {
  const [topic] = log.topics;
  return (
    topic !== undefined && filter.addresses.includes(log.address) && filter.topics.includes(topic)
  );
}

/**
 * True if a call has fewer fills in the logs than in its calldata. A call to an exchange lists its makers; each of
 * them and the taker log one OrderFilled, or the call reverts. So calldata reveals missing logs even if the bloom is
 * full.
 */
function lacksFills(
  transactions: readonly Transaction[],
  logs: readonly ChainLog[],
  { exchanges }: Chain,
): boolean {
  const exchangeLogs = logs.filter(({ address }) => exchanges.has(address));
  const byTransaction = Map.groupBy(exchangeLogs, ({ transactionHash }) => transactionHash);
  return transactions.some(({ hash, to, input }) => {
    const logged = byTransaction.get(hash);
    if (logged === undefined || !exchanges.has(to ?? '')) return false;
    const fills = logged.filter(
      ({ address, topics: [topic] }) => address === to && topic === ORDER_FILLED,
    );
    const makers = makersOfCall(input);
    return makers !== undefined && fills.length < makers + 1;
  });
}

/**
 * Watched logs of calls to an exchange that have no log among those of the block. Such a call was reverted, or all its logs
 * are missing, which a full bloom does not show: its receipt decides.
 */
async function silentLogs(
  { rpc, chain: { exchanges } }: ReadOptions,
  header: Header,
  transactions: readonly Transaction[],
  filter: LogFilter,
  logs: readonly ChainLog[],
): Promise<readonly RangeLog[]> {
  const logged = new Set<string>(logs.map(({ transactionHash }) => transactionHash));
  const silent = transactions.filter(
    ({ hash, to, input }) =>
      !logged.has(hash) && exchanges.has(to ?? '') && makersOfCall(input) !== undefined,
  );
  const theirs = await Promise.all(silent.map(({ hash }) => rpc.transactionLogs(hash, header)));
  return theirs.flat().filter((log) => isWatched(log, filter));
}

const RANGE_BLOCKS_START = 32;
/** The largest range that public nodes accept in `eth_getLogs`. */
const RANGE_BLOCKS_MAX = 10_000;
/** Target content of a range. Together with RANGES_AHEAD it bounds the memory of a catch-up. */
const RANGE_LOGS = 350;
const RANGE_TRANSACTIONS = 2_000;
export const RANGES_AHEAD = 4;
export type PrefetchOptions<Range> = {
  readonly logger: Logger;
  readonly signal: AbortSignal;
  readonly readRange: (from: number, to: number) => Promise<Range>;
  /** Content of a range, which determines the size of the next ones. */
  readonly weigh: (range: Range) => { readonly logs: number; readonly transactions: number };
  /** Called after each attempt; with the error if the nodes returned no valid response. */
  readonly onAnswer?: (error: RpcError | undefined) => void;
};

/** Number of blocks of the next range. The caller keeps it between calls of `prefetch`. */
export class RangeSize {
  readonly #accepted = new AcceptedSize(RANGE_BLOCKS_START, RANGE_BLOCKS_MAX);

  get blocks(): number {
    return this.#accepted.size;
  }

  /**
   * Call this after a range of this size was read, at the first attempt or after failures. Doubles the size or shrinks
   * it to the target content.
   */
  read(
    blocks: number,
    { logs, transactions }: { logs: number; transactions: number },
    failures = 0,
  ): void {
    const room = Math.min(
      RANGE_LOGS / Math.max(logs, 1),
      RANGE_TRANSACTIONS / Math.max(transactions, 1),
      2,
    );
    // A short range says little, so it never makes later ranges smaller.
    const wanted = room >= 1 ? Math.max(this.blocks, blocks * room) : blocks * room;
    this.#accepted.accepted(blocks, Math.floor(wanted), failures);
  }

  /** Call this after a node refused a range of this size. */
  tooMany(blocks: number): void {
    this.#accepted.refused(blocks);
  }

  /** Call this after a range of this size failed again and again. */
  failed(blocks: number): void {
    this.#accepted.failed(blocks);
  }
}

/**
 * Prefetches the blocks `from` to `to` in parallel ranges and yields the ranges in order. Their size adapts to the
 * limits of the nodes and to the content of earlier ranges. A refused range is split into smaller ones.
 */
export async function* prefetch<Range>(
  options: PrefetchOptions<Range>,
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
      // The error is handled when this range is awaited.
      range.catch(() => undefined);
      reading.push({ first, last, range });
      next = last + 1;
    }
    const oldest = reading.shift();
    if (oldest === undefined) return;
    const range = await oldest.range;
    if (range !== undefined) yield range;
    // The size is at most half of the range by now, so this terminates.
    else yield* prefetch(options, size, oldest.first, oldest.last);
  }
}

/** Undefined if the range seems too large for the nodes; then `size` is reduced. */
async function readOnce<Range>(
  options: PrefetchOptions<Range>,
  size: RangeSize,
  from: number,
  to: number,
): Promise<Range | undefined> {
  const blocks = to - from + 1;
  let failures = 0;
  const range = await retryReads(options, `blocks ${from} to ${to}`, async () => {
    try {
      return await options.readRange(from, to);
    } catch (error) {
      if (!(error instanceof RpcError)) throw error;
      if (MAYBE_TOO_MANY.includes(error.class)) failures += 1;
      if (blocks === 1 || !(isTooMany(error) || failures === FAILURES_MAX)) throw error;
      options.logger.warn({ err: error, from, to }, 'reading the blocks in smaller ranges');
      if (isTooMany(error)) size.tooMany(blocks);
      else size.failed(blocks);
      return undefined;
    }
  });
  if (range !== undefined) size.read(blocks, options.weigh(range), failures);
  return range;
}

/** A node that is down fails in these ways, and one to which a range is too large. */
const MAYBE_TOO_MANY: readonly RpcErrorClass[] = ['http', 'malformed', 'network'];

/**
 * Whether a smaller range helps: after any refusal, because nodes report "too many results" and "range too large"
 * with a dozen different codes, and after a response that was too slow or too long.
 */
function isTooMany({ class: errorClass, code }: RpcError): boolean {
  return (
    errorClass === 'refused' ||
    errorClass === 'timeout' ||
    (errorClass === 'http' && code === PAYLOAD_TOO_LARGE)
  );
}

/**
 * Retries until the chain nodes and NATS respond. Throws every other error, and `wrong_chain`. Only for reads: the
 * stream writer retries writes itself.
 */
export async function retryReads<T>(
  options: Pick<PrefetchOptions<unknown>, 'logger' | 'signal' | 'onAnswer'>,
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
        logger.warn({ err: error, what }, 'no valid response from the chain nodes, retrying');
      } else logger.warn({ err: error, what }, 'no response from NATS, retrying');
    },
  });
  onAnswer?.(undefined);
  return answer;
}
