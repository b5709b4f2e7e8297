/**
 * Folds LEDGER events into booking rows. Does no I/O: before events are applied, the caller restores the markets that
 * they name and that are not in memory. An event that is not after the last (block, log) of its partition is dropped, so
 * duplicates of any origin are harmless.
 */
import {
  type Fill,
  type LedgerEvent,
  type Match,
  partitionOf,
  type Resolution,
} from '../../ingest/contract.ts';
import type { Booking } from '../contract.ts';
import { FLAT, type Position, type Step, settle, trade } from './position.ts';

type Payouts = readonly [bigint, bigint];

type Market = {
  payouts: Payouts | undefined;
  /** Open positions by trader. */
  readonly held: Map<string, Position>;
  /** The chunk of the newest event that was applied. */
  chunk: number;
};

/** The stored state of a market. */
export type StoredMarket = {
  /** Open positions by trader. */
  readonly held: Map<string, Position>;
  resolution: (Place & { readonly payouts: Payouts }) | undefined;
};

/** The place of an event in the chain. */
export type Place = { readonly blockNumber: number; readonly logIndex: number };

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
    this.#markets.set(conditionId, { payouts, held, chunk: this.#chunk });
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

  /** Open positions in memory. */
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
  apply(event: LedgerEvent): Booking[] {
    if (event.kind === 'market' || event.kind === 'movement') return [];
    const partition = partitionOf(event.conditionId);
    const { blockNumber, logIndex } = event;
    if (!isAfter(event, this.#last.get(partition))) return [];
    this.#last.set(partition, { blockNumber, logIndex });
    const market = this.#market(event.conditionId);
    market.chunk = this.#chunk;
    return event.kind === 'match'
      ? this.#applyMatch(event, market, partition)
      : this.#applyResolution(event, market, partition);
  }

  /** Rows of a match: one per fill, plus immediate settlements if the market is already resolved. */
  #applyMatch(match: Match, { held, payouts }: Market, partition: number): Booking[] {
    const rows: Booking[] = [];
    const before = held.size;
    for (const fill of match.fills) {
      const { trader } = fill;
      const step = trade(held.get(trader) ?? FLAT, fill);
      const isOpen = step.position.shares > 0n;
      if (isOpen && payouts === undefined) held.set(trader, checked(step.position));
      else held.delete(trader);
      rows.push(bookingOf('fill', match, fill, step, partition, rows.length));
      // After the resolution, shares can be redeemed, so what this fill leaves open settles at once.
      if (isOpen && payouts !== undefined) {
        const { logIndex } = fill;
        const at = { event: match, logIndex, partition, leg: rows.length };
        rows.push(settlement(step.position, trader, payouts, at));
      }
    }
    this.#size += held.size - before;
    return rows;
  }

  /** Settlement rows of all open positions of the market, by trader. Only the first resolution counts. */
  #applyResolution(resolution: Resolution, market: Market, partition: number): Booking[] {
    if (market.payouts !== undefined) return [];
    const { payouts, logIndex } = resolution;
    const held = [...market.held].sort(([a], [b]) => (a < b ? -1 : 1));
    market.payouts = payouts;
    market.held.clear();
    this.#size -= held.length;
    return held.map(([trader, position], leg) =>
      settlement(position, trader, payouts, { event: resolution, logIndex, partition, leg }),
    );
  }

  #market(conditionId: string): Market {
    let market = this.#markets.get(conditionId);
    if (market === undefined) {
      market = { payouts: undefined, held: new Map(), chunk: this.#chunk };
      this.#markets.set(conditionId, market);
    }
    return market;
  }
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
    (place.blockNumber === last.blockNumber && place.logIndex > last.logIndex)
  );
}

// Lists every field, because spreading objects halves the speed of the fold.
function bookingOf(
  kind: Booking['kind'],
  event: Match | Resolution,
  traded: Pick<Booking, keyof Fill>,
  { position, realisedPnl, realisedCost }: Step,
  partition: number,
  leg: number,
): Booking {
  return {
    kind,
    blockNumber: event.blockNumber,
    blockTime: event.blockTime,
    logIndex: traded.logIndex,
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
    partition,
    leg,
  };
}

/** The row that pays out a position. */
function settlement(
  before: Position,
  trader: string,
  payouts: Payouts,
  at: {
    readonly event: Match | Resolution;
    readonly logIndex: number;
    readonly partition: number;
    readonly leg: number;
  },
): Booking {
  const step = settle(before, payouts);
  const paid = {
    logIndex: at.logIndex,
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
  return bookingOf('settlement', at.event, paid, step, at.partition, at.leg);
}
