/**
 * Holdings of the traders who were asked for, and marks of the markets that they need, in memory. What is read may be newer
 * than the block up to which bookings were followed, so a booking counts only if it is newer than what is known. This file
 * does no I/O; live-memory.ts and live-traders.ts do.
 */
import { LRUCache } from 'lru-cache';
import { FILL_RANK } from '../../projector/contract.ts';
import { blockOf, type Holding, versionOf } from './holdings.ts';
import type { Pool } from './live-pool.ts';
import type { Marked } from './marks.ts';
import { MarketIds, PackedHoldings } from './packed-holdings.ts';

/** Bytes of memory without the holdings, estimated. */
const TRADER_BYTES = 1_000;
const MARKS_MAX = 50_000;

/** What a booking says of holdings and marks. Amounts are in micro-units, times in seconds since the epoch. */
export type Change = {
  readonly trader: string;
  readonly conditionId: string;
  readonly block: number;
  readonly log: number;
  readonly time: number;
  readonly isFill: boolean;
  readonly isSettlement: boolean;
  /** Order among the rows of a trader, market and log. */
  readonly rank: number;
  readonly isTaker: boolean;
  readonly outcome: 0 | 1;
  readonly shares: bigint;
  /** Of the balance of `outcome`. */
  readonly balanceChange: bigint;
  readonly usdc: bigint;
  readonly pnl: bigint;
  readonly cost: bigint;
  readonly heldOutcome: 0 | 1;
  readonly heldShares: bigint;
  readonly heldCost: bigint;
  readonly heldFees: bigint;
};

/** A value that is in memory, or is being read. */
type Entry<Value> = {
  value: Value;
  /** What happens while it is being read. It counts afterwards. */
  waiting: (() => void)[] | undefined;
  /** Settles when it was read. */
  loaded: Promise<void> | undefined;
};
export type LiveHolder = Entry<PackedHoldings> & {
  readonly trader: string;
  readonly bytes: () => number;
};
export type LiveMark = Entry<Marked>;

export class LiveHoldings {
  /** Of all traders. */
  readonly #ids = new MarketIds();
  readonly #traders: Pool<LiveHolder>;
  readonly #marks = new LRUCache<string, LiveMark>({ max: MARKS_MAX });

  constructor(traders: Pool<LiveHolder>) {
    this.#traders = traders;
  }

  get markets(): number {
    return this.#ids.size;
  }

  /** The trader, if there is room and it was asked for before. */
  find(trader: string): LiveHolder | undefined {
    return this.#traders.find(trader);
  }

  /** Whether the trader is still followed. */
  has(holder: LiveHolder): boolean {
    return this.#traders.has(holder);
  }

  /** Begins to follow a trader, whose holdings the caller reads from now on. */
  begin(trader: string): LiveHolder {
    const holder: LiveHolder = {
      ...{ trader, value: new PackedHoldings(this.#ids), waiting: [], loaded: undefined },
      bytes: () => TRADER_BYTES + holder.value.bytes,
    };
    this.#traders.add(holder);
    return holder;
  }

  /** Sets what was read. */
  fill(holder: LiveHolder, holdings: readonly Holding[]): void {
    holder.value = new PackedHoldings(this.#ids, holdings);
    settle(holder);
    this.#traders.measure(holder);
  }

  findMark(conditionId: string): LiveMark | undefined {
    return this.#marks.get(conditionId);
  }

  /** Whether all these marks are still followed. */
  hasMarks(marks: ReadonlyMap<string, LiveMark>): boolean {
    return [...marks].every(([conditionId, mark]) => this.#marks.peek(conditionId) === mark);
  }

  beginMark(conditionId: string): LiveMark {
    const value = { mark: undefined, version: 0 };
    const entry: LiveMark = { value, waiting: [], loaded: undefined };
    this.#marks.set(conditionId, entry);
    return entry;
  }

  fillMark(entry: LiveMark, marked: Marked): void {
    entry.value = marked;
    settle(entry);
  }

  /** Stops following a trader whose holdings could not be read. */
  drop(holder: LiveHolder): void {
    this.#traders.drop(holder);
  }

  dropMark(conditionId: string, entry: LiveMark): void {
    if (this.#marks.peek(conditionId) === entry) this.#marks.delete(conditionId);
  }

  /** Adds bookings that were stored, in the order of the chain. */
  enter(changes: readonly Change[]): void {
    for (const change of changes) {
      const holder = this.#traders.peek(change.trader);
      if (holder !== undefined) apply(holder, () => book(holder.value, change));
      if (!change.isTaker || change.shares === 0n) continue;
      this.#mark(change.conditionId, {
        version: versionOf(change.block, change.log, FILL_RANK),
        mark: {
          source: 'last_match',
          time: change.time,
          usdc: change.outcome === 0 ? change.usdc : change.shares - change.usdc,
          shares: change.shares,
        },
      });
    }
  }

  /** Marks a resolved market with its payout: `shares` shares of outcome 0 are worth `usdc`. */
  resolve(resolved: Pick<Change, 'conditionId' | 'block' | 'time' | 'usdc' | 'shares'>): void {
    const { conditionId, block, ...payout } = resolved;
    const mark = { source: 'resolution', ...payout } as const;
    this.#mark(conditionId, { mark, version: versionOf(block, 0, 0) });
  }

  /** A resolution replaces any match, and only a newer match replaces a match. */
  #mark(conditionId: string, marked: Marked): void {
    const entry = this.#marks.peek(conditionId);
    if (entry === undefined) return;
    apply(entry, () => {
      const { mark, version } = entry.value;
      const isResolved = mark?.source === 'resolution';
      if (marked.mark?.source === 'resolution' || (!isResolved && marked.version > version)) {
        entry.value = marked;
      }
    });
  }
}

function book(holdings: PackedHoldings, change: Change): void {
  const version = versionOf(change.block, change.log, change.rank);
  const before = holdings.find(change.conditionId);
  if (before !== undefined && before.version >= version) return;
  const { conditionId, isFill, isSettlement, time, outcome, balanceChange } = change;
  holdings.set({
    ...{ conditionId, version },
    ...{ outcome: change.heldOutcome, shares: change.heldShares },
    ...{ cost: change.heldCost, fees: change.heldFees },
    realised: (before?.realised ?? 0n) + change.pnl,
    realisedCost: (before?.realisedCost ?? 0n) + change.cost,
    volume: (before?.volume ?? 0n) + (isFill ? change.usdc : 0n),
    firstAt: (before?.firstAt ?? 0) || (isFill ? time : 0),
    lastAt: isFill ? Math.max(before?.lastAt ?? 0, time) : (before?.lastAt ?? 0),
    settled: (before?.settled ?? 0) + (isSettlement ? 1 : 0),
    balance0: (before?.balance0 ?? 0n) + (outcome === 0 ? balanceChange : 0n),
    balance1: (before?.balance1 ?? 0n) + (outcome === 1 ? balanceChange : 0n),
  });
}

/** Whether none of these is newer than the block. */
export function isAsOf(block: number, all: readonly { readonly version: number }[]): boolean {
  return all.every(({ version }) => blockOf(version) <= block);
}

function apply(entry: LiveHolder | LiveMark, change: () => void): void {
  if (entry.waiting === undefined) change();
  else entry.waiting.push(change);
}

function settle(entry: LiveHolder | LiveMark): void {
  const { waiting = [] } = entry;
  entry.waiting = undefined;
  for (const change of waiting) change();
}
