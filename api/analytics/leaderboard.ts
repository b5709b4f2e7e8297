/**
 * `GET /v1|v2/analytics/leaderboard` (specification 2.3, 4.3): a page of the precomputed board of one
 * time frame and tag, and the number of all traders that match. The board is as old as its last
 * refresh; profiles and last trades are at most five seconds older than now.
 */
import { z } from 'zod';
import { type Encoded, encodeJson } from '../encoded.ts';
import { endpoint } from '../endpoint.ts';
import { amount, amountText, count, percentage, share, time } from './fields.ts';
import {
  allowedLimit,
  type BoardRow,
  type Given,
  generationOf,
  Parameters,
  readBoard,
} from './leaderboard-query.ts';
import { ProfileV1, ProfileV2, profileReader, profileV2 } from './profiles.ts';
import type { Call } from './query.ts';
import { percent, safeInteger } from './wire.ts';

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
const DESCRIPTION =
  'Boards are computed every 10 seconds (1H, 4H), every minute (1D) or every 5 minutes. Within one refresh, pages do not overlap. Answers carry an ETag.';

export const leaderboardV1 = endpoint({
  path: '/v1/analytics/leaderboard',
  summary: 'Traders by PnL, ROI, win rate or markets',
  description: DESCRIPTION,
  parameters: Parameters,
  answer: z.object({ traders: z.array(EntryV1), total_count: TOTAL }),
  problems: ['tier_required'],
  run: (call, given) => cachedPage('v1', call, given, pageV1),
});

export const leaderboardV2 = endpoint({
  path: '/v2/analytics/leaderboard',
  summary: 'Traders by PnL, ROI, win rate or markets, amounts as numbers',
  description: DESCRIPTION,
  parameters: Parameters,
  answer: z.object({ traders: z.array(EntryV2), total_count: TOTAL }),
  problems: ['tier_required'],
  run: (call, given) => cachedPage('v2', call, given, pageV2),
});

/** The page, computed once for all who ask for it; so no client's leaving ends the read. */
function cachedPage(
  version: 'v1' | 'v2',
  call: Call,
  given: Given,
  pageOf: (row: BoardRow, offset: number) => unknown,
): Promise<Encoded> {
  const limit = allowedLimit(given, call.caller);
  const sharedCall = { ...call, signal: null };
  return call.pages.page({
    board: given.time_frame,
    key: JSON.stringify([version, limit, Object.entries({ ...given, limit }).sort()]),
    generation: () => generationOf(sharedCall, given.time_frame),
    compute: async () => {
      const row = await readBoard(sharedCall, given, limit);
      return encodeJson(pageOf(row, given.offset), MAX_AGE_SECONDS);
    },
  });
}

function pageV1(row: BoardRow, offset: number): { traders: z.input<typeof EntryV1>[] } & Total {
  const profileOf = profileReader(row);
  return {
    traders: row.entries.map(([address, pnl, cost, volume, markets, wins], index) => ({
      profile: profileOf(address),
      total_pnl: pnl.toString(),
      total_volume: volume.toString(),
      roi: percent(pnl, cost),
      win_rate: percent(BigInt(wins), BigInt(markets)),
      rank: offset + index + 1,
      markets_count: markets,
      wins_count: wins,
    })),
    total_count: row.total_count,
  };
}

function pageV2(row: BoardRow, offset: number): { traders: z.input<typeof EntryV2>[] } & Total {
  const profileOf = profileReader(row);
  return {
    traders: row.entries.map(([address, pnl, cost, volume, markets, wins], index) => ({
      profile: profileV2(profileOf(address)),
      last_trade_at: profileOf(address).last_trade_at,
      total_pnl: safeInteger(pnl),
      total_volume: safeInteger(volume),
      roi: percent(pnl, cost),
      win_rate: percent(BigInt(wins), BigInt(markets)),
      rank: offset + index + 1,
      markets_count: markets,
      wins_count: wins,
    })),
    total_count: row.total_count,
  };
}

type Total = { readonly total_count: number };
