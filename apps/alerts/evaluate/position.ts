/** The rule `position`: a trader opens, adds to, reduces or closes a position. */
import {
  type MarketData,
  marketData,
  type TraderData,
  traderData,
} from '../../../api/analytics/match-data.ts';
import { BOOKED_SECONDS_MAX, type PositionBook } from '../../../api/analytics/position-book.ts';
import {
  changesOf,
  figuresOf,
  fillsByWallet,
  netOf,
  type PositionChange,
  tradedValue,
} from '../../../api/analytics/position-changes.ts';
import { feedFilter } from '../feed-filter.ts';
import type { RuleOf } from '../rule.ts';
import type { Found, Watcher } from './watcher.ts';
import { cents, titleOf, traderName, usdc } from './words.ts';

const VERBS: Readonly<Record<PositionChange['event'], string>> = {
  opened: 'opened',
  added: 'added to',
  reduced: 'reduced',
  closed: 'closed',
};

export function positionWatcher(rule: RuleOf<'position'>, positions: PositionBook): Watcher {
  const traders = new Set(rule.traders);
  const events = new Set(rule.events);
  const least = BigInt(Math.round((rule.min_usdc ?? 0) * 1e6));
  return {
    filter: feedFilter({ traders: rule.traders, markets: rule.markets, tags: rule.tags }),
    memorySeconds: BOOKED_SECONDS_MAX,
    forget: () => undefined,
    remember: () => undefined,
    prepare(match) {
      for (const trader of fillsByWallet(match, traders).keys()) positions.want(trader, match);
    },
    see({ match, matchId }) {
      const found: Found[] = [];
      for (const [address, fills] of fillsByWallet(match, traders)) {
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

/** What became of a position, from its change and the fills that changed it. `others` are worth micro-USDC. */
export function describe(
  change: PositionChange,
  fills: Parameters<typeof figuresOf>[1],
  {
    market,
    others,
    trader,
  }: { readonly market: MarketData; readonly others: bigint; readonly trader: TraderData },
) {
  const { event } = change;
  const figures = figuresOf(change, fills, others);
  const { outcomeIndex, portfolioPermille, price, sharesAfter, value } = figures;
  const outcome = market.outcomes[outcomeIndex];
  const share = portfolioPermille / 10;
  const what = `${traderName(trader)} ${VERBS[event]} ${outcome} of “${titleOf(market)}”`;
  const part = sharesAfter === 0n ? '' : `, now ${share}% of the portfolio`;
  return {
    text: `${what}: ${usdc(value)} at ${cents(Number(price))}${part}`,
    data: {
      ...{ event, trader, market, outcome, outcome_index: outcomeIndex },
      ...{ shares_before: Number(figures.sharesBefore), shares_after: Number(sharesAfter) },
      ...{ price: Number(price), value: Number(value), value_after: Number(figures.valueAfter) },
      ...{ portfolio_value: Number(figures.portfolioValue), portfolio_share: share },
    },
  };
}
