/**
 * `GET /v2/biggest_trades`: the largest matches of the last hours in all markets. The table `matches` is sorted by market,
 * but has a projection by time.
 */
import { z } from 'zod';
import { endpoint } from '../http/endpoint.ts';
import { integer } from '../http/parameters.ts';
import { type Call, SHARED } from './call.ts';
import { isoSecond } from './format.ts';
import { MarketV2, readMarketsV2 } from './market-object.ts';
import { matchColumns, TradeV2, tradeV2 } from './market-trades.ts';
import { ProfileV2, readProfilesV2 } from './profiles.ts';
import { read } from './query.ts';
import { hexText, rowOf } from './rows.ts';
import { time } from './schemas.ts';

const HOUR_SECONDS = 3_600;
const HOURS_MAX = 24;
const LIMIT_DEFAULT = 20;
const LIMIT_MAX = 100;

const Row = rowOf({ ...matchColumns, conditionId: hexText('condition_id') });

/** Each match once, because a row can occur twice. */
const LARGEST = `ORDER BY usdc DESC, block_number DESC, log_index DESC
  LIMIT 1 BY condition_id, block_number, log_index
  LIMIT {limit:UInt32}`;

/** Finds the largest matches in the projection, then reads the other columns of those matches alone. */
const SQL = `
SELECT ${Row.columns}
FROM matches
WHERE (condition_id, block_number, log_index) GLOBAL IN (
  SELECT condition_id, block_number, log_index
  FROM matches
  WHERE block_time >= toDateTime({from:UInt32}, 'UTC')
  ${LARGEST}
)
${LARGEST}
SETTINGS optimize_use_projections = 1`;

export const biggestTradesV2 = endpoint({
  name: 'biggestTrades',
  path: '/v2/biggest_trades',
  summary: 'Biggest trades',
  description: `The largest final matches of the last hours in all markets, by value without the fee, then newest first. Each match
appears once, with the fill of its taker.`,
  parameters: z.object({
    hours: integer(1, HOURS_MAX).default(1).describe('number of hours up to now'),
    limit: integer(1, LIMIT_MAX).default(LIMIT_DEFAULT).describe('maximum matches'),
  }),
  answer: z.object({
    from: time('start of the period'),
    trades: z.array(
      TradeV2.omit({ match_id: true }).extend({ taker: ProfileV2, market: MarketV2 }),
    ),
  }),
  list: 'trades',
  problems: [],
  keep: SHARED,
  async run(call: Call, { hours, limit }) {
    const from = Math.floor(call.now() / 1_000) - hours * HOUR_SECONDS;
    const rows = await read(call, { sql: SQL, parameters: { from, limit }, row: Row });
    const [marketOf, profileOf] = await Promise.all([
      readMarketsV2(
        call,
        rows.map((row) => row.conditionId),
      ),
      readProfilesV2(
        call,
        rows.map((row) => row.taker),
      ),
    ]);
    const trades = rows.map((row) => {
      const { market, outcomes } = marketOf(row.conditionId);
      return { ...tradeV2(row, outcomes), taker: profileOf(row.taker), market };
    });
    return { from: isoSecond(from), trades };
  },
});
