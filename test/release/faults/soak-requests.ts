/**
 * Analytics requests of a soak: a mix of all endpoints for existing traders and markets, at a steady rate. Outside of
 * a fault, every response must be 200, or 404 for a market that is not known yet. While a part is down, 503 or no
 * response is allowed as well.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Traded } from './soak-listeners.ts';

const SHOWN_MAX = 10;
const ANSWER_MS_MAX = 40_000;

export async function sendRequests(options: {
  readonly url: string;
  readonly keys: readonly string[];
  readonly perSecond: number;
  readonly traded: Traded;
  readonly random: () => number;
  readonly isOver: () => boolean;
  /** Changes whenever a fault begins or ends; odd while one is in progress. */
  readonly disturbance: () => number;
}) {
  const { url, keys, perSecond, isOver, disturbance } = options;
  /** By status; 0 for no response. */
  const statuses = new Map<number, number>();
  const differences: string[] = [];
  let sent = 0;

  async function ask(n: number, key: string): Promise<void> {
    const path = pathOf(n, options.traded, options.random);
    const before = disturbance();
    const status = await statusOf(`${url}${path}`, key);
    sent += 1;
    statuses.set(status, (statuses.get(status) ?? 0) + 1);
    const isCalm = before === disturbance() && before % 2 === 0;
    if (status === 200 || status === 404 || (!isCalm && (status === 503 || status === 0))) return;
    if (differences.length < SHOWN_MAX) {
      differences.push(
        `${new Date().toISOString()} ${path}: ${status}${isCalm ? '' : ', in a fault'}`,
      );
    }
  }

  async function client(key: string, first: number): Promise<void> {
    const everyMs = (1_000 * keys.length) / perSecond;
    for (let n = first; !isOver(); n += keys.length) {
      const next = delay(everyMs);
      await ask(n, key);
      await next;
    }
  }

  await Promise.all(keys.map((key, first) => client(key, first)));
  return { sent, statuses, differences };
}

function pathOf(n: number, { traders, tags, markets }: Traded, random: () => number): string {
  const pick = (names: readonly string[]) => names[Math.floor(random() * names.length)] ?? '';
  const trader = pick(traders);
  const market = pick(markets);
  const paths = [
    `/v1/analytics/leaderboard?offset=${n % 50}`,
    `/v1/analytics/leaderboard?time_frame=1H&sort_by=roi&tag=crypto`,
    `/v2/analytics/leaderboard?time_frame=7D`,
    `/v1/traders/${trader}`,
    `/v2/traders/${trader}`,
    `/v1/traders/${trader}/markets`,
    `/v1/traders/${trader}/markets?include_orders=true&limit=5`,
    `/v2/traders/${trader}/markets?is_active=true`,
    `/v1/traders/${trader}/markets/${market}/orders`,
    `/v2/traders/${trader}/markets/${market}/orders`,
    `/v1/traders/${trader}/hourly_stats`,
    `/v2/traders/${trader}/hourly_stats?tag=${encodeURIComponent(pick(tags))}`,
    `/v1/markets/${market}`,
    `/v2/markets/${market}`,
    `/v1/market_data/${market}?limit=20`,
    `/v2/analytics/pnl_lines?traders=${trader},${pick(traders)}`,
    '/v2/status',
    '/v2/user/telemetry',
  ];
  return paths[Math.floor(random() * paths.length)] ?? '';
}

async function statusOf(url: string, key: string): Promise<number> {
  try {
    const signal = AbortSignal.timeout(ANSWER_MS_MAX);
    const response = await fetch(url, { headers: { 'X-Service-Key': key }, signal });
    await response.arrayBuffer();
    return response.status;
  } catch (error) {
    // The connection was refused, broke or timed out. Any other error is a bug in this program.
    if (error instanceof TypeError || (error as Error).name === 'TimeoutError') return 0;
    throw error;
  }
}
