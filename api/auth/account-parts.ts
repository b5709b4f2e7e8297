/**
 * What the api processes share about accounts, their event streams and their usage, is written in parts, each with the
 * accounts of some hashes: so a change writes little, and no message is too large, however many accounts there are.
 */
import { createHash } from 'node:crypto';

/** With 20,000 event streams, a part of a process has about 40 KB. */
export const PARTS = 64;

/** Hashed, because an account name may contain characters that a subject must not contain. */
export function keyOf(account: string): string {
  return `account.${createHash('sha256').update(account).digest('hex').slice(0, 32)}`;
}

/** The part with the account of this key, from 0. */
export function partOf(key: string): number {
  return Number.parseInt(key.slice(-2), 16) % PARTS;
}
