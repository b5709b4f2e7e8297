import fc from 'fast-check';
import { encodePacked, type Hex, keccak256 } from 'viem';
import { describe, expect, test } from 'vitest';
import { parseListing } from '../../ingest/gamma-shapes.ts';
import { positionIds } from '../../ingest/token-ids.ts';
import hourly from '../fixtures/gamma-market-btc-hourly-resolved.json' with { type: 'json' };
import politics from '../fixtures/gamma-market-politics-include_tag.json' with { type: 'json' };

const USDC_E = '0x2791bca1f2de4661ed88a30c99a7a9449aa84174';

describe('positionIds', () => {
  test.each([
    ['hourly crypto', hourly],
    ['politics', politics],
  ])('derives the token ids of a real market from its condition: %s', (_name, market) => {
    const listing = parseListing(market);
    const derived = positionIds(USDC_E, listing.conditionId).map(String);
    expect(derived).toEqual(listing.tokenIds);
  });

  test('depends on the collateral inside the position', () => {
    const condition = parseListing(hourly).conditionId;
    const other = '0x3a3bd7bb9528e159577f7c2e685cc81a765002e2';
    expect(positionIds(other, condition)).not.toEqual(positionIds(USDC_E, condition));
  });

  test('equals the steps of the contract, square roots and all, for any condition', () => {
    const anyCondition = fc
      .uint8Array({ minLength: 32, maxLength: 32 })
      .map((bytes): Hex => `0x${Buffer.from(bytes).toString('hex')}`);
    fc.assert(
      fc.property(anyCondition, (condition) => {
        expect(positionIds(USDC_E, condition)).toEqual(
          [1n, 2n].map((indexSet) => positionIdByRoots(USDC_E, condition, indexSet)),
        );
      }),
      { numRuns: 500 },
    );
  });
});

/** CTHelpers.getCollectionId and getPositionId of the contract's source, step by step. */
function positionIdByRoots(collateral: Hex, condition: Hex, indexSet: bigint): bigint {
  const P = 21888242871839275222246405745257275088696311157297823662689037894645226208583n;
  let x = BigInt(keccak256(encodePacked(['bytes32', 'uint256'], [condition, indexSet])));
  const odd = x >> 255n !== 0n;
  let y: bigint;
  let ySquared: bigint;
  do {
    x = (x + 1n) % P;
    ySquared = (x * x * x + 3n) % P;
    // P mod 4 = 3: a root of v is v^((P+1)/4), if there is one.
    y = power(ySquared, (P + 1n) / 4n, P);
  } while ((y * y) % P !== ySquared);
  if (odd !== (y % 2n === 1n)) y = P - y;
  const collection = y % 2n === 1n ? x ^ (1n << 254n) : x;
  return BigInt(keccak256(encodePacked(['address', 'uint256'], [collateral, collection])));
}

function power(base: bigint, exponent: bigint, modulus: bigint): bigint {
  let result = 1n;
  let factor = base;
  for (let rest = exponent; rest > 0n; rest >>= 1n) {
    if (rest & 1n) result = (result * factor) % modulus;
    factor = (factor * factor) % modulus;
  }
  return result;
}
