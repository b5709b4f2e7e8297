/** What movements do to a holding: the worked examples of test/fixtures/shares-accounting.json, and both identities under random operations. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  fill,
  type Holding,
  opened,
  rebalance,
  receive,
  type Sent,
  send,
  valueAt,
} from '../../projector/fold/holding.ts';
import { FLAT, type Step, settle } from '../../projector/fold/position.ts';
import accounting from '../fixtures/shares-accounting.json' with { type: 'json' };
import { runs } from './fixtures.ts';

const M = 1_000_000n;
const EMPTY: Holding = { position: FLAT, balances: [0n, 0n] };

type Stepped = Holding & Pick<Step, 'realisedPnl' | 'realisedCost'>;
type Operation = (holding: Holding) => Stepped;

const trade =
  (side: 'BUY' | 'SELL', outcomeIndex: 0 | 1, shares: bigint, usdc: bigint, fee = 0n): Operation =>
  (holding) =>
    fill(holding, { side, outcomeIndex, shares, usdc, fee });
const change =
  (...by: [bigint, bigint]): Operation =>
  (holding) =>
    rebalance(holding, by);
const opening =
  (outcome: 0 | 1, shares: bigint, mark: bigint): Operation =>
  (holding) =>
    opened(holding, outcome, shares, (missing) => valueAt(mark, outcome, missing));
const receives =
  (sent: Sent): Operation =>
  (holding) =>
    receive(holding, sent);
const resolves =
  (...payouts: [bigint, bigint]): Operation =>
  ({ position, balances }) => ({ ...settle(position, payouts), balances });
const sent = (outcome: 0 | 1, shares: bigint, cost: bigint, fees = 0n): Sent => ({
  outcome,
  shares,
  cost,
  fees,
  uncovered: 0n,
});

/** For each example, the holding before the first step, and the steps. */
const EXAMPLES: Readonly<Record<string, readonly [Holding, ...Operation[]]>> = {
  'split-sell-both': [
    EMPTY,
    change(100n * M, 100n * M),
    trade('SELL', 0, 100n * M, 52n * M),
    trade('SELL', 1, 100n * M, 50n * M),
  ],
  'buy-both-merge': [
    EMPTY,
    trade('BUY', 0, 100n * M, 48n * M),
    trade('BUY', 1, 100n * M, 50n * M),
    change(-100n * M, -100n * M),
  ],
  'split-keep-no-yes-wins': [
    EMPTY,
    change(100n * M, 100n * M),
    trade('SELL', 0, 100n * M, 52n * M),
    resolves(1n, 0n),
    change(0n, -100n * M),
  ],
  'redeem-winner': [
    EMPTY,
    trade('BUY', 0, 100n * M, 30n * M, M),
    resolves(1n, 0n),
    change(-100n * M, 0n),
  ],
  'fifty-fifty-dust': [EMPTY, change(3n, 3n), resolves(1n, 1n), change(-3n, -3n)],
};

describe('a holding', () => {
  for (const [id, [before, ...operations]] of Object.entries(EXAMPLES)) {
    const example = accounting.examples.find((one) => one.id === id);
    test(`${id}: ${example?.what}`, () => {
      let holding: Holding = before;
      for (const [at, operation] of operations.entries()) {
        const after = operation(holding);
        holding = after;
        const step = example?.steps[at] as Record<string, unknown>;
        const { outcome, shares, costBasis, openFees } = after.position;
        const position =
          shares === 0n ? 'flat' : [outcome, `${shares}`, `${costBasis}`, `${openFees}`];
        expect({ step: step.step, position, realised: `${after.realisedPnl}` }).toEqual({
          step: step.step,
          position: step.position,
          realised: step.realised ?? '0',
        });
        if (step.realised_cost !== undefined)
          expect(`${after.realisedCost}`).toBe(step.realised_cost);
        if (step.balances !== undefined) expect(after.balances.map(String)).toEqual(step.balances);
      }
      expect(operations.length).toBe(example?.steps.length);
    });
  }

  test.each([
    [
      'covered by the net position',
      [0, 100n * M, 30n * M, M],
      [100n * M, 0n],
      0,
      40n * M,
      450_000n,
      [0, 60n * M, 18n * M, 600_000n],
      [12n * M, 400_000n, 0n],
    ],
    [
      'from pairs',
      [0, 0n, 0n, 0n],
      [100n * M, 100n * M],
      0,
      100n * M,
      520_000n,
      [1, 100n * M, 48n * M, 0n],
      [52n * M, 0n, 100n * M],
    ],
    [
      'partly covered',
      [0, 7n * M, 2_100_000n, 70_000n],
      [12n * M, 5n * M],
      0,
      10n * M,
      333_334n,
      [1, 3n * M, 1_999_998n, 0n],
      [3_100_002n, 70_000n, 3n * M],
    ],
  ] as const)(
    'sends shares %s',
    (_, [outcome, shares, costBasis, openFees], balances, which, moved, mark, expected, [
      cost,
      fees,
      uncovered,
    ]) => {
      const { after, sent } = send(
        { position: { outcome, shares, costBasis, openFees }, balances },
        which,
        moved,
        mark,
      );
      const { position } = after;
      expect([position.outcome, position.shares, position.costBasis, position.openFees]).toEqual(
        expected,
      );
      expect(sent).toEqual({ outcome: which, shares: moved, cost, fees, uncovered });
      expect(after.realisedPnl).toBe(0n);
    },
  );

  test('receives shares with their cost, which closes shares of the other outcome', () => {
    const bob: Holding = {
      position: { outcome: 1, shares: 100n * M, costBasis: 40n * M, openFees: 0n },
      balances: [0n, 100n * M],
    };
    const after = receives(sent(0, 100n * M, 30n * M))(bob);
    expect(after.position.shares).toBe(0n);
    expect([after.realisedPnl, after.realisedCost]).toEqual([30n * M, 40n * M]);
    expect(after.balances).toEqual([100n * M, 100n * M]);
  });

  test('shares beyond the known balance were bought at the mark', () => {
    const known: Holding = {
      position: { outcome: 0, shares: 4n * M, costBasis: 2n * M, openFees: 0n },
      balances: [4n * M, 0n],
    };
    const after = opened(known, 0, 10n * M, (missing) => valueAt(880_000n, 0, missing));
    expect(after.position).toMatchObject({ shares: 10n * M, costBasis: 7_280_000n });
    expect(after.missing).toBe(6n * M);
    const sold = trade('SELL', 0, 10n * M, 9n * M)(after);
    expect([sold.realisedPnl, sold.realisedCost]).toEqual([1_720_000n, 7_280_000n]);
    expect(opening(0, 4n * M, 880_000n)(known)).toMatchObject({
      missing: 0n,
      position: known.position,
    });
  });
});

/*
 * Both identities, per wallet and event, after each operation: in an open market the balances differ by the net position, and
 * cash = Σ(realised − cost − fees) − pairs + cost received − cost sent.
 */
test('balances and cash follow from the positions, whatever happens', () => {
  const wallet = fc.nat(2);
  const outcome = fc.constantFrom<0 | 1>(0, 1);
  const shares = fc.bigInt({ min: 1n, max: 50n * M });
  const mark = fc.bigInt({ min: 0n, max: M });
  const operation = fc.oneof(
    fc.record({
      kind: fc.constant('trade' as const),
      buyer: wallet,
      seller: wallet,
      outcome,
      shares,
      mark,
      fee: fc.bigInt({ min: 0n, max: 1_000n }),
    }),
    fc.record({ kind: fc.constant('split' as const), by: wallet, shares }),
    fc.record({ kind: fc.constant('merge' as const), by: wallet, shares }),
    fc.record({
      kind: fc.constant('transfer' as const),
      from: wallet,
      to: wallet,
      outcome,
      shares,
      mark,
    }),
  );
  fc.assert(
    fc.property(fc.array(operation, { minLength: 1, maxLength: 60 }), (operations) => {
      const holdings: Holding[] = [EMPTY, EMPTY, EMPTY];
      const cash = [0n, 0n, 0n];
      const realised = [0n, 0n, 0n];
      const carried = [0n, 0n, 0n];
      const at = (who: number) => holdings[who] ?? EMPTY;
      const put = (who: number, after: Stepped) => {
        holdings[who] = { position: after.position, balances: after.balances };
        realised[who] = (realised[who] ?? 0n) + after.realisedPnl;
      };
      const pay = (who: number, amount: bigint) => {
        cash[who] = (cash[who] ?? 0n) + amount;
      };
      const balance = (who: number, which: 0 | 1) => at(who).balances[which];
      for (const one of operations) {
        switch (one.kind) {
          case 'trade': {
            const usdc = (one.shares * one.mark) / M;
            if (one.buyer === one.seller || balance(one.seller, one.outcome) < one.shares) break;
            put(one.buyer, trade('BUY', one.outcome, one.shares, usdc, one.fee)(at(one.buyer)));
            put(one.seller, trade('SELL', one.outcome, one.shares, usdc)(at(one.seller)));
            pay(one.buyer, -usdc - one.fee);
            pay(one.seller, usdc);
            break;
          }
          case 'split':
            put(one.by, change(one.shares, one.shares)(at(one.by)));
            pay(one.by, -one.shares);
            break;
          case 'merge':
            if (balance(one.by, 0) < one.shares || balance(one.by, 1) < one.shares) break;
            put(one.by, change(-one.shares, -one.shares)(at(one.by)));
            pay(one.by, one.shares);
            break;
          case 'transfer': {
            if (one.from === one.to || balance(one.from, one.outcome) < one.shares) break;
            const { after, sent } = send(at(one.from), one.outcome, one.shares, one.mark);
            put(one.from, after);
            put(one.to, receive(at(one.to), sent));
            carried[one.from] = (carried[one.from] ?? 0n) - sent.cost - sent.fees;
            carried[one.to] = (carried[one.to] ?? 0n) + sent.cost + sent.fees;
          }
        }
        for (const [who, { position, balances }] of holdings.entries()) {
          const net = position.outcome === 0 ? position.shares : -position.shares;
          expect(balances[0] - balances[1]).toBe(net);
          const pairs = balances[0] < balances[1] ? balances[0] : balances[1];
          expect(cash[who]).toBe(
            (realised[who] ?? 0n) -
              position.costBasis -
              position.openFees -
              pairs +
              (carried[who] ?? 0n),
          );
        }
      }
    }),
    { numRuns: runs(3_000) },
  );
});
