/**
 * `GET /v2/position_events`: when traders opened, added to, reduced and closed positions, and when those were settled. Each booking
 * has the position before and after it, so no other row is needed. With traders, `bookings` is read, which is sorted by trader;
 * without, `bookings_by_time`.
 */
import { z } from 'zod';
import { Bytes } from '../../infra/clickhouse.ts';
import { endpoint, Page } from '../http/endpoint.ts';
import {
  addresses,
  decimal,
  inOrder,
  instant,
  integer,
  marketKey,
  oneOf,
  order,
  slug,
} from '../http/parameters.ts';
import { type Call, SHARED } from './call.ts';
import { positionEventCursor } from './cursors.ts';
import { isoSecond, MICRO, price, safeInteger } from './format.ts';
import { keyset, NEXT_CURSOR, pageOf, pageParameters } from './keyset.ts';
import { findMarket, MarketV2, readMarketsV2 } from './market-object.ts';
import { ALL_TAGS, marketFilter } from './market-tags.ts';
import { type Mark, markPrice, readMarks, valueAt } from './marks.ts';
import { ProfileV2, readProfilesV2 } from './profiles.ts';
import { FEW_ROWS, read } from './query.ts';
import {
  boolean,
  count as counted,
  hexText,
  int,
  type RowOf,
  rowOf,
  seconds,
  typed,
} from './rows.ts';
import { count, outcomeIndex, sharePrice, text, time, usd, yes } from './schemas.ts';

const LIMIT_DEFAULT = 100;
const LIMIT_MAX = 500;
const TRADERS_MAX = 50;
/** More than all existing USDC. */
const USDC_MAX = 1e12;
const DAY_SECONDS = 86_400;
/** Of a list without traders. */
const DAYS_MAX = 31;

const TYPES = ['opened', 'added', 'reduced', 'closed', 'settled'] as const;
const CAUSES = ['fill', 'settlement', 'movement'] as const;

const Parameters = z
  .object({
    traders: addresses(TRADERS_MAX).optional().describe('only these traders'),
    market: marketKey.optional().describe('only this market: its id, condition id or slug'),
    tag: slug.default(ALL_TAGS).describe('only markets with this tag; all: every market'),
    type: oneOf(TYPES).optional().describe('only events of this type'),
    min_usdc: decimal(0, USDC_MAX).optional().describe('minimum value of the event, USDC'),
    from: instant
      .optional()
      .describe('only events at this time or later; without `traders`, a day before the end'),
    to: instant.optional().describe('only events at this time or earlier'),
    order: order('desc').describe('desc: newest first; asc: oldest first'),
    limit: integer(1, LIMIT_MAX).default(LIMIT_DEFAULT).describe('maximum events per page'),
    cursor: positionEventCursor.parameter,
  })
  .superRefine(inOrder(['from', 'to']));
type Input = z.output<typeof Parameters>;

const AFTER = 'if(position_outcome = 0, position_shares, -position_shares)';

/** What shares of the traded outcome are worth as shares of the outcome that is held, which is 1 if `net` is below 0. */
const worth = (net: string, shares: string, usdc: string) =>
  `if(outcome_index = (${net} < 0), ${usdc}, ${shares} - ${usdc})`;
const WHOLE = worth('if(net = 0, position_before, net)', 'shares', 'usdc');
/** Of a trade that changes sides: the shares that close, and their part of its money, rounded down. */
const CLOSING = 'abs(position_before)';
const CLOSING_USDC = `toInt64(intDiv(toInt128(usdc) * ${CLOSING}, shares))`;

/**
 * The events of a booking: type, net shares of outcome 0 before, and after, value, and number. A trade that changes sides closes and
 * opens.
 */
const EVENTS = `multiIf(
  kind = 'settlement', [('settled', position_before, toInt64(0), usdc, 0)],
  position_before = 0, [('opened', position_before, net, ${WHOLE}, 0)],
  net = 0, [('closed', position_before, net, ${WHOLE}, 0)],
  sign(position_before) != sign(net), [
    ('closed', position_before, toInt64(0), ${worth('position_before', CLOSING, CLOSING_USDC)}, 0),
    ('opened', toInt64(0), net, ${worth('net', `(shares - ${CLOSING})`, `(usdc - ${CLOSING_USDC})`)}, 1)],
  abs(net) > abs(position_before), [('added', position_before, net, ${WHOLE}, 0)],
  [('reduced', position_before, net, ${WHOLE}, 0)])`;

const Row = rowOf({
  type: typed('event.1', z.enum(TYPES)),
  before: int('event.2'),
  after: int('event.3'),
  value: int('event.4'),
  number: counted('toUInt8(rank * 2 + event.5) AS number'),
  cause: typed('toString(kind)', z.enum(CAUSES)),
  block: int('block_number'),
  log: counted('log_index'),
  at: seconds('block_time'),
  trader: hexText('trader'),
  conditionId: hexText('condition_id'),
  isTaker: boolean('is_taker'),
  outcomeIndex: typed('outcome_index', z.literal([0, 1])),
  shares: int('shares'),
  usdc: int('usdc'),
  pnl: int('realised_pnl'),
  cost: int('position_cost'),
});
type Row = RowOf<typeof Row>;

const KEY = ['block_time', 'block_number', 'log_index', 'trader', 'condition_id'];
const AT = `toDateTime({cursor_time:UInt32}, 'UTC'), {cursor_block:UInt64}, {cursor_log:UInt32},
  toFixedString(unhex({cursor_trader:String}), 20), toFixedString(unhex({cursor_condition:String}), 32)`;

/** The condition of each parameter that restricts the list. */
const CONDITIONS = {
  traders: 'trader IN {traders:Array(FixedString(20))}',
  market: 'condition_id = {market:FixedString(32)}',
  from: "block_time >= toDateTime({from:UInt32}, 'UTC')",
  to: "block_time <= toDateTime({to:UInt32}, 'UTC')",
} as const;

/** A booking has one or two events, so as many bookings as events are enough. A row can occur twice. */
function pageStatement(input: Input & { readonly from?: number | undefined }): string {
  const names = Object.keys(CONDITIONS) as (keyof typeof CONDITIONS)[];
  const place = [...KEY, 'rank'].join(', ');
  const atPlace = `(${AT}, intDiv({cursor_number:UInt8}, 2))`;
  const rows = keyset({ order: input.order }, { columns: [...KEY, 'rank'], at: atPlace });
  const events = keyset(input, {
    columns: [...KEY, 'number'],
    at: `(${AT}, {cursor_number:UInt8})`,
  });
  const conditions = [
    `kind != 'opening' AND position_before != ${AFTER}`,
    ...names.filter((name) => input[name] !== undefined).map((name) => CONDITIONS[name]),
  ];
  const wanted = [
    'true',
    ...(input.type === undefined ? [] : ['event.1 = {type:String}']),
    ...(input.min_usdc === undefined ? [] : ['event.4 >= {min_usdc:Int64}']),
  ].join(' AND ');
  // The booking at the cursor may have another event.
  const compared = input.order === 'desc' ? '<=' : '>=';
  const fromCursor = input.cursor === undefined ? '' : `AND (${place}) ${compared} ${atPlace}`;
  return `
SELECT ${Row.columns}
FROM
(
  SELECT block_time, block_number, log_index, trader, condition_id, rank, kind, is_taker, outcome_index, shares, usdc,
    realised_pnl, position_before, position_cost, ${AFTER} AS net, arrayFilter(event -> ${wanted}, ${EVENTS}) AS events
  FROM ${input.traders === undefined ? 'bookings_by_time' : 'bookings'}
  WHERE ${conditions.join(' AND ')} ${marketFilter(input)} AND notEmpty(events) ${fromCursor}
  ORDER BY ${rows.orderBy}
  LIMIT 1 BY ${place}
  LIMIT {most:UInt32} + 1
)
ARRAY JOIN events AS event
WHERE true ${events.behind}
ORDER BY ${events.orderBy}
LIMIT {most:UInt32}
${FEW_ROWS}`;
}

const PositionEvent = z
  .object({
    type: z.enum(TYPES).meta({
      description:
        'what became of the position: a trade that changes sides is `closed` and `opened`',
      examples: ['opened'],
    }),
    cause: z.enum(CAUSES).meta({
      description: 'a fill, the resolution of the market, or shares that moved without a fill',
      examples: ['fill'],
    }),
    outcome: text('label of the outcome that is held', 'Yes'),
    outcome_index: outcomeIndex('index of the outcome that is held, 0 or 1'),
    shares_before: count('micro-shares held before', 0),
    shares_after: count('micro-shares held after', 25_000_000),
    price: sharePrice('price of the event for the outcome held: of the trade, or the payout'),
    value: usd(
      'what the shares that came or left were worth at that price, without the fee; the payout',
    ),
    average_price: sharePrice('average price of what is held after, 0 if nothing'),
    realised_pnl: usd('PnL that the event realised, net of fees'),
    price_now: z
      .int()
      .nullable()
      .meta({
        description: 'price of the outcome held now, micro-USD a share; null without a mark',
        examples: [620_000],
      }),
    value_now: z
      .int()
      .nullable()
      .meta({
        description: 'what the shares held after are worth now, micro-USD; null without a mark',
        examples: [15_500_000],
      }),
    is_taker: yes('true for the taker of a match'),
    time: time('time of the block'),
    block_number: count('number of the block', 85_671_003),
    log_index: count('index of the log in the block', 12),
    number: count('number among the events of the trader in this market and log', 2),
    trader: ProfileV2,
    market: MarketV2,
  })
  .meta({ id: 'PositionEvent' });

export const positionEventsV2 = endpoint({
  name: 'positionEvents',
  path: '/v2/position_events',
  summary: 'Position events',
  description: `When traders opened, added to, reduced and closed positions, and when positions were settled, from final blocks, newest
first unless \`order=asc\`. A position is the net of both outcomes of a market, so buying the other outcome reduces it. Splits and merges change no position.

With \`traders\`, the whole history; without, the last day, or up to ${DAYS_MAX} days from \`from\`. The order is fixed, so pages never repeat or omit an event while others
arrive.`,
  parameters: Parameters,
  answer: z.object({ events: z.array(PositionEvent), next_cursor: NEXT_CURSOR }),
  list: 'events',
  problems: ['not_found'],
  keep: SHARED,
  async run(call: Call, input) {
    const market = input.market && (await findMarket(call, input.market)).conditionId;
    const { min_usdc, tag, to, traders, type } = input;
    const from = traders === undefined ? fromOf(call, input) : input.from;
    const found = await read(call, {
      sql: pageStatement({ ...input, from }),
      parameters: {
        ...{ traders: traders && new Bytes(traders), market: market && new Bytes(market) },
        ...{ tag, type, from, to, ...pageParameters(input) },
        min_usdc: min_usdc && Math.round(min_usdc * 1e6),
      },
      row: Row,
    });
    const { page: rows, next_cursor } = pageOf(found, input.limit, positionEventCursor);
    const conditions = rows.map((row) => row.conditionId);
    const [marketOf, profileOf, marks] = await Promise.all([
      readMarketsV2(call, conditions),
      readProfilesV2(
        call,
        rows.map((row) => row.trader),
      ),
      readMarks(call, [...new Set(conditions)]),
    ]);
    const events = rows.map((row) => ({
      ...eventOf(row, marketOf(row.conditionId).outcomes, marks.get(row.conditionId)),
      trader: profileOf(row.trader),
      market: marketOf(row.conditionId).market,
    }));
    return new Page({ events, next_cursor }, next_cursor);
  },
});

/** The first second of a list without traders. */
function fromOf(call: Call, { from, to }: Input): number {
  const end = to ?? Math.floor(call.now() / 1_000);
  return Math.max(from ?? end - DAY_SECONDS, end - DAYS_MAX * DAY_SECONDS);
}

function eventOf(row: Row, outcomes: readonly string[], mark: Mark | undefined) {
  const { after, before, type } = row;
  const outcome = (after === 0n ? before : after) < 0n ? 1 : 0;
  const [held, left] = [sizeOf(after), sizeOf(before)];
  const own = row.shares === 0n ? 0n : price(row.usdc, row.shares);
  // The second event of a trade that changes sides: closing has realised the PnL.
  const isRest = row.number % 2 === 1;
  return {
    ...{ type, cause: row.cause, outcome: outcomes[outcome] ?? '', outcome_index: outcome },
    ...{ shares_before: safeInteger(left), shares_after: safeInteger(held) },
    price: safeInteger(row.outcomeIndex === outcome ? own : MICRO - own),
    value: safeInteger(row.value),
    average_price: safeInteger(held === 0n ? 0n : price(row.cost, held)),
    realised_pnl: safeInteger(isRest ? 0n : row.pnl),
    price_now: mark === undefined ? null : safeInteger(markPrice(mark, outcome)),
    value_now: mark === undefined ? null : safeInteger(valueAt(mark, { outcome, shares: held })),
    ...{ is_taker: row.isTaker, time: isoSecond(row.at), block_number: safeInteger(row.block) },
    ...{ log_index: row.log, number: row.number },
  } as const;
}

const sizeOf = (net: bigint) => (net < 0n ? -net : net);
