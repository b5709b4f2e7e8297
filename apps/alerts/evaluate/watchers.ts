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

export function watcherOf(rule: Rule, { positions, prices }: Lookups): Watcher {
  switch (rule.type) {
    case 'match':
      return matchWatcher(rule);
    case 'group':
      return groupWatcher(rule);
    case 'move':
      return moveWatcher(rule);
    case 'position':
      return positionWatcher(rule, positions);
    case 'price':
      return priceWatcher(rule, prices);
  }
}
