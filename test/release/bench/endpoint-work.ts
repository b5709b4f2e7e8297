/**
 * What each endpoint does for a request, statements included, without the HTTP of the api: REQUESTS (100) different
 * requests, one after another.
 */
import { createMetadata } from '../../../api/analytics/metadata-cache.ts';
import { QUERY_MS_MAX } from '../../../api/analytics/query.ts';
import { createSelect } from '../../../infra/clickhouse.ts';
import { answerUncached, casesOf } from './endpoint-calls.ts';
import type { Dataset } from './fills.ts';
import { percentile, readable } from './report.ts';

const REQUESTS = Number(process.env.REQUESTS || 100);
const WARM_UP_REQUESTS = 20;

export async function measureWork(data: Dataset) {
  const store = { url: data.parts.env.CLICKHOUSE_URL, database: 'fillstream', name: 'bench' };
  const select = createSelect(store);
  // So that the windows that end now are full, however old the data is.
  const now = () => data.exchange.to * 1_000;
  const rows = [];
  for (const one of casesOf(data)) {
    const metadata = createMetadata({ select, queryMsMax: QUERY_MS_MAX });
    const times: number[] = [];
    for (let i = 0; i < WARM_UP_REQUESTS + REQUESTS; i++) {
      const startedAt = performance.now();
      await answerUncached(one, i, { select, metadata, now });
      if (i >= WARM_UP_REQUESTS) times.push(performance.now() - startedAt);
    }
    const at = (part: number) => readable(percentile(times, part));
    rows.push({ endpoint: one.name, 'p50, ms': at(0.5), p90: at(0.9), p99: at(0.99), most: at(1) });
    console.log(Object.values(rows.at(-1) ?? {}).join('  '));
  }
  return rows;
}
