/**
 * All open positions of a projector's partitions, in memory: LEDGER events in, booking rows out.
 * An event that is not after its partition's last (block, log) is dropped, so duplicates of any
 * origin are harmless. Holds state but does no I/O; the store reloads it after a restart.
 */
import { type Match, partitionOf, type Resolution } from '../ingest/contract.ts';
import type { Booking } from './contract.ts';
import { evolve, FLAT, type Position } from './position.ts';

type Market = {
  readonly positions: Map<string, Position>;
  payouts: readonly [bigint, bigint] | undefined;
};

type ChainPosition = { readonly blockNumber: number; readonly logIndex: number };

export class Book {
  readonly #markets = new Map<string, Market>();
  readonly #last = new Map<number, ChainPosition>();
  /** Events that were not after their partition's last one. */
  droppedDuplicates = 0;
  /** Resolutions of a market that was resolved before; the first one stands. */
  droppedResolutions = 0;

  /** Puts back an open position as it was stored. */
  restorePosition(conditionId: string, trader: string, position: Position): void {
    this.#market(conditionId).positions.set(trader, position);
  }

  restoreResolution(conditionId: string, payouts: readonly [bigint, bigint]): void {
    this.#market(conditionId).payouts = payouts;
  }

  /** Sets the last event that is stored of a partition. */
  restoreLast(partition: number, last: ChainPosition): void {
    this.#last.set(partition, last);
  }

  /** The newest event applied of a partition; zeros before the first. */
  lastOf(partition: number): ChainPosition {
    return this.#last.get(partition) ?? { blockNumber: 0, logIndex: 0 };
  }

  openPositions(): number {
    let count = 0;
    for (const market of this.#markets.values()) count += market.positions.size;
    return count;
  }

  /** Rows of a match: one per fill, and settlements at once where the market is resolved already. */
  applyMatch(match: Match, sequence: number): Booking[] {
    const partition = partitionOf(match.conditionId);
    if (!this.#advance(partition, match)) return [];
    const market = this.#market(match.conditionId);
    const rows: Booking[] = [];
    for (const fill of match.fills) {
      const before = market.positions.get(fill.trader) ?? FLAT;
      const step = evolve(before, { kind: 'fill', ...fill });
      keep(market, fill.trader, step.position);
      rows.push({
        ...place(match, sequence, partition, rows.length),
        kind: 'fill',
        logIndex: fill.logIndex,
        trader: fill.trader,
        orderHash: fill.orderHash,
        isTaker: fill.isTaker,
        side: fill.side,
        outcomeIndex: fill.outcomeIndex,
        tokenId: fill.tokenId,
        shares: fill.shares,
        usdc: fill.usdc,
        fee: fill.fee,
        realisedPnl: step.realisedPnl,
        realisedCost: step.realisedCost,
        ...after(step.position),
      });
      // A fill after the resolution: what it leaves open can be redeemed, so it settles at once.
      if (market.payouts !== undefined && step.position.shares > 0n) {
        const at = { ...place(match, sequence, partition, rows.length), logIndex: fill.logIndex };
        rows.push(settlement(market, fill.trader, market.payouts, at));
      }
    }
    return rows;
  }

  /** Settlement rows of all open positions of the market, by trader. */
  applyResolution(resolution: Resolution, sequence: number): Booking[] {
    const partition = partitionOf(resolution.conditionId);
    if (!this.#advance(partition, resolution)) return [];
    const market = this.#market(resolution.conditionId);
    if (market.payouts !== undefined) {
      this.droppedResolutions += 1;
      return [];
    }
    market.payouts = resolution.payouts;
    const traders = [...market.positions.keys()].sort();
    return traders.map((trader, leg) => {
      const at = {
        ...place(resolution, sequence, partition, leg),
        logIndex: resolution.logIndex,
      };
      return settlement(market, trader, resolution.payouts, at);
    });
  }

  #market(conditionId: string): Market {
    let market = this.#markets.get(conditionId);
    if (market === undefined) {
      market = { positions: new Map(), payouts: undefined };
      this.#markets.set(conditionId, market);
    }
    return market;
  }

  /** False for an event that is not after the partition's last one. */
  #advance(partition: number, event: ChainPosition): boolean {
    const last = this.#last.get(partition);
    const isNew =
      last === undefined ||
      event.blockNumber > last.blockNumber ||
      (event.blockNumber === last.blockNumber && event.logIndex > last.logIndex);
    if (!isNew) {
      this.droppedDuplicates += 1;
      return false;
    }
    this.#last.set(partition, { blockNumber: event.blockNumber, logIndex: event.logIndex });
    return true;
  }
}

function keep(market: Market, trader: string, position: Position): void {
  if (position.shares === 0n) market.positions.delete(trader);
  else market.positions.set(trader, position);
}

function place(event: Match | Resolution, sequence: number, partition: number, leg: number) {
  return {
    blockNumber: event.blockNumber,
    blockTime: event.blockTime,
    eventLogIndex: event.logIndex,
    txHash: event.txHash,
    conditionId: event.conditionId,
    partition,
    sequence,
    leg,
  };
}

function settlement(
  market: Market,
  trader: string,
  payouts: readonly [bigint, bigint],
  at: ReturnType<typeof place> & { readonly logIndex: number },
): Booking {
  const before = market.positions.get(trader) ?? FLAT;
  const step = evolve(before, { kind: 'resolution', payouts });
  market.positions.delete(trader);
  return {
    ...at,
    kind: 'settlement',
    trader,
    orderHash: '',
    isTaker: false,
    side: 'NONE',
    outcomeIndex: before.outcome,
    tokenId: '0',
    shares: before.shares,
    usdc: step.payout,
    fee: 0n,
    realisedPnl: step.realisedPnl,
    realisedCost: step.realisedCost,
    ...after(step.position),
  };
}

function after(position: Position) {
  return {
    positionOutcome: position.outcome,
    positionShares: position.shares,
    positionCost: position.costBasis,
    positionFees: position.openFees,
  };
}
