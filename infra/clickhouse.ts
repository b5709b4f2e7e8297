/**
 * The connection to ClickHouse, embedded or real: one place for the settings that must be explicit
 * because server versions and the embedded engine differ in their defaults.
 */
import { type ClickHouseClient, ClickHouseLogLevel, createClient } from '@clickhouse/client';

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
