/**
 * Position ids of protocol version 2, as PositionManager.sol makes them. The parts of an id are in
 * ingest/events/structured-ids.ts.
 */
import { encodeAbiParameters, type Hex, keccak256, parseAbiParameters } from 'viem';
import { CHAIN_ID } from './contracts.ts';

export const BINARY = 1n;
export const NEG_RISK = 2n;
const COMBINATORIAL = 3n;

const HASH_MASK = (1n << 128n) - 1n;

/** Outcome 0 of the condition with this number. The arity is how many conditions its event has, without "Other". */
export function positionId(module: bigint, data: Hex, arity: number, number = 0): bigint {
  return (
    encode(module, data) |
    (BigInt(arity) << 104n) |
    (BigInt(CHAIN_ID) << 24n) |
    (BigInt(number) << 8n)
  );
}

/** Outcome 0 of a combo of these legs, in ascending order. */
export function comboId(legs: readonly bigint[]): bigint {
  return encode(COMBINATORIAL, encodeAbiParameters(parseAbiParameters('uint256[]'), [legs]));
}

function encode(module: bigint, data: Hex): bigint {
  const hash = keccak256(encodeAbiParameters(parseAbiParameters('uint256, bytes'), [module, data]));
  return (module << 248n) | ((BigInt(hash) & HASH_MASK) << 120n);
}
