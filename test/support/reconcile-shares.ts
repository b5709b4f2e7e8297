/**
 * Compares what the service says of shares that moved without a fill, and of the figures that depend on them, with the
 * independent account of the chain (recompute.ts).
 */
import type { Moved } from './books.ts';
import { type Chain, openPositions } from './recompute.ts';
import { type Asked, pages } from './reconcile.ts';

/** How many figures were compared, and one sentence per difference. */
export type Comparison = { figures: number; readonly differences: string[] };

const BATCH = 100;
const HOUR = 3_600;
const FRAMES = { '1h': 1, '4h': 4, '1d': 24, '3d': 72, '7d': 168, '30d': 720 } as const;
/** The boards that are refreshed every minute or sooner. */
const BOARDS = { '1H': 1, '4H': 4, '1D': 24 } as const;

/** Of both outcomes, for each wallet and market. */
export async function balanceComparison(service: Asked, chain: Chain): Promise<Comparison> {
  const rows = await service.query<{ key: string; zero: string; one: string }>(
    `SELECT concat('0x', lower(hex(trader)), ' 0x', lower(hex(condition_id))) AS key,
       toString(sum(balance_0)) AS zero, toString(sum(balance_1)) AS one
     FROM trader_markets GROUP BY trader, condition_id`,
  );
  const served = new Map(rows.map(({ key, zero, one }) => [key, `${zero} ${one}`]));
  const expected = new Map([...chain.shares].map(([key, [zero, one]]) => [key, `${zero} ${one}`]));
  return compareAll(served, expected, 2, '0 0');
}

/** Every list of movements, in its order. */
export async function movementComparison(service: Asked, chain: Chain): Promise<Comparison> {
  const all: Comparison = { figures: 0, differences: [] };
  const byTrader = Map.groupBy(chain.movements, ({ trader }) => trader);
  for (const trader of tradersOf(chain)) {
    const path = `/v2/traders/${trader}/movements?limit=1000`;
    const found = await pages<Shown>(service, path, 'movements');
    const order = found.map((one) => one.block_number * 1e9 + one.log_index * 1e4 + one.part);
    if (order.some((place, i) => place >= (order[i - 1] ?? Infinity)))
      all.differences.push(`${trader}: movements are not in order`);
    const served = new Map(found.map((one) => [placeOf(one), shownText(one)]));
    const expected = new Map(
      (byTrader.get(trader) ?? []).map((one) => [
        `${trader} ${one.condition} ${one.block} ${logOf(one.reason, one.log)} ${one.reason} ${one.change}`,
        movedText(one),
      ]),
    );
    const own = new Map([...served].map(([key, text]) => [`${trader} ${key}`, text]));
    merge(all, compareAll(own, expected, 9));
  }
  return all;
}

type Shown = {
  readonly reason: string;
  readonly market: { readonly condition_id: string };
  readonly change_0: number;
  readonly change_1: number;
  readonly value: number;
  readonly realised_pnl: number;
  readonly counterparty: string;
  readonly opened_0: number;
  readonly opened_1: number;
  readonly time: string;
  readonly block_number: number;
  readonly log_index: number;
  readonly part: number;
  readonly tx_hash: string;
};

function placeOf({ market, block_number, reason, change_0, change_1, ...one }: Shown): string {
  const log = logOf(reason, one.log_index);
  return `${market.condition_id} ${block_number} ${log} ${reason} ${change_0},${change_1}`;
}

/** The service has a conversion's own log in each market, the account the first one of all. */
function logOf(reason: string, log: number): number | undefined {
  return reason === 'convert' ? undefined : log;
}

function shownText(one: Shown): string {
  const figures = [one.value, one.realised_pnl, one.opened_0, one.opened_1];
  return [...figures, one.counterparty.toLowerCase(), one.time, one.tx_hash].join(' ');
}

function movedText(one: Moved): string {
  const time = `${new Date(one.time * 1_000).toISOString().slice(0, 19)}Z`;
  return [one.value, one.pnl, ...one.opened, one.counterparty, time, one.txHash].join(' ');
}

type Window = Readonly<
  Record<
    'maker_volume' | 'taker_volume' | 'volume' | 'pnl' | 'markets_count' | 'wins_count',
    number
  >
> & { readonly roi: number; readonly win_rate: number };
type Batch = {
  readonly traders: readonly {
    readonly profile: { readonly address: string };
    readonly windows: Readonly<Record<string, Window>>;
    readonly positions: Readonly<Record<string, number>>;
  }[];
};

/** Every window and the totals of each trader's positions. */
export async function windowComparison(
  service: Asked & { post<T>(path: string, body: object): Promise<T> },
  chain: Chain,
): Promise<Comparison> {
  const all: Comparison = { figures: 0, differences: [] };
  const traders = [...new Set(chain.bookings.filter(isFill).map(({ trader }) => trader))];
  for (let from = 0; from < traders.length; from += BATCH) {
    const addresses = traders.slice(from, from + BATCH);
    const before = Math.floor(Date.now() / 1_000);
    const batch: Batch = await service.post('/v2/traders/batch', { addresses });
    const after = Math.floor(Date.now() / 1_000);
    for (const { profile, windows, positions } of batch.traders) {
      const trader = profile.address.toLowerCase();
      const served = new Map<string, string>();
      const expected = new Map<string, string>();
      for (const [frame, hours] of Object.entries(FRAMES)) {
        const key = `${trader} ${frame}`;
        const found = windowText(windows[`t_${frame}`]);
        served.set(key, found);
        // The service's clock was between the two.
        const texts = seconds(before, after).map((now) =>
          windowText(windowOf(chain, trader, now - hours * HOUR)),
        );
        expected.set(key, texts.find((text) => text === found) ?? texts[0] ?? '');
      }
      merge(all, compareAll(served, expected, 8));
      const totals = totalsOf(chain, trader);
      const own = Object.fromEntries(Object.keys(totals).map((name) => [name, positions[name]]));
      const [shown, wanted] = [own, totals].map((one) => JSON.stringify(one));
      merge(
        all,
        compareAll(
          new Map([[`${trader} totals`, shown ?? '']]),
          new Map([[`${trader} totals`, wanted ?? '']]),
          Object.keys(totals).length,
        ),
      );
    }
    if (batch.traders.length !== addresses.length)
      all.differences.push(`${addresses.length} traders asked, ${batch.traders.length} answered`);
  }
  return all;
}

/** Sums of the bookings at `since` or later. */
function windowOf(chain: Chain, trader: string, since: number, until = Infinity): Window {
  const own = bookingsOf(chain, trader).filter(({ time }) => time >= since && time <= until);
  const markets = Map.groupBy(own, ({ condition }) => condition);
  let [wins, count, pnl, cost, maker, taker] = [0, 0, 0n, 0n, 0n, 0n];
  for (const bookings of markets.values()) {
    const sum = bookings.reduce((total, one) => total + (one.pnl ?? 0n), 0n);
    pnl += sum;
    for (const one of bookings) {
      cost += one.cost ?? 0n;
      maker += one.makerVolume ?? 0n;
      taker += one.takerVolume ?? 0n;
    }
    if (!bookings.some(counts)) continue;
    count += 1;
    if (sum > 0n) wins += 1;
  }
  return {
    ...{ maker_volume: Number(maker), taker_volume: Number(taker), volume: Number(maker + taker) },
    ...{ pnl: Number(pnl), markets_count: count, wins_count: wins },
    roi: cost > 0n ? (100 * Number(pnl)) / Number(cost) : 0,
    win_rate: count === 0 ? 0 : (100 * wins) / count,
  };
}

function windowText(window: Window | undefined): string {
  if (window === undefined) return 'none';
  const { maker_volume, taker_volume, volume, pnl, markets_count, wins_count } = window;
  const exact = [maker_volume, taker_volume, volume, pnl, markets_count, wins_count];
  return [...exact, window.roi.toFixed(6), window.win_rate.toFixed(6)].join(' ');
}

/** Closed: a market that was traded, of which nothing is left in the position. */
function totalsOf(chain: Chain, trader: string) {
  const open = [...chain.markets.values()].flatMap(openPositions);
  const own = open.filter((position) => position.trader === trader);
  const held = new Set(
    [...chain.markets].flatMap(([condition, market]) =>
      openPositions(market).some((position) => position.trader === trader) ? [condition] : [],
    ),
  );
  const accounts = [...chain.accounts].filter(([key]) => key.startsWith(`${trader} `));
  const closed = accounts.filter(
    ([key, { settlements, pnl, cost }]) =>
      (settlements > 0 || pnl !== 0n || cost !== 0n) && !held.has(key.split(' ')[1] ?? ''),
  );
  const sum = (values: readonly bigint[]) => Number(values.reduce((a, b) => a + b, 0n));
  return {
    open_count: own.length,
    value: sum(own.map(({ value }) => value)),
    cost_basis: sum(own.map(({ cost }) => cost)),
    open_fees: sum(own.map(({ fees }) => fees)),
    unrealised_pnl: sum(own.map(({ unrealised }) => unrealised)),
    realised_pnl: sum(accounts.map(([, { pnl }]) => pnl)),
    closed_count: closed.length,
    closed_won_count: closed.filter(([, { pnl }]) => pnl > 0n).length,
  };
}

type Board = {
  readonly as_of: string;
  readonly traders: readonly {
    readonly profile: { readonly address: string };
    readonly total_pnl: number;
    readonly total_volume: number;
    readonly roi: number;
    readonly win_rate: number;
    readonly markets_count: number;
    readonly wins_count: number;
    readonly closed_count: number;
    readonly closed_wins_count: number;
    readonly closed_win_rate: number;
  }[];
  readonly next_cursor: string;
};

/** The leaderboards of up to a day, as of one refresh after the last block. */
export async function boardComparison(service: Asked, chain: Chain): Promise<Comparison> {
  const all: Comparison = { figures: 0, differences: [] };
  const last = Math.max(...chain.bookings.map(({ time }) => time));
  for (const [frame, hours] of Object.entries(BOARDS)) {
    const board = await boardAfter(service, frame, last);
    const now = Date.parse(board.as_of) / 1_000;
    const served = new Map<string, string>();
    for (const one of board.traders) {
      const volume = { volume: one.total_volume, pnl: one.total_pnl, roi: one.roi };
      const closed = [one.closed_count, one.closed_wins_count, one.closed_win_rate.toFixed(6)];
      const counts = [one.markets_count, one.wins_count, one.win_rate.toFixed(6)];
      const figures = [volume.pnl, volume.volume, volume.roi.toFixed(6), ...counts, ...closed];
      served.set(`${frame} ${one.profile.address.toLowerCase()}`, figures.join(' '));
    }
    const expected = new Map<string, string>();
    for (const trader of tradersOf(chain)) {
      const since = now - hours * HOUR;
      const one = windowOf(chain, trader, since);
      if (one.markets_count === 0) continue;
      const [closed, won] = closedIn(chain, trader, since);
      const rate = closed === 0 ? 0 : (100 * won) / closed;
      const counts = [one.markets_count, one.wins_count, one.win_rate.toFixed(6)];
      const figures = [one.pnl, one.volume, one.roi.toFixed(6), ...counts, closed, won];
      expected.set(`${frame} ${trader}`, [...figures, rate.toFixed(6)].join(' '));
    }
    merge(all, compareAll(served, expected, 9));
  }
  return all;
}

async function boardAfter(service: Asked, frame: string, last: number): Promise<Board> {
  for (;;) {
    const traders: Board['traders'][number][] = [];
    const seen = new Set<string>();
    for (let cursor = ''; ; ) {
      const path = `/v2/analytics/leaderboard?time_frame=${frame}&limit=100${cursor}`;
      const page: Board = await service.get(path);
      traders.push(...page.traders);
      seen.add(page.as_of);
      if (page.next_cursor !== '') {
        cursor = `&cursor=${page.next_cursor}`;
        continue;
      }
      if (seen.size === 1 && Date.parse(page.as_of) / 1_000 > last) return { ...page, traders };
      break;
    }
    await new Promise((resolve) => setTimeout(resolve, 1_000));
  }
}

/** Markets in which shares with a cost were closed or settled, and how many of them were won. */
function closedIn(chain: Chain, trader: string, since: number): readonly [number, number] {
  const own = bookingsOf(chain, trader).filter(({ time }) => time >= since);
  let [closed, won] = [0, 0];
  for (const bookings of Map.groupBy(own, ({ condition }) => condition).values()) {
    if (!bookings.some(({ kind, cost }) => kind === 'settlement' || cost !== 0n)) continue;
    closed += 1;
    if (bookings.reduce((sum, { pnl = 0n }) => sum + pnl, 0n) > 0n) won += 1;
  }
  return [closed, won];
}

type Hour = Readonly<Record<'hour', string> & Record<string, number | string>>;

/** Every hour of every trader. */
export async function hourComparison(service: Asked, chain: Chain): Promise<Comparison> {
  const all: Comparison = { figures: 0, differences: [] };
  for (const trader of tradersOf(chain)) {
    const path = `/v2/traders/${trader}/hourly_stats?from=0`;
    const { stats: found }: { stats: Hour[] } = await service.get(path);
    const names = ['pnl', 'cost_basis', 'fee', 'maker_volume', 'taker_volume', 'market_count'];
    const served = new Map(
      found.map((one) => [`${trader} ${one.hour}`, names.map((name) => one[name]).join(' ')]),
    );
    const expected = new Map(
      [...chain.hours].flatMap(([key, hour]) => {
        const [owner, start] = key.split(' ');
        if (owner !== trader) return [];
        const text = new Date(Number(start) * 1_000).toISOString().slice(0, 19).replace('T', ' ');
        const sums = [hour.pnl, hour.cost, hour.fee, hour.makerVolume, hour.takerVolume];
        return [[`${trader} ${text}`, [...sums, hour.conditions.size].join(' ')]];
      }),
    );
    merge(all, compareAll(served, expected, names.length));
  }
  return all;
}

const bookingsByTrader = new WeakMap<Chain, Map<string, Chain['bookings'][number][]>>();

function bookingsOf(chain: Chain, trader: string): Chain['bookings'] {
  const all = bookingsByTrader.get(chain) ?? Map.groupBy(chain.bookings, (one) => one.trader);
  bookingsByTrader.set(chain, all);
  return all.get(trader) ?? [];
}

function isFill({ kind }: Chain['bookings'][number]): boolean {
  return kind === 'fill';
}

/** Whether it makes its market one of the window's: a fill, a settlement, or a movement that realises something. */
function counts({ kind, pnl, cost }: Chain['bookings'][number]): boolean {
  return kind === 'fill' || kind === 'settlement' || pnl !== 0n || cost !== 0n;
}

function tradersOf(chain: Chain): ReadonlySet<string> {
  return new Set([...chain.accounts.keys()].map((key) => key.split(' ')[0] ?? ''));
}

function seconds(from: number, to: number): readonly number[] {
  return Array.from({ length: to - from + 1 }, (_, i) => from + i);
}

/** `figures` in each text; a missing one is `nothing`. */
function compareAll(
  served: ReadonlyMap<string, string>,
  expected: ReadonlyMap<string, string>,
  figures: number,
  nothing = 'nothing',
): Comparison {
  const keys = new Set([...served.keys(), ...expected.keys()]);
  const differences: string[] = [];
  for (const key of keys) {
    const [found, wanted] = [served.get(key) ?? nothing, expected.get(key) ?? nothing];
    if (found !== wanted) differences.push(`${key}: ${found} where ${wanted}`);
  }
  return { figures: keys.size * figures, differences };
}

function merge(all: Comparison, one: Comparison): void {
  all.figures += one.figures;
  all.differences.push(...one.differences);
}
