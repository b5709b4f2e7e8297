/**
 * The api process: reads the configuration, connects, serves until it is asked to stop. A stop ends
 * the event streams first, spread out, so that their clients come back elsewhere and not all at once.
 */
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { connectClickHouse } from '../infra/clickhouse.ts';
import { readConfig } from '../infra/config.ts';
import { connectNats, natsOptions } from '../infra/nats.ts';
import { openKv } from '../infra/nats-kv.ts';
import { type ProcessContext, runProcess } from '../infra/process.ts';
import { ensureStreams, KEYS_BUCKET } from '../infra/streams.ts';
import { createApp } from './app.ts';
import { createFeed } from './feed/feed.ts';
import { openKeys } from './keys.ts';
import { shareCounts } from './shared-counts.ts';
import { openUsage, USAGE_BUCKET, USAGE_TTL_MS } from './usage.ts';

/** The supervisor gives 2.5 s: streams have most of it, requests under way the rest. */
const STOP_STREAMS_MS = 1_500;
const STOP_REQUESTS_MS = 500;

await runProcess('api', serve);

async function serve({ logger, signal, report }: ProcessContext): Promise<void> {
  const config = readConfig();
  const nats = await connectNats({ ...natsOptions(config), name: 'fillstream-api' });
  await ensureStreams(nats, config.NATS_REPLICAS);
  const bucket = await openKv(nats, KEYS_BUCKET, { replicas: config.NATS_REPLICAS });
  const keys = await openKeys({ bucket, logger });
  const usageBucket = await openKv(nats, USAGE_BUCKET, {
    ttlMs: USAGE_TTL_MS,
    replicas: config.NATS_REPLICAS,
  });
  const usage = await openUsage({ bucket: usageBucket, logger });
  const sharedCounts = shareCounts(nats);
  const clickhouse = connectClickHouse({
    url: config.CLICKHOUSE_URL,
    database: config.CLICKHOUSE_DATABASE,
    name: 'api',
  });
  const feed = await createFeed({ nats, logger });
  const server = createServer(
    createApp({ clickhouse, keys, keysBucket: bucket, nats, feed, logger, usage, sharedCounts }),
  );

  const port = await listen(server, config.HTTP_HOST, config.HTTP_PORT);
  logger.info({ event: 'listening', host: config.HTTP_HOST, port });
  report({ event: 'listening', port });

  await Promise.race([aborted(signal), keys.watching, usage.watching]);
  const closed = once(server, 'close');
  server.close();
  await feed.stop(STOP_STREAMS_MS);
  server.closeIdleConnections();
  // Answers under way have a moment, what is left then is cut.
  const cut = setTimeout(() => server.closeAllConnections(), STOP_REQUESTS_MS);
  await closed;
  clearTimeout(cut);
  sharedCounts.close();
  await usage.close();
  await keys.close();
  await clickhouse.close();
  await nats.close();
}

async function listen(server: Server, host: string, port: number): Promise<number> {
  server.listen(port, host);
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('not a TCP server');
  return address.port;
}

async function aborted(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await once(signal, 'abort');
}
