/** What the analytics endpoints work with, one request as they see it, and responses that requests share. */
import type { Select } from '../../infra/clickhouse.ts';
import type { Answers } from '../answers.ts';
import type { Context, KeepRequest } from '../endpoint.ts';
import type { LeaderboardCache } from './leaderboard-cache.ts';
import type { Metadata } from './metadata-cache.ts';

type Analytics = {
  readonly select: Select;
  /** Time limit of one read, milliseconds. */
  readonly queryMsMax: number;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  readonly answers: Pick<Answers, 'get'>;
  readonly leaderboards: LeaderboardCache;
  readonly metadata: Metadata;
};

/** Without the caller: no analytics response depends on more than its parameters, after the tier's limits. */
export type Call = Analytics & Context;

/** The `keep` of an endpoint whose responses are shared for so long; CSV is not. */
function sharedFor(ageMsMax: number) {
  return {
    maxAgeSeconds: 0,
    formats: ['json'] as const,
    page: (call: Call, _input: unknown, request: KeepRequest) =>
      call.answers.get({ ...request, ageMsMax }),
  };
}

export const SHARED = sharedFor(1_000);
/** For what a trader sees change with the next final block: it is to be shown within two seconds. */
export const SHARED_BRIEFLY = sharedFor(500);
