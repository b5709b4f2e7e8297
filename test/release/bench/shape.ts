/** Prints what a data set looks like: traders, pairs of trader and market, positions, markets, prices. */
import type { Dataset } from './fills.ts';
import { readable } from './report.ts';

const HELD = `(SELECT trader, countIf(position.shares > 0) AS open
  FROM (SELECT trader, condition_id, max(position) AS position FROM trader_markets GROUP BY trader, condition_id)
  GROUP BY trader)`;
const ACTIVE = '(SELECT trader, sum(fills) AS number FROM trader_activity GROUP BY trader)';
const PAIRS =
  '(SELECT sum(fills) AS number FROM trader_markets GROUP BY trader, condition_id HAVING number > 0)';
const HOURS =
  '(SELECT toStartOfHour(block_time) AS hour, count() AS number FROM matches GROUP BY hour)';

export async function shapeOf({ parts, exchange, fills, traders }: Dataset) {
  const days = (exchange.to - exchange.from) / 86_400;
  const busiest = Math.max(1, Math.round(300 * exchange.size));
  const first = traders.slice(0, busiest).map((one) => `unhex('${one.slice(2)}')`);
  const asked: readonly (readonly [what: string, figures: string, source?: string])[] = [
    ['fills a day', `[${fills / days}]`],
    ['traders', '[count()]', ACTIVE],
    ['part of them with fewer than 20 fills', '[avg(number < 20)]', ACTIVE],
    ['fills of a trader: median, p99, max', spread('number'), ACTIVE],
    [
      `fills a day of the ${busiest} busiest, mean`,
      `[avg(number) / ${days}]`,
      `${ACTIVE} WHERE trader IN (${first})`,
    ],
    ['fills of a trader and market: mean', '[avg(number)]', PAIRS],
    ['fills of a trader and market: median, p99, max', spread('number'), PAIRS],
    ['open positions of a trader: median, p99, max', spread('open'), HELD],
    ['open positions, all', '[sum(open)]', HELD],
    [
      'markets: open, resolved',
      '[uniqExact(condition_id) - (SELECT count() FROM resolutions FINAL), (SELECT count() FROM resolutions FINAL)]',
      'market_marks',
    ],
    ['fills a match', `[${fills} / count()]`, 'matches'],
    ['matches an hour: median, p99, max', spread('number'), HOURS],
    [
      'part that won of purchases by takers at 18 to 22 cents',
      '[avg(won)]',
      `(SELECT if(outcome_index = 0, payout_0, payout_1) > 0 AS won FROM matches
        JOIN (SELECT condition_id, payout_0, payout_1 FROM resolutions FINAL) AS r USING condition_id
        WHERE side = 'BUY' AND usdc BETWEEN shares * 0.18 AND shares * 0.22)`,
    ],
    ['rows of bookings that are settlements', "[avg(kind = 'settlement')]", 'bookings'],
  ];
  const rows: { what: string; value: string }[] = [];
  for (const [what, figures, source = 'system.one'] of asked) {
    const [row] = await parts.query<{ found: readonly number[] }>(
      `SELECT CAST(${figures}, 'Array(Float64)') AS found FROM ${source}`,
    );
    rows.push({ what, value: (row?.found ?? []).map(readable).join(', ') });
  }
  return rows;
}

/** Median, 99th percentile and maximum of a column. */
function spread(column: string): string {
  return `arrayConcat(quantilesExact(0.5, 0.99)(${column}), [max(${column})])`;
}
