/**
 * Derives the two ERC-1155 token ids of a binary market from its condition id, as the
 * ConditionalTokens contract does (CTHelpers.getCollectionId / getPositionId, facts of the
 * contract's source; checked against real markets and against the contract's own steps in
 * test/unit/token-ids.test.ts). Pure; a pair costs about 0.1 ms, so callers cache.
 */
import { encodePacked, type Hex } from 'viem';
import { keccak256Hex } from '../infra/keccak.ts';
import { jacobi } from './jacobi.ts';

/** Prime of the alt_bn128 base field. */
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
  return hashed(encodePacked(['address', 'uint256'], [collateral, collectionId]));
}

/**
 * The contract looks for the next point (x, y) of the curve and takes of the two roots the one whose
 * lowest bit is the seed's highest. So the root itself is never needed, only whether there is one.
 */
function collectionIdOf(conditionId: Hex, indexSet: bigint): bigint {
  const seed = hashed(encodePacked(['bytes32', 'uint256'], [conditionId, indexSet]));
  const odd = seed >> 255n !== 0n;
  // The seed may exceed P: the contract's addmod reduces it at the first step.
  let x = seed;
  do {
    x = (x + 1n) % P;
  } while (jacobi((x * x * x + CURVE_B) % P, P) === -1);
  return odd ? x ^ (1n << 254n) : x;
}

function hashed(packed: Hex): bigint {
  return BigInt(keccak256Hex(Buffer.from(packed.slice(2), 'hex')));
}
