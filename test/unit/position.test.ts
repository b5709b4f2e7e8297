import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { FLAT, type Position, settle, type Trade, trade } from '../../projector/fold/position.ts';

type Resolved = { readonly payouts: readonly [bigint, bigint] };

type FillGiven = readonly [
  side: 'BUY' | 'SELL',
  outcome: 0 | 1,
  shares: number,
  usdc: number,
  fee?: number,
];

function fill([side, outcomeIndex, shares, usdc, fee = 0]: FillGiven): Trade {
  return {
    side,
    outcomeIndex,
    shares: BigInt(shares),
    usdc: BigInt(usdc),
    fee: BigInt(fee),
  };
}

const resolution = (first: number, second: number): Resolved => ({
  payouts: [BigInt(first), BigInt(second)],
});

function fold(events: readonly (Trade | Resolved)[], start: Position = FLAT) {
  let position = start;
  let [pnl, cost] = [0n, 0n];
  for (const event of events) {
    const step = 'payouts' in event ? settle(position, event.payouts) : trade(position, event);
    position = step.position;
    pnl += step.realisedPnl;
    cost += step.realisedCost;
  }
  return { position, pnl, cost };
}

const long = (shares: number, costBasis: number, openFees = 0, outcome: 0 | 1 = 0): Position => ({
  outcome,
  shares: BigInt(shares),
  costBasis: BigInt(costBasis),
  openFees: BigInt(openFees),
});

describe('trade and settle', () => {
  test('an open position that was never reduced has realised nothing', () => {
    const { position, pnl, cost } = fold([
      fill(['BUY', 0, 100, 40, 2]),
      fill(['BUY', 0, 50, 30, 1]),
    ]);
    expect(position).toEqual(long(150, 70, 3));
    expect([pnl, cost]).toEqual([0n, 0n]);
  });

  test('rounds a negative cost down, too, where shares are sold above 1', () => {
    // Selling 3 for 4 buys 3 of the other outcome for -1, of which the 2 that close take -2/3, rounded down to -1.
    const { position, pnl } = fold([fill(['BUY', 0, 2, 1]), fill(['SELL', 0, 3, 4])]);
    expect([position, pnl]).toEqual([long(1, 0, 0, 1), 2n]);
  });

  test('a sale realises the proceeds less cost and fees', () => {
    const { position, pnl, cost } = fold([
      fill(['BUY', 0, 100, 40, 10]),
      fill(['SELL', 0, 50, 35, 3]),
    ]);
    expect(position).toEqual(long(50, 20, 5));
    expect(pnl).toBe(35n - 20n - 5n - 3n);
    expect(cost).toBe(20n);
  });

  test('a purchase of the opposite outcome realises profit at 1 − price', () => {
    const { position, pnl } = fold([fill(['BUY', 0, 100, 40]), fill(['BUY', 1, 100, 30])]);
    expect(position.shares).toBe(0n);
    expect(pnl).toBe(100n - 40n - 30n);
  });

  test('a sale of split shares opens the other outcome, at the net cost of split and sale', () => {
    expect(fold([fill(['SELL', 1, 100, 60])])).toEqual({
      position: long(100, 40),
      pnl: 0n,
      cost: 0n,
    });
  });

  test('after a transfer, each wallet is wrong, but both together are right once the market is resolved', () => {
    const [buyer, seller] = [fill(['BUY', 0, 100, 30]), fill(['SELL', 0, 100, 50])];
    expect(fold([buyer]).position).toEqual(long(100, 30));
    expect(fold([seller]).position).toEqual(long(100, 50, 0, 1));
    expect(fold([buyer, resolution(1, 0)]).pnl).toBe(70n);
    expect(fold([seller, resolution(1, 0)]).pnl).toBe(-50n);
    expect(fold([buyer, resolution(0, 1)]).pnl).toBe(-30n);
    expect(fold([seller, resolution(0, 1)]).pnl).toBe(50n);
  });

  test('the remainder of a purchase opens the other outcome with the rest of its cost and fee', () => {
    const { position, pnl } = fold([fill(['BUY', 0, 10, 4]), fill(['BUY', 1, 30, 20, 9])]);
    // Of 20 paid for 30, floor(20·10/30) = 6 close; 14 stay. Of the fee 3 close, 6 stay.
    expect(position).toEqual(long(20, 14, 6, 1));
    expect(pnl).toBe(10n - 6n - 4n - 3n);
  });

  test('selling shares that were never bought opens the complement at 1 − price', () => {
    const { position } = fold([fill(['SELL', 0, 100, 60, 1])]);
    expect(position).toEqual(long(100, 40, 1, 1));
  });

  test('the last part of a position takes all rounding remainders', () => {
    const { position, pnl, cost } = fold([
      fill(['BUY', 0, 3, 100, 10]),
      fill(['SELL', 0, 1, 0]),
      fill(['SELL', 0, 1, 0]),
      fill(['SELL', 0, 1, 0]),
    ]);
    expect(position).toEqual({ ...FLAT, outcome: 1 });
    expect([pnl, cost]).toEqual([-110n, 100n]);
  });

  test('a resolution pays the winner 1 per share, the loser nothing, half each for 50/50', () => {
    const bought = fill(['BUY', 1, 101, 60, 4]);
    expect(fold([bought, resolution(0, 1)]).pnl).toBe(101n - 60n - 4n);
    expect(fold([bought, resolution(1, 0)]).pnl).toBe(-64n);
    expect(fold([bought, resolution(1, 1)])).toMatchObject({ pnl: 50n - 64n, cost: 60n });
  });

  test('a fill without shares realises its money at once and does not change the position', () => {
    expect(fold([fill(['BUY', 0, 0, 5, 1])])).toEqual({ position: FLAT, pnl: -6n, cost: 0n });
    expect(fold([fill(['SELL', 0, 0, 5, 1])], long(10, 4))).toEqual({
      position: long(10, 4),
      pnl: 4n,
      cost: 0n,
    });
  });
});

const anyFill = fc
  .record({
    side: fc.constantFrom('BUY' as const, 'SELL' as const),
    outcomeIndex: fc.constantFrom(0 as const, 1 as const),
    shares: fc.bigInt({ min: 0n, max: 10n ** 12n }),
    priceMicro: fc.bigInt({ min: 0n, max: 1_000_000n }),
    fee: fc.bigInt({ min: 0n, max: 10n ** 9n }),
  })
  .map(({ shares, priceMicro, ...rest }) => ({
    ...rest,
    shares,
    usdc: (shares * priceMicro) / 1_000_000n,
  }));

describe('the fold of any fills', () => {
  const fills = fc.array(anyFill, { maxLength: 40 });

  test('never holds negative shares, cost or fees, and is empty after a resolution', () => {
    fc.assert(
      fc.property(fills, (events) => {
        const { position } = fold(events);
        expect(position.shares >= 0n).toBe(true);
        expect(position.costBasis >= 0n).toBe(true);
        expect(position.openFees >= 0n).toBe(true);
        expect(fold([...events, resolution(1, 0)]).position).toEqual(FLAT);
      }),
    );
  });

  test('conserves cash: realised PnL equals net cash plus open cost and fees', () => {
    // Σ cash + payout per share of the pair = Σ realised PnL + open cost and fees, exactly: what
    // one division rounds off stays in the other part.
    fc.assert(
      fc.property(fills, (events) => {
        const { position, pnl } = fold(events);
        let cash = 0n;
        let net = 0n;
        for (const event of events) {
          cash += (event.side === 'BUY' ? -event.usdc : event.usdc) - event.fee;
          const direction = (event.side === 'BUY') === (event.outcomeIndex === 0) ? 1n : -1n;
          net += direction * event.shares;
          // Selling outcome k is buying the other at 1 − p: a pair worth `shares` is given away.
          if (event.side === 'SELL') cash -= event.shares;
        }
        const pairs = closedPairs(events);
        expect(pnl).toBe(cash + pairs + position.costBasis + position.openFees);
        expect(position.shares).toBe(net < 0n ? -net : net);
      }),
    );
  });

  test('mirrored fills give mirrored positions and the same result', () => {
    fc.assert(
      fc.property(fills, (events) => {
        const mirrored = events.map((event) => ({
          ...event,
          outcomeIndex: (1 - event.outcomeIndex) as 0 | 1,
        }));
        const [one, other] = [fold(events), fold(mirrored)];
        expect([other.pnl, other.cost]).toEqual([one.pnl, one.cost]);
        expect(other.position.shares).toBe(one.position.shares);
        if (one.position.shares > 0n) expect(other.position.outcome).toBe(1 - one.position.outcome);
      }),
    );
  });
});

/** Pairs of both outcomes that were bought (a sale buys the other outcome); each closed pair is worth 1. */
function closedPairs(events: readonly Trade[]): bigint {
  const bought: [bigint, bigint] = [0n, 0n];
  for (const { side, outcomeIndex, shares } of events) {
    bought[side === 'BUY' ? outcomeIndex : outcomeIndex === 0 ? 1 : 0] += shares;
  }
  return bought[0] < bought[1] ? bought[0] : bought[1];
}
