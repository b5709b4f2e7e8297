/**
 * What a trader did in the last time (specification 2.6, 2.7, 2.9): sums of windows that end now, exact to the
 * second, from the trader's own bookings. Few bookings are added up here, many in the store: reading some
 * hundred takes half the time of a statement that adds them up (ADR 10).
 */
import { Bytes } from '../../infra/clickhouse-reader.ts';
import { MARKET_TAGS } from './market-tags.ts';
import { type Call, FEW_ROWS, read, readTable } from './query.ts';
import {
  boolean,
  count,
  hexText,
  int,
  oneOf,
  type RowOf,
  rowOf,
  seconds,
  string,
  texts,
} from './rows.ts';
import type { TaggedSums } from './sums.ts';
import { UNWEIGHTED, unweighted } from './weighted-volume.ts';

/** Where sums are made: of a trader with more than so many bookings in the store. */
export type Summing = {
  readonly bookingsMax: number;
  /** Who had more: they are not tried again. */
  readonly busy: Set<string>;
};

export function createSumming(bookingsMax = 2_000): Summing {
  return { bookingsMax, busy: new Set() };
}

const BUSY_MAX = 10_000;

type Asked = {
  readonly trader: string;
  /** Seconds since the epoch; the windows end here. */
  readonly now: number;
  /** Lengths of the windows in seconds, each longer than the one before. */
  readonly lengths: readonly number[];
  /** Further conditions on the bookings, each after AND, with what they are bound to. */
  readonly filter?: string;
  readonly bound?: Readonly<Record<string, string>>;
};

type Recent = {
  /** Of each length: markets of equal tags added up. */
  readonly windows: readonly (readonly RecentSums[])[];
  /** Newest fill, seconds since the epoch; 0 where there is none. */
  readonly newest: number;
};
type RecentSums = TaggedSums & { readonly unweighted: bigint };

/** Throws Problem 503 where ClickHouse cannot answer. */
export async function readRecent(call: Call, asked: Asked): Promise<Recent> {
  const { bound, lengths, now, trader } = asked;
  const { bookingsMax, busy } = call.summing;
  const begins = lengths.map((length) => Math.max(0, now - length));
  const since = Math.min(...begins);
  const parameters = { ...bound, trader: new Bytes(trader), now, since };
  if (!busy.has(trader)) {
    const most = { ...parameters, most: bookingsMax + 1 };
    const sql = BOOKINGS_SQL(asked);
    const table = await readTable(call, { sql, parameters: most });
    if ((table.get('time')?.length ?? 0) <= bookingsMax) return addUp(Booking.each(table), begins);
    if (busy.size >= BUSY_MAX) busy.clear();
    busy.add(trader);
  }
  const sql = SUMS_SQL(asked);
  const rows = await read(call, {
    ...{ sql, row: SumsRow },
    parameters: { ...parameters, begins: `[${begins}]` },
  });
  return {
    windows: begins.map((begin) => rows.filter((row) => row.begin === begin)),
    newest: Math.max(0, ...rows.map((row) => row.newest)),
  };
}

const OF_THE_TIME = `trader = {trader:FixedString(20)}
  AND block_time >= toDateTime({since:UInt32}, 'UTC') AND block_time <= toDateTime({now:UInt32}, 'UTC')`;

/** The unit separator: no slug has it. */
const BETWEEN_TAGS = '\u001f';

const BOOKINGS_SQL = ({ filter = '' }: Asked) => `
SELECT
  condition_id AS condition,
  arrayStringConcat(${MARKET_TAGS}, '${BETWEEN_TAGS}') AS tags,
  block_time AS time,
  kind,
  is_taker AS isTaker,
  shares,
  usdc,
  realised_pnl AS pnl,
  realised_cost AS cost
FROM bookings
WHERE ${OF_THE_TIME} ${filter}
LIMIT {most:UInt32}
${FEW_ROWS}`;

const Booking = rowOf({
  ...{ condition: hexText, tags: string, time: seconds },
  kind: (value) => oneOf(['fill', 'settlement'] as const, value),
  ...{ isTaker: boolean, shares: int, usdc: int, pnl: int, cost: int },
});
type Booking = RowOf<typeof Booking>;

/** Of one market: what is in each window and in no shorter one; undefined where nothing is. */
type Market = { readonly tags: string; readonly pieces: (Piece | undefined)[] };
type Piece = { -readonly [Name in keyof typeof NOTHING]: (typeof NOTHING)[Name] };

const NOTHING = { pnl: 0n, cost: 0n, makerVolume: 0n, takerVolume: 0n, unweighted: 0n };

/** Adds bookings up, keeping none of them: there may be thousands, for many callers at once. */
function addUp(bookings: Iterable<Booking>, begins: readonly number[]): Recent {
  const markets = new Map<string, Market>();
  let newest = 0;
  for (const booking of bookings) {
    const { condition, cost, isTaker, kind, pnl, shares, tags, time, usdc } = booking;
    const market = markets.get(condition) ?? { tags, pieces: [] };
    markets.set(condition, market);
    const window = begins.findIndex((begin) => time >= begin);
    const piece = market.pieces[window] ?? { ...NOTHING };
    market.pieces[window] = piece;
    piece.pnl += pnl;
    piece.cost += cost;
    if (kind !== 'fill') continue;
    newest = Math.max(newest, time);
    if (isTaker) {
      piece.takerVolume += usdc;
      piece.unweighted += unweighted(usdc, shares);
    } else piece.makerVolume += usdc;
  }
  return { windows: begins.map((_, window) => sumsOf([...markets.values()], window)), newest };
}

/** Of a window, which holds the shorter ones: markets of equal tags added up. */
function sumsOf(markets: readonly Market[], window: number): readonly RecentSums[] {
  const byTags = new Map<string, { -readonly [Name in keyof RecentSums]: RecentSums[Name] }>();
  for (const { tags, pieces } of markets) {
    const own = pieces.slice(0, window + 1).filter((piece) => piece !== undefined);
    if (own.length === 0) continue;
    const none = { ...NOTHING, markets: 0, wins: 0, tags: tags.split(BETWEEN_TAGS) };
    const sums = byTags.get(tags) ?? none;
    byTags.set(tags, sums);
    let marketPnl = 0n;
    for (const piece of own) {
      marketPnl += piece.pnl;
      sums.pnl += piece.pnl;
      sums.cost += piece.cost;
      sums.makerVolume += piece.makerVolume;
      sums.takerVolume += piece.takerVolume;
      sums.unweighted += piece.unweighted;
    }
    sums.markets += 1;
    if (marketPnl > 0n) sums.wins += 1;
  }
  return [...byTags.values()];
}

/** A booking counts in each window that has begun by then. */
const SUMS_SQL = ({ filter = '' }: Asked) => `
SELECT
  begin,
  ${MARKET_TAGS} AS tags,
  sum(market_pnl) AS pnl,
  sum(market_cost) AS cost,
  sum(market_volume - market_taker_volume) AS makerVolume,
  sum(market_taker_volume) AS takerVolume,
  sum(market_unweighted) AS unweighted,
  count() AS markets,
  countIf(market_pnl > 0) AS wins,
  max(market_newest) AS newest
FROM
(
  SELECT
    begin,
    condition_id,
    sum(realised_pnl) AS market_pnl,
    sum(realised_cost) AS market_cost,
    sumIf(usdc, kind = 'fill') AS market_volume,
    sumIf(usdc, is_taker) AS market_taker_volume,
    ${UNWEIGHTED} AS market_unweighted,
    maxIf(block_time, kind = 'fill') AS market_newest
  FROM bookings
  ARRAY JOIN {begins:Array(UInt32)} AS begin
  WHERE ${OF_THE_TIME} AND block_time >= begin ${filter}
  GROUP BY begin, condition_id
)
GROUP BY begin, tags
${FEW_ROWS}`;

const SumsRow = rowOf({
  ...{ begin: seconds, tags: texts, pnl: int, cost: int, makerVolume: int, takerVolume: int },
  ...{ unweighted: int, markets: count, wins: count, newest: seconds },
});
