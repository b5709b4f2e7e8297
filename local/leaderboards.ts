/**
 * Fills the leaderboards, the list of markets and the search before the service is ready. Otherwise the longer time frames
 * would be empty for minutes, and no name would be found in the first one.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { ClickHouseClient } from '@clickhouse/client';
import { connectClickHouse, refreshView } from '../infra/clickhouse.ts';
import { retry } from '../infra/retry.ts';

/** `market_stats` reads `market_counts`. */
const REFRESHED = [
  ...['1h', '4h', '1d', '3d', '7d', '30d'].map((frame) => `leaderboard_${frame}_mv`),
  ...['market_counts_mv', 'market_stats_mv', 'search_markets_mv', 'search_traders_mv'],
];
/** A refresh of 30 days took 34 s of CPU time at ten million fills. */
const REFRESH_MS_MAX = 3_600_000;
/** How long to wait for the listing of a traded market. */
const LISTINGS_MS_MAX = 5_000;
const POLL_MS = 50;

export type FillOptions = {
  readonly url: string;
  readonly database: string;
  /** Ends the attempts. */
  readonly isStopping: () => boolean;
  /** Called after a failed refresh, before the next attempt. */
  readonly onFailure: (view: string, error: unknown) => void;
};

/** Refreshes them, each until it succeeds. */
export async function fillLeaderboards(options: FillOptions): Promise<void> {
  const { url, database, isStopping, onFailure } = options;
  const client = connectClickHouse({ url, database, name: 'up', requestTimeoutMs: REFRESH_MS_MAX });
  const attempt = (what: string, work: () => Promise<void>) =>
    retry(work, {
      isRetryable: () => !isStopping(),
      onRetry: (error) => onFailure(what, error),
    });
  try {
    await attempt('market_dictionary', () => reloadListings(client, isStopping));
    for (const view of REFRESHED) await attempt(view, () => refreshView(client, view));
  } finally {
    await client.close();
  }
}

/**
 * A listing may arrive just after the first match of its market, and the projector reloads the dictionary seconds later.
 * Until then, the market has no tags.
 */
async function reloadListings(client: ClickHouseClient, isStopping: () => boolean) {
  const deadline = Date.now() + LISTINGS_MS_MAX;
  for (;;) {
    await client.command({ query: 'SYSTEM RELOAD DICTIONARY market_dictionary' });
    if (Date.now() >= deadline || isStopping() || !(await lacksListings(client))) return;
    await delay(POLL_MS);
  }
}

/** Whether a traded market is missing from the dictionary. */
async function lacksListings(client: ClickHouseClient): Promise<boolean> {
  const result = await client.query({
    query: `SELECT hex(condition_id) FROM (SELECT condition_id FROM market_traders GROUP BY condition_id)
      WHERE NOT dictHas('market_dictionary', tuple(reinterpretAsUInt256(condition_id))) LIMIT 1`,
    format: 'JSONCompactEachRow',
  });
  return (await result.text()) !== '';
}
