/**
 * Positions in the order feed: what `id:` lines carry and Last-Event-ID brings back. A position is
 * the message's sequence · 10^4 + four check digits hashed from its message id, because a broker
 * that lost its newest messages hands their sequences out again: a position proves which message
 * it meant. Sequences up to 9·10^11 keep positions exact as numbers; at 2,000 messages a second
 * that is 14 years.
 */

/** A decimal integer > 0, ascending with the feed; 0 stands for "none known". */
export type Position = number & { readonly unit?: 'feed position' };

export const NO_POSITION: Position = 0;

const CHECKS = 10_000;
const SEQUENCE_MAX = Math.floor(Number.MAX_SAFE_INTEGER / CHECKS) - 1;
/** As many digits as the largest u64, which is what existing clients parse ids to. */
const DIGITS = /^\d{1,20}$/;

/**
 * The position of a message.
 *
 * `position(7, 'a')` is 72220. Throws RangeError when the sequence is not in 1 … 9·10^11.
 */
export function position(sequence: number, messageId: string): Position {
  if (!Number.isSafeInteger(sequence) || sequence < 1 || sequence > SEQUENCE_MAX) {
    throw new RangeError(`no position for sequence ${sequence}`);
  }
  return sequence * CHECKS + check(messageId);
}

/** The sequence that a position names. Rounds down: the remainder is the check. */
export function sequenceOf(at: Position): number {
  return Math.floor(at / CHECKS);
}

/** Parses a Last-Event-ID. Undefined when it is not a decimal integer of at most 20 digits. */
export function parsePosition(text: string): bigint | undefined {
  return DIGITS.test(text) ? BigInt(text) : undefined;
}

/** The requested position as one that this feed can have; undefined where it never will. */
export function attainable(requested: bigint): Position | undefined {
  const at = Number(requested);
  return requested > 0n && at <= Number.MAX_SAFE_INTEGER && sequenceOf(at) <= SEQUENCE_MAX
    ? at
    : undefined;
}

/** FNV-1a 32 of the text's UTF-16 units, modulo 10^4. */
function check(messageId: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < messageId.length; i += 1) {
    hash = Math.imul(hash ^ messageId.charCodeAt(i), 0x01000193) >>> 0;
  }
  return hash % CHECKS;
}
