/**
 * `GET /v2/markets`: a page of all markets with a match, from a table that is refreshed as a whole. Everything except the
 * texts of listings, even the resolution, is as of that refresh, so that prices and markets are consistent.
 */
import { z } from 'zod';
import { endpoint, Page } from '../http/endpoint.ts';
import { integer, oneOf, order, slug } from '../http/parameters.ts';
import { type Call, SHARED } from './call.ts';
import { positionCursor } from './cursors.ts';
import { isoSecond, safeInteger } from './format.ts';
import { keyset, NEXT_CURSOR, pageOf, pageParameters } from './keyset.ts';
import { MarketV2, marketV2, unlisted, withTokens } from './market-object.ts';
import { ALL_TAGS } from './market-tags.ts';
import { hasMarketWords, hasWords, marketWords, wordParameters } from './market-words.ts';
import { MarketMark, marketMark } from './marks.ts';
import type { Listing } from './metadata-cache.ts';
import { read } from './query.ts';
import { count as counted, hexText, int, type RowOf, rowOf, seconds } from './rows.ts';
import { amount, count, text, time } from './schemas.ts';

const LIMIT_DEFAULT = 50;
const LIMIT_MAX = 100;
/** A page for which this many markets were read may have fewer than its limit. */
const READ_MAX = 1_000;

/** The sort key of each order, greatest first. A market without an end date closes last. */
const SORTS = {
  volume_24h: 'volume_24h',
  volume: 'volume',
  traders: 'toInt64(traders)',
  change_24h: 'toInt64(change_24h)',
  newest: 'toInt64(toUnixTimestamp(first_match_at))',
  closing: `-toInt64(if(toUnixTimestamp(end_at) = 0, ${2 ** 32}, toUnixTimestamp(end_at)))`,
} as const;
const SORT_NAMES = Object.keys(SORTS) as (keyof typeof SORTS)[];

const NOW = "toDateTime({now:UInt32}, 'UTC')";
const IS_OVER = `(toUnixTimestamp(end_at) != 0 AND end_at <= ${NOW})`;
const UNRESOLVED = 'toUnixTimestamp(resolved_at) = 0';
const STATUSES = {
  open: `${UNRESOLVED} AND NOT ${IS_OVER}`,
  closed: `${UNRESOLVED} AND ${IS_OVER}`,
  resolved: `NOT ${UNRESOLVED}`,
  all: 'true',
} as const;
const STATUS_NAMES = Object.keys(STATUSES) as (keyof typeof STATUSES)[];

const Parameters = z.object({
  q: marketWords.optional(),
  tag: slug
    .default(ALL_TAGS)
    .describe('only markets with this tag; `sports` excludes `esports`, `all`: no filter'),
  series: slug.optional().describe('only markets of this series'),
  event: slug.optional().describe('only markets of the event with this slug'),
  status: oneOf(STATUS_NAMES)
    .default('open')
    .describe('resolved: has a resolution; closed: past its end date, unresolved; open: neither'),
  sort_by: oneOf(SORT_NAMES)
    .default('volume_24h')
    .describe('newest: by first match; closing: earliest end date first'),
  order: order('desc').describe('desc: greatest, newest or next to close first; asc: the reverse'),
  limit: integer(1, LIMIT_MAX).default(LIMIT_DEFAULT).describe('maximum markets per page'),
  cursor: positionCursor.parameter,
});
type Input = z.output<typeof Parameters>;

const Row = rowOf({
  conditionId: hexText('condition_id'),
  usdc: int('mark_usdc'),
  shares: int('mark_shares'),
  markedAt: seconds('marked_at'),
  change: int('change_24h'),
  volume24h: int('volume_24h'),
  volume: int('volume'),
  matches: counted('matches'),
  traders: counted('traders'),
  openInterest: int('open_interest'),
  firstAt: seconds('first_match_at'),
  endAt: seconds('end_at'),
  resolved_at: seconds('resolved_at'),
  payout_0: int('payout_0'),
  payout_1: int('payout_1'),
  refreshed: counted('toUnixTimestamp64Milli(refreshed_at)'),
  figure: int('figure'),
});

function pageStatement(input: Input): string {
  const { behind, orderBy } = keyset(
    input,
    { columns: ['figure'], at: '{cursor_figure:Int64}' },
    { column: 'condition_id', at: 'unhex({cursor_condition:String})' },
  );
  const conditions = [
    STATUSES[input.status],
    ...(input.tag === ALL_TAGS ? [] : ['has(tags, {tag:String})']),
    ...(input.series === undefined ? [] : ['series = {series:String}']),
    ...(input.event === undefined ? [] : ['event = {event:String}']),
    ...(input.q === undefined ? [] : [hasMarketWords(input.q)]),
  ];
  return `
SELECT ${Row.columns}
FROM (SELECT *, ${SORTS[input.sort_by]} AS figure FROM market_stats)
WHERE ${conditions.join('\n  AND ')} ${behind}
ORDER BY ${orderBy}
LIMIT {most:UInt32}`;
}

/** Reads more until the page is full, because some markets found by words may have lost them. */
async function readPage(call: Call, input: Input, parameters: Readonly<Record<string, unknown>>) {
  const { limit, q } = input;
  for (let { most, ...cursor } = pageParameters(input); ; most *= 4) {
    const bound = { ...parameters, ...cursor, most };
    const rows = await read(call, { sql: pageStatement(input), parameters: bound, row: Row });
    const listings = await call.metadata.listings(rows.map(({ conditionId }) => conditionId));
    const current =
      q === undefined ? rows : rows.filter((row) => hasWords(listings.get(row.conditionId), q));
    const { page, next_cursor } = pageOf(current, limit, positionCursor);
    const last = rows.at(-1);
    if (next_cursor !== '' || last === undefined || rows.length < most) {
      return { listings, page, next_cursor };
    }
    // The next page continues here, although this one is not full.
    if (most >= READ_MAX) return { listings, page, next_cursor: positionCursor.after(last) };
  }
}

const RefreshedRow = rowOf({ refreshed: counted('toUnixTimestamp64Milli(refreshed_at)') });

/** All rows of a refresh have the same time. */
const REFRESHED_SQL = `SELECT ${RefreshedRow.columns} FROM market_stats LIMIT 1`;

const Entry = z.object({
  market: MarketV2,
  status: z.enum(['open', 'closed', 'resolved']).meta({
    description: 'resolved, closed (past its end date without a resolution) or open',
    examples: ['open'],
  }),
  mark: MarketMark,
  change_24h: amount(
    'price of the first outcome now, minus the price 24 hours ago or the first price of a younger market, micro-USD',
  ),
  volume_24h: amount('value of the matches of the last 24 hours, each counted once, micro-USD'),
  volume: amount('value of all matches, each counted once, micro-USD'),
  matches: count('number of matches'),
  traders: count('traders with a fill or a settlement'),
  open_interest: amount('held micro-shares of the first outcome, which equal those of the second'),
  first_match_at: time('first match'),
});

export const marketsV2 = endpoint({
  name: 'markets',
  path: '/v2/markets',
  summary: 'Markets',
  description: `Every market with a match, sorted by volume, traders, price change, age or end, with filters by words, tag, series, event
and status.

Prices, figures, status and resolutions are as of the last refresh (\`as_of\`), which runs every 5 to 30 seconds. Texts are
at most five seconds old. The 24 hours begin at a whole minute. Ties are ordered by condition id. Pages of the same
refresh are consistent. A market that moves in a refresh between two pages can be repeated or omitted. With \`q\`, a page
can have fewer than \`limit\` markets although others follow: \`next_cursor\` says so.`,
  parameters: Parameters,
  answer: z.object({
    as_of: text(
      'when the list was computed, ISO 8601 UTC; empty before the first refresh',
      '2026-05-01T12:00:00.000Z',
    ),
    markets: z.array(Entry),
    next_cursor: NEXT_CURSOR,
  }),
  list: 'markets',
  problems: [],
  keep: SHARED,
  async run(call: Call, input) {
    const { q = [] } = input;
    const now = Math.floor(call.now() / 1_000);
    const parameters = {
      ...{ now, tag: input.tag, series: input.series, event: input.event },
      ...wordParameters(q),
    };
    const [{ listings: found, next_cursor, page }, [generation]] = await Promise.all([
      readPage(call, input, parameters),
      read(call, { sql: REFRESHED_SQL, parameters: {}, row: RefreshedRow }),
    ]);
    const listings = await withTokens(
      call,
      page.map(({ conditionId }) => found.get(conditionId) ?? unlisted(conditionId)),
    );
    const markets = page.map((row, i) =>
      entryOf(row, listings[i] ?? unlisted(row.conditionId), now),
    );
    const refreshed = page[0]?.refreshed ?? generation?.refreshed;
    const as_of = refreshed === undefined ? '' : new Date(refreshed).toISOString();
    return new Page({ as_of, markets, next_cursor }, next_cursor, { asOfMs: refreshed });
  },
});

function entryOf(row: RowOf<typeof Row>, listing: Listing, now: number): z.input<typeof Entry> {
  const isResolved = row.resolved_at > 0;
  const isOver = row.endAt > 0 && row.endAt <= now;
  const source = isResolved ? 'resolution' : 'last_match';
  // A market whose matches all had no shares has no price.
  const hasMark = isResolved || row.shares > 0n;
  const mark = { source, time: row.markedAt, usdc: row.usdc, shares: row.shares } as const;
  return {
    market: marketV2(listing, isResolved ? { ...row, condition_id: row.conditionId } : undefined),
    status: isResolved ? 'resolved' : isOver ? 'closed' : 'open',
    mark: marketMark(hasMark ? mark : undefined),
    change_24h: safeInteger(row.change),
    volume_24h: safeInteger(row.volume24h),
    volume: safeInteger(row.volume),
    matches: row.matches,
    traders: row.traders,
    open_interest: safeInteger(row.openInterest),
    first_match_at: isoSecond(row.firstAt),
  };
}
