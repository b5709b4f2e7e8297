import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Match, Resolution } from '../../ingest/contract.ts';
import type { Booking } from '../../projector/contract.ts';
import { type BookedEvent, batchesOf } from '../../projector/fold/batches.ts';
import { OpenPositions, type StoredMarket } from '../../projector/fold/positions.ts';
import { blockHash, ledgerEvents } from '../support/ledger-generator.ts';
import { at, flat, type Holding, payOut, trade } from '../support/recompute.ts';

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

  test('every PnL, cost and position equals the account of the reconciliation', () => {
    fc.assert(
      fc.property(events, (list) => {
        const positions = new OpenPositions();
        const held = new Map<string, Holding>();
        const payouts = new Map<string, readonly bigint[]>();
        for (const event of list) {
          if (event.kind === 'resolution') payouts.set(event.conditionId, event.payouts);
          for (const row of positions.apply(event)) {
            const key = `${row.trader} ${row.conditionId}`;
            const holding = at(held, key, flat);
            const change =
              row.kind === 'settlement'
                ? payOut(holding, payouts.get(row.conditionId) ?? [])
                : trade(
                    holding,
                    row.side === 'BUY',
                    row.outcomeIndex,
                    row.shares,
                    row.usdc,
                    row.fee,
                  );
            if (row.kind === 'settlement') held.set(key, flat());
            const { cost, fees, shares } = row.kind === 'settlement' ? flat() : holding;
            expect([row.realisedPnl, row.realisedCost]).toEqual([change?.pnl, change?.cost]);
            expect([row.positionShares, row.positionCost, row.positionFees]).toEqual([
              shares[0] + shares[1],
              cost,
              fees,
            ]);
          }
        }
      }),
    );
  });
});

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
