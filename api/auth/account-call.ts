/** What the endpoints of an account work with, and the parts of their answers. */
import { z } from 'zod';
import type { Context } from '../endpoint.ts';
import type { Sessions } from '../sessions/sessions.ts';
import type { KeysBucket } from './key-admin.ts';
import { type Keys, keyIdOf, keyStatus, type StoredKey } from './keys.ts';
import { Tier, type TierLimits } from './tiers.ts';

export type AccountCall = Context & {
  readonly keys: Pick<Keys, 'ofAccount' | 'fetch'>;
  /** Where the keys are written. */
  readonly keysBucket: KeysBucket;
  /** Requests of an account today, over all api processes. */
  readonly requestsToday: (account: string) => number;
  readonly sessions: Pick<Sessions, 'list' | 'usedSeconds'>;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
};

const Time = z.string().meta({ examples: ['2026-05-01T12:00:00.000Z'] });

export const KeyView = z.object({
  id: z
    .string()
    .regex(/^[0-9a-f]{16}$/)
    .meta({ description: 'names the key; it opens nothing', examples: ['9f86d081884c7d65'] }),
  label: z.string().meta({ description: 'what its owner calls it', examples: ['laptop'] }),
  tier: Tier.meta({ description: 'what the key may do', examples: ['individual'] }),
  status: z
    .enum(['valid', 'expired', 'revoked'])
    .meta({ description: 'only a valid key is accepted', examples: ['valid'] }),
  is_current: z
    .boolean()
    .meta({ description: 'whether this request was made with it', examples: [true] }),
  created_at: Time.describe('when it was issued, ISO 8601 UTC'),
  expires_at: Time.describe('when it ends; empty = never'),
  revoked_at: Time.describe('when it was revoked; empty while it was not'),
});

export function viewOf(
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

const count = (what: string) =>
  z
    .int()
    .min(0)
    .meta({ description: what, examples: [20] });

export const TierView = z.object({
  name: Tier.meta({ description: 'name of the tier', examples: ['individual'] }),
  requests_per_second: count('requests a second of an account; as many may come at once'),
  max_keys: count('valid API keys of an account'),
  max_sessions: count('open event streams of an account at a time'),
  max_streams: count('managed streams'),
  max_naked_streams: count('managed streams without any filter'),
  max_filter_addrs: count('addresses in a filter'),
  max_filter_tags: count('tags in a filter'),
  max_filter_series: count('series in a filter'),
  stream_seconds_per_day: z
    .int()
    .nullable()
    .meta({
      description: 'seconds of event streams in a UTC day; null = no limit',
      examples: [null],
    }),
  leaderboard_limit: count('greatest `limit` of the leaderboard'),
  include_orders: z
    .boolean()
    .meta({ description: '`include_orders` of a trader’s markets', examples: [true] }),
});

export function tierView(name: Tier, limits: TierLimits): z.input<typeof TierView> {
  return {
    name,
    requests_per_second: limits.requestsPerSecond,
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
