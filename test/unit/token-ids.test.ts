import fc from 'fast-check';
import { encodePacked, type Hex, keccak256 } from 'viem';
import { describe, expect, test } from 'vitest';
import { positionIds, TokenMap } from '../../ingest/events/token-ids.ts';
import { parseListing } from '../../ingest/metadata/gamma.ts';
import hourly from '../fixtures/gamma-market-btc-hourly-resolved.json' with { type: 'json' };
import politics from '../fixtures/gamma-market-politics-include_tag.json' with { type: 'json' };
import { runs } from './fixtures.ts';
import {
  CHAIN,
  condition,
  derived,
  EXCHANGE,
  NEG_RISK_EXCHANGE,
  recorder,
  silent,
  WRAPPED,
} from './gamma-harness.ts';

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

  test('depends on the collateral of the position', () => {
    const condition = parseListing(hourly).conditionId;
    const other = '0x3a3bd7bb9528e159577f7c2e685cc81a765002e2';
    expect(positionIds(other, condition)).not.toEqual(positionIds(USDC_E, condition));
  });

  test('equals the contract step by step, including square roots, for any condition', () => {
    const anyCondition = fc
      .uint8Array({ minLength: 32, maxLength: 32 })
      .map((bytes): Hex => `0x${Buffer.from(bytes).toString('hex')}`);
    fc.assert(
      fc.property(anyCondition, (condition) => {
        expect(positionIds(USDC_E, condition)).toEqual(
          [1n, 2n].map((indexSet) => positionIdByRoots(USDC_E, condition, indexSet)),
        );
      }),
      { numRuns: runs(500) },
    );
  });
});

/** CTHelpers.getCollectionId and getPositionId, step by step as in the contract's source. */
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

function listing(number: number, tokens: readonly [string, string], outcomes = ['Yes', 'No']) {
  return parseListing({
    id: String(number),
    conditionId: condition(number),
    outcomes: JSON.stringify(outcomes),
    clobTokenIds: JSON.stringify(tokens),
  });
}
const map = (logger = silent) => new TokenMap(CHAIN, logger);

describe('outcomeOf', () => {
  test('is derived from the condition, without metadata', () => {
    const [first, second] = derived(condition(1));
    expect(map().outcomeOf(condition(1), first, EXCHANGE)).toBe(0);
    expect(map().outcomeOf(condition(1), second, EXCHANGE)).toBe(1);
    const negRisk = derived(condition(1), WRAPPED);
    expect(map().outcomeOf(condition(1), negRisk[1], NEG_RISK_EXCHANGE)).toBe(1);
  });

  test('tries every collateral of the chain', () => {
    const [, token] = derived(condition(1), CHAIN.collateral);
    expect(map().outcomeOf(condition(1), token, NEG_RISK_EXCHANGE)).toBe(1);
    expect(map().outcomeOf(condition(1), '77', EXCHANGE)).toBeUndefined();
  });

  test('uses metadata only if no derivation matches', () => {
    const { logger, lines } = recorder();
    const tokens = map(logger);
    tokens.listed(listing(1, ['77', '78']));
    expect(tokens.outcomeOf(condition(1), '78', NEG_RISK_EXCHANGE)).toBe(1);
    expect(lines).toHaveLength(1);
    expect(tokens.conditionOf('77')).toBe(condition(1));
  });

  test('ignores a listing that claims the tokens of another market', () => {
    const { logger, lines } = recorder();
    const tokens = map(logger);
    const [first, second] = derived(condition(1));
    tokens.listed(listing(2, [second, first]));
    expect(tokens.outcomeOf(condition(1), first, EXCHANGE)).toBe(0);
    // Now the token is derived, so a second false listing changes nothing, either.
    tokens.listed(listing(3, [first, second]));
    expect(tokens.conditionOf(first)).toBe(condition(1));
    expect(lines).toHaveLength(2);
  });
});

describe('listed', () => {
  test('remembers the tokens of a listing, for matches without readable calldata', () => {
    const { logger, lines } = recorder();
    const tokens = map(logger);
    const pair = derived(condition(4), WRAPPED);
    expect(tokens.listed(listing(4, pair)).tokenIds).toEqual(pair);
    expect(tokens.conditionOf(pair[1])).toBe(condition(4));
    expect(lines).toHaveLength(0);
  });

  test('reverses a listing whose outcomes are not in the order of the index sets', () => {
    const { logger, lines } = recorder();
    const tokens = map(logger);
    const [first, second] = derived(condition(1));
    const given = listing(1, [second, first], ['No', 'Yes']);
    for (const _ of [1, 2]) {
      const { tokenIds, outcomes } = tokens.listed(given);
      expect({ tokenIds, outcomes }).toEqual({
        tokenIds: [first, second],
        outcomes: ['Yes', 'No'],
      });
    }
    expect(lines).toHaveLength(1);
  });
});
