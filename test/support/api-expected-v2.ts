/**
 * What the v2 endpoints and the history of markets should answer, by plain sums over the bookings of
 * api-expected.ts.
 */
import { getAddress } from 'viem';
import {
  addressOf,
  type Booking,
  conditionOf,
  countsUnder,
  MARKETS,
  ratio,
  seriesOf,
  totalsOf,
  UNLISTED_TOKENS,
} from './api-bookings.ts';
import {
  expectedHours,
  expectedMarket,
  expectedMarketObject,
  expectedOrders,
  expectedTags,
  hourOf,
  isResolved,
  lastTrade,
  NOW,
  profileObject,
  rows,
  time,
} from './api-expected.ts';

/** Each market's weight in tenths, looked up by hand: the least among its tags, else "other". */
const WEIGHT_TENTHS = [10n, 10n, 23n, 23n, 0n, 13n, 17n, 17n];
const TIERS = ['Tier 0', 'Bronze', 'Silver', 'Gold', 'Platinum', 'Diamond', 'Obsidian'];

/** What the public profile says of a trader; trader 6's says nothing of tiers. */
export function tierOf(trader: number) {
  if (trader % 3 !== 0 || trader === 6) return undefined;
  return { tier: (trader / 3) % 7, volume: trader * 1_000 + 0.25 };
}

/** 0 where no balance was ever synced. */
export function balanceOf(trader: number): number {
  return trader % 4 === 0 ? 1_000_000 * trader + 7 : 0;
}

/** Every amount of a v1 object, an integer as text, as a number. */
export function numbers<Value extends object>(value: Value, ...names: (keyof Value)[]) {
  const amounts = names.map((name) => [name, Number(value[name])]);
  return { ...value, ...Object.fromEntries(amounts) };
}

export function profileV2(trader: string) {
  return { ...profileObject(trader), address: getAddress(trader) };
}

export function expectedHistory(trader: string, isActive?: boolean) {
  const byMarket = Map.groupBy(
    rows.filter((row) => row.trader === trader),
    (row) => row.market,
  );
  return [...byMarket]
    .filter(([market]) => isActive === undefined || isResolved(market) !== isActive)
    .map(([market, list]) => ({ market, list, newest: newestFill(list) }))
    .sort((a, b) => b.newest - a.newest || (conditionOf(a.market) < conditionOf(b.market) ? -1 : 1))
    .map(({ market, list, newest }) => {
      const totals = totalsOf(list);
      return {
        pnl: String(totals.pnl),
        volume: String(totals.maker + totals.taker),
        roi: ratio(totals.pnl, totals.cost),
        last_trade_at: time(newest),
        market: expectedMarketObject(market),
        orders: expectedOrders(trader, market),
        number: market,
      };
    });
}

export function marketV2(market: number) {
  const object = expectedMarketObject(market);
  return {
    ...object,
    id: Number(object.id),
    condition_id: `0x${conditionOf(market)}`,
    token_ids: MARKETS[market]?.tokens ?? UNLISTED_TOKENS,
    result: { 0: 100, 2: 50 }[market] ?? -2,
  };
}

export function expectedHistoryV2(trader: string) {
  return expectedHistory(trader).map(({ number, ...entry }) => ({
    ...numbers(entry, 'pnl', 'volume'),
    market: marketV2(number),
    orders: entry.orders.map(orderV2),
  }));
}

export function orderV2(order: ReturnType<typeof expectedOrders>[number]) {
  const { price, order_hash, token_id, ...rest } = order;
  return numbers(rest, 'fee', 'shares', 'usdc');
}

export function expectedMarketV2(market: number) {
  const v1 = expectedMarket(market);
  return {
    ...numbers(v1, 'total_volume', 'total_pnl_distributed'),
    market: marketV2(market),
    top_earners: v1.top_earners.map((earner) => ({
      ...numbers(earner, 'pnl', 'volume'),
      profile: profileV2(earner.profile.address),
    })),
  };
}

export function expectedHoursV2(trader: string, tag: string, series?: string) {
  const from = NOW - 2_592_000;
  const hours = expectedHours(trader, tag, from, NOW, (market) => inSeries(market, series));
  const own = rows.filter(
    (row) => row.trader === trader && countsUnder(row.market, tag) && inSeries(row.market, series),
  );
  return hours.map(({ volume, ...hour }) => {
    const list = own.filter((row) => time(hourOf(row.time), ' ').startsWith(hour.hour));
    return {
      ...numbers(hour, 'pnl', 'maker_volume', 'taker_volume'),
      cost_basis: Number(totalsOf(list).cost),
      fee: Number(list.reduce((sum, row) => sum + row.fee, 0n)),
    };
  });
}

/** The v2 profile of a trader at NOW. */
export function expectedTrader(trader: number, tag = 'all', series?: string) {
  const address = addressOf(trader);
  const synced = tierOf(trader);
  const keeps = (row: Booking) => countsUnder(row.market, tag) && inSeries(row.market, series);
  const isRestricted = tag !== 'all' || series !== undefined;
  return {
    profile: profileV2(address),
    pusd_balance: balanceOf(trader),
    taker_tier: synced?.tier ?? 0,
    taker_tier_name: synced === undefined ? '' : TIERS[synced.tier],
    top_tags: expectedTags(address, keeps)
      .slice(0, 5)
      .map((entry) => numbers(entry, 'pnl', 'volume', 'maker_volume', 'taker_volume')),
    weighted_volume:
      synced !== undefined && !isRestricted ? synced.volume : weightedVolume(address, keeps),
    last_trade_at: time(lastTrade(address)),
  };
}

/** Σ size · (1 − price) · weight in USD, each fill rounded down to a micro-USDC first. */
function weightedVolume(trader: string, keeps: (row: Booking) => boolean): number {
  const taken = rows.filter(
    (row) => row.trader === trader && row.isTaker && row.time >= NOW - 2_592_000 && keeps(row),
  );
  const microTenths = taken.reduce(
    (sum, row) =>
      sum + ((row.usdc * (row.shares - row.usdc)) / row.shares) * (WEIGHT_TENTHS[row.market] ?? 0n),
    0n,
  );
  return Number(microTenths) / 10_000_000;
}

function inSeries(market: number, series: string | undefined): boolean {
  const listing = MARKETS[market];
  return series === undefined || (listing !== undefined && seriesOf(listing) === series);
}

function newestFill(list: readonly Booking[]): number {
  return Math.max(0, ...list.filter((row) => row.kind === 'fill').map((row) => row.time));
}
