/**
 * `GET /v1|v2/analytics/leaderboard` (specification 2.3, 4.3): a page of the precomputed board of one
 * time frame and tag, and the number of all traders that match. The board is as old as its last
 * refresh, last trades included; profiles are at most five seconds older than now.
 */
import { z } from 'zod';
import { endpoint, Page } from '../endpoint.ts';
import type { Encoded } from '../response.ts';
import type { Call } from './call.ts';
import { percent, safeInteger } from './format.ts';
import {
  allowedPage,
  type Given,
  generationOf,
  Parameters,
  readBoard,
} from './leaderboard-query.ts';
import { ProfileV1, ProfileV2, profileV2 } from './profiles.ts';
import { amount, amountText, count, percentage, share, text, time } from './schemas.ts';

/** How long a client may keep a page; the shortest board is refreshed every 10 s. */
const MAX_AGE_SECONDS = 5;

const shared = {
  roi: percentage('PnL over what the closed shares had cost'),
  win_rate: share('wins_count over markets_count'),
  rank: z
    .int()
    .min(1)
    .meta({ description: 'position on the leaderboard', examples: [1] }),
  markets_count: count('markets with a fill or a settlement in the time frame'),
  wins_count: count('of these, markets with a realised PnL above 0 in the time frame'),
};
const PNL = 'realised PnL in the time frame, net of fees';

const EntryV1 = z.object({
  profile: ProfileV1,
  total_pnl: amountText(`${PNL}, micro-USDC`),
  total_volume: amountText('value of the own fills, micro-USDC'),
  ...shared,
});

const EntryV2 = z.object({
  profile: ProfileV2,
  last_trade_at: time('newest trade'),
  total_pnl: amount(`${PNL}, micro-USD`),
  total_volume: amount('value of the own fills, micro-USD'),
  ...shared,
});

const TOTAL = count('traders that match the query, on all pages');
const NEXT = text('`cursor` of the next page; empty where the list ends');

/** A page is computed once for all who ask for it, and again after a refresh of its board. */
const KEEP = {
  maxAgeSeconds: MAX_AGE_SECONDS,
  page: (
    call: Call,
    given: Given,
    one: { readonly key: string; readonly compute: () => Promise<Encoded> },
  ) =>
    call.leaderboards.page({
      ...one,
      board: given.time_frame,
      generation: () => generationOf(call, given.time_frame),
    }),
};

const DESCRIPTION =
  'Boards are computed every 10 seconds (1H, 4H), every minute (1D) or every 5 minutes. Everything but the profiles is of the last refresh, within which pages do not overlap. `rank` counts from the top in either order. Answers carry an ETag.';

export const leaderboardV1 = endpoint({
  path: '/v1/analytics/leaderboard',
  summary: 'Traders by PnL, ROI, win rate or markets',
  description: DESCRIPTION,
  parameters: Parameters,
  answer: z.object({ traders: z.array(EntryV1), total_count: TOTAL }),
  list: 'traders',
  problems: ['tier_required'],
  allowed: allowedPage,
  keep: KEEP,
  async run(call: Call, given) {
    const { entries, next, rankOf, total } = await readBoard(call, given);
    const traders = entries.map(({ profile, pnl, cost, total_volume, markets, wins }, index) => ({
      profile,
      total_pnl: pnl.toString(),
      total_volume: total_volume.toString(),
      roi: percent(pnl, cost),
      win_rate: percent(BigInt(wins), BigInt(markets)),
      rank: rankOf(index),
      markets_count: markets,
      wins_count: wins,
    }));
    return new Page({ traders, total_count: total }, next);
  },
});

export const leaderboardV2 = endpoint({
  path: '/v2/analytics/leaderboard',
  summary: 'Traders by PnL, ROI, win rate or markets, amounts as numbers',
  description: DESCRIPTION,
  parameters: Parameters,
  answer: z.object({ traders: z.array(EntryV2), next_cursor: NEXT, total_count: TOTAL }),
  list: 'traders',
  problems: ['tier_required'],
  allowed: allowedPage,
  keep: KEEP,
  async run(call: Call, given) {
    const { entries, next, rankOf, total } = await readBoard(call, given);
    const traders = entries.map(({ profile, pnl, cost, total_volume, markets, wins }, index) => ({
      profile: profileV2(profile),
      last_trade_at: profile.last_trade_at,
      total_pnl: safeInteger(pnl),
      total_volume: safeInteger(total_volume),
      roi: percent(pnl, cost),
      win_rate: percent(BigInt(wins), BigInt(markets)),
      rank: rankOf(index),
      markets_count: markets,
      wins_count: wins,
    }));
    return new Page({ traders, next_cursor: next, total_count: total }, next);
  },
});
