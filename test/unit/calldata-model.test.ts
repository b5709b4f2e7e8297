/**
 * Compares decodeMatchCall with an accounting model that does not share its formulas (calldata-model.ts), for random
 * matches of every type.
 */
import fc from 'fast-check';
import { encodeFunctionData, type Hex } from 'viem';
import { describe, expect, test } from 'vitest';
import { type CalledFill, decodeMatchCall, MATCH_ORDERS_ABI } from '../../ingest/decode.ts';
import {
  BUY,
  type Draw,
  drawMatch,
  type ModelMatch,
  type ModelOrder,
  type Moved,
  needed,
  play,
  typeOf,
} from './calldata-model.ts';
import { EXCHANGE, POLYGON } from './fixtures.ts';

// No shrinking (endOnFailure): it takes minutes with random orders, and a match is readable without it.
const CONDITION: Hex = `0x${'11'.repeat(32)}`;
const MARKET = {
  wallets: ['a1', 'b2', 'c3', 'd4', 'e5'].map((byte): Hex => `0x${byte.repeat(20)}`),
  tokenIds: [1_001n, 2_002n],
} as const;

const anyMatch = fc.gen().map((generate) => {
  const draw: Draw = (min, max) => generate(() => fc.bigInt({ min, max }));
  return drawMatch(draw, MARKET);
});

function decode(match: ModelMatch) {
  const input = encodeFunctionData({
    abi: MATCH_ORDERS_ABI,
    args: [
      CONDITION,
      match.takerOrder,
      match.makerOrders,
      match.takerFillAmount,
      match.makerFillAmounts,
      match.takerFeeAmount,
      match.makerFeeAmounts,
    ],
  });
  return decodeMatchCall(input, EXCHANGE, POLYGON);
}

/** A fill in the model's terms: what the wallet paid in and received. */
function moved({ side, shares, usdc }: CalledFill): Moved {
  return side === 'BUY' ? { gives: usdc, gets: shares } : { gives: shares, gets: usdc };
}

/** Complementary matches take only what is needed; the others show the whole amount of the call. */
function takerGives(match: ModelMatch): bigint {
  return typeOf(match) === 'complementary' ? needed(match) : match.takerFillAmount;
}

/** The sum of `pick` over buying fills, minus that over selling fills. */
function balance(fills: readonly CalledFill[], pick: (fill: CalledFill) => bigint): bigint {
  return fills.reduce(
    (sum, fill) => (fill.side === 'BUY' ? sum + pick(fill) : sum - pick(fill)),
    0n,
  );
}

describe('decodeMatchCall against the model', () => {
  test('gives every wallet the same as the accounting model', () => {
    const seen = new Map<string, number>();
    fc.assert(
      fc.property(anyMatch, (match) => {
        const type = typeOf(match);
        seen.set(type, (seen.get(type) ?? 0) + 1);
        const call = decode(match);
        const expected = play(match, takerGives(match));
        expect(call.makers.map(moved)).toEqual(expected.makers);
        expect(moved(call.taker)).toEqual(expected.taker);
      }),
      { numRuns: 600, endOnFailure: true },
    );
    // Every type of match occurred often enough.
    expect(seen.size).toBe(5);
    for (const count of seen.values()) expect(count).toBeGreaterThan(20);
  });

  test('conserves: net bought shares are minted, net paid dollars become collateral', () => {
    fc.assert(
      fc.property(anyMatch, (match) => {
        const { makers, taker } = decode(match);
        const fills = [...makers, taker];
        const { minted, merged, refund } = play(match, takerGives(match));
        const isBuyer = match.takerOrder.side === BUY;
        for (const tokenId of MARKET.tokenIds) {
          const ofToken = fills.filter((fill) => fill.tokenId === tokenId);
          const refunded = !isBuyer && tokenId === match.takerOrder.tokenId ? refund : 0n;
          expect(balance(ofToken, (fill) => fill.shares)).toBe(minted - merged - refunded);
        }
        expect(balance(fills, (fill) => fill.usdc)).toBe(minted - merged + (isBuyer ? refund : 0n));
      }),
      { numRuns: 400, endOnFailure: true },
    );
  });

  test('never gives a maker more than its price, nor a whole micro-unit less', () => {
    fc.assert(
      fc.property(anyMatch, (match) => {
        for (const [i, fill] of decode(match).makers.entries()) {
          const { makerAmount, takerAmount } = match.makerOrders[i] as ModelOrder;
          const { gives, gets } = moved(fill);
          expect(gets * makerAmount <= gives * takerAmount).toBe(true);
          expect((gets + 1n) * makerAmount > gives * takerAmount).toBe(true);
        }
      }),
      { numRuns: 200, endOnFailure: true },
    );
  });

  test('never lets a taker pay more than its limit, with any price improvement, and keeps every fee', () => {
    fc.assert(
      fc.property(anyMatch, (match) => {
        const { makers, taker } = decode(match);
        const { makerAmount, takerAmount } = match.takerOrder;
        const { gives, gets } = moved(taker);
        expect(gives <= match.takerFillAmount).toBe(true);
        // Rounds down, because the limit price is guaranteed only in whole micro-units.
        expect(gets >= (gives * takerAmount) / makerAmount).toBe(true);
        expect(taker.fee).toBe(match.takerFeeAmount);
        expect(makers.map((maker) => maker.fee)).toEqual(match.makerFeeAmounts);
      }),
      { numRuns: 200, endOnFailure: true },
    );
  });

  test('does not depend on the order of the makers, except for the order of the fills', () => {
    fc.assert(
      fc.property(anyMatch, (match) => {
        const turned = decode({
          ...match,
          makerOrders: match.makerOrders.toReversed(),
          makerFillAmounts: match.makerFillAmounts.toReversed(),
          makerFeeAmounts: match.makerFeeAmounts.toReversed(),
        });
        const call = decode(match);
        expect(turned.taker).toEqual(call.taker);
        expect(turned.makers.toReversed()).toEqual(call.makers);
      }),
      { numRuns: 100, endOnFailure: true },
    );
  });
});
