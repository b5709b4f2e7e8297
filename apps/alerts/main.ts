/**
 * The alerts process: evaluates the rules of all alerts on FEED and delivers what they send. Several can run: one evaluates, all
 * deliver. Configuration comes from environment variables only (infra/config.ts). Stops cleanly on SIGTERM.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import { QUERY_MS_MAX, type Reading } from '../../api/analytics/query.ts';
import { Problem } from '../../api/http/errors.ts';
import { createSelect } from '../../infra/clickhouse.ts';
import { AlertsConfig, readConfig } from '../../infra/config.ts';
import { createRegistry, serveMetricsOf } from '../../infra/metrics-server.ts';
import { connectNats, NatsUnavailableError, natsOptions } from '../../infra/nats/connection.ts';
import { openKv } from '../../infra/nats/kv.ts';
import { StreamRewoundError } from '../../infra/nats/reader.ts';
import { watchStates } from '../../infra/nats/states.ts';
import { type ProcessContext, runProcess } from '../../infra/process.ts';
import { retry } from '../../infra/retry.ts';
import { createStreams } from '../../ingest/streams.ts';
import { LEASE_TTL_MS, LeaseLostError, leaseHolder, withLeases } from '../../projector/lease.ts';
import { startDelivering } from './deliver/deliver.ts';
import { createSender } from './deliver/post.ts';
import { evaluateFeed, type Pass } from './evaluate/evaluate.ts';
import { Evaluator } from './evaluate/evaluator.ts';
import { createLookups, load } from './evaluate/lookups.ts';
import { followPnl } from './evaluate/pnl.ts';
import { followSettlements } from './evaluate/settlements.ts';
import { LOOKUP_TYPES } from './evaluate/watchers.ts';
import { ensureAlertStreams, LEASES_BUCKET, MESSAGES_BUCKET, MESSAGES_KEPT_MS } from './logs.ts';
import { alertMetrics } from './metrics.ts';
import { openPushKeys } from './push-keys.ts';
import type { AlertRecord } from './rule.ts';
import { openAlerts, openDestinations } from './stores.ts';

/** Pause before the rules are evaluated again after an error. */
const REPEAT_MS = 1_000;

await runProcess('alerts', serve);

async function serve({ logger, signal, report }: ProcessContext): Promise<void> {
  const config = readConfig(AlertsConfig);
  const replicas = config.NATS_REPLICAS;
  const nats = await connectNats({
    ...natsOptions(config),
    ...{ name: 'fillstream-alerts', signal },
    onWait: (err) => logger.warn({ err }, 'cannot reach NATS, retrying'),
  });
  await createStreams(nats, replicas);
  await ensureAlertStreams(nats, replicas);
  const messages = await openKv(nats, MESSAGES_BUCKET, { ttlMs: MESSAGES_KEPT_MS, replicas });
  const leases = await openKv(nats, LEASES_BUCKET, { ttlMs: LEASE_TTL_MS, replicas });
  const vapid = { subject: config.PUSH_CONTACT, ...(await openPushKeys(nats, replicas)) };
  const registry = createRegistry('alerts');
  const metrics = alertMetrics(registry);
  const sender = createSender({ allowedNetworks: config.ALERT_NETWORKS });
  let changed = (_id: string): void => undefined;
  const destinations = await openDestinations({
    ...{ nats, logger, replicas, onChange: (id) => changed(id) },
  });
  const evaluators = new Map<string, Evaluator>();
  const passes: readonly Pass[] = [
    { name: 'matches', has: (type) => !LOOKUP_TYPES.has(type) },
    passWithLookups(config, logger),
  ];
  const alerts = await openAlerts({
    ...{ nats, logger, replicas },
    onChange(id, alert) {
      for (const { has, name } of passes) evaluators.get(name)?.change(id, ofPass(has, alert));
    },
  });
  const delivering = startDelivering({
    ...{ nats, logger, destinations, metrics, sender, messages },
    ...{ telegramUrl: config.TELEGRAM_URL, vapid, now: Date.now },
  });
  changed = delivering.changed;
  const failing = new Map<string, string>();
  const notReady = () => ({
    ...(nats.connected ? {} : { nats: 'not connected' }),
    ...Object.fromEntries(failing),
  });
  const server = await serveMetricsOf(config, report, { registry, notReady });
  report({ event: 'delivering' });
  logger.info({ event: 'delivering' }, 'delivering events of alerts');

  // One that is not known may be new; the API checks whose it is. The sweep removes what is stored for a deleted one.
  const isDestination = (id: string, account: string) =>
    (destinations.known(id)?.account ?? account) === account;
  /** Runs `work` while this process holds the lease of that name, again and again until the process stops. */
  async function whileLeader(
    name: string,
    work: (until: AbortSignal) => Promise<void>,
  ): Promise<void> {
    const lease = {
      ...{ kv: leases, keys: [name], holder: leaseHolder('alerts'), logger, signal },
      onTaken: () => void failing.delete(name),
    };
    while (!signal.aborted) {
      try {
        await withLeases(lease, async ({ lost }) => {
          failing.delete(name);
          await work(AbortSignal.any([signal, lost]));
        });
      } catch (error) {
        if (signal.aborted) return;
        // One part must not stop the others, nor deliveries.
        const level = isTransient(error) ? 'warn' : 'error';
        logger[level]({ err: error, pass: name }, 'cannot evaluate the alerts now, retrying');
        failing.set(name, 'cannot be evaluated now; the log says why');
        await delay(REPEAT_MS, undefined, { signal }).catch(() => undefined);
      }
    }
  }
  const evaluate = (pass: Pass) =>
    whileLeader(pass.name, async (until) => {
      // What another process sent in between is read from ALERTS.
      const lookups = pass.createLookups?.();
      const evaluator = new Evaluator(isDestination, lookups);
      evaluators.set(pass.name, evaluator);
      for (const alert of alerts.all()) evaluator.change(alert.id, ofPass(pass.has, alert));
      await evaluateFeed({
        ...{ pass, nats, logger, evaluator, lookups, metrics, replicas, signal: until },
      });
    });
  const states = watchStates(nats);
  const final = {
    ...{ nats, logger, reading: readingOf(config), isDestination, metrics, replicas },
    alerts: () => alerts.all(),
  };
  const settle = () =>
    whileLeader('settlements', (until) => followSettlements({ ...final, states, signal: until }));
  const watchPnl = () => whileLeader('pnl', (until) => followPnl({ ...final, signal: until }));
  // A process that no longer sees changes of the buckets must end.
  await Promise.race([
    Promise.all([...passes.map(evaluate), settle(), watchPnl()]),
    ...[alerts.watching, destinations.watching],
  ]);
  await delivering.stop();
  sender.close();
  states.close();
  await Promise.all([alerts.close(), destinations.close()]);
  await nats.close();
  await server?.close();
}

function isTransient(error: unknown): boolean {
  return (
    error instanceof NatsUnavailableError ||
    error instanceof LeaseLostError ||
    error instanceof StreamRewoundError ||
    (error instanceof Problem && error.status === 503)
  );
}

/** Rules that look up positions and prices wait for ClickHouse. The others must not. */
function passWithLookups(config: AlertsConfig, logger: Logger): Pass {
  const reading = readingOf(config);
  const patiently = <T>(until: AbortSignal, attempt: () => Promise<T>) =>
    retry(attempt, {
      signal: until,
      isRetryable: (error) => error instanceof Problem && error.status === 503,
      onRetry: (err) => logger.warn({ err }, 'cannot read ClickHouse, retrying'),
    });
  return {
    ...{ name: 'positions', has: (type) => LOOKUP_TYPES.has(type) },
    createLookups: () => createLookups(reading),
    load: (lookups, matches, until) => patiently(until, () => load(lookups, reading, matches)),
    booked: (waiting, until) => patiently(until, () => waiting.booked(reading)),
  };
}

function readingOf({ CLICKHOUSE_DATABASE: database, CLICKHOUSE_URL: url }: AlertsConfig): Reading {
  return {
    select: createSelect({ url, database, name: 'alerts' }),
    ...{ queryMsMax: QUERY_MS_MAX, signal: null },
  };
}

/** The alert, if its rule is of this pass. */
function ofPass(has: Pass['has'], alert: AlertRecord | undefined): AlertRecord | undefined {
  return alert !== undefined && has(alert.rule.type) ? alert : undefined;
}
