/**
 * A listener's filter, made of the rows in filters.ts, and an index over the filters of all listeners. Lists are combined
 * with AND, the entries of one list with OR.
 */
import type { z } from 'zod';
import type { FeedMatch } from '../../ingest/contract.ts';
import {
  ALL_TAGS,
  type BoundName,
  type Filtered,
  type ListName,
  type Test,
} from './filter-rules.ts';
import { BOUNDS, BY_SELECTIVITY, LISTS } from './filters.ts';

const BOUND_NAMES = Object.keys(BOUNDS) as BoundName[];

/** Numbers of the lists: arrays by number are much faster here than objects by name. */
const NUMBERS = BY_SELECTIVITY.map((name, number) => ({ name, number }));

export type Filter = {
  /** The lists that are not empty, most selective first. */
  readonly lists: readonly { readonly number: number; readonly wanted: ReadonlySet<string> }[];
  readonly bounds: readonly Test[];
};

/** What filters compare of a match; extracted once. */
export type Facts = Pick<Filtered, 'usdc' | 'shares'> & {
  /** The entries for each list, by its number. */
  readonly lists: readonly (readonly string[])[];
};

export function factsOf(match: FeedMatch): Facts {
  return factsOfSequel(filteredOf(match));
}

export function filteredOf({ taker, makers, market, conditionId }: FeedMatch): Filtered {
  const addresses = [taker, ...makers].map((fill) => fill.trader.address);
  return {
    traders: [...new Set(addresses)],
    ...{ tags: market.tags, seriesSlug: market.seriesSlug, conditionId },
    ...{ usdc: taker.usdc, shares: taker.shares },
  };
}

/** Facts of the match that a sequel refers to, as they were when the match was shown. */
export function factsOfSequel(match: Filtered): Facts {
  const { usdc, shares } = match;
  return { usdc, shares, lists: NUMBERS.map(({ name }) => LISTS[name].of(match)) };
}

/** Values of the parameters; markets by condition id. */
export type Given = { readonly [Name in ListName]?: readonly string[] | undefined } & {
  readonly [Name in BoundName]?: z.output<(typeof BOUNDS)[Name]['parameter']> | undefined;
};

/** An empty list, and a list of tags that contains ALL_TAGS, do not filter. */
export function filterOf(given: Given): Filter {
  const tags = given.tags?.includes(ALL_TAGS) ? [] : given.tags;
  const lists = NUMBERS.map(({ name, number }) => {
    return { number, wanted: new Set(name === 'tags' ? tags : given[name]) };
  });
  const bounds = BOUND_NAMES.flatMap((name) => {
    const bound = given[name];
    return bound === undefined ? [] : [BOUNDS[name].test(bound)];
  });
  return { lists: lists.filter(({ wanted }) => wanted.size > 0), bounds };
}

/** Whether every match passes. */
export function filtersNothing({ lists, bounds }: Filter): boolean {
  return lists.length === 0 && bounds.length === 0;
}

/** Whether the match passes every list and every bound. Runs for each candidate of each event: index loops halve its time. */
export function matches(filter: Filter, facts: Facts): boolean {
  const { lists, bounds } = filter;
  for (let i = 0; i < lists.length; i++) {
    const list = lists[i] as (typeof lists)[number];
    if (!hasAny(list.wanted, facts.lists[list.number] as readonly string[])) return false;
  }
  for (let i = 0; i < bounds.length; i++) if (!(bounds[i] as Test)(facts)) return false;
  return true;
}

function hasAny(wanted: ReadonlySet<string>, entries: readonly string[]): boolean {
  for (let i = 0; i < entries.length; i++) if (wanted.has(entries[i] as string)) return true;
  return false;
}

/**
 * Finds the members whose filters may match an event, so that the cost of an event depends on its candidates instead of
 * all listeners. A member is filed under the entries of its most selective list. Without lists it is a candidate for every
 * event. Callers must check the whole filter, and may see a candidate twice.
 */
export class FilterIndex<Member extends { readonly filter: Filter }> {
  /** By number of the list and by entry. */
  readonly #filed = NUMBERS.map(() => new Map<string, Set<Member>>());
  readonly #all = new Set<Member>();

  add(member: Member): void {
    const [list] = member.filter.lists;
    if (list === undefined) this.#all.add(member);
    const filed = this.#filed[list?.number ?? 0];
    for (const entry of list?.wanted ?? []) {
      const members = filed?.get(entry);
      if (members === undefined) filed?.set(entry, new Set([member]));
      else members.add(member);
    }
  }

  get isEmpty(): boolean {
    return this.#all.size === 0 && this.#filed.every(({ size }) => size === 0);
  }

  /** Removing during `forEachCandidate` is safe. */
  delete(member: Member): void {
    const [list] = member.filter.lists;
    if (list === undefined) this.#all.delete(member);
    const filed = this.#filed[list?.number ?? 0];
    for (const entry of list?.wanted ?? []) {
      const members = filed?.get(entry);
      members?.delete(member);
      if (members?.size === 0) filed?.delete(entry);
    }
  }

  forEachCandidate(facts: Facts, visit: (member: Member) => void): void {
    for (const member of this.#all) visit(member);
    for (const [number, entries] of facts.lists.entries()) {
      for (const entry of entries) {
        for (const member of this.#filed[number]?.get(entry) ?? []) visit(member);
      }
    }
  }
}
