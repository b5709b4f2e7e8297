/**
 * Folds LEDGER events into booking rows. Does no I/O: before events are applied, the caller restores the markets that
 * they name and that are not in memory. An event that is not after the last (block, log) of its partition is dropped, so
 * duplicates of any origin are harmless.
 */
import {
  type Fill,
  type LedgerEvent,
  type Match,
  type Movement,
  partitionOf,
  type Resolution,
} from '../../ingest/contract.ts';
import { type Booking, FILL_RANK } from '../contract.ts';
import { fill as filled, type Holding, NOTHING_HELD, opened, rebalance } from './holding.ts';
import { type Entry, entriesOf } from './movements.ts';
import {
  FLAT,
  netOf,
  type Payouts,
  type Position,
  payoutOf,
  payoutsOf,
  type Step,
  settle,
  trade,
} from './position.ts';

/** A log with movements, and how many rows each trader has of it. */
type Log = { readonly place: Place; readonly rows: Map<string, number> };

type Market = {
  payouts: Payouts | undefined;
  /** By trader, unless nothing is held. */
  readonly held: Map<string, Holding>;
  /** The chunk of the newest event that was applied. */
  chunk: number;
  /** Of the newest movement. */
  log: Log | undefined;
};

/** The stored state of a market. */
export type StoredMarket = {
  /** By trader, unless nothing is held. */
  readonly held: Map<string, Holding>;
  resolution: (Place & { readonly payouts: Payouts }) | undefined;
};

/** The place of an event in the chain. */
export type Place = {
  readonly blockNumber: number;
  readonly logIndex: number;
  /** Of a movement or a result. Stored places are those of whole logs. */
  readonly part?: number | undefined;
};

/**
 * Most open positions and markets in memory; a position takes 240 bytes. A higher limit would only save a catch-up
 * over many markets from reading some of them again.
 */
const MOST_IN_MEMORY = 2_000_000;

/** The open positions of the markets in memory. */
export class OpenPositions {
  readonly #most: number;
  readonly #markets = new Map<string, Market>();
  readonly #last = new Map<number, Place>();
  #size = 0;
  #chunk = 0;
  /** Whether all stored markets are in memory, as at a first start and in a rebuild, until some are forgotten. */
  #hasAll = true;

  constructor(most = MOST_IN_MEMORY) {
    this.#most = most;
  }

  /** Sets the last stored event of a partition, unless a later one is already set. */
  restoreLast(partition: number, last: Place): void {
    this.#hasAll = false;
    if (isAfter(last, this.#last.get(partition))) this.#last.set(partition, last);
  }

  /** Restores the stored state of a market that is not in memory. */
  restoreMarket(conditionId: string, { held, resolution }: StoredMarket): void {
    // A resolution may have been stored without its settlements. It will be read again.
    const isApplied =
      resolution !== undefined && !isAfter(resolution, this.#last.get(partitionOf(conditionId)));
    const payouts = isApplied ? resolution.payouts : undefined;
    this.#markets.set(conditionId, { payouts, held, chunk: this.#chunk, log: undefined });
    this.#size += held.size;
  }

  /** Whether the whole stored state of the market is in memory. */
  knows(conditionId: string): boolean {
    return this.#hasAll || this.#markets.has(conditionId);
  }

  /** Whether memory holds more than its limit. */
  get isFull(): boolean {
    return this.#size + this.#markets.size > this.#most;
  }

  /** Traders with a position or a balance, by market, in memory. */
  openPositions(): number {
    return this.#size;
  }

  /** Whether a resolution of the market was applied or restored; later ones are ignored. */
  isResolved(conditionId: string): boolean {
    return this.#markets.get(conditionId)?.payouts !== undefined;
  }

  /** Begins a chunk of events. Call it when the chunk before the previous one is stored. */
  beginChunk(): void {
    this.#chunk += 1;
  }

  /**
   * The markets to forget, in order of their newest event: none while memory has room. The rows of the newest chunk may
   * not be stored yet, so its markets stay.
   */
  surplus(): readonly string[] {
    if (!this.isFull) return [];
    // A quarter more than necessary, so that this rarely happens.
    let excess = this.#size + this.#markets.size - this.#most * 0.75;
    const surplus: string[] = [];
    const stored = [...this.#markets].filter(([, { chunk }]) => chunk < this.#chunk);
    for (const [conditionId, { held }] of stored.sort(([, a], [, b]) => a.chunk - b.chunk)) {
      if (excess <= 0) break;
      excess -= 1 + held.size;
      surplus.push(conditionId);
    }
    return surplus;
  }

  /** Forgets markets. Restore them before events of them are applied again. */
  forget(conditionIds: readonly string[]): void {
    this.#hasAll = false;
    for (const conditionId of conditionIds) {
      this.#size -= this.#markets.get(conditionId)?.held.size ?? 0;
      this.#markets.delete(conditionId);
    }
  }

  /**
   * Applies an event and returns its booking rows, or none if it was applied before. A market that is not in memory has
   * no stored rows.
   */
  apply(event: LedgerEvent, coversMovements = false): Booking[] {
    if (event.kind === 'market') return [];
    const partition = partitionOf(event.conditionId);
    const { blockNumber, logIndex } = event;
    const part = event.kind === 'match' ? -1 : (event.part ?? -1);
    if (!isAfter({ blockNumber, logIndex, part }, this.#last.get(partition))) return [];
    this.#last.set(partition, { blockNumber, logIndex, part });
    const market = this.#market(event.conditionId);
    market.chunk = this.#chunk;
    if (event.kind === 'movement') return this.#applyMovement(event, market, partition);
    const of = { partition, isCovered: coversMovements };
    return event.kind === 'match'
      ? this.#applyMatch(event, market, of)
      : this.#applyResolution(event, market, of);
  }

  /** Rows of a match: one per fill, plus immediate settlements if the market is already resolved. */
  #applyMatch(match: Match, { held, payouts }: Market, of: Covered): Booking[] {
    const rows: Booking[] = [];
    const before = held.size;
    for (const fill of match.fills) {
      const { trader, logIndex } = fill;
      const at = { event: match, ...of, logIndex };
      let holding = held.get(trader) ?? NOTHING_HELD;
      if (of.isCovered) {
        const opening = openingOf(holding, fill, payouts);
        if (opening !== undefined) {
          holding = opening.after;
          rows.push(entryRow(opening, { ...at, leg: rows.length, rank: FILL_RANK - 1 }));
        }
      }
      const step = of.isCovered
        ? filled(holding, fill)
        : { ...trade(holding.position, fill), balances: holding.balances };
      const place = { ...at, leg: rows.length, rank: FILL_RANK };
      rows.push(bookingOf('fill', fill, { ...step, before: holding.position }, place));
      keep(held, trader, payouts === undefined ? step : { ...step, position: FLAT });
      // After the resolution, shares can be redeemed, so what this fill leaves open settles at once.
      if (step.position.shares > 0n && payouts !== undefined)
        rows.push(
          settlement(step.position, trader, payouts, {
            ...{ ...at, leg: rows.length, rank: FILL_RANK + 1 },
          }),
        );
    }
    this.#size += held.size - before;
    return rows;
  }

  #applyMovement(movement: Movement, market: Market, partition: number): Booking[] {
    const { held, payouts } = market;
    const rows: Booking[] = [];
    const before = held.size;
    const holdingOf = (trader: string) => held.get(trader) ?? NOTHING_HELD;
    const { logIndex, part } = movement;
    const at = { event: movement, partition, isCovered: true, logIndex };
    for (const entry of entriesOf(movement, holdingOf, payouts)) {
      const { trader, after } = entry;
      const next = () => ({
        leg: part * LEGS_OF_MOVEMENT + rows.length,
        rank: nextRank(market, movement, trader),
      });
      rows.push(entryRow(entry, { ...at, ...next() }));
      keep(held, trader, payouts === undefined ? after : { ...after, position: FLAT });
      if (after.position.shares > 0n && payouts !== undefined)
        rows.push(settlement(after.position, trader, payouts, { ...at, ...next() }));
    }
    this.#size += held.size - before;
    return rows;
  }

  /** Settlement rows of all open positions of the market, by trader. Only the first resolution counts. */
  #applyResolution(resolution: Resolution, market: Market, of: Covered): Booking[] {
    if (market.payouts !== undefined) return [];
    const { logIndex } = resolution;
    const payouts = payoutsOf(resolution);
    const { held } = market;
    const before = held.size;
    const open = [...held].filter(([, { position }]) => position.shares > 0n);
    market.payouts = payouts;
    // Shares stay in the wallet until they are redeemed.
    for (const [trader, holding] of open) keep(held, trader, { ...holding, position: FLAT });
    this.#size += held.size - before;
    return open
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([trader, { position }], leg) =>
        settlement(position, trader, payouts, {
          ...{ event: resolution, ...of, logIndex, leg },
          rank: nextRank(market, resolution, trader),
        }),
      );
  }

  #market(conditionId: string): Market {
    let market = this.#markets.get(conditionId);
    if (market === undefined) {
      market = { payouts: undefined, held: new Map(), chunk: this.#chunk, log: undefined };
      this.#markets.set(conditionId, market);
    }
    return market;
  }
}

/** Ranks have five bits. Nobody has so many rows of a market in a log. */
const RANK_MAX = 31;

/** A log can have several movements of a trader in a market: those that were placed at the end of a match. */
function nextRank(market: Market, { blockNumber, logIndex }: Place, trader: string): number {
  const isSame =
    market.log?.place.blockNumber === blockNumber && market.log.place.logIndex === logIndex;
  const { rows } = isSame && market.log ? market.log : { rows: new Map<string, number>() };
  market.log = { place: { blockNumber, logIndex }, rows };
  const rank = rows.get(trader) ?? 0;
  rows.set(trader, rank + 1);
  return Math.min(rank, RANK_MAX);
}

/** A movement has at most an opening, a row and one of its receiver for each outcome, and a settlement. */
const LEGS_OF_MOVEMENT = 8;

/** The partition of an event, and whether movements were read in its block. */
type Covered = { readonly partition: number; readonly isCovered: boolean };
type At = Covered & {
  readonly event: Match | Resolution | Movement;
  readonly logIndex: number;
  readonly leg: number;
  readonly rank: number;
};

/** A sale beyond the balances: what was sold must have been held before, and counts as bought at the price of the sale. */
function openingOf(
  holding: Holding,
  { side, outcomeIndex: outcome, shares, usdc, trader }: Fill,
  payouts: Payouts | undefined,
): Entry | undefined {
  if (side === 'BUY' || shares === 0n) return undefined;
  const of = {
    ...({ kind: 'opening', trader, counterparty: '', outcome, isMark: false } as const),
    before: holding.position,
  };
  if (payouts !== undefined) {
    const change = shares - holding.balances[outcome];
    if (change <= 0n) return undefined;
    const after = rebalance(holding, outcome === 0 ? [change, 0n] : [0n, change]);
    const payout = payoutOf(change, outcome, payouts);
    return { ...of, change, usdc: payout, after };
  }
  const worth = (missing: bigint) => (usdc * missing) / shares;
  const { missing, ...after } = opened(holding, outcome, shares, worth);
  if (missing === 0n) return undefined;
  return { ...of, change: missing, usdc: worth(missing), after };
}

/** Sets what a trader holds, or forgets it. */
function keep(held: Map<string, Holding>, trader: string, { position, balances }: Holding): void {
  const isHeld = position.shares > 0n || balances[0] !== 0n || balances[1] !== 0n;
  if (isHeld) held.set(trader, { position: checked(position), balances });
  else held.delete(trader);
}

const INT64 = 2n ** 63n;

/** Throws RangeError for an amount beyond Int64: the tables would store another one. */
function checked(position: Position): Position {
  const { shares, costBasis, openFees } = position;
  if (isInt64(shares) && isInt64(costBasis) && isInt64(openFees)) return position;
  throw new RangeError(`a position exceeds 64 bits: ${[shares, costBasis, openFees]}`);
}

function isInt64(amount: bigint): boolean {
  return amount >= -INT64 && amount < INT64;
}

/** Whether a place is after another one, or there is no other one. */
export function isAfter(place: Place, last: Place | undefined): boolean {
  return (
    last === undefined ||
    place.blockNumber > last.blockNumber ||
    (place.blockNumber === last.blockNumber &&
      (place.logIndex > last.logIndex ||
        (place.logIndex === last.logIndex &&
          (place.part ?? -1) > (last.part ?? Number.POSITIVE_INFINITY))))
  );
}

const NOT_MOVED = { counterparty: '', isMark: false };

// Lists every field, because spreading objects halves the speed of the fold.
function bookingOf(
  kind: Booking['kind'],
  traded: Pick<Booking, Exclude<keyof Fill, 'logIndex'>>,
  { before, position, realisedPnl, realisedCost }: Step & { readonly before: Position },
  { event, logIndex, partition, isCovered, leg, rank }: At,
  { counterparty, isMark }: Pick<Booking, 'counterparty' | 'isMark'> = NOT_MOVED,
): Booking {
  return {
    kind,
    blockNumber: event.blockNumber,
    blockTime: event.blockTime,
    logIndex,
    eventLogIndex: event.logIndex,
    txHash: event.txHash,
    conditionId: event.conditionId,
    trader: traded.trader,
    orderHash: traded.orderHash,
    isTaker: traded.isTaker,
    side: traded.side,
    outcomeIndex: traded.outcomeIndex,
    tokenId: traded.tokenId,
    shares: traded.shares,
    usdc: traded.usdc,
    fee: traded.fee,
    realisedPnl,
    realisedCost,
    positionOutcome: position.outcome,
    positionShares: position.shares,
    positionCost: position.costBasis,
    positionFees: position.openFees,
    positionBefore: netOf(before),
    partition,
    leg,
    rank,
    reason: event.kind === 'movement' && kind !== 'settlement' ? event.reason : 'none',
    counterparty,
    isMark,
    isCovered,
  };
}

/** The row of a movement or an opening. */
function entryRow(entry: Entry, at: At): Booking {
  const { kind, trader, outcome, change, usdc, before, after } = entry;
  const moved = {
    trader,
    orderHash: '',
    isTaker: false,
    side: change < 0n ? 'SELL' : 'BUY',
    outcomeIndex: outcome,
    tokenId: '0',
    shares: change < 0n ? -change : change,
    usdc,
    fee: 0n,
  } as const;
  return bookingOf(kind, moved, { ...after, before }, at, entry);
}

/** The row that pays out a position. */
function settlement(before: Position, trader: string, payouts: Payouts, at: At): Booking {
  const step = settle(before, payouts);
  const paid = {
    trader,
    orderHash: '',
    isTaker: false,
    side: 'NONE',
    outcomeIndex: before.outcome,
    tokenId: '0',
    shares: before.shares,
    usdc: step.payout,
    fee: 0n,
  } as const;
  return bookingOf('settlement', paid, { ...step, before }, at);
}
