/** The rule `price`: the price of an outcome crosses a level. */

import { marketData } from '../../../api/analytics/match-data.ts';
import type { FeedMatch } from '../../../ingest/contract.ts';
import { feedFilter } from '../feed-filter.ts';
import type { RuleOf } from '../rule.ts';
import type { PriceBook } from './prices.ts';
import type { Watcher } from './watcher.ts';
import { cents, marketTitle, priceOf } from './words.ts';

/** Matches of an hour say the price before a restart; before that, ClickHouse does. */
const MEMORY_SECONDS = 3_600;

export function priceWatcher(rule: RuleOf<'price'>, prices: PriceBook): Watcher {
  const level = Math.round(rule.level * 1e4);
  // Prices are rounded by less than 1.
  const isBeyond = (price: number) =>
    rule.direction === 'above' ? price + 1 >= level : price - 1 <= level;
  /** The latest prices of outcome 0, newest last, without those of matches that did not happen. */
  let latest: { readonly price: number; readonly matchId: string }[] = [];
  const own = (first: number) => (rule.outcome_index === 0 ? first : 1_000_000 - first);
  const before = (conditionId: string) => latest.at(-1)?.price ?? prices.before(conditionId);

  function see(match: FeedMatch, matchId: string) {
    const former = before(match.conditionId);
    const price = firstPrice(match);
    // Each of the latest may turn out to be void.
    if (price !== undefined) latest = [...latest.slice(-LATEST_MAX), { price, matchId }];
    return { former, price };
  }

  return {
    filter: feedFilter({ markets: [rule.market] }),
    memorySeconds: MEMORY_SECONDS,
    prepare(match) {
      if (latest.length === 0) prices.want(match);
    },
    remember: ({ match, matchId }) => void see(match, matchId),
    forget(matchId) {
      latest = latest.filter((one) => one.matchId !== matchId);
    },
    see({ match, matchId }) {
      const { former, price } = see(match, matchId);
      if (former === undefined || price === undefined) return [];
      if (isBeyond(own(former)) || !isBeyond(own(price))) return [];
      const outcome = match.market.outcomes[rule.outcome_index];
      const verb = rule.direction === 'above' ? 'rose' : 'fell';
      const change = `from ${cents(own(former))} to ${cents(own(price))}`;
      return [
        {
          about: matchId,
          text: `${outcome} of “${marketTitle(match)}” ${verb} ${change}, across ${cents(level)}`,
          data: {
            market: marketData(match),
            outcome,
            outcome_index: rule.outcome_index,
            level,
            price_before: own(former),
            price: own(price),
            tx_hash: match.txHash,
            match_id: matchId,
          },
          earlier: [],
        },
      ];
    },
  };
}

const LATEST_MAX = 100;

/** Of outcome 0; undefined for a fill of no shares. */
function firstPrice({ taker }: FeedMatch): number | undefined {
  if (taker.shares === 0n) return undefined;
  return taker.outcomeIndex === 0 ? priceOf(taker) : 1_000_000 - priceOf(taker);
}
