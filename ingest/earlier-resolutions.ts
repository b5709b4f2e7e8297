/**
 * What a ledger that does not begin at the chain's beginning must know: the conditions that were
 * resolved before its first block. They come first in LEDGER, with their own blocks; the marker of the
 * block before the first one closes them. A prelude that was interrupted goes on at the block of the newest
 * one in LEDGER; what that block has published already is left out. Only the blocks that hold resolutions are checked against their header:
 * reading a header of every block since the contract's deployment would take days.
 */
import type { Nats } from '../infra/nats/connection.ts';
import { lastMessage } from '../infra/nats/read.ts';
import { checkLog } from './block-range.ts';
import { decodeLedgerEvent, LEDGER_STREAM } from './contract.ts';
import { decodeLogs, TOPICS } from './decode.ts';
import type { FollowOptions } from './final-blocks.ts';
import { chainFacts, type LedgerWriter } from './ledger-writer.ts';
import { ahead, patiently, RangeSize } from './prefetch.ts';
import type { Header, RangeLog } from './rpc.ts';
import { RpcError } from './rpc-pool.ts';

const PROGRESS_MS = 2_000;

type PreludeBlock = { readonly header: Header; readonly logs: readonly RangeLog[] };
type PreludeRange = { readonly to: number; readonly blocks: readonly PreludeBlock[] };

/** Publishes the resolutions of the blocks `from` to `start` − 1 and closes them with a marker. */
export async function writePrelude(
  options: FollowOptions,
  writer: LedgerWriter,
  from: number,
  start: number,
): Promise<void> {
  const { nats, rpc, chain, metadata, logger, progress } = options;
  const reading = {
    ...options,
    onAnswer: progress.answered,
    readRange: (first: number, last: number) => readResolutions(options, first, last),
    weigh: ({ blocks }: PreludeRange) => ({
      logs: blocks.reduce((sum, { logs }) => sum + logs.length, 0),
      transactions: 0,
    }),
  };
  const watched = { exchanges: new Set<string>(), conditionalTokens: chain.conditionalTokens };
  const reached = await patiently(reading, 'earlier resolutions', () => newestResolution(nats));
  const next = Math.max(from, reached ?? from);
  if (next > from) logger.info({ from, next }, 'going on with earlier resolutions');
  let resolutions = writer.published;
  let toldAt = performance.now();
  for await (const { to, blocks } of ahead(reading, new RangeSize(), next, start - 1)) {
    for (const { header: block, logs } of blocks) {
      const decoded = decodeLogs(logs, watched);
      const refused = decoded.refused.map(({ log, error }) => ({
        txHash: log.transactionHash,
        logIndex: log.logIndex,
        error,
        logs: [log],
      }));
      const facts = { ...decoded, matches: [], refused, block };
      resolutions += await writer.writeFacts(chainFacts(facts));
      for (const { conditionId, payouts } of decoded.resolutions) {
        metadata.resolve(conditionId, payouts, block.timestamp);
      }
    }
    if (performance.now() - toldAt < PROGRESS_MS) continue;
    toldAt = performance.now();
    logger.info({ block: to, until: start - 1, resolutions }, 'reading earlier resolutions');
  }
  const last = await patiently(reading, 'first block', () => rpc.header(start - 1));
  await writer.closePrelude(last, resolutions);
  logger.info({ from, until: start - 1, resolutions }, 'earlier resolutions are known');
}

/** The block of the newest resolution in LEDGER; undefined while there is none. */
async function newestResolution(nats: Nats): Promise<number | undefined> {
  const message = await lastMessage(nats, LEDGER_STREAM, 'ledger.*.resolution');
  const event = message === undefined ? undefined : decodeLedgerEvent(message.data);
  return event?.kind === 'resolution' ? event.blockNumber : undefined;
}

async function readResolutions(
  { rpc, chain }: FollowOptions,
  from: number,
  to: number,
): Promise<PreludeRange> {
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
