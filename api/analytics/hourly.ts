/**
 * `GET /v1|v2/traders/:address/hourly_stats`: sums of each hour with activity, newest first. The default range
 * is the 30 days up to `to`, which defaults to now. Both ends are inclusive and apply to the start of the hour.
 * Amounts are micro-USDC.
 */
import { z } from 'zod';
import { Bytes } from '../../infra/clickhouse.ts';
import { endpoint, Page } from '../http/endpoint.ts';
import { address, inOrder, instant, integer, order, slug } from '../http/parameters.ts';
import { type Call, SHARED } from './call.ts';
import { hourCursor } from './cursors.ts';
import { hourText, safeInteger } from './format.ts';
import { keyset, pageOf, pageParameters } from './keyset.ts';
import { ALL_TAGS, marketFilter } from './market-tags.ts';
import { FEW_ROWS, read } from './query.ts';
import { count as counted, int, rowOf, seconds } from './rows.ts';
import { amount, amountText, count, hourStart } from './schemas.ts';

const DEFAULT_RANGE_SECONDS = 30 * 86_400;
/** More hours than the exchange has existed for. */
const HOURS_MAX = 100_000;

const ParametersV1 = z
  .object({
    address,
    tag: slug.default(ALL_TAGS).describe('only markets with this tag; `all`: no filter'),
    from: instant.optional().describe('earliest start of an hour (default: 30 days before `to`)'),
    to: instant.optional().describe('latest start of an hour (default: now)'),
    limit: integer(1, HOURS_MAX).default(HOURS_MAX).describe('maximum hours per page'),
    order: order('desc').describe('desc: newest hour first; asc: oldest first'),
    cursor: hourCursor.parameter.describe('cursor from the `Link` header of the previous page'),
  })
  .superRefine(inOrder(['from', 'to']));
const ParametersV2 = ParametersV1.safeExtend({
  series: slug.optional().describe('only markets of this series'),
});
type Input = z.output<typeof ParametersV1> & { readonly series?: string | undefined };

/**
 * A market counts in an hour with a fill or a settlement, and as won if it was settled with a gain. FINAL merges
 * the parts of a row into one per hour and market.
 */
function pageStatement(input: Input): string {
  const key = { columns: ['hour'], at: "toDateTime({cursor_time:UInt32}, 'UTC')" };
  const { behind, orderBy } = keyset(input, key);
  return `
SELECT ${Row.columns}
FROM trader_hours FINAL
WHERE trader = {trader:FixedString(20)}
  AND hour >= toDateTime({from:UInt32}, 'UTC') AND hour <= toDateTime({to:UInt32}, 'UTC')
  ${behind} ${marketFilter(input)}
GROUP BY hour
ORDER BY ${orderBy}
LIMIT {most:UInt32}
${FEW_ROWS}`;
}

const Row = rowOf({
  start: seconds('hour'),
  pnl: int('sum(realised_pnl)'),
  cost: int('sum(realised_cost)'),
  fees: int('sum(fee)'),
  market_count: counted('count()'),
  win_count: counted('countIf(settlements > 0 AND realised_pnl > 0)'),
  maker: int('sum(maker_volume)'),
  taker: int('sum(taker_volume)'),
});

const MARKETS = 'markets with a fill or a settlement in the hour';
const WINS = 'markets settled in the hour whose PnL in the hour is above 0';
const PNL = 'realised PnL of the hour, net of fees';

const HourV1 = z.object({
  hour: hourStart,
  pnl: amountText(`${PNL}, micro-USDC`),
  market_count: count(MARKETS),
  win_count: count(WINS),
  taker_volume: amountText('value of fills as taker, micro-USDC'),
  maker_volume: amountText('value of fills as maker, micro-USDC'),
  volume: amountText('taker_volume + maker_volume, micro-USDC'),
});

const HourV2 = z.object({
  cost_basis: amount('cost of the shares that were closed in the hour, micro-USD'),
  fee: amount('fees of the fills in the hour, micro-USD'),
  hour: hourStart,
  maker_volume: amount('value of fills as maker, micro-USD'),
  market_count: count(MARKETS),
  pnl: amount(`${PNL}, micro-USD`),
  taker_volume: amount('value of fills as taker, micro-USD'),
  win_count: count(WINS),
});

const DESCRIPTION =
  'What a trader did in each hour: PnL, volume, markets and wins; v2 adds cost basis and fees. Newest hour first unless `order=asc`. Hours without activity are omitted.';

export const hourlyV1 = endpoint({
  name: 'traderHours',
  path: '/v1/traders/:address/hourly_stats',
  summary: 'Hours of a trader (v1)',
  description: DESCRIPTION,
  parameters: ParametersV1,
  answer: z.object({ stats: z.array(HourV1) }),
  list: 'stats',
  problems: [],
  keep: SHARED,
  async run(call: Call, input) {
    const { next_cursor, page } = await readHours(call, input);
    const stats = page.map((row) => ({
      hour: hourText(row.start),
      pnl: row.pnl.toString(),
      market_count: row.market_count,
      win_count: row.win_count,
      taker_volume: row.taker.toString(),
      maker_volume: row.maker.toString(),
      volume: (row.maker + row.taker).toString(),
    }));
    return new Page({ stats }, next_cursor);
  },
});

export const hourlyV2 = endpoint({
  name: 'traderHours',
  path: '/v2/traders/:address/hourly_stats',
  summary: 'Hours of a trader',
  description: DESCRIPTION,
  parameters: ParametersV2,
  answer: z.object({ stats: z.array(HourV2) }),
  list: 'stats',
  problems: [],
  keep: SHARED,
  async run(call: Call, input) {
    const { next_cursor, page } = await readHours(call, input);
    const stats = page.map((row) => ({
      cost_basis: safeInteger(row.cost),
      fee: safeInteger(row.fees),
      hour: hourText(row.start),
      maker_volume: safeInteger(row.maker),
      market_count: row.market_count,
      pnl: safeInteger(row.pnl),
      taker_volume: safeInteger(row.taker),
      win_count: row.win_count,
    }));
    return new Page({ stats }, next_cursor);
  },
});

async function readHours(call: Call, input: Input) {
  const to = input.to ?? Math.floor(call.now() / 1000);
  const from = input.from ?? Math.max(0, to - DEFAULT_RANGE_SECONDS);
  const parameters = {
    trader: new Bytes(input.address),
    tag: input.tag,
    series: input.series ?? '',
    ...{ from, to, ...pageParameters(input) },
  };
  const rows = await read(call, { sql: pageStatement(input), parameters, row: Row });
  return pageOf(rows, input.limit, hourCursor);
}
