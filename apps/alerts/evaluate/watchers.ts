/** The watcher of each kind of rule. */
import type { Rule } from '../rule.ts';
import { groupWatcher } from './group.ts';
import { matchWatcher } from './match.ts';
import { moveWatcher } from './move.ts';
import type { Watcher } from './watcher.ts';

export function watcherOf(rule: Rule): Watcher {
  switch (rule.type) {
    case 'match':
      return matchWatcher(rule);
    case 'group':
      return groupWatcher(rule);
    case 'move':
      return moveWatcher(rule);
  }
}
