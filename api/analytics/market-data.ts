/**
 * `GET /v1/market_data/:id_or_slug`: every trader of one market with figures and fills. Traders are ordered by
 * address, as they are stored. No trade changes that order, so pages never repeat or omit a trader. A page is
 * streamed, and its traders are read in groups.
 */
import { z } from 'zod';
import { Bytes } from '../../infra/clickhouse.ts';
import { TIERS } from '../auth/tiers.ts';
import type { Caller } from '../http/caller.ts';
import { endpoint, Page } from '../http/endpoint.ts';
import { Problem } from '../http/errors.ts';
import { flag, integer, type MarketKey, marketKey, order } from '../http/parameters.ts';
import { HAS_COUNTED } from './bookings.ts';
import type { Call } from './call.ts';
import { traderCursor } from './cursors.ts';
import { FillV1, fillColumns, fillsBy, fillV1, withoutRepeats } from './fills.ts';
import { isoSecond, percent } from './format.ts';
import { keyset, NEXT_CURSOR, pageOf, pageParameters } from './keyset.ts';
import { findMarket, knownListing, MarketV1, marketV1, readResolutions } from './market-object.ts';
import type { Listing } from './metadata-cache.ts';
import { ProfileV1, readProfiles } from './profiles.ts';
import { FEW_ROWS, read } from './query.ts';
import { count as counted, hexText, int, type RowOf, rowOf, seconds } from './rows.ts';
import { amountText, count, ROI, time } from './schemas.ts';

const LIMIT_DEFAULT = 100;
const LIMIT_MAX = 1_000;
/** Traders per group, whose fills are in memory at once. */
const READ_TRADERS_MAX = 50;

const Parameters = z.object({
  id_or_slug: marketKey.describe('market id, condition id or slug'),
  limit: integer(1, LIMIT_MAX).default(LIMIT_DEFAULT).describe('maximum traders per page'),
  order: order('asc').describe('order of the addresses'),
  cursor: traderCursor.parameter,
  include_orders: flag.default(true).describe('false: figures only, without the fills'),
});
type Input = z.output<typeof Parameters>;

const Row = rowOf({
  address: hexText('trader'),
  pnl: int('realised_pnl'),
  cost: int('realised_cost'),
  fees: int('fee'),
  maker: int('maker_volume'),
  taker: int('taker_volume'),
  newest: seconds('last_trade_at'),
  /** The total over all pages, unless the page begins at a cursor. */
  total: counted('count() OVER ()'),
});

/** The traders of a page and the next one; FINAL merges the parts of a row. */
function pageStatement(input: Input): string {
  const key = { columns: ['trader'], at: 'unhex({cursor_trader:String})' };
  const { behind, orderBy } = keyset(input, key);
  return `
SELECT ${Row.columns}
FROM market_traders FINAL
WHERE condition_id = {condition_id:FixedString(32)} AND ${HAS_COUNTED} ${behind}
ORDER BY ${orderBy}
LIMIT {most:UInt32}`;
}

const CountRow = rowOf({ total: counted('uniqExact(trader)') });

const COUNT_SQL = `
SELECT ${CountRow.columns}
FROM market_traders
WHERE condition_id = {condition_id:FixedString(32)} AND ${HAS_COUNTED}`;

const OrdersRow = rowOf({ address: hexText('trader'), ...fillColumns });

/** Fills of consecutive traders. A row can occur twice. */
const ORDERS_SQL = `
SELECT ${OrdersRow.columns}
FROM market_bookings
WHERE condition_id = {condition_id:FixedString(32)}
  AND trader >= {first:FixedString(20)} AND trader <= {last:FixedString(20)}
  AND kind = 'fill'
${FEW_ROWS}`;

const TraderV1 = z.object({
  profile: ProfileV1,
  pnl: amountText('realised PnL in this market, net of fees, micro-USDC'),
  volume: amountText('maker_volume + taker_volume, micro-USDC'),
  maker_volume: amountText('value of fills as maker, micro-USDC'),
  taker_volume: amountText('value of fills as taker, micro-USDC'),
  fee: amountText('fees of all fills, micro-USDC'),
  roi: ROI,
  last_trade_at: time('newest trade in this market'),
  orders: z.array(FillV1).describe('fills, oldest first; empty with include_orders=false'),
});

export const marketData = endpoint({
  name: 'marketTraders',
  path: '/v1/market_data/:id_or_slug',
  summary: 'Traders of a market',
  description: `Every trader of a market with their figures and fills, for the tiers individual and pro. \`/v1/markets/:id\` has only the
top earners. Traders are ordered by address, so new trades do not shift pages.`,
  parameters: Parameters,
  answer: z.object({
    market: MarketV1,
    total_count: count('traders of the market, on all pages'),
    next_cursor: NEXT_CURSOR,
    traders: z.array(TraderV1),
  }),
  list: 'traders',
  problems: ['tier_required', 'not_found'],
  allowed: requireTier,
  async run(call: Call, input) {
    const { listing, resolution, rows, total_count } = await readPage(call, input);
    const { page, next_cursor } = pageOf(rows, input.limit, traderCursor);
    const market = marketV1(listing, resolution);
    return new Page({ market, total_count, next_cursor, traders: [] }, next_cursor, {
      elements: withFills(call, input, listing, page),
    });
  },
});

/** The figures of a page, and of the next trader if there is one. Throws Problem 404 for an unknown market. */
async function readPage(call: Call, input: Input) {
  const key: MarketKey = input.id_or_slug;
  const { conditionId, listing } = await findMarket(call, key);
  const parameters = { condition_id: new Bytes(conditionId), ...pageParameters(input) };
  const [rows, [counted]] = await Promise.all([
    read(call, { sql: pageStatement(input), parameters, row: Row }),
    input.cursor === undefined ? [] : read(call, { sql: COUNT_SQL, parameters, row: CountRow }),
  ]);
  // Read after the figures, because resolutions are stored before the settlements that they cause.
  const resolution = (await readResolutions(call, [conditionId])).get(conditionId);
  const total_count = counted?.total ?? rows[0]?.total ?? 0;
  return {
    listing: knownListing(key, listing, { traders: total_count, resolution }),
    resolution,
    rows,
    total_count,
  };
}

/** The traders of the page with their fills, read in groups. */
async function* withFills(
  call: Call,
  input: Input,
  { condition_id: conditionId, outcomes }: Listing,
  page: readonly RowOf<typeof Row>[],
): AsyncGenerator<z.input<typeof TraderV1>> {
  for (let begin = 0; begin < page.length; begin += READ_TRADERS_MAX) {
    const rows = page.slice(begin, begin + READ_TRADERS_MAX);
    const addresses = rows.map(({ address }) => address);
    const [profileOf, own] = await Promise.all([
      readProfiles(call, addresses),
      input.include_orders ? readFills(call, conditionId, addresses) : [],
    ]);
    const ordersOf = fillsBy(own, ({ address }) => address);
    for (const { address, pnl, cost, fees, maker, taker, newest } of rows) {
      yield {
        profile: profileOf(address),
        pnl: pnl.toString(),
        volume: (maker + taker).toString(),
        maker_volume: maker.toString(),
        taker_volume: taker.toString(),
        fee: fees.toString(),
        roi: percent(pnl, cost),
        last_trade_at: isoSecond(newest),
        orders: withoutRepeats(ordersOf.get(address) ?? []).map((fill) => fillV1(fill, outcomes)),
      };
    }
  }
}

/** The fills of consecutive traders. */
async function readFills(call: Call, conditionId: string, addresses: readonly string[]) {
  const [first = '0x', last = first] = [addresses[0], addresses.at(-1)].sort();
  const parameters = {
    condition_id: new Bytes(conditionId),
    first: new Bytes(first),
    last: new Bytes(last),
  };
  return await read(call, { sql: ORDERS_SQL, parameters, row: OrdersRow });
}

/** Throws Problem 403 if the tier excludes the endpoint. */
function requireTier(input: Input, caller: Caller): Input {
  if (TIERS[caller.tier].marketData) return input;
  const detail = `the tier ${caller.tier} does not include market_data; individual and pro do`;
  throw new Problem({ error: 'tier_required', detail });
}
