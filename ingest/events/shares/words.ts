/** Reads the words of a log. Nearly all logs are transfers, so they are read without a decoder. */
import type { Hex } from 'viem';
import { boundedAmount, type ChainLog, DecodeError } from '../log.ts';

/** Reads a word of a log: one of its topics, or one of its data. Throws DecodeError. */
export type ReadWord = (log: ChainLog) => Hex;
export const topic =
  (at: number): ReadWord =>
  ({ topics }) => {
    const found = topics[at];
    if (found === undefined) throw new DecodeError('bad_topics', `no topic ${at}`);
    return found;
  };
export const data =
  (at: number): ReadWord =>
  (log) =>
    `0x${digits(log, at)}`;

const WORD = 64;

/** A word of the data. */
export function word(log: ChainLog, at: number): bigint {
  return BigInt(`0x${digits(log, at)}`);
}

/** A word of the data that is an amount of money. Throws DecodeError if it is more than all there is. */
export function amount(log: ChainLog, at: number): bigint {
  return boundedAmount(word(log, at));
}

function digits({ data }: ChainLog, at: number): string {
  const found = data.slice(2 + at * WORD, 2 + (at + 1) * WORD);
  if (found.length < WORD) throw new DecodeError('bad_data', `no word ${at}`);
  return found.toLowerCase();
}

/** A list whose offset is in this word. */
export function list(log: ChainLog, at: number): readonly bigint[] {
  const start = Number(word(log, at)) / 32;
  if (!Number.isInteger(start) || start > log.data.length)
    throw new DecodeError('bad_data', 'offset');
  const length = Number(word(log, start));
  if (length > log.data.length) throw new DecodeError('bad_data', `a list of ${length}`);
  return Array.from({ length }, (_, i) => word(log, start + 1 + i));
}
