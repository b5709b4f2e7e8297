/** The rule `position`: a trader opens, adds to, reduces or closes a position. */
import type { FeedFill, FeedMatch } from '../../../ingest/contract.ts';
import { feedFilter } from '../feed-filter.ts';
import type { RuleOf } from '../rule.ts';
import { type MarketData, marketData, type TraderData, traderData } from './data.ts';
import { BOOKED_SECONDS_MAX, netOf, type PositionBook } from './positions.ts';
import { type Found, fillsOf, type Watcher } from './watcher.ts';
import { cents, titleOf, traderName, usdc } from './words.ts';

/** What a fill says about a position. */
type Traded = Pick<FeedFill, 'outcomeIndex' | 'shares' | 'usdc'>;

type PositionEvent = RuleOf<'position'>['events'][number];

/** A part of a trade: what it does to the position, in net micro-shares of outcome 0. */
type Change = {
  readonly event: keyof typeof VERBS;
  readonly before: bigint;
  readonly after: bigint;
};

/** Settlements are found elsewhere. */
const VERBS: Readonly<Record<Exclude<PositionEvent, 'settled'>, string>> = {
  opened: 'opened',
  added: 'added to',
  reduced: 'reduced',
  closed: 'closed',
};

export function positionWatcher(rule: RuleOf<'position'>, positions: PositionBook): Watcher {
  const traders = new Set(rule.traders);
  const events = new Set(rule.events);
  const least = BigInt(Math.round((rule.min_usdc ?? 0) * 1e6));
  const watched = (match: FeedMatch) =>
    Map.groupBy(
      fillsOf(match).filter(({ trader }) => traders.has(trader.address)),
      ({ trader }) => trader.address,
    );
  return {
    filter: feedFilter({ traders: rule.traders, markets: rule.markets, tags: rule.tags }),
    memorySeconds: BOOKED_SECONDS_MAX,
    forget: () => undefined,
    remember: () => undefined,
    prepare(match) {
      for (const trader of watched(match).keys()) positions.want(trader, match);
    },
    see({ match, matchId }) {
      const found: Found[] = [];
      for (const [address, fills] of watched(match)) {
        const trader = fills[0]?.trader;
        if (trader === undefined) continue;
        const before = positions.before(address, match);
        const after = fills.reduce((net, fill) => net + netOf(fill), before);
        if (rule.first && !positions.isFirst(address, match)) continue;
        for (const [part, change] of changesOf(before, after).entries()) {
          const value = tradedValue(change, fills);
          if (!events.has(change.event) || value < least) continue;
          const others = positions.others(address, match);
          const about = { trader: traderData(trader), market: marketData(match), others };
          const { data, text } = describe(change, fills, about);
          found.push({
            ...{ about: `${matchId} ${address} ${part}`, text, earlier: [] },
            data: {
              ...data,
              ...{ tx_hash: match.txHash, match_id: matchId, taker: match.taker.trader.address },
            },
          });
        }
      }
      return found;
    },
  };
}

/** A trade that changes sides closes and opens. */
export function changesOf(before: bigint, after: bigint): readonly Change[] {
  if (before === after) return [];
  if (before === 0n) return [{ event: 'opened', before, after }];
  if (after === 0n) return [{ event: 'closed', before, after }];
  if (before > 0n !== after > 0n) {
    return [
      { event: 'closed', before, after: 0n },
      { event: 'opened', before: 0n, after },
    ];
  }
  return [{ event: sizeOf(after) > sizeOf(before) ? 'added' : 'reduced', before, after }];
}

/** What the shares that came or left are worth at the price of the trade, micro-USDC, rounded down. */
function tradedValue({ after, before }: Change, fills: readonly Traded[]): bigint {
  const shares = fills.reduce((all, fill) => all + fill.shares, 0n);
  if (shares === 0n) return 0n;
  return (sizeOf(after - before) * worth(heldOf(before, after), fills)) / shares;
}

/** What all shares of the fills are worth as shares of this outcome. */
function worth(outcome: 0 | 1, fills: readonly Traded[]): bigint {
  return fills.reduce(
    (all, { outcomeIndex, shares, usdc }) =>
      all + (outcomeIndex === outcome ? usdc : shares - usdc),
    0n,
  );
}

/** What became of a position, from its change and the fills that changed it. `others` are worth micro-USDC. */
export function describe(
  change: Change,
  fills: readonly Traded[],
  {
    market,
    others,
    trader,
  }: { readonly market: MarketData; readonly others: bigint; readonly trader: TraderData },
) {
  const { after, before, event } = change;
  const held = heldOf(before, after);
  const shares = fills.reduce((all, fill) => all + fill.shares, 0n);
  const price = shares === 0n ? 0n : (worth(held, fills) * 1_000_000n) / shares;
  const value = tradedValue(change, fills);
  const worthAfter = (sizeOf(after) * price) / 1_000_000n;
  const portfolio = others + worthAfter;
  const share = portfolio === 0n ? 0 : Number((worthAfter * 1_000n) / portfolio) / 10;
  const outcome = market.outcomes[held];
  const what = `${traderName(trader)} ${VERBS[event]} ${outcome} of “${titleOf(market)}”`;
  const part = after === 0n ? '' : `, now ${share}% of the portfolio`;
  return {
    text: `${what}: ${usdc(value)} at ${cents(Number(price))}${part}`,
    data: {
      ...{ event, trader, market, outcome, outcome_index: held },
      ...{ shares_before: Number(sizeOf(before)), shares_after: Number(sizeOf(after)) },
      ...{ price: Number(price), value: Number(value), value_after: Number(worthAfter) },
      ...{ portfolio_value: Number(portfolio), portfolio_share: share },
    },
  };
}

function heldOf(before: bigint, after: bigint): 0 | 1 {
  return (after === 0n ? before : after) < 0n ? 1 : 0;
}

const sizeOf = (net: bigint) => (net < 0n ? -net : net);
