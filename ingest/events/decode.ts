/**
 * The table of the chain's events, and how the logs of a block are read with it. A new kind of event is a file of this
 * folder, a row here, and its stored form in contract.ts. Pure, checked against real transactions.
 */
import { type Hex, toEventSelector } from 'viem';
import type { TradingEvent } from '../contract.ts';
import { type Chain, watchedAddresses } from './chains.ts';
import {
  addressTopic,
  type ChainLog,
  DecodeError,
  type EventContext,
  type EventKind,
  type LogFilter,
} from './log.ts';
import { MATCH } from './match.ts';
import { OPERATOR, ROLES_UPDATED } from './operator.ts';
import { MODULE_RESOLUTION, RESOLUTION } from './resolution.ts';
import { logsShares, shareEmitters, shareTopics } from './shares/share-logs.ts';
import { V2_TOPICS } from './shares/v2-logs.ts';

const KINDS = { match: MATCH, resolution: RESOLUTION, operator: OPERATOR };

type LoggedBy<Kind> = Kind extends EventKind<infer Logged> ? Logged : never;
export type LoggedEvent = LoggedBy<(typeof KINDS)[keyof typeof KINDS]>;

/** Names no order, so it adds nothing to the fills. */
const FEE_CHARGED = toEventSelector('FeeCharged(address,uint256)');

/** Of a proxy (EIP-1967), whose code has changed: what it logs from now on may mean something else. */
const UPGRADED = toEventSelector('Upgraded(address)');

/** Of the PositionManager: another contract mints shares, or one of those that we know does not any more. */
const MODULE_ADDED = toEventSelector('ModuleAdded(uint256,address)');
const MODULE_REMOVED = toEventSelector('ModuleRemoved(uint256,address)');

const ROWS = [...Object.values(KINDS), MODULE_RESOLUTION] as readonly EventKind<LoggedEvent>[];
export const WATCHED_TOPICS: readonly Hex[] = ROWS.flatMap(({ topics }) => topics);

/** The contracts whose logs are read; addresses in lower case. */
export type WatchedContracts = {
  readonly exchanges: ReadonlySet<string>;
  readonly conditionalTokens: string;
  /** Of protocol version 2. */
  readonly modules?: ReadonlySet<string> | undefined;
};

export function watchedContracts({
  exchanges,
  conditionalTokens,
  shares,
}: Chain): WatchedContracts {
  const modules = shares?.v2?.modules;
  return { exchanges: new Set(exchanges.keys()), conditionalTokens, modules };
}

/** The logs of final blocks that are read: those above, those that tell how shares move, and changes of the contracts. */
export function finalLogFilter(chain: Chain): LogFilter {
  const addresses = watchedAddresses(chain);
  const rows = ROWS.filter(({ contract }) => contract !== 'module' || chain.shares?.v2);
  const modules = chain.shares?.v2 === undefined ? [] : [MODULE_ADDED, MODULE_REMOVED];
  const topics = [...rows.flatMap((row) => row.topics), UPGRADED, ...modules];
  if (chain.shares === undefined) return { addresses, topics };
  return {
    addresses: [...new Set([...addresses, ...shareEmitters(chain.shares)])],
    topics: [...topics, ...shareTopics(chain.shares)],
  };
}

/**
 * Whether the contract at an address of the filter emits the event. Not an upgrade: a full bloom allows for one in every tenth
 * block, and no share depends on it. Not the many events with which modules name movements, either: none comes without a transfer.
 */
export function canLog(address: Hex, topic: Hex, chain: Chain): boolean {
  const { shares } = chain;
  const isOfModule = shares?.v2?.modules.has(address) === true;
  if (shares !== undefined && logsShares(address, topic, shares))
    return !isOfModule || V2_TOPICS.has(topic);
  const contract = contractOf(address, watchedContracts(chain));
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
      if (topic === MODULE_ADDED || topic === MODULE_REMOVED) {
        const module = addressTopic(log, 2);
        // All modules that we know were added.
        if (topic === MODULE_ADDED && watched.modules?.has(module)) continue;
        throw new DecodeError('upgraded', `${log.address}: module ${module}`);
      }
      // The bridge between chains is a role of the PositionManager.
      if (topic === ROLES_UPDATED && !watched.exchanges.has(log.address))
        throw new DecodeError('upgraded', `${log.address}: roles of ${addressTopic(log, 1)}`);
      const contract = contractOf(log.address, watched);
      if (contract === undefined) throw new DecodeError('not_watched', log.address);
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

function contractOf(address: string, watched: WatchedContracts) {
  if (address === watched.conditionalTokens) return 'conditionalTokens';
  if (watched.exchanges.has(address)) return 'exchange';
  return watched.modules?.has(address) ? 'module' : undefined;
}

/** The event as LEDGER stores it; undefined if it does not. Throws DecodeError if its market is unknown. */
export async function storedEvent(
  event: LoggedEvent,
  of: EventContext,
): Promise<TradingEvent | undefined> {
  const kind = KINDS[event.kind] as EventKind<LoggedEvent>;
  return kind.store?.(event, of);
}
