/**
 * Authentication and permissions. `service` has the password of the data directory and is unrestricted. Requests
 * without a password are the analyst's, who may run one harmless read at a time, within limits.
 *
 * The engine has no users, and its `readonly=1` is not enough. We saw that it allows INTO OUTFILE and KILL; that
 * `SELECT file('…')` reads any file, even if the name is escaped (`f\x69le`), bound as an Identifier, or passed on
 * (`APPLY file`, `arrayMap(file, …)`); that `sqlite('…')` creates a file; and that DESCRIBE url(…) reaches the
 * network. So the engine's own parser must classify an analyst's statement as a single read, the statement must be of
 * a few known kinds, and none of its names may be one of those functions. We run the text that the engine has
 * formatted for this check, with readonly=1 and limits. When in doubt, the statement is refused.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { foreignRequest } from '../../loopback.ts';
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
const LOWERABLE = new Set(['max_execution_time', 'max_result_rows', 'max_threads']);

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

/** Table functions that read only tables and their arguments. All others are refused. */
const HARMLESS_TABLE_FUNCTIONS = new Set([
  'dictionary',
  'format',
  'generate_series',
  'generaterandom',
  'generateseries',
  'merge',
  'null',
  'numbers',
  'numbers_mt',
  'primes',
  'sqlstandardvalues',
  'values',
  'view',
  'zeros',
  'zeros_mt',
]);

/** Functions that read files or reach hosts, and clauses that write or could name such a function. */
const REFUSED_NAMES = new Set([
  'aiclassify',
  'aiembed',
  'aiextract',
  'aigenerate',
  'aitranslate',
  'catboostevaluate',
  'file',
  'hascolumnintable',
  'identifier',
  'outfile',
  'override',
  'reversednsquery',
]);

/** Matches strings, quoted names and words of a statement that the engine has formatted. */
const TOKENS = /'(?:[^'\\]|\\.)*'|`((?:[^`\\]|\\.)*)`|"((?:[^"\\]|\\.)*)"|([A-Za-z_]\w*)/gs;

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

/**
 * Throws ClickHouseException unless the statement is a harmless read. `text` is the statement as the engine formats it,
 * without comments and without escapes in names. `isRead` is the parser's classification. `tableFunctions` are all of
 * the engine's table functions, in lower case.
 */
export function refuseUnlessRead(
  text: string,
  isRead: boolean,
  tableFunctions: ReadonlySet<string>,
): void {
  if (!isRead) throw readonly('Cannot execute query in readonly mode.');
  const isSelect = /^\(*(?:SELECT|WITH|EXPLAIN)\b/.test(text);
  // Without parentheses and slashes there can be neither a table function nor a file path.
  const isShow = /^(?:SHOW|EXISTS|DESC|DESCRIBE)\b[\w\s.,;%'=`"-]*$/.test(text);
  if (!isSelect && !isShow) {
    throw denied('Analysts may use SELECT, WITH, EXPLAIN, and SHOW, EXISTS, DESCRIBE of a table.');
  }
  for (const [, backquoted, quoted, word] of text.matchAll(TOKENS)) {
    const name = (backquoted ?? quoted ?? word ?? '').toLowerCase();
    const isClosed = tableFunctions.has(name) && !HARMLESS_TABLE_FUNCTIONS.has(name);
    if (isClosed || REFUSED_NAMES.has(name)) {
      throw denied(`Analysts may not use the name ${name}: files and other servers are closed.`);
    }
  }
}

function lowered(name: string, value: string): string {
  const limit = Number(LIMITS.get(name));
  const requested = Number(value);
  // 0 means no limit.
  if (requested > 0 && requested <= limit) return value;
  throw readonly(`Setting '${name}' may be from 1 to ${limit} in readonly mode.`);
}

function readonly(reason: string): ClickHouseException {
  return new ClickHouseException(164, 'READONLY', reason);
}

function denied(reason: string): ClickHouseException {
  return new ClickHouseException(497, 'ACCESS_DENIED', reason);
}
