/**
 * `GET /v1/market_data/:id_or_slug`: every trader of one market with figures and fills. Traders come in
 * the order of their addresses, which is the order in which they are stored and which no trade changes:
 * pages neither overlap nor leave anyone out. A page is read some traders at a time while it is sent.
 */
import { z } from 'zod';
import { Bytes } from '../../infra/clickhouse-reader.ts';
import { endpoint, Page } from '../endpoint.ts';
import type { Caller } from '../keys.ts';
import { flag, integer, type MarketKey, marketKey, order } from '../parameters.ts';
import { Problem } from '../problems.ts';
import { TIERS } from '../tiers.ts';
import { count as counted, hexText, int, rowOf, seconds } from './columns.ts';
import { traderCursor } from './cursors.ts';
import { amountText, count, percentage, text, time } from './fields.ts';
import { FILL, FillV1, fillColumns, fillsBy, fillV1 } from './fills.ts';
import { type FoundMarket, findMarket, knownListing } from './market-key.ts';
import { type Listing, MarketV1, marketV1, readResolutions } from './market-object.ts';
import { ProfileV1, readProfiles } from './profiles.ts';
import { BY_MARKET, type Call, read } from './query.ts';
import { isoSecond, percent } from './wire.ts';

const LIMIT_DEFAULT = 100;
const LIMIT_MAX = 1_000;
/** Traders of one read: their fills are in memory at once. */
const READ_TRADERS_MAX = 50;

const Parameters = z.object({
  id_or_slug: marketKey.describe('market id, condition id or slug'),
  limit: integer(1, LIMIT_MAX).default(LIMIT_DEFAULT).describe('most traders of the page'),
  order: order('asc').describe('of the addresses'),
  cursor: traderCursor
    .optional()
    .describe('goes on behind the page whose Link field or `next_cursor` had it'),
  include_orders: flag.default(true).describe('false: figures only, without the fills'),
});
type Given = z.output<typeof Parameters>;

/** Of all traders their number, and the last one of the page; no list of them is answered. */
const HEAD_SQL = (given: Given) => `
SELECT
  length(everyone) AS total_count,
  length(behind) AS behind_count,
  behind[${given.order === 'asc' ? '' : '-'}{limit:Int32}] AS last
FROM
(
  SELECT
    arraySort(groupUniqArray(trader)) AS everyone,
    arrayFilter(one -> ${isBehind('one', given)}, everyone) AS behind
  FROM market_traders
  WHERE condition_id = {condition_id:FixedString(32)}
)`;

const HeadRow = rowOf({ total_count: counted, behind_count: counted, last: hexText });

/** Traders behind the cursor up to the page's last one, whoever came meanwhile. */
const TRADERS_SQL = (given: Given) => `
SELECT
  trader AS address,
  realised_pnl AS pnl,
  realised_cost AS cost,
  market_traders.fee AS fees,
  maker_volume AS maker,
  taker_volume AS taker,
  last_trade_at AS newest
FROM market_traders FINAL
WHERE condition_id = {condition_id:FixedString(32)} AND ${isBehind('trader', given)}
  AND ({until:String} = '' OR trader ${given.order === 'asc' ? '<=' : '>='} unhex({until:String}))
ORDER BY trader ${given.order === 'asc' ? 'ASC' : 'DESC'}
LIMIT ${READ_TRADERS_MAX}`;

const TraderRow = rowOf({
  ...{ address: hexText, pnl: int, cost: int, fees: int, maker: int, taker: int },
  newest: seconds,
});

/** Of the traders from the first to the last of a page, which follow each other. */
const ORDERS_SQL = `
SELECT trader AS address, ${FILL}
FROM bookings
WHERE condition_id = {condition_id:FixedString(32)} AND kind = 'fill'
  AND trader >= {first:FixedString(20)} AND trader <= {last:FixedString(20)}
${BY_MARKET}`;

const OrdersRow = rowOf({ address: hexText, ...fillColumns });

const TraderV1 = z.object({
  profile: ProfileV1,
  pnl: amountText('realised PnL in this market, net of fees, micro-USDC'),
  volume: amountText('maker_volume + taker_volume, micro-USDC'),
  maker_volume: amountText('value of fills as maker, micro-USDC'),
  taker_volume: amountText('value of fills as taker, micro-USDC'),
  fee: amountText('fees of all fills, micro-USDC'),
  roi: percentage('PnL over what the closed shares had cost'),
  last_trade_at: time('newest trade in this market'),
  orders: z.array(FillV1).describe('fills, oldest first; empty with include_orders=false'),
});

export const marketData = endpoint({
  path: '/v1/market_data/:id_or_slug',
  summary: 'Every trader of one market with figures and fills',
  description:
    'For the tiers individual and pro. Ordered by address, so that trades meanwhile move nothing between pages; the ranked earners are in `/v1/markets/:id`. A long page is sent while it is read.',
  parameters: Parameters,
  answer: z.object({
    market: MarketV1,
    total_count: count('traders of the market, on all pages'),
    next_cursor: text('`cursor` of the next page; empty where the list ends'),
    traders: z.array(TraderV1),
  }),
  list: 'traders',
  problems: ['tier_required', 'not_found'],
  allowed: requireTier,
  async run(call: Call, given) {
    const market = await findMarket(call, given.id_or_slug);
    const [{ behindCount, last, listing, resolution, totalCount }, first] = await Promise.all([
      readHead(call, given, market),
      // Where the page ends is not known yet: what is too much is left out then.
      readFigures(call, given, market.conditionId, ''),
    ]);
    const next = behindCount > given.limit ? last : '';
    const head = {
      market: marketV1(listing, resolution),
      total_count: totalCount,
      next_cursor: next,
      traders: [],
    };
    const traders = readTraders(call, given, listing, { first, until: next });
    return new Page<typeof head>(head, next, traders);
  },
});

/** Throws Problem 404 where nothing is known of the market. */
async function readHead(call: Call, given: Given, { conditionId, listing }: FoundMarket) {
  const key: MarketKey = given.id_or_slug;
  const parameters = {
    condition_id: new Bytes(conditionId),
    limit: given.limit,
    cursor: given.cursor ?? '',
  };
  const [found, resolutions, [head]] = await Promise.all([
    listing,
    readResolutions(call, [conditionId]),
    read(call, { sql: HEAD_SQL(given), parameters, row: HeadRow }),
  ]);
  if (head === undefined) throw new Error('one row of sums without a key expected, got none');
  const resolution = resolutions.get(conditionId);
  return {
    listing: knownListing(key, found, { traders: head.total_count, resolution }),
    resolution,
    totalCount: head.total_count,
    behindCount: head.behind_count,
    last: head.last,
  };
}

/** Figures of the next traders up to `until`, an address, or '' for the end of the list. */
async function readFigures(call: Call, given: Given, conditionId: string, until: string) {
  const parameters = {
    condition_id: new Bytes(conditionId),
    cursor: given.cursor ?? '',
    until: until.slice(2),
  };
  return await read(call, { sql: TRADERS_SQL(given), parameters, row: TraderRow });
}

type Figures = Awaited<ReturnType<typeof readFigures>>;

/** The traders of the page, of which `first` were read already, up to its last one or the list's end. */
async function* readTraders(
  call: Call,
  given: Given,
  { condition_id: conditionId, outcomes }: Listing,
  page: { readonly first: Figures; readonly until: string },
): AsyncGenerator<z.input<typeof TraderV1>> {
  const condition_id = new Bytes(conditionId);
  for (let figures = page.first; ; ) {
    const rows = figures.filter(({ address }) => !isBeyond(address, page.until, given.order));
    const addresses = rows.map(({ address }) => address);
    const [first, last] = [addresses[0], addresses.at(-1)].sort();
    const [profileOf, own] = await Promise.all([
      readProfiles(call, addresses),
      given.include_orders && first !== undefined && last !== undefined
        ? read(call, {
            sql: ORDERS_SQL,
            parameters: { condition_id, first: new Bytes(first), last: new Bytes(last) },
            row: OrdersRow,
          })
        : [],
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
        orders: (ordersOf.get(address) ?? []).map((fill) => fillV1(fill, outcomes)),
      };
    }
    if (rows.length < READ_TRADERS_MAX) return;
    const cursor = addresses.at(-1)?.slice(2);
    figures = await readFigures(call, { ...given, cursor }, conditionId, page.until);
  }
}

function isBeyond(address: string, until: string, order: Given['order']): boolean {
  if (until === '') return false;
  return order === 'asc' ? address > until : address < until;
}

function isBehind(trader: string, { cursor, order }: Given): string {
  if (cursor === undefined) return '1';
  return `${trader} ${order === 'asc' ? '>' : '<'} toFixedString(unhex({cursor:String}), 20)`;
}

/** Throws Problem 403 where the tier may not have it. */
function requireTier(given: Given, caller: Caller): Given {
  if (TIERS[caller.tier].marketData) return given;
  const detail = `the tier ${caller.tier} does not include market_data; individual and pro do`;
  throw new Problem({ status: 403, error: 'tier_required', detail });
}
