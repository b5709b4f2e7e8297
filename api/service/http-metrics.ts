/**
 * The request log and the metrics: requests by route and status, their duration, connections, live sums, event
 * streams, and the age of the leaderboards. A timer reads that age from ClickHouse, so a scrape never waits.
 * A route is the pattern of its path, so no address or id becomes a label.
 */
import { randomUUID } from 'node:crypto';
import type { Server } from 'node:http';
import { promisify } from 'node:util';
import type { Request, RequestHandler, Response } from 'express';
import type { Logger } from 'pino';
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { Select } from '../../infra/clickhouse.ts';
import { withoutSecrets } from '../../infra/secrets.ts';
import type { LiveFigures } from '../analytics/live-traders.ts';
import { read } from '../analytics/query.ts';
import { count, rowOf, string } from '../analytics/rows.ts';
import { KEY_IN_TEXT } from '../auth/keys.ts';
import type { FeedFigures } from '../feed/fan-out.ts';
import { callerOf } from '../http/caller.ts';

const AGES_MS = 5_000;
const Age = rowOf({
  frame: string("replaceRegexpOne(view, '^(leaderboard_)?(.*)_mv$', '\\\\2')"),
  // Since the server's start, if none has succeeded.
  seconds: count('if(last_success_time IS NULL, uptime(), toUInt32(now() - last_success_time))'),
});
const AGES_SQL = `
SELECT ${Age.columns}
FROM system.view_refreshes
WHERE database = currentDatabase()`;

const REQUEST_ID_FORM = /^[\w.-]{1,64}$/;

export type HttpMetrics = ReturnType<typeof httpMetrics>;

/**
 * Gives each request an id, and logs and counts it once when it ends. A client's own id is used if it is
 * harmless. The log line has no query, no key and no client address.
 */
export function logRequests(logger: Logger, metrics: HttpMetrics | undefined): RequestHandler {
  return (request, response, next) => {
    const given = String(request.headers['x-request-id'] ?? '');
    const isHarmless = REQUEST_ID_FORM.test(given) && !KEY_IN_TEXT.test(given);
    const requestId = isHarmless ? given : randomUUID();
    const startMs = performance.now();
    response.locals.requestId = requestId;
    response.on('close', () => {
      const ms = performance.now() - startMs;
      metrics?.answered(request, response, ms);
      if (!logger.isLevelEnabled('info')) return;
      logger.info({
        request_id: requestId,
        method: request.method,
        // The query may contain anything.
        path: withoutSecrets(request.originalUrl.split('?', 1)[0] ?? ''),
        status: response.statusCode,
        complete: response.writableFinished,
        ms: Math.round(ms),
        account: response.locals.caller === undefined ? undefined : callerOf(response).account,
      });
    });
    next();
  };
}

/** Counts requests; event streams count when they end and are not in the durations. */
export function httpMetrics(registry: Registry) {
  const registers = [registry];
  const requests = new Counter({
    name: 'fillstream_http_requests_total',
    help: 'responses by route, method and status; event streams count when they end',
    labelNames: ['route', 'method', 'status'],
    registers,
  });
  const seconds = new Histogram({
    name: 'fillstream_http_request_seconds',
    help: 'time from a request to the end of its response; without event streams',
    labelNames: ['route'],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 6],
    registers,
  });
  return {
    /** Records a response that has ended, completely or not. */
    answered(request: Request, response: Response, ms: number): void {
      const route: string = request.route?.path ?? 'none';
      // Clients can send any method, so unknown methods share a label.
      const method = METHODS.has(request.method) ? request.method : 'other';
      requests.inc({ route, method, status: String(response.statusCode) });
      const type = String(response.getHeader('Content-Type') ?? '');
      if (!type.startsWith('text/event-stream')) seconds.observe({ route }, ms / 1_000);
    },

    /** Exports what is in the memory of live sums, and how many responses came from it. */
    countLive(traders: { figures(): LiveFigures }): void {
      const gauge = (name: string, help: string, value: (figures: LiveFigures) => number) =>
        new Gauge({
          name: `fillstream_live_${name}`,
          ...{ help, registers },
          collect() {
            this.set(value(traders.figures()));
          },
        });
      gauge(
        'entries',
        'traders whose sums, and traders whose positions are in memory',
        (live) => live.entries,
      );
      gauge('bytes', 'their memory, estimated; at most LIVE_TRADERS_MIB', (live) => live.bytes);
      new Counter({
        name: 'fillstream_live_forgotten_total',
        help: 'times that all sums were forgotten, because they might have been wrong',
        registers,
        collect() {
          this.reset();
          this.inc(traders.figures().forgotten);
        },
      });
      new Counter({
        name: 'fillstream_live_answers_total',
        help: 'profiles and lists of positions by where their figures came from',
        labelNames: ['from'],
        registers,
        collect() {
          this.reset();
          const { memory, statements } = traders.figures().answered;
          this.inc({ from: 'memory' }, memory);
          this.inc({ from: 'statements' }, statements);
        },
      });
    },
  };
}

const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);

/** Exports the numbers of open and refused connections. */
export function countConnections(
  registry: Registry,
  server: Server,
  caps: { readonly refused: number },
): void {
  new Gauge({
    name: 'fillstream_http_connections',
    help: 'open connections',
    registers: [registry],
    async collect() {
      this.set(await promisify(server.getConnections.bind(server))());
    },
  });
  new Counter({
    name: 'fillstream_http_connections_refused_total',
    help: 'connections closed at once because their address had too many',
    registers: [registry],
    collect() {
      this.reset();
      this.inc(caps.refused);
    },
  });
}

/** Exports counts of event streams and the lag of the feed. */
export function countFeed(registry: Registry, feed: { figures(): FeedFigures }): void {
  const registers = [registry];
  const gauge = (name: string, help: string, value: (figures: FeedFigures) => number) =>
    new Gauge({
      name: `fillstream_feed_${name}`,
      help,
      registers,
      collect() {
        this.set(value(feed.figures()));
      },
    });
  const counter = <Label extends string>(
    name: string,
    help: string,
    labelNames: Label[],
    values: (figures: FeedFigures) => [Partial<Record<Label, string>>, number][],
  ) =>
    new Counter<Label>({
      name: `fillstream_feed_${name}_total`,
      help,
      labelNames,
      registers,
      collect() {
        this.reset();
        for (const [labels, count] of values(feed.figures())) this.inc(labels, count);
      },
    });
  gauge('listeners', 'open event streams', ({ listeners }) => listeners);
  gauge('replaying', 'event streams that read stored events', ({ replaying }) => replaying);
  gauge('lag_messages', 'messages of FEED not read yet', ({ behind }) => behind);
  gauge('damaged', '1 while a message of FEED cannot be read; /readyz names it', ({ isDamaged }) =>
    isDamaged ? 1 : 0,
  );
  counter('events_sent', 'events written to listeners', [], ({ events }) => [[{}, events]]);
  counter('gaps', 'gap events: requested events are no longer stored', [], ({ gaps }) => [
    [{}, gaps],
  ]);
  counter('streams_opened', 'event streams by where they started', ['from'], ({ opened }) => [
    [{ from: 'now' }, opened.fromNow],
    [{ from: 'position' }, opened.resumed],
  ]);
  counter('streams_ended', 'event streams by reason for their end', ['why'], ({ ended }) =>
    [...ended].map(([why, count]) => [{ why }, count]),
  );
}

/** Updates the age of the leaderboards until the returned function is called. */
export function watchLeaderboards(registry: Registry, select: Select): () => void {
  const age = new Gauge({
    name: 'fillstream_leaderboard_age_seconds',
    help: 'since the last successful refresh of a leaderboard, or of another view by its name',
    labelNames: ['time_frame'],
    registers: [registry],
  });
  async function update(): Promise<void> {
    const ages = await read(
      { select, queryMsMax: AGES_MS, signal: null },
      { sql: AGES_SQL, parameters: {}, row: Age },
    );
    for (const { frame, seconds } of ages) {
      age.set({ time_frame: frame.toUpperCase() }, seconds);
    }
  }
  // If ClickHouse cannot be read, readiness and requests report why.
  const tryUpdate = () => update().catch(() => undefined);
  void tryUpdate();
  const timer = setInterval(tryUpdate, AGES_MS);
  timer.unref();
  return () => clearInterval(timer);
}
