/** The rule `group`: several of a set of wallets buy the same outcome within a time. */

import { fillsOf, marketData, traderData } from '../../../api/analytics/match-data.ts';
import { Recent } from '../../../api/analytics/recent-matches.ts';
import type { FeedTrader } from '../../../ingest/contract.ts';
import { feedFilter } from '../feed-filter.ts';
import type { RuleOf } from '../rule.ts';
import type { Watcher } from './watcher.ts';
import { marketTitle, traderName, usdc } from './words.ts';

type Buy = {
  readonly trader: FeedTrader;
  readonly matchId: string;
  readonly atMs: number;
  usdc: bigint;
};

const NAMES_MAX = 5;

export function groupWatcher(rule: RuleOf<'group'>): Watcher {
  const traders = new Set(rule.traders);
  const least = BigInt(Math.round((rule.min_usdc ?? 0) * 1e6));
  /** By condition and outcome. */
  const bought = new Recent<Buy>(rule.within_seconds);
  /** The matches of the groups that were found, by the same keys. */
  const announced = new Map<string, readonly string[]>();

  return {
    filter: feedFilter({ traders: rule.traders, markets: rule.markets, tags: rule.tags }),
    memorySeconds: rule.within_seconds,
    forget(matchId) {
      bought.forget(matchId);
      for (const [key, matches] of announced) if (matches.includes(matchId)) announced.delete(key);
    },
    see({ match, matchId }) {
      const atMs = match.detectedAtMs;
      const found = [];
      for (const [outcome, buys] of ordersOf(atMs, match, matchId)) {
        const key = `${match.conditionId} ${outcome}`;
        const former = bought.of(key, atMs);
        const before = new Set(former.map(({ trader }) => trader.address));
        const recent = [...former, ...buys];
        bought.set(key, recent, atMs);
        const all = new Map(recent.map(({ trader }) => [trader.address, trader]));
        // Once, when the last one joins.
        if (before.size < rule.count) announced.delete(key);
        if (announced.has(key) || all.size < rule.count) continue;
        announced.set(key, [matchId, ...former.map((buy) => buy.matchId)]);
        const total = recent.reduce((sum, buy) => sum + buy.usdc, 0n);
        found.push({
          about: `${matchId} ${outcome}`,
          text: textOf(
            [...all.values()],
            match.market.outcomes[outcome],
            marketTitle(match),
            total,
          ),
          data: {
            market: marketData(match),
            outcome: match.market.outcomes[outcome],
            outcome_index: outcome,
            traders: [...all.values()].map(traderData),
            value: Number(total),
            tx_hash: match.txHash,
            match_id: matchId,
          },
          earlier: former.map((buy) => buy.matchId),
        });
      }
      return found;
    },
  };

  /** What watched wallets buy in a match, by outcome. A wallet with several orders counts once. */
  function ordersOf(atMs: number, match: Parameters<typeof fillsOf>[0], matchId: string) {
    const orders = new Map<0 | 1, Buy[]>();
    for (const fill of fillsOf(match)) {
      if (!traders.has(fill.trader.address)) continue;
      const isBuy = fill.side === 'BUY';
      const outcome = isBuy ? fill.outcomeIndex : fill.outcomeIndex === 0 ? 1 : 0;
      const value = isBuy ? fill.usdc : fill.shares - fill.usdc;
      const own = orders.get(outcome) ?? [];
      const same = own.find(({ trader }) => trader.address === fill.trader.address);
      if (same !== undefined) same.usdc += value;
      else own.push({ trader: fill.trader, matchId, atMs, usdc: value });
      orders.set(outcome, own);
    }
    return [...orders].flatMap(([outcome, buys]) => {
      const large = buys.filter((buy) => buy.usdc >= least);
      return large.length === 0 ? [] : [[outcome, large] as const];
    });
  }
}

function textOf(
  traders: readonly FeedTrader[],
  outcome: string,
  title: string,
  total: bigint,
): string {
  const names = traders.slice(0, NAMES_MAX).map(traderName).join(', ');
  const rest = traders.length > NAMES_MAX ? ` and ${traders.length - NAMES_MAX} more` : '';
  return `${traders.length} traders bought ${outcome} of “${title}”: ${names}${rest}, ${usdc(total)} together`;
}
