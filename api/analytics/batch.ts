/**
 * `POST /v2/traders/batch`: profile, balance, tier, windows and position totals of up to 100 traders, with as many
 * statements as for one. Tags and weighted volume are left out, because they need every market of a trader.
 */
import { z } from 'zod';
import { Bytes } from '../../infra/clickhouse.ts';
import { endpoint } from '../http/endpoint.ts';
import { ADDRESS } from '../http/parameters.ts';
import { IS_COUNTED } from './bookings.ts';
import type { Call } from './call.ts';
import { checksummed, safeInteger } from './format.ts';
import { marksSql, valueSql } from './marks.ts';
import { holdingsSql, IS_CLOSED, positionTotals } from './positions.ts';
import { NO_PROFILE, ProfileV2, profileV2, readProfiles } from './profiles.ts';
import { MANY_ROWS, read } from './query.ts';
import { count as counted, hexText, int, type RowOf, rowOf } from './rows.ts';
import { checksummedAddress, count, time } from './schemas.ts';
import { eachWindow } from './time-frames.ts';
import { tierName, walletMembers } from './trader.ts';
import { beginsOf } from './trader-cells.ts';
import { total, WindowV2, windowV2 } from './trader-windows.ts';

const ADDRESSES_MAX = 100;

const Body = z.strictObject({
  addresses: z
    .array(
      z
        .string()
        .regex(ADDRESS, '0x and 40 hexadecimal digits')
        .meta({ examples: ['0x56687bf447db6ffa42ffe2204a05edaa20f55839'] }),
    )
    .min(1)
    .max(ADDRESSES_MAX)
    .describe('wallets of the traders; letter case and duplicates are ignored'),
});

const WindowRow = rowOf({
  address: hexText('trader'),
  window: counted('window'),
  pnl: int('sum(market_pnl)'),
  cost: int('sum(market_cost)'),
  makerVolume: int('sum(market_volume - market_taker_volume)'),
  takerVolume: int('sum(market_taker_volume)'),
  markets: counted('count()'),
  wins: counted('countIf(market_pnl > 0)'),
});

/** Bookings are summed once per market, for their shortest window. The few sums then count in the longer windows too. */
const WINDOWS_SQL = `
SELECT ${WindowRow.columns}
FROM
(
  SELECT
    trader,
    window,
    condition_id,
    sum(pnl) AS market_pnl,
    sum(cost) AS market_cost,
    sum(volume) AS market_volume,
    sum(taker_volume) AS market_taker_volume
  FROM
  (
    SELECT
      trader,
      arrayCount(begin -> block_time < begin, {begins:Array(UInt32)}) AS shortest,
      condition_id,
      sum(realised_pnl) AS pnl,
      sum(realised_cost) AS cost,
      sumIf(usdc, kind = 'fill') AS volume,
      sumIf(usdc, is_taker) AS taker_volume
    FROM bookings
    WHERE trader IN {traders:Array(FixedString(20))} AND block_time >= toDateTime({since:UInt32}, 'UTC')
      AND block_time <= toDateTime({now:UInt32}, 'UTC') AND ${IS_COUNTED}
    GROUP BY trader, shortest, condition_id
  )
  ARRAY JOIN range(shortest, length({begins:Array(UInt32)})) AS window
  GROUP BY trader, window, condition_id
)
GROUP BY trader, window
${MANY_ROWS}`;

const TotalsRow = rowOf({
  address: hexText('trader'),
  open: counted('countIf(shares > 0)'),
  value: int('sum(value)'),
  cost: int('sum(cost_basis)'),
  fees: int('sum(open_fees)'),
  unrealised: int('sum(unrealised)'),
  realised: int('sum(realised)'),
  closed: counted(`countIf(${IS_CLOSED})`),
  won: counted(`countIf(${IS_CLOSED} AND realised > 0)`),
});

const TRADERS = '{traders:Array(FixedString(20))}';
const MARKETS = `(SELECT condition_id FROM trader_markets WHERE trader IN ${TRADERS})`;
const PAID = 'cost_basis + open_fees';

/** A market's first match and its mark may not be visible at once. Without a mark, a position is worth what it cost. */
const TOTALS_SQL = `
SELECT ${TotalsRow.columns}
FROM
(
  SELECT
    holdings.*,
    if(markets.condition_id = '', ${PAID}, ${valueSql('outcome', 'shares', 'mark.3', 'mark.4')}) AS value,
    value - (${PAID}) AS unrealised
  FROM ${holdingsSql(TRADERS)} AS holdings
  LEFT JOIN ${marksSql(MARKETS)} AS markets ON holdings.condition_id = markets.condition_id
)
GROUP BY trader
${MANY_ROWS}`;

const Trader = z.object({
  profile: ProfileV2,
  ...walletMembers,
  last_trade_at: time('newest trade, or empty'),
  windows: z.object(eachWindow(() => WindowV2)).describe('the last hour to the last 30 days'),
  positions: z
    .object({ open_count: count('positions with shares'), ...positionTotals })
    .describe(
      'totals over all markets of the trader, as in `/v2/traders/:address/positions?status=all`',
    ),
});

export const tradersBatch = endpoint({
  name: 'traders',
  method: 'post',
  path: '/v2/traders/batch',
  summary: 'Batch of traders',
  description: `Up to 100 traders side by side, in the order of the addresses: profile, balance, tier, time windows and position totals.
Windows end now and are exact to the second. Tags and weighted volume are only in \`/v2/traders/:address\`.

Addresses without trades and without a public profile are in \`unknown\`. The request stores nothing, so an
\`Idempotency-Key\` has no effect.`,
  parameters: z.object({}),
  body: Body,
  answer: z.object({
    traders: z.array(Trader),
    unknown: z
      .array(checksummedAddress)
      .describe('requested addresses without trades and without a public profile'),
  }),
  list: 'traders',
  problems: [],
  async run(call: Call, _, body) {
    const addresses = [...new Set(body.addresses.map((address) => address.toLowerCase()))];
    const now = Math.floor(call.now() / 1_000);
    const begins = beginsOf(now);
    const parameters = {
      ...{ traders: new Bytes(addresses), now },
      ...{ since: begins.at(-1), begins: `[${begins}]` },
    };
    const [profileOf, profiles, balances, windows, totals] = await Promise.all([
      readProfiles(call, addresses),
      call.metadata.profiles(addresses),
      call.metadata.balances(addresses),
      read(call, { sql: WINDOWS_SQL, parameters, row: WindowRow }),
      read(call, { sql: TOTALS_SQL, parameters, row: TotalsRow }),
    ]);
    const windowsOf = Map.groupBy(windows, (row) => row.address);
    const totalsOf = new Map(totals.map((row) => [row.address, row] as const));
    const isKnown = (address: string) => {
      const { last_trade_at, name, profile_created_at } = profileOf(address);
      return last_trade_at !== '' || name !== '' || profile_created_at !== '';
    };
    const [known, unknown] = [
      addresses.filter(isKnown),
      addresses.filter((address) => !isKnown(address)),
    ];
    const traders = known.map((address) => {
      const profile = profileOf(address);
      const synced = profiles.get(address) ?? NO_PROFILE;
      const own = windowsOf.get(address) ?? [];
      return {
        profile: profileV2(profile),
        pusd_balance: safeInteger(balances.get(address) ?? 0n),
        taker_tier: synced.taker_tier,
        taker_tier_name: tierName(synced),
        last_trade_at: profile.last_trade_at,
        windows: eachWindow((at) => windowV2(total(own.filter(({ window }) => window === at)))),
        positions: totalsV2(totalsOf.get(address)),
      };
    });
    return { traders, unknown: unknown.map(checksummed) };
  },
});

function totalsV2(row: RowOf<typeof TotalsRow> | undefined) {
  return {
    open_count: row?.open ?? 0,
    value: safeInteger(row?.value ?? 0n),
    cost_basis: safeInteger(row?.cost ?? 0n),
    open_fees: safeInteger(row?.fees ?? 0n),
    unrealised_pnl: safeInteger(row?.unrealised ?? 0n),
    realised_pnl: safeInteger(row?.realised ?? 0n),
    closed_count: row?.closed ?? 0,
    closed_won_count: row?.won ?? 0,
  };
}
