/**
 * Keccak-256 in WebAssembly: 1 µs for the hash of 66 bytes, where the JavaScript of viem takes 10. Every
 * order of a call and every topic of a log is hashed.
 */
import { createKeccak } from 'hash-wasm';
import type { Hex } from 'viem';

const hasher = await createKeccak(256);

/** The hash as 32 bytes. */
export function keccak256(data: Uint8Array): Uint8Array {
  return hasher.init().update(data).digest('binary');
}

/** The hash as lower-case hex. */
export function keccak256Hex(data: Uint8Array): Hex {
  return `0x${hasher.init().update(data).digest('hex')}`;
}
