/**
 * Metrics of the api: requests by route and status, their duration, connections, and the age of the
 * leaderboards, which is asked of ClickHouse beside the scrapes, so that a scrape never waits. A route is
 * the pattern of its path: no address or id becomes a label.
 */
import type { Server } from 'node:http';
import type { Request, Response } from 'express';
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { ClickHouseReader } from '../infra/clickhouse-reader.ts';
import { count, rowOf, string } from './analytics/rows.ts';
import type { FeedFigures } from './feed/fan-out.ts';

const AGES_MS = 5_000;
const AGES_SQL = `
SELECT replaceRegexpOne(view, '^leaderboard_(.*)_mv$', '\\\\1') AS frame,
  toUInt32(now() - last_success_time) AS seconds
FROM system.view_refreshes
WHERE database = currentDatabase() AND last_success_time IS NOT NULL`;
const Age = rowOf({ frame: string, seconds: count });

export type HttpMetrics = {
  /** An answer is over: sent to its end, or cut. */
  answered(request: Request, response: Response, ms: number): void;
};

/** Counts requests; an event stream counts when it is over and is no part of the durations. */
export function httpMetrics(registry: Registry): HttpMetrics {
  const registers = [registry];
  const requests = new Counter({
    name: 'fillstream_http_requests_total',
    help: 'answers by route, method and status; event streams count when they are over',
    labelNames: ['route', 'method', 'status'],
    registers,
  });
  const seconds = new Histogram({
    name: 'fillstream_http_request_seconds',
    help: 'from a request to the end of its answer; without event streams',
    labelNames: ['route'],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 6],
    registers,
  });
  // Naming the labels costs more than counting: once for each of the few combinations.
  const counters = new Map<string, { inc: () => void }>();
  const durations = new Map<string, { observe: (seconds: number) => void }>();
  return {
    answered(request, response, ms) {
      const route: string = request.route?.path ?? 'none';
      // Methods are the client's text: those that no route has are one.
      const method = METHODS.has(request.method) ? request.method : 'other';
      const status = String(response.statusCode);
      once(counters, `${status} ${method} ${route}`, () =>
        requests.labels({ route, method, status }),
      ).inc();
      const type = String(response.getHeader('Content-Type') ?? '');
      if (type.startsWith('text/event-stream')) return;
      once(durations, route, () => seconds.labels({ route })).observe(ms / 1_000);
    },
  };
}

function once<Value>(known: Map<string, Value>, name: string, make: () => Value): Value {
  const found = known.get(name);
  if (found !== undefined) return found;
  const made = make();
  known.set(name, made);
  return made;
}

const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);

/** Shows the open connections of the server, and how many were refused by a cap. */
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
      this.set(await connectionsOf(server));
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

/** Shows the event streams and how far the feed is behind. */
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
  gauge('replaying', 'event streams that read what is stored', ({ replaying }) => replaying);
  gauge('lag_messages', 'messages of FEED not taken in yet', ({ behind }) => behind);
  counter('events_sent', 'events written to listeners', [], ({ events }) => [[{}, events]]);
  counter('gaps', 'gap events: what a listener asked for is gone', [], ({ gaps }) => [[{}, gaps]]);
  counter('streams_opened', 'event streams by where they began', ['from'], ({ opened }) => [
    [{ from: 'now' }, opened.fromNow],
    [{ from: 'position' }, opened.resumed],
  ]);
  counter('streams_ended', 'event streams by why they ended', ['why'], ({ ended }) =>
    [...ended].map(([why, count]) => [{ why }, count]),
  );
}

/** Keeps the age of the leaderboards until the returned function is called. */
export function watchLeaderboards(registry: Registry, clickhouse: ClickHouseReader): () => void {
  const age = new Gauge({
    name: 'fillstream_leaderboard_age_seconds',
    help: 'since the last refresh of a leaderboard that succeeded',
    labelNames: ['time_frame'],
    registers: [registry],
  });
  const failures = new Counter({
    name: 'fillstream_leaderboard_age_failures_total',
    help: 'times that ClickHouse did not tell the age of the leaderboards',
    registers: [registry],
  });
  async function look(): Promise<void> {
    try {
      const table = await clickhouse.select({
        sql: AGES_SQL,
        parameters: {},
        settings: {},
        signal: null,
        msMax: AGES_MS,
      });
      for (const { frame, seconds } of Age.rowsOf(table)) {
        age.set({ time_frame: frame.toUpperCase() }, seconds);
      }
    } catch {
      // Whatever the reason: readiness and requests tell it, this only counts.
      failures.inc();
    }
  }
  void look();
  const timer = setInterval(look, AGES_MS);
  timer.unref();
  return () => clearInterval(timer);
}

function connectionsOf(server: Server): Promise<number> {
  return new Promise((done, failed) => {
    server.getConnections((error, count) => (error === null ? done(count) : failed(error)));
  });
}
