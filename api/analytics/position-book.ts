/**
 * What watched wallets hold before a match: what final blocks say, from ClickHouse, and the matches of FEED that are not booked yet.
 * A position is the net of both outcomes of a market, as in `GET /v2/position_events`.
 */
import { LRUCache } from 'lru-cache';
import { Bytes } from '../../infra/clickhouse.ts';
import { upTo } from '../../infra/lru.ts';
import { inParts } from '../../infra/parts.ts';
import type { FeedMatch } from '../../ingest/contract.ts';
import { readHoldings } from './holdings.ts';
import { readMarkedOf, valueAt } from './marks.ts';
import { fillsOf } from './match-data.ts';
import { netOf } from './position-changes.ts';
import { type Reading, read } from './query.ts';
import { Recent } from './recent-matches.ts';
import { boolean, hexText, int, rowOf, seconds } from './rows.ts';

/** Within this time, every match is booked or void, unless the projector is behind. */
export const BOOKED_SECONDS_MAX = 600;
const PORTFOLIO_MS_MAX = 60_000;
const PORTFOLIOS_MAX = 2_000;
/** More would make a parameter too long. */
const AT_ONCE = 500;
const PORTFOLIOS_AT_ONCE = 4;
/** Matches that did not happen and may be restored. */
const FORGOTTEN_MAX = 1_000;

const AFTER = 'if(position_outcome = 0, position_shares, -position_shares)';

const Row = rowOf({
  trader: hexText('trader'),
  conditionId: hexText('condition_id'),
  at: seconds('at'),
  txHash: hexText('tx'),
  isOpening: boolean('is_opening'),
  before: int('before'),
  after: int('after'),
});

/** The bookings between two times, in chain order, after a row for each market with what was held before. */
const SQL = `
SELECT ${Row.columns}
FROM
(
  SELECT trader, condition_id, block_time AS at, tx_hash AS tx, toBool(kind = 'opening') AS is_opening,
    position_before AS before, ${AFTER} AS after, (block_number, log_index, rank) AS place
  FROM bookings
  WHERE trader IN {traders:Array(FixedString(20))} AND condition_id IN {conditions:Array(FixedString(32))}
    AND block_time >= toDateTime({since:UInt32}, 'UTC') AND block_time <= toDateTime({until:UInt32}, 'UTC')
  UNION ALL
  SELECT trader, condition_id, toDateTime(0, 'UTC'), toFixedString('', 32), false,
    toInt64(0), argMax(${AFTER}, (block_number, log_index, rank)), (toUInt64(0), toUInt32(0), toUInt8(0))
  FROM bookings
  WHERE trader IN {traders:Array(FixedString(20))} AND condition_id IN {conditions:Array(FixedString(32))}
    AND block_time < toDateTime({since:UInt32}, 'UTC')
  GROUP BY trader, condition_id
)
ORDER BY place`;

type Booking = {
  /** Seconds since the epoch; 0: everything before the others. */
  readonly at: number;
  readonly txHash: string;
  readonly isOpening: boolean;
  /** Net micro-shares of outcome 0. */
  readonly before: bigint;
  readonly after: bigint;
};
type Traded = {
  readonly matchId: string;
  readonly atMs: number;
  readonly txHash: string;
  readonly delta: bigint;
};
/** Micro-USDC by condition id. */
type Portfolio = ReadonlyMap<string, bigint>;

/** What the open positions of wallets are worth. Readers share a read, and its result for a minute. */
export class Portfolios {
  readonly #values: LRUCache<string, Portfolio>;

  constructor(reading: Omit<Reading, 'signal'>) {
    this.#values = new LRUCache({
      ...{ max: PORTFOLIOS_MAX, ttl: PORTFOLIO_MS_MAX },
      fetchMethod: (trader) => readPortfolio({ ...reading, signal: null }, trader),
    });
  }

  /** Rejects with Problem 503. */
  of(trader: string): Promise<Portfolio> {
    return this.#values.forceFetch(trader);
  }
}

export class PositionBook {
  readonly #wanted = new Map<string, { readonly trader: string; readonly conditionId: string }>();
  /** Of the wanted positions, since the last `load`. */
  #booked = new Map<string, Booking[]>();
  readonly #portfolios: Portfolios;
  /** Of the wanted wallets, since the last `load`. */
  #worth = new Map<string, Portfolio>();
  /** What all wallets traded in FEED: a rule may be new. */
  readonly #traded = new Recent<Traded>(BOOKED_SECONDS_MAX);
  readonly #forgotten = new LRUCache<string, ReadonlyMap<string, Traded>>(upTo(FORGOTTEN_MAX));

  constructor(portfolios: Portfolios) {
    this.#portfolios = portfolios;
  }

  /** `load` will read this position. */
  want(trader: string, { conditionId }: FeedMatch): void {
    this.#wanted.set(keyOf(trader, conditionId), { trader, conditionId });
  }

  /** Reads the wanted positions for these matches. Throws Problem 503. */
  async load(reading: Reading, matches: readonly FeedMatch[]): Promise<void> {
    this.#booked = new Map();
    if (this.#wanted.size === 0) return;
    const all = [...this.#wanted.values()];
    // They are not exactly in the order of detection.
    const times = matches.map(({ detectedAtMs }) => Math.floor(detectedAtMs / 1_000));
    const since = Math.max(0, Math.min(...times) - BOOKED_SECONDS_MAX);
    const until = Math.max(...times) + BOOKED_SECONDS_MAX;
    for (const some of inParts(all, AT_ONCE)) {
      const traders = new Bytes([...new Set(some.map(({ trader }) => trader))]);
      const conditions = new Bytes([...new Set(some.map(({ conditionId }) => conditionId))]);
      const parameters = { traders, conditions, since, until };
      const rows = await read(reading, { sql: SQL, parameters, row: Row });
      const keys = new Set(some.map(({ conditionId, trader }) => keyOf(trader, conditionId)));
      for (const { conditionId, trader, ...booking } of rows) {
        const key = keyOf(trader, conditionId);
        // Those of another part have all of theirs there.
        if (!keys.has(key)) continue;
        const others = this.#booked.get(key);
        if (others === undefined) this.#booked.set(key, [booking]);
        else others.push(booking);
      }
    }
    const traders = new Set(all.map(({ trader }) => trader));
    this.#worth = new Map();
    for (const some of inParts([...traders], PORTFOLIOS_AT_ONCE)) {
      await Promise.all(
        some.map(async (trader) => this.#worth.set(trader, await this.#portfolios.of(trader))),
      );
    }
  }

  /** Net micro-shares of outcome 0 before a match, after the matches that FEED had before it. */
  before(trader: string, match: FeedMatch): bigint {
    const { conditionId, detectedAtMs, txHash } = match;
    const key = keyOf(trader, conditionId);
    const bookings = this.#booked.get(key) ?? [];
    const earlier = this.#traded.of(key, detectedAtMs);
    const own = bookings.find((one) => one.txHash === txHash && !one.isOpening);
    if (own !== undefined) {
      // Other matches of the same transaction.
      return sum(
        own.before,
        earlier.filter((one) => one.txHash === txHash),
      );
    }
    const until = bookings.filter(({ at }) => at <= detectedAtMs / 1_000);
    const booked = new Set(until.map((one) => one.txHash));
    return sum(
      until.at(-1)?.after ?? 0n,
      earlier.filter((one) => !booked.has(one.txHash)),
    );
  }

  /** Whether the position is exact, because the match is booked. */
  isBooked(trader: string, { conditionId, txHash }: FeedMatch): boolean {
    const bookings = this.#booked.get(keyOf(trader, conditionId)) ?? [];
    return bookings.some((one) => one.txHash === txHash && !one.isOpening);
  }

  /** Whether the wallet never had shares of the market before a match. */
  isFirst(trader: string, { conditionId, detectedAtMs, txHash }: FeedMatch): boolean {
    const key = keyOf(trader, conditionId);
    if (this.#traded.of(key, detectedAtMs).length > 0) return false;
    return (this.#booked.get(key) ?? []).every(
      (one) => one.txHash === txHash || one.at > detectedAtMs / 1_000,
    );
  }

  /** What the wallet's other open positions are worth, micro-USDC, at the marks of the last minute. */
  others(trader: string, { conditionId }: FeedMatch): bigint {
    let total = 0n;
    for (const [id, value] of this.#worth.get(trader) ?? []) {
      if (id !== conditionId) total += value;
    }
    return total;
  }

  /** A match was evaluated: from now on, it counts in the positions. */
  add(match: FeedMatch, matchId: string): void {
    const { conditionId, detectedAtMs: atMs, txHash } = match;
    for (const [trader, delta] of changesOf(match)) {
      const key = keyOf(trader, conditionId);
      const others = this.#traded.of(key, atMs);
      if (others.some((one) => one.matchId === matchId)) continue;
      this.#traded.set(key, [...others, { matchId, atMs, txHash, delta }], atMs);
    }
  }

  /** A match did not happen. */
  forget(matchId: string): void {
    this.#forgotten.set(matchId, this.#traded.forget(matchId));
  }

  /** It happened after all. */
  restore(matchId: string): void {
    for (const [key, one] of this.#forgotten.get(matchId) ?? []) {
      this.#traded.set(key, [...this.#traded.of(key, one.atMs), one], one.atMs);
    }
    this.#forgotten.delete(matchId);
  }

  /** Forgets which positions were wanted. */
  clear(): void {
    this.#wanted.clear();
  }
}

/** By how many net micro-shares of outcome 0 a match changes each wallet's position. */
function changesOf(match: FeedMatch): ReadonlyMap<string, bigint> {
  const changes = new Map<string, bigint>();
  for (const fill of fillsOf(match)) {
    const { address } = fill.trader;
    changes.set(address, (changes.get(address) ?? 0n) + netOf(fill));
  }
  return changes;
}

async function readPortfolio(reading: Reading, trader: string): Promise<Portfolio> {
  const holdings = await readHoldings(reading, trader, { isOpen: true });
  const held = holdings.map(({ conditionId }) => conditionId);
  const marks = await readMarkedOf(reading, held, trader);
  return new Map(
    holdings.map(({ conditionId, outcome, shares }) => {
      const mark = marks.get(conditionId)?.mark;
      return [conditionId, mark === undefined ? 0n : valueAt(mark, { outcome, shares })];
    }),
  );
}

function sum(start: bigint, traded: readonly Traded[]): bigint {
  return traded.reduce((net, { delta }) => net + delta, start);
}

const keyOf = (trader: string, conditionId: string) => `${trader} ${conditionId}`;
