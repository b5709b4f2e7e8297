/**
 * Generates, stores and looks up API keys. The bucket holds the SHA-256 of a key, never the key. Every
 * process watches the bucket, so a lookup reads a map, and a revocation takes effect everywhere as soon as
 * the bucket reports it. Only an unknown key is looked up in the bucket. Lookups leak nothing useful through
 * timing, because clients cannot choose the hash that is compared.
 */

import { hash, randomInt } from 'node:crypto';
import { EventEmitter } from 'node:events';
import type { Logger } from 'pino';
import { z } from 'zod';
import { follow, type Kv, parseValue } from '../../infra/nats/kv.ts';
import type { Caller } from '../http/caller.ts';
import { Tier } from '../http/caller.ts';
import { unavailable } from '../http/errors.ts';
import { Records } from './records.ts';

/** API keys by SHA-256 of the key. */
export const KEYS_BUCKET = 'keys';

/** The caller of an authenticated request, in `response.locals.caller`. */
const Instant = z.iso.datetime();
const ID_LENGTH = 16;

const LABEL_CHARACTERS_MAX = 200;

/** The label of a new key. Records may hold older labels with control characters. */
export const KeyLabel = z
  .string()
  .max(LABEL_CHARACTERS_MAX)
  .refine((text) => !/\p{Cc}/u.test(text), 'must not contain control characters');

/** Value of a bucket entry, as JSON. */
export const KeyRecord = z.object({
  label: z.string().max(LABEL_CHARACTERS_MAX),
  tier: Tier,
  account: z.string().min(1).max(200),
  created_at: Instant,
  expires_at: Instant.optional(),
  revoked_at: Instant.optional(),
  /** Hash of the body that created the key with an Idempotency-Key. */
  body_hash: z.string().optional(),
});
export type KeyRecord = z.infer<typeof KeyRecord>;

/** A key's record in the bucket. */
export type StoredKey = {
  readonly keyHash: string;
  readonly record: KeyRecord;
  /** Revision in the bucket, for conditional updates. */
  readonly revision: number;
};

export type Lookup =
  | { readonly kind: 'valid'; readonly caller: Caller }
  | { readonly kind: 'unknown' | 'revoked' | 'expired' };

export type Keys = Awaited<ReturnType<typeof openKeys>>;

const ALPHABET = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz';
/** 257 bits. */
const SECRET_CHARACTERS = 44;
const KEY_FORM = /^fs_(?:demo|individual|pro)_[1-9A-HJ-NP-Za-km-z]{32,44}$/;
/** A key anywhere in a text, such as a URL. */
export const KEY_IN_TEXT = /fs_(?:demo|individual|pro)_[1-9A-HJ-NP-Za-km-z]{32}/;
const EXPIRY_CHECK_MS = 500;
/** Maximum reads in flight. Further requests get 503, so that unknown keys from many addresses cannot overload the bucket. */
const FETCHES_MAX = 64;

/** Derives the key of a repeatable request from 32 secret bytes: `fs_<tier>_<44 characters>`. */
export function keyFromSeed(tier: Tier, seed: Buffer): string {
  let rest = BigInt(`0x${seed.toString('hex')}`);
  let characters = '';
  for (let n = 0; n < SECRET_CHARACTERS; n += 1) {
    characters += ALPHABET.charAt(Number(rest % 58n));
    rest /= 58n;
  }
  return `fs_${tier}_${characters}`;
}

/** A new key: `fs_<tier>_<44 random characters>`. Show it once and store only its record. */
export function generateKey(tier: Tier): string {
  const characters = Array.from({ length: SECRET_CHARACTERS }, () =>
    ALPHABET.charAt(randomInt(ALPHABET.length)),
  );
  return `fs_${tier}_${characters.join('')}`;
}

/** Whether a text has the format of a key. Others are rejected without a lookup. */
export function hasKeyForm(text: string): boolean {
  return KEY_FORM.test(text);
}

/** Hex SHA-256 of a key, under which it is stored. */
export function hashKey(key: string): string {
  return hash('sha256', key, 'hex');
}

/**
 * Whether a key is valid at a time in milliseconds. A revocation takes effect at once, even if the clock of whoever
 * revoked the key is ahead.
 */
export function keyStatus(record: KeyRecord, nowMs: number): 'valid' | 'revoked' | 'expired' {
  if (record.revoked_at !== undefined) return 'revoked';
  if (record.expires_at !== undefined && Date.parse(record.expires_at) <= nowMs) return 'expired';
  return 'valid';
}

/** The public id of a key: the first 16 digits of its hash. It grants nothing. */
export function keyIdOf(keyHash: string): string {
  return keyHash.slice(0, ID_LENGTH);
}

/** Writes the record of a key; the key itself is not stored. Returns the key's hash. */
export async function storeKey(
  bucket: Pick<Kv, 'put'>,
  key: string,
  record: KeyRecord,
): Promise<string> {
  const keyHash = hashKey(key);
  await bucket.put(keyHash, JSON.stringify(KeyRecord.parse(record)));
  return keyHash;
}

/** Watches the bucket; resolves once every present key is known. `now` is in milliseconds. */
export async function openKeys(options: {
  readonly bucket: Pick<Kv, 'get' | 'watch'>;
  readonly logger: Logger;
  readonly now?: () => number;
}) {
  const { bucket, logger, now = Date.now } = options;
  const known = new Records<KeyRecord>();
  /** Emits the hash of a key that has stopped being valid. */
  const revocations = new EventEmitter().setMaxListeners(0);
  const stop = new AbortController();

  /** A deleted key stays in the map, so that an older read in flight cannot restore it. */
  function learn(keyHash: string, revision: number, value: Uint8Array | undefined): void {
    if (revision < (known.get(keyHash)?.revision ?? 0)) return;
    const record = value === undefined ? undefined : parseValue(KeyRecord, value);
    // An unreadable record counts as an unknown key and is logged.
    if (value !== undefined && record === undefined) {
      logger.error({ key_hash: keyHash }, 'unreadable record in the bucket of keys');
    }
    known.set(keyHash, revision, record);
    if (lookup(keyHash, record, now()).kind !== 'valid') revocations.emit(keyHash);
  }

  // A process that cannot see revocations must stop, so main stops when this rejects.
  const { watching } = await follow(bucket, stop.signal, (event) => {
    if (event.type === 'initialised') return;
    learn(event.key, event.revision, event.type === 'put' ? event.value : undefined);
  });

  const expiry = setInterval(() => {
    for (const keyHash of revocations.eventNames().map(String)) {
      const { kind } = lookup(keyHash, known.get(keyHash)?.record, now());
      if (kind !== 'valid') revocations.emit(keyHash);
    }
  }, EXPIRY_CHECK_MS);
  expiry.unref();

  let fetching = 0;

  return {
    /** Looks the key up in memory. If the result is undefined, call `fetch`. */
    find(keyHash: string): Lookup | undefined {
      const found = known.get(keyHash);
      return found === undefined ? undefined : lookup(keyHash, found.record, now());
    },
    /** Reads the key from the bucket. Rejects if the bucket is unreachable, and with Problem 503 if too many reads are in flight. */
    async fetch(keyHash: string): Promise<Lookup> {
      if (fetching >= FETCHES_MAX) throw unavailable('too many API keys are being looked up');
      fetching += 1;
      try {
        const entry = await bucket.get(keyHash);
        if (entry !== undefined) learn(keyHash, entry.revision, entry.value);
      } finally {
        fetching -= 1;
      }
      return lookup(keyHash, known.get(keyHash)?.record, now());
    },
    /** The known keys of an account, including revoked and expired ones. */
    ofAccount(account: string): readonly StoredKey[] {
      return [...known.ofAccount(account)].map(([keyHash, stored]) => ({ keyHash, ...stored }));
    },
    /** A known key of an account, even if it is revoked or expired. */
    own(account: string, keyHash: string): StoredKey | undefined {
      const stored = known.ofAccount(account).get(keyHash);
      return stored && { keyHash, ...stored };
    },
    /** Calls back once when the key stops being valid; the returned function unsubscribes. */
    onRevoked(keyHash: string, callback: () => void): () => void {
      revocations.once(keyHash, callback);
      return () => void revocations.off(keyHash, callback);
    },
    /** Resolves after `close`; rejects when the bucket can no longer be watched. */
    watching,
    async close(): Promise<void> {
      clearInterval(expiry);
      stop.abort();
      await watching;
    },
  };
}

function lookup(keyHash: string, record: KeyRecord | undefined, nowMs: number): Lookup {
  if (record === undefined) return { kind: 'unknown' };
  const kind = keyStatus(record, nowMs);
  if (kind !== 'valid') return { kind };
  return { kind, caller: { keyHash, account: record.account, tier: record.tier } };
}
