/**
 * Derives the two ERC-1155 token ids of a binary market from its condition id, as the
 * ConditionalTokens contract does (CTHelpers.getCollectionId / getPositionId, facts of the
 * contract's source; checked against real markets in test/unit/token-ids.test.ts).
 * Pure; a square root over the alt_bn128 field costs about 0.2 ms, so callers cache.
 */
import { encodePacked, type Hex, keccak256 } from 'viem';

/** Prime of the alt_bn128 base field; P mod 4 = 3, so a root of v is v^((P+1)/4). */
const P = 21888242871839275222246405745257275088696311157297823662689037894645226208583n;
const CURVE_B = 3n;

/**
 * Token ids of outcome 0 and outcome 1 (index sets 1 and 2) of a top-level condition.
 * `collateral` is the token inside position ids, which is not the one traders pay with.
 */
export function positionIds(collateral: Hex, conditionId: Hex): readonly [bigint, bigint] {
  return [positionId(collateral, conditionId, 1n), positionId(collateral, conditionId, 2n)];
}

function positionId(collateral: Hex, conditionId: Hex, indexSet: bigint): bigint {
  const collectionId = collectionIdOf(conditionId, indexSet);
  return BigInt(keccak256(encodePacked(['address', 'uint256'], [collateral, collectionId])));
}

function collectionIdOf(conditionId: Hex, indexSet: bigint): bigint {
  const seed = BigInt(keccak256(encodePacked(['bytes32', 'uint256'], [conditionId, indexSet])));
  const odd = seed >> 255n !== 0n;
  // The seed may exceed P: the contract's addmod reduces it at the first step.
  let x = seed;
  let ySquared: bigint;
  let y: bigint;
  do {
    x = (x + 1n) % P;
    ySquared = (x * x * x + CURVE_B) % P;
    y = power(ySquared, (P + 1n) / 4n);
  } while ((y * y) % P !== ySquared);
  if (odd !== (y % 2n === 1n)) y = P - y;
  return y % 2n === 1n ? x ^ (1n << 254n) : x;
}

function power(base: bigint, exponent: bigint): bigint {
  let result = 1n;
  let factor = base % P;
  for (let rest = exponent; rest > 0n; rest >>= 1n) {
    if (rest & 1n) result = (result * factor) % P;
    factor = (factor * factor) % P;
  }
  return result;
}
