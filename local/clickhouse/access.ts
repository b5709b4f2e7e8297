/**
 * Authentication and permissions. `service` has the password of the data directory and is unrestricted. Requests
 * without a password are the analyst's, who may run one harmless read at a time, within limits.
 *
 * The engine has no users, and its `readonly=1` is not enough: it allows INTO OUTFILE, KILL, functions that read files
 * or reach the network, and it does not hold in a subquery with SETTINGS. So `infra/analyst/guard.ts` decides from the
 * syntax tree of the statement. What runs is the text that the engine has formatted for this check.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import {
  ANALYST_DATABASES,
  RefusedStatementError,
  refuseUnlessHarmless,
} from '../../infra/analyst/guard.ts';
import { foreignRequest } from '../../infra/loopback.ts';
import { ClickHouseException } from './exception.ts';

export type User = 'service' | 'analyst';

/** Limits of every analyst statement. `readonly` is added last, because it freezes the other settings. */
const LIMITS = new Map([
  // A GROUP BY or ORDER BY beyond these spills to disk instead of failing at max_memory_usage.
  ['max_bytes_before_external_group_by', String(300 * 2 ** 20)],
  ['max_bytes_before_external_sort', String(300 * 2 ** 20)],
  ['max_execution_time', '30'],
  ['max_memory_usage', String(2 ** 30)],
  ['max_result_bytes', String(64 * 2 ** 20)],
  ['max_result_rows', '1000000'],
  ['max_threads', '2'],
  // Reordering flattens the joins inside views and mixes up columns with the same name (error 352 or 49).
  ['query_plan_optimize_join_order_limit', '0'],
  ['result_overflow_mode', 'throw'],
  ['timeout_overflow_mode', 'throw'],
  // The analysts' views have skip indexes on key columns only, so FINAL need not widen their selection.
  ['use_skip_indexes_if_final_exact_mode', '0'],
]);

/** Limits that a caller may lower. */
const LOWERABLE = new Set([
  'max_execution_time',
  'max_memory_usage',
  'max_result_bytes',
  'max_result_rows',
  'max_threads',
]);

const ANALYST_SETTINGS = new Set([
  'date_time_output_format',
  'log_comment',
  'output_format_json_named_tuples_as_objects',
  'output_format_json_quote_64bit_floats',
  'output_format_json_quote_64bit_integers',
  'output_format_json_quote_decimals',
  'output_format_json_quote_denormals',
  'session_timezone',
]);

/** User names of the analyst, including none. */
const ANALYST_NAMES = new Set(['', 'analyst', 'default']);

/** A parameter that becomes a name. The tree has its value, but not quoted. */
const NAME_PARAMETER = /\{\s*\w+\s*:\s*Identifier\s*\}/i;

/**
 * Returns the user of a request. Throws ClickHouseException 516 for wrong credentials, and 497 for requests from the
 * web page of another site.
 */
export function authenticate({ headers }: IncomingMessage, url: URL, wanted: string): User {
  const foreign = foreignRequest(headers);
  if (foreign !== undefined) throw denied(foreign);
  const basic = /^Basic (.+)$/i.exec(headers.authorization ?? '')?.[1] ?? '';
  const [, name, password] =
    /^([^:]*):([\s\S]*)$/.exec(Buffer.from(basic, 'base64').toString()) ?? [];
  const user =
    headers['x-clickhouse-user']?.toString() ?? url.searchParams.get('user') ?? name ?? '';
  const key =
    headers['x-clickhouse-key']?.toString() ?? url.searchParams.get('password') ?? password ?? '';
  if (user === 'service' && isSame(key, wanted)) return 'service';
  if (ANALYST_NAMES.has(user) && key === '' && !headers.authorization?.startsWith('Bearer')) {
    return 'analyst';
  }
  const reason = `${user || 'default'}: Authentication failed: password is incorrect, or there is no user with such name.`;
  throw new ClickHouseException(516, 'AUTHENTICATION_FAILED', reason);
}

/** Compares in constant time. */
function isSame(given: string, wanted: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(given), digest(wanted));
}

/** The settings of an analyst's statement. Throws ClickHouseException 164 for forbidden ones. */
export function analystSettings(requested: ReadonlyMap<string, string>): Map<string, string> {
  const settings = new Map(LIMITS);
  for (const [name, value] of requested) {
    if (name.startsWith('param_') || ANALYST_SETTINGS.has(name)) settings.set(name, value);
    else if (LOWERABLE.has(name)) settings.set(name, lowered(name, value));
    else throw readonly(`Cannot modify '${name}' setting in readonly mode.`);
  }
  return settings.set('readonly', '1');
}

/** The database of an analyst's request. Throws ClickHouseException 81 for one that is not open to analysts. */
export function analystDatabase(requested: string | undefined): string | undefined {
  // `default` is empty, but clients send its name.
  if (requested === undefined || requested === 'default' || ANALYST_DATABASES.has(requested)) {
    return requested;
  }
  throw new ClickHouseException(81, 'UNKNOWN_DATABASE', `Database ${requested} does not exist.`);
}

/**
 * Throws ClickHouseException unless the statement is a harmless read. `text` is the statement as the engine formats it,
 * without comments, and `tree` what EXPLAIN AST prints for it.
 */
export function refuseUnlessRead(text: string, tree: string): void {
  const withoutStrings = text.replaceAll(/'(?:[^'\\]|\\.)*'/gs, "''");
  // A line break in a name could look like another line of the tree.
  if (withoutStrings.includes('\\'))
    throw denied('Names may not contain line breaks or backslashes.');
  if (NAME_PARAMETER.test(withoutStrings))
    throw denied('Analysts may not use parameters of type Identifier.');
  try {
    refuseUnlessHarmless(tree, text);
  } catch (error) {
    if (!(error instanceof RefusedStatementError)) throw error;
    throw denied(error.message);
  }
}

function lowered(name: string, value: string): string {
  const limit = Number(LIMITS.get(name));
  const requested = Number(value);
  // 0 means no limit.
  if (requested > 0 && requested <= limit) return value;
  throw readonly(`Setting '${name}' may be from 1 to ${limit} in readonly mode.`);
}

export function readonly(reason: string): ClickHouseException {
  return new ClickHouseException(164, 'READONLY', reason);
}

function denied(reason: string): ClickHouseException {
  return new ClickHouseException(497, 'ACCESS_DENIED', reason);
}
