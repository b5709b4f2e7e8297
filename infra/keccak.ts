/**
 * Keccak-256 in WebAssembly: 1 µs for 66 bytes, compared with about 20 µs for viem in JavaScript. We hash every order
 * of a call and every new topic of a log.
 */
import { createKeccak } from 'hash-wasm';
import type { Hex } from 'viem';

const hasher = await createKeccak(256);

/** The hash as 32 bytes. */
export function keccak256(data: Uint8Array): Uint8Array {
  return hasher.init().update(data).digest('binary');
}

/** The hash in lower-case hex. */
export function keccak256Hex(data: Uint8Array): Hex {
  return `0x${hasher.init().update(data).digest('hex')}`;
}
