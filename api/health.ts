/**
 * The probes: /healthz says that the process is alive, /readyz that it can serve. Neither needs a key.
 * Readiness queries ClickHouse at most once a second, however often it is probed.
 */
import type { RequestHandler } from 'express';
import { LRUCache } from 'lru-cache';
import type { Select } from '../infra/clickhouse.ts';
import { read } from './analytics/query.ts';
import { count, rowOf } from './analytics/rows.ts';

const CHECK_MS_MAX = 2_000;
const CHECK_AGE_MS_MAX = 1_000;
const RETRY_AFTER_SECONDS = 2;

type Check = { readonly ready: boolean; readonly detail: string };

/** The stores and streams that serving needs, by name. */
export type Readiness = () => Promise<Readonly<Record<'clickhouse' | 'nats' | 'feed', Check>>>;

export const livenessHandler: RequestHandler = (_request, response) => {
  response.json({ status: 'alive' });
};

export function createReadiness(options: {
  readonly select: Select;
  readonly nats: { readonly connected: boolean };
  readonly feed: { status(): Check };
}): Readiness {
  const { select, nats, feed } = options;
  const checks = new LRUCache<'clickhouse', Check>({
    max: 1,
    ttl: CHECK_AGE_MS_MAX,
    fetchMethod: () => readMigrations(select),
  });

  return async () => ({
    clickhouse: await checks.forceFetch('clickhouse'),
    nats: { ready: nats.connected, detail: nats.connected ? 'connected' : 'disconnected' },
    feed: feed.status(),
  });
}

/** 200 if every part is ready, otherwise 503; the body lists all parts. */
export function readinessHandler(readiness: Readiness): RequestHandler {
  return async (_request, response) => {
    const checks = await readiness();
    const ready = Object.values(checks).every((check) => check.ready);
    if (!ready) response.set('Retry-After', String(RETRY_AFTER_SECONDS));
    response.status(ready ? 200 : 503).json({ status: ready ? 'ready' : 'not ready', checks });
  };
}

/** The parts that are not ready, with the reason of each. */
export async function notReady(readiness: Readiness): Promise<Record<string, string>> {
  const checks = Object.entries(await readiness());
  return Object.fromEntries(
    checks.flatMap(([part, { ready, detail }]) => (ready ? [] : [[part, detail]])),
  );
}

const One = rowOf({ one: count('1') });

/** Reads a table, because a server that responds to /ping may still lack its database. */
async function readMigrations(select: Select): Promise<Check> {
  try {
    const sql = `SELECT ${One.columns} FROM migrations LIMIT 1`;
    const limits = { select, queryMsMax: CHECK_MS_MAX, signal: null };
    const rows = await read(limits, { sql, parameters: {}, row: One });
    return rows.length === 1
      ? { ready: true, detail: 'responds' }
      : { ready: false, detail: 'not migrated' };
  } catch {
    // The probe does not need the reason; requests log it.
    return { ready: false, detail: 'does not respond' };
  }
}
