import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import pino from 'pino';
import { QUERY_MS_MAX } from '../../api/analytics/query.ts';
import { generateKey, hashKey, KeyRecord, openKeys, storeKey } from '../../api/auth/keys.ts';
import { openUsage, USAGE_BUCKET, USAGE_TTL_MS } from '../../api/auth/usage.ts';
import { Feed } from '../../api/feed/feed.ts';
import type { Tier } from '../../api/http/caller.ts';
import { type AppOptions, createApp } from '../../api/service/app.ts';
import { createReadiness } from '../../api/service/health.ts';
import { Sessions } from '../../api/sessions/sessions.ts';
import { openStreams } from '../../api/streams/endpoints.ts';
import { mountsOf } from '../../apps/mounts.ts';
import { createSelect, type Select } from '../../infra/clickhouse.ts';
import { openKv } from '../../infra/nats/kv.ts';
import { watchStates } from '../../infra/nats/states.ts';
import { temporaryDirectory } from './service.ts';
import { DATABASE, startClickHouse, startNats } from './stack.ts';

export const silent = pino({ level: 'silent' });

type ClickHouse = Awaited<ReturnType<typeof startClickHouse>>;
export type StartClickHouse = (
  data: string,
) => Promise<Pick<ClickHouse, 'url' | 'client' | 'stop'>>;

/** Both stores in a directory that is deleted with them. */
export async function startStores(start: StartClickHouse = startClickHouse) {
  const directory = temporaryDirectory();
  const clickhouse = await start(`${directory.path}/clickhouse`);
  const nats = await startNats(`${directory.path}/nats`);
  return {
    /** For more data of the test file. */
    path: directory.path,
    clickhouse,
    nats,
    /** An api over them. */
    serve: (more: Partial<Parameters<typeof startApi>[0]> = {}) =>
      startApi({ clickhouseUrl: clickhouse.url, nats, ...more }),
    async stop() {
      await nats.stop();
      await clickhouse.stop();
      directory.remove();
    },
  };
}
export type Stores = Awaited<ReturnType<typeof startStores>>;

let accounts = 0;

/** Stores a new key, of a new account unless one is given, and returns it. */
export async function issueKey(
  bucket: Parameters<typeof storeKey>[0],
  tier: Tier,
  more: {
    readonly account?: string;
    readonly expires_at?: string;
    readonly revoked_at?: string;
  } = {},
): Promise<string> {
  const key = generateKey(tier);
  accounts += 1;
  await storeKey(bucket, key, {
    label: `test ${tier}`,
    tier,
    account: `account-${tier}-${accounts}`,
    created_at: new Date().toISOString(),
    ...more,
  });
  return key;
}

/** Revokes a key, as another process does. */
export async function revokeKey(
  { bucket }: Pick<Awaited<ReturnType<typeof startNats>>, 'bucket'>,
  key: string,
): Promise<void> {
  const entry = await bucket.get(hashKey(key));
  const record = KeyRecord.parse(JSON.parse(Buffer.from(entry?.value ?? []).toString()));
  await storeKey(bucket, key, { ...record, revoked_at: new Date().toISOString() });
}

/** The application over these connections, listening on a free port of loopback. */
export async function startApi(options: {
  readonly clickhouseUrl: string;
  readonly nats: Awaited<ReturnType<typeof startNats>>;
  readonly queryMsMax?: number;
  readonly now?: () => number;
  readonly monotonicNow?: () => number;
  /** Wraps the reads of ClickHouse. */
  readonly wrapSelect?: (select: Select) => Select;
  readonly feed?: AppOptions['feed'] & Parameters<typeof createReadiness>[0]['feed'];
  readonly sharedCounts?: AppOptions['sharedCounts'];
  readonly corsOrigins?: AppOptions['corsOrigins'];
  readonly trustedProxies?: AppOptions['trustedProxies'];
  readonly metrics?: AppOptions['metrics'];
  readonly analystUrl?: string;
  readonly publicTier?: AppOptions['publicTier'];
  readonly alertNetworks?: readonly string[];
}) {
  const { monotonicNow = () => performance.now(), wrapSelect = (select) => select } = options;
  let expiredMs = 0;
  const select = wrapSelect(
    createSelect({ url: options.clickhouseUrl, database: DATABASE, name: 'api-test' }),
  );
  const { nats } = options.nats;
  const keys = await openKeys({ bucket: options.nats.bucket, logger: silent });
  const usageBucket = await openKv(nats, USAGE_BUCKET, { ttlMs: USAGE_TTL_MS });
  const usage = await openUsage({ bucket: usageBucket, logger: silent });
  const sessions = await Sessions.start({ nats, logger: silent });
  const ownFeed = await Feed.start({ nats, logger: silent, sessions });
  const reading = { select, queryMsMax: options.queryMsMax ?? QUERY_MS_MAX };
  const streams = await openStreams({ nats, logger: silent, feed: ownFeed, sessions, reading });
  const feed = options.feed ?? ownFeed;
  const states = watchStates(nats);
  const limits = { chain: 30, projection: 30 };
  const app = createApp({
    select,
    keys,
    nats: options.nats.nats,
    keysBucket: options.nats.bucket,
    usage,
    ...{ readiness: createReadiness({ select, nats, feed, states, limits }), states, limits },
    feed,
    streams,
    logger: silent,
    mounts: await mountsOf({
      ...{ nats, logger: silent, replicas: 1, allowedNetworks: options.alertNetworks ?? [] },
      ...{
        isPublic: options.publicTier === 'demo',
        pageKey: undefined,
        isSimulated: false,
        pictureOrigins: [],
      },
      analystUrl: options.analystUrl,
    }),
    ...(options.metrics === undefined ? {} : { metrics: options.metrics }),
    ...(options.publicTier === undefined ? {} : { publicTier: options.publicTier }),
    ...(options.corsOrigins === undefined ? {} : { corsOrigins: options.corsOrigins }),
    ...(options.trustedProxies === undefined ? {} : { trustedProxies: options.trustedProxies }),
    ...(options.queryMsMax === undefined ? {} : { queryMsMax: options.queryMsMax }),
    ...(options.now === undefined ? {} : { now: options.now }),
    monotonicNow: () => monotonicNow() + expiredMs,
    ...(options.sharedCounts === undefined ? {} : { sharedCounts: options.sharedCounts }),
  });
  const server = createServer(app);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    keys,
    /** Makes every cached response expire. */
    expire(): void {
      expiredMs += 60_000;
    },
    async stop() {
      await ownFeed.stop(200);
      states.close();
      server.close();
      server.closeAllConnections();
      await Promise.allSettled([streams, sessions, usage, keys].map((one) => one.close()));
    },
  };
}

/** GET with a key; returns the status, headers and JSON body. */
export async function get(url: string, key: string | undefined, init: RequestInit = {}) {
  const headers = { ...(key === undefined ? {} : { 'X-Service-Key': key }), ...init.headers };
  const response = await fetch(url, { ...init, headers });
  const text = await response.text();
  return {
    status: response.status,
    headers: response.headers,
    text,
    body: text === '' ? undefined : JSON.parse(text),
  };
}

/** Any address, in the lower case of v1. */
export const ADDRESS = `0x${'1'.repeat(40)}`;

/** A request of each analytics endpoint and of the feed. */
export const ROUTES = [
  '/v1/analytics/leaderboard',
  `/v1/traders/${ADDRESS}`,
  `/v1/traders/${ADDRESS}/markets/1/orders`,
  `/v1/traders/${ADDRESS}/hourly_stats`,
  '/v1/markets/1',
  '/v1/market_data/1',
  '/v1/stream/orders',
  `/v1/traders/${ADDRESS}/markets`,
  '/v2/analytics/leaderboard',
  `/v2/traders/${ADDRESS}`,
  `/v2/traders/${ADDRESS}/markets`,
  `/v2/traders/${ADDRESS}/positions`,
  `/v2/traders/${ADDRESS}/pnl`,
  `/v2/traders/${ADDRESS}/trades`,
  `/v2/traders/${ADDRESS}/markets/1/orders`,
  `/v2/traders/${ADDRESS}/hourly_stats`,
  '/v2/markets',
  '/v2/markets/1',
  '/v2/markets/1/candles',
  '/v2/markets/1/trades',
  '/v2/markets/1/holders',
  '/v2/biggest_trades',
  '/v2/position_events',
];

/** Path and query of the next page, from the `Link` header. */
export function nextOf(headers: Headers): string | undefined {
  return /^<([^>]+)>; rel="next"$/.exec(headers.get('link') ?? '')?.[1];
}

/** Yields the pages of a list. Requests each page only after the caller has handled the previous one. */
export async function* pagesOf(url: string, path: string, key: string) {
  for (let next: string | undefined = path; next !== undefined; ) {
    const page: Awaited<ReturnType<typeof get>> = await get(url + next, key);
    if (page.status !== 200) throw new Error(`${next}: ${page.text}`);
    yield page;
    next = nextOf(page.headers);
  }
}
