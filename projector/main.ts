/**
 * The projector process: folds LEDGER into positions and writes them and METADATA to ClickHouse. Several projectors
 * can share the partitions (PROJECTOR_INSTANCE i/n), and a rebuild or a backup pauses them (lease.ts). Configuration
 * comes from environment variables only (infra/config.ts). Stops cleanly on SIGTERM.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { ClickHouseClient } from '@clickhouse/client';
import type { Logger } from 'pino';
import { connectClickHouse } from '../infra/clickhouse.ts';
import { ProjectorConfig, readConfig } from '../infra/config.ts';
import { diskReasons } from '../infra/disk.ts';
import { createRegistry, serveMetricsOf } from '../infra/metrics-server.ts';
import {
  connectNats,
  type Nats,
  NatsUnavailableError,
  natsOptions,
} from '../infra/nats/connection.ts';
import type { Kv } from '../infra/nats/kv.ts';
import { reportState } from '../infra/nats/states.ts';
import { type ProcessContext, runProcess } from '../infra/process.ts';
import { UnreadableLedgerError } from '../ingest/ledger/ledger.ts';
import { WholeLedger } from '../ingest/ledger/whole-ledger.ts';
import { createStreams } from '../ingest/streams.ts';
import { compareBalances } from './compare-balances.ts';
import { LedgerRewrittenError, runProjector } from './consume.ts';
import {
  LeaseLostError,
  leaseHolder,
  openLeases,
  partitionsOf,
  pauseLifted,
  pauseRequested,
  withLeases,
} from './lease.ts';
import { createLag, type Lag, type ProjectorMetrics, projectorMetrics } from './progress.ts';
import { keepPauses } from './refreshes.ts';
import { type Deployment, ForgottenBatchError, Store } from './store.ts';
import { MetadataLag, projectMetadata } from './store-metadata.ts';

/** Pause before the partitions are acquired again. */
const RETAKE_MS = 250;
/** Pause before reading a LEDGER again that could not be projected. */
const RECHECK_MS = 10_000;

await runProcess('projector', async ({ logger, signal, report }) => {
  const config = readConfig(ProjectorConfig);
  const { index, count } = config.PROJECTOR_INSTANCE;
  const partitions = partitionsOf(index, count);
  const nats = await connectNats({
    ...natsOptions(config),
    ...{ name: 'projector', signal },
    onWait: (err) => logger.warn({ err }, 'NATS is unreachable, waiting'),
  });
  const client = connectClickHouse({
    url: config.CLICKHOUSE_URL,
    database: config.CLICKHOUSE_DATABASE,
    name: 'projector',
  });
  const deployment = {
    database: config.CLICKHOUSE_DATABASE,
    cluster: config.CLICKHOUSE_CLUSTER,
  };
  const registry = createRegistry('projector');
  const lag = createLag(registry, partitions);
  const metadataLag = new MetadataLag(registry);
  const metrics = projectorMetrics(registry);
  let owner: Owner = 'unknown';
  const notReady = () => ({
    ...diskReasons(config.DATA_DIRECTORY),
    ...(nats.connected ? {} : { nats: 'not connected' }),
    ...Object.fromEntries(metrics.failing),
    ...(owner === 'another'
      ? { projection: 'another process owns the partitions' }
      : lag.notReady()),
    ...metadataLag.notReady(),
  });
  const server = await serveMetricsOf(config, report, { registry, notReady });
  // The api expects every projector that reports, so one that waits for its partitions does not.
  const state = () =>
    owner === 'this'
      ? { reasons: notReady(), reached: lag.reachedTime, block: lag.storedBlock }
      : undefined;
  let reporting: ReturnType<typeof reportState> | undefined;
  const onOwner = (next: typeof owner) => {
    owner = next;
    reporting ??= reportState(nats, { name: 'projector', index, count }, state);
  };
  try {
    await createStreams(nats, config.NATS_REPLICAS);
    const kv = await openLeases(nats, config.NATS_REPLICAS);
    const ledger = await WholeLedger.open(nats, config);
    const onStored = () => reporting?.publish();
    const parts = { nats, ledger, client, kv, deployment, partitions, onOwner, onStored };
    const figures = { lag, metadataLag, metrics };
    while (!signal.aborted) {
      if (await pauseLifted(kv, signal)) logger.info('the pause ended, resuming');
      if (signal.aborted) break;
      try {
        await projectUntilPaused({ ...parts, ...figures, logger, signal, report });
      } catch (error) {
        const needsRepair =
          error instanceof UnreadableLedgerError ||
          error instanceof LedgerRewrittenError ||
          error instanceof ForgottenBatchError;
        if (needsRepair) {
          // Skipping the message would lose fills: stay not ready until LEDGER or the tables are repaired.
          logger.fatal({ err: error, RECHECK_MS }, 'LEDGER cannot be projected, checking it again');
          lag.stopped(error.message);
          report({ event: 'blocked', reason: error.message });
          await delay(RECHECK_MS, undefined, { signal }).catch(() => undefined);
          continue;
        }
        // NATS was down, or the process got no CPU for the lifetime of its leases. Another projector may have owned
        // the partitions since then, so discard the state in memory and restore it.
        if (!(error instanceof LeaseLostError || error instanceof NatsUnavailableError))
          throw error;
        logger.warn({ err: error }, 'ownership of the partitions was lost, acquiring them again');
        await delay(RETAKE_MS, undefined, { signal }).catch(() => undefined);
      }
    }
  } finally {
    reporting?.stop();
    await client.close();
    await nats.close();
    await server?.close();
  }
});

/** Whether this or another process owns the partitions. During a pause, the last owner still counts as such. */
type Owner = 'unknown' | 'this' | 'another';

/** Acquires the partitions, projects until a pause is requested or the signal aborts, and releases them. */
async function projectUntilPaused(options: {
  readonly nats: Nats;
  readonly ledger: WholeLedger;
  readonly client: ClickHouseClient;
  readonly kv: Kv;
  readonly deployment: Deployment;
  readonly partitions: readonly number[];
  readonly onOwner: (owner: Owner) => void;
  /** Called when more is stored. */
  readonly onStored: () => void;
  readonly lag: Lag;
  readonly metadataLag: MetadataLag;
  readonly metrics: ProjectorMetrics;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  readonly report: ProcessContext['report'];
}): Promise<void> {
  const { nats, client, kv, deployment, partitions, onOwner, lag } = options;
  const { logger, signal, report } = options;
  const stop = new AbortController();
  const running = AbortSignal.any([signal, stop.signal]);
  let paused = false;
  let failure: { readonly error: unknown } | undefined;
  const fail = (error: unknown) => {
    failure ??= { error };
    stop.abort(error);
  };
  pauseRequested(kv, running).then(() => {
    paused = !running.aborted;
    stop.abort();
  }, fail);
  try {
    const holder = leaseHolder('projector');
    const lease = { kv, keys: partitions, holder, logger, signal: running };
    const onTaken = () => onOwner('another');
    await withLeases({ ...lease, onTaken }, async ({ assertHeld, lost }) => {
      onOwner('this');
      lost.addEventListener('abort', () => fail(lost.reason));
      lag.watch(nats, running).catch(fail);
      // METADATA has one reader: the owner of partition 0.
      const metadata = partitions.includes(0)
        ? projectMetadata({
            ...options,
            assertOwner: assertHeld,
            lag: options.metadataLag,
            signal: running,
            onStored: (sequence) => report({ event: 'metadata_stored', sequence }),
          }).catch((error: unknown) => {
            if (!running.aborted) fail(error);
          })
        : undefined;
      const pauses = partitions.includes(0)
        ? keepPauses({ ...options, signal: running })
        : undefined;
      const comparing = compareBalances({
        ...options,
        storedBlock: () => lag.storedBlock,
        assertOwner: assertHeld,
        signal: running,
      });
      try {
        await runProjector({
          ...options,
          store: new Store(client, partitions, deployment),
          assertOwner: assertHeld,
          signal: running,
          onStart: () => {
            lag.start();
            report({ event: 'projecting' });
          },
          onWait: lag.waits,
          onStored: (progress) => {
            lag.stored(progress);
            options.onStored();
            report({ event: 'stored', block: progress.block });
          },
        });
      } finally {
        stop.abort();
        await metadata;
        await pauses;
        await comparing;
      }
    });
  } catch (error) {
    // Ignored, because the state is restored from ClickHouse after the pause.
    if (!paused) throw error;
    logger.info({ err: error }, 'interrupted by a pause');
  }
  if (failure !== undefined && !paused) throw failure.error;
}
