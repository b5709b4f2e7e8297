/**
 * The Express application: default headers, authentication, routes and errors. It opens and closes no
 * connections: main.ts and the tests pass theirs. The order of the middleware is part of the contract:
 * probes and the page's files are not counted against a rate limit, all other requests are, and an unknown
 * route or method gets the same response with or without a key.
 */
import express, { type Express, type RequestHandler } from 'express';
import helmet from 'helmet';
import type { Logger } from 'pino';
import type { Select } from '../../infra/clickhouse.ts';
import type { Nats } from '../../infra/nats/connection.ts';
import type { ProcessStates } from '../../infra/nats/states.ts';
import { ANALYTICS_ENDPOINTS } from '../analytics/endpoints.ts';
import { createLeaderboardCache } from '../analytics/leaderboard-cache.ts';
import { createLiveTraders } from '../analytics/live-traders.ts';
import { conditionOf } from '../analytics/market-object.ts';
import { createMetadata } from '../analytics/metadata-cache.ts';
import { QUERY_MS_MAX } from '../analytics/query.ts';
import {
  allowVisitors,
  authenticate,
  refuseKeyInUrl,
  requireKey,
  uncounted,
} from '../auth/authenticate.ts';
import type { KeysBucket } from '../auth/key-admin.ts';
import type { Keys } from '../auth/keys.ts';
import { createLimits, type SharedCounts } from '../auth/rate-limit.ts';
import type { Usage } from '../auth/usage.ts';
import type { Feed } from '../feed/feed.ts';
import { FEED_ENDPOINTS } from '../feed/recent.ts';
import { createAnswers } from '../http/answers.ts';
import { callerOf } from '../http/caller.ts';
import { allowOrigins } from '../http/cors.ts';
import { Problem, problemHandler, requestIdOf } from '../http/errors.ts';
import type { Mount } from '../http/mount.ts';
import { nearestPath } from '../http/one-typo.ts';
import type { MarketKey } from '../http/parameters.ts';
import { refuseMethod, serveEndpoints } from '../http/routes.ts';
import { STREAMS_ENDPOINTS, type Streams } from '../streams/endpoints.ts';
import { ACCOUNT_ENDPOINTS } from './account.ts';
import { type AgeLimits, livenessHandler, type Readiness, readinessHandler } from './health.ts';
import { type HttpMetrics, logRequests } from './http-metrics.ts';
import { createStatus, STATUS_ENDPOINTS } from './status.ts';

export type AppOptions = {
  /** Reads ClickHouse. */
  readonly select: Select;
  readonly keys: Keys;
  readonly readiness: Readiness;
  /** The states that the other processes report. */
  readonly states: Pick<ProcessStates, 'of'>;
  /** Maximum ages of final blocks and analytics; the service is not ready while one is exceeded. */
  readonly limits: AgeLimits;
  readonly feed: Pick<Feed, 'handler' | 'recent' | 'endSessionsOf'>;
  readonly streams: Streams;
  readonly nats: Nats;
  readonly logger: Logger;
  /** Where keys are written. */
  readonly keysBucket: KeysBucket;
  /** Counts requests by day. */
  readonly usage: Usage;
  /** Requests that other api processes admitted; default: rate limits apply to this process alone. */
  readonly sharedCounts?: SharedCounts;
  readonly metrics?: HttpMetrics;
  /** Addresses or networks whose `X-Forwarded-For` is trusted; default: none. */
  readonly trustedProxies?: readonly string[];
  /** Origins whose pages may read the API; `*` is any; default: none. */
  readonly corsOrigins?: readonly string[];
  /** What requests without a key may read: nothing, or what the demo tier may; default: none. */
  readonly publicTier?: 'none' | 'demo';
  /** Further routes, such as those of the page; default: none. */
  readonly mounts?: readonly Mount[];
  /** Memory for live sums of traders, bytes; default: none. */
  readonly liveBytesMax?: number;
  /** Maximum time of one ClickHouse query, milliseconds; default: 5,000. */
  readonly queryMsMax?: number;
  /** Milliseconds since the epoch; default: the wall clock. */
  readonly now?: () => number;
  /** A monotonic clock in milliseconds that expires cached responses; default: this process's. */
  readonly monotonicNow?: () => number;
};

const ANSWERS_BYTES_MAX = 32 * 1024 * 1024;
const REVOKED_CUT_MS = 500;

/**
 * Security headers for data: a browser that renders it as a document may load nothing and may not put
 * it in a frame. helmet's other headers matter only for documents.
 */
const setDataHeaders: RequestHandler = helmet({
  contentSecurityPolicy: {
    useDefaults: false,
    directives: { defaultSrc: ["'none'"], frameAncestors: ["'none'"] },
  },
  xFrameOptions: { action: 'deny' },
  crossOriginOpenerPolicy: false,
  originAgentCluster: false,
  referrerPolicy: false,
  xDnsPrefetchControl: false,
  xDownloadOptions: false,
  xPermittedCrossDomainPolicies: false,
  xXssProtection: false,
});

/** The paths of the API that a 404 may suggest. */
const PATHS = [
  ...[ANALYTICS_ENDPOINTS, FEED_ENDPOINTS, STREAMS_ENDPOINTS, ACCOUNT_ENDPOINTS, STATUS_ENDPOINTS]
    .flat()
    .map(({ path }) => path),
  '/v1/stream/orders',
];

/** Builds the application. The caller attaches it to a server. */
export function createApp(options: AppOptions): Express {
  const { feed, keys, logger, mounts = [], select, streams, usage } = options;
  const isPublic = options.publicTier === 'demo';
  const limits = createLimits({ shared: options.sharedCounts });
  const app = express();
  app.disable('x-powered-by');
  app.disable('etag');
  app.set('trust proxy', [...(options.trustedProxies ?? [])]);
  const now = options.now ?? Date.now;
  const queryMsMax = options.queryMsMax ?? QUERY_MS_MAX;
  const monotonicNow = options.monotonicNow ?? (() => performance.now());
  const analytics = {
    select,
    queryMsMax,
    now,
    answers: createAnswers({ bytesMax: ANSWERS_BYTES_MAX, now: monotonicNow }),
    leaderboards: createLeaderboardCache(monotonicNow),
    metadata: createMetadata({ select, queryMsMax }),
    traders: createLiveTraders({
      ...{ reading: { select, queryMsMax }, states: options.states, now, monotonicNow },
      bytesMax: options.liveBytesMax ?? 0,
    }),
  };
  options.metrics?.countLive(analytics.traders);
  app.use(logRequests(logger, options.metrics));
  app.use(setDefaultHeaders, setDataHeaders, allowOrigins(options.corsOrigins ?? []));

  const notGet = refuseMethod('GET, HEAD');
  app.route('/healthz').all(uncounted(limits)).get(livenessHandler).all(notGet);
  const isReady = readinessHandler(options.readiness);
  app.route('/readyz').all(uncounted(limits)).get(isReady).all(notGet);
  const mounted = (kind: 'files' | 'first' | 'open' | 'post') =>
    mounts.flatMap((mount) => Object.entries(mount[kind] ?? {}));
  for (const [path, handlers] of mounted('files')) {
    app.route(path).all(uncounted(limits)).get(handlers).all(notGet);
  }

  for (const [path, handlers] of mounted('first')) app.use(path, handlers);
  app.use(authenticate(keys, limits, usage, isPublic), refuseKeyInUrl);
  const admit = allowVisitors(limits);
  serveEndpoints(app, ANALYTICS_ENDPOINTS, analytics, admit);
  serveEndpoints(
    app,
    ACCOUNT_ENDPOINTS,
    {
      keys,
      keysBucket: options.keysBucket,
      requestsToday: (account) => usage.today(account),
      sessions: streams.sessions,
      now,
    },
    requireKey,
  );
  const status = createStatus({ ...analytics, ...options, now });
  serveEndpoints(app, STATUS_ENDPOINTS, { status }, admit);
  const requireListener = endWhenRevoked(keys, feed);
  const conditionOfMarket = (market: MarketKey) => conditionOf(analytics, market);
  const orders = feed.handler(conditionOfMarket);
  serveEndpoints(app, FEED_ENDPOINTS, { feed, conditionOf: conditionOfMarket }, admit);
  app.route('/v1/stream/orders').get(admit, requireListener, orders).all(notGet);
  app
    .route('/streams/:id')
    .get(requireKey, requireListener, streams.listen)
    .all(except('DELETE', refuseMethod('GET, HEAD, DELETE')));
  serveEndpoints(
    app,
    STREAMS_ENDPOINTS,
    { ...streams, conditionOf: conditionOfMarket },
    requireKey,
  );

  for (const { routes } of mounts) {
    routes?.(app, { requireKey, untilRevoked: requireListener, conditionOf: conditionOfMarket });
  }
  for (const [path, handlers] of mounted('open')) app.route(path).get(handlers).all(notGet);
  const notPost = refuseMethod('POST');
  for (const [path, handlers] of mounted('post')) {
    app.route(path).post(requireKey, handlers).all(notPost);
  }
  for (const { unknown } of mounts) {
    if (unknown === undefined) continue;
    app.get(/.*/, (request, response, next) => {
      if (request.accepts(['json', 'html']) !== 'html') return next();
      response.status(404);
      unknown(request, response, next);
    });
  }
  app.use((request) => {
    const meant = nearestPath(PATHS, request.path);
    const hint = meant === undefined ? '' : `; did you mean ${meant}?`;
    throw new Problem({ error: 'not_found', detail: `no such route${hint}` });
  });
  app.use(problemHandler(logger));
  return app;
}

const setDefaultHeaders: RequestHandler = (_request, response, next) => {
  // Cacheable responses replace this header.
  response.setHeader('Cache-Control', 'no-store');
  response.setHeader('X-Request-Id', requestIdOf(response));
  next();
};

/** Ends an event stream when its key stops being valid, and disconnects clients that do not read to its end. */
function endWhenRevoked(keys: Keys, feed: Pick<Feed, 'endSessionsOf'>): RequestHandler {
  return (_request, response, next) => {
    const { account, keyHash } = callerOf(response);
    // Visitors have no key.
    if (account === '') {
      next();
      return;
    }
    const forget = keys.onRevoked(keyHash, () => {
      feed.endSessionsOf(keyHash);
      setTimeout(() => response.destroy(), REVOKED_CUT_MS).unref();
    });
    response.once('close', forget);
    next();
  };
}

function except(method: string, handler: RequestHandler): RequestHandler {
  return (request, response, next) =>
    request.method === method ? next() : handler(request, response, next);
}
