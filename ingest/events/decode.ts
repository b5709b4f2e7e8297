/**
 * The table of the chain's events, and how the logs of a block are read with it. A new kind of event is a file of this
 * folder, a row here, and its stored form in contract.ts. Pure, checked against real transactions.
 */
import { type Hex, toEventSelector } from 'viem';
import type { TradingEvent } from '../contract.ts';
import { type Chain, watchedAddresses } from './chains.ts';
import {
  type ChainLog,
  DecodeError,
  type EventContext,
  type EventKind,
  type LogFilter,
} from './log.ts';
import { MATCH } from './match.ts';
import { OPERATOR } from './operator.ts';
import { RESOLUTION } from './resolution.ts';
import { logsShares, SHARE_TOPICS, shareEmitters } from './shares/share-logs.ts';

const KINDS = { match: MATCH, resolution: RESOLUTION, operator: OPERATOR };

type LoggedBy<Kind> = Kind extends EventKind<infer Logged> ? Logged : never;
export type LoggedEvent = LoggedBy<(typeof KINDS)[keyof typeof KINDS]>;

/** Names no order, so it adds nothing to the fills. */
const FEE_CHARGED = toEventSelector('FeeCharged(address,uint256)');

/** Of a proxy (EIP-1967), whose code has changed: what it logs from now on may mean something else. */
const UPGRADED = toEventSelector('Upgraded(address)');

const ROWS = Object.values(KINDS) as readonly EventKind<LoggedEvent>[];
export const WATCHED_TOPICS: readonly Hex[] = ROWS.flatMap(({ topics }) => topics);

/** The contracts whose logs are read; addresses in lower case. */
export type WatchedContracts = {
  readonly exchanges: ReadonlySet<string>;
  readonly conditionalTokens: string;
};

/** The logs of final blocks that are read: those above, those that tell how shares move, and upgrades of the contracts. */
export function finalLogFilter(chain: Chain): LogFilter {
  const addresses = watchedAddresses(chain);
  const topics = [...WATCHED_TOPICS, UPGRADED];
  if (chain.shares === undefined) return { addresses, topics };
  return {
    addresses: [...new Set([...addresses, ...shareEmitters(chain.shares)])],
    topics: [...topics, ...SHARE_TOPICS],
  };
}

/**
 * Whether the contract at an address of the filter emits the event. Not an upgrade: a full bloom allows for one in every tenth
 * block, and no share depends on it.
 */
export function canLog(address: Hex, topic: Hex, chain: Chain): boolean {
  const { conditionalTokens, exchanges, shares } = chain;
  if (shares !== undefined && logsShares(address, topic, shares)) return true;
  if (address !== conditionalTokens && !exchanges.has(address)) return false;
  const contract = address === conditionalTokens ? 'conditionalTokens' : 'exchange';
  return ROWS.some((row) => row.contract === contract && row.topics.includes(topic));
}

export type DecodedLogs = {
  /** In log order. */
  readonly events: readonly LoggedEvent[];
  readonly refused: readonly { readonly log: ChainLog; readonly error: DecodeError }[];
};

/** Decodes the logs of one block, in log order. Never throws for a bad log; it is returned in `refused`. */
export function decodeLogs(logs: readonly ChainLog[], watched: WatchedContracts): DecodedLogs {
  const readers = ROWS.map((row) => ({ row, ...row.reader() }));
  const events: LoggedEvent[] = [];
  const refused: { log: ChainLog; error: DecodeError }[] = [];
  for (const log of logs) {
    try {
      const topic = log.topics[0] ?? '0x';
      if (topic === UPGRADED) throw new DecodeError('upgraded', log.address);
      const contract = contractOf(log, watched);
      const reader = readers.find(
        ({ row }) => row.contract === contract && row.topics.includes(topic),
      );
      const event = reader?.read(log);
      if (event !== undefined) events.push(event);
      // An unknown topic is an error for an exchange, but not for ConditionalTokens, which has many
      // other users.
      const isKnown = reader !== undefined || contract !== 'exchange' || topic === FEE_CHARGED;
      if (!isKnown) throw new DecodeError('unknown_topic', topic);
    } catch (error) {
      if (!(error instanceof DecodeError)) throw error;
      refused.push({ log, error });
    }
  }
  refused.push(...readers.flatMap(({ left }) => left?.() ?? []));
  return { events, refused };
}

function contractOf({ address }: ChainLog, watched: WatchedContracts) {
  if (address === watched.conditionalTokens) return 'conditionalTokens';
  if (watched.exchanges.has(address)) return 'exchange';
  throw new DecodeError('not_watched', address);
}

/** The event as LEDGER stores it; undefined if it does not. Throws DecodeError if its market is unknown. */
export async function storedEvent(
  event: LoggedEvent,
  of: EventContext,
): Promise<TradingEvent | undefined> {
  const kind = KINDS[event.kind] as EventKind<LoggedEvent>;
  return kind.store?.(event, of);
}
