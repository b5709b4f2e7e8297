/** The watcher of each kind of rule. */
import type { Rule } from '../rule.ts';
import { groupWatcher } from './group.ts';
import type { Lookups } from './lookups.ts';
import { matchWatcher } from './match.ts';
import { moveWatcher } from './move.ts';
import { positionWatcher } from './position.ts';
import { priceWatcher } from './price.ts';
import type { Watcher } from './watcher.ts';

/** Kinds that need ClickHouse; a pass over FEED of their own evaluates them, so that the others never wait for it. */
export const LOOKUP_TYPES: ReadonlySet<string> = new Set(['position', 'price']);

/** Not those that follow from final blocks alone (settlements.ts, pnl.ts). */
export type FeedRule = Exclude<Rule, { type: 'resolution' | 'pnl' }>;

/** Without lookups, kinds that need them are refused. */
export function watcherOf(rule: FeedRule, lookups: Lookups | undefined): Watcher {
  switch (rule.type) {
    case 'match':
      return matchWatcher(rule);
    case 'group':
      return groupWatcher(rule);
    case 'move':
      return moveWatcher(rule);
    case 'position':
      return positionWatcher(rule, needed(lookups).positions);
    case 'price':
      return priceWatcher(rule, needed(lookups).prices);
  }
}

function needed(lookups: Lookups | undefined): Lookups {
  if (lookups === undefined) throw new Error('this pass has no lookups');
  return lookups;
}
