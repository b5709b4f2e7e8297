/**
 * The keys of an account, for the account itself: list, make, change, revoke, always by id. A key can
 * give another one no more than it has: the same tier, the same account, and no longer life than its
 * own. To rotate: make one, use it, then give the old one an early end or revoke it.
 */
import { z } from 'zod';
import { NatsUnavailableError } from '../../infra/nats/connection.ts';
import { endpoint } from '../endpoint.ts';
import { Problem, unavailable } from '../errors.ts';
import { keyId } from '../parameters.ts';
import { type AccountCall, KeyView, viewOf } from './account-call.ts';
import { changeKey, issueKey, KeyRevokedError, revokeKey } from './key-admin.ts';
import { keyIdOf, keyStatus, type StoredKey } from './keys.ts';
import { TIERS } from './tiers.ts';

const LABEL_CHARACTERS_MAX = 200;

const Label = z
  .string()
  .max(LABEL_CHARACTERS_MAX)
  .meta({ description: 'what you call the key', examples: ['laptop'] });
const ExpiresAt = z.iso
  .datetime()
  .nullable()
  .meta({
    description: 'when the key ends, ISO 8601 UTC; null = with the key that asks, or never',
    examples: ['2027-01-31T00:00:00Z'],
  });
const Path = z.object({ id: keyId.describe('id of a key of the account') });

export const listKeys = endpoint({
  path: '/v2/user/keys',
  summary: 'The API keys of the account',
  description: 'Every key of the account, newest first, with its id; never a key itself.',
  parameters: z.object({}),
  answer: z.object({
    keys: z.array(KeyView),
    total_count: z
      .int()
      .min(0)
      .meta({ description: 'keys in the list', examples: [2] }),
  }),
  problems: [],
  run: async (call: AccountCall) => {
    const keys = call.keys
      .ofAccount(call.caller.account)
      .toSorted((a, b) => b.record.created_at.localeCompare(a.record.created_at));
    return { keys: keys.map((key) => viewOf(key, call)), total_count: keys.length };
  },
});

export const createKey = endpoint({
  method: 'post',
  path: '/v2/user/keys',
  status: 201,
  summary: 'Make an API key',
  description:
    'A key of the same account and tier as the one that asks. `key` is shown in this answer only: ' +
    'keep it. It lives no longer than the key that asks.',
  parameters: z.object({}),
  body: z.object({ label: Label.default(''), expires_at: ExpiresAt.default(null) }),
  answer: KeyView.extend({
    key: z
      .string()
      .meta({ description: 'the key: shown this once', examples: [`fs_pro_${'2'.repeat(43)}`] }),
  }),
  problems: ['quota_exceeded'],
  run: async (call: AccountCall, _given, body) => {
    const { account, tier } = call.caller;
    const { keysMax } = TIERS[tier];
    const own = call.keys.ofAccount(account);
    const valid = own.filter(({ record }) => keyStatus(record, call.now()) === 'valid');
    if (valid.length >= keysMax) {
      throw new Problem({
        status: 403,
        error: 'quota_exceeded',
        detail: `max_keys: the tier ${tier} has ${keysMax} valid keys, all in use; revoke one first`,
      });
    }
    const expiresAt = cappedExpiry(body.expires_at, call);
    const wanted = { account, tier, label: body.label, expiresAt };
    const { key, stored } = await written(issueKey(call.keysBucket, wanted, call.now()));
    // Known here at once, and elsewhere as soon as the bucket tells.
    await call.keys.fetch(stored.keyHash);
    return { ...viewOf(stored, call), key };
  },
});

export const updateKey = endpoint({
  method: 'patch',
  path: '/v2/user/keys/:id',
  summary: 'Change the label or the end of an API key',
  description: 'Members that are left out stay as they are. A revoked key cannot be changed.',
  parameters: Path,
  body: z.object({ label: Label.optional(), expires_at: ExpiresAt.optional() }),
  answer: KeyView,
  problems: ['not_found'],
  run: async (call: AccountCall, { id }, body) => {
    const { keyHash } = ownKey(call, id);
    const { label, expires_at: expiresAt } = body;
    const expiry = expiresAt === undefined ? undefined : (cappedExpiry(expiresAt, call) ?? null);
    try {
      const stored = await written(
        changeKey(call.keysBucket, keyHash, ({ expires_at: before, ...record }) => {
          const after = expiry === undefined ? before : expiry;
          return {
            ...record,
            ...(label === undefined ? {} : { label }),
            ...(after === null || after === undefined ? {} : { expires_at: after }),
          };
        }),
      );
      await call.keys.fetch(keyHash);
      return viewOf(stored, call);
    } catch (error) {
      if (!(error instanceof KeyRevokedError)) throw error;
      const issues = [{ path: 'id', message: 'the key is revoked: make another' }];
      throw new Problem({
        status: 400,
        error: 'invalid_request',
        detail: `id: ${issues[0]?.message}`,
        issues,
      });
    }
  },
});

export const deleteKey = endpoint({
  method: 'delete',
  path: '/v2/user/keys/:id',
  summary: 'Revoke an API key',
  description:
    'The key ends now and for ever, its open streams within a second, in every process; also the ' +
    'key that asks. A revoked key stays in the list.',
  parameters: Path,
  answer: z.object({ id: KeyView.shape.id }),
  problems: ['not_found'],
  run: async (call: AccountCall, { id }) => {
    const { keyHash } = ownKey(call, id);
    await written(revokeKey(call.keysBucket, keyHash, call.now()));
    await call.keys.fetch(keyHash);
    return { id };
  },
});

/** Throws Problem 404, also for a key of another account. */
function ownKey({ keys, caller }: AccountCall, id: string): StoredKey {
  const found = keys.ofAccount(caller.account).find(({ keyHash }) => keyIdOf(keyHash) === id);
  if (found !== undefined) return found;
  throw new Problem({ status: 404, error: 'not_found', detail: `the account has no key ${id}` });
}

/** The wanted end, or that of the asking key where this is sooner. */
function cappedExpiry(wanted: string | null, { keys, caller }: AccountCall): string | undefined {
  const asking = keys.ofAccount(caller.account).find(({ keyHash }) => keyHash === caller.keyHash)
    ?.record.expires_at;
  if (wanted === null) return asking;
  const isLater = asking !== undefined && Date.parse(asking) < Date.parse(wanted);
  return isLater ? asking : new Date(wanted).toISOString();
}

async function written<Value>(writing: Promise<Value>): Promise<Value> {
  try {
    return await writing;
  } catch (error) {
    if (error instanceof NatsUnavailableError) {
      throw unavailable('the keys cannot be written now', error);
    }
    throw error;
  }
}
