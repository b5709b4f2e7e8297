/**
 * `GET /v2/traders/:address` (specification 2.9): profile, balance, tier, weighted volume and top
 * tags of the last 30 days, [now − 30 d, now]. `tag` and `series` restrict what is computed from
 * fills: top_tags and weighted_volume. The public profile's weighted volume is of all markets, so it
 * is shown only where nothing is restricted.
 */
import { z } from 'zod';
import { Bytes } from '../../infra/clickhouse.ts';
import { endpoint } from '../endpoint.ts';
import { address, slug } from '../parameters.ts';
import type { Call } from './call.ts';
import { isoSecond, safeInteger } from './format.ts';
import { readIdentity } from './identity.ts';
import { ALL_TAGS, countsUnder, HAS_SERIES } from './market-tags.ts';
import { ProfileV2, profileV2 } from './profiles.ts';
import { FEW_ROWS, newestOf, read } from './query.ts';
import { int, rowOf } from './rows.ts';
import { amount, text, time } from './schemas.ts';
import { TagV2, tagV2, topTags } from './sums.ts';
import { readWindows } from './trader-windows.ts';
import { weightedUsd } from './weighted-volume.ts';

const WINDOW_SECONDS = 30 * 86_400;
const TAGS_MAX = 5;
const TIER_NAMES = ['Tier 0', 'Bronze', 'Silver', 'Gold', 'Platinum', 'Diamond', 'Obsidian'];

const Parameters = z.object({
  address: address.describe('wallet of the trader, in any letter case'),
  tag: slug
    .default(ALL_TAGS)
    .describe('restricts top_tags and weighted_volume to markets with this tag; `all`: no filter'),
  series: slug
    .optional()
    .describe('restricts top_tags and weighted_volume to markets of this series'),
});

const BalanceRow = rowOf({ balance: int('balance'), sequence: int('block_number') });

/** No row where no block with a trade of theirs was synced yet. */
const BALANCE_SQL = `
SELECT ${BalanceRow.columns}
FROM balances
WHERE trader = {trader:FixedString(20)}
${FEW_ROWS}`;

const Answer = z.object({
  profile: ProfileV2,
  pusd_balance: amount('pUSD of the wallet at the last synced block, micro-pUSD'),
  taker_tier: z
    .int()
    .min(0)
    .max(6)
    .meta({
      description: '0 Tier 0, 1 Bronze, 2 Silver, 3 Gold, 4 Platinum, 5 Diamond, 6 Obsidian',
      examples: [3],
    }),
  taker_tier_name: text('name of the tier; empty until it was synced', 'Gold'),
  top_tags: z.array(TagV2).max(TAGS_MAX),
  weighted_volume: z.number().meta({
    description:
      'USD, 30 days rolling: as the public profile has it; until that was synced, and with `tag` or `series`, the sum of the taker fills of usdc × (1 − price) × category weight',
    examples: [215_000.5],
  }),
  last_trade_at: time('newest trade, or empty'),
});

export const traderV2 = endpoint({
  path: '/v2/traders/:address',
  summary: 'One trader: profile, balance, tier, weighted volume, top tags',
  description:
    'The at most 5 tags of the last 30 days are ranked by PnL, then volume. The category of a market that decides its weight in weighted_volume is, of the categories among its tags, the one of least weight; 1.7 where there is none.',
  parameters: Parameters,
  answer: Answer,
  problems: ['not_found'],
  async run(call: Call, given) {
    const isRestricted = given.tag !== ALL_TAGS || given.series !== undefined;
    const reading = readWindows(call, {
      trader: given.address,
      now: Math.floor(call.now() / 1000),
      lengths: [WINDOW_SECONDS],
      filter: given.series === undefined ? '' : `AND ${HAS_SERIES}`,
      bound: { series: given.series ?? '' },
    });
    const [identity, { windows }, balances] = await Promise.all([
      // Sums of a series do not see every fill.
      readIdentity(call, given.address, given.series === undefined ? reading : undefined),
      reading,
      read(call, {
        sql: BALANCE_SQL,
        parameters: { trader: new Bytes(given.address) },
        row: BalanceRow,
      }),
    ]);
    const sums = (windows[0] ?? []).filter(({ tags }) => countsUnder(tags, given.tag));
    return {
      profile: profileV2({ ...identity, address: given.address }),
      pusd_balance: safeInteger(newestOf(balances)?.balance ?? 0n),
      taker_tier: identity.taker_tier,
      taker_tier_name: tierName(identity),
      top_tags: topTags(sums, TAGS_MAX).map(tagV2),
      weighted_volume:
        identity.has_weighted_volume && !isRestricted
          ? identity.weighted_volume_usd
          : weightedUsd(sums),
      last_trade_at: isoSecond(identity.last_trade_at),
    };
  },
});

/** A public profile can lack its tier: then, as without a profile, the tier is not synced. */
function tierName(row: {
  readonly taker_tier: number;
  readonly taker_tier_name: string;
  readonly has_weighted_volume: boolean;
}): string {
  const isSynced = row.taker_tier > 0 || row.taker_tier_name !== '' || row.has_weighted_volume;
  return isSynced ? (TIER_NAMES[row.taker_tier] ?? '') : '';
}
