/**
 * What becomes of a key after it was made: issue, rotate, expire, revoke. Every change is written only
 * over the record that it was computed from, so that two at once cannot undo each other: a revoked key
 * is never brought back by a label that was changed in the same moment. Used by `npm run keys` and by
 * the account's own endpoints; who may do what is decided there.
 */
import { type Kv, KvConflictError } from '../../infra/nats/kv.ts';
import { generateKey, hashKey, KeyRecord, keyIdOf, parseRecord, type StoredKey } from './keys.ts';
import type { Tier } from './tiers.ts';

export type KeysBucket = Pick<Kv, 'get' | 'create' | 'update'>;

export type NewKey = {
  readonly tier: Tier;
  readonly account: string;
  readonly label: string;
  /** ISO 8601; absent: never. */
  readonly expiresAt?: string | undefined;
};

/** The key is shown to its owner once and kept nowhere. */
export type IssuedKey = { readonly key: string; readonly stored: StoredKey };

/** The key was revoked before: it cannot be changed any more. */
export class KeyRevokedError extends Error {
  override readonly name = 'KeyRevokedError';
}

/** No key has this id. */
export class KeyUnknownError extends Error {
  override readonly name = 'KeyUnknownError';
}

const ATTEMPTS_MAX = 5;

/** Makes a key and stores its record. `nowMs` is in milliseconds. */
export async function issueKey(
  bucket: KeysBucket,
  wanted: NewKey,
  nowMs: number,
): Promise<IssuedKey> {
  const key = generateKey(wanted.tier);
  const keyHash = hashKey(key);
  const record = KeyRecord.parse({
    label: wanted.label,
    tier: wanted.tier,
    account: wanted.account,
    created_at: new Date(nowMs).toISOString(),
    ...(wanted.expiresAt === undefined ? {} : { expires_at: wanted.expiresAt }),
  });
  const revision = await bucket.create(keyHash, JSON.stringify(record));
  return { key, stored: { keyHash, record, revision } };
}

/**
 * Makes a successor with the old key's label, tier, account and expiry, and lets the old one expire
 * after the grace period, unless it expires sooner anyway. Both are valid until then.
 */
export async function rotateKey(
  bucket: KeysBucket,
  keyHash: string,
  graceMs: number,
  nowMs: number,
): Promise<IssuedKey & { readonly old: StoredKey }> {
  const { record } = await readKey(bucket, keyHash);
  if (record.revoked_at !== undefined) throw new KeyRevokedError(keyIdOf(keyHash));
  // The successor first: whatever interrupts this, a key that works is left.
  const issued = await issueKey(bucket, { ...record, expiresAt: record.expires_at }, nowMs);
  const old = await changeKey(bucket, keyHash, (now) => {
    const ends = nowMs + graceMs;
    const isSooner = now.expires_at !== undefined && Date.parse(now.expires_at) <= ends;
    return isSooner ? now : { ...now, expires_at: new Date(ends).toISOString() };
  });
  return { ...issued, old };
}

/** Ends a key now and for ever; a key that is revoked stays as it is. */
export async function revokeKey(
  bucket: KeysBucket,
  keyHash: string,
  nowMs: number,
): Promise<StoredKey> {
  try {
    return await changeKey(bucket, keyHash, (record) => ({
      ...record,
      revoked_at: new Date(nowMs).toISOString(),
    }));
  } catch (error) {
    if (error instanceof KeyRevokedError) return readKey(bucket, keyHash);
    throw error;
  }
}

/** Writes what `change` makes of a record. Throws KeyRevokedError and KeyUnknownError. */
export async function changeKey(
  bucket: KeysBucket,
  keyHash: string,
  change: (record: KeyRecord) => KeyRecord,
): Promise<StoredKey> {
  for (let attempt = 1; ; attempt += 1) {
    const { record, revision } = await readKey(bucket, keyHash);
    if (record.revoked_at !== undefined) throw new KeyRevokedError(keyIdOf(keyHash));
    const changed = KeyRecord.parse(change(record));
    try {
      const written = await bucket.update(keyHash, JSON.stringify(changed), revision);
      return { keyHash, record: changed, revision: written };
    } catch (error) {
      if (!(error instanceof KvConflictError) || attempt === ATTEMPTS_MAX) throw error;
    }
  }
}

async function readKey(bucket: Pick<Kv, 'get'>, keyHash: string): Promise<StoredKey> {
  const entry = await bucket.get(keyHash);
  const record = entry === undefined ? undefined : parseRecord(entry.value);
  if (entry === undefined || record === undefined) throw new KeyUnknownError(keyIdOf(keyHash));
  return { keyHash, record, revision: entry.revision };
}
