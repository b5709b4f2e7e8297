/**
 * The api process: reads the configuration, connects, and serves until it is stopped. On shutdown it ends
 * the event streams over a second, so that their clients do not all reconnect elsewhere at once.
 */
import { once } from 'node:events';
import type { Server } from 'node:http';
import { mountsOf } from '../apps/mounts.ts';
import { createSelect } from '../infra/clickhouse.ts';
import { ApiConfig, readConfig } from '../infra/config.ts';
import { createRegistry, serveMetricsOf } from '../infra/metrics-server.ts';
import { connectNats, natsOptions } from '../infra/nats/connection.ts';
import { openKv } from '../infra/nats/kv.ts';
import { watchStates } from '../infra/nats/states.ts';
import { type ProcessContext, runProcess } from '../infra/process.ts';
import { createStreams } from '../ingest/streams.ts';
import { QUERY_MS_MAX } from './analytics/query.ts';
import { KEYS_BUCKET, openKeys } from './auth/keys.ts';
import { shareCounts } from './auth/rate-limit.ts';
import { openUsage, USAGE_BUCKET, USAGE_TTL_MS } from './auth/usage.ts';
import { Feed } from './feed/feed.ts';
import { createLimitedServer } from './http/server.ts';
import { createApp } from './service/app.ts';
import { createReadiness, notReady } from './service/health.ts';
import {
  countConnections,
  countFeed,
  httpMetrics,
  watchLeaderboards,
} from './service/http-metrics.ts';
import { Sessions } from './sessions/sessions.ts';
import { openStreams } from './streams/endpoints.ts';

/** The supervisor allows 2.5 s in total. */
const STOP_STREAMS_MS = 1_500;
const STOP_REQUESTS_MS = 500;
/**
 * Connections that the system accepts before the process takes them, as far as `net.core.somaxconn` allows. When all clients
 * of another process return at once, those beyond Node's default of 511 would try again after 1, 3, 7, 15 and 31 s.
 */
const BACKLOG = 4_096;

await runProcess('api', serve);

async function serve({ logger, signal, report }: ProcessContext): Promise<void> {
  const config = readConfig(ApiConfig);
  const nats = await connectNats({
    ...natsOptions(config),
    ...{ name: 'fillstream-api', signal },
    onWait: (err) => logger.warn({ err }, 'cannot reach NATS, retrying'),
  });
  await createStreams(nats, config.NATS_REPLICAS);
  const bucket = await openKv(nats, KEYS_BUCKET, { replicas: config.NATS_REPLICAS });
  const keys = await openKeys({ bucket, logger });
  const usageBucket = await openKv(nats, USAGE_BUCKET, {
    ttlMs: USAGE_TTL_MS,
    replicas: config.NATS_REPLICAS,
  });
  const usage = await openUsage({ bucket: usageBucket, logger });
  const sharedCounts = shareCounts(nats);
  const select = createSelect({
    url: config.CLICKHOUSE_URL,
    database: config.CLICKHOUSE_DATABASE,
    name: 'api',
  });
  const shared = { nats, logger, replicas: config.NATS_REPLICAS };
  const sessions = await Sessions.start(shared);
  const feed = await Feed.start({ nats, logger, sessions });
  const reading = { select, queryMsMax: QUERY_MS_MAX };
  const streams = await openStreams({ ...shared, feed, sessions, reading });
  const mounts = await mountsOf({
    ...shared,
    isPublic: config.PUBLIC_TIER === 'demo',
    pageKey: config.PAGE_KEY,
    isSimulated: config.CHAIN === 'devnet',
    pictureOrigins: config.PICTURE_ORIGINS,
    analystUrl: config.ANALYST_URL,
    allowedNetworks: config.ALERT_NETWORKS,
  });
  // So that a broken page stops the process.
  await Promise.all(mounts.map((mount) => mount.ready?.()));
  const states = watchStates(nats);
  const limits = {
    chain: config.CHAIN_AGE_SECONDS_MAX,
    projection: config.PROJECTION_AGE_SECONDS_MAX,
  };
  const dataDirectory = config.DATA_DIRECTORY;
  const readiness = createReadiness({ select, nats, feed, states, limits, dataDirectory });
  const registry = createRegistry('api');
  const app = createApp({
    ...{ select, nats, keys, keysBucket: bucket, feed, streams, logger, usage, sharedCounts },
    ...{ readiness, states, limits },
    metrics: httpMetrics(registry),
    trustedProxies: config.TRUSTED_PROXIES,
    corsOrigins: config.CORS_ORIGINS,
    publicTier: config.PUBLIC_TIER,
    liveBytesMax: config.LIVE_TRADERS_MIB * 1024 * 1024,
    mounts,
  });
  const { server, caps } = createLimitedServer(app, {
    connectionsPerAddressMax: config.HTTP_CONNECTIONS_PER_ADDRESS_MAX,
    trustedProxies: config.TRUSTED_PROXIES,
    corsOrigins: config.CORS_ORIGINS,
  });
  countConnections(registry, server, caps);
  countFeed(registry, feed);
  const stopWatching = watchLeaderboards(registry, select);
  const metrics = await serveMetricsOf(config, report, {
    registry,
    notReady: () => notReady(readiness),
  });

  const port = await listen(server, config.HTTP_HOST, config.HTTP_PORT);
  logger.info({ event: 'listening', host: config.HTTP_HOST, port });
  report({ event: 'listening', port });

  // A process that no longer sees changes of the buckets must end.
  const watching = [keys, usage, sessions, streams, ...mounts].map((one) => one.watching);
  await Promise.race([aborted(signal), ...watching.filter((one) => one !== undefined)]);
  const closed = once(server, 'close');
  server.close();
  await feed.stop(STOP_STREAMS_MS);
  server.closeIdleConnections();
  // Give responses in flight a moment, then cut them.
  const cut = setTimeout(() => server.closeAllConnections(), STOP_REQUESTS_MS);
  await closed;
  clearTimeout(cut);
  stopWatching();
  sharedCounts.close();
  states.close();
  const open = [streams, sessions, usage, keys];
  await Promise.all([...open, ...mounts].map((one) => one.close?.()));
  await nats.close();
  await metrics?.close();
}

async function listen(server: Server, host: string, port: number): Promise<number> {
  server.listen({ port, host, backlog: BACKLOG });
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('not a TCP server');
  return address.port;
}

async function aborted(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await once(signal, 'abort');
}
