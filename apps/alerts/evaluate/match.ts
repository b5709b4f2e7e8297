/** The rule `match`: a match that passes a filter. */
import { fillsOf } from '../../../api/analytics/match-data.ts';
import { encodeMatch } from '../../../api/feed/encode.ts';
import { feedFilter } from '../feed-filter.ts';
import type { RuleOf } from '../rule.ts';
import type { Watcher } from './watcher.ts';
import { fillText } from './words.ts';

export function matchWatcher(rule: RuleOf<'match'>): Watcher {
  const traders = new Set(rule.traders);
  return {
    filter: feedFilter(rule),
    memorySeconds: 0,
    forget: () => undefined,
    see({ match, matchId }) {
      const watched = fillsOf(match).filter(({ trader }) => traders.has(trader.address));
      return [
        {
          about: matchId,
          text: fillText(match, watched[0] ?? match.taker),
          // The same object as in the order feed.
          data: JSON.parse(encodeMatch(match, 'json', matchId)),
          earlier: [],
        },
      ];
    },
  };
}
