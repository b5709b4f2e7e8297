/**
 * Listings and public profiles, which nearly every response shows and which seldom change. Each is read at most
 * once in five seconds, so a response may show one that is up to five seconds old. Keys without a row are
 * not cached. Neither are resolutions: a response must never show settled PnL beside an unresolved market.
 */
import { LRUCache } from 'lru-cache';
import { z } from 'zod';
import { Bytes } from '../../infra/clickhouse.ts';
import type { MarketKey } from '../parameters.ts';
import { FEW_ROWS, newestBy, newestOf, type Reading, read } from './query.ts';
import {
  boolean,
  digits,
  hexText,
  int,
  number,
  type RowOf,
  rowOf,
  string,
  strings,
  typed,
} from './rows.ts';

const KEYS_MAX = 20_000;
const AGE_MS_MAX = 5_000;

const ListingRow = rowOf({
  condition_id: hexText('condition_id'),
  id: digits('market_id'),
  question: string('question'),
  slug: string('slug'),
  start_date: string('start_date'),
  end_date: string('end_date'),
  icon: string('icon'),
  neg_risk: boolean('neg_risk'),
  event_slug: string('event_slug'),
  series_slug: string('series_slug'),
  tags: strings('tags'),
  outcomes: strings('outcomes'),
  token_ids: strings('token_ids'),
  group_item_title: string('group_item_title'),
  event_title: string('event_title'),
  event_icon: string('event_icon'),
  version: int('toUnixTimestamp64Milli(observed_at)'),
});
type ListingRow = RowOf<typeof ListingRow>;
export type Listing = Omit<ListingRow, 'version'>;

const ProfileRow = rowOf({
  address: hexText('trader'),
  name: string('name'),
  profile_image: string('profile_image'),
  x_username: string('x_username'),
  profile_created_at: string('profile_created_at'),
  taker_tier: typed('taker_tier', z.int().min(0).max(6)),
  taker_tier_name: string('taker_tier_name'),
  weighted_volume_usd: number('weighted_volume_usd'),
  has_weighted_volume: boolean('has_weighted_volume'),
  version: int('toUnixTimestamp64Milli(observed_at)'),
});
type ProfileRow = RowOf<typeof ProfileRow>;
export type Profile = Omit<ProfileRow, 'version'>;

/** A market by number or slug. */
export type ListingKey = Exclude<MarketKey, { readonly kind: 'condition' }>;

const LISTINGS_SQL = `
SELECT ${ListingRow.columns}
FROM markets
WHERE condition_id IN {conditions:Array(FixedString(32))}
${FEW_ROWS}`;

const LISTING_SQL = {
  // A market keeps its number: none of its rows has another one.
  id: `
SELECT ${ListingRow.columns}
FROM markets
WHERE market_id = {value:UInt64} AND market_id != 0
${FEW_ROWS}`,
  slug: `
SELECT ${ListingRow.columns}
FROM markets FINAL
WHERE slug = {value:String}
${FEW_ROWS}`,
};

const PROFILES_SQL = `
SELECT ${ProfileRow.columns}
FROM traders
WHERE trader IN {traders:Array(FixedString(20))}
${FEW_ROWS}`;

export type Metadata = ReturnType<typeof createMetadata>;

/** All methods throw Problem 503 if ClickHouse cannot answer. */
export function createMetadata(store: Omit<Reading, 'signal'>) {
  // A load is shared: no request that goes away ends it.
  const reading = { ...store, signal: null };
  const loadNamed =
    (kind: 'id' | 'slug'): Load<Listing> =>
    async ([value = '']) => {
      const statement = { sql: LISTING_SQL[kind], parameters: { value }, row: ListingRow };
      const row = newestOf(await read(reading, statement));
      return new Map(row === undefined ? [] : [[value, row]]);
    };
  const named = { id: createCache(loadNamed('id')), slug: createCache(loadNamed('slug')) };

  return {
    /** The listings of these markets by condition id, without markets that have none. */
    listings: createCache<Listing>(async (keys) => {
      const parameters = { conditions: new Bytes(keys) };
      const rows = await read(reading, { sql: LISTINGS_SQL, parameters, row: ListingRow });
      return newestBy(rows, (row) => row.condition_id);
    }),
    /** The listing with this number or slug; the newest one of a slug that was used again. */
    async listing(key: ListingKey): Promise<Listing | undefined> {
      const value = key.kind === 'id' ? key.id : key.slug;
      return (await named[key.kind]([value])).get(value);
    },
    /** The public profiles of these traders by address, without traders who have none. */
    profiles: createCache<Profile>(async (keys) => {
      const parameters = { traders: new Bytes(keys) };
      const rows = await read(reading, { sql: PROFILES_SQL, parameters, row: ProfileRow });
      return newestBy(rows, (row) => row.address);
    }),
  };
}

type Load<Value> = (keys: readonly string[]) => Promise<ReadonlyMap<string, Value>>;

/** Loads the keys of a call that are neither cached nor being loaded, all at once. */
function createCache<Value extends Listing | Profile>(load: Load<Value>): Load<Value> {
  type Loading = {
    readonly missing: string[];
    readonly values: Promise<ReadonlyMap<string, Value>>;
  };
  const cache = new LRUCache<string, Value, Loading>({
    max: KEYS_MAX,
    ttl: AGE_MS_MAX,
    // An entry that is evicted while it is loaded still reaches those who wait for it.
    ignoreFetchAbort: true,
    async fetchMethod(key, _stale, { context: { missing, values } }) {
      missing.push(key);
      return (await values).get(key);
    },
  });
  return async (keys) => {
    const missing: string[] = [];
    // Begins when `fetch` has named every missing key.
    const values = Promise.resolve().then(() => (missing.length === 0 ? new Map() : load(missing)));
    const context = { missing, values };
    const found = new Map<string, Value>();
    const fetchOne = async (key: string) => {
      const value = await cache.fetch(key, { context });
      if (value !== undefined) found.set(key, value);
    };
    await Promise.all(keys.map(fetchOne));
    return found;
  };
}
