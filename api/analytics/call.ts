/** What the analytics endpoints work with, and one request as they see it. */
import type { Select } from '../../infra/clickhouse.ts';
import type { Context } from '../endpoint.ts';
import type { LeaderboardCache } from './leaderboard-cache.ts';
import type { Metadata } from './metadata-cache.ts';

type Analytics = {
  readonly select: Select;
  /** Time limit of one read, milliseconds. */
  readonly queryMsMax: number;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  readonly leaderboards: LeaderboardCache;
  readonly metadata: Metadata;
};

export type Call = Analytics & Context;
