/**
 * The oracle of the api: the bookings that its tests insert and, computed from them by plain sums, every response that
 * they expect. It uses no code of the api and no SQL.
 */
import { getAddress } from 'viem';
import {
  addressOf,
  type Booking,
  conditionOf,
  listingOf,
  MARKETS,
  makeBookings,
  orderHashOf,
  seriesOf,
  tokenOf,
  UNLISTED_TOKENS,
} from './api-bookings.ts';
import { nearest, roundedDown } from './prices.ts';

export const SEED = Number(process.env.SEED ?? 20_261_121);
export const TRADERS = 30;
/**
 * The fixed clock of the exchange. It is on no boundary, so that minutes, hours and days divide the bookings in the
 * same way in each run.
 */
export const NOW = Date.UTC(2090, 4, 17, 14, 22, 33) / 1_000;
/** The clock of a second api, far from all random bookings. */
export const EDGE_NOW = Date.UTC(2026, 0, 31, 9, 44, 7) / 1_000;
export const RESOLVED_AT = NOW - 7_200;
export const ALL_FRAMES = {
  '1H': 3_600,
  '4H': 14_400,
  '1D': 86_400,
  '3D': 259_200,
  '7D': 604_800,
  '30D': 2_592_000,
};
export const WHALE = addressOf(900);
export const EDGE_TRADER = addressOf(901);
export const ODD_TRADER = addressOf(902);
/** Traded in four markets at the same second. */
export const TIE_TRADER = addressOf(903);

/** Booked around the edges of every board. */
const BOARD_EDGE_TRADER = addressOf(905);

/** A trader whose newest fill is five hours old; all others traded within the last hour. */
const IDLE_TRADER = addressOf(904);

export const random = makeBookings(SEED, NOW, 4_000, TRADERS);
/** Both sides of the two ends of every window. */
const aroundEdges = (now: number, trader: string) =>
  Object.values(ALL_FRAMES)
    .flatMap((seconds) => [now - seconds - 1, now - seconds])
    .concat(now, now + 1)
    .map((time, log) => booking({ time, log, trader, market: 5, pnl: 10n ** BigInt(log) }));
const edge: Booking[] = aroundEdges(EDGE_NOW, EDGE_TRADER)
  .concat(aroundEdges(NOW, BOARD_EDGE_TRADER))
  .concat(
    // Sums beyond 2^53 must not go through a double.
    [1, 2].map((log) =>
      booking({ time: EDGE_NOW - 5, log, trader: WHALE, market: 4, usdc: 9_007_199_254_740_991n }),
    ),
    // Out of time order within one block, and a price that must be rounded down.
    [9, 3].map((log) =>
      booking({ time: EDGE_NOW - 9, log, trader: ODD_TRADER, market: 6, usdc: 2n }),
    ),
    [5, 30, 200].map((hours, log) =>
      booking({ time: NOW - hours * 3_600, log, trader: IDLE_TRADER, market: 3, pnl: 9_000_000n }),
    ),
    [7, 1, 5, 3].map((market, log) =>
      booking({ time: EDGE_NOW - 60, log, trader: TIE_TRADER, market, isTaker: true }),
    ),
  );
export const rows = [...edge, ...random];

export type Entry = ReturnType<typeof totalsOf> & {
  readonly trader: string;
  readonly rank: number;
};

/** The board of a frame and tag in one order, ranked; of the bookings that `keeps` keeps, as of `now`. */
export function board(
  frame: string,
  tag: string,
  sort: 'pnl' | 'roi' | 'win_rate' | 'market_count',
  { keeps = () => true, now = NOW }: { keeps?: (row: Booking) => boolean; now?: number } = {},
) {
  const since = now - (ALL_FRAMES[frame as keyof typeof ALL_FRAMES] ?? 0);
  const own = rows.filter(
    (row) => row.time >= since && row.time <= now && countsUnder(row.market, tag) && keeps(row),
  );
  const value = (entry: Omit<Entry, 'rank'>) =>
    ({
      pnl: Number(entry.pnl),
      roi: ratio(entry.pnl, entry.cost),
      win_rate: ratio(BigInt(entry.wins), BigInt(entry.markets)),
      market_count: entry.markets,
    })[sort];
  return [...Map.groupBy(own, (row) => row.trader)]
    .map(([trader, list]) => ({ trader, ...totalsOf(list) }))
    .sort(
      (a, b) =>
        value(b) - value(a) ||
        Number(b.pnl - a.pnl) ||
        Number(b.maker + b.taker - a.maker - a.taker) ||
        (a.trader < b.trader ? -1 : 1),
    )
    .map((entry, index) => ({ ...entry, rank: index + 1 }));
}

export function entryObject(entry: Entry, index: number) {
  return {
    profile: { ...profileObject(entry.trader), last_trade_at: time(lastTrade(entry.trader)) },
    total_pnl: String(entry.pnl),
    total_volume: String(entry.maker + entry.taker),
    roi: ratio(entry.pnl, entry.cost),
    win_rate: ratio(BigInt(entry.wins), BigInt(entry.markets)),
    rank: index + 1,
    markets_count: entry.markets,
    wins_count: entry.wins,
  };
}

function statsOf(own: readonly Booking[]) {
  const totals = totalsOf(own);
  return {
    pnl: String(totals.pnl),
    volume: String(totals.maker + totals.taker),
    roi: ratio(totals.pnl, totals.cost),
    win_rate: ratio(BigInt(totals.wins), BigInt(totals.markets)),
    markets_count: totals.markets,
    wins_count: totals.wins,
    maker_volume: String(totals.maker),
    taker_volume: String(totals.taker),
  };
}

export function expectedStats(trader: string, now: number) {
  const within = (seconds: number) =>
    rows.filter((r) => r.trader === trader && r.time >= now - seconds && r.time <= now);
  return Object.fromEntries(
    Object.entries(ALL_FRAMES).map(([frame, seconds]) => [
      `t_${frame.toLowerCase()}`,
      statsOf(within(seconds)),
    ]),
  );
}

export function expectedTags(trader: string, keeps: (row: Booking) => boolean = () => true) {
  const own = rows.filter(
    (row) => row.trader === trader && row.time >= NOW - 2_592_000 && keeps(row),
  );
  const tags = new Set(MARKETS.flatMap((market) => market.tags));
  return [...tags]
    .map((slug) => ({ slug, own: own.filter((row) => countsUnder(row.market, slug)) }))
    .filter((tag) => tag.own.length > 0)
    .map((tag) => ({ slug: tag.slug, ...statsOf(tag.own) }))
    .sort(
      (a, b) =>
        Number(BigInt(b.pnl) - BigInt(a.pnl)) ||
        Number(BigInt(b.volume) - BigInt(a.volume)) ||
        (a.slug < b.slug ? -1 : 1),
    );
}

export function expectedOrders(trader: string, market: number) {
  return rows
    .filter((row) => row.trader === trader && row.market === market && row.kind === 'fill')
    .sort((a, b) => a.block - b.block || a.log - b.log)
    .map((row) => ({
      time: time(row.time),
      outcome: market < MARKETS.length ? (row.outcome === 0 ? 'Yes' : `No ${market}`) : '',
      side: row.side,
      price: String((row.usdc * 1_000_000n) / row.shares),
      shares: String(row.shares),
      usdc: String(row.usdc),
      order_hash: orderHashOf(row),
      is_taker: row.isTaker,
      token_id: tokenOf(row),
      fee: String(row.fee),
    }));
}

export function hourOf(seconds: number): number {
  return seconds - (seconds % 3_600);
}

export function expectedHours(
  trader: string,
  tag: string,
  from: number,
  to: number,
  keeps: (market: number) => boolean = () => true,
) {
  const own = rows.filter(
    (row) =>
      row.trader === trader &&
      countsUnder(row.market, tag) &&
      keeps(row.market) &&
      hourOf(row.time) >= from &&
      hourOf(row.time) <= to,
  );
  return [...Map.groupBy(own, (row) => hourOf(row.time))]
    .sort(([a], [b]) => b - a)
    .map(([hour, list]) => {
      const totals = totalsOf(list);
      const markets = [...Map.groupBy(list, (row) => row.market).values()];
      return {
        hour: time(hour, ' ').slice(0, 19),
        pnl: String(totals.pnl),
        market_count: markets.length,
        win_count: markets.filter(
          (market) => market.some((row) => row.kind === 'settlement') && totalsOf(market).pnl > 0n,
        ).length,
        taker_volume: String(totals.taker),
        maker_volume: String(totals.maker),
        volume: String(totals.taker + totals.maker),
      };
    });
}

/** The market object of v1; of a market that no listing describes, id 0 and empty texts. */
export function expectedMarketObject(market: number) {
  const listing = MARKETS[market];
  if (listing === undefined) {
    const texts = Object.keys(listingOf({ id: '0', conditionId: '', tags: [], tokens: ['', ''] }));
    return {
      ...{ id: '0', ...Object.fromEntries(texts.map((name) => [name, ''])), neg_risk: false },
      ...{ tags: [], outcome_1: '', outcome_2: '', resolved_at: '', winning_outcome: '' },
    };
  }
  return {
    ...{ id: listing.id, ...listingOf(listing), neg_risk: market % 2 === 1 },
    ...{ tags: listing.tags, outcome_1: 'Yes', outcome_2: `No ${market}` },
    resolved_at: isResolved(market) ? time(RESOLVED_AT) : '',
    winning_outcome: { 0: 'Yes', 2: '50-50' }[market] ?? '',
  };
}

export function isResolved(market: number): boolean {
  return market === 0 || market === 2;
}

export function expectedMarket(market: number) {
  const listing = MARKETS[market];
  if (listing === undefined) throw new Error(`no market ${market}`);
  const byTrader = Map.groupBy(
    rows.filter((row) => row.market === market),
    (row) => row.trader,
  );
  const traders = [...byTrader].map(([trader, list]) => ({ trader, ...totalsOf(list) }));
  const winners = traders.filter((one) => one.pnl > 0n);
  const sum = (list: readonly bigint[]) => list.reduce((a, b) => a + b, 0n);
  return {
    market: expectedMarketObject(market),
    total_volume: String(sum(traders.map((one) => one.maker + one.taker))),
    total_pnl_distributed: String(sum(winners.map((one) => one.pnl))),
    total_traders: traders.length,
    top_earners: winners
      .sort((a, b) => Number(b.pnl - a.pnl) || Number(b.maker + b.taker - a.maker - a.taker))
      .slice(0, 20)
      .map((one, index) => ({
        profile: { ...profileObject(one.trader), last_trade_at: time(lastTrade(one.trader)) },
        pnl: String(one.pnl),
        volume: String(one.maker + one.taker),
        roi: ratio(one.pnl, one.cost),
        rank: index + 1,
      })),
    total_winners: winners.length,
  };
}

function booking(given: Pick<Booking, 'time' | 'trader' | 'market'> & Partial<Booking>): Booking {
  return {
    ...{ kind: 'fill', block: 70_000_000, log: 1, isTaker: false, side: 'BUY', outcome: 0 },
    ...{ shares: 3n, usdc: 1n, fee: 0n, pnl: 0n, cost: 0n },
    ...given,
  };
}

export function time(seconds: number, separator = 'T'): string {
  if (seconds === 0) return '';
  return `${new Date(seconds * 1000).toISOString().slice(0, 19).replace('T', separator)}Z`;
}

export function lastTrade(trader: string): number {
  const fills = rows.filter((row) => row.trader === trader && row.kind === 'fill');
  return Math.max(0, ...fills.map((row) => row.time));
}

/** Every third trader has a public profile; each was renamed once. */
export function profileObject(trader: string, separator = 'T') {
  const number = Array.from({ length: TRADERS }, (_, i) => addressOf(i)).indexOf(trader);
  const has = number >= 0 && number % 3 === 0;
  return {
    address: trader,
    name: has ? `Name ${number}` : '',
    profile_image: has ? `https://example.com/${number}.png` : '',
    x_username: has && number % 2 === 0 ? `x${number}` : '',
    profile_created_at: has ? `2025-01-02${separator}03:04:05Z` : '',
  };
}

/** Each market's weight in tenths, looked up by hand: the least among its tags, else "other". */
const WEIGHT_TENTHS = [10n, 10n, 23n, 23n, 0n, 13n, 17n, 17n];
const TIERS = ['Tier 0', 'Bronze', 'Silver', 'Gold', 'Platinum', 'Diamond', 'Obsidian'];

/** The public profile of a trader; trader 6's has no tier. */
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
    exchange: object.neg_risk ? 'neg_risk' : 'ctf',
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

export type Totals = {
  pnl: bigint;
  cost: bigint;
  maker: bigint;
  taker: bigint;
  markets: number;
  wins: number;
  closed: number;
  closedWins: number;
};

/** The rule of docs/pnl.md over plain rows: sums, markets, and markets with a gain. */
export function totalsOf(rows: readonly Booking[]): Totals {
  const totals = { pnl: 0n, cost: 0n, maker: 0n, taker: 0n, markets: 0, wins: 0 };
  const byMarket = new Map<number, bigint>();
  const closed = new Set<number>();
  for (const row of rows) {
    totals.pnl += row.pnl;
    totals.cost += row.cost;
    if (row.kind === 'fill' && row.isTaker) totals.taker += row.usdc;
    if (row.kind === 'fill' && !row.isTaker) totals.maker += row.usdc;
    byMarket.set(row.market, (byMarket.get(row.market) ?? 0n) + row.pnl);
    if (row.kind === 'settlement' || row.cost !== 0n) closed.add(row.market);
  }
  totals.markets = byMarket.size;
  const won = [...byMarket].flatMap(([market, pnl]) => (pnl > 0n ? [market] : []));
  totals.wins = won.length;
  const closedWins = won.filter((market) => closed.has(market)).length;
  return { ...totals, closed: closed.size, closedWins };
}

/** Whether a market counts under a tag: `sports` leaves out esports, `all` takes everything. */
function countsUnder(market: number, tag: string): boolean {
  const tags = MARKETS[market]?.tags ?? [];
  if (tag === 'all') return true;
  return tags.includes(tag) && !(tag === 'sports' && tags.includes('esports'));
}

export function ratio(part: bigint, whole: bigint): number {
  return whole === 0n ? 0 : (100 * Number(part)) / Number(whole);
}

/** Matches of a market in chain order: the fills of takers. */
export function matchesOf(market: number, of: readonly Booking[] = rows): readonly Booking[] {
  return of
    .filter((row) => row.market === market && row.isTaker)
    .sort((a, b) => a.block - b.block || a.log - b.log);
}

/** Price of outcome 0. */
export function firstPrice({ outcome, shares, usdc }: Booking): number {
  return nearest(outcome === 0 ? usdc : shares - usdc, shares);
}

/** The same, rounded down, like the stored extremes of a minute. */
export function firstPriceDown({ outcome, shares, usdc }: Booking): number {
  return roundedDown(outcome === 0 ? usdc : shares - usdc, shares);
}

/** Mark of outcome 0 as a fraction: the payout of a resolved market, otherwise its newest match. */
export function markOf(market: number) {
  const payout = { 0: 1n, 2: 1n }[market];
  if (payout !== undefined) {
    return { usdc: payout, shares: market === 0 ? 1n : 2n, at: RESOLVED_AT, source: 'resolution' };
  }
  const last = matchesOf(market).at(-1);
  if (last === undefined) throw new Error(`market ${market} was never matched`);
  const usdc = last.outcome === 0 ? last.usdc : last.shares - last.usdc;
  return { usdc, shares: last.shares, at: last.time, source: 'last_match' };
}

export function markObject(market: number) {
  const { usdc, shares, at, source } = markOf(market);
  const first = nearest(usdc, shares);
  return { price_1: first, price_2: 1_000_000 - first, time: time(at), source };
}

/** The holding of each trader in a market after their newest booking there; by shares, then address. */
export function heldOf(market: number): readonly Booking[] {
  const newest = new Map<string, Booking>();
  for (const row of rows.filter((one) => one.market === market)) {
    const known = newest.get(row.trader);
    const isLater =
      known === undefined ||
      row.block > known.block ||
      (row.block === known.block && row.log > known.log);
    if (isLater) newest.set(row.trader, row);
  }
  return [...newest.values()]
    .filter((row) => row.kind === 'fill' && row.cost === 0n)
    .sort((a, b) => Number(b.shares - a.shares) || (a.trader < b.trader ? -1 : 1));
}

export function sum(values: readonly bigint[]): number {
  return Number(values.reduce((total, value) => total + value, 0n));
}
