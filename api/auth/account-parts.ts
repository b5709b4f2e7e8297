/**
 * The api processes share the event streams and the usage of accounts. Each process splits this data into parts by a hash
 * of the account, so a change rewrites only one part, and no message gets too large.
 */
import { createHash } from 'node:crypto';

/** With 20,000 event streams, a part has about 30 KB. */
export const PARTS = 64;

/** Hashed, because an account name may contain characters that a subject must not contain. */
export function keyOf(account: string): string {
  return `account.${createHash('sha256').update(account).digest('hex').slice(0, 32)}`;
}

/** The part with the account of this key, from 0. */
export function partOf(key: string): number {
  return Number.parseInt(key.slice(-2), 16) % PARTS;
}
