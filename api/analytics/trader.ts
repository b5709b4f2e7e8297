/**
 * `GET /v1|v2/traders/:address`: v1 has profile, tags and six windows; v2 has profile, balance, tier, weighted
 * volume and tags of the last 30 days. Windows are exact to the second, [now − W, now]. In v2, `tag` and `series`
 * restrict the figures that are computed from fills, top_tags and weighted_volume. The public profile's weighted
 * volume covers all markets, so it is shown only without a restriction.
 */
import { z } from 'zod';
import { endpoint } from '../http/endpoint.ts';
import { Problem } from '../http/errors.ts';
import { address, slug, traderKey } from '../http/parameters.ts';
import { type Call, SHARED } from './call.ts';
import { isoSecond, safeInteger, spaced } from './format.ts';
import { ALL_TAGS, countsUnder } from './market-tags.ts';
import type { Profile } from './metadata-cache.ts';
import { NO_PROFILE, ProfileV2, profileV2, SpacedProfileV1 } from './profiles.ts';
import { amount, text, time } from './schemas.ts';
import { addressNamed } from './search.ts';
import { eachWindow } from './time-frames.ts';
import {
  TagV1,
  TagV2,
  tagV1,
  tagV2,
  topTags,
  total,
  WindowV1,
  weightedUsd,
  windowV1,
} from './trader-windows.ts';

const TAGS_MAX_V1 = 20;

const ParametersV1 = z.object({
  address,
});

const AnswerV1 = z.object({
  profile: SpacedProfileV1,
  top_tags: z.array(TagV1),
  stats: z.object(eachWindow((_, period) => WindowV1.describe(period))),
});

export const traderV1 = endpoint({
  name: 'trader',
  path: '/v1/traders/:address',
  summary: 'Trader (v1)',
  description: `A trader's profile, and PnL, volume, ROI and win rate of six time windows and of their tags. Windows end now and are exact
to the second. \`top_tags\` are up to 20 tags of the last 30 days, ranked by PnL, then volume.`,
  parameters: ParametersV1,
  answer: AnswerV1,
  problems: ['not_found'],
  keep: SHARED,
  async run(call: Call, input) {
    const [profiles, { windows, lastTradeAt }] = await Promise.all([
      call.metadata.profiles([input.address]),
      call.traders.recent(call, input.address),
    ]);
    const identity = identityOf(input.address, profiles, lastTradeAt);
    return {
      profile: {
        address: input.address,
        name: identity.name,
        profile_image: identity.profile_image,
        x_username: identity.x_username,
        profile_created_at: spaced(identity.profile_created_at),
        last_trade_at: spaced(isoSecond(identity.last_trade_at)),
      },
      top_tags: topTags(windows.at(-1) ?? [], TAGS_MAX_V1).map(tagV1),
      stats: eachWindow((window) => windowV1(total(windows[window] ?? []))),
    };
  },
});

const TAGS_MAX_V2 = 5;
const TIER_NAMES = ['Tier 0', 'Bronze', 'Silver', 'Gold', 'Platinum', 'Diamond', 'Obsidian'];

const ParametersV2 = z.object({
  address: traderKey,
  tag: slug
    .default(ALL_TAGS)
    .describe('restricts top_tags and weighted_volume to markets with this tag; `all`: no filter'),
  series: slug
    .optional()
    .describe('restricts top_tags and weighted_volume to markets of this series'),
});

/** Synced data of a wallet in addition to its profile. */
export const walletMembers = {
  pusd_balance: amount(
    'pUSD of the wallet at the last synced block, micro-pUSD: read after its trades and after the resolutions of markets that it traded, and about every seven minutes while it is one of the 2,000 wallets that traded last',
  ),
  taker_tier: z
    .int()
    .min(0)
    .max(6)
    .meta({
      description: '0 Tier 0, 1 Bronze, 2 Silver, 3 Gold, 4 Platinum, 5 Diamond, 6 Obsidian',
      examples: [3],
    }),
  taker_tier_name: text('name of the tier; empty until it is synced', 'Gold'),
};

const AnswerV2 = z.object({
  profile: ProfileV2,
  ...walletMembers,
  top_tags: z.array(TagV2).max(TAGS_MAX_V2),
  weighted_volume: z.number().meta({
    description:
      'USD over the last 30 days, from the public profile. Until that is synced, and with `tag` or `series`, the sum of usdc × (1 − price) × category weight over the taker fills',
    examples: [215_000.5],
  }),
  last_trade_at: time('newest trade, or empty'),
});

export const traderV2 = endpoint({
  name: 'trader',
  path: '/v2/traders/:address',
  summary: 'Trader',
  description: `A trader's profile, balance, taker tier and weighted volume, and the figures of their tags. The trader is
given by address, or by \`@\` and the exact name or account on X. \`top_tags\` are up to 5 tags of
the last 30 days, ranked by PnL, then volume. \`POST /v2/traders/batch\` has time windows.

Letter case and spaces of a name are ignored, and of several traders with the name it is the one with the most fills. In
\`weighted_volume\`, the weight of a market is the lowest weight of the categories among its tags, or 1.7 without one.`,
  parameters: ParametersV2,
  answer: AnswerV2,
  problems: ['not_found'],
  keep: SHARED,
  async run(call: Call, input) {
    const wallet = input.address.startsWith('@')
      ? await addressNamed(call, input.address)
      : input.address;
    const isRestricted = input.tag !== ALL_TAGS || input.series !== undefined;
    const [profiles, { windows, lastTradeAt }, balances] = await Promise.all([
      call.metadata.profiles([wallet]),
      call.traders.recent(call, wallet, input.series),
      call.metadata.balances([wallet]),
    ]);
    const identity = identityOf(wallet, profiles, lastTradeAt);
    const sums = (windows.at(-1) ?? []).filter(({ tags }) => countsUnder(tags, input.tag));
    return {
      profile: profileV2({ ...identity, address: wallet }),
      pusd_balance: safeInteger(balances.get(wallet) ?? 0n),
      taker_tier: identity.taker_tier,
      taker_tier_name: tierName(identity),
      top_tags: topTags(sums, TAGS_MAX_V2).map(tagV2),
      weighted_volume:
        identity.has_weighted_volume && !isRestricted
          ? identity.weighted_volume_usd
          : weightedUsd(sums),
      last_trade_at: isoSecond(identity.last_trade_at),
    };
  },
});

/** The name of the tier, or '' without a public profile or without a tier in it. */
export function tierName(row: {
  readonly taker_tier: number;
  readonly taker_tier_name: string;
  readonly has_weighted_volume: boolean;
}): string {
  const isSynced = row.taker_tier > 0 || row.taker_tier_name !== '' || row.has_weighted_volume;
  return isSynced ? (TIER_NAMES[row.taker_tier] ?? '') : '';
}

/** Profile and newest fill of a trader. Throws Problem 404 for an address without fills and without a public profile. */
function identityOf(address: string, profiles: ReadonlyMap<string, Profile>, lastTradeAt: number) {
  const profile = profiles.get(address);
  if (profile === undefined && lastTradeAt === 0) {
    const detail = `${address} has no trades`;
    throw new Problem({ error: 'not_found', detail });
  }
  return { ...(profile ?? NO_PROFILE), last_trade_at: lastTradeAt };
}
