/**
 * EIP-712 hash of an exchange order: the identity that joins calldata, logs and order books. An order's
 * words lie in calldata as the hash wants them, so they are hashed as they are; a test compares the
 * generic typed-data encoder, and the real transaction's logs carry the same hashes.
 */
import { domainSeparator, type Hex } from 'viem';
import { keccak256, keccak256Hex } from '../infra/keccak.ts';

/** Bytes of an order in calldata before the offset of its signature: eleven words. */
export const ORDER_BYTES = 352;

const WORD = 32;
const TYPE_HASH = 'bb86318a2138f5fa8ae32fbe8e659f8fcf13cc6ae4014a707893055433818589';
/** Filled anew for each order: the type hash and the order's words. */
const struct = Buffer.alloc(WORD + ORDER_BYTES);
struct.write(TYPE_HASH, 'hex');

/** By chain and exchange: 0x1901, the domain separator, and room for the hash of the struct. */
const envelopes = new Map<string, Buffer>();

/**
 * Hash of an order of `exchange` on chain `chainId`; the same as topic 1 of its OrderFilled log. `words`
 * are its first ORDER_BYTES bytes in calldata.
 */
export function orderHash(words: Uint8Array, exchange: Hex, chainId: number): Hex {
  struct.set(words, WORD);
  const envelope = envelopeOf(exchange, chainId);
  envelope.set(keccak256(struct), 2 + WORD);
  return keccak256Hex(envelope);
}

function envelopeOf(exchange: Hex, chainId: number): Buffer {
  const key = `${chainId}:${exchange}`;
  const known = envelopes.get(key);
  if (known !== undefined) return known;
  const separator = domainSeparator({
    domain: {
      name: 'Polymarket CTF Exchange',
      version: '2',
      chainId,
      verifyingContract: exchange,
    },
  });
  const envelope = Buffer.alloc(2 + 2 * WORD);
  envelope.write(`1901${separator.slice(2)}`, 'hex');
  envelopes.set(key, envelope);
  return envelope;
}
