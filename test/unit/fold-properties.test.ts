import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Match, Resolution } from '../../ingest/contract.ts';
import type { Booking } from '../../projector/contract.ts';
import {
  type BookedEvent,
  batchesOf,
  OpenPositions,
  type StoredMarket,
} from '../../projector/fold.ts';
import { blockHash, ledgerEvents } from '../support/ledger-generator.ts';
import { runs } from './fixtures.ts';

type Event = Match | Resolution;

const events = fc
  .record({ seed: fc.integer(), matches: fc.integer({ min: 1, max: 120 }) })
  .map(({ seed, matches }) => [
    ...ledgerEvents({
      seed,
      traders: 8,
      markets: 4,
      from: 1_790_000_000,
      to: 1_790_600_000,
      matches,
      matchesPerMarket: 20,
    }),
  ]);

function fold(list: readonly Event[]): Booking[] {
  const positions = new OpenPositions();
  return list.flatMap((event) => positions.apply(event));
}

describe('the fold of any LEDGER', () => {
  test('any batching gives the same result as one event at a time', () => {
    fc.assert(
      fc.property(events, fc.array(fc.nat(10), { maxLength: 20 }), (list, cuts) => {
        const rows = fold(list);
        const positions = new OpenPositions();
        const batched: Booking[] = [];
        let waiting: BookedEvent[] = [];
        const flush = () => {
          for (const batch of batchesOf(waiting)) batched.push(...batch.rows);
          waiting = [];
        };
        for (const [i, event] of list.entries()) {
          waiting.push({ blockHash: blockHash(event.blockNumber), rows: positions.apply(event) });
          if (cuts.includes(i % 11)) flush();
        }
        flush();
        expect(batched).toEqual(rows);
      }),
    );
  });

  test('a repeated prefix changes nothing', () => {
    fc.assert(
      fc.property(events, fc.nat(), fc.nat(), (list, end, length) => {
        const at = end % (list.length + 1);
        const again = list.slice(Math.max(0, at - (length % (at + 1))), at);
        expect(fold([...list.slice(0, at), ...again, ...list.slice(at)]).length).toBe(
          fold(list).length,
        );
        const pnl = (rows: readonly Booking[]) => rows.map((row) => row.realisedPnl);
        expect(pnl(fold([...list.slice(0, at), ...again, ...list.slice(at)]))).toEqual(
          pnl(fold(list)),
        );
      }),
    );
  });

  test('a restart from the stored positions at any event continues as if nothing had happened', () => {
    fc.assert(
      fc.property(events, fc.nat(), (list, cut) => {
        const at = cut % (list.length + 1);
        const rows = fold(list);
        const stored = fold(list.slice(0, at));
        const positions = restored(stored, list.slice(0, at));
        const rest = list.slice(at).flatMap((event) => positions.apply(event));
        expect([...stored, ...rest]).toEqual(rows);
      }),
    );
  });

  test('any chunks with any room in memory give the same as everything in memory', () => {
    fc.assert(
      fc.property(events, fc.nat(30), fc.infiniteStream(fc.nat(8)), (list, room, sizes) => {
        const positions = new OpenPositions(room);
        const rows: Booking[] = [];
        // When a chunk is folded, all chunks before the previous one are stored.
        let [stored, applied] = [0, 0];
        for (let from = 0; from < list.length; ) {
          const { value: size } = sizes.next();
          const chunk = list.slice(from, from + size + 1);
          const surplus = positions.surplus();
          const inFlight = new Set(rows.slice(stored).map((row) => row.conditionId));
          expect(surplus.filter((id) => inFlight.has(id))).toEqual([]);
          positions.forget(surplus);
          for (const { conditionId: id } of chunk) {
            if (positions.knows(id)) continue;
            const market = storedMarket(id, rows.slice(0, stored), list.slice(0, applied));
            positions.restoreMarket(id, market);
          }
          positions.beginChunk();
          [stored, applied] = [rows.length, from];
          for (const event of chunk) rows.push(...positions.apply(event));
          from += chunk.length;
        }
        expect(rows).toEqual(fold(list));
      }),
    );
  });

  test('per market, PnL plus open cost and fees equal the cash that moved', () => {
    // Per market: Σ realised PnL = Σ cash in − Σ cash out + payouts + Σ (open cost + open fees) of what
    // is still held, where a SELL of shares that were not held is a purchase of the complement:
    // each pair of both outcomes that a trader closed is worth 1 USDC a share.
    fc.assert(
      fc.property(events, (list) => {
        for (const market of new Set(list.map((event) => event.conditionId))) {
          const rows = fold(list).filter((row) => row.conditionId === market);
          const sum = (pick: (row: Booking) => bigint) =>
            rows.reduce((total, row) => total + pick(row), 0n);
          const newest = new Map(rows.map((row) => [row.trader, row]));
          let bound = 0n;
          for (const row of newest.values()) bound += row.positionCost + row.positionFees;
          // A sale pays `shares − usdc` for the complement; a closed pair pays its shares back.
          const paid = sum((row) => purchaseCost(row) + row.fee);
          const pairs = [...newest.keys()].reduce((total, trader) => {
            return total + closedPairs(rows.filter((row) => row.trader === trader));
          }, 0n);
          const payouts = sum((row) => (row.kind === 'settlement' ? row.usdc : 0n));
          expect(sum((row) => row.realisedPnl)).toBe(pairs + payouts - paid + bound);
        }
      }),
    );
  });
});

function purchaseCost(row: Booking): bigint {
  if (row.kind === 'settlement') return 0n;
  return row.side === 'BUY' ? row.usdc : row.shares - row.usdc;
}

/** Shares of both outcomes that one trader bought and that closed each other. */
function closedPairs(rows: readonly Booking[]): bigint {
  let [pairs, held] = [0n, 0n];
  for (const row of rows) {
    if (row.kind === 'settlement') {
      held = 0n;
      continue;
    }
    const isFirst = (row.side === 'BUY') === (row.outcomeIndex === 0);
    const change = isFirst ? row.shares : -row.shares;
    const opposite = held < 0n !== change < 0n && held !== 0n;
    if (opposite) pairs += abs(held) < abs(change) ? abs(held) : abs(change);
    held += change;
  }
  return pairs;
}

const abs = (value: bigint) => (value < 0n ? -value : value);

function restored(rows: readonly Booking[], applied: readonly Event[]): OpenPositions {
  const positions = new OpenPositions();
  for (const row of rows) {
    positions.restoreLast(row.partition, {
      blockNumber: row.blockNumber,
      logIndex: row.eventLogIndex,
    });
  }
  for (const id of new Set(applied.map((event) => event.conditionId))) {
    positions.restoreMarket(id, storedMarket(id, rows, applied));
  }
  return positions;
}

/** What the tables hold of a market after these rows, and the resolutions among these events. */
function storedMarket(
  conditionId: string,
  rows: readonly Booking[],
  events: readonly Event[],
): StoredMarket {
  const newest = new Map<string, Booking>();
  for (const row of rows) if (row.conditionId === conditionId) newest.set(row.trader, row);
  const held = new Map(
    [...newest].flatMap(([trader, row]) => {
      const position = {
        outcome: row.positionOutcome,
        shares: row.positionShares,
        costBasis: row.positionCost,
        openFees: row.positionFees,
      };
      return row.positionShares > 0n ? [[trader, position] as const] : [];
    }),
  );
  const resolution = events.find(
    (event) => event.kind === 'resolution' && event.conditionId === conditionId,
  );
  return { held, resolution: resolution?.kind === 'resolution' ? resolution : undefined };
}

/** An exact fraction: slow, but without any rounding. */
class Fraction {
  readonly top: bigint;
  readonly bottom: bigint;

  constructor(top: bigint, bottom = 1n) {
    let [a, b] = [abs(top), abs(bottom)];
    while (b !== 0n) [a, b] = [b, a % b];
    const divisor = a === 0n ? 1n : a;
    this.top = top / divisor;
    this.bottom = bottom / divisor;
  }

  plus(other: Fraction): Fraction {
    const top = this.top * other.bottom + other.top * this.bottom;
    return new Fraction(top, this.bottom * other.bottom);
  }

  times(other: Fraction): Fraction {
    return new Fraction(this.top * other.top, this.bottom * other.bottom);
  }

  minus(other: Fraction): Fraction {
    return this.plus(other.times(new Fraction(-1n)));
  }
}

describe('the fold against a model in fractions', () => {
  test('random markets: every PnL and cost is within one micro-unit per rounding', () => {
    const zero = new Fraction(0n);
    for (let seed = 0; seed < runs(10_000); seed++) {
      const list = ledgerEvents({
        seed,
        traders: 3,
        markets: 1,
        from: 1_790_000_000,
        to: 1_790_600_000,
        matches: 14,
        matchesPerMarket: 10,
      });
      const positions = new OpenPositions();
      // Signed shares (outcome 0 above 0), cost and fees per share: an average, never a rounded total.
      const model = new Map<string, { net: bigint; cost: Fraction; fees: Fraction }>();
      const totals = new Map<string, { pnl: Fraction; folded: bigint; roundings: bigint }>();
      let payouts: readonly [bigint, bigint] = [0n, 0n];
      for (const event of list) {
        if (event.kind === 'resolution') payouts = event.payouts;
        for (const row of positions.apply(event)) {
          const total = totals.get(row.trader) ?? { pnl: zero, folded: 0n, roundings: 0n };
          const held = model.get(row.trader) ?? { net: 0n, cost: zero, fees: zero };
          const step = modelStep(held, row, payouts);
          model.set(row.trader, step.held);
          totals.set(row.trader, {
            pnl: total.pnl.plus(step.pnl),
            folded: total.folded + row.realisedPnl,
            roundings: total.roundings + 4n,
          });
        }
      }
      for (const { pnl, folded, roundings } of totals.values()) {
        const off = pnl.minus(new Fraction(folded));
        expect(abs(off.top) <= roundings * abs(off.bottom), `seed ${seed}`).toBe(true);
      }
    }
  });
});

type Held = { readonly net: bigint; readonly cost: Fraction; readonly fees: Fraction };

function modelStep(
  held: Held,
  row: Booking,
  payouts: readonly [bigint, bigint],
): { held: Held; pnl: Fraction } {
  const zero = new Fraction(0n);
  if (row.kind === 'settlement') {
    const perShare = new Fraction(payouts[held.net > 0n ? 0 : 1], payouts[0] + payouts[1]);
    const payout = new Fraction(abs(held.net)).times(perShare);
    return {
      held: { net: 0n, cost: zero, fees: zero },
      pnl: payout.minus(held.cost).minus(held.fees),
    };
  }
  const isFirst = (row.side === 'BUY') === (row.outcomeIndex === 0);
  const change = isFirst ? row.shares : -row.shares;
  const cost = new Fraction(purchaseCost(row));
  const fee = new Fraction(row.fee);
  const size = abs(change);
  if (held.net === 0n || held.net < 0n === change < 0n) {
    return {
      held: { net: held.net + change, cost: held.cost.plus(cost), fees: held.fees.plus(fee) },
      pnl: zero,
    };
  }
  const closed = size < abs(held.net) ? size : abs(held.net);
  const share = new Fraction(closed, size);
  const released = new Fraction(closed, abs(held.net));
  const pnl = new Fraction(closed)
    .minus(cost.times(share))
    .minus(fee.times(share))
    .minus(held.cost.times(released))
    .minus(held.fees.times(released));
  const keeps = new Fraction(abs(held.net) - closed, abs(held.net));
  const opens = new Fraction(size - closed, size);
  return {
    held: {
      net: held.net + change,
      cost: held.cost.times(keeps).plus(cost.times(opens)),
      fees: held.fees.times(keeps).plus(fee.times(opens)),
    },
    pnl,
  };
}
