/**
 * `GET /v2/status`: how fresh the data is. It has the feed's newest event, the newest final block, the newest trade in the
 * analytics, and when each leaderboard was computed. These are read from the streams and the store at most once a second,
 * so they are correct regardless of which processes run. It also has the readiness that the other processes report.
 */
import { LRUCache } from 'lru-cache';
import { z } from 'zod';
import type { Select } from '../../infra/clickhouse.ts';
import { reasonsText } from '../../infra/metrics-server.ts';
import type { Nats } from '../../infra/nats/connection.ts';
import { lastMessage } from '../../infra/nats/reader.ts';
import type { ProcessStates } from '../../infra/nats/states.ts';
import { FEED_STREAM, FEED_SUBJECTS } from '../../ingest/contract.ts';
import {
  decodeRange,
  eventsOf,
  LEDGER_STREAM,
  lastBlock,
  MATCHES_SUBJECT,
  newestMessage,
} from '../../ingest/ledger/ledger.ts';
import { QUERY_MS_MAX, read } from '../analytics/query.ts';
import { rowOf, seconds, typed } from '../analytics/rows.ts';
import { count as counted } from '../analytics/schemas.ts';
import { TIME_FRAME_NAMES, TIME_FRAMES } from '../analytics/time-frames.ts';
import { type Context, type Endpoint, endpoint } from '../http/endpoint.ts';
import { Coverage, createCoverage } from './coverage.ts';
import { type AgeLimits, projectedTo } from './health.ts';

type StatusCall = Context & { readonly status: () => Promise<Status> };

const READ_AGE_MS_MAX = 1_000;

const millisecond = (what: string) =>
  z
    .string()
    .regex(/^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)?$/)
    .meta({ description: `${what}, ISO 8601 UTC`, examples: ['2026-05-01T12:00:00.000Z'] });
const age = (what: string) =>
  z
    .number()
    .min(0)
    .meta({ description: `age of ${what}, seconds; 0 if there is none`, examples: [1.5] });
const ageMax = () =>
  z
    .number()
    .positive()
    .meta({
      description: 'the service is not ready above this age, seconds',
      examples: [30],
    });

const Status = z.object({
  feed: z.object({
    newest_at: millisecond('when the newest event of the order feed was stored, or empty'),
    age_seconds: age('the newest event'),
  }),
  chain: z.object({
    final_block: counted('number of the newest final block; 0 if there is none'),
    movements_read: z.boolean().meta({
      description:
        'whether shares that move without a trade were read in this block; if not, PnL does not follow them',
      examples: [true],
    }),
    block_at: millisecond('timestamp of the block, or empty'),
    age_seconds: age('the block'),
    age_seconds_max: ageMax(),
  }),
  projection: z.object({
    newest_trade_at: millisecond('time of the newest trade in the analytics, or empty'),
    behind_seconds: z
      .number()
      .min(0)
      .meta({
        description: 'how far the analytics are behind the newest final trade, seconds',
        examples: [2],
      }),
    age_seconds: age('the newest block whose trades are all in the analytics'),
    age_seconds_max: ageMax(),
  }),
  coverage: Coverage,
  processes: z.array(
    z.object({
      name: z
        .string()
        .meta({ description: 'ingest or projector, with its number', examples: ['ingest'] }),
      ready: z
        .boolean()
        .meta({ description: 'whether the process works and is not behind', examples: [true] }),
      reason: z.string().meta({
        description: 'why the process is not ready, or empty',
        examples: ['process: silent for 12 s'],
      }),
    }),
  ),
  markets: z.object({
    refreshed_at: millisecond(
      'when the list of markets was last computed; empty while it has no market',
    ),
    age_seconds: age('the list'),
  }),
  boards: z.array(
    z.object({
      time_frame: z
        .enum(TIME_FRAME_NAMES)
        .meta({ description: 'time frame of the leaderboard', examples: ['1D'] }),
      refreshed_at: millisecond(
        'when the leaderboard was last computed; empty while it has no trader',
      ),
      age_seconds: age('the leaderboard'),
    }),
  ),
});
type Status = z.output<typeof Status>;

export const status = endpoint({
  name: 'status',
  path: '/v2/status',
  summary: 'Status',
  description: `How current the data is: the ages of feed, final blocks, analytics and leaderboards, and which processes are ready; and whether
the analytics cover all shares.
\`/readyz\` returns 503 while an age is above its maximum or a process is not ready.

The status is read at most once a second for all clients.`,
  parameters: z.object({}),
  answer: Status,
  problems: [],
  run: ({ status }: StatusCall) => status(),
});

export const STATUS_ENDPOINTS: readonly Endpoint<StatusCall>[] = [status];

/** Reads the status at most once a second. */
export function createStatus(options: {
  readonly nats: Nats;
  readonly select: Select;
  readonly now: () => number;
  readonly states: Pick<ProcessStates, 'of'>;
  readonly limits: AgeLimits;
}): () => Promise<Status> {
  const coverage = createCoverage(options.select);
  const cache = new LRUCache<'status', Status>({
    max: 1,
    ttl: READ_AGE_MS_MAX,
    fetchMethod: () => readStatus({ ...options, coverage }),
  });
  return () => cache.forceFetch('status');
}

const refreshedAt = (table: string) =>
  `(SELECT toUnixTimestamp64Milli(any(refreshed_at)) FROM (SELECT refreshed_at FROM ${table} LIMIT 1))`;

const Row = rowOf({
  newest_trade: seconds('(SELECT max(last_trade_at) FROM trader_activity)'),
  markets: typed(refreshedAt('market_stats'), z.coerce.number<string>().int()),
  boards: typed(
    `[${Object.values(TIME_FRAMES).map(({ board }) => refreshedAt(board))}]`,
    z.array(z.coerce.number<string>().int()),
  ),
});

const SQL = `SELECT ${Row.columns}`;

async function readStatus(
  options: Parameters<typeof createStatus>[0] & {
    readonly coverage: ReturnType<typeof createCoverage>;
  },
): Promise<Status> {
  const { select, states, limits } = options;
  const statement = { sql: SQL, parameters: {}, row: Row };
  const [[row], { event, block, matchedMs }] = await Promise.all([
    read({ select, queryMsMax: QUERY_MS_MAX, signal: null }, statement),
    readStreams(options.nats),
  ]);
  if (row === undefined) throw new Error('one row of the status expected, got none');
  const tradedMs = row.newest_trade * 1_000;
  const nowMs = options.now();
  const since = (ms: number) => (ms === 0 ? 0 : Math.max(0, (nowMs - ms) / 1_000));
  return {
    feed: { newest_at: iso(event), age_seconds: since(event) },
    chain: {
      final_block: block.number,
      movements_read: block.hasMovements,
      block_at: iso(block.atMs),
      age_seconds: since(block.atMs),
      age_seconds_max: limits.chain,
    },
    projection: {
      newest_trade_at: iso(tradedMs),
      behind_seconds: Math.max(0, (matchedMs - tradedMs) / 1_000),
      age_seconds: since(projectedTo(states) * 1_000),
      age_seconds_max: limits.projection,
    },
    coverage: await options.coverage(block.hasMovements),
    processes: [...states.of('ingest'), ...states.of('projector')].map(({ name, reasons }) => ({
      name,
      ready: Object.keys(reasons).length === 0,
      reason: reasonsText(reasons),
    })),
    markets: { refreshed_at: iso(row.markets), age_seconds: since(row.markets) },
    boards: TIME_FRAME_NAMES.map((frame, index) => {
      const refreshedMs = row.boards[index] ?? 0;
      return {
        time_frame: frame,
        refreshed_at: iso(refreshedMs),
        age_seconds: since(refreshedMs),
      };
    }),
  };
}

async function readStreams(nats: Nats) {
  const [event, newest, matched] = await Promise.all([
    lastMessage(nats, FEED_STREAM, FEED_SUBJECTS),
    newestMessage(nats),
    lastMessage(nats, LEDGER_STREAM, MATCHES_SUBJECT),
  ]);
  const block = newest?.range.kind === 'blocks' ? lastBlock(newest.range) : undefined;
  const blocks = matched === undefined ? [] : decodeRange(matched).blocks;
  const traded = blocks.findLast((block) => eventsOf('matches', [block]).length > 0);
  return {
    event: event?.timestampMs ?? 0,
    block: {
      number: block?.number ?? 0,
      atMs: (block?.time ?? 0) * 1_000,
      hasMovements: block?.coversMovements ?? false,
    },
    matchedMs: (traded?.time ?? 0) * 1_000,
  };
}

/** '' for 0. */
function iso(ms: number): string {
  return ms === 0 ? '' : new Date(ms).toISOString();
}
