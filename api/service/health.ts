/**
 * The probes. /healthz says that the process is alive, /readyz that it can serve current data. Readiness covers the stores,
 * the age of the final chain and of the projection, and the states that ingest and the projectors publish. It queries the
 * stores at most once a second, however often it is probed. Neither probe needs a key.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { RequestHandler } from 'express';
import { LRUCache } from 'lru-cache';
import { damage, type Select } from '../../infra/clickhouse.ts';
import { diskReasons } from '../../infra/disk.ts';
import { reasonsText } from '../../infra/metrics-server.ts';
import {
  type Nats,
  NatsUnavailableError,
  StreamMissingError,
} from '../../infra/nats/connection.ts';
import type { ProcessStates } from '../../infra/nats/states.ts';
import { lastBlock, newestMessage, UnreadableLedgerError } from '../../ingest/ledger/ledger.ts';
import { read } from '../analytics/query.ts';
import { count, rowOf, string } from '../analytics/rows.ts';

const CHECK_MS_MAX = 2_000;
const CHECK_AGE_MS_MAX = 1_000;
const RETRY_AFTER_SECONDS = 2;
/** Clocks of hosts and of the chain's producers may differ by this much. */
const AHEAD_SECONDS_MAX = 30;

type Check = { readonly ready: boolean; readonly detail: string };

/** Checks everything that serving needs, by name. */
export type Readiness = () => Promise<Readonly<Record<string, Check>>>;

/** Maximum ages in seconds; the api is not ready with older data. */
export type AgeLimits = { readonly chain: number; readonly projection: number };

export const livenessHandler: RequestHandler = (_request, response) => {
  response.json({ status: 'alive' });
};

export function createReadiness(options: {
  readonly select: Select;
  readonly nats: Nats;
  readonly feed: { status(): Check };
  readonly states: Pick<ProcessStates, 'of'>;
  readonly limits: AgeLimits;
  /** The disk of the servers, if it is known. */
  readonly dataDirectory?: string | undefined;
}): Readiness {
  const { select, nats, feed, states, limits, dataDirectory } = options;
  const checks = new LRUCache<'clickhouse' | 'chain', Check>({
    max: 2,
    ttl: CHECK_AGE_MS_MAX,
    fetchMethod: (name) =>
      name === 'clickhouse' ? readStore(select) : readChain(nats, limits.chain),
  });

  return async () => {
    const [clickhouse, chain] = await Promise.all([
      checks.forceFetch('clickhouse'),
      checks.forceFetch('chain'),
    ]);
    const { disk } = diskReasons(dataDirectory);
    return {
      clickhouse,
      nats: { ready: nats.connected, detail: nats.connected ? 'connected' : 'disconnected' },
      feed: feed.status(),
      chain,
      projection: ageCheck(projectedTo(states), limits.projection),
      ingest: stateCheck(states, 'ingest'),
      projector: stateCheck(states, 'projector'),
      ...(disk === undefined ? {} : { disk: { ready: false, detail: disk } }),
    };
  };
}

/** Block time up to which all trades are in the analytics, seconds since the epoch; 0 if it is not known. */
export function projectedTo(states: Pick<ProcessStates, 'of'>): number {
  return Math.min(...states.of('projector').map(({ reached }) => reached));
}

function ageCheck(time: number, secondsMax: number): Check {
  if (time === 0) return { ready: false, detail: 'no block yet' };
  const age = Math.round(Date.now() / 1_000 - time);
  if (age < -AHEAD_SECONDS_MAX) {
    // Every window of the last hours would end too early.
    return { ready: false, detail: `${-age} s in the future: the clock of this host is behind` };
  }
  const seconds = Math.max(0, age);
  const ready = seconds <= secondsMax;
  return { ready, detail: `${seconds} s old${ready ? '' : `, more than ${secondsMax} s`}` };
}

function stateCheck(states: Pick<ProcessStates, 'of'>, name: 'ingest' | 'projector'): Check {
  const all = states.of(name);
  const unready = all.filter(({ reasons }) => Object.keys(reasons).length > 0);
  if (unready.length === 0) return { ready: true, detail: 'ready' };
  const describe = ({ name, reasons }: (typeof all)[number]) =>
    all.length === 1 ? reasonsText(reasons) : `${name}: ${reasonsText(reasons)}`;
  return { ready: false, detail: unready.map(describe).join('; ') };
}

/** The age of the newest final block. */
async function readChain(nats: Nats, secondsMax: number): Promise<Check> {
  try {
    const late = delay(CHECK_MS_MAX, undefined, { ref: false }).then(() => {
      throw new NatsUnavailableError('LEDGER cannot be read now');
    });
    const range = (await Promise.race([newestMessage(nats), late]))?.range;
    return ageCheck(range?.kind === 'blocks' ? lastBlock(range).time : 0, secondsMax);
  } catch (error) {
    const isExpected =
      error instanceof NatsUnavailableError ||
      error instanceof StreamMissingError ||
      error instanceof UnreadableLedgerError;
    if (!isExpected) throw error;
    return { ready: false, detail: error.message };
  }
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

/** The parts that are not ready, with their reasons. */
export async function notReady(readiness: Readiness): Promise<Record<string, string>> {
  const checks = Object.entries(await readiness());
  return Object.fromEntries(
    checks.flatMap(([part, { ready, detail }]) => (ready ? [] : [[part, detail]])),
  );
}

const Store = rowOf({
  migrations: count('(SELECT count() FROM migrations)'),
  /** Damage found by any read or merge since the server started. */
  damage: string(`(SELECT any(concat('table ', extract(last_error_message, 'in table ([^ ]+)')))
    FROM system.errors WHERE name IN ('CHECKSUM_DOESNT_MATCH', 'CORRUPTED_DATA', 'CANNOT_DECOMPRESS')
      AND last_error_message LIKE '%in table %')`),
  /** A broken part that the server detached at startup. A replica would fetch it from another replica. */
  aside: string(`(SELECT any(concat('table ', table, ': part ', name)) FROM system.detached_parts
    WHERE database = currentDatabase() AND reason = 'broken-on-start' AND table IN (
      SELECT name FROM system.tables
      WHERE database = currentDatabase() AND engine NOT LIKE 'Replicated%'))`),
});

/** Reads a table, because a server that responds to /ping may still lack its database or some data. */
async function readStore(select: Select): Promise<Check> {
  try {
    const sql = `SELECT ${Store.columns}`;
    const limits = { select, queryMsMax: CHECK_MS_MAX, signal: null };
    const [row] = await read(limits, { sql, parameters: {}, row: Store });
    if (row === undefined || row.migrations === 0) return { ready: false, detail: 'not migrated' };
    const damaged = row.damage || row.aside;
    return damaged === ''
      ? { ready: true, detail: 'responds' }
      : { ready: false, detail: damage(damaged) };
  } catch {
    // Requests log the reason, so the probe does not repeat it.
    return { ready: false, detail: 'does not respond' };
  }
}
