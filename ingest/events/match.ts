/**
 * A match: a run of OrderFilled logs of one exchange in one transaction that an OrdersMatched log closes. The taker's own
 * OrderFilled comes last and names the exchange as its counterparty; OrdersMatched repeats it. Version 1 events have
 * the same names but other topics, so they never match.
 */
import { type Hex, parseAbiParameters, toEventSelector } from 'viem';
import type { Hash, Match } from '../contract.ts';
import {
  addressTopic,
  boundedAmount,
  type ChainLog,
  DecodeError,
  decodeData,
  type EventContext,
  type EventKind,
  type LogReader,
  sideOf,
} from './log.ts';
import { conditionOfCall, type MatchedFill } from './match-call.ts';

export const ORDER_FILLED = toEventSelector(
  'OrderFilled(bytes32,address,address,uint8,uint256,uint256,uint256,uint256,bytes32,bytes32)',
);
export const ORDERS_MATCHED = toEventSelector(
  'OrdersMatched(bytes32,address,uint8,uint256,uint256,uint256)',
);

/** Data of OrderFilled without its last two words, `builder` and `metadata`. */
const ORDER_FILLED_DATA = parseAbiParameters(
  'uint256 side, uint256 tokenId, uint256 makerAmountFilled, uint256 takerAmountFilled, uint256 fee',
);
const ORDERS_MATCHED_DATA = parseAbiParameters(
  'uint256 side, uint256 tokenId, uint256 makerAmountFilled, uint256 takerAmountFilled',
);

type LoggedFill = MatchedFill & { readonly logIndex: number; readonly isTaker: boolean };

/** One match; `fills` in log order, the taker last; `logIndex` is that of its OrdersMatched. */
type LoggedMatch = {
  readonly kind: 'match';
  readonly exchange: Hex;
  readonly txHash: Hex;
  readonly logIndex: number;
  readonly fills: readonly LoggedFill[];
};

export const MATCH: EventKind<LoggedMatch> = {
  contract: 'exchange',
  topics: [ORDER_FILLED, ORDERS_MATCHED],
  reader: matchReader,
  store: storedMatch,
};

function matchReader(): LogReader<LoggedMatch> {
  // Fills whose OrdersMatched has not come yet, by exchange and transaction.
  const open = new Map<string, { log: ChainLog; fill: LoggedFill }[]>();
  return {
    read(log) {
      const key = `${log.address}:${log.transactionHash}`;
      const waiting = open.get(key) ?? [];
      if (log.topics[0] === ORDERS_MATCHED) {
        const match = closeMatch(log, waiting);
        open.delete(key);
        return match;
      }
      waiting.push({ log, fill: decodeOrderFilled(log) });
      open.set(key, waiting);
      return undefined;
    },
    left: () =>
      [...open.values()].flat().map(({ log }) => ({
        log,
        error: new DecodeError('orphan_fill', 'no OrdersMatched follows'),
      })),
  };
}

/** The fill of one OrderFilled log. Throws DecodeError if it is malformed. */
export function decodeOrderFilled(log: ChainLog): LoggedFill {
  if (log.topics[0] !== ORDER_FILLED) {
    throw new DecodeError('unknown_topic', log.topics[0] ?? 'no topic');
  }
  if (log.topics.length !== 4) throw new DecodeError('bad_topics', `${log.topics.length} topics`);
  const [sideWord, tokenId, making, taking, fee] = decodeData(log, ORDER_FILLED_DATA, 7);
  const side = sideOf(sideWord);
  const [usdc, shares] = side === 'BUY' ? [making, taking] : [taking, making];
  return {
    logIndex: log.logIndex,
    orderHash: log.topics[1] as Hex,
    trader: addressTopic(log, 2),
    isTaker: addressTopic(log, 3) === log.address,
    side,
    tokenId: tokenId.toString(),
    shares: boundedAmount(shares),
    usdc: boundedAmount(usdc),
    fee: boundedAmount(fee),
  };
}

function closeMatch(log: ChainLog, waiting: readonly { readonly fill: LoggedFill }[]): LoggedMatch {
  const fills = waiting.map(({ fill }) => fill);
  const taker = fills.at(-1);
  const [sideWord, tokenId, making, taking] = decodeData(log, ORDERS_MATCHED_DATA, 4);
  const side = sideOf(sideWord);
  const [usdc, shares] = side === 'BUY' ? [making, taking] : [taking, making];
  const agrees =
    taker?.isTaker === true &&
    fills.slice(0, -1).every((fill) => !fill.isTaker) &&
    taker.orderHash === log.topics[1] &&
    taker.side === side &&
    taker.tokenId === tokenId.toString() &&
    taker.usdc === usdc &&
    taker.shares === shares;
  if (!agrees)
    throw new DecodeError('taker_mismatch', 'OrdersMatched does not repeat a taker fill');
  const { address: exchange, transactionHash: txHash, logIndex } = log;
  return { kind: 'match', exchange, txHash, logIndex, fills };
}

/** The calldata names the market, which is checked against the tokens; without it, the taker's token does. */
async function storedMatch(match: LoggedMatch, of: EventContext): Promise<Match> {
  const { markets, callTo, blockNumber, blockTime } = of;
  const { exchange, txHash, logIndex } = match;
  const inMarket = (conditionId: Hash | undefined): Match | undefined => {
    if (conditionId === undefined) return undefined;
    const fills: Match['fills'] = [];
    for (const fill of match.fills) {
      const outcomeIndex = markets.outcomeOf(conditionId, fill.tokenId, exchange);
      if (outcomeIndex === undefined) return undefined;
      fills.push({ ...fill, outcomeIndex });
    }
    return {
      ...{ kind: 'match', blockNumber, blockTime, txHash, logIndex },
      ...{ exchange, conditionId, fills },
    };
  };
  const called = inMarket(conditionOfCall(callTo(exchange, txHash)));
  if (called !== undefined) return called;
  const found = inMarket(await markets.conditionOfToken(match.fills.at(-1)?.tokenId ?? ''));
  if (found === undefined)
    throw new DecodeError('unknown_token', 'no market is known for its tokens');
  return found;
}
