/**
 * `GET /v1|v2/analytics/leaderboard`: a page of the precomputed board of one time frame and tag, and the number of
 * all traders that match. The board is as old as its last refresh. The board of a market or series is summed from its
 * bookings, and all requests within ten seconds use the same as-of time. Profiles and last trades are at most five
 * seconds old.
 */
import { z } from 'zod';
import { Bytes } from '../../infra/clickhouse.ts';
import { TIERS } from '../auth/tiers.ts';
import type { Caller } from '../http/caller.ts';
import { endpoint, type KeepRequest, Page } from '../http/endpoint.ts';
import { tierRequired } from '../http/errors.ts';
import {
  decimal,
  inOrder,
  integer,
  marketKey,
  oneOf,
  oneOfAnyCase,
  order,
  slug,
} from '../http/parameters.ts';
import type { Call } from './call.ts';
import { boardCursor } from './cursors.ts';
import { isoSecond, percent, safeInteger } from './format.ts';
import { keyset, pageOf, pageParameters } from './keyset.ts';
import { findMarket } from './market-object.ts';
import { marketFilter } from './market-tags.ts';
import { ProfileV1, ProfileV2, profileV2, readProfiles } from './profiles.ts';
import { FIRST_ROWS, MANY_ROWS, type Reading, read } from './query.ts';
import { count as counted, hexText, int, type RowOf, rowOf, string } from './rows.ts';
import { count, ROI, rank, share, text, time, usd, usdcText } from './schemas.ts';
import { TIME_FRAME_NAMES, TIME_FRAMES } from './time-frames.ts';

/** The column of each sort order; RANKING breaks ties. */
const SORT_COLUMNS = {
  pnl: 'realised_pnl',
  roi: 'roi',
  win_rate: 'win_rate',
  market_count: 'markets_count',
  volume: 'volume',
} as const;
const SORTS = Object.keys(SORT_COLUMNS) as (keyof typeof SORT_COLUMNS)[];

/** By PnL, volume and address, all ascending, which is the order of the boards on disk. */
const RANKING = ['-realised_pnl', '-volume', 'trader'] as const;

/** The cursor's entry as a row of a board, with the board's ratios. */
const CURSOR_ENTRY = `(
  SELECT
    {cursor_pnl:Int64} AS realised_pnl,
    {cursor_cost:Int64} AS realised_cost,
    {cursor_volume:Int64} AS volume,
    {cursor_markets:UInt32} AS markets_count,
    {cursor_wins:UInt32} AS wins_count,
    if(realised_cost <= 0, 0, 100 * realised_pnl / realised_cost) AS roi,
    100 * wins_count / markets_count AS win_rate
)`;

export const TAGS = [
  ...['all', 'sports', 'crypto', 'geopolitics', 'politics', 'finance', 'esports', 'pop-culture'],
  ...['tech', 'economy', 'weather', 'elections', 'tweets-markets', 'basketball', 'hockey'],
  ...['soccer', 'tennis', 'counter-strike-2', 'dota-2', 'league-of-legends', '5M', '15M'],
];

const LIMIT_MAX = 100;
const LIMIT_DEFAULT = 50;
const OFFSET_MAX = 100_000_000;
/** Whole USDC: more than exists, and its micro-units fit an Int64. */
const USDC_MAX = 9_000_000_000;
const ROI_MAX = 1_000_000_000_000;
const COUNT_MAX = 1_000_000_000;
const HOURS_MAX = 1_000_000;

const Parameters = z
  .object({
    limit: integer(1, LIMIT_MAX)
      .optional()
      .describe('page size, 1–100 (default 50; demo tier: 20, its maximum)'),
    offset: integer(0, OFFSET_MAX).default(0).describe('entries to skip (demo tier: 0)'),
    cursor: boardCursor.parameter.describe(
      'cursor from the `Link` header or `next_cursor` of the previous page; not for the demo tier',
    ),
    time_frame: oneOf(TIME_FRAME_NAMES)
      .default('30D')
      .describe('period before the last refresh that the board covers'),
    sort_by: oneOf(SORTS)
      .default('pnl')
      .describe('sort order; ties are broken by PnL, volume, address'),
    order: order('desc').describe('desc: rank 1 first; asc: the reverse'),
    tag: oneOfAnyCase(TAGS)
      .default('all')
      .describe(
        'only markets with this tag, in any letter case; `sports` excludes `esports`, `all`: no filter',
      ),
    market: marketKey.optional().describe('only this market, by market id, condition id or slug'),
    series: slug.optional().describe('only markets of this series'),
    min_win_rate: decimal(0, 100).optional().describe('minimum win rate, percent'),
    max_win_rate: decimal(0, 100).optional().describe('maximum win rate, percent'),
    min_roi: decimal(-ROI_MAX, ROI_MAX).optional().describe('minimum ROI, percent'),
    max_roi: decimal(-ROI_MAX, ROI_MAX).optional().describe('maximum ROI, percent'),
    last_active_hours: integer(1, HOURS_MAX)
      .optional()
      .describe('only traders with a fill in this many hours before now, as of the last refresh'),
    min_market_count: integer(0, COUNT_MAX)
      .optional()
      .describe('minimum markets in the time frame'),
    max_market_count: integer(0, COUNT_MAX)
      .optional()
      .describe('maximum markets in the time frame'),
    min_pnl: integer(-USDC_MAX, USDC_MAX).optional().describe('minimum PnL, whole USDC'),
  })
  .superRefine(
    inOrder(
      ['min_win_rate', 'max_win_rate'],
      ['min_roi', 'max_roi'],
      ['min_market_count', 'max_market_count'],
    ),
  );
type Input = z.output<typeof Parameters> & {
  /** Whether the tier includes pages after the first. */
  readonly hasPages: boolean;
};

/** SQL condition of each filter parameter; values are bound. */
const CONDITIONS = {
  min_win_rate: 'win_rate >= {min_win_rate:Float64}',
  max_win_rate: 'win_rate <= {max_win_rate:Float64}',
  min_roi: 'roi >= {min_roi:Float64}',
  max_roi: 'roi <= {max_roi:Float64}',
  min_market_count: 'markets_count >= {min_market_count:UInt32}',
  max_market_count: 'markets_count <= {max_market_count:UInt32}',
  min_pnl: 'realised_pnl >= {min_pnl:Int64} * 1000000',
  last_active_hours: "last_trade_at >= toDateTime({active_since:UInt32}, 'UTC')",
} as const;
/** The condition of `last_active_hours` for a board without this column. */
const WAS_ACTIVE = `trader IN
  (SELECT trader FROM trader_activity WHERE last_trade_at >= toDateTime({active_since:UInt32}, 'UTC'))`;
const FILTER_NAMES = Object.keys(CONDITIONS) as (keyof typeof CONDITIONS)[];

const entryColumns = {
  address: hexText('trader'),
  pnl: int('realised_pnl'),
  cost: int('realised_cost'),
  volume: int('volume'),
  markets: counted('markets_count'),
  wins: counted('wins_count'),
  closed: counted('closed_count'),
  closedWins: counted('closed_wins_count'),
  refreshed: string('toString(refreshed_at)'),
};
const Entry = rowOf(entryColumns);
/** A board that is summed for the request is counted in the same statement; a second one would sum it again. */
const LiveEntry = rowOf({ ...entryColumns, total: counted('count() OVER ()') });
type Entry = RowOf<typeof Entry>;

const Total = rowOf({ entries: counted('count()') });

/**
 * Reads the page and the profiles on it. Throws Problem 503 if ClickHouse is unavailable, 404 if there is no market
 * with this number or slug.
 */
async function readBoard<Money>(call: Call, input: Input, shown: (amount: bigint) => Money) {
  const { cursor, limit = LIMIT_DEFAULT } = input;
  const page = pageParameters({ cursor, limit });
  const parameters = { ...input, market: undefined, cursor: undefined, ...page };
  const live = isLive(input) ? await liveParameters(call, input) : {};
  const bound = { ...parameters, ...live, active_since: activeSince(input, call.now()) };
  const sql = statements(input);
  const countOf = async (reading: Reading, sql: string) => {
    const [row] = await read(reading, { sql, parameters: bound, row: Total });
    if (row === undefined) throw new Error('expected one row with a number, got none');
    return row.entries;
  };
  const [{ rows, count }, aheadCount] = await Promise.all([
    readEntries(call, input, { sql: sql.page, parameters: bound }),
    cursor === undefined ? 0 : countOf(call, sql.ahead),
  ]);
  const { page: entries, next_cursor } = pageOf<Entry>(rows, limit, boardCursor);
  // An empty page has no row with the time of the refresh.
  const refreshed = entries[0]?.refreshed;
  const generation = refreshed ?? (await generationOf(call, input));
  const [totalCount, profileOf] = await Promise.all([
    call.leaderboards.count(
      countKey(input, bound),
      generation,
      // Requests for other pages wait for it, so it does not end with this one.
      async () => count ?? countOf({ ...call, signal: null }, sql.total),
    ),
    readProfiles(
      call,
      entries.map(({ address }) => address),
    ),
  ]);
  const before = aheadCount + input.offset;
  return {
    entries: entries.map(
      ({ address, pnl, cost, volume, markets, wins, closed, closedWins }, index) => ({
        profile: profileOf(address),
        closedFigures: {
          closed_win_rate: percent(BigInt(closedWins), BigInt(closed)),
          closed_count: closed,
          closed_wins_count: closedWins,
        },
        figures: {
          total_pnl: shown(pnl),
          total_volume: shown(volume),
          roi: percent(pnl, cost),
          win_rate: percent(BigInt(wins), BigInt(markets)),
          // The rank counts from the top in either order.
          rank: input.order === 'desc' ? before + index + 1 : totalCount - before - index,
          markets_count: markets,
          wins_count: wins,
        },
      }),
    ),
    total: totalCount,
    /** Milliseconds since the epoch; undefined if unknown, as for an empty board. */
    asOfMs: generation === '' ? undefined : Date.parse(`${generation.replace(' ', 'T')}Z`),
    next_cursor: input.hasPages ? next_cursor : '',
  };
}

/** The page, and the number of entries on all pages if the page has it. */
async function readEntries(
  call: Call,
  input: Input,
  statement: { readonly sql: string; readonly parameters: Readonly<Record<string, unknown>> },
): Promise<{ readonly rows: readonly Entry[]; readonly count?: number | undefined }> {
  if (!isLive(input)) return { rows: await read(call, { ...statement, row: Entry }) };
  const rows = await read(call, { ...statement, row: LiveEntry });
  return { rows, count: input.cursor === undefined ? rows[0]?.total : undefined };
}

/** The key of a query's count, which is the same for all its pages and orders. */
function countKey(input: Input, { active_since }: { readonly active_since: number }): string {
  const filters = FILTER_NAMES.map((name) => input[name] ?? '');
  // The hours count back from now.
  const since = input.last_active_hours === undefined ? 0 : active_since;
  return [boardKey(input), input.tag, ...filters, since].join(' ');
}

/** Whether the board is summed for the request, not precomputed. */
function isLive({ market, series }: Input): boolean {
  return market !== undefined || series !== undefined;
}

/** Identifies a board, including all of its tags. */
function boardKey({ time_frame, market, series }: Input): string {
  return JSON.stringify([time_frame, market, series]);
}

/** The board of a market or series as a subquery with the columns of a precomputed board. FINAL drops duplicate rows. */
function liveBoard({ market, series, tag }: Input): string {
  const isMarket = market === undefined ? '' : 'AND condition_id = {condition_id:FixedString(32)}';
  const isSeries =
    series === undefined
      ? ''
      : `AND condition_id IN
        (SELECT condition_id FROM markets FINAL WHERE lowerUTF8(series_slug) = {series:String})`;
  return `(
  SELECT
    trader,
    sum(pnl) AS realised_pnl,
    sum(cost) AS realised_cost,
    sum(market_volume) AS volume,
    toUInt32(count()) AS markets_count,
    toUInt32(countIf(pnl > 0)) AS wins_count,
    toUInt32(countIf(is_closed)) AS closed_count,
    toUInt32(countIf(is_closed AND pnl > 0)) AS closed_wins_count,
    toDateTime64({as_of:UInt32}, 3, 'UTC') AS refreshed_at,
    if(realised_cost <= 0, 0, 100 * realised_pnl / realised_cost) AS roi,
    100 * wins_count / markets_count AS win_rate
  FROM
  (
    SELECT
      trader,
      condition_id,
      sum(market_bookings.realised_pnl) AS pnl,
      sum(market_bookings.realised_cost) AS cost,
      sumIf(usdc, kind = 'fill') AS market_volume,
      max(market_bookings.realised_cost != 0 OR kind = 'settlement') AS is_closed
    FROM market_bookings FINAL
    WHERE block_time >= toDateTime({since:UInt32}, 'UTC') AND block_time <= toDateTime({as_of:UInt32}, 'UTC')
      ${isMarket} ${isSeries} ${marketFilter({ tag })}
    GROUP BY trader, condition_id
  )
  GROUP BY trader
)`;
}

async function liveParameters(call: Call, input: Input) {
  const { market, tag, time_frame } = input;
  const asOf = call.leaderboards.asOf(boardKey(input), call.now);
  return {
    as_of: asOf,
    since: Math.max(0, asOf - TIME_FRAMES[time_frame].seconds),
    tag: tag.toLowerCase(),
    condition_id:
      market === undefined ? undefined : new Bytes((await findMarket(call, market)).conditionId),
  };
}

const Generation = rowOf({ refreshed: string('toString(refreshed_at)') });

/** When a board was computed, which identifies its refresh; '' for an empty board. */
async function generationOf(call: Call, input: Input): Promise<string> {
  if (isLive(input)) {
    const asOf = call.leaderboards.asOf(boardKey(input), call.now);
    return isoSecond(asOf).slice(0, -1);
  }
  // All rows of a refresh have the same time.
  const sql = `SELECT ${Generation.columns} FROM ${TIME_FRAMES[input.time_frame].board} LIMIT 1`;
  const [row] = await read(call, { sql, parameters: {}, row: Generation });
  return row?.refreshed ?? '';
}

/** Applies the page size of the tier to the parameters. Throws Problem 403 if the tier excludes the page. */
function allowedPage(input: z.output<typeof Parameters>, caller: Caller): Input {
  const tier = TIERS[caller.tier];
  const hasPages = tier.leaderboardOffsetMax === null;
  const refuse = (path: string, allowed: string) =>
    tierRequired(path, `the tier ${caller.tier} allows ${allowed}`);
  if (input.limit !== undefined && input.limit > tier.leaderboardLimitMax) {
    throw refuse('limit', `at most ${tier.leaderboardLimitMax}`);
  }
  if (tier.leaderboardOffsetMax !== null && input.offset > tier.leaderboardOffsetMax) {
    throw refuse('offset', `at most ${tier.leaderboardOffsetMax}`);
  }
  if (!hasPages && input.cursor !== undefined) throw refuse('cursor', 'the first page only');
  return { ...input, limit: input.limit ?? tier.leaderboardLimitDefault, hasPages };
}

/** The statements of a request. They consist of fixed fragments; every value is bound. */
function statements(input: Input) {
  const live = isLive(input);
  const board = live ? liveBoard(input) : TIME_FRAMES[input.time_frame].board;
  const value = SORT_COLUMNS[input.sort_by];
  const filters = FILTER_NAMES.filter((name) => input[name] !== undefined);
  const conditions = filters.map((name) =>
    live && name === 'last_active_hours' ? WAS_ACTIVE : CONDITIONS[name],
  );
  const where = [live ? 'true' : 'tag = {tag:String}', ...conditions].join(' AND ');
  const settings = live ? MANY_ROWS : '';
  const [down, up] = input.order === 'desc' ? ['DESC', 'ASC'] : ['ASC', 'DESC'];
  const ranking = RANKING.map((column) => `${column} ${up}`).join(', ');
  const columns = [value, 'realised_pnl', 'volume'];
  const { behind } = keyset(
    input,
    { columns, at: `(SELECT (${columns.join(', ')}) FROM ${CURSOR_ENTRY})` },
    { column: 'trader', at: 'unhex({cursor_trader:String})' },
  );
  return {
    page: `
SELECT ${(live ? LiveEntry : Entry).columns}
FROM ${board}
WHERE ${where} ${behind}
ORDER BY ${input.sort_by === 'pnl' ? '' : `${value} ${down}, `}${ranking}
LIMIT {most:UInt32} OFFSET {offset:UInt32}
${live ? settings : FIRST_ROWS}`,
    total: `SELECT ${Total.columns} FROM ${board} WHERE ${where} ${settings}`,
    /** Entries before the page in the requested order. */
    ahead: `SELECT ${Total.columns} FROM ${board} WHERE ${where} AND NOT (true ${behind}) ${settings}`,
  };
}

function activeSince(input: Input, nowMs: number): number {
  const hours = input.last_active_hours ?? 0;
  return Math.max(0, Math.floor(nowMs / 1000) - hours * 3_600);
}

/** How long a client may cache a page; no board is refreshed more often. */
const MAX_AGE_SECONDS = 5;

const figures = <Money extends z.ZodType>(money: (what: string) => Money) => ({
  total_pnl: money('realised PnL in the time frame, net of fees'),
  total_volume: money("value of the trader's own fills"),
  roi: ROI,
  win_rate: share('wins_count divided by markets_count'),
  rank: rank('position on the leaderboard'),
  markets_count: count('markets with a fill or a settlement in the time frame'),
  wins_count: count('of these, markets with a realised PnL above 0 in the time frame'),
});

const EntryV1 = z.object({ profile: ProfileV1, ...figures(usdcText) });
const EntryV2 = z.object({
  profile: ProfileV2,
  last_trade_at: time('newest trade'),
  ...figures(usd),
  closed_win_rate: share('closed_wins_count divided by closed_count; open markets do not count'),
  closed_count: count('markets in which shares were sold back or settled in the time frame'),
  closed_wins_count: count('of these, markets with a realised PnL above 0 in the time frame'),
});

const TOTAL = count('traders that match the query, on all pages');
const NEXT = text('`cursor` of the next page; empty on the last page, and for the demo tier');

/** A page is computed once for all clients, and again after a refresh of its board. */
const KEEP = {
  maxAgeSeconds: MAX_AGE_SECONDS,
  formats: ['json', 'csv'],
  page: (call: Call, input: Input, request: KeepRequest) =>
    call.leaderboards.page({
      ...request,
      board: boardKey(input),
      // The computation is shared, so no client's disconnect aborts it.
      generation: () => generationOf({ ...call, signal: null }, input),
    }),
} as const;

const DESCRIPTION = `The best traders of a time frame, by PnL, ROI, win rate, number of markets or volume. Filters choose the tag, market or
series in which they traded, and thresholds. \`rank\` counts from the top in either order.

Figures are as of the last refresh of the board: \`as_of\` (v2) is its time, \`Age\` its age in seconds. The pause between
two refreshes is at most 10 seconds (1H, 4H), a minute (1D) or 5 minutes. Profiles and \`last_trade_at\` are at most 5
seconds old. With \`market\` or \`series\`, the board is computed for the request and shared for up to 10 seconds. Pages of
the same refresh do not overlap. A trader who moves in a refresh between two pages can be repeated or omitted.`;

export const leaderboardV1 = endpoint({
  name: 'leaderboard',
  path: '/v1/analytics/leaderboard',
  summary: 'Leaderboard (v1)',
  description: DESCRIPTION,
  parameters: Parameters,
  answer: z.object({ traders: z.array(EntryV1), total_count: TOTAL }),
  list: 'traders',
  problems: ['tier_required', 'not_found'],
  allowed: allowedPage,
  keep: KEEP,
  async run(call: Call, input) {
    const { asOfMs, entries, next_cursor, total } = await readBoard(call, input, String);
    const traders = entries.map(({ profile, figures }) => ({ profile, ...figures }));
    return new Page({ traders, total_count: total }, next_cursor, { asOfMs });
  },
});

export const leaderboardV2 = endpoint({
  name: 'leaderboard',
  path: '/v2/analytics/leaderboard',
  summary: 'Leaderboard',
  description: DESCRIPTION,
  parameters: Parameters,
  answer: z.object({
    traders: z.array(EntryV2),
    next_cursor: NEXT,
    total_count: TOTAL,
    as_of: time(
      'when the board was computed, which is the end of its time frame; empty for an empty board',
    ),
  }),
  list: 'traders',
  problems: ['tier_required', 'not_found'],
  allowed: allowedPage,
  keep: KEEP,
  async run(call: Call, input) {
    const { asOfMs, entries, next_cursor, total } = await readBoard(call, input, safeInteger);
    const traders = entries.map(({ profile, figures, closedFigures }) => ({
      profile: profileV2(profile),
      last_trade_at: profile.last_trade_at,
      ...figures,
      ...closedFigures,
    }));
    const as_of = asOfMs === undefined ? '' : isoSecond(Math.floor(asOfMs / 1_000));
    return new Page({ traders, next_cursor, total_count: total, as_of }, next_cursor, { asOfMs });
  },
});
