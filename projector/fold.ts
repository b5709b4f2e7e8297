/**
 * Folds LEDGER events into booking rows and cuts the rows into insert batches. Keeps all open positions of a
 * projector's partitions in memory and does no I/O; after a restart, the store restores them. An event that is not
 * after the last (block, log) of its partition is dropped, so duplicates of any origin are harmless.
 */
import { createHash } from 'node:crypto';
import {
  type Fill,
  type Hash,
  type LedgerEvent,
  type Match,
  partitionOf,
  type Resolution,
} from '../ingest/contract.ts';
import type { Booking } from './contract.ts';
import { FLAT, type Position, type Step, settle, trade } from './position.ts';
import { Positions } from './positions.ts';

type Market = {
  readonly number: number;
  payouts: readonly [bigint, bigint] | undefined;
};

/** The place of an event in the chain. */
export type Place = { readonly blockNumber: number; readonly logIndex: number };

export class OpenPositions {
  readonly #markets = new Map<string, Market>();
  readonly #positions = new Positions();
  /** Traders are numbered in order of appearance, so that each address is in memory only once. */
  readonly #numbers = new Map<string, number>();
  readonly #traders: string[] = [];
  readonly #last = new Map<number, Place>();

  /** Restores an open position from storage. */
  restorePosition(conditionId: string, trader: string, position: Position): void {
    this.#positions.set(this.#market(conditionId).number, this.#numberOf(trader), position);
  }

  restoreResolution(conditionId: string, payouts: readonly [bigint, bigint]): void {
    this.#market(conditionId).payouts = payouts;
  }

  /** Sets the last stored event of a partition, unless a later one is already set. */
  restoreLast(partition: number, last: Place): void {
    if (isAfter(last, this.#last.get(partition))) this.#last.set(partition, last);
  }

  /** The newest applied event of a partition; undefined if there is none. */
  lastOf(partition: number): Place | undefined {
    return this.#last.get(partition);
  }

  openPositions(): number {
    return this.#positions.size;
  }

  /** Whether a resolution of the market was applied or restored; later ones are ignored. */
  isResolved(conditionId: string): boolean {
    return this.#markets.get(conditionId)?.payouts !== undefined;
  }

  /** Applies an event and returns its booking rows, or none if it was applied before. */
  apply(event: LedgerEvent): Booking[] {
    const partition = partitionOf(event.conditionId);
    const { blockNumber, logIndex } = event;
    if (!isAfter(event, this.#last.get(partition))) return [];
    this.#last.set(partition, { blockNumber, logIndex });
    const market = this.#market(event.conditionId);
    return event.kind === 'match'
      ? this.#applyMatch(event, market, partition)
      : this.#applyResolution(event, market, partition);
  }

  /** Rows of a match: one per fill, plus immediate settlements if the market is already resolved. */
  #applyMatch(match: Match, { number, payouts }: Market, partition: number): Booking[] {
    const rows: Booking[] = [];
    for (const fill of match.fills) {
      const trader = this.#numberOf(fill.trader);
      const held = this.#positions.get(number, trader);
      const step = trade(held ?? FLAT, fill);
      const isOpen = step.position.shares > 0n;
      if (isOpen && payouts === undefined) this.#positions.set(number, trader, step.position);
      else if (held !== undefined) this.#positions.delete(number, trader);
      rows.push(bookingOf('fill', match, fill, step, partition, rows.length));
      // After the resolution, shares can be redeemed, so what this fill leaves open settles at once.
      if (isOpen && payouts !== undefined) {
        const { logIndex } = fill;
        const at = { event: match, logIndex, partition, leg: rows.length };
        rows.push(settlement(step.position, fill.trader, payouts, at));
      }
    }
    return rows;
  }

  /** Settlement rows of all open positions of the market, by trader. Only the first resolution counts. */
  #applyResolution(resolution: Resolution, market: Market, partition: number): Booking[] {
    if (market.payouts !== undefined) return [];
    const { payouts, logIndex } = resolution;
    market.payouts = payouts;
    const held = [...this.#positions.of(market.number)].map(([number, position]) => ({
      number,
      trader: this.#traders[number] ?? '',
      position,
    }));
    for (const { number } of held) this.#positions.delete(market.number, number);
    return held
      .sort((a, b) => (a.trader < b.trader ? -1 : 1))
      .map(({ trader, position }, leg) =>
        settlement(position, trader, payouts, { event: resolution, logIndex, partition, leg }),
      );
  }

  #numberOf(trader: string): number {
    let number = this.#numbers.get(trader);
    if (number === undefined) {
      number = this.#traders.length;
      this.#numbers.set(trader, number);
      this.#traders.push(trader);
    }
    return number;
  }

  #market(conditionId: string): Market {
    let market = this.#markets.get(conditionId);
    if (market === undefined) {
      market = { number: this.#markets.size, payouts: undefined };
      this.#markets.set(conditionId, market);
    }
    return market;
  }
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
  payouts: readonly [bigint, bigint],
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

/** Most rows of a batch, unless a single event has more: events are never split. */
export const BATCH_ROWS_MAX = 20_000;

/** The rows of one LEDGER event. */
export type BookedEvent = {
  readonly blockHash: Hash;
  readonly rows: readonly Booking[];
};

export type Batch = {
  /** Decimal UInt64; also the deduplication token of the insert. */
  readonly id: string;
  readonly rows: readonly Booking[];
};

/** Cuts events, in chain order, into batches of one month each. Drops events without rows. */
export function batchesOf(events: readonly BookedEvent[]): readonly Batch[] {
  const batches: Batch[] = [];
  let open: BookedEvent[] = [];
  let rows = 0;
  const close = () => {
    if (open.length > 0) batches.push(batchOf(open));
    open = [];
    rows = 0;
  };
  for (const event of events) {
    const row = event.rows[0];
    if (row === undefined) continue;
    const sameMonth = open.length === 0 || monthOf(open[0]?.rows[0]) === monthOf(row);
    if (!sameMonth || (rows > 0 && rows + event.rows.length > BATCH_ROWS_MAX)) close();
    open.push(event);
    rows += event.rows.length;
  }
  close();
  return batches;
}

function batchOf(events: readonly BookedEvent[]): Batch {
  const rows = events.flatMap((event) => event.rows);
  const first = events[0];
  const last = events.at(-1);
  const identity = JSON.stringify([
    first?.blockHash,
    first?.rows[0]?.eventLogIndex,
    last?.blockHash,
    last?.rows[0]?.eventLogIndex,
    rows.length,
  ]);
  const hash = createHash('sha256').update(identity).digest();
  return { id: hash.readBigUInt64BE(0).toString(), rows };
}

function monthOf(row: Booking | undefined): string {
  return row === undefined ? '' : new Date(row.blockTime * 1_000).toISOString().slice(0, 7);
}
