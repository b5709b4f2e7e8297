/**
 * Conditions that were resolved before the first block of LEDGER. They are stored before it as
 * `earlier-resolutions`, with their own blocks; an interrupted search resumes after the newest message. Only blocks
 * that hold resolutions are checked against their header: reading a header of every block since the contract's
 * deployment would take days.
 */
import type { Logger } from 'pino';
import { checkLog } from './block-range.ts';
import type { Chain } from './chains.ts';
import { decodeLogs, TOPICS } from './decode.ts';
import { RangeEncoder } from './ledger.ts';
import { blockOf, type LedgerWriter } from './ledger-writer.ts';
import type { Metadata } from './metadata.ts';
import { ahead, RangeSize } from './prefetch.ts';
import type { FollowProgress } from './progress.ts';
import type { Header, RangeLog, Rpc } from './rpc.ts';
import { RpcError } from './rpc-pool.ts';

const PROGRESS_MS = 2_000;

export type EarlierOptions = {
  readonly rpc: Rpc;
  readonly chain: Chain;
  readonly resolutionsFrom: number;
  readonly startBlock: number;
  readonly ledger: LedgerWriter;
  readonly metadata: Metadata;
  readonly progress: FollowProgress;
  readonly logger: Logger;
  readonly signal: AbortSignal;
};

type ReadBlock = { readonly header: Header; readonly logs: readonly RangeLog[] };
type ReadRange = { readonly to: number; readonly blocks: readonly ReadBlock[] };

/**
 * Stores the resolutions of the blocks `resolutionsFrom` to `startBlock` − 1. `knownTo` is the block up to which an
 * interrupted predecessor has stored them.
 */
export async function writeEarlierResolutions(
  options: EarlierOptions,
  knownTo: number | undefined,
): Promise<void> {
  const { chain, ledger, metadata, logger, progress, resolutionsFrom, startBlock } = options;
  const until = startBlock - 1;
  const reading = {
    ...options,
    onAnswer: progress.answered,
    readRange: (first: number, last: number) => readResolutions(options, first, last),
    weigh: ({ blocks }: ReadRange) => ({
      logs: blocks.reduce((sum, { logs }) => sum + logs.length, 0),
      transactions: 0,
    }),
  };
  const watched = { exchanges: new Set<string>(), conditionalTokens: chain.conditionalTokens };
  const from = knownTo === undefined ? resolutionsFrom : knownTo + 1;
  if (knownTo !== undefined) logger.info({ from, until }, 'resuming with earlier resolutions');
  let resolutions = 0;
  let encoder = new RangeEncoder({ from });
  let loggedAt = performance.now();
  const store = async (to: number) => {
    if (encoder.isEmpty) return;
    await ledger.store(to, encoder.endAt(to));
    encoder = new RangeEncoder({ from: to + 1 });
  };
  for await (const { to, blocks } of ahead(reading, new RangeSize(), from, until)) {
    for (const { header, logs } of blocks) {
      const decoded = decodeLogs(logs, watched);
      const refused = decoded.refused.map(({ log, error }) => ({
        txHash: log.transactionHash,
        logIndex: log.logIndex,
        error,
        logs: [log],
      }));
      const block = blockOf({ ...decoded, matches: [], refused, block: header });
      if (!encoder.add(block)) {
        await store(block.number - 1);
        encoder.add(block);
      }
      resolutions += block.resolutions.length;
      for (const { conditionId, payouts } of decoded.resolutions) {
        metadata.resolve(conditionId, payouts, header.timestamp);
      }
    }
    await store(to);
    if (performance.now() - loggedAt < PROGRESS_MS) continue;
    loggedAt = performance.now();
    logger.info({ block: to, until, resolutions }, 'reading earlier resolutions');
  }
  logger.info({ from, until, resolutions }, 'earlier resolutions are known');
}

async function readResolutions(
  { rpc, chain }: EarlierOptions,
  from: number,
  to: number,
): Promise<ReadRange> {
  const filter = { addresses: [chain.conditionalTokens], topics: [TOPICS.conditionResolution] };
  const logs = await rpc.rangeLogs({ from, to, filter }, (found) => {
    if (found.every((log) => log.blockNumber >= from && log.blockNumber <= to)) return;
    throw new RpcError('inconsistent', 'a log outside of the range');
  });
  const byNumber = [...Map.groupBy(logs, (log) => log.blockNumber)];
  const blocks = await Promise.all(
    byNumber.map(async ([number, some]) => {
      const header = await rpc.header(number);
      const transactions = new Set(header.transactions);
      for (const log of some) checkLog(log, header, transactions, filter);
      return { header, logs: some };
    }),
  );
  return { to, blocks };
}
