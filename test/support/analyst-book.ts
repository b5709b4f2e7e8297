/**
 * The raw rows behind the analysts' views, and the terms of docs/pnl.md computed from them without SQL: for tests that
 * recompute the result of a query.
 */
import { nearest } from './prices.ts';
import type { Schema } from './stack.ts';

export type Row = {
  readonly kind: 'fill' | 'settlement';
  readonly trader: string;
  readonly condition: string;
  /** Epoch seconds. */
  readonly time: number;
  readonly block: number;
  readonly log: number;
  readonly isTaker: boolean;
  readonly side: 'BUY' | 'SELL' | 'NONE';
  readonly outcome: 0 | 1;
  readonly shares: bigint;
  readonly usdc: bigint;
  readonly fee: bigint;
  readonly pnl: bigint;
  readonly cost: bigint;
  /** The position after this row. */
  readonly held: {
    readonly outcome: 0 | 1;
    readonly shares: bigint;
    readonly cost: bigint;
    readonly fees: bigint;
  };
};

type Listed = {
  readonly condition: string;
  readonly question: string;
  readonly tags: readonly string[];
  readonly series: string;
  readonly type: string;
  readonly outcomes: readonly [string, string];
};

type Resolved = { readonly at: number; readonly winner: 0 | 1 | undefined };

export type Book = Awaited<ReturnType<typeof readBook>>;

const WEEK = 7 * 86_400;

export async function readBook(schema: Pick<Schema, 'rows'>) {
  const { bookings, listings, resolutions } = await rawRows(schema);
  /** Fills of takers with shares, in chain order. */
  const priced = bookings.filter((row) => row.isTaker && row.shares > 0n);
  const since = (time: number) => bookings.filter((row) => row.time >= time);
  const fillsSince = (time: number) => fillsOf(since(time));
  const listingOf = (condition: string) => listings.get(condition);
  const tagsOf = (condition: string) => listingOf(condition)?.tags ?? [];
  const lastPriced = (condition: string, isIn: (row: Row) => boolean) =>
    priced.findLast((row) => row.condition === condition && isIn(row));
  return {
    ...{ bookings, resolutions, priced, since, fillsSince, listingOf, tagsOf, lastPriced },
    listings: [...listings.values()],
    category: (row: Row) => categoryOf(tagsOf(row.condition)),
    winnerOf: (condition: string) => resolutions.get(condition)?.winner,

    /** The newest row of each trader in a market, if that leaves shares. */
    openPositions: (): readonly Row[] =>
      groups(bookings, (row) => `${row.trader} ${row.condition}`)
        .flatMap(([, rows]) => rows.at(-1) ?? [])
        .filter((row) => row.held.shares > 0n),

    /** A position at the last match of its market, and the columns that views of positions share. */
    valued(row: Row) {
      const match = lastPriced(row.condition, () => true);
      if (match === undefined) throw new Error('no match made this position');
      const { mark, value } = valueAt(row.held, match);
      const { cost, fees, outcome, shares } = row.held;
      return {
        value,
        columns: {
          question: listingOf(row.condition)?.question ?? '',
          outcome: listingOf(row.condition)?.outcomes[outcome] ?? '',
          shares: decimal(shares),
          average_price: decimal(BigInt(nearest(cost, shares))),
          mark: decimal(mark),
          value: decimal(value),
          unrealised_pnl: decimal(value - cost - fees),
        },
        markedAt: timeText(match.time),
      };
    },

    /** Condition id of the market with the most fills of the last week among these. */
    busiest(now: number, isIn: (condition: string) => boolean): string {
      const rows = fillsSince(now - WEEK).filter((row) => isIn(row.condition));
      const [first] = groups(rows, (row) => row.condition).sort(
        ([a, x], [b, y]) => down(x.length, y.length) || up(a, b),
      );
      return first?.[0] ?? '';
    },

    /** Each trader of the last week's leaderboard, best first. */
    boardOf(now: number, tag: string) {
      const rows = since(now - WEEK).filter((row) => {
        const tags = tagsOf(row.condition);
        if (tag === 'sports' && tags.includes('esports')) return false;
        return tag === 'all' || tags.includes(tag);
      });
      return groups(rows, (row) => row.trader)
        .map(([trader, own]) => ({
          trader,
          pnl: sum(own, (row) => row.pnl),
          cost: sum(own, (row) => row.cost),
          volume: sum(fillsOf(own), (row) => row.usdc),
          markets: groups(own, (row) => row.condition).map(([, list]) =>
            sum(list, (row) => row.pnl),
          ),
        }))
        .sort((a, b) => down(a.pnl, b.pnl) || up(a.trader, b.trader));
    },
  };
}

/** All bookings in chain order, listings and resolutions by condition id. */
async function rawRows({ rows }: Pick<Schema, 'rows'>) {
  const bookings = await rows<Record<string, string>>(
    `SELECT kind, concat('0x', lower(hex(trader))) AS trader, concat('0x', lower(hex(condition_id))) AS condition,
       toString(toUnixTimestamp(block_time)) AS time, toString(block_number) AS block, toString(log_index) AS log,
       toString(is_taker) AS taker, side, toString(outcome_index) AS outcome, toString(shares) AS shares,
       toString(usdc) AS usdc, toString(fee) AS fee, toString(realised_pnl) AS pnl, toString(realised_cost) AS cost,
       toString(position_outcome) AS held_outcome, toString(position_shares) AS held_shares,
       toString(position_cost) AS held_cost, toString(position_fees) AS held_fees
     FROM bookings ORDER BY block_number, event_log_index, leg`,
  );
  const listings = await rows<Listed>(
    `SELECT concat('0x', lower(hex(condition_id))) AS condition, question, tags, series_slug AS series,
       sports_market_type AS type, outcomes FROM markets`,
  );
  const resolutions = await rows<Record<'condition' | 'at' | 'first' | 'second', string>>(
    `SELECT concat('0x', lower(hex(condition_id))) AS condition, toString(toUnixTimestamp(resolved_at)) AS at,
       toString(payout_0) AS first, toString(payout_1) AS second FROM resolutions`,
  );
  return {
    bookings: bookings.map(rowOf),
    listings: new Map(listings.map((listing) => [listing.condition, listing])),
    resolutions: new Map(
      resolutions.map(({ condition, at, first, second }): [string, Resolved] => {
        const winner = first === second ? undefined : BigInt(first) > BigInt(second) ? 0 : 1;
        return [condition, { at: Number(at), winner }];
      }),
    ),
  };
}

function rowOf(row: Record<string, string>): Row {
  const amount = (name: string) => BigInt(row[name] ?? '');
  return {
    kind: row.kind as Row['kind'],
    ...{ trader: row.trader ?? '', condition: row.condition ?? '' },
    ...{ time: Number(row.time), block: Number(row.block), log: Number(row.log) },
    isTaker: row.taker === 'true',
    side: row.side as Row['side'],
    outcome: row.outcome === '0' ? 0 : 1,
    ...{ shares: amount('shares'), usdc: amount('usdc'), fee: amount('fee') },
    ...{ pnl: amount('pnl'), cost: amount('cost') },
    held: {
      outcome: row.held_outcome === '0' ? 0 : 1,
      ...{ shares: amount('held_shares'), cost: amount('held_cost') },
      fees: amount('held_fees'),
    },
  };
}

const CATEGORIES = [
  ...['geopolitics', 'sports', 'politics', 'finance', 'mentions', 'tech', 'economics', 'culture'],
  ...['weather', 'crypto'],
];
const SYNONYMS: Readonly<Record<string, string>> = {
  ...{ 'tweets-markets': 'mentions', economy: 'economics', 'pop-culture': 'culture' },
};

function categoryOf(tags: readonly string[]): string {
  const own = tags.map((tag) => SYNONYMS[tag] ?? tag);
  return CATEGORIES.find((category) => own.includes(category)) ?? 'other';
}

/** Micro-USDC of outcome 0 that a fill stands for. */
function firstUsdc({ outcome, shares, usdc }: Row): bigint {
  return outcome === 0 ? usdc : shares - usdc;
}

/** Price of outcome 0 in micro-USDC, 0 to 1,000,000. */
export function yesPrice(row: Row): bigint {
  const price = BigInt(nearest(firstUsdc(row), row.shares));
  return price < 0n ? 0n : price > 1_000_000n ? 1_000_000n : price;
}

/** Shares of outcome 0 bought. */
export function signedShares({ outcome, shares, side }: Row): bigint {
  return (side === 'BUY') === (outcome === 0) ? shares : -shares;
}

/** The rounded mark and the value of a position at a match. */
function valueAt({ outcome, shares }: Row['held'], match: Row) {
  const first = firstUsdc(match);
  const part = outcome === 0 ? first : match.shares - first;
  const mark = outcome === 0 ? yesPrice(match) : 1_000_000n - yesPrice(match);
  return { mark, value: floorDivide(shares * part, match.shares) };
}

function floorDivide(a: bigint, b: bigint): bigint {
  const quotient = a / b;
  return a < 0n && quotient * b !== a ? quotient - 1n : quotient;
}

/** Units of 10^-scale as the engine shows a decimal. */
export function decimal(units: bigint, scale = 6): string {
  const digits = `${units < 0n ? -units : units}`.padStart(scale + 1, '0');
  const text = `${digits.slice(0, -scale)}.${digits.slice(-scale)}`.replace(/\.?0+$/, '');
  return units < 0n ? `-${text}` : text;
}

export function sum<T>(list: readonly T[], of: (one: T) => bigint): bigint {
  return list.reduce((all, one) => all + of(one), 0n);
}

export function groups<T>(list: readonly T[], keyOf: (one: T) => string): [string, T[]][] {
  return [...Map.groupBy(list, keyOf)];
}

export function fillsOf(rows: readonly Row[]): readonly Row[] {
  return rows.filter((row) => row.kind === 'fill');
}

type Key = bigint | number | string;

export function up(a: Key, b: Key): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

export function down(a: Key, b: Key): number {
  return up(b, a);
}

/** 2026-10-03 04:05:06. */
export function timeText(seconds: number): string {
  return new Date(seconds * 1_000).toISOString().slice(0, 19).replace('T', ' ');
}

export function dayText(seconds: number): string {
  return timeText(seconds).slice(0, 10);
}
