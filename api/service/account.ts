/**
 * The account's endpoints about its identity, usage and keys, and the list of tiers. Keys are addressed by
 * id. A key can only create keys with its own tier and account, which expire no later than itself. To
 * rotate a key, create a new one, use it, then expire or revoke the old one.
 */
import { z } from 'zod';
import { KvConflictError } from '../../infra/nats/kv.ts';
import { count, text } from '../analytics/schemas.ts';
import { changeKey, issueKey, KeyRevokedError, type KeysBucket } from '../auth/key-admin.ts';
import {
  hashKey,
  KeyLabel,
  type KeyRecord,
  type Keys,
  keyFromSeed,
  keyIdOf,
  keyStatus,
  type StoredKey,
} from '../auth/keys.ts';
import { TIERS, type TierLimits } from '../auth/tiers.ts';
import { Tier } from '../http/caller.ts';
import { type CallerContext, type Endpoint, endpoint, requireSameBody } from '../http/endpoint.ts';
import { Problem } from '../http/errors.ts';
import { keyId } from '../http/parameters.ts';
import type { Sessions } from '../sessions/sessions.ts';

type AccountCall = CallerContext & {
  readonly keys: Pick<Keys, 'ofAccount' | 'own' | 'fetch'>;
  /** Stores the keys. */
  readonly keysBucket: KeysBucket;
  /** Requests of an account today, across all api processes. */
  readonly requestsToday: (account: string) => number;
  readonly sessions: Pick<Sessions, 'list' | 'usedSeconds'>;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
};

const Account = text('owner of the key; limits apply per account', 'acme');
const Time = z.string().meta({ examples: ['2026-05-01T12:00:00.000Z'] });

const KeyView = z
  .object({
    id: z
      .string()
      .regex(/^[0-9a-f]{16}$/)
      .meta({ description: 'public id of the key', examples: ['9f86d081884c7d65'] }),
    label: text("the owner's name for the key", 'laptop'),
    tier: Tier.meta({ description: 'tier, which sets the limits', examples: ['individual'] }),
    status: z
      .enum(['valid', 'expired', 'revoked'])
      .meta({ description: 'only a valid key is accepted', examples: ['valid'] }),
    is_current: z
      .boolean()
      .meta({ description: 'whether this request uses the key', examples: [true] }),
    created_at: Time.meta({
      description: 'when the key was issued, ISO 8601 UTC',
      format: 'date-time',
    }),
    expires_at: Time.describe('when the key expires; empty = never'),
    revoked_at: Time.describe('when the key was revoked; empty if it was not'),
  })
  .meta({ id: 'ApiKey' });

/** A limit of a tier; null = no limit. */
const quota = (description: string) =>
  z
    .int()
    .nullable()
    .meta({ description, examples: [null] });

const TierView = z
  .object({
    name: Tier.meta({ description: 'name of the tier', examples: ['individual'] }),
    requests_per_second: count('requests per second of one key; also the burst size', 20),
    account_requests_per_second: count('requests per second of the account over all its keys', 40),
    max_keys: count('valid API keys of an account', 20),
    max_sessions: count('concurrently open event streams of an account', 20),
    max_streams: count('managed streams', 20),
    max_naked_streams: count('managed streams without any filter', 20),
    max_filter_addrs: count('addresses in a filter', 20),
    max_filter_tags: count('tags in a filter', 20),
    max_filter_series: count('series in a filter', 20),
    stream_seconds_per_day: quota('seconds of event streams per UTC day; null = no limit'),
    leaderboard_limit: count('maximum `limit` of the leaderboard', 20),
    include_orders: z
      .boolean()
      .meta({ description: 'whether a trader’s markets may `include_orders`', examples: [true] }),
  })
  .meta({ id: 'Tier' });

const me = endpoint({
  name: 'me',
  path: '/v2/user/me',
  summary: 'Your account',
  description: 'Your account: its name, the key of this request, and the limits of its tier.',
  parameters: z.object({}),
  answer: z.object({ account: Account, key: KeyView, tier: TierView }),
  problems: [],
  run: async (call: AccountCall) => {
    const { account, keyHash, tier } = call.caller;
    const key = call.keys.own(account, keyHash);
    if (key === undefined) throw new Error('the key of an authenticated request is unknown');
    return { account, key: viewOf(key, call), tier: tierView(tier, TIERS[tier]) };
  },
});

const telemetry = endpoint({
  name: 'telemetry',
  path: '/v2/user/telemetry',
  summary: 'Usage today',
  description: `What your account used of its limits on this UTC day, over all its keys: requests, seconds of event streams, open event
streams.

Requests to other api processes appear after about a second.`,
  parameters: z.object({}),
  answer: z.object({
    account: Account,
    day: z
      .string()
      .regex(/^\d{4}-\d\d-\d\d$/)
      .meta({ description: 'the UTC day', examples: ['2026-05-01'] }),
    requests: z.object({
      today: count('requests that were admitted', 1204),
      per_second: z
        .int()
        .meta({ description: 'requests per second that the tier allows per key', examples: [20] }),
    }),
    stream_seconds: z.object({
      today: count('seconds of event streams', 3600),
      quota: quota('seconds per day of the tier; null = no limit'),
      left: z
        .int()
        .min(0)
        .nullable()
        .meta({ description: 'seconds left today; null = no limit', examples: [null] }),
    }),
    sessions: z.object({
      open: count('currently open event streams', 1),
      quota: z.int().meta({ description: 'maximum open event streams', examples: [10] }),
    }),
  }),
  problems: [],
  run: async (call: AccountCall) => {
    const { account, tier } = call.caller;
    const used = call.sessions.usedSeconds(account);
    const quota = TIERS[tier].streamSecondsPerDayMax;
    return {
      account,
      day: new Date(call.now()).toISOString().slice(0, 10),
      requests: {
        today: call.requestsToday(account),
        per_second: TIERS[tier].requestsPerSecond,
      },
      stream_seconds: {
        today: used,
        quota,
        left: quota === null ? null : Math.max(0, quota - used),
      },
      sessions: { open: call.sessions.list(account).length, quota: TIERS[tier].sessionsMax },
    };
  },
});

const tiers = endpoint({
  name: 'tiers',
  path: '/v2/tiers',
  summary: 'Tiers',
  description:
    'The limits of each tier: requests, event streams, managed streams and their filters.',
  parameters: z.object({}),
  answer: z.object({ tiers: z.array(TierView) }),
  problems: [],
  run: async (_call: AccountCall) => ({
    tiers: Tier.options.map((name) => tierView(name, TIERS[name])),
  }),
});

const Label = KeyLabel.meta({
  description: 'your name for the key, without control characters',
  examples: ['laptop'],
});
const ExpiresAt = z.iso
  .datetime()
  .nullable()
  .meta({
    description: 'when the key expires, ISO 8601 UTC; null = when the key of this request does',
    examples: ['2027-01-31T00:00:00Z'],
  });
const Path = z.object({ id: keyId.describe('id of a key of the account') });

const listKeys = endpoint({
  name: 'keys',
  path: '/v2/user/keys',
  summary: 'API keys',
  description: 'All API keys of your account, newest first: their ids, never the keys themselves.',
  parameters: z.object({}),
  answer: z.object({
    keys: z.array(KeyView),
    total_count: count('keys in the list', 2),
  }),
  problems: [],
  run: async (call: AccountCall) => {
    const keys = call.keys
      .ofAccount(call.caller.account)
      .toSorted((a, b) => b.record.created_at.localeCompare(a.record.created_at));
    return { keys: keys.map((key) => viewOf(key, call)), total_count: keys.length };
  },
});

const createKey = endpoint({
  name: 'createKey',
  method: 'post',
  path: '/v2/user/keys',
  status: 201,
  summary: 'Create an API key',
  description: `Returns a new key of your account, of the tier of the key of this request, which expires no later than that one. Store
\`key\`: only this response shows it, and a retry with the same \`Idempotency-Key\`.

Each api process refuses more valid keys than the \`max_keys\` of the tier, but keys that several processes create at the
same moment can exceed it.`,
  parameters: z.object({}),
  body: z.strictObject({ label: Label.default(''), expires_at: ExpiresAt.default(null) }),
  answer: KeyView.extend({
    key: text('the key, shown once', `fs_pro_${'2'.repeat(43)}`),
  }),
  problems: ['quota_exceeded'],
  run: async (call: AccountCall, _given, body) => {
    const { repeatable } = call;
    if (repeatable === null) return await issueNew(call, body);
    const key = keyFromSeed(call.caller.tier, repeatable.seed);
    const keyHash = hashKey(key);
    await call.keys.fetch(keyHash);
    const isKnown = call.keys.own(call.caller.account, keyHash) !== undefined;
    const answer = isKnown ? undefined : await issueNew(call, body, key).catch(unlessConflict);
    if (answer !== undefined) return answer;
    // An earlier or concurrent request has created the key.
    await call.keys.fetch(keyHash);
    const stored = call.keys.own(call.caller.account, keyHash);
    if (stored === undefined) throw new Error('an existing key cannot be read');
    requireSameBody(repeatable.bodyHash, stored.record.body_hash);
    return { ...viewOf(stored, call), key };
  },
});

const KeyChange = z.strictObject({ label: Label.optional(), expires_at: ExpiresAt.optional() });
type KeyChange = z.output<typeof KeyChange>;

const updateKey = endpoint({
  name: 'updateKey',
  method: 'patch',
  path: '/v2/user/keys/:id',
  summary: 'Change an API key',
  description: `Changes the label or the expiry of an API key; omitted members keep their values.

A revoked key cannot be changed. An expired key becomes valid again only while the account has fewer valid keys than its
tier allows.`,
  parameters: Path,
  body: KeyChange,
  answer: KeyView,
  problems: ['not_found', 'quota_exceeded'],
  run: async (call: AccountCall, { id }, body) => {
    return await inTurn(call.caller.account, () => changeOne(call, id, body));
  },
});

/** Changes a key. An expired one becomes valid again only if the account has room for it. */
async function changeOne(call: AccountCall, id: string, { label, expires_at }: KeyChange) {
  const { keyHash, record: former } = ownKey(call, id);
  const changed = (record: KeyRecord): KeyRecord => ({
    ...record,
    label: label ?? record.label,
    expires_at: expires_at === undefined ? record.expires_at : cappedExpiry(expires_at, call),
  });
  const isValid = (record: KeyRecord) => keyStatus(record, call.now()) === 'valid';
  if (!isValid(former) && isValid(changed(former))) refuseMoreKeys(call);
  try {
    const stored = await changeKey(call.keysBucket, keyHash, changed);
    await learn(call, keyHash);
    return viewOf(stored, call);
  } catch (error) {
    if (!(error instanceof KeyRevokedError)) throw error;
    const message = 'the key was revoked: create another';
    throw new Problem({
      error: 'invalid_request',
      detail: `id: ${message}`,
      issues: [{ path: 'id', message }],
    });
  }
}

const deleteKey = endpoint({
  name: 'deleteKey',
  method: 'delete',
  path: '/v2/user/keys/:id',
  summary: 'Revoke an API key',
  description: `Revokes an API key for good and ends its open streams in every process within a second.

The key of this request can be revoked, too. A revoked key stays in the list. Revoking it again returns 404.`,
  parameters: Path,
  answer: z.object({ id: KeyView.shape.id }),
  problems: ['not_found'],
  run: async (call: AccountCall, { id }) => {
    const { keyHash } = ownKey(call, id);
    const revoked_at = new Date(call.now()).toISOString();
    try {
      await changeKey(call.keysBucket, keyHash, (record) => ({ ...record, revoked_at }));
    } catch (error) {
      if (!(error instanceof KeyRevokedError)) throw error;
      throw new Problem({ error: 'not_found', detail: `the key ${id} was revoked already` });
    }
    await learn(call, keyHash);
    return { id };
  },
});

/** By account: the newest request that issues or changes a key. */
const turns = new Map<string, Promise<unknown>>();

/**
 * Runs one piece of work after the other for an account, because concurrent requests would all find room for one more
 * key.
 */
async function inTurn<Result>(account: string, work: () => Promise<Result>): Promise<Result> {
  const own = (turns.get(account) ?? Promise.resolve()).then(work, work);
  turns.set(account, own);
  try {
    return await own;
  } finally {
    if (turns.get(account) === own) turns.delete(account);
  }
}

/** Issues the given key or a random one. Throws Problem 403 if the account has as many as its tier allows. */
async function issueNew(...given: Parameters<typeof issueOne>) {
  return await inTurn(given[0].caller.account, () => issueOne(...given));
}

async function issueOne(
  call: AccountCall,
  body: { readonly label: string; readonly expires_at: string | null },
  given?: string,
) {
  refuseMoreKeys(call);
  const { account, tier } = call.caller;
  const expiresAt = cappedExpiry(body.expires_at, call);
  const bodyHash = call.repeatable?.bodyHash;
  const wanted = { account, tier, label: body.label, expiresAt, bodyHash };
  const { key, stored } = await issueKey(call.keysBucket, wanted, call.now(), given);
  await learn(call, stored.keyHash);
  return { ...viewOf(stored, call), key };
}

/** Throws Problem 403 if the account has as many valid keys as its tier allows. */
function refuseMoreKeys({ caller, keys, now }: AccountCall): void {
  const { keysMax } = TIERS[caller.tier];
  const own = keys.ofAccount(caller.account);
  const valid = own.filter(({ record }) => keyStatus(record, now()) === 'valid');
  if (valid.length < keysMax) return;
  throw new Problem({
    error: 'quota_exceeded',
    detail: `max_keys: tier ${caller.tier} allows ${keysMax} valid keys, and all are in use; revoke one first`,
    quota: { name: 'max_keys', limit: keysMax, used: valid.length },
  });
}

/** This process knows a stored change at once if it can read it now, the others when their watch delivers it. */
async function learn(call: AccountCall, keyHash: string): Promise<void> {
  await call.keys.fetch(keyHash).catch(() => undefined);
}

function unlessConflict(error: unknown): undefined {
  if (!(error instanceof KvConflictError)) throw error;
}

export const ACCOUNT_ENDPOINTS: readonly Endpoint<AccountCall>[] = [
  me,
  telemetry,
  listKeys,
  createKey,
  updateKey,
  deleteKey,
  tiers,
];

/** Throws Problem 404, also for a key of another account. */
function ownKey({ keys, caller }: AccountCall, id: string): StoredKey {
  const found = keys.ofAccount(caller.account).find(({ keyHash }) => keyIdOf(keyHash) === id);
  if (found !== undefined) return found;
  throw new Problem({ error: 'not_found', detail: `the account has no key ${id}` });
}

/** The requested expiry, or the expiry of the caller's key if that is sooner. */
function cappedExpiry(wanted: string | null, { keys, caller }: AccountCall): string | undefined {
  const own = keys.own(caller.account, caller.keyHash)?.record.expires_at;
  if (wanted === null) return own;
  const isLater = own !== undefined && Date.parse(own) < Date.parse(wanted);
  return isLater ? own : new Date(wanted).toISOString();
}

function viewOf(
  { keyHash, record }: StoredKey,
  call: Pick<AccountCall, 'caller' | 'now'>,
): z.input<typeof KeyView> {
  return {
    id: keyIdOf(keyHash),
    label: record.label,
    tier: record.tier,
    status: keyStatus(record, call.now()),
    is_current: keyHash === call.caller.keyHash,
    created_at: record.created_at,
    expires_at: record.expires_at ?? '',
    revoked_at: record.revoked_at ?? '',
  };
}

function tierView(name: Tier, limits: TierLimits): z.input<typeof TierView> {
  return {
    name,
    requests_per_second: limits.requestsPerSecond,
    account_requests_per_second: limits.accountRequestsPerSecond,
    max_keys: limits.keysMax,
    max_sessions: limits.sessionsMax,
    max_streams: limits.streamsMax,
    max_naked_streams: limits.nakedStreamsMax,
    max_filter_addrs: limits.filterAddressesMax,
    max_filter_tags: limits.filterTagsMax,
    max_filter_series: limits.filterSeriesMax,
    stream_seconds_per_day: limits.streamSecondsPerDayMax,
    leaderboard_limit: limits.leaderboardLimitMax,
    include_orders: limits.includeOrders,
  };
}
