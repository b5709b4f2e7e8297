/**
 * The connection to ClickHouse, embedded or real: one place for the settings that must be explicit
 * because server versions and the embedded engine differ in their defaults.
 */
import {
  type ClickHouseClient,
  ClickHouseError,
  ClickHouseLogLevel,
  createClient,
} from '@clickhouse/client';

const REQUEST_TIMEOUT_MS = 30_000;
const CONNECTIONS_MAX = 16;

/** Settings of every query: facts measured on the engine, see docs/decisions. */
const SETTINGS = {
  // The default of newer engines buffers inserts, which would break write-then-advance.
  async_insert: 0,
  // A re-sent batch must fill just those views that a crash left without it.
  deduplicate_blocks_in_dependent_materialized_views: 1,
  output_format_json_quote_64bit_integers: 1,
} as const;

/** A client of the database `database`; create it once a process, close it at the end. */
export function connectClickHouse(options: {
  readonly url: string;
  readonly database: string;
  readonly name: string;
  readonly requestTimeoutMs?: number;
}): ClickHouseClient {
  return createClient({
    url: options.url,
    database: options.database,
    application: `fillstream-${options.name}`,
    request_timeout: options.requestTimeoutMs ?? REQUEST_TIMEOUT_MS,
    max_open_connections: CONNECTIONS_MAX,
    clickhouse_settings: { ...SETTINGS },
    // Errors come back as exceptions and are logged by their handler, once.
    log: { level: ClickHouseLogLevel.OFF },
  });
}

/** Unknown user, wrong or missing password, and what newer servers make of all of them. */
const REFUSED_CODES = new Set(['192', '193', '194', '516']);
const UNREACHABLE_CODES = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'ETIMEDOUT']);

/** What is wrong with CLICKHOUSE_URL when a call failed with this; undefined when it is something else. */
export function clickHouseUrlFault(error: unknown): string | undefined {
  if (error instanceof ClickHouseError) {
    return REFUSED_CODES.has(error.code) ? 'the server refuses user or password' : undefined;
  }
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  return UNREACHABLE_CODES.has(code) ? `the server cannot be reached (${code})` : undefined;
}
