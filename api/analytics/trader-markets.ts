/**
 * `GET /v1|v2/traders/:address/markets`: the markets of one trader, newest trade first, ties by condition id.
 * A new trade moves its market, so pages are as stable as this order. Sums are over all time. The page is read
 * first, then the listings, resolutions and fills of its markets.
 */
import { z } from 'zod';
import { Bytes } from '../../infra/clickhouse.ts';
import { TIERS } from '../auth/tiers.ts';
import type { Caller } from '../http/caller.ts';
import { endpoint, Page } from '../http/endpoint.ts';
import { tierRequired } from '../http/errors.ts';
import { address, flag, integer, order } from '../http/parameters.ts';
import { HAS_COUNTED } from './bookings.ts';
import { type Call, SHARED } from './call.ts';
import { marketCursor } from './cursors.ts';
import { type Fill, FillV1, FillV2, fillColumns, fillsBy, fillV1, fillV2 } from './fills.ts';
import { isoSecond, percent, safeInteger } from './format.ts';
import { behindCursor, keyset, NEXT_CURSOR, pageOf, pageParameters } from './keyset.ts';
import {
  MarketV1,
  MarketV2,
  marketV1,
  marketV2,
  type Resolution,
  readResolutions,
  resolutionOf,
  unlisted,
  withTokens,
} from './market-object.ts';
import { FEW_ROWS, MANY_ROWS, read } from './query.ts';
import { count as counted, hexText, int, rowOf, seconds } from './rows.ts';
import { count, ROI, time, usd, usdcText } from './schemas.ts';

const LIMIT_DEFAULT = 20;
const LIMIT_MAX = 100;
const OFFSET_MAX = 100_000_000;

const Parameters = z.object({
  address,
  limit: integer(1, LIMIT_MAX).default(LIMIT_DEFAULT).describe('maximum entries per page'),
  offset: integer(0, OFFSET_MAX).default(0).describe('entries to skip'),
  is_active: flag
    .optional()
    .describe('true: only unresolved markets; false: only resolved ones; omitted: both'),
  include_orders: flag
    .default(false)
    .describe('true: each entry contains its fills; tiers individual and pro'),
  order: order('desc').describe('desc: newest trade first; asc: oldest first'),
  cursor: marketCursor.parameter,
});
type Input = z.output<typeof Parameters>;

/** Resolved markets of this trader, limited to the trader's markets because there are many resolutions. */
const RESOLVED = `(
  SELECT condition_id
  FROM resolutions
  WHERE condition_id IN (
    SELECT condition_id FROM trader_markets WHERE trader = {trader:FixedString(20)}
  )
)`;

/** Condition for the trader's markets on all pages. */
function kept(input: Input): string {
  const active = input.is_active ? 'NOT IN' : 'IN';
  return `trader = {trader:FixedString(20)} AND ${HAS_COUNTED}
  ${input.is_active === undefined ? '' : `AND condition_id ${active} ${RESOLVED}`}`;
}

const Row = rowOf({
  conditionId: hexText('condition_id'),
  pnl: int('realised_pnl'),
  cost: int('realised_cost'),
  volume: int('maker_volume + taker_volume'),
  lastTradeAt: seconds('last_trade_at'),
  /** The total over all pages, unless the page begins at a cursor. */
  total: counted('count() OVER ()'),
});

function pageStatement(input: Input): string {
  const { behind, orderBy } = keyset(
    input,
    { columns: ['last_trade_at'], at: "toDateTime({cursor_time:UInt32}, 'UTC')" },
    { column: 'condition_id', at: 'unhex({cursor_condition:String})' },
  );
  // FINAL merges the parts of a row into one per market.
  return `
SELECT ${Row.columns}
FROM trader_markets FINAL
WHERE ${kept(input)} ${behind}
ORDER BY ${orderBy}
LIMIT {most:UInt32} OFFSET {offset:UInt32}
${FEW_ROWS}`;
}

const CountRow = rowOf({ total_count: counted('uniqExact(condition_id)') });

const countStatement = (input: Input) => `
SELECT ${CountRow.columns} FROM trader_markets WHERE ${kept(input)}`;

const OrdersRow = rowOf({ conditionId: hexText('condition_id'), ...fillColumns });

const ORDERS_SQL = `
SELECT ${OrdersRow.columns}
FROM bookings
WHERE trader = {trader:FixedString(20)} AND kind = 'fill'
  AND condition_id IN {conditions:Array(FixedString(32))}
${MANY_ROWS}`;

const figures = <Money extends z.ZodType>(money: (what: string) => Money) => ({
  pnl: money('realised PnL in this market, net of fees'),
  volume: money("value of the trader's own fills"),
  roi: ROI,
  last_trade_at: time('newest trade of the trader in this market'),
});
const ORDERS_FIELD = 'fills, oldest first; only with include_orders=true';

const EntryV1 = z.object({
  ...figures(usdcText),
  market: MarketV1,
  orders: z.array(FillV1).optional().describe(ORDERS_FIELD),
});

const EntryV2 = z.object({
  ...figures(usd),
  market: MarketV2,
  orders: z.array(FillV2).optional().describe(ORDERS_FIELD),
});

const TOTAL = count('markets that match the query, on all pages');
const DESCRIPTION = `The markets in which a trader traded, with their PnL, volume and ROI in each, newest trade first. \`include_orders=true\`
adds the fills (tiers individual and pro).

\`order=asc\` is the exact reverse; ties are ordered by condition id. A market that is traded between two pages moves to the
front. With the newest first, it can be omitted and nothing is repeated; with the oldest first, it is repeated and nothing
is omitted. The list of an unknown address is empty. A market without a listing has the id 0 and empty texts.`;

export const traderMarketsV1 = endpoint({
  name: 'traderMarkets',
  path: '/v1/traders/:address/markets',
  summary: 'Markets of a trader (v1)',
  description: DESCRIPTION,
  parameters: Parameters,
  answer: z.object({ history: z.array(EntryV1), total_count: TOTAL }),
  list: 'history',
  problems: ['tier_required'],
  allowed: requireOrdersTier,
  keep: SHARED,
  async run(call: Call, input) {
    const { entries, next_cursor, total_count } = await readHistory(call, input, String);
    const history = entries.map(({ figures, fills, listing, resolution }) => ({
      ...figures,
      market: marketV1(listing, resolution),
      ...(input.include_orders && { orders: fills.map((fill) => fillV1(fill, listing.outcomes)) }),
    }));
    return new Page({ history, total_count }, next_cursor);
  },
});

export const traderMarketsV2 = endpoint({
  name: 'traderMarkets',
  path: '/v2/traders/:address/markets',
  summary: 'Markets of a trader',
  description: DESCRIPTION,
  parameters: Parameters,
  answer: z.object({
    history: z.array(EntryV2),
    next_cursor: NEXT_CURSOR,
    total_count: TOTAL,
  }),
  list: 'history',
  problems: ['tier_required'],
  allowed: requireOrdersTier,
  keep: SHARED,
  async run(call: Call, input) {
    const { entries, next_cursor, total_count } = await readHistory(call, input, safeInteger);
    const listings = await withTokens(
      call,
      entries.map((entry) => entry.listing),
    );
    const history = entries.map(({ figures, fills, listing, resolution }, index) => ({
      ...figures,
      market: marketV2(listings[index] ?? listing, resolution),
      ...(input.include_orders && { orders: fills.map((fill) => fillV2(fill, listing.outcomes)) }),
    }));
    return new Page({ history, next_cursor, total_count }, next_cursor);
  },
});

type Entry = {
  readonly conditionId: string;
  readonly pnl: bigint;
  readonly cost: bigint;
  readonly volume: bigint;
  readonly lastTradeAt: number;
};
/** Of a page and the row beyond it, and the number of all. */
type Listed = {
  readonly rows: readonly Entry[];
  readonly total: number;
  readonly resolutionsOf: (
    conditionIds: readonly string[],
  ) => Promise<ReadonlyMap<string, Resolution>>;
};

/** All markets of a trader are live; a statement selects the resolved ones. */
async function listed(call: Call, input: Input): Promise<Listed> {
  const trader = input.address;
  const found = input.is_active === undefined ? await call.traders.holdings(trader) : undefined;
  if (found === undefined) return await readListed(call, input);
  const { holdings, isLive } = found;
  const last = input.cursor && {
    figure: input.cursor.cursor_time,
    conditionId: `0x${input.cursor.cursor_condition}`,
  };
  const behind = behindCursor(
    holdings.traded().map(({ conditionId, lastAt }) => ({ conditionId, figure: lastAt })),
    input.order,
    last,
  );
  const rows = behind.slice(input.offset, input.offset + input.limit + 1);
  return {
    total: holdings.size,
    rows: holdings.of(rows.map(({ conditionId }) => conditionId)).map((one) => ({
      ...{ conditionId: one.conditionId, pnl: one.realised, cost: one.realisedCost },
      ...{ volume: one.volume, lastTradeAt: one.lastAt },
    })),
    async resolutionsOf(conditionIds) {
      const marks = await call.traders.marks(call, conditionIds, { trader, isLive });
      const resolutions = [...marks].map(([id, mark]) => [id, resolutionOf(id, mark)] as const);
      return new Map(resolutions.flatMap(([id, found]) => (found ? [[id, found] as const] : [])));
    },
  };
}

async function readListed(call: Call, input: Input): Promise<Listed> {
  const trader = new Bytes(input.address);
  const parameters = { trader, offset: input.offset, ...pageParameters(input) };
  const rows = await read(call, { sql: pageStatement(input), parameters, row: Row });
  const total = input.cursor === undefined ? rows[0]?.total : undefined;
  const [counted] =
    total === undefined
      ? await read(call, { sql: countStatement(input), parameters, row: CountRow })
      : [];
  return {
    rows,
    total: total ?? counted?.total_count ?? 0,
    resolutionsOf: async (conditionIds) =>
      input.is_active ? NO_RESOLUTIONS : await readResolutions(call, conditionIds),
  };
}

async function readHistory<Money>(call: Call, input: Input, shown: (amount: bigint) => Money) {
  const { rows, total, resolutionsOf } = await listed(call, input);
  const { page, next_cursor } = pageOf(rows, input.limit, marketCursor);
  const conditionIds = page.map((entry) => entry.conditionId);
  const [listings, resolutions, orders] = await Promise.all([
    call.metadata.listings(conditionIds),
    resolutionsOf(conditionIds),
    input.include_orders ? readOrders(call, new Bytes(input.address), conditionIds) : NO_ORDERS,
  ]);
  return {
    next_cursor,
    total_count: total,
    entries: page.map(({ conditionId, cost, lastTradeAt, pnl, volume }) => ({
      figures: {
        pnl: shown(pnl),
        volume: shown(volume),
        roi: percent(pnl, cost),
        last_trade_at: isoSecond(lastTradeAt),
      },
      listing: listings.get(conditionId) ?? unlisted(conditionId),
      resolution: resolutions.get(conditionId),
      fills: orders.get(conditionId) ?? [],
    })),
  };
}

const NO_RESOLUTIONS: ReadonlyMap<string, Resolution> = new Map();
const NO_ORDERS: ReadonlyMap<string, readonly Fill[]> = new Map();

async function readOrders(
  call: Call,
  trader: Bytes,
  conditionIds: readonly string[],
): Promise<ReadonlyMap<string, readonly Fill[]>> {
  const conditions = new Bytes(conditionIds);
  const parameters = { trader, conditions };
  const rows = await read(call, { sql: ORDERS_SQL, parameters, row: OrdersRow });
  return fillsBy(rows, (row) => row.conditionId);
}

/** Throws Problem 403 if the tier excludes the fills. */
function requireOrdersTier(input: Input, caller: Caller): Input {
  if (!input.include_orders || TIERS[caller.tier].includeOrders) return input;
  const message = `the tier ${caller.tier} does not include orders; individual and pro do`;
  throw tierRequired('include_orders', message);
}
