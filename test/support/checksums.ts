/**
 * The content of every projection table as numbers, which must be equal for two runs over the same
 * LEDGER or chain, and its sums by tag, which must be equal for all aggregates of one run.
 */
type Query = <Row>(sql: string) => Promise<readonly Row[]>;

/** Chain columns of every table, as one number each: sequences and batches may differ. */
const CHECKSUMS = {
  bookings: `SELECT count() AS rows, toString(groupBitXor(cityHash64(kind, block_number, block_time,
      log_index, event_log_index, tx_hash, condition_id, trader, order_hash, is_taker, side,
      outcome_index, token_id, shares, usdc, fee, realised_pnl, realised_cost, position_outcome,
      position_shares, position_cost, position_fees, partition, leg))) AS hash FROM bookings`,
  trader_hours: sums('trader_hours', 'trader, hour, condition_id'),
  trader_markets: sums(
    'trader_markets',
    'trader, condition_id',
    ', min(first_trade_at), max(last_trade_at), max(position)',
  ),
  market_traders: sums(
    'market_traders',
    'condition_id, trader',
    ', min(first_trade_at), max(last_trade_at), max(position)',
  ),
  trader_market_hours: `SELECT count() AS rows, toString(groupBitXor(hash)) AS hash FROM (
      SELECT cityHash64(trader, condition_id, hour, max(position)) AS hash
      FROM trader_market_hours GROUP BY trader, condition_id, hour)`,
  market_bookings: `SELECT count() AS rows, toString(groupBitXor(cityHash64(condition_id, trader,
      block_number, log_index, kind, block_time, outcome_index, side, shares, usdc, fee, realised_pnl,
      realised_cost, order_hash, is_taker, token_id))) AS hash FROM market_bookings FINAL`,
  bookings_by_time: `SELECT count() AS rows, toString(groupBitXor(cityHash64(*))) AS hash FROM bookings_by_time`,
  movements: `SELECT count() AS rows, toString(groupBitXor(cityHash64(*))) AS hash FROM movements`,
  matches: `SELECT count() AS rows, toString(groupBitXor(cityHash64(*))) AS hash FROM matches FINAL`,
  market_minutes: `SELECT count() AS rows, toString(groupBitXor(hash)) AS hash FROM (
      SELECT cityHash64(condition_id, minute, min(open), max(close), min(low), max(high), sum(volume),
        sum(shares), sum(usdc), sum(matches)) AS hash
      FROM market_minutes GROUP BY condition_id, minute)`,
  market_days: `SELECT count() AS rows, toString(groupBitXor(hash)) AS hash FROM (
      SELECT cityHash64(condition_id, day, max(close)) AS hash
      FROM market_days GROUP BY condition_id, day)`,
  market_marks: `SELECT count() AS rows, toString(groupBitXor(hash)) AS hash FROM (
      SELECT cityHash64(condition_id, max(last), min(first_match_at), sum(volume), sum(matches)) AS hash
      FROM market_marks GROUP BY condition_id)`,
  trader_activity: `SELECT count() AS rows, toString(groupBitXor(cityHash64(trader, first_trade_at,
      last_trade_at, fills))) AS hash FROM trader_activity FINAL`,
  resolutions: `SELECT count() AS rows, toString(groupBitXor(cityHash64(condition_id, payout_0,
      payout_1, parts_0, parts_1, resolved_at))) AS hash FROM resolutions FINAL`,
  // Only traded markets, because a market that closed before the service started and was never traded
  // is not requested.
  markets: `SELECT count() AS rows, toString(groupBitXor(cityHash64(condition_id, market_id, question,
      tags))) AS hash FROM markets FINAL WHERE condition_id IN (SELECT condition_id FROM bookings)`,
};

function sums(table: string, key: string, more = ''): string {
  return `SELECT count() AS rows, toString(groupBitXor(hash)) AS hash FROM (
    SELECT cityHash64(${key}, sum(realised_pnl), sum(realised_cost), sum(fee), sum(maker_volume),
      sum(taker_volume), sum(fills), sum(settlements)${more}) AS hash
    FROM ${table} GROUP BY ${key})`;
}

/** Sums of one table per tag; the four must agree to the micro-unit. */
function tagSums(table: string, columns: string): string {
  return `SELECT tag, toString(sum(pnl)) AS pnl, toString(sum(cost)) AS cost, toString(sum(fee)) AS fee,
      toString(sum(maker)) AS maker, toString(sum(taker)) AS taker, toString(sum(n)) AS fills
    FROM (SELECT realised_pnl AS pnl, realised_cost AS cost, ${columns},
      arrayJoin(arrayPushBack(dictGet('market_dictionary', 'tags',
        tuple(reinterpretAsUInt256(condition_id))), 'all')) AS tag FROM ${table})
    GROUP BY tag ORDER BY tag`;
}
const SUMMED = 'fee, maker_volume AS maker, taker_volume AS taker, fills AS n';
const BOOKED = `fee, if(kind = 'fill' AND NOT is_taker, usdc, 0) AS maker,
  if(kind = 'fill' AND is_taker, usdc, 0) AS taker, kind = 'fill' AS n`;

export async function checksums(query: Query) {
  const rows: Record<string, unknown> = {};
  for (const [table, sql] of Object.entries(CHECKSUMS)) [rows[table]] = await query(sql);
  return rows;
}

/** The raw rows' sums by tag, and those of each aggregate. */
export async function sumsByTag(query: Query) {
  return {
    raw: await query(tagSums('bookings', BOOKED)),
    trader_hours: await query(tagSums('trader_hours', SUMMED)),
    trader_markets: await query(tagSums('trader_markets', SUMMED)),
    market_traders: await query(tagSums('market_traders', SUMMED)),
  };
}
