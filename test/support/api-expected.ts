/**
 * The bookings that the analytics test inserts and, computed from them by plain sums, every answer
 * that it expects.
 */
import {
  addressOf,
  type Booking,
  countsUnder,
  listingOf,
  MARKETS,
  makeBookings,
  orderHashOf,
  ratio,
  tokenOf,
  totalsOf,
} from './api-bookings.ts';

export const SEED = Number(process.env.SEED ?? 20_261_121);
export const TRADERS = 30;
export const NOW = Math.floor(Date.now() / 1000);
/** The wall clock of a second api, far from all made-up bookings. */
export const EDGE_NOW = NOW - 100 * 86_400;
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

/** Whose newest fill is five hours old; all others traded within the last. */
const IDLE_TRADER = addressOf(904);

export const random = makeBookings(SEED, NOW, 4_000, TRADERS);
const edge: Booking[] = Object.values(ALL_FRAMES)
  .flatMap((seconds) => [EDGE_NOW - seconds - 1, EDGE_NOW - seconds])
  .concat(EDGE_NOW, EDGE_NOW + 1)
  .map((time, index) =>
    booking({ time, log: index, trader: EDGE_TRADER, market: 5, pnl: 10n ** BigInt(index) }),
  )
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
