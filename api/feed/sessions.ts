/**
 * Open event streams of each account, counted against its tier (decisions: "Streams and the order
 * feed"). Counts are of this process: n processes behind one balancer allow up to n times as many.
 */
import type { Caller } from '../keys.ts';
import { Problem } from '../problems.ts';
import { TIERS } from '../tiers.ts';

export class Sessions {
  readonly #open = new Map<string, number>();

  /** Takes a session; call what is returned, once, when it is over. Throws Problem 403. */
  open(caller: Caller): () => void {
    const { account, tier } = caller;
    const { sessionsMax } = TIERS[tier];
    const others = this.#open.get(account) ?? 0;
    if (others >= sessionsMax) {
      throw new Problem({
        status: 403,
        error: 'quota_exceeded',
        detail: `tier ${tier} has ${sessionsMax} open event streams at a time`,
      });
    }
    this.#open.set(account, others + 1);
    return () => {
      const left = (this.#open.get(account) ?? 1) - 1;
      if (left === 0) this.#open.delete(account);
      else this.#open.set(account, left);
    };
  }
}
