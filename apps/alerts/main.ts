/**
 * The alerts process: evaluates the rules of all alerts on FEED and delivers what they send. Several can run: one evaluates, all
 * deliver. Configuration comes from environment variables only (infra/config.ts). Stops cleanly on SIGTERM.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { AlertsConfig, readConfig } from '../../infra/config.ts';
import { createRegistry, serveMetricsOf } from '../../infra/metrics-server.ts';
import { connectNats, NatsUnavailableError, natsOptions } from '../../infra/nats/connection.ts';
import { openKv } from '../../infra/nats/kv.ts';
import { StreamRewoundError } from '../../infra/nats/reader.ts';
import { type ProcessContext, runProcess } from '../../infra/process.ts';
import { createStreams } from '../../ingest/streams.ts';
import { LEASE_TTL_MS, LeaseLostError, leaseHolder, withLeases } from '../../projector/lease.ts';
import { startDelivering } from './deliver/deliver.ts';
import { createSender } from './deliver/post.ts';
import { evaluateFeed } from './evaluate/evaluate.ts';
import { Evaluator } from './evaluate/evaluator.ts';
import { ensureAlertStreams, LEASES_BUCKET, MESSAGES_BUCKET, MESSAGES_KEPT_MS } from './logs.ts';
import { alertMetrics } from './metrics.ts';
import { openAlerts, openDestinations } from './stores.ts';

const LEASE_KEY = 'evaluator';
/** Pause before the rules are evaluated again after an outage. */
const RETAKE_MS = 250;

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
  const registry = createRegistry('alerts');
  const metrics = alertMetrics(registry);
  const sender = createSender({ allowedNetworks: config.ALERT_NETWORKS });
  let wake = (_id: string): void => undefined;
  const destinations = await openDestinations({
    ...{ nats, logger, replicas, onChange: (id) => wake(id) },
  });
  const evaluatorOf = () =>
    new Evaluator((id, account) => destinations.known(id)?.account === account);
  let evaluator = evaluatorOf();
  const alerts = await openAlerts({
    ...{ nats, logger, replicas, onChange: (id, alert) => evaluator.change(id, alert) },
  });
  const delivering = startDelivering({
    ...{ nats, logger, destinations, metrics, sender, messages },
    ...{ telegramUrl: config.TELEGRAM_URL, now: Date.now },
  });
  wake = delivering.wake;
  const notReady = () => (nats.connected ? {} : { nats: 'not connected' });
  const server = await serveMetricsOf(config, report, { registry, notReady });
  report({ event: 'delivering' });
  logger.info({ event: 'delivering' }, 'delivering events of alerts');

  const lease = { kv: leases, keys: [LEASE_KEY], holder: leaseHolder('alerts'), logger, signal };
  async function evaluate(): Promise<void> {
    while (!signal.aborted) {
      try {
        await withLeases(lease, async ({ lost }) => {
          // What another process sent in between is read from ALERTS.
          evaluator = evaluatorOf();
          for (const alert of alerts.all()) evaluator.change(alert.id, alert);
          const until = AbortSignal.any([signal, lost]);
          await evaluateFeed({ nats, logger, evaluator, metrics, replicas, signal: until });
        });
      } catch (error) {
        if (signal.aborted) return;
        if (!isTransient(error)) throw error;
        logger.warn({ err: error }, 'cannot evaluate the alerts now, retrying');
      }
      await delay(RETAKE_MS, undefined, { signal }).catch(() => undefined);
    }
  }
  // A process that no longer sees changes of the buckets must end.
  await Promise.race([evaluate(), alerts.watching, destinations.watching]);
  await delivering.stop();
  sender.close();
  await Promise.all([alerts.close(), destinations.close()]);
  await nats.close();
  await server?.close();
}

function isTransient(error: unknown): boolean {
  return (
    error instanceof NatsUnavailableError ||
    error instanceof LeaseLostError ||
    error instanceof StreamRewoundError
  );
}
