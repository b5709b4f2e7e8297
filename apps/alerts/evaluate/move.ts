/** The rule `move`: the price of a market moves by so many points within a time. */

import { marketData } from '../../../api/analytics/match-data.ts';
import { Recent } from '../../../api/analytics/recent-matches.ts';
import { feedFilter } from '../feed-filter.ts';
import type { RuleOf } from '../rule.ts';
import type { Watcher } from './watcher.ts';
import { cents, marketTitle, priceOf } from './words.ts';

const MOVES_REMEMBERED = 4;

/** Of outcome 0, micro-USDC a share. */
type Price = {
  readonly price: number;
  readonly matchId: string;
  readonly atMs: number;
  /** Whether the latest move ended here, so that the next one begins here. */
  readonly isEnd: boolean;
};

export function moveWatcher(rule: RuleOf<'move'>): Watcher {
  const least = Math.round(rule.points * 1e4);
  const prices = new Recent<Price>(rule.within_seconds);

  return {
    filter: feedFilter({ markets: rule.markets }),
    // Where the latest moves ended is found out again, unless more than a few follow each other.
    memorySeconds: MOVES_REMEMBERED * rule.within_seconds,
    forget: (matchId) => prices.forget(matchId),
    see({ match, matchId }) {
      const { conditionId, detectedAtMs: atMs, market, taker } = match;
      if (taker.shares === 0n) return [];
      const own = priceOf(taker);
      const price = taker.outcomeIndex === 0 ? own : 1_000_000 - own;
      const kept = prices.of(conditionId, atMs);
      const since = kept.slice(
        Math.max(
          0,
          kept.findLastIndex(({ isEnd }) => isEnd),
        ),
      );
      // The price that is farthest away.
      const from = since.reduce<Price | undefined>(
        (far, one) =>
          far === undefined || Math.abs(one.price - price) > Math.abs(far.price - price)
            ? one
            : far,
        undefined,
      );
      // Prices are rounded down, each by less than 1.
      const isMove = from !== undefined && Math.abs(price - from.price) + 1 >= least;
      const now = { price, matchId, atMs, isEnd: isMove };
      prices.set(conditionId, [...kept, now], atMs);
      if (!isMove) return [];
      const verb = price > from.price ? 'rose' : 'fell';
      const change = `from ${cents(from.price)} to ${cents(price)}`;
      return [
        {
          about: matchId,
          text: `${market.outcomes[0]} of “${marketTitle(match)}” ${verb} ${change}`,
          data: {
            market: marketData(match),
            outcome: market.outcomes[0],
            outcome_index: 0,
            price_before: from.price,
            price,
            seconds: Math.round((atMs - from.atMs) / 1_000),
            tx_hash: match.txHash,
            match_id: matchId,
          },
          earlier: [from.matchId],
        },
      ];
    },
  };
}
