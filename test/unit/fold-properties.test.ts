import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  type LedgerEvent,
  MOVEMENT_REASONS,
  type Movement,
  type TradingEvent,
} from '../../ingest/contract.ts';
import type { Booking } from '../../projector/contract.ts';
import { type BookedEvent, batchesOf } from '../../projector/fold/batches.ts';
import { OpenPositions, type StoredMarket } from '../../projector/fold/positions.ts';
import { at } from '../support/at.ts';
import { blockHash, ledgerEvents, traderAddress } from '../support/ledger-generator.ts';
import { Ledger, payOut, trade } from '../support/wallet-ledger.ts';
import { runs } from './fixtures.ts';

/** An event, and whether movements were read in its block. */
type Event = { readonly event: LedgerEvent; readonly isCovered: boolean };

const trading = fc
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

const moved = fc.record({
  reason: fc.constantFrom(...MOVEMENT_REASONS),
  trader: fc.nat(7),
  receiver: fc.nat(7),
  shares: fc.bigInt({ min: 1n, max: 200_000_000n }),
  others: fc.bigInt({ min: 0n, max: 200_000_000n }),
  price: fc.bigInt({ min: 0n, max: 1_000_000n }),
  isFirst: fc.boolean(),
  hasMark: fc.boolean(),
});
type Moved = Parameters<Parameters<typeof moved.map>[0]>[0];

/** A movement after an event, in its log. */
function movementAfter(event: TradingEvent, part: number, of: Moved): Movement {
  const { blockNumber, blockTime, txHash, logIndex, conditionId } = event;
  const { reason, shares, others, price, isFirst, trader } = of;
  const only = (amount: bigint): [bigint, bigint] => (isFirst ? [amount, 0n] : [0n, amount]);
  const value = (shares * price) / 1_000_000n;
  const changes: Record<Movement['reason'], [[bigint, bigint], bigint]> = {
    split: [[shares, shares], -shares],
    merge: [[-shares, -shares], shares],
    redeem: [[-shares, -others], shares],
    convert: isFirst ? [[shares, 0n], -value] : [[0n, -shares], value],
    transfer: [others % 2n === 0n ? only(-shares) : [-shares, -others], 0n],
    refund: [only(shares), 0n],
    unexplained: [only(others % 2n === 0n ? shares : -shares), 0n],
  };
  const [change, usdc] = changes[reason];
  const receiver = (trader + 1 + (of.receiver % 7)) % 8;
  return {
    kind: 'movement',
    ...{ blockNumber, blockTime, txHash, logIndex, part, reason, conditionId, change, usdc },
    trader: traderAddress(trader),
    counterparty: reason === 'transfer' ? traderAddress(receiver) : '',
    mark: of.hasMark ? price : null,
  };
}

/** Matches, resolutions and, in most blocks, movements. */
const events = fc
  .tuple(trading, fc.infiniteStream(fc.array(moved, { maxLength: 2 })), fc.nat(5))
  .map(([list, movements, uncovered]) =>
    list.flatMap((event): Event[] => {
      const isCovered = event.blockNumber % 6 !== uncovered;
      const { value } = movements.next();
      // Nothing is redeemed before the resolution.
      const after = isCovered
        ? (value as readonly Moved[]).filter(({ reason }) => reason !== 'redeem')
        : [];
      // The movements in between are of other markets.
      const all = [event, ...after.map((one, at) => movementAfter(event, at * 5, one))];
      return all.map((one) => ({ event: one, isCovered }));
    }),
  );

const apply = (positions: OpenPositions, { event, isCovered }: Event) =>
  positions.apply(event, isCovered);

function fold(list: readonly Event[]): Booking[] {
  const positions = new OpenPositions();
  return list.flatMap((one) => apply(positions, one));
}

/** The next place at which a log ends: all events of a log are stored at once. */
function logEnd(list: readonly Event[], at: number): number {
  const isSameLog = (a: Event | undefined, b: Event | undefined) =>
    a?.event.blockNumber === b?.event.blockNumber && a?.event.logIndex === b?.event.logIndex;
  let end = at;
  while (end > 0 && end < list.length && isSameLog(list[end - 1], list[end])) end += 1;
  return end;
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
        for (const [i, one] of list.entries()) {
          const hash = blockHash(one.event.blockNumber);
          waiting.push({ blockHash: hash, rows: apply(positions, one) });
          if (cuts.includes(i % 11)) flush();
        }
        flush();
        expect(batched).toEqual(rows);
      }),
    );
  });

  test('the rows of a trader in a market and log have ranks in their order', () => {
    fc.assert(
      fc.property(events, (list) => {
        const ranks = new Map<string, number[]>();
        for (const row of fold(list)) {
          const key = [row.trader, row.conditionId, row.blockNumber, row.logIndex].join(' ');
          at(ranks, key, (): number[] => []).push(row.rank);
        }
        for (const own of ranks.values())
          expect(own.every((rank, i) => i === 0 || rank > (own[i - 1] ?? 0))).toBe(true);
      }),
    );
  });

  test('every row begins with the position that the row before it left', () => {
    fc.assert(
      fc.property(events, (list) => {
        const net = new Map<string, bigint>();
        for (const row of fold(list)) {
          const key = `${row.trader} ${row.conditionId}`;
          expect(row.positionBefore).toBe(net.get(key) ?? 0n);
          const { positionOutcome, positionShares } = row;
          net.set(key, positionOutcome === 0 ? positionShares : -positionShares);
        }
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
        const at = logEnd(list, cut % (list.length + 1));
        const rows = fold(list);
        const stored = fold(list.slice(0, at));
        const positions = restored(stored, list.slice(0, at));
        const rest = list.slice(at).flatMap((one) => apply(positions, one));
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
          for (const { event } of chunk) {
            const id = event.conditionId;
            if (positions.knows(id)) continue;
            const market = storedMarket(id, rows.slice(0, stored), list.slice(0, applied));
            positions.restoreMarket(id, market);
          }
          positions.beginChunk();
          [stored, applied] = [rows.length, from];
          for (const one of chunk) rows.push(...apply(positions, one));
          from += chunk.length;
        }
        expect(rows).toEqual(fold(list));
      }),
    );
  });

  test('in an open market whose movements were all read, balances and cash follow from the positions', () => {
    const all = fc.tuple(trading, fc.infiniteStream(moved)).map(([list, movements]) =>
      list
        .filter((event) => event.kind === 'match')
        .flatMap((event) => [event, movementAfter(event, 0, movements.next().value as Moved)])
        .filter((event) => event.kind === 'match' || event.reason !== 'redeem'),
    );
    fc.assert(
      fc.property(all, (list) => {
        const positions = new OpenPositions();
        const accounts = new Map<string, Account>();
        for (const event of list) {
          let implied = 0n;
          for (const row of positions.apply(event, true)) {
            const key = `${row.trader} ${row.conditionId}`;
            const account = at(accounts, key, (): Account => ({ balances: [0n, 0n], paid: 0n }));
            const pairs = min(account.balances);
            account.balances[row.outcomeIndex] += row.side === 'BUY' ? row.shares : -row.shares;
            const net = row.positionOutcome === 0 ? row.positionShares : -row.positionShares;
            const [zero, one] = account.balances;
            const isPair = event.kind === 'movement' && /split|merge/.test(event.reason);
            if (!isPair) expect(zero - one).toBe(net);
            expect(min(account.balances)).toBeGreaterThanOrEqual(0n);
            const paid = row.positionCost + row.positionFees + min(account.balances);
            const cash = row.realisedPnl - (paid - account.paid);
            account.paid = paid;
            expect(pairs).toBeGreaterThanOrEqual(0n);
            if (row.kind === 'fill')
              expect(cash).toBe((row.side === 'BUY' ? -row.usdc : row.usdc) - row.fee);
            // What a wallet had before was paid for before.
            else if (row.kind === 'movement') implied += cash;
          }
          if (event.kind !== 'movement' || event.reason === 'unexplained') continue;
          expect(implied).toBe(event.usdc);
        }
      }),
    );
  });

  test('cash, payouts and what is left in the wallet explain the PnL after any event', () => {
    const all = fc
      .tuple(trading, fc.infiniteStream(moved))
      .map(([list, movements]) => consistent(list, movements));
    const audited = fc.property(all, (list) => {
      const positions = new OpenPositions();
      const audits = new Map<string, Audit>();
      const payouts = new Map<string, Payouts>();
      for (const event of list) {
        const { conditionId } = event;
        if (event.kind === 'resolution') payouts.set(conditionId, event.payouts);
        for (const row of positions.apply(event, true))
          enter(at(audits, `${row.trader} ${conditionId}`, newAudit), row);
        for (const [key, audit] of audits) {
          if (!key.endsWith(conditionId)) continue;
          const of = payouts.get(conditionId);
          const difference = audit.cash - explained(audit, of);
          // Half a micro-unit is lost by each row that is paid half.
          const isExact = of === undefined || of[0] * of[1] === 0n;
          const most = isExact ? 0n : BigInt(audit.rows);
          expect(difference <= most && -difference <= most, `${key}: ${difference}`).toBe(true);
        }
      }
    });
    // 120 matches and as many movements at most.
    fc.assert(audited, { numRuns: runs(1_000) });
  });

  test('every PnL, cost and position equals the account of the reconciliation', () => {
    fc.assert(
      fc.property(trading, (list) => {
        const positions = new OpenPositions();
        const held = new Map<string, Ledger>();
        const payouts = new Map<string, readonly bigint[]>();
        for (const event of list) {
          if (event.kind === 'resolution') payouts.set(event.conditionId, event.payouts);
          for (const row of positions.apply(event)) {
            const key = `${row.trader} ${row.conditionId}`;
            const holding = at(held, key, () => new Ledger());
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
            if (row.kind === 'settlement') held.set(key, new Ledger());
            const { cost, fees, shares } = row.kind === 'settlement' ? new Ledger() : holding;
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

type Payouts = readonly [bigint, bigint];
type Audit = {
  /** Paid and received, micro-USDC. */
  cash: bigint;
  /** Cost that came with shares, less what left. */
  carried: bigint;
  realised: bigint;
  /** Cost and fees of the position. */
  paid: bigint;
  balances: [bigint, bigint];
  rows: number;
};

const newAudit = (): Audit => ({
  ...{ cash: 0n, carried: 0n, realised: 0n, paid: 0n, balances: [0n, 0n], rows: 0 },
});

function enter(audit: Audit, row: Booking): void {
  const { kind, reason, side, usdc, fee } = row;
  audit.rows += 1;
  audit.realised += row.realisedPnl;
  audit.paid = row.positionCost + row.positionFees;
  if (side !== 'NONE')
    audit.balances[row.outcomeIndex] += side === 'BUY' ? row.shares : -row.shares;
  if (kind === 'fill') audit.cash += (side === 'BUY' ? -usdc : usdc) - fee;
  else if (kind === 'opening') audit.carried += usdc;
  else if (reason === 'split') audit.cash -= usdc;
  else if (reason === 'merge' || reason === 'redeem') audit.cash += usdc;
  else if (reason === 'convert') audit.cash += side === 'BUY' ? -usdc : usdc;
  else if (kind === 'movement') audit.carried += side === 'BUY' ? usdc : -usdc;
}

/** The cash that the PnL, the position and the wallet speak of. */
function explained({ realised, paid, balances, carried }: Audit, payouts: Payouts | undefined) {
  const inWallet =
    payouts === undefined
      ? min(balances)
      : payout(balances[0], 0, payouts) + payout(balances[1], 1, payouts);
  return realised - paid - inWallet + carried;
}

const payout = (shares: bigint, outcome: 0 | 1, payouts: Payouts) =>
  (shares * payouts[outcome]) / (payouts[0] + payouts[1]);

/** Each event with a movement that the contracts allow: redemptions after the resolution, at its payouts. */
function consistent(list: readonly TradingEvent[], movements: Iterator<Moved>) {
  const resolved = new Map<string, Payouts>();
  return list.flatMap((event): LedgerEvent[] => {
    if (event.kind === 'resolution') resolved.set(event.conditionId, event.payouts);
    const movement = movementAfter(event, 0, movements.next().value as Moved);
    const payouts = resolved.get(event.conditionId);
    if (payouts === undefined) return movement.reason === 'redeem' ? [event] : [event, movement];
    const mark = payout(1_000_000n, 0, payouts);
    const [zero, one] = movement.change;
    const redeemed = payout(-zero, 0, payouts) + payout(-one, 1, payouts);
    const usdc = movement.reason === 'redeem' ? redeemed : movement.usdc;
    return [event, { ...movement, mark, usdc }];
  });
}

const min = ([a, b]: readonly [bigint, bigint]) => (a < b ? a : b);

function restored(rows: readonly Booking[], applied: readonly Event[]): OpenPositions {
  const positions = new OpenPositions();
  for (const row of rows) {
    positions.restoreLast(row.partition, {
      blockNumber: row.blockNumber,
      logIndex: row.eventLogIndex,
    });
  }
  for (const id of new Set(applied.map(({ event }) => event.conditionId))) {
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
      const balances = balancesOf(rows, trader, conditionId);
      const isHeld = row.positionShares > 0n || balances.some((balance) => balance !== 0n);
      return isHeld ? [[trader, { position, balances }] as const] : [];
    }),
  );
  const resolution = events
    .map(({ event }) => event)
    .find((event) => event.kind === 'resolution' && event.conditionId === conditionId);
  return { held, resolution: resolution?.kind === 'resolution' ? resolution : undefined };
}

/** `paid`: for what is held. */
type Account = { balances: [bigint, bigint]; paid: bigint };

/** As the tables sum them up. */
function balancesOf(rows: readonly Booking[], trader: string, conditionId: string) {
  const balances: [bigint, bigint] = [0n, 0n];
  for (const row of rows) {
    const isOwn = row.trader === trader && row.conditionId === conditionId;
    if (!isOwn || !row.isCovered || row.side === 'NONE') continue;
    balances[row.outcomeIndex] += row.side === 'BUY' ? row.shares : -row.shares;
  }
  return balances;
}
