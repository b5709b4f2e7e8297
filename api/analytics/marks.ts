/**
 * Marks: what a share of a market is worth now, and what a position is worth at its mark. The mark is the newest
 * final match of the market, or its payout once it is resolved. Definitions: docs/pnl.md.
 */
import { z } from 'zod';
import { Bytes } from '../../infra/clickhouse.ts';
import { floored, isoSecond, MICRO, price, safeInteger } from './format.ts';
import { FEW_ROWS, type Reading, read } from './query.ts';
import { boolean, count, hexText, int, rowOf, seconds } from './rows.ts';
import { time } from './schemas.ts';

/** `shares` shares of outcome 0 are worth `usdc`. This is a fraction, because a rounded price would not value a position exactly. */
export type Mark = {
  readonly source: 'last_match' | 'resolution';
  /** Time of the match or the resolution, seconds since the epoch. */
  readonly time: number;
  /** Micro-USD of outcome 0. */
  readonly usdc: bigint;
  /** Micro-shares; 0 for a resolution that pays nothing. */
  readonly shares: bigint;
};

/** A mark with its place in the chain, a version as in `position` of trader_markets; 0 without a mark. */
export type Marked = { readonly mark: Mark | undefined; readonly version: number };

/** The basis of prices. */
type Fraction = Pick<Mark, 'usdc' | 'shares'>;

export type Held = { readonly outcome: 0 | 1; readonly shares: bigint };

/**
 * A subquery with the marks of the markets that `conditions` (an expression after IN) selects. A mark is a tuple: whether
 * it is a resolution, its place in the chain, micro-USD of outcome 0, micro-shares, time. A resolution sorts last.
 */
export function marksSql(conditions: string): string {
  return `(
  SELECT condition_id, max(candidate) AS mark
  FROM
  (
    SELECT condition_id, (false, last.version, toInt128(last.usdc), toInt128(last.shares), last.time) AS candidate
    FROM market_marks
    WHERE condition_id IN ${conditions} AND last.version > 0
    UNION ALL
    SELECT condition_id, (true, block_number, toInt128(payout_0), toInt128(payout_0) + payout_1, resolved_at)
    FROM resolutions
    WHERE condition_id IN ${conditions}
  )
  GROUP BY condition_id
)`;
}

/** Columns of a mark, for `rowOf`. Without a mark, the time is 0. */
const markColumns = {
  isResolved: boolean('mark.1'),
  usdc: int('mark.3'),
  whole: int('mark.4'),
  markedAt: seconds('mark.5'),
};

/** An element of the newest position. Reading single elements costs half as much as max(position). */
export function newestHeld(element: 'outcome' | 'shares' | 'cost_basis' | 'open_fees'): string {
  return `argMax(position.${element}, position.version)`;
}

/** `valueAt` as SQL, for a position in a market with a mark; `usdc` and `whole` as in `markColumns`. */
export function valueSql(outcome: string, shares: string, usdc: string, whole: string): string {
  const worth = `toInt128(${shares}) * if(${outcome} = 0, ${usdc}, ${whole} - ${usdc})`;
  // intDiv rounds towards zero.
  return `toInt64(intDivOrZero(${worth} AS worth, ${whole}) - (worth < 0 AND moduloOrZero(worth, ${whole}) != 0))`;
}

const MarkRow = rowOf({
  conditionId: hexText('condition_id'),
  version: count('if(mark.1, mark.2 * 2097152, mark.2)'),
  ...markColumns,
});

/** The marks of these markets by condition id. A market that was neither matched nor resolved has none. */
export async function readMarks(
  call: Reading,
  conditionIds: readonly string[],
): Promise<ReadonlyMap<string, Mark>> {
  if (conditionIds.length === 0) return new Map();
  const conditions = new Bytes(conditionIds);
  const marked = await readMarksOf(call, '{conditions:Array(FixedString(32))}', { conditions });
  return new Map([...marked].map(([id, { mark }]) => [id, mark] as const));
}

/** The marks of these markets of a trader, or of all the trader's markets if these are many, with their places in the chain. */
export async function readMarkedOf(own: Reading, conditionIds: readonly string[], trader: string) {
  if (conditionIds.length === 0) return new Map<string, MarkAt>();
  const { markets, keys } = marketsOf(new Bytes(trader), conditionIds);
  return await readMarksOf(own, markets, keys);
}

type MarkAt = Marked & { readonly mark: Mark };

/** The marks of the markets that `conditions` (an expression after IN with these parameters) selects. */
async function readMarksOf(
  call: Reading,
  conditions: string,
  parameters: Readonly<Record<string, Bytes>>,
): Promise<ReadonlyMap<string, MarkAt>> {
  const sql = `SELECT ${MarkRow.columns} FROM ${marksSql(conditions)} ${FEW_ROWS}`;
  const rows = await read(call, { sql, parameters, row: MarkRow });
  return new Map(
    rows.map((row) => [row.conditionId, { mark: markOf(row), version: row.version }] as const),
  );
}

/** The markets in which a trader ever traded, for an expression after IN with the parameter `trader`. */
export const TRADED_MARKETS =
  '(SELECT condition_id FROM trader_markets WHERE trader = {trader:FixedString(20)})';
/** More keys would make the URL of a statement too long. */
const KEYS_MAX = 200;

/** Selects these markets of a trader by key, or all markets of the trader if that would be too many keys. */
export function marketsOf(trader: Bytes, conditionIds: readonly string[]) {
  return conditionIds.length > KEYS_MAX
    ? { markets: TRADED_MARKETS, keys: { trader } }
    : {
        markets: '{conditions:Array(FixedString(32))}',
        keys: { conditions: new Bytes(conditionIds) },
      };
}

function markOf(row: {
  readonly isResolved: boolean;
  readonly usdc: bigint;
  readonly whole: bigint;
  readonly markedAt: number;
}): Mark {
  const source = row.isResolved ? 'resolution' : 'last_match';
  return { source, time: row.markedAt, usdc: row.usdc, shares: row.whole };
}

/** Price of one share of an outcome, micro-USD from 0 to 1,000,000. Outcome 0 rounds to nearest, and both add up to 1,000,000. */
export function markPrice({ usdc, shares }: Fraction, outcome: 0 | 1): bigint {
  if (shares === 0n) return 0n;
  const first = price(usdc, shares);
  const within = first < 0n ? 0n : first > MICRO ? MICRO : first;
  return outcome === 0 ? within : MICRO - within;
}

/** The value of a position at a mark, micro-USD, rounded down. */
export function valueAt({ usdc, shares }: Fraction, held: Held): bigint {
  if (shares === 0n) return 0n;
  return floored(held.shares * (held.outcome === 0 ? usdc : shares - usdc), shares);
}

const PRICE = 'micro-USD a share, 0 to 1,000,000; null without a mark';

/** The mark of a market in responses. */
export const MarketMark = z
  .object({
    price_1: z
      .int()
      .nullable()
      .meta({
        description: `price of the first outcome, rounded to nearest, ${PRICE}`,
        examples: [620_000],
      }),
    price_2: z
      .int()
      .nullable()
      .meta({
        description: `price of the second outcome: 1,000,000 minus that; ${PRICE}`,
        examples: [380_000],
      }),
    time: time('time of the match or the resolution, or empty'),
    source: z.enum(['last_match', 'resolution', 'none']).meta({
      description: 'the newest final match, the payout of a resolved market, or none',
      examples: ['last_match'],
    }),
  })
  .meta({ id: 'MarketMark' });

export function marketMark(mark: Mark | undefined): z.input<typeof MarketMark> {
  if (mark === undefined) return { price_1: null, price_2: null, time: '', source: 'none' };
  return {
    price_1: safeInteger(markPrice(mark, 0)),
    price_2: safeInteger(markPrice(mark, 1)),
    time: isoSecond(mark.time),
    source: mark.source,
  };
}
