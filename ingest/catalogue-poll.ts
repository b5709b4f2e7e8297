/**
 * Looks for new markets before they are traded: the newest pages first, until one brings nothing new.
 * Bounded by pages a round; what a round leaves is gone on with in the next, up to BACKLOG_PAGES_MAX,
 * because a market that was missed here is asked for when it is traded.
 */
import type { Listing } from './contract-metadata.ts';
import type { Gamma } from './gamma.ts';

const ROUND_PAGES_MAX = 5;
/** 100 markets each: three days of new markets after an outage. */
const BACKLOG_PAGES_MAX = 100;

export type NewMarketsOptions = {
  readonly gamma: Pick<Gamma, 'newest'>;
  readonly isKnown: (conditionId: string) => boolean;
  readonly onListing: (listing: Listing) => Promise<void>;
};

export class NewMarkets {
  readonly #options: NewMarketsOptions;
  /** Where the last round stopped before it met a page without anything new. */
  #backlog: { readonly cursor: string; readonly pages: number } | undefined;

  constructor(options: NewMarketsOptions) {
    this.#options = options;
  }

  /** One round; the number of markets that were new. Throws GammaError. */
  async round(): Promise<number> {
    const head = await this.#walk(undefined, ROUND_PAGES_MAX);
    const backlog = this.#backlog;
    // The newer rest is the one to go on with: an older backlog that it replaces was bounded anyway.
    if (head.next !== undefined) this.#backlog = { cursor: head.next, pages: ROUND_PAGES_MAX };
    if (backlog === undefined || head.next !== undefined) return head.count;
    const rest = await this.#walk(backlog.cursor, ROUND_PAGES_MAX);
    const pages = backlog.pages + ROUND_PAGES_MAX;
    const goesOn = rest.next !== undefined && pages < BACKLOG_PAGES_MAX;
    this.#backlog = goesOn && rest.next !== undefined ? { cursor: rest.next, pages } : undefined;
    return head.count + rest.count;
  }

  /** `next` is where new markets may go on; undefined at a page without any. */
  async #walk(cursor: string | undefined, pagesMax: number) {
    const { gamma, isKnown, onListing } = this.#options;
    let count = 0;
    let next = cursor;
    for (let pages = 0; pages < pagesMax; pages++) {
      const page = await gamma.newest(next);
      const fresh = page.listings.filter((listing) => !isKnown(listing.conditionId));
      // Known ones too: the answer is as new as a refresh.
      for (const listing of page.listings) await onListing(listing);
      count += fresh.length;
      next = page.next;
      if (fresh.length === 0 || next === undefined) return { count, next: undefined };
    }
    return { count, next };
  }
}
