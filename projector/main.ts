/**
 * The projector process: folds LEDGER into positions and writes them to ClickHouse. Several share the
 * partitions (PROJECTOR_INSTANCE i/n). Starts alone from environment variables (infra/config.ts);
 * stops on SIGTERM with nothing half done.
 */
import { hostname } from 'node:os';
import { connectClickHouse } from '../infra/clickhouse.ts';
import { readConfig } from '../infra/config.ts';
import { createRegistry, serveMetrics } from '../infra/metrics.ts';
import { connectNats } from '../infra/nats.ts';
import { openKv } from '../infra/nats-kv.ts';
import { runProcess } from '../infra/process.ts';
import { ensureStreams, PROJECTORS_BUCKET } from '../infra/streams.ts';
import { runProjector } from './consume.ts';
import { createLag } from './lag.ts';
import { LEASE_TTL_MS, partitionsOf, takeLeases } from './partitions.ts';
import { Store } from './store.ts';

await runProcess('projector', async ({ logger, signal, report }) => {
  const config = readConfig();
  const { index, count } = config.PROJECTOR_INSTANCE;
  const partitions = partitionsOf(index, count);
  const nats = await connectNats({ url: config.NATS_URL, name: 'projector' });
  const client = connectClickHouse({
    url: config.CLICKHOUSE_URL,
    database: config.CLICKHOUSE_DATABASE,
    name: 'projector',
  });
  const registry = createRegistry('projector');
  const lag = createLag(registry, partitions);
  const metrics =
    config.METRICS_PORT === undefined
      ? undefined
      : await serveMetrics({
          registry,
          host: config.METRICS_HOST,
          port: config.METRICS_PORT,
          notReady: () => lag.notReady(),
        });
  if (metrics !== undefined) report({ event: 'metrics', port: metrics.port });
  const lost = new AbortController();
  const running = AbortSignal.any([signal, lost.signal]);
  try {
    await ensureStreams(nats, config.NATS_REPLICAS);
    const leases = await takeLeases({
      kv: await openKv(nats, PROJECTORS_BUCKET, {
        ttlMs: LEASE_TTL_MS,
        replicas: config.NATS_REPLICAS,
      }),
      partitions,
      holder: `${hostname()}:${process.pid}`,
      logger,
      signal: running,
    });
    leases.kept.catch((error: unknown) => lost.abort(error));
    lag.watch(nats, running).catch((error: unknown) => lost.abort(error));
    try {
      await runProjector({
        nats,
        store: new Store(client, partitions),
        partitions,
        assertOwner: leases.assertHeld,
        logger,
        signal: running,
        onStart: () => report({ event: 'projecting' }),
        onStored: (progress) => {
          lag.stored(progress);
          report({ event: 'stored', sequence: progress.sequence });
        },
      });
    } finally {
      lost.abort();
      await leases.kept;
    }
  } finally {
    await client.close();
    await nats.close();
    await metrics?.close();
  }
});
