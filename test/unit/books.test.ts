/**
 * The independent account of the reconciliation: it explains the constructed transactions, repeats the worked examples of
 * conversions, and books any sequence of events like the real fold.
 */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { LedgerEvent, Movement as LedgerMovement } from '../../ingest/contract.ts';
import { OpenPositions } from '../../projector/fold/positions.ts';
import { fillOf } from '../release/faults/chain-facts.ts';
import { at } from '../support/at.ts';
import { type Account, add, Books, empty } from '../support/books.ts';
import { conditionId, traderAddress } from '../support/ledger-generator.ts';
import { cases, ids, isOfV2, logOf, names, of } from '../support/share-cases.ts';
import {
  type Conversion,
  changesOf,
  type Movement,
  type Roles,
  ShareMoves,
  type Token,
} from '../support/share-moves.ts';
import { only } from '../support/wallet-ledger.ts';
import { runs } from './fixtures.ts';

const M = 1_000_000n;
const TX = `0x${'1'.repeat(64)}` as const;
const ROLES: Roles = {
  tokens: of('CTF'),
  exchanges: [of('X'), of('XN'), of('X3')],
  negRisk: { adapter: of('NRA'), burn: of('BURN'), vault: of('VAULT') },
  others: ['G1', 'G1N', 'G2', 'G2N', 'AR2', 'AR3', 'WCOL'].map(of),
};
const MARKETS = { C0: ['Y', 'N'], C1: ['Y0', 'N0'], C2: ['Y1', 'N1'], C3: ['Y2', 'N2'] } as const;
const TOKENS = new Map<string, Token>(
  Object.entries({ ...MARKETS, C4: ['Y3', 'N3'] }).flatMap(([name, tokens]) =>
    tokens.map((token, i): [string, Token] => [
      BigInt(ids[token] ?? 0).toString(),
      { condition: of(name), outcome: i === 0 ? 0 : 1 },
    ]),
  ),
);

describe('the movements of a transaction', () => {
  for (const { id, what, logs: rows, expect: expected } of cases.filter((one) => !isOfV2(one))) {
    test(`${id}: ${what}`, () => {
      const logs = rows.map((row, i) => {
        const place = { blockNumber: '0x1', logIndex: `0x${i.toString(16)}` };
        return { ...logOf(row, i), ...place };
      });
      const isOf = (name: string) => (_: unknown, i: number) => rows[i]?.[1] === name;
      const fills = logs.filter(isOf('OrderFilled')).map(fillOf);
      const matches = logs
        .filter(isOf('OrdersMatched'))
        .map(({ logIndex }) => ({ first: Number(logIndex), last: Number(logIndex) }));
      const found = new ShareMoves(ROLES, TOKENS).explain({
        ...{ block: 1, txHash: TX, logs, fills, matches },
      });
      const shown = found.flatMap((one) =>
        changesOf(one)
          .slice(0, one.reason === 'transfer' ? 1 : undefined)
          .map(({ wallet, condition, change }) => {
            const other = 'counterparty' in one ? one.counterparty : '';
            const row = [one.reason, wallet, condition, ...change.map(Number)];
            return other === '' ? row : [...row, other];
          }),
      );
      const wanted = expected.movements.map((row) =>
        row.map((value) => (typeof value === 'string' && value in names ? names[value] : value)),
      );
      const sorted = (all: readonly unknown[]) => all.map((one) => JSON.stringify(one)).toSorted();
      expect(sorted(shown)).toEqual(sorted(wanted));
    });
  }
});

const place = { block: 1, log: 1, txHash: TX };
const alice = traderAddress(0);

/** A conversion of questions whose Yes had these prices, in hundredths. */
function converted(
  prices: readonly (bigint | undefined)[],
  costs: readonly (bigint | undefined)[],
  amount: bigint,
  out: bigint,
  resolved?: number,
) {
  const books = new Books();
  for (const [i, price] of prices.entries()) {
    const { matches } = books.marketOf(conditionId(i));
    if (price === undefined) continue;
    matches.push({
      ...{ ...place, time: 1, orderHash: '', taker: '', side: 'BUY', outcome: 0, fee: 0n },
      ...{ shares: 100n, usdc: price },
    });
  }
  const buys = { trader: alice, isTaker: false, side: 'BUY', outcome: 1, fee: 0n } as const;
  for (const [i, usdc] of costs.entries())
    if (usdc !== undefined) books.fill(1, conditionId(i), { ...buys, shares: amount, usdc });
  if (resolved !== undefined) books.resolve(1, conditionId(resolved), [0n, 1n]);
  const questions = prices.map((_, i) => ({
    ...{ condition: conditionId(i), isGiven: costs[i] !== undefined },
  }));
  const conversion = {
    ...place,
    reason: 'convert',
    wallet: alice,
    amount,
    out,
    questions,
  } as const;
  const values = books.valuesOf(conversion).map(Number);
  books.move(2, conversion);
  return { values, realised: books.movements.map(({ pnl }) => Number(pnl)) };
}

describe('the values of a conversion', () => {
  test('two of four', () => {
    expect(
      converted([40n, 35n, 20n, 10n], [6n * M, undefined, 8_300_000n], 10n * M, 10n * M),
    ).toEqual({
      values: [3_809_523, 3_333_333, 1_904_761, 952_383],
      realised: [190_477, 0, -204_761, 0],
    });
  });

  test('all three', () => {
    const found = converted([40n, 35n, 30n], [60n * M, 65n * M, 70n * M], 100n * M, 100n * M);
    expect(found.values).toEqual([38_095_238, 33_333_333, 28_571_429]);
    expect(found.realised).toEqual([1_904_762, 1_666_667, 1_428_571]);
  });

  test('with a fee, and a question without a mark', () => {
    const costs = [undefined, 2_333_333n];
    expect(converted([55n, 30n, undefined], costs, 3_333_333n, 3_283_334n)).toEqual({
      values: [1_416_340, 772_549, 1_094_445],
      realised: [0, 177_452, 0],
    });
  });

  test('after one question has resolved', () => {
    const found = converted([40n, 30n, 25n], [4n * M], 10n * M, 10n * M, 0);
    expect(found.values).toEqual([0, 5_454_545, 4_545_455]);
    expect(found.realised).toEqual([0, 0, 0]);
  });
});

const WALLETS = 5;
const CONDITIONS = 4;
const shares = fc.oneof(fc.bigInt({ min: 1n, max: 40n }), fc.bigInt({ min: 1n, max: 50n * M }));
const common = {
  wallet: fc.nat(WALLETS - 1),
  other: fc.nat(WALLETS - 2),
  market: fc.nat(CONDITIONS - 1),
  outcome: fc.constantFrom<0 | 1>(0, 1),
  shares,
  others: shares,
  /** Thousandths. */
  price: fc.bigInt({ min: 0n, max: 1_000n }),
  fee: fc.bigInt({ min: 0n, max: 20_000n }),
  bits: fc.integer({ min: 1, max: 2 ** CONDITIONS - 1 }),
};
const operation = fc.record({
  kind: fc.oneof(
    { weight: 30, arbitrary: fc.constantFrom('match', 'match', 'transfer' as const) },
    { weight: 10, arbitrary: fc.constantFrom('split', 'merge', 'convert', 'refund' as const) },
    { weight: 4, arbitrary: fc.constantFrom('lost', 'found', 'batch' as const) },
    { weight: 1, arbitrary: fc.constantFrom('resolution' as const) },
    { weight: 2, arbitrary: fc.constantFrom('redeem' as const) },
  ),
  ...common,
});
type Operation = typeof operation extends fc.Arbitrary<infer One> ? One : never;

/** One operation as events of LEDGER and in the account. */
function apply(books: Books, of: Operation, block: number): readonly LedgerEvent[] {
  const condition = conditionId(of.market);
  const [wallet, other] = [of.wallet, (of.wallet + 1 + of.other) % WALLETS].map(traderAddress) as [
    `0x${string}`,
    `0x${string}`,
  ];
  const chain = { blockNumber: block, blockTime: block, txHash: TX, logIndex: 9 };
  const isResolved = books.marketOf(condition).resolution !== undefined;
  if (of.kind === 'match') {
    const [usdc, outcome] = [(of.shares * of.price) / 1_000n, of.outcome];
    const taker = { side: of.bits % 2 === 0 ? 'BUY' : 'SELL', outcome, usdc, fee: of.fee } as const;
    const isMint = of.bits % 3 === 0;
    const maker = {
      side: isMint ? taker.side : taker.side === 'BUY' ? 'SELL' : 'BUY',
      outcome: isMint ? ((1 - outcome) as 0 | 1) : outcome,
      usdc: isMint ? of.shares - usdc : usdc,
      fee: 0n,
    } as const;
    const both = [
      { ...maker, trader: other, isTaker: false, shares: of.shares, logIndex: 7 },
      { ...taker, trader: wallet, isTaker: true, shares: of.shares, logIndex: 8 },
    ];
    for (const fill of both) books.fill(block, condition, fill);
    books.marketOf(condition).matches.push({
      ...{ block, log: 8, time: block, txHash: TX, orderHash: TX, taker: wallet },
      ...{ ...taker, shares: of.shares },
    });
    const fills = both.map(({ outcome: outcomeIndex, ...fill }) => ({
      ...{ ...fill, outcomeIndex, orderHash: TX, tokenId: '1' },
    }));
    const exchange = `0x${'e1'.repeat(20)}` as const;
    return [{ kind: 'match', ...chain, exchange, conditionId: condition, fills }];
  }
  if (of.kind === 'resolution') {
    const payouts: [bigint, bigint] = [BigInt(of.bits % 3), BigInt(1 + (of.bits % 2))];
    if (isResolved) return [];
    books.resolve(block, condition, payouts);
    return [{ kind: 'resolution', ...chain, conditionId: condition, payouts }];
  }
  // Nothing is redeemed before the resolution.
  const kind = of.kind === 'redeem' && !isResolved ? 'split' : of.kind;
  const where = { block, log: 9, txHash: TX };
  const movement =
    kind === 'convert'
      ? conversionOf(of, wallet, where)
      : { ...where, wallet, condition, ...movedBy(kind, of, other) };
  const marks = Array.from({ length: CONDITIONS }, (_, i) => books.markOf(conditionId(i))[0]);
  const values = movement.reason === 'convert' ? books.valuesOf(movement) : [];
  // Of the questions of one market, at most one pays its Yes.
  if (values.some((value) => value < 0n)) return [];
  books.move(block, movement);
  return changesOf(movement)
    .slice(0, movement.reason === 'transfer' ? 1 : undefined)
    .map((one, part): LedgerMovement => {
      const value = values[part] ?? 0n;
      const isGiven = one.change[1] < 0n;
      const usdc = movement.reason === 'convert' ? (isGiven ? movement.out - value : -value) : 0n;
      const index = movement.reason === 'convert' ? part : of.market;
      return {
        kind: 'movement',
        ...{ ...chain, part, reason: movement.reason, conditionId: one.condition as `0x${string}` },
        ...{ trader: wallet, change: [...one.change], mark: marks[index] ?? null },
        counterparty:
          movement.reason === 'convert' ? '' : (movement.counterparty as `0x${string}` | ''),
        usdc: movement.reason === 'convert' ? usdc : movement.paid,
      };
    });
}

function conversionOf(
  { bits, shares: amount, fee }: Operation,
  wallet: string,
  where: { readonly block: number; readonly log: number; readonly txHash: string },
): Conversion {
  const questions = Array.from({ length: CONDITIONS }, (_, i) => ({
    ...{ condition: conditionId(i), isGiven: ((bits >> i) & 1) === 1 },
  }));
  const out = amount - (amount * (fee % 100n)) / 10_000n;
  return { ...where, reason: 'convert', wallet, amount, out, questions };
}

function movedBy(
  kind: Exclude<Operation['kind'], 'match' | 'resolution' | 'convert'>,
  { outcome, shares: amount, others }: Operation,
  other: string,
): Pick<Movement, 'reason' | 'change' | 'counterparty' | 'paid'> {
  const none = { counterparty: '', paid: 0n };
  switch (kind) {
    case 'split':
      return { ...none, reason: 'split', change: [amount, amount], paid: -amount };
    case 'merge':
      return { ...none, reason: 'merge', change: [-amount, -amount], paid: amount };
    case 'redeem':
      return { ...none, reason: 'redeem', change: [-amount, -others], paid: others };
    case 'refund':
      return { ...none, reason: 'refund', change: only(outcome, amount) };
    case 'transfer':
      return { ...none, reason: 'transfer', change: only(outcome, -amount), counterparty: other };
    case 'batch':
      return { ...none, reason: 'transfer', change: [-amount, -others], counterparty: other };
    case 'lost':
      return { ...none, reason: 'unexplained', change: only(outcome, -amount) };
    case 'found':
      return { ...none, reason: 'unexplained', change: only(outcome, amount) };
  }
}

test('the fold books any sequence of events like the account', () => {
  fc.assert(
    fc.property(fc.array(operation, { minLength: 1, maxLength: 60 }), (operations) => {
      const books = new Books();
      const positions = new OpenPositions();
      const folded = new Map<string, Account>();
      const held = new Map<string, readonly unknown[]>();
      for (const [i, one] of operations.entries()) {
        for (const event of apply(books, one, i + 1)) {
          for (const row of positions.apply(event, true)) {
            const key = `${row.trader} ${row.conditionId}`;
            const volume = row.isTaker ? 'takerVolume' : 'makerVolume';
            const isFill = row.kind === 'fill';
            add(at(folded, key, empty), {
              ...{ pnl: row.realisedPnl, cost: row.realisedCost },
              ...(isFill ? { fee: row.fee, [volume]: row.usdc, fills: 1 } : {}),
              settlements: row.kind === 'settlement' ? 1 : 0,
            });
            const isFlat = row.positionShares === 0n;
            const { positionOutcome, positionShares, positionCost, positionFees } = row;
            held.set(
              key,
              isFlat ? [] : [positionOutcome, positionShares, positionCost, positionFees],
            );
          }
        }
        expect(new Map([...held].filter(([, position]) => position.length > 0))).toEqual(
          heldIn(books),
        );
      }
      const accounts = [...books.accounts].filter(([key]) => folded.has(key));
      expect(new Map(accounts)).toEqual(folded);
      for (const [key, account] of books.accounts)
        if (!folded.has(key)) expect(account).toEqual(empty());
    }),
    { numRuns: runs(3_000) },
  );
});

function heldIn(books: Books) {
  return new Map(
    [...books.markets].flatMap(([condition, { holdings }]) =>
      [...holdings].flatMap(([trader, ledger]): [string, readonly unknown[]][] => {
        const outcome = ledger.shares[0] > 0n ? 0 : 1;
        const own = ledger.shares[outcome];
        if (own === 0n) return [];
        return [[`${trader} ${condition}`, [outcome, own, ledger.cost, ledger.fees]]];
      }),
    ),
  );
}
