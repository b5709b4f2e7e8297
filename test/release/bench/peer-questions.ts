/**
 * Some of the analysts' examples in PostgreSQL, as a competent user writes them for the tables of peer-postgres-data.ts.
 * Both sides end their windows at the end of the data, however old it is, and must have the same rows.
 */
import { example } from './projector-queries.ts';

const DAY = 86_400;

const text = (seconds: number) => new Date(seconds * 1_000).toISOString().slice(0, 19);
const time = (seconds: number) => `'${text(seconds).replace('T', ' ')}'::timestamp`;

/** The example with `now()` and `today()` replaced, as JSON lines. */
export function oursAt(name: string, now: number): string {
  const pinned = example(name)
    .replaceAll("now('UTC')", `toDateTime('${text(now)}', 'UTC')`)
    .replaceAll('today()', `toDate('${text(now).slice(0, 10)}')`);
  return `${pinned}\nFORMAT JSONCompactEachRow`;
}

const USDC = (sum: string) => `(${sum}) / 1000000`;

/** By the name of our example. */
export const QUESTIONS: Readonly<Record<string, (now: number) => string>> = {
  // Two levels, because count(DISTINCT) sorts each group and is never parallel.
  '02-maker-taker-volume-by-hour': (now) => `
SELECT hour, ${USDC('sum(maker)')}, ${USDC('sum(taker)')}, ${USDC('sum(fees)')}, count(*) FILTER (WHERE trades > 0)
FROM (
  SELECT hour, trader, sum(maker_volume) AS maker, sum(taker_volume) AS taker, sum(fee) AS fees, sum(fills) AS trades
  FROM trader_hours WHERE hour >= date_trunc('hour', ${time(now - 7 * DAY)}) GROUP BY hour, trader
) AS traders
GROUP BY hour ORDER BY hour`,

  '03-win-rate-by-price': (now) => `
SELECT least(b.usdc * 10 / b.shares, 9) / 10.0 AS price_from, count(*), ${USDC('sum(b.shares)')},
  ${USDC('coalesce(sum(b.shares) FILTER (WHERE b.outcome = m.winner), 0)')},
  round(1000 * coalesce(sum(b.shares) FILTER (WHERE b.outcome = m.winner), 0)::float8 / sum(b.shares)::float8) / 10
FROM bookings AS b JOIN markets AS m ON m.id = b.market
WHERE b.block_time >= ${time(now - 7 * DAY)} AND b.is_buy AND b.shares > 0 AND m.winner IS NOT NULL
GROUP BY 1 ORDER BY 1`,

  // The addresses of the fifty only.
  '06-buyers-of-both-outcomes': (now) => `
SELECT '0x' || encode(t.address, 'hex'), '0x' || encode(m.condition_id, 'hex'), ${USDC('bought')},
  trunc(usdc_0 / shares_0, 6), trunc(usdc_1 / shares_1, 6), ${USDC('pnl')}
FROM (
  SELECT trader, market, sum(usdc) FILTER (WHERE is_buy) AS bought,
    sum(usdc) FILTER (WHERE is_buy AND outcome = 0) AS usdc_0, sum(shares) FILTER (WHERE is_buy AND outcome = 0) AS shares_0,
    sum(usdc) FILTER (WHERE is_buy AND outcome = 1) AS usdc_1, sum(shares) FILTER (WHERE is_buy AND outcome = 1) AS shares_1,
    sum(realised_pnl) AS pnl
  FROM bookings WHERE block_time >= ${time(now - 7 * DAY)} AND is_fill
  GROUP BY trader, market
  HAVING sum(shares) FILTER (WHERE is_buy AND outcome = 0) > 0 AND sum(shares) FILTER (WHERE is_buy AND outcome = 1) > 0
  ORDER BY bought DESC, trader, market LIMIT 50
) AS fifty JOIN traders AS t ON t.id = trader JOIN markets AS m ON m.id = market
ORDER BY bought DESC, t.address, m.condition_id`,

  // Summed by market before the join: there are far fewer markets than takers' fills.
  '14-volume-against-the-week-before': (now) => `
WITH days AS (
  SELECT day, category, sum(usdc) AS usdc
  FROM (
    SELECT block_time::date AS day, market, sum(usdc) AS usdc FROM bookings
    WHERE is_taker AND block_time >= ${time(now)}::date - 14 GROUP BY 1, 2
  ) AS markets_days JOIN markets AS m ON m.id = market
  GROUP BY day, category
)
SELECT day, category, ${USDC('this')}, ${USDC('before')}, round(1000 * (this::float8 / nullif(before, 0)::float8 - 1)) / 10
FROM (
  SELECT day + age AS day, category, coalesce(sum(usdc) FILTER (WHERE age = 0), 0) AS this,
    coalesce(sum(usdc) FILTER (WHERE age = 7), 0) AS before
  FROM days CROSS JOIN unnest(ARRAY[0, 7]) AS age
  GROUP BY 1, 2
) AS compared
WHERE day BETWEEN ${time(now)}::date - 7 AND ${time(now)}::date - 1
ORDER BY day DESC, this DESC, category`,
};

type Cell = string | number | null | undefined;

/** Throws unless the rows are equal. */
export function requireEqual(
  name: string,
  ours: readonly (readonly Cell[])[],
  theirs: readonly (readonly Cell[])[],
): void {
  if (ours.length === 0) throw new Error(`${name}: no rows`);
  const differs =
    ours.length === theirs.length
      ? ours.findIndex((row, i) => {
          const other = theirs[i] ?? [];
          return row.length !== other.length || row.some((cell, at) => !isEqual(cell, other[at]));
        })
      : Math.min(ours.length, theirs.length);
  if (differs === -1) return;
  const shown = [ours[differs], theirs[differs]].map((row) => JSON.stringify(row));
  throw new Error(`${name}: row ${differs} differs; ours ${shown[0]}, theirs ${shown[1]}`);
}

function isEqual(a: Cell, b: Cell): boolean {
  if (String(a) === String(b)) return true;
  // A decimal as a number is the double nearest to it, as is the same decimal as text.
  return a !== null && b !== null && Number(a) === Number(b);
}
