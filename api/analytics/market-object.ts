/**
 * Market objects: finding a market by number, condition id or slug, its resolution, and the object of both
 * versions. A market without a listing has the id 0 and empty texts.
 */
import { z } from 'zod';
import { Bytes } from '../../infra/clickhouse.ts';
import { isStructured, winningOutcome } from '../../ingest/contract.ts';
import { Problem } from '../http/errors.ts';
import type { MarketKey } from '../http/parameters.ts';
import type { Call } from './call.ts';
import { isoSecond, safeInteger } from './format.ts';
import type { Mark } from './marks.ts';
import type { Listing, ListingKey } from './metadata-cache.ts';
import { FEW_ROWS, newestBy, read, readByIds } from './query.ts';
import { count as counted, hexText, int, type RowOf, rowOf, seconds, string } from './rows.ts';
import { text, time, yes } from './schemas.ts';

const ResolutionRow = rowOf({
  condition_id: hexText('condition_id'),
  resolved_at: seconds('resolved_at'),
  payout_0: int('payout_0'),
  payout_1: int('payout_1'),
  version: int('block_number'),
});
export type Resolution = Omit<RowOf<typeof ResolutionRow>, 'version'>;

const RESOLUTIONS_SQL = `
SELECT ${ResolutionRow.columns}
FROM resolutions
WHERE condition_id IN {conditions:Array(FixedString(32))}
${FEW_ROWS}`;

/** The resolutions of these markets by condition id. */
export async function readResolutions(
  call: Call,
  conditionIds: readonly string[],
): Promise<ReadonlyMap<string, Resolution>> {
  const statement = { sql: RESOLUTIONS_SQL, list: 'conditions', row: ResolutionRow };
  const rows = await readByIds(call, statement, conditionIds);
  return newestBy(rows, (row) => row.condition_id);
}

/** The mark of a resolved market is its resolution. */
export function resolutionOf(conditionId: string, mark: Mark | undefined): Resolution | undefined {
  if (mark?.source !== 'resolution') return undefined;
  return {
    ...{ condition_id: conditionId, resolved_at: mark.time },
    ...{ payout_0: mark.usdc, payout_1: mark.shares - mark.usdc },
  };
}

/** A placeholder for the listing of a market that is not listed yet. */
export function unlisted(conditionId: string): Listing {
  return {
    ...{ condition_id: conditionId, id: '0', question: '', slug: '', start_date: '' },
    ...{ end_date: '', icon: '', neg_risk: false, event_slug: '', series_slug: '', tags: [] },
    ...{ outcomes: [], token_ids: [], group_item_title: '', event_title: '', event_icon: '' },
  };
}

const shared = {
  question: text('the question that the market decides', 'Will it rain in Paris on 1 May?'),
  slug: text('name of the market in URLs', 'rain-in-paris-may-1'),
  start_date: time('when the market opened, or empty'),
  end_date: time('when the market closes or closed, or empty'),
  icon: text('URL of the icon', 'https://example.com/icon.png'),
  neg_risk: yes('one of the exclusive markets of a negative-risk event'),
  event_slug: text('slug of the parent event', 'weather-may-1'),
  series_slug: text('slug of the series, or empty', 'weather-daily'),
  tags: z.array(z.string()).meta({ description: 'category tags', examples: [['weather']] }),
  outcome_1: text('label of the first outcome', 'Yes'),
  outcome_2: text('label of the second outcome', 'No'),
  group_item_title: text('title inside an event group, or empty'),
  event_title: text('title of the parent event', 'Weather on 1 May'),
  event_icon: text('URL of the icon of the event'),
  resolved_at: time('when the market was resolved; empty while unresolved'),
  winning_outcome: text(
    'label of the winning outcome, or `50-50` if both pay the same; empty while unresolved',
  ),
};

export const MarketV1 = z
  .object({
    id: z
      .string()
      .regex(/^\d{1,19}$/)
      .meta({
        description: 'market id, an int64 as text; 0 without a listing',
        examples: ['2182202'],
      }),
    ...shared,
  })
  .meta({ id: 'MarketListingV1' });

export function marketV1(listing: Listing, resolution: Resolution | undefined) {
  return { id: listing.id, ...sharedMembers(listing, resolution) };
}

const UNRESOLVED = -2;
const VOID = -1;

export const MarketV2 = z
  .object({
    id: z
      .int()
      .min(0)
      .meta({
        description: 'market id; 0 without a listing',
        examples: [2_182_202],
      }),
    condition_id: z
      .string()
      .regex(/^0x[0-9a-f]{64}$/)
      .meta({ description: 'id of the market on chain', examples: [`0x${'5f'.repeat(32)}`] }),
    token_ids: z.array(z.string()).meta({
      description:
        'ERC-1155 ids of the two outcome shares, decimal. Without a listing, those that were traded; otherwise empty',
      examples: [['7130', '5211']],
    }),
    exchange: z.enum(['ctf', 'neg_risk', 'v3']).meta({
      description:
        'the exchange that trades it: `ctf` and `neg_risk` are those of version 2, for ordinary and exclusive markets; `v3` is that of version 3. A market that continues on version 3 keeps the older one',
      examples: ['ctf'],
    }),
    ...shared,
    result: z
      .int()
      .min(UNRESOLVED)
      .max(100)
      .meta({
        description:
          '-2 unresolved, -1 void (pays nothing), otherwise the payout of outcome 1, percent',
        examples: [100],
      }),
  })
  .meta({ id: 'MarketListing' });

export function marketV2(listing: Listing, resolution: Resolution | undefined) {
  return {
    id: safeInteger(BigInt(listing.id)),
    condition_id: listing.condition_id,
    token_ids: listing.token_ids,
    exchange: exchangeOf(listing),
    ...sharedMembers(listing, resolution),
    result: resultOf(resolution),
  };
}

function exchangeOf({ condition_id, neg_risk }: Listing): z.infer<typeof MarketV2>['exchange'] {
  if (isStructured(condition_id)) return 'v3';
  return neg_risk ? 'neg_risk' : 'ctf';
}

function sharedMembers(listing: Listing, resolution: Resolution | undefined) {
  const outcomes = [listing.outcomes[0] ?? '', listing.outcomes[1] ?? ''] as const;
  return {
    question: listing.question,
    slug: listing.slug,
    start_date: listing.start_date,
    end_date: listing.end_date,
    icon: listing.icon,
    neg_risk: listing.neg_risk,
    event_slug: listing.event_slug,
    series_slug: listing.series_slug,
    tags: listing.tags,
    outcome_1: outcomes[0],
    outcome_2: outcomes[1],
    group_item_title: listing.group_item_title,
    event_title: listing.event_title,
    event_icon: listing.event_icon,
    resolved_at: resolution === undefined ? '' : isoSecond(resolution.resolved_at),
    winning_outcome:
      resolution === undefined
        ? ''
        : winningOutcome(outcomes, [resolution.payout_0, resolution.payout_1]),
  };
}

function resultOf(resolution: Resolution | undefined): number {
  if (resolution === undefined) return UNRESOLVED;
  const { payout_0: first, payout_1: second } = resolution;
  if (first + second === 0n) return VOID;
  // Rounds down.
  return Number((100n * first) / (first + second));
}

/** The listing of a market by number or slug. Throws Problem 404 if there is none. */
export async function findListing(call: Pick<Call, 'metadata'>, key: ListingKey): Promise<Listing> {
  const listing = await call.metadata.listing(key);
  if (listing === undefined) throw unknownMarket(key);
  return listing;
}

/** The condition id of a market. Throws Problem 404 for an unknown number or slug. */
export async function conditionOf(call: Pick<Call, 'metadata'>, key: MarketKey): Promise<string> {
  return key.kind === 'condition' ? key.conditionId : (await findListing(call, key)).condition_id;
}

/**
 * Finds a market. A condition id may have no listing. A reused slug means its newest listing. Throws Problem 404 for
 * an unknown number or slug.
 */
export async function findMarket(
  call: Call,
  key: MarketKey,
): Promise<{ readonly conditionId: string; readonly listing: Listing | undefined }> {
  if (key.kind !== 'condition') {
    const listing = await findListing(call, key);
    return { conditionId: listing.condition_id, listing };
  }
  const { conditionId } = key;
  const listings = await call.metadata.listings([conditionId]);
  return { conditionId, listing: listings.get(conditionId) };
}

const KnownRow = rowOf({ known: counted('1') });

const KNOWN_SQL = `
SELECT ${KnownRow.columns} FROM market_traders WHERE condition_id = {condition_id:FixedString(32)} LIMIT 1`;

/** Finds a market that is listed, traded or resolved. Throws Problem 404 if there is none. */
export async function findKnownMarket(call: Call, key: MarketKey) {
  const { conditionId, listing } = await findMarket(call, key);
  if (listing !== undefined) return { conditionId, listing };
  const parameters = { condition_id: new Bytes(conditionId) };
  const [traders, resolutions] = await Promise.all([
    read(call, { sql: KNOWN_SQL, parameters, row: KnownRow }),
    readResolutions(call, [conditionId]),
  ]);
  const known = { traders: traders.length, resolution: resolutions.get(conditionId) };
  return { conditionId, listing: knownListing(key, listing, known) };
}

/**
 * The listing to show. A market without a listing is known by its condition id once it was traded or resolved.
 * Throws Problem 404 for any other.
 */
export function knownListing(
  key: MarketKey,
  listing: Listing | undefined,
  known: { readonly traders: number; readonly resolution: Resolution | undefined },
): Listing {
  if (listing !== undefined) return listing;
  if (key.kind !== 'condition' || (known.traders === 0 && known.resolution === undefined)) {
    throw unknownMarket(key);
  }
  return unlisted(key.conditionId);
}

/** 404: there is no market with this number, condition id or slug. */
function unknownMarket(key: MarketKey): Problem {
  const { kind, ...name } = key;
  const detail = `no market has the ${kind} ${Object.values(name).join('')}`;
  return new Problem({ error: 'not_found', detail });
}

/** Reads the listings of these markets. Returns a function from condition id to market object and outcome labels. */
export async function readMarketsV2(call: Call, conditionIds: readonly string[]) {
  const ids = [...new Set(conditionIds)];
  const [found, resolutions] = await Promise.all([
    call.metadata.listings(ids),
    readResolutions(call, ids),
  ]);
  const listings = await withTokens(
    call,
    ids.map((id) => found.get(id) ?? unlisted(id)),
  );
  const known = new Map(listings.map((listing) => [listing.condition_id, listing]));
  return (conditionId: string) => {
    const listing = known.get(conditionId) ?? unlisted(conditionId);
    const market = marketV2(listing, resolutions.get(conditionId));
    return { market, outcomes: listing.outcomes };
  };
}

/** Number of traders whose fills are searched; enough to include both outcomes. */
const TRADERS_MAX = 50;

const Row = rowOf({
  condition: hexText('condition_id'),
  token_0: string('anyIf(toString(token_id), outcome_index = 0)'),
  token_1: string('anyIf(toString(token_id), outcome_index = 1)'),
});

const SQL = `
SELECT ${Row.columns}
FROM bookings
WHERE kind = 'fill' AND (trader, condition_id) IN
(
  SELECT trader, condition_id
  FROM market_traders
  WHERE fills > 0 AND condition_id IN {conditions:Array(FixedString(32))}
  LIMIT ${TRADERS_MAX} BY condition_id
)
GROUP BY condition_id`;

/** Adds token ids to listings without them: a fill names the token of its outcome. */
export async function withTokens(
  call: Call,
  listings: readonly Listing[],
): Promise<readonly Listing[]> {
  const unknown = listings.filter((listing) => listing.token_ids.length === 0);
  if (unknown.length === 0) return listings;
  const rows = await readByIds(
    call,
    { sql: SQL, list: 'conditions', row: Row },
    unknown.map((listing) => listing.condition_id),
  );
  const traded = new Map(rows.map((row) => [row.condition, [row.token_0, row.token_1]]));
  return listings.map((listing) => {
    const token_ids = traded.get(listing.condition_id);
    return token_ids === undefined ? listing : { ...listing, token_ids };
  });
}
