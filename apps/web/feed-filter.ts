/** Filters of the order feed in the page: which matches pass one, and one that passes what any of several does. */
import {
  ALL_TAGS,
  type BoundName,
  ENTRIES,
  type Filtered,
  type ListName,
  parseDecimal,
  TESTS,
} from '../../api/feed/filter-rules.ts';
import type { LabelledMatch } from '../client/index.ts';

/** By the API's parameters, with their texts. Lists are comma-separated. */
export type FeedFilter = Readonly<Partial<Record<ListName | BoundName, string>>>;

const LISTS = Object.keys(ENTRIES) as ListName[];
const BOUNDS = Object.keys(TESTS) as BoundName[];
/** The API's limits of a list. */
const LENGTH_MAX: Readonly<Partial<Record<ListName, number>>> = { traders: 350, markets: 100 };

/** Whether a match passes a filter that the API accepts. */
export function passes(filter: FeedFilter, match: LabelledMatch): boolean {
  const { market, taker_order: taker, maker_orders: makers } = match;
  const facts = {
    traders: [taker, ...makers].map(({ trader }) => trader.address.toLowerCase()),
    ...{
      tags: market.tags,
      seriesSlug: market.series_slug,
      conditionId: market.condition_id,
    },
    ...{ usdc: BigInt(taker.usdc), shares: BigInt(taker.shares) },
  } as Filtered;
  const isInLists = LISTS.every((name) => {
    const wanted = entriesOf(filter, name);
    if (wanted === undefined) return true;
    const names = name === 'markets' ? [market.id, market.slug] : [];
    return [...ENTRIES[name](facts), ...names].some((entry) => wanted.includes(entry));
  });
  return (
    isInLists &&
    BOUNDS.every((name) => {
      const bound = parseDecimal(filter[name] ?? '');
      return bound === undefined || TESTS[name](bound)(facts);
    })
  );
}

/** Passes every match that passes any of these, and perhaps others. Stays within the API's limits. */
export function unionOf(filters: readonly FeedFilter[]): FeedFilter {
  const lists = LISTS.flatMap((name) => {
    const all = filters.map((filter) => entriesOf(filter, name));
    const union = [...new Set(all.flatMap((entries) => entries ?? []))].sort();
    const isList = !all.includes(undefined) && union.length <= (LENGTH_MAX[name] ?? union.length);
    return isList ? [[name, union.join(',')] as const] : [];
  });
  const bounds = BOUNDS.flatMap((name) => {
    const [bound, ...others] = new Set(filters.map((filter) => filter[name]));
    return bound === undefined || others.length > 0 ? [] : [[name, bound] as const];
  });
  return Object.fromEntries([...lists, ...bounds]);
}

/** Undefined if the filter has no such list. */
function entriesOf(filter: FeedFilter, name: ListName): readonly string[] | undefined {
  const entries = (filter[name] ?? '')
    .split(',')
    .flatMap((text) => text.trim().toLowerCase() || []);
  return entries.length === 0 || (name === 'tags' && entries.includes(ALL_TAGS))
    ? undefined
    : entries;
}
