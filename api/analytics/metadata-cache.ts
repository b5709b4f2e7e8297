/**
 * Caches listings, public profiles and balances, which nearly every response shows and which rarely change. They are cached
 * until they change: while requests arrive, one statement every two seconds reads the keys that were stored since. So a response
 * may show data that is up to five seconds old, or lack a trader's first profile or balance for that long. Markets without a listing
 * are not cached. Neither are resolutions, because a response must never show settled PnL with an unresolved market.
 */
import { LRUCache } from 'lru-cache';
import { z } from 'zod';
import type { MarketKey } from '../http/parameters.ts';
import { FEW_ROWS, newestBy, newestOf, type Reading, read, readByIds } from './query.ts';
import {
  boolean,
  digits,
  hexText,
  int,
  number,
  type RowOf,
  type RowSchema,
  rowOf,
  string,
  strings,
  typed,
} from './rows.ts';

const KEYS_MAX = 20_000;
const AGE_MS_MAX = 5_000;
const CHECK_MS = 2_000;
/** Rows become visible some time after their `stored_at`, and clocks differ. */
const OVERLAP_SECONDS = 30;
/** Maximum time in the cache, because a replica may receive a row even later. */
const KEPT_MS_MAX = 600_000;

const VERSION = int('toUnixTimestamp64Milli(observed_at)');

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
  version: VERSION,
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
  version: VERSION,
});
type ProfileRow = RowOf<typeof ProfileRow>;
export type Profile = Omit<ProfileRow, 'version'>;

const BalanceRow = rowOf({
  address: hexText('trader'),
  balance: int('balance'),
  version: int('block_number'),
});
type BalanceRow = RowOf<typeof BalanceRow>;

/** A market by number or slug. */
export type ListingKey = Exclude<MarketKey, { readonly kind: 'condition' }>;
/** A market by the id of one of its tokens. */
export type TokenKey = { readonly kind: 'token'; readonly token: string };

const LISTINGS_SQL = `
SELECT ${ListingRow.columns}
FROM markets
WHERE condition_id IN {conditions:Array(FixedString(32))}
${FEW_ROWS}`;

/** Markets that have one of these numbers or tokens, or had one of these slugs. */
const NAMED = {
  id: {
    row: rowOf({ name: digits('market_id'), condition_id: hexText('condition_id') }),
    where: 'market_id IN {values:Array(UInt64)} AND market_id != 0',
    values: (ids: readonly string[]) => `[${ids.join(',')}]`,
  },
  slug: {
    row: rowOf({ name: string('slug'), condition_id: hexText('condition_id') }),
    // A slug has no comma.
    where: "slug IN splitByChar(',', {values:String})",
    values: (slugs: readonly string[]) => slugs.join(','),
  },
  token: {
    row: rowOf({
      name: string('toString(arrayJoin(token_ids))'),
      condition_id: hexText('condition_id'),
    }),
    where: 'hasAny(token_ids, {values:Array(UInt256)})',
    values: (tokens: readonly string[]) => `[${tokens.join(',')}]`,
  },
};

const PROFILES_SQL = `
SELECT ${ProfileRow.columns}
FROM traders
WHERE trader IN {traders:Array(FixedString(20))}
${FEW_ROWS}`;

/** A wallet has no row until a block with one of its trades was synced. */
const BALANCES_SQL = `
SELECT ${BalanceRow.columns}
FROM balances
WHERE trader IN {traders:Array(FixedString(20))}
${FEW_ROWS}`;

const StoredMarket = rowOf({ condition: hexText('condition_id') });
const StoredTrader = rowOf({ address: hexText('trader') });

type Table = 'markets' | 'traders' | 'balances';

const storedStatement = (table: Table, columns: string) => `
SELECT ${columns}
FROM ${table}
WHERE stored_at >= now() - {seconds:UInt32}
LIMIT ${KEYS_MAX}`;

export type Metadata = ReturnType<typeof createMetadata>;

/** All methods throw Problem 503 if ClickHouse is unavailable. */
export function createMetadata(store: Omit<Reading, 'signal'>) {
  // Loads are shared, so a client's disconnect must not abort them.
  const reading = { ...store, signal: null };
  const readStored =
    <Row>(table: Table, row: RowSchema<Row>) =>
    (seconds: number) =>
      read(reading, {
        sql: storedStatement(table, row.columns),
        parameters: { seconds },
        row,
      });
  const loadConditions =
    (kind: keyof typeof NAMED): Load<readonly string[]> =>
    async (names) => {
      const { row, where, values } = NAMED[kind];
      const sql = `SELECT DISTINCT ${row.columns} FROM markets WHERE ${where} SETTINGS optimize_use_projections = 1`;
      const rows = await read(reading, { sql, parameters: { values: values(names) }, row });
      const named = Map.groupBy(rows, ({ name }) => name);
      return new Map([...named].map(([name, own]) => [name, own.map((one) => one.condition_id)]));
    };
  const listings = createCache<ListingRow>(async (keys) => {
    const statement = { sql: LISTINGS_SQL, list: 'conditions', row: ListingRow };
    const rows = await readByIds(reading, statement, keys);
    return newestBy(rows, (row) => row.condition_id);
  });
  // A market keeps its number and tokens.
  const numbers = createCache(loadConditions('id'));
  const tokens = createCache(loadConditions('token'));
  const slugs = createCache(loadConditions('slug'), { ageMsMax: AGE_MS_MAX });
  const loadProfiles: Load<Profile> = async (keys) => {
    const statement = { sql: PROFILES_SQL, list: 'traders', row: ProfileRow };
    const rows = await readByIds(reading, statement, keys);
    return newestBy(rows, (row) => row.address);
  };
  const profiles = createCache(loadProfiles, { keepsNone: true });
  const loadBalances: Load<BalanceRow> = async (keys) => {
    const statement = { sql: BALANCES_SQL, list: 'traders', row: BalanceRow };
    const rows = await readByIds(reading, statement, keys);
    return newestBy(rows, (row) => row.address);
  };
  const balances = createCache(loadBalances, { keepsNone: true });
  const checkMarkets = createCheck(readStored('markets', StoredMarket), {
    forget: ({ condition }) => listings.forget(condition),
    clear: listings.clear,
  });
  const checkTraders = createCheck(readStored('traders', StoredTrader), {
    forget: ({ address }) => profiles.forget(address),
    clear: profiles.clear,
  });

  const checkBalances = createCheck(readStored('balances', StoredTrader), {
    forget: ({ address }) => balances.forget(address),
    clear: balances.clear,
  });

  async function conditionsOf(key: ListingKey | TokenKey): Promise<readonly string[]> {
    switch (key.kind) {
      case 'id':
        return (await numbers.get([key.id])).get(key.id) ?? [];
      case 'slug':
        return (await slugs.get([key.slug])).get(key.slug) ?? [];
      case 'token':
        return (await tokens.get([key.token])).get(key.token) ?? [];
    }
  }

  async function listingsOf(conditionIds: readonly string[]) {
    await checkMarkets();
    return await listings.get(conditionIds);
  }

  return {
    /** The listings of these markets by condition id, without markets that have none. */
    listings: async (conditionIds: readonly string[]): Promise<ReadonlyMap<string, Listing>> =>
      await listingsOf(conditionIds),
    /** The listing with this number, slug or token; the newest one for a reused slug. */
    async listing(key: ListingKey | TokenKey): Promise<Listing | undefined> {
      const conditionIds = await conditionsOf(key);
      if (conditionIds.length === 0) return undefined;
      const named = [...(await listingsOf(conditionIds)).values()];
      return newestOf(named.filter((one) => key.kind !== 'slug' || one.slug === key.slug));
    },
    /** The public profiles of these traders by address, without traders who have none. */
    async profiles(addresses: readonly string[]) {
      await checkTraders();
      return await profiles.get(addresses);
    },
    /** Micro-pUSD of these wallets by address, without wallets whose balance was never read. */
    async balances(addresses: readonly string[]): Promise<ReadonlyMap<string, bigint>> {
      await checkBalances();
      const found = await balances.get(addresses);
      return new Map([...found].map(([address, { balance }]) => [address, balance]));
    },
  };
}

/**
 * Returns a function that resolves when cached entries are at most AGE_MS_MAX old. It waits only if there was no request
 * for that long.
 */
function createCheck<Row>(
  /** Reads the rows that were stored in the last `seconds`. */
  readStored: (seconds: number) => Promise<readonly Row[]>,
  cache: { readonly forget: (row: Row) => void; readonly clear: () => void },
): () => Promise<void> {
  // Nothing is cached before the first check.
  let checkedAtMs = performance.now() - AGE_MS_MAX;
  let checking: Promise<void> | undefined;
  async function check(): Promise<void> {
    const startedAtMs = performance.now();
    const seconds = Math.ceil((startedAtMs - checkedAtMs) / 1_000) + OVERLAP_SECONDS;
    const rows = await readStored(seconds);
    if (rows.length === KEYS_MAX) cache.clear();
    else rows.forEach(cache.forget);
    checkedAtMs = startedAtMs;
  }
  return async () => {
    const ageMs = performance.now() - checkedAtMs;
    if (ageMs < CHECK_MS) return;
    checking ??= check().finally(() => {
      checking = undefined;
    });
    // Until the maximum age is reached, the next request retries a failed check.
    if (ageMs < AGE_MS_MAX) checking.catch(() => undefined);
    else await checking;
  };
}

const NONE = 'none';
type Load<Value> = (keys: readonly string[]) => Promise<ReadonlyMap<string, Value>>;

/**
 * `get` loads all keys that are neither cached nor being loaded with one statement, together with those of other calls in
 * the same turn. With `keepsNone`, the absence of a row is cached as well.
 */
function createCache<Value extends object>(
  load: Load<Value>,
  { keepsNone = false, ageMsMax = KEPT_MS_MAX } = {},
) {
  type Loading = {
    readonly missing: string[];
    readonly values: Promise<ReadonlyMap<string, Value>>;
  };
  const cache = new LRUCache<string, Value | typeof NONE, Loading>({
    max: KEYS_MAX,
    ttl: ageMsMax,
    // An entry that is evicted while it loads still reaches the calls that wait for it.
    ignoreFetchAbort: true,
    async fetchMethod(key, _stale, { context: { missing, values } }) {
      missing.push(key);
      return (await values).get(key) ?? (keepsNone ? NONE : undefined);
    },
  });
  let next: Loading | undefined;
  function loading(): Loading {
    const missing: string[] = [];
    // Runs after `fetch` has collected every missing key.
    const values = Promise.resolve().then(() => {
      next = undefined;
      return missing.length === 0 ? new Map() : load(missing);
    });
    return { missing, values };
  }
  return {
    async get(keys: readonly string[]): Promise<ReadonlyMap<string, Value>> {
      next ??= loading();
      const context = next;
      const found = new Map<string, Value>();
      const fetchOne = async (key: string) => {
        const value = await cache.fetch(key, { context });
        if (value !== undefined && value !== NONE) found.set(key, value);
      };
      await Promise.all(keys.map(fetchOne));
      return found;
    },
    /** An entry that is being loaded still reaches the calls that wait for it, but is not cached. */
    forget(key: string): void {
      cache.delete(key);
    },
    clear(): void {
      cache.clear();
    },
  };
}
