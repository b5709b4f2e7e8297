/**
 * The 2,048-bit bloom filter of a block's logs (logsBloom; Yellow Paper 4.4.3): each log's address and
 * topics set three bits. It proves absence, never presence. Pure. Hashes of items are cached for a
 * while, because the same contracts and wallets recur in every block.
 */
import type { Hex } from 'viem';
import { keccak256 } from '../infra/keccak.ts';
import type { ChainLog } from './decode.ts';

const BYTES = 256;
/** About 200 bytes each. Most are order hashes, which do not recur. */
const CACHED_MAX = 8_192;

/** A bloom from a header, 256 bytes. */
export type Bloom = Uint8Array;

const bits = new Map<string, readonly [number, number, number]>();

/** Parses a header's logsBloom. Throws RangeError unless it has 256 bytes. */
export function parseBloom(hex: Hex): Bloom {
  const bloom = Buffer.from(hex.slice(2), 'hex');
  if (bloom.length !== BYTES) throw new RangeError(`a bloom has ${BYTES} bytes`);
  return bloom;
}

/** False: no log of the block has this address or topic. True: one may have it. */
export function mayContain(bloom: Bloom, item: Hex): boolean {
  return bitsOf(item).every((bit) => ((bloom[bit >> 3] ?? 0) & (1 << (bit & 7))) !== 0);
}

/** True if address and topics of the log are in the bloom, as they are for every log of the block. */
export function covers(bloom: Bloom, log: Pick<ChainLog, 'address' | 'topics'>): boolean {
  return mayContain(bloom, log.address) && log.topics.every((topic) => mayContain(bloom, topic));
}

/**
 * True if these logs explain every bit of the bloom. Then no log of the block is missing, except one
 * whose address and topics occur in other logs, too. Logs that are not in the bloom do no harm.
 */
export function explains(logs: Iterable<Pick<ChainLog, 'address' | 'topics'>>, bloom: Bloom) {
  const left = Uint8Array.from(bloom);
  for (const log of logs) {
    for (const item of [log.address, ...log.topics]) {
      for (const bit of bitsOf(item)) left[bit >> 3] = (left[bit >> 3] ?? 0) & ~(1 << (bit & 7));
    }
  }
  return left.every((byte) => byte === 0);
}

/** Share of the bits that are set, 0 to 1. Above one half, a bloom says little about a single item. */
export function filled(bloom: Bloom): number {
  let set = 0;
  for (let byte of bloom) for (; byte !== 0; byte &= byte - 1) set += 1;
  return set / (BYTES * 8);
}

function bitsOf(item: Hex): readonly [number, number, number] {
  const known = bits.get(item);
  if (known !== undefined) return known;
  const hash = keccak256(Buffer.from(item.slice(2), 'hex'));
  const bit = (at: number) => {
    const place = (((hash[at] ?? 0) << 8) | (hash[at + 1] ?? 0)) & 2_047;
    // Bit 0 is the lowest of the last byte.
    return (BYTES - 1 - (place >> 3)) * 8 + (place & 7);
  };
  const found = [bit(0), bit(2), bit(4)] as const;
  if (bits.size >= CACHED_MAX) bits.clear();
  bits.set(item, found);
  return found;
}
