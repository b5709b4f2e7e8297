/**
 * Position ids of protocol version 2. They say themselves which condition and outcome they are of, unlike those of
 * ConditionalTokens, which are hashes. From the highest bits to the lowest: module 8, hash 128, arity 16, zero 64, chain of the
 * resolution 16, number of the condition in its event 16, outcome 8. A condition has the id of its outcome 0.
 */
import type { Hex } from 'viem';

type StructuredId = {
  readonly conditionId: Hex;
  readonly outcomeIndex: 0 | 1;
};

const ID = /^0x0[123][0-9a-f]{36}0{16}[0-9a-f]{8}0[01]$/;

/** What a token id says; undefined for one of ConditionalTokens or an unknown module. Decimal. */
export function structuredId(tokenId: string): StructuredId | undefined {
  const hex = wordOf(BigInt(tokenId));
  if (!ID.test(hex)) return undefined;
  return {
    conditionId: `${hex.slice(0, -2)}00` as Hex,
    outcomeIndex: hex.endsWith('1') ? 1 : 0,
  };
}

export function isStructured(conditionId: string): boolean {
  return ID.test(conditionId) && conditionId.endsWith('00');
}

/** Token ids of both outcomes of such a condition, decimal. */
export function structuredTokens(conditionId: string): readonly [string, string] {
  const zero = BigInt(conditionId);
  return [`${zero}`, `${zero + 1n}`];
}

/** `0x` and the digits of module, hash, arity, zeros and chain. */
const EVENT_LENGTH = 2 + 29 * 2;

/** All conditions of a neg-risk event in their order, with the last one, "Other". The event as 29 bytes, or more. */
export function conditionsOfEvent(eventId: string): readonly Hex[] {
  const event = eventId.slice(0, EVENT_LENGTH);
  const arity = Number.parseInt(event.slice(36, 40), 16);
  return Array.from(
    { length: arity + 1 },
    (_, number) => `${event}${number.toString(16).padStart(4, '0')}00` as Hex,
  );
}

/** The event of a condition, with zeros up to 32 bytes. */
export function eventOf(conditionId: string): Hex {
  return conditionId.slice(0, EVENT_LENGTH).padEnd(66, '0') as Hex;
}

function wordOf(value: bigint): Hex {
  return `0x${value.toString(16).padStart(64, '0')}`;
}
