/**
 * The time of the analytics endpoints for a request, including statements, without the HTTP of the api: REQUESTS (100)
 * different requests of each case, one after another, none answered from a cache of responses.
 */
import { ANALYTICS_ENDPOINTS } from '../../../api/analytics/endpoints.ts';
import { createLeaderboardCache } from '../../../api/analytics/leaderboard-cache.ts';
import { createLiveTraders, type LiveTraders } from '../../../api/analytics/live-traders.ts';
import { createMetadata, type Metadata } from '../../../api/analytics/metadata-cache.ts';
import { QUERY_MS_MAX } from '../../../api/analytics/query.ts';
import type { KeepRequest } from '../../../api/http/endpoint.ts';
import { createSelect, type Select } from '../../../infra/clickhouse.ts';
import type { Case } from './endpoint-calls.ts';
import { cpuSeconds } from './process-figures.ts';
import { percentile, readable } from './report.ts';

const REQUESTS = Number(process.env.REQUESTS || 100);
const WARM_UP_REQUESTS = 20;

type Work = {
  readonly select: Select;
  readonly metadata: Metadata;
  readonly traders: LiveTraders;
  readonly now: () => number;
};

/** A row for each case. `pid` is the process of ClickHouse. */
export async function measureWork(
  cases: readonly Case[],
  store: { readonly url: string; readonly pid: number },
  now: () => number,
) {
  const select = createSelect({ url: store.url, database: 'fillstream', name: 'bench' });
  const rows = [];
  for (const one of cases) {
    const reading = { select, queryMsMax: QUERY_MS_MAX };
    const metadata = createMetadata(reading);
    const traders = createLiveTraders({
      ...{ reading, states: { of: () => [] }, bytesMax: 0 },
      ...{ now, monotonicNow: () => performance.now() },
    });
    const times: number[] = [];
    let cpuBefore = 0;
    for (let i = 0; i < WARM_UP_REQUESTS + REQUESTS; i++) {
      if (i === WARM_UP_REQUESTS) cpuBefore = cpuSeconds(store.pid);
      const startedAt = performance.now();
      await answerUncached(one, i, { select, metadata, traders, now });
      if (i >= WARM_UP_REQUESTS) times.push(performance.now() - startedAt);
    }
    const cpuMs = ((cpuSeconds(store.pid) - cpuBefore) * 1_000) / REQUESTS;
    const at = (part: number) => readable(percentile(times, part));
    rows.push({
      ...{ requests: one.name, 'p50, ms': at(0.5), p90: at(0.9), p99: at(0.99), most: at(1) },
      'CPU of ClickHouse, ms': readable(cpuMs),
    });
    console.log(Object.values(rows.at(-1) ?? {}).join('  '));
  }
  return rows;
}

const computed = ({ compute }: KeepRequest) => compute(new AbortController().signal);

async function answerUncached({ ask, body }: Case, i: number, work: Work): Promise<void> {
  const url = new URL(ask(i), 'http://localhost');
  const { endpoint, params } = endpointAt(url.pathname);
  const call = {
    ...{ ...work, queryMsMax: QUERY_MS_MAX, signal: null },
    caller: { tier: 'pro', account: '', keyHash: '' } as const,
    answers: { get: computed },
    leaderboards: { ...LEADERBOARDS, page: computed },
  };
  const query = Object.fromEntries(url.searchParams);
  const asked = { params, query, body: body?.(i), format: 'json' as const, seed: null };
  await endpoint.respond(call, asked).catch((error: Error) => {
    if (!error.message.includes('has no trades')) throw error;
  });
}

/** Throws if there is none. */
function endpointAt(pathname: string) {
  for (const endpoint of ANALYTICS_ENDPOINTS) {
    const form = new RegExp(`^${endpoint.path.replaceAll(/:(\w+)/g, '(?<$1>[^/]+)')}$`);
    const match = form.exec(pathname);
    if (match !== null) return { endpoint, params: { ...match.groups } };
  }
  throw new Error(`no endpoint at ${pathname}`);
}

/** Boards are counted once a refresh, as in the api. */
const LEADERBOARDS = createLeaderboardCache();
