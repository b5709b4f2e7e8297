/** The context of the analytics endpoints, and the settings for shared responses. */
import type { Select } from '../../infra/clickhouse.ts';
import type { Answers } from '../http/answers.ts';
import type { Context, KeepRequest } from '../http/endpoint.ts';
import type { LeaderboardCache } from './leaderboard-cache.ts';
import type { LiveTraders } from './live-traders.ts';
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
  readonly traders: LiveTraders;
};

/** Has no caller: an analytics response depends only on its parameters, after the tier's limits are applied. */
export type Call = Analytics & Context;

/** The `keep` of an endpoint whose JSON responses are shared for this long. */
function sharedFor(ageMsMax: number) {
  return {
    maxAgeSeconds: 0,
    formats: ['json'] as const,
    page: (call: Call, _input: unknown, request: KeepRequest) =>
      call.answers.get({ ...request, ageMsMax }),
  };
}

export const SHARED = sharedFor(1_000);
/** For data that must be shown within two seconds of its final block. */
export const SHARED_BRIEFLY = sharedFor(500);
