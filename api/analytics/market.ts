/**
 * `GET /v1|v2/markets/:id`: the market, its totals over all traders and its top earners. `total_volume` sums the
 * traders' own fills, so both sides of a match count. Totals and earners come from one pass over the market's traders.
 */
import { z } from 'zod';
import { Bytes } from '../../infra/clickhouse.ts';
import { endpoint } from '../http/endpoint.ts';
import { type MarketKey, marketKey } from '../http/parameters.ts';
import { HAS_COUNTED } from './bookings.ts';
import { type Call, SHARED } from './call.ts';
import { isoSecond, percent, safeInteger } from './format.ts';
import {
  findMarket,
  knownListing,
  MarketV1,
  MarketV2,
  marketV1,
  marketV2,
  type Resolution,
  readResolutions,
  withTokens,
} from './market-object.ts';
import { type Mark, MarketMark, marketMark, markPrice } from './marks.ts';
import { ProfileV1, ProfileV2, readProfiles, readProfilesV2 } from './profiles.ts';
import { FEW_ROWS, newestOf, read } from './query.ts';
import {
  bigint,
  count as counted,
  hex,
  hexSql,
  int,
  type RowOf,
  type RowSchema,
  rowOf,
  seconds,
  typed,
} from './rows.ts';
import { amount, count, percentage, rank, time, usd, usdcText } from './schemas.ts';

const TOP_EARNERS_MAX = 20;

const totals = {
  total_volume: int('sum(maker_volume + taker_volume)'),
  total_pnl_distributed: int('sumIf(realised_pnl, realised_pnl > 0)'),
  total_traders: counted(`countIf(${HAS_COUNTED})`),
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
};
const Totals = rowOf(totals);
const TotalsV2 = rowOf({ ...totals, open_interest: int('sum(held)') });

/** FINAL merges the parts of a row into one per trader. */
const TOTALS_SQL = `
SELECT ${Totals.columns}
FROM market_traders FINAL
WHERE condition_id = {condition_id:FixedString(32)}`;

/** Without FINAL, which would take the elements of a position from different rows. */
const TOTALS_V2_SQL = `
SELECT ${TotalsV2.columns}
FROM
(
  SELECT
    trader,
    sum(market_traders.realised_pnl) AS realised_pnl,
    sum(market_traders.realised_cost) AS realised_cost,
    sum(market_traders.maker_volume) AS maker_volume,
    sum(market_traders.taker_volume) AS taker_volume,
    sum(market_traders.fills) AS fills,
    sum(market_traders.settlements) AS settlements,
    argMax(if(position.outcome = 0, position.shares, 0), position.version) AS held
  FROM market_traders
  WHERE condition_id = {condition_id:FixedString(32)}
  GROUP BY trader
)
${FEW_ROWS}`;

const VWAP_SECONDS = 300;

const MatchesRow = rowOf({
  version: int('last.version'),
  usdc: int('last.usdc'),
  shares: int('last.shares'),
  time: seconds('last.time'),
  volume: int('volume'),
  matches: counted('matches'),
  firstAt: seconds('first_match_at'),
});

/** Sums of all matches, each counted once, and the last match with shares. Each unmerged part of the table has a row. */
const MATCHES_SQL = `
SELECT ${MatchesRow.columns}
FROM market_marks
WHERE condition_id = {condition_id:FixedString(32)}
${FEW_ROWS}`;

const RecentRow = rowOf({
  usdc: int('sum(if(outcome_index = 0, usdc, shares - usdc))'),
  shares: int('sum(shares)'),
});

/** Sums of the recent matches, at prices of the first outcome. */
const RECENT_SQL = `
SELECT ${RecentRow.columns}
FROM matches FINAL
WHERE condition_id = {condition_id:FixedString(32)} AND shares > 0
  AND block_time >= toDateTime({since:UInt32}, 'UTC') AND block_time <= toDateTime({now:UInt32}, 'UTC')`;

const totalsSchema = <Money extends z.ZodType, Profile extends z.ZodType>(
  money: (what: string) => Money,
  profile: Profile,
) => ({
  total_volume: money('sum over all traders of their own fills, so both sides of a match count'),
  total_pnl_distributed: money('sum of the PnLs above 0'),
  total_traders: count('traders with a fill or a settlement in this market'),
  top_earners: z.array(
    z.object({
      profile,
      pnl: money('realised PnL in this market'),
      volume: money("value of the trader's own fills"),
      roi: percentage('realised PnL divided by the cost of the closed shares'),
      rank: rank('rank among the earners'),
    }),
  ),
  total_winners: count('traders whose realised PnL in this market is above 0'),
});

const AnswerV1 = z.object({ market: MarketV1, ...totalsSchema(usdcText, ProfileV1) });

const AnswerV2 = z.object({
  market: MarketV2,
  mark: MarketMark,
  vwap_5m: z
    .int()
    .nullable()
    .meta({
      description:
        'price of the first outcome over the matches of the last five minutes, weighted by shares, rounded to nearest, micro-USD a share; null without a match',
      examples: [618_000],
    }),
  volume: amount('value of all matches, each counted once by the fill of its taker, micro-USD'),
  matches: count('number of matches'),
  first_match_at: time('first match, or empty'),
  open_interest: amount('held micro-shares of the first outcome, which equal those of the second'),
  ...totalsSchema(usd, ProfileV2),
});

const DESCRIPTION = `A market with its volume, numbers of traders and winners, and top earners; v2 adds its price and open interest. Top
earners are up to 20 traders with the highest PnL above 0, ranked by PnL, then volume, then address. \`/v1/market_data\` has
every trader.

A condition id also finds a market without a listing. A reused slug means the newest market.`;

const Parameters = z.object({ id: marketKey.describe('market id, condition id or slug') });

export const marketDetailV1 = endpoint({
  name: 'market',
  path: '/v1/markets/:id',
  summary: 'Market (v1)',
  description: DESCRIPTION,
  parameters: Parameters,
  answer: AnswerV1,
  problems: ['not_found'],
  keep: SHARED,
  async run(call: Call, { id }) {
    const [row] = await readMarket(call, id, {
      totals: { sql: TOTALS_SQL, row: Totals },
      profiles: readProfiles,
      more: () => undefined,
    });
    return { market: marketV1(row.listing, row.resolution), ...totalsOf(row, String) };
  },
});

export const marketDetailV2 = endpoint({
  name: 'market',
  path: '/v2/markets/:id',
  summary: 'Market',
  description: DESCRIPTION,
  parameters: Parameters,
  answer: AnswerV2,
  problems: ['not_found'],
  keep: SHARED,
  async run(call: Call, { id }) {
    const [row, { last, volume, matches, firstAt, recent }] = await readMarket(call, id, {
      totals: { sql: TOTALS_V2_SQL, row: TotalsV2 },
      profiles: readProfilesV2,
      more: readMatches,
    });
    const [listing = row.listing] = await withTokens(call, [row.listing]);
    return {
      market: marketV2(listing, row.resolution),
      mark: marketMark(markOf(row.resolution, last)),
      vwap_5m: recent.shares === 0n ? null : safeInteger(markPrice(recent, 0)),
      volume: safeInteger(volume),
      matches,
      first_match_at: isoSecond(firstAt),
      open_interest: safeInteger(row.open_interest),
      ...totalsOf(row, safeInteger),
    };
  },
});

function totalsOf<Money, Profile>(
  row: RowOf<typeof Totals> & { readonly profileOf: (address: string) => Profile },
  shown: (amount: bigint) => Money,
) {
  return {
    total_volume: shown(row.total_volume),
    total_pnl_distributed: shown(row.total_pnl_distributed),
    total_traders: row.total_traders,
    top_earners: row.earners.map(({ address, pnl, volume, cost }, index) => ({
      profile: row.profileOf(address),
      pnl: shown(pnl),
      volume: shown(volume),
      roi: percent(pnl, cost),
      rank: index + 1,
    })),
    total_winners: row.total_winners,
  };
}

/** Figures that only v2 has. */
async function readMatches(call: Call, conditionId: string) {
  const now = Math.floor(call.now() / 1_000);
  const condition_id = new Bytes(conditionId);
  const parameters = { condition_id, now, since: now - VWAP_SECONDS };
  const [rows, [recent]] = await Promise.all([
    read(call, { sql: MATCHES_SQL, parameters: { condition_id }, row: MatchesRow }),
    read(call, { sql: RECENT_SQL, parameters, row: RecentRow }),
  ]);
  if (recent === undefined) throw new Error('expected one row of sums, got none');
  return {
    last: newestOf(rows),
    volume: rows.reduce((sum, row) => sum + row.volume, 0n),
    matches: rows.reduce((sum, row) => sum + row.matches, 0),
    firstAt: rows.length === 0 ? 0 : Math.min(...rows.map((row) => row.firstAt)),
    recent,
  };
}

/** The payout of a resolved market, otherwise its last match with shares. */
function markOf(
  resolution: Resolution | undefined,
  last: RowOf<typeof MatchesRow> | undefined,
): Mark | undefined {
  if (resolution !== undefined) {
    const { payout_0, payout_1, resolved_at } = resolution;
    return { source: 'resolution', time: resolved_at, usdc: payout_0, shares: payout_0 + payout_1 };
  }
  if (last === undefined || last.version === 0n) return undefined;
  return { source: 'last_match', time: last.time, usdc: last.usdc, shares: last.shares };
}

/** `more` is read in parallel with the rest. Throws Problem 404 if the market is unknown. */
async function readMarket<Row extends RowOf<typeof Totals>, Profile, More>(
  call: Call,
  key: MarketKey,
  {
    totals,
    profiles,
    more,
  }: {
    readonly totals: { readonly sql: string; readonly row: RowSchema<Row> };
    readonly profiles: (
      call: Call,
      addresses: readonly string[],
    ) => Promise<(address: string) => Profile>;
    readonly more: (call: Call, conditionId: string) => More;
  },
) {
  const { conditionId, listing } = await findMarket(call, key);
  const parameters = { condition_id: new Bytes(conditionId) };
  const [[sums], besides] = await Promise.all([
    read(call, { ...totals, parameters }),
    more(call, conditionId),
  ]);
  if (sums === undefined) throw new Error('expected one row of sums, got none');
  const earners = sums.earners.map(({ address }) => address);
  // Read after the sums, because resolutions are stored before the settlements that they cause.
  const [resolutions, profileOf] = await Promise.all([
    readResolutions(call, [conditionId]),
    profiles(call, earners),
  ]);
  const resolution = resolutions.get(conditionId);
  const known = knownListing(key, listing, { traders: sums.total_traders, resolution });
  return [{ ...sums, listing: known, resolution, profileOf }, besides] as const;
}
