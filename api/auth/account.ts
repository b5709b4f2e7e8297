/** The endpoints of an account about itself: who it is, what it used, its keys; and the tiers. */
import { z } from 'zod';
import { type Endpoint, endpoint } from '../endpoint.ts';
import { type AccountCall, KeyView, TierView, tierView, viewOf } from './account-call.ts';
import { createKey, deleteKey, listKeys, updateKey } from './account-keys.ts';
import { TIERS, Tier } from './tiers.ts';

const account = z
  .string()
  .meta({ description: 'whose key it is; limits count by account', examples: ['acme'] });

const me = endpoint({
  path: '/v2/user/me',
  summary: 'Who the key belongs to, and what it may do',
  description: 'The account, the key that asks, and the limits of its tier.',
  parameters: z.object({}),
  answer: z.object({ account, key: KeyView, tier: TierView }),
  problems: [],
  run: async (call: AccountCall) => {
    const { account, keyHash, tier } = call.caller;
    const key = call.keys.ofAccount(account).find((one) => one.keyHash === keyHash);
    if (key === undefined) throw new Error('the key of an admitted request is not known');
    return { account, key: viewOf(key, call), tier: tierView(tier, TIERS[tier]) };
  },
});

const telemetry = endpoint({
  path: '/v2/user/telemetry',
  summary: 'What the account used today',
  description:
    'Counts of this UTC day over all keys of the account and all api processes; requests of other ' +
    'processes are about a second old. A day that is used up begins anew at midnight UTC.',
  parameters: z.object({}),
  answer: z.object({
    account,
    day: z
      .string()
      .regex(/^\d{4}-\d\d-\d\d$/)
      .meta({ description: 'the UTC day', examples: ['2026-05-01'] }),
    requests: z.object({
      today: z
        .int()
        .min(0)
        .meta({ description: 'requests that were admitted', examples: [1204] }),
      per_second: z
        .int()
        .meta({ description: 'requests a second that the tier allows', examples: [20] }),
    }),
    stream_seconds: z.object({
      today: z
        .int()
        .min(0)
        .meta({ description: 'seconds of event streams', examples: [3600] }),
      quota: z
        .int()
        .nullable()
        .meta({
          description: 'seconds that the tier has a day; null = no limit',
          examples: [null],
        }),
      left: z
        .int()
        .min(0)
        .nullable()
        .meta({ description: 'seconds that are left of it; null = no limit', examples: [null] }),
    }),
    sessions: z.object({
      open: z
        .int()
        .min(0)
        .meta({ description: 'event streams open now', examples: [1] }),
      quota: z.int().meta({ description: 'event streams that may be open', examples: [10] }),
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
  path: '/v2/tiers',
  summary: 'The tiers and their limits',
  description: 'What each tier may do.',
  parameters: z.object({}),
  answer: z.object({ tiers: z.array(TierView) }),
  problems: [],
  run: async (_call: AccountCall) => ({
    tiers: Tier.options.map((name) => tierView(name, TIERS[name])),
  }),
});

export const ACCOUNT_ENDPOINTS: readonly Endpoint<AccountCall>[] = [
  me,
  telemetry,
  listKeys,
  createKey,
  updateKey,
  deleteKey,
  tiers,
];
