/**
 * The express application: what every request passes (id, security fields, admission), the routes,
 * and the answers for what is none. It opens nothing and closes nothing: main.ts hands it its
 * connections, and tests hand it theirs. Middleware order is the contract: probes are never counted,
 * everything else is, and an unknown route or method answers so with or without a key.
 */
import express, { type Express, type RequestHandler } from 'express';
import type { Logger } from 'pino';
import type { ClickHouseReader } from '../infra/clickhouse-reader.ts';
import type { Nats } from '../infra/nats/connection.ts';
import { ANALYTICS_ENDPOINTS } from './analytics/endpoints.ts';
import { createPages } from './analytics/leaderboard-cache.ts';
import { createMemories, type Memories } from './analytics/memory.ts';
import { QUERY_MS_MAX } from './analytics/query.ts';
import { createSumming } from './analytics/trader-windows.ts';
import { ACCOUNT_ENDPOINTS } from './auth/account.ts';
import { admit, requireKey, uncounted } from './auth/authenticate.ts';
import type { KeysBucket } from './auth/key-admin.ts';
import { callerOf, type Keys } from './auth/keys.ts';
import { createLimits } from './auth/rate-limit.ts';
import type { SharedCounts } from './auth/shared-counts.ts';
import type { Usage } from './auth/usage.ts';
import { allowOrigins } from './cors.ts';
import { docsHandler, documentHandler } from './docs.ts';
import { Problem, problemHandler } from './errors.ts';
import type { Feed } from './feed/route.ts';
import { createFinalMatches, FINALITY_ENDPOINTS } from './finality.ts';
import { FIXED_FIELDS, fieldsSetBy, setDocumentFields, setFixedFields } from './fixed-fields.ts';
import { livenessHandler, type Readiness, readinessHandler } from './health.ts';
import { answerAtOnce } from './kept-answers.ts';
import type { HttpMetrics } from './metrics.ts';
import { ASSET_PATH, assetHandler, PAGE_PATHS, pageHandler } from './page.ts';
import { logRequests, refuseKeyInUrl } from './request-log.ts';
import { mount, refuseMethod } from './routes.ts';
import { createStatus, STATUS_ENDPOINTS } from './status.ts';
import { STREAMS_ENDPOINTS, type Streams } from './streams/endpoints.ts';

export type AppOptions = {
  readonly clickhouse: ClickHouseReader;
  readonly keys: Keys;
  readonly readiness: Readiness;
  readonly feed: Pick<Feed, 'handler' | 'endSessionsOf'>;
  readonly streams: Streams;
  readonly nats: Nats;
  readonly logger: Logger;
  /** Where keys are written. */
  readonly keysBucket: KeysBucket;
  /** Counts requests by day. */
  readonly usage: Usage;
  /** What other api processes counted; rates are of this process alone where it is left out. */
  readonly sharedCounts?: SharedCounts;
  readonly metrics?: HttpMetrics;
  /** Addresses or networks whose X-Forwarded-For names the client; none by default. */
  readonly trustedProxies?: readonly string[];
  /** Origins whose pages may read the api; `*` is any, none by default. */
  readonly corsOrigins?: readonly string[];
  /** What analytics remember; nothing where it is left out. */
  readonly memories?: Memories;
  /** Longest time of one read of ClickHouse, milliseconds; 5,000 by default. */
  readonly queryMsMax?: number;
  /** Most bookings of a trader that are added up here; 2,000 by default. */
  readonly bookingsMax?: number;
  /** Milliseconds since the epoch; the wall clock by default. */
  readonly now?: () => number;
};

const REVOKED_CUT_MS = 500;

/** Builds the application; the caller listens. */
export function createApp(options: AppOptions): Express {
  const { clickhouse, feed, keys, logger, streams, usage } = options;
  const limits = createLimits(
    options.sharedCounts === undefined ? {} : { shared: options.sharedCounts },
  );
  const app = express();
  app.disable('x-powered-by');
  app.disable('etag');
  app.set('trust proxy', [...(options.trustedProxies ?? [])]);
  const now = options.now ?? Date.now;
  const analytics = {
    clickhouse,
    queryMsMax: options.queryMsMax ?? QUERY_MS_MAX,
    now,
    pages: createPages(),
    memories: options.memories ?? createMemories(),
    summing: createSumming(options.bookingsMax),
  };
  const cors = allowOrigins(options.corsOrigins ?? []);
  app.use(logRequests(logger, options.metrics));
  // Before any field is set: it gives its answers all of them as one list.
  const parts = { keys, limits, usage, fixed: new Map([...FIXED_FIELDS, ...fieldsSetBy(cors)]) };
  for (const endpoint of ANALYTICS_ENDPOINTS.filter(({ isKept }) => isKept)) {
    app.get(endpoint.path, answerAtOnce(endpoint, analytics, parts));
  }
  app.use(setFixedFields, cors);

  app.get('/healthz', uncounted(limits), livenessHandler);
  app.get('/readyz', uncounted(limits), readinessHandler(options.readiness));
  const notGet = refuseMethod('GET, HEAD');
  // The page asks for all of its files at once.
  app.route(ASSET_PATH).all(uncounted(limits)).get(assetHandler).all(notGet);

  app.use(admit(keys, limits, usage), refuseKeyInUrl);
  mount(app, ANALYTICS_ENDPOINTS, analytics);
  mount(app, ACCOUNT_ENDPOINTS, {
    keys,
    keysBucket: options.keysBucket,
    requestsToday: (account) => usage.today(account),
    sessions: streams.sessions,
    now,
  });
  mount(app, FINALITY_ENDPOINTS, { finalMatches: createFinalMatches(options.nats) });
  mount(app, STATUS_ENDPOINTS, { status: createStatus({ ...analytics, nats: options.nats }) });
  app.route('/openapi.json').get(documentHandler).all(notGet);
  app.route('/docs').get(setDocumentFields, docsHandler).all(notGet);
  const requireListener = endWhenRevoked(keys, feed);
  app.route('/v1/stream/orders').get(requireKey, requireListener, feed.handler).all(notGet);
  app
    .route('/streams/:id')
    .get(requireKey, requireListener, streams.listen)
    .all(except('DELETE', refuseMethod('GET, HEAD, DELETE')));
  mount(app, STREAMS_ENDPOINTS, streams);

  for (const path of PAGE_PATHS) app.route(path).get(setDocumentFields, pageHandler).all(notGet);

  app.use(() => {
    throw new Problem({ status: 404, error: 'not_found', detail: 'no such route' });
  });
  app.use(problemHandler(logger));
  return app;
}

/**
 * Ends an event stream when its key stops being valid: by the feed, which knows how, and, where a
 * client does not even read its end, by cutting the connection.
 */
function endWhenRevoked(keys: Keys, feed: Pick<Feed, 'endSessionsOf'>): RequestHandler {
  return (_request, response, next) => {
    const { keyHash } = callerOf(response);
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
