/**
 * How often each refreshable view is refreshed: as often as its cost allows. The owner of partition 0 measures the
 * duration of refreshes and sets the pause between them in the view itself, so it holds on every replica of a
 * cluster and while no projector runs.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { ClickHouseClient } from '@clickhouse/client';
import type { Logger } from 'pino';
import { z } from 'zod';
import type { Deployment } from './store.ts';

const CHECK_MS = 10_000;
/** A view refreshes for at most a fifth of the time. */
const PAUSE_PER_COST = 4;
/** Only a few values, so that a pause rarely changes; in seconds. */
const PAUSES = [5, 10, 15, 20, 30, 40, 60, 80, 160, 300] as const;
/** The periods of sql/migrations, which are upper limits: an expensive refresh does not make a view older than these. */
const PAUSE_MAX: Readonly<Record<string, number>> = {
  leaderboard_1h_mv: 10,
  leaderboard_4h_mv: 10,
  leaderboard_1d_mv: 60,
  search_markets_mv: 60,
  market_stats_mv: 30,
};

/** Seconds from the end of a refresh of this view to the next one. */
export function pauseAfter(view: string, durationMs: number): number {
  const wanted = PAUSES.find((pause) => pause * 1_000 >= PAUSE_PER_COST * durationMs) ?? 300;
  return Math.min(wanted, PAUSE_MAX[view] ?? 300);
}

/**
 * These scan whole tables, so they run rarely: market_stats adds the changes since market_counts, and search_traders
 * only ranks.
 */
const SELDOM = ['market_counts_mv', 'search_traders_mv'];

const Refreshed = z.object({ view: z.string(), ms: z.coerce.number(), schedule: z.string() });

/** Sets the pause of each view that was refreshed since the server started; returns those that changed. */
export async function setPauses(client: ClickHouseClient, { cluster, database }: Deployment) {
  const refreshes =
    cluster === undefined
      ? 'system.view_refreshes'
      : `clusterAllReplicas('${cluster}', system.view_refreshes)`;
  const result = await client.query({
    query: `SELECT view, max(last_success_duration_ms) AS ms, any(schedule) AS schedule
      FROM ${refreshes} AS refreshes
      INNER JOIN (
        SELECT name, extract(create_table_query, 'REFRESH ((?:AFTER|EVERY)(?: \\\\d+ [A-Z]+)+)') AS schedule
        FROM system.tables WHERE database = {database:String}
      ) AS views ON views.name = refreshes.view
      WHERE refreshes.database = {database:String} AND last_success_duration_ms IS NOT NULL AND view NOT IN {seldom:Array(String)}
      GROUP BY view ORDER BY view`,
    query_params: { database, seldom: SELDOM },
    format: 'JSONEachRow',
  });
  const changed: Record<string, string> = {};
  for (const { view, ms, schedule } of z.array(Refreshed).parse(await result.json())) {
    const seconds = pauseAfter(view, ms);
    if (secondsOf(schedule) === seconds) continue;
    const wanted = `AFTER ${seconds} SECOND`;
    const on = cluster === undefined ? '' : `ON CLUSTER '${cluster}' `;
    await client.command({
      query: `ALTER TABLE ${database}.${view} ${on}MODIFY REFRESH ${wanted}`,
    });
    changed[view] = wanted;
  }
  return changed;
}

/** Seconds of `AFTER 1 MINUTE 20 SECOND`, as ClickHouse writes 80 seconds; undefined for another schedule. */
export function secondsOf(schedule: string): number | undefined {
  const pause = /^AFTER(?: (\d+) MINUTE)?(?: (\d+) SECOND)?$/.exec(schedule);
  if (pause === null) return undefined;
  const [, minutes = '0', seconds = '0'] = pause;
  return Number(minutes) * 60 + Number(seconds);
}

/** Sets the pauses again and again, until the signal aborts. */
export async function keepPauses(options: {
  readonly client: ClickHouseClient;
  readonly deployment: Deployment;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}): Promise<void> {
  const { client, deployment, logger, signal } = options;
  while (!signal.aborted) {
    try {
      const changed = await setPauses(client, deployment);
      if (Object.keys(changed).length > 0)
        logger.info({ changed }, 'changed the refresh interval of views');
    } catch (err) {
      // Meanwhile, views keep their interval.
      logger.warn({ err }, 'could not change the refresh interval of views, retrying');
    }
    await delay(CHECK_MS, undefined, { signal }).catch(() => undefined);
  }
}
