/** The benchmarks' requests to the analytics endpoints. */
import type { Dataset } from './fills.ts';

export type Case = {
  readonly name: string;
  /** Path and query of the i-th request, all different. */
  readonly ask: (i: number) => string;
  /** Body of a POST request; undefined for a GET request. */
  readonly body?: (i: number) => object;
};

/** One case an endpoint and, where the statement differs, more. Popular traders and markets more often. */
export function casesOf(data: Pick<Dataset, 'exchange' | 'traders' | 'markets'>): readonly Case[] {
  const { traders, markets, exchange } = data;
  const trader = (i: number) => at(traders, ((i * 7_919) % traders.length) >> (i % 12));
  const market = (i: number) => at(markets, ((i * 104_729) % markets.length) >> (i % 8));
  // The second word and the last one.
  const words = (i: number) => {
    const all = market(i)
      .question.replaceAll(/[^\w ]/g, '')
      .split(' ');
    return encodeURIComponent(`${all[1]} ${all.at(-1)}`);
  };
  const board = '/v1/analytics/leaderboard';
  const boardV2 = '/v2/analytics/leaderboard';
  const v1 = (i: number) => `/v1/traders/${trader(i)}`;
  const v2 = (i: number) => `/v2/traders/${trader(i)}`;
  const marketV2 = (i: number) => `/v2/markets/${market(i).id}`;
  const orders = (i: number) => `markets/${market(i).id}/orders`;
  const month = `from=${exchange.to - 30 * 86_400}&to=${exchange.to}`;
  const active = 'min_roi=1&min_market_count=2&last_active_hours=24';
  const gets: Readonly<Record<string, Case['ask']>> = {
    'v1 leaderboard 30D': (i) => `${board}?offset=${i}`,
    'v1 leaderboard 1D crypto by roi': (i) =>
      `${board}?time_frame=1D&tag=crypto&sort_by=roi&offset=${i}`,
    'v1 leaderboard 7D, filters': (i) => `${board}?time_frame=7D&${active}&offset=${i}`,
    'v1 trader': v1,
    'v1 markets of a trader': (i) => `${v1(i)}/markets`,
    'v1 the same with orders': (i) => `${v1(i)}/markets?include_orders=true`,
    'v1 orders of a market': (i) => `${v1(i)}/${orders(i)}`,
    'v1 hours': (i) => `${v1(i)}/hourly_stats`,
    'v1 market': (i) => `/v1/markets/${market(i).id}`,
    'v1 market_data, 20 traders': (i) => `/v1/market_data/${market(i).id}?limit=20`,
    'v2 leaderboard 7D': (i) => `${boardV2}?time_frame=7D&offset=${i}`,
    'v2 leaderboard of a market': (i) => `${boardV2}?market=${market(i).id}`,
    'v2 trader': v2,
    'v2 trader of a tag': (i) => `${v2(i)}?tag=crypto`,
    'v2 active markets of a trader': (i) => `${v2(i)}/markets?is_active=true`,
    'v2 orders of a market': (i) => `${v2(i)}/${orders(i)}`,
    'v2 hours of a tag': (i) => `${v2(i)}/hourly_stats?tag=crypto`,
    'v2 positions': (i) => `${v2(i)}/positions`,
    'v2 PnL by day': (i) => `${v2(i)}/pnl?interval=1d`,
    'v2 trades of a trader': (i) => `${v2(i)}/trades`,
    'v2 market by slug': (i) => `/v2/markets/${market(i).slug}`,
    'v2 market by condition': (i) => `/v2/markets/${market(i).conditionId}`,
    'v2 markets': (i) => `/v2/markets?limit=${1 + (i % 100)}`,
    'v2 markets by words': (i) => `/v2/markets?status=all&sort_by=newest&q=${words(i)}`,
    'v2 candles of a month': (i) => `${marketV2(i)}/candles?${month}`,
    'v2 trades of a market': (i) => `${marketV2(i)}/trades`,
    'v2 holders of a market': (i) => `${marketV2(i)}/holders`,
    'v2 biggest trades': (i) => `/v2/biggest_trades?limit=${1 + (i % 100)}`,
    'v2 search': (i) => `/v2/search?q=${words(i)}`,
  };
  return [
    ...Object.entries(gets).map(([name, ask]) => ({ name, ask })),
    batch('v2 batch of 100 traders', traders),
    batch('v2 batch of 100 of the 1,000 busiest', traders.slice(0, 1_000)),
  ];
}

function batch(name: string, traders: readonly string[]): Case {
  const address = (n: number) => at(traders, (n * 7_919) % traders.length);
  const addresses = (i: number) => Array.from({ length: 100 }, (_, n) => address(i * 100 + n));
  return { name, ask: () => '/v2/traders/batch', body: (i) => ({ addresses: addresses(i) }) };
}

/** Throws if there is none. */
export function at<T>(items: readonly T[], index: number): T {
  const item = items[index];
  if (item === undefined) throw new RangeError(`no item ${index} of ${items.length}`);
  return item;
}
