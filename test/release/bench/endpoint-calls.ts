/** The requests that the benchmarks ask the analytics endpoints, and such a request without HTTP. */
import { ANALYTICS_ENDPOINTS } from '../../../api/analytics/endpoints.ts';
import { createLeaderboardCache } from '../../../api/analytics/leaderboard-cache.ts';
import type { Metadata } from '../../../api/analytics/metadata-cache.ts';
import { QUERY_MS_MAX } from '../../../api/analytics/query.ts';
import type { KeepRequest } from '../../../api/endpoint.ts';
import type { Select } from '../../../infra/clickhouse.ts';
import type { Dataset } from './fills.ts';

export type Case = {
  readonly name: string;
  readonly path: string;
  /** Path and query of the i-th request, each another one. */
  readonly ask: (i: number) => string;
  /** Of a POST request; a GET request has none. */
  readonly body?: (i: number) => object;
};

/** One case an endpoint and, where the statement differs, more. Popular traders and markets more often. */
export function casesOf(data: Pick<Dataset, 'exchange' | 'traders' | 'markets'>): readonly Case[] {
  const { traders, markets, exchange } = data;
  const trader = (i: number) => at(traders, ((i * 7_919) % traders.length) >> (i % 12));
  const market = (i: number) => at(markets, ((i * 104_729) % markets.length) >> (i % 8));
  const id = (i: number) => market(i).id;
  // The second word and the last one.
  const words = (i: number) => {
    const all = market(i)
      .question.replaceAll(/[^\w ]/g, '')
      .split(' ');
    return encodeURIComponent(`${all[1]} ${all.at(-1)}`);
  };
  const orders = (i: number) => `${trader(i)}/markets/${id(i)}/orders`;
  const one = (name: string, path: string, ask: (i: number) => string) => ({ name, path, ask });
  const leaderboard = '/v1/analytics/leaderboard';
  const v1 = '/v1/traders/:address';
  const v2 = '/v2/traders/:address';
  return [
    one('v1 leaderboard 30D', leaderboard, (i) => `${leaderboard}?offset=${i}`),
    one('v1 leaderboard 1D crypto by roi', leaderboard, (i) => {
      return `${leaderboard}?time_frame=1D&tag=crypto&sort_by=roi&offset=${i}`;
    }),
    one('v1 leaderboard 7D, filters', leaderboard, (i) => {
      return `${leaderboard}?time_frame=7D&min_roi=1&min_market_count=2&last_active_hours=24&offset=${i}`;
    }),
    one('v1 trader', v1, (i) => `/v1/traders/${trader(i)}`),
    one('v1 markets of a trader', `${v1}/markets`, (i) => `/v1/traders/${trader(i)}/markets`),
    one('v1 the same with orders', `${v1}/markets`, (i) => {
      return `/v1/traders/${trader(i)}/markets?include_orders=true`;
    }),
    one('v1 orders of a market', `${v1}/markets/:id/orders`, (i) => `/v1/traders/${orders(i)}`),
    one('v1 hours', `${v1}/hourly_stats`, (i) => `/v1/traders/${trader(i)}/hourly_stats`),
    one('v1 market', '/v1/markets/:id', (i) => `/v1/markets/${id(i)}`),
    one('v1 market_data, 20 traders', '/v1/market_data/:id_or_slug', (i) => {
      return `/v1/market_data/${id(i)}?limit=20`;
    }),
    one('v2 leaderboard 7D', '/v2/analytics/leaderboard', (i) => {
      return `/v2/analytics/leaderboard?time_frame=7D&offset=${i}`;
    }),
    one('v2 trader', '/v2/traders/:address', (i) => `/v2/traders/${trader(i)}`),
    one('v2 trader of a tag', '/v2/traders/:address', (i) => `/v2/traders/${trader(i)}?tag=crypto`),
    one('v2 active markets of a trader', '/v2/traders/:address/markets', (i) => {
      return `/v2/traders/${trader(i)}/markets?is_active=true`;
    }),
    one('v2 orders of a market', '/v2/traders/:address/markets/:id/orders', (i) => {
      return `/v2/traders/${orders(i)}`;
    }),
    one('v2 hours of a tag', '/v2/traders/:address/hourly_stats', (i) => {
      return `/v2/traders/${trader(i)}/hourly_stats?tag=crypto`;
    }),
    one('v2 market by slug', '/v2/markets/:id', (i) => `/v2/markets/${market(i).slug}`),
    one('v2 markets', '/v2/markets', (i) => `/v2/markets?limit=${1 + (i % 100)}`),
    one('v2 markets by words', '/v2/markets', (i) => {
      return `/v2/markets?status=all&sort_by=newest&q=${words(i)}`;
    }),
    one('v2 candles of a month', '/v2/markets/:id/candles', (i) => {
      return `/v2/markets/${id(i)}/candles?from=${exchange.to - 30 * 86_400}&to=${exchange.to}`;
    }),
    one('v2 trades of a market', '/v2/markets/:id/trades', (i) => `/v2/markets/${id(i)}/trades`),
    one('v2 holders of a market', '/v2/markets/:id/holders', (i) => `/v2/markets/${id(i)}/holders`),
    one('v2 biggest trades', '/v2/biggest_trades', (i) => {
      return `/v2/biggest_trades?limit=${1 + (i % 100)}`;
    }),
    one('v2 positions', `${v2}/positions`, (i) => `/v2/traders/${trader(i)}/positions`),
    one('v2 equity by day', `${v2}/equity`, (i) => `/v2/traders/${trader(i)}/equity?interval=1d`),
    one('v2 trades of a trader', `${v2}/trades`, (i) => `/v2/traders/${trader(i)}/trades`),
    one('v2 search', '/v2/search', (i) => `/v2/search?q=${words(i)}`),
    one('v2 leaderboard of a market', '/v2/analytics/leaderboard', (i) => {
      return `/v2/analytics/leaderboard?market=${id(i)}`;
    }),
    one('v2 market by condition', '/v2/markets/:id', (i) => `/v2/markets/${market(i).conditionId}`),
    batch('v2 batch of 100 traders', traders),
    batch('v2 batch of 100 of the 1,000 busiest', traders.slice(0, 1_000)),
  ];
}

function batch(name: string, traders: readonly string[]): Case {
  const path = '/v2/traders/batch';
  const address = (n: number) => at(traders, (n * 7_919) % traders.length);
  const addresses = (i: number) => Array.from({ length: 100 }, (_, n) => address(i * 100 + n));
  return { name, path, ask: () => path, body: (i) => ({ addresses: addresses(i) }) };
}

/** Throws if there is none. */
export function at<T>(items: readonly T[], index: number): T {
  const item = items[index];
  if (item === undefined) throw new RangeError(`no item ${index} of ${items.length}`);
  return item;
}

const computed = ({ compute }: KeepRequest) => compute(new AbortController().signal);

/** The endpoint's own work for the i-th request of a case, at the time `now`; no response is kept. */
export async function answerUncached(
  one: Case,
  i: number,
  work: { readonly select: Select; readonly metadata: Metadata; readonly now: () => number },
): Promise<void> {
  const endpoint = ANALYTICS_ENDPOINTS.find(({ path }) => path === one.path);
  if (endpoint === undefined) throw new Error(`no endpoint ${one.path}`);
  const names = [...one.path.matchAll(/:(\w+)/g)].map((match) => match[1] ?? '');
  const form = new RegExp(`^${one.path.replaceAll(/:\w+/g, '([^/]+)')}$`);
  const url = new URL(one.ask(i), 'http://localhost');
  const values = form.exec(url.pathname)?.slice(1) ?? [];
  const call = {
    ...{ ...work, queryMsMax: QUERY_MS_MAX, signal: null },
    caller: { tier: 'pro', account: '', keyHash: '' } as const,
    answers: { get: computed },
    leaderboards: { ...LEADERBOARDS, page: computed },
  };
  const asked = {
    params: Object.fromEntries(names.map((name, at) => [name, values[at] ?? ''])),
    query: Object.fromEntries(url.searchParams),
    ...{ body: one.body?.(i), format: 'json' as const, seed: null },
  };
  await endpoint.respond(call, asked).catch((error: Error) => {
    if (!error.message.includes('has no trades')) throw error;
  });
}

/** Boards are counted once a refresh, as in the api. */
const LEADERBOARDS = createLeaderboardCache();
