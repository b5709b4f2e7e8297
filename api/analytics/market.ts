/**
 * `GET /v1|v2/markets/:id` : the market, its totals over all traders and its top earners.
 * total_volume sums the traders' own fills, so both sides of a match count. Totals and
 * earners come from one pass over the market's traders.
 */
import { z } from 'zod';
import { Bytes } from '../../infra/clickhouse.ts';
import { endpoint } from '../endpoint.ts';
import { type MarketKey, marketKey } from '../parameters.ts';
import type { Call } from './call.ts';
import { percent, safeInteger } from './format.ts';
import {
  findMarket,
  knownListing,
  MarketV1,
  MarketV2,
  marketV1,
  marketV2,
  readResolutions,
  withTokens,
} from './market-object.ts';
import { MarketMark, marketMark, markPrice, readMarks } from './marks.ts';
import { ProfileV1, ProfileV2, profileV2, readProfiles } from './profiles.ts';
import { read } from './query.ts';
import { bigint, count as counted, hex, hexSql, int, rowOf, typed } from './rows.ts';
import { amount, amountText, count, percentage } from './schemas.ts';

const TOP_EARNERS_MAX = 20;

const Row = rowOf({
  total_volume: int('sum(maker_volume + taker_volume)'),
  total_pnl_distributed: int('sumIf(realised_pnl, realised_pnl > 0)'),
  total_traders: counted('count()'),
  total_winners: counted('countIf(realised_pnl > 0)'),
  // Sorted ascending, so the values are negated.
  earners: typed(
    `arrayMap(one -> (-one.1, -one.2, ${hexSql('one.3')}, one.4),
    groupArraySortedIf(${TOP_EARNERS_MAX})(
      (-realised_pnl, -(maker_volume + taker_volume), trader, realised_cost),
      realised_pnl > 0))`,
    z
      .array(z.tuple([bigint, bigint, hex, bigint]))
      .transform((all) =>
        all.map(([pnl, volume, address, cost]) => ({ address, pnl, volume, cost })),
      ),
  ),
});

/** FINAL merges the parts of a row into one per trader. */
const SQL = `
SELECT ${Row.columns}
FROM market_traders FINAL
WHERE condition_id = {condition_id:FixedString(32)}`;

const VWAP_SECONDS = 300;

const SumsRow = rowOf({
  volume: int('sum(value)'),
  matches: counted('sum(number)'),
  open_interest: int('sum(held)'),
  recentUsdc: int('sum(recent_usdc)'),
  recentShares: int('sum(recent_shares)'),
});

/** Of matches, each once; the recent ones at prices of the first outcome. */
const SUMS_SQL = `
SELECT ${SumsRow.columns}
FROM
(
  SELECT sum(volume) AS value, sum(matches) AS number, toInt64(0) AS held, toInt64(0) AS recent_usdc,
    toInt64(0) AS recent_shares
  FROM market_marks
  WHERE condition_id = {condition_id:FixedString(32)}
  UNION ALL
  SELECT 0, 0, sumIf(position.shares, position.outcome = 0), 0, 0
  FROM
  (
    SELECT max(position) AS position
    FROM market_traders
    WHERE condition_id = {condition_id:FixedString(32)}
    GROUP BY trader
  )
  UNION ALL
  SELECT 0, 0, 0, sum(if(outcome_index = 0, usdc, shares - usdc)), sum(shares)
  FROM matches FINAL
  WHERE condition_id = {condition_id:FixedString(32)} AND shares > 0
    AND block_time >= toDateTime({since:UInt32}, 'UTC') AND block_time <= toDateTime({now:UInt32}, 'UTC')
)`;

const VOLUME = 'sum over all traders of their own fills, so both sides of a match count';
const TRADERS = count('traders with a fill or a settlement in this market');
const WINNERS = count('traders whose realised PnL in this market is above 0');
const RANK = z
  .int()
  .min(1)
  .meta({ description: 'position among the earners', examples: [1] });

const AnswerV1 = z.object({
  market: MarketV1,
  total_volume: amountText(`${VOLUME}, micro-USDC`),
  total_pnl_distributed: amountText('sum of the PnLs above 0, micro-USDC'),
  total_traders: TRADERS,
  top_earners: z.array(
    z.object({
      profile: ProfileV1,
      pnl: amountText('realised PnL in this market, micro-USDC'),
      volume: amountText("value of the trader's own fills, micro-USDC"),
      roi: percentage('realised PnL divided by the cost of the closed shares'),
      rank: RANK,
    }),
  ),
  total_winners: WINNERS,
});

const AnswerV2 = z.object({
  market: MarketV2,
  mark: MarketMark,
  vwap_5m: z
    .int()
    .nullable()
    .meta({
      description:
        'price of the first outcome over the matches of the last five minutes, weighted by shares, rounded down, micro-USD a share; null without a match',
      examples: [618_000],
    }),
  volume: amount('value of all matches, each once with the fill of its taker, micro-USD'),
  matches: count('number of matches'),
  open_interest: amount('micro-shares held of the first outcome, which equal those of the second'),
  total_volume: amount(`${VOLUME}, micro-USD`),
  total_pnl_distributed: amount('sum of the PnLs above 0, micro-USD'),
  total_traders: TRADERS,
  top_earners: z.array(
    z.object({
      profile: ProfileV2,
      pnl: amount('realised PnL in this market, micro-USD'),
      volume: amount("value of the trader's own fills, micro-USD"),
      roi: percentage('realised PnL divided by the cost of the closed shares'),
      rank: RANK,
    }),
  ),
  total_winners: WINNERS,
});

const DESCRIPTION =
  'Totals over all traders, and up to 20 traders with the greatest PnL above 0, ranked by PnL, then volume, then address. A condition id also finds a market without a listing; a slug that was used again means the newest market. `/v1/market_data` has every trader.';

const Parameters = z.object({ id: marketKey.describe('market id, condition id or slug') });

export const marketDetailV1 = endpoint({
  path: '/v1/markets/:id',
  summary: 'One market with its totals and top earners',
  description: DESCRIPTION,
  parameters: Parameters,
  answer: AnswerV1,
  problems: ['not_found'],
  async run(call: Call, { id }) {
    const row = await readMarket(call, id, () => undefined);
    return {
      market: marketV1(row.listing, row.resolution),
      total_volume: row.total_volume.toString(),
      total_pnl_distributed: row.total_pnl_distributed.toString(),
      total_traders: row.total_traders,
      top_earners: row.earners.map(({ address, pnl, volume, cost }, index) => ({
        profile: row.profileOf(address),
        pnl: pnl.toString(),
        volume: volume.toString(),
        roi: percent(pnl, cost),
        rank: index + 1,
      })),
      total_winners: row.total_winners,
    };
  },
});

export const marketDetailV2 = endpoint({
  path: '/v2/markets/:id',
  summary: 'One market with its price, totals and top earners, amounts as numbers',
  description: DESCRIPTION,
  parameters: Parameters,
  answer: AnswerV2,
  problems: ['not_found'],
  async run(call: Call, { id }) {
    const row = await readMarket(call, id, readPrices);
    const { mark, sums } = row.more;
    const [listing = row.listing] = await withTokens(call, [row.listing]);
    const recent = { usdc: sums.recentUsdc, shares: sums.recentShares };
    return {
      market: marketV2(listing, row.resolution),
      mark: marketMark(mark),
      vwap_5m: recent.shares === 0n ? null : safeInteger(markPrice(recent, 0)),
      volume: safeInteger(sums.volume),
      matches: sums.matches,
      open_interest: safeInteger(sums.open_interest),
      total_volume: safeInteger(row.total_volume),
      total_pnl_distributed: safeInteger(row.total_pnl_distributed),
      total_traders: row.total_traders,
      top_earners: row.earners.map(({ address, pnl, volume, cost }, index) => ({
        profile: profileV2(row.profileOf(address)),
        pnl: safeInteger(pnl),
        volume: safeInteger(volume),
        roi: percent(pnl, cost),
        rank: index + 1,
      })),
      total_winners: row.total_winners,
    };
  },
});

/** What only v2 shows. */
async function readPrices(call: Call, conditionId: string) {
  const now = Math.floor(call.now() / 1_000);
  const condition_id = new Bytes(conditionId);
  const parameters = { condition_id, now, since: now - VWAP_SECONDS };
  const [marks, [sums]] = await Promise.all([
    readMarks(call, [conditionId]),
    read(call, { sql: SUMS_SQL, parameters, row: SumsRow }),
  ]);
  if (sums === undefined) throw new Error('one row of sums expected, got none');
  return { mark: marks.get(conditionId), sums };
}

/** `more` is read beside the rest. Throws Problem 404 if the market is unknown. */
async function readMarket<More>(
  call: Call,
  key: MarketKey,
  readMore: (call: Call, conditionId: string) => More,
) {
  const { conditionId, listing } = await findMarket(call, key);
  const parameters = { condition_id: new Bytes(conditionId) };
  const [resolutions, [totals], more] = await Promise.all([
    readResolutions(call, [conditionId]),
    read(call, { sql: SQL, parameters, row: Row }),
    readMore(call, conditionId),
  ]);
  if (totals === undefined) throw new Error('one row of sums without a key expected, got none');
  const resolution = resolutions.get(conditionId);
  return {
    ...totals,
    listing: knownListing(key, listing, { traders: totals.total_traders, resolution }),
    resolution,
    more,
    profileOf: await readProfiles(
      call,
      totals.earners.map(({ address }) => address),
    ),
  };
}
