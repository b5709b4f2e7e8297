/**
 * Issuing, rotating, changing and revoking keys, for `npm run keys` and for the account's endpoints,
 * which check permissions. Every change is a conditional update, so concurrent changes cannot undo each
 * other. For example, changing a label never restores a key that is being revoked.
 */
import { ExpectedError } from '../../infra/expected.ts';
import { type Kv, KvConflictError, parseValue } from '../../infra/nats/kv.ts';
import type { Tier } from '../http/caller.ts';
import { generateKey, hashKey, KeyRecord, keyIdOf, type StoredKey } from './keys.ts';

export type KeysBucket = Pick<Kv, 'get' | 'create' | 'update'>;

export type NewKey = {
  readonly tier: Tier;
  readonly account: string;
  readonly label: string;
  /** ISO 8601; absent: never. */
  readonly expiresAt?: string | undefined;
  readonly bodyHash?: string | undefined;
};

/** The key is shown to its owner once and never stored. */
export type IssuedKey = { readonly key: string; readonly stored: StoredKey };

/** The key is revoked and cannot be changed. */
export class KeyRevokedError extends ExpectedError {
  override readonly name = 'KeyRevokedError';
  constructor(id: string) {
    super(`key ${id} is revoked: issue another`);
  }
}

/** No key has this id. */
export class KeyUnknownError extends ExpectedError {
  override readonly name = 'KeyUnknownError';
  constructor(id: string) {
    super(`no key has the id ${id}`);
  }
}

const ATTEMPTS_MAX = 5;

/**
 * Stores the record of a key. `nowMs` is in milliseconds since the epoch. Rejects with KvConflictError if
 * `key` exists, which a generated one never does.
 */
export async function issueKey(
  bucket: KeysBucket,
  wanted: NewKey,
  nowMs: number,
  key = generateKey(wanted.tier),
): Promise<IssuedKey> {
  const keyHash = hashKey(key);
  const record = KeyRecord.parse({
    label: wanted.label,
    tier: wanted.tier,
    account: wanted.account,
    created_at: new Date(nowMs).toISOString(),
    expires_at: wanted.expiresAt,
    body_hash: wanted.bodyHash,
  });
  const revision = await bucket.create(keyHash, JSON.stringify(record));
  return { key, stored: { keyHash, record, revision } };
}

/**
 * Issues a successor with the old key's label, tier, account and expiry. The old key expires after the
 * grace period, unless it expires sooner anyway; both are valid until then.
 */
export async function rotateKey(
  bucket: KeysBucket,
  keyHash: string,
  graceMs: number,
  nowMs: number,
): Promise<IssuedKey & { readonly old: StoredKey }> {
  const { record } = await readKey(bucket, keyHash);
  if (record.revoked_at !== undefined) throw new KeyRevokedError(keyIdOf(keyHash));
  // Issue the successor first, so that an interruption leaves a working key.
  const issued = await issueKey(bucket, { ...record, expiresAt: record.expires_at }, nowMs);
  const old = await changeKey(bucket, keyHash, (now) => {
    const ends = nowMs + graceMs;
    const isSooner = now.expires_at !== undefined && Date.parse(now.expires_at) <= ends;
    return isSooner ? now : { ...now, expires_at: new Date(ends).toISOString() };
  });
  return { ...issued, old };
}

/** Revokes a key for good. A revoked key keeps its time of revocation. */
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

/** Replaces a record with the result of `change`. Throws KeyRevokedError and KeyUnknownError. */
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
  const record = entry === undefined ? undefined : parseValue(KeyRecord, entry.value);
  if (entry === undefined || record === undefined) throw new KeyUnknownError(keyIdOf(keyHash));
  return { keyHash, record, revision: entry.revision };
}
