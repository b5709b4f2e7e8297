/** The real transactions of test/fixtures, in the decoders' input format. */
import type { Hex } from 'viem';
import type { ChainLog } from '../../ingest/events/log.ts';
import {
  readShareLogs,
  type ShareContracts,
  type ShareLogs,
} from '../../ingest/events/shares/share-logs.ts';
import atlasReceipt from '../fixtures/atlas-0001-receipt.json' with { type: 'json' };
import atlasTx from '../fixtures/atlas-0001-tx.json' with { type: 'json' };

/** Number of runs of a random test: a tenth, unless PROPERTIES=long, as in `npm run test:all`. */
export function runs(long: number): number {
  return process.env.PROPERTIES === 'long' ? long : Math.ceil(long / 10);
}

export const POLYGON = 137;
export const EXCHANGE = '0xe111180000d2663c0091e4f400237545b87b996b';
const NEG_RISK_EXCHANGE = '0xe2222d279d744050d28e00520010520000310f59';
export const CONDITIONAL_TOKENS = '0x4d97dcd97ec945f40cf65f87097ace5ea0476045';

export const WATCHED = {
  exchanges: new Set([EXCHANGE, NEG_RISK_EXCHANGE]),
  conditionalTokens: CONDITIONAL_TOKENS,
};

type RawLog = {
  readonly address: string;
  readonly topics: readonly string[];
  readonly data: string;
  readonly transactionHash?: string;
  readonly logIndex?: string;
};

/** What the logs say of shares. None of them may be refused. */
export function shareLogsOf(logs: readonly ChainLog[], contracts: ShareContracts): ShareLogs {
  return readShareLogs(logs, contracts, (_, error) => {
    throw error;
  });
}

export function chainLog(log: RawLog): ChainLog {
  return {
    address: log.address.toLowerCase() as Hex,
    topics: log.topics as readonly Hex[],
    data: log.data as Hex,
    transactionHash: (log.transactionHash ?? `0x${'0'.repeat(64)}`) as Hex,
    logIndex: Number(log.logIndex ?? 0),
  };
}

/** Transaction 0xc1375cac…e609: a mint match with one maker and no fee. */
export const atlas = {
  input: atlasTx.result.input as Hex,
  logs: atlasReceipt.result.logs.map(chainLog),
};
