/**
 * Reads of the analytics endpoints. Every read has a time limit and is aborted when its client disconnects, so a dead or
 * slow ClickHouse causes a 503 and never a hang. The embedded engine cancels an aborted statement; a server runs it to
 * its end or time limit. Reads are not retried: the client decides whether it still needs the response.
 */
import { ClickHouseError } from '@clickhouse/client';
import { Bytes, type Select, StoreUnreachableError } from '../../infra/clickhouse.ts';
import { inParts } from '../../infra/parts.ts';
import { unavailable } from '../http/errors.ts';
import type { RowSchema } from './rows.ts';

/** The part of a call that a read needs. */
export type Reading = {
  readonly select: Select;
  /** Time limit of one read, milliseconds. */
  readonly queryMsMax: number;
  /** Aborted when the client disconnects; null if other requests wait for the same rows. */
  readonly signal: AbortSignal | null;
};

export const QUERY_MS_MAX = 5_000;

/**
 * Reads are small and frequent. A single thread, no parallel formatting, and neither projections, compiled expressions nor
 * hash table statistics cost a third less than the server's defaults (docs/decisions/0007-fast-queries.md).
 */
const SETTINGS = {
  max_threads: 1,
  optimize_use_projections: 0,
  compile_expressions: 0,
  collect_hash_table_stats_during_aggregation: 0,
  output_format_parallel_formatting: 0,
  // These indexes serve analysts, who search by 0x text. Reads by primary key do not need them.
  ignore_data_skipping_indices: 'trader_text,condition_text',
  max_result_bytes: 256 * 1024 * 1024,
};
/**
 * Suffix of a statement that reads a few granules by the primary key. There, reading the filter's columns first costs
 * more than it saves.
 */
export const FEW_ROWS = 'SETTINGS optimize_move_to_prewhere = 0';
/** The same for the rows of one wallet. Only the few busiest wallets have enough of them for a second thread. */
export const ROWS_OF_A_WALLET = `${FEW_ROWS}, max_threads = 2`;
/** Suffix of a statement that reads many columns of several granules, where a second thread pays off. */
export const MANY_ROWS = 'SETTINGS max_threads = 2';

/**
 * Suffix of a statement that reads the first rows of an order. Small blocks let it finish sooner. A second step that
 * reads the other columns of so few rows would cost more than it saves.
 */
export const FIRST_ROWS =
  'SETTINGS max_block_size = 1024, query_plan_optimize_lazy_materialization = 0';

/** ClickHouse error codes of an overloaded or damaged server. Any other code means that the statement is wrong. */
const OUTAGE_CODES = new Set([
  '40', // CHECKSUM_DOESNT_MATCH
  '159', // TIMEOUT_EXCEEDED
  '160', // TOO_SLOW
  '202', // TOO_MANY_SIMULTANEOUS_QUERIES
  '209', // SOCKET_TIMEOUT
  '210', // NETWORK_ERROR
  '236', // ABORTED: the server is shutting down
  '241', // MEMORY_LIMIT_EXCEEDED
  '246', // CORRUPTED_DATA
  '271', // CANNOT_DECOMPRESS
  '279', // ALL_CONNECTION_TRIES_FAILED
  '369', // ALL_REPLICAS_ARE_STALE
  '394', // QUERY_WAS_CANCELLED
]);

/**
 * Runs one SELECT. Throws Problem 503 if ClickHouse is unreachable, too slow or out of memory. Any other error (a
 * wrong statement, a row that does not match its schema) is a bug of ours and is rethrown.
 */
export async function read<Row>(
  { select, queryMsMax, signal }: Reading,
  statement: {
    readonly sql: string;
    readonly parameters: Readonly<Record<string, unknown>>;
    readonly row: RowSchema<Row>;
  },
): Promise<readonly Row[]> {
  const { sql, parameters, row } = statement;
  try {
    return await select({
      ...{ sql, parameters, rows: row.rows, settings: SETTINGS, signal },
      msMax: queryMsMax,
    });
  } catch (error) {
    if (isOutage(error) || signal?.aborted) {
      throw unavailable('the analytics store cannot answer now', error);
    }
    throw error;
  }
}

/** A server refuses a parameter of more than 128 KiB, of which a condition id takes 201 bytes. */
const IDS_MAX = 500;

/** Runs a SELECT whose parameter `list` has these condition ids or addresses, in parts if there are many. */
export async function readByIds<Row>(
  reading: Reading,
  {
    list,
    ...statement
  }: {
    readonly sql: string;
    readonly list: string;
    readonly row: RowSchema<Row>;
  },
  ids: readonly string[],
): Promise<readonly Row[]> {
  const rows = await Promise.all(
    inParts(ids, IDS_MAX).map((part) =>
      read(reading, { ...statement, parameters: { [list]: new Bytes(part) } }),
    ),
  );
  return rows.flat();
}

/**
 * The row with the greatest version, which FINAL would keep, of the rows of one key. Reading a few rows without
 * FINAL costs a fifth less (docs/decisions/0007-fast-queries.md).
 */
export function newestOf<Row extends { readonly version: bigint }>(
  rows: readonly Row[],
): Row | undefined {
  return newestBy(rows, () => '').get('');
}

/** Like `newestOf`, for the rows of each key. */
export function newestBy<Row extends { readonly version: bigint }>(
  rows: readonly Row[],
  keyOf: (row: Row) => string,
): ReadonlyMap<string, Row> {
  const newest = new Map<string, Row>();
  for (const row of rows) {
    const other = newest.get(keyOf(row));
    if (other === undefined || other.version < row.version) newest.set(keyOf(row), row);
  }
  return newest;
}

function isOutage(error: unknown): boolean {
  if (error instanceof ClickHouseError) return OUTAGE_CODES.has(error.code);
  return error instanceof StoreUnreachableError;
}
