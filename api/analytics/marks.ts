/**
 * Marks: what a share of a market is worth now, and what a position is worth at its mark. The mark is the newest
 * final match of the market, or its payout once it is resolved. Definitions: docs/pnl.md.
 */
import { Bytes } from '../../infra/clickhouse.ts';
import { readResolutions } from './market-object.ts';
import { FEW_ROWS, type Reading, read } from './query.ts';
import { hexText, int, rowOf, seconds } from './rows.ts';

/** `shares` shares of outcome 0 are worth `usdc`: a fraction, because a rounded price would not value a position exactly. */
export type Mark = {
  readonly source: 'last_match' | 'resolution';
  /** Of the match or of the resolution, seconds since the epoch. */
  readonly time: number;
  /** Micro-USD of outcome 0. */
  readonly usdc: bigint;
  /** Micro-shares; 0 for a resolution that pays nothing. */
  readonly shares: bigint;
};

/** What prices are computed from. */
type Fraction = Pick<Mark, 'usdc' | 'shares'>;

export type Held = { readonly outcome: 0 | 1; readonly shares: bigint };

const Row = rowOf({
  conditionId: hexText('condition_id'),
  time: seconds('(max(last) AS newest).time'),
  usdc: int('newest.usdc'),
  shares: int('newest.shares'),
});

const SQL = `
SELECT ${Row.columns}
FROM market_marks
WHERE condition_id IN {conditions:Array(FixedString(32))}
GROUP BY condition_id
HAVING newest.version > 0
${FEW_ROWS}`;

/** The marks of these markets by condition id; a market that was neither matched nor resolved has none. */
export async function readMarks(
  call: Reading,
  conditionIds: readonly string[],
): Promise<ReadonlyMap<string, Mark>> {
  if (conditionIds.length === 0) return new Map();
  const parameters = { conditions: new Bytes(conditionIds) };
  const [rows, resolutions] = await Promise.all([
    read(call, { sql: SQL, parameters, row: Row }),
    readResolutions(call, conditionIds),
  ]);
  const marks = new Map<string, Mark>();
  for (const { conditionId, time, usdc, shares } of rows) {
    marks.set(conditionId, { source: 'last_match', time, usdc, shares });
  }
  for (const [conditionId, { resolved_at: time, payout_0, payout_1 }] of resolutions) {
    const shares = payout_0 + payout_1;
    marks.set(conditionId, { source: 'resolution', time, usdc: payout_0, shares });
  }
  return marks;
}

/** Price of one share of an outcome, micro-USD from 0 to 1,000,000; outcome 0 rounds down, both add up to 1,000,000. */
export function markPrice({ usdc, shares }: Fraction, outcome: 0 | 1): bigint {
  if (shares === 0n) return 0n;
  const first = floored(usdc * MICRO, shares);
  const within = first < 0n ? 0n : first > MICRO ? MICRO : first;
  return outcome === 0 ? within : MICRO - within;
}

/** What a position is worth at a mark, micro-USD, rounded down. */
export function valueAt({ usdc, shares }: Mark, held: Held): bigint {
  if (shares === 0n) return 0n;
  return floored(held.shares * (held.outcome === 0 ? usdc : shares - usdc), shares);
}

const MICRO = 1_000_000n;

/** Floor of a / b for b > 0; plain bigint division rounds towards zero. */
function floored(a: bigint, b: bigint): bigint {
  const quotient = a / b;
  return a < 0n && quotient * b !== a ? quotient - 1n : quotient;
}
