/**
 * Who may connect and what they may do. `default` may do everything; `analyst` may run one harmless read
 * at a time, within limits. The engine itself has no users, and its `readonly=1` is not enough. Measured
 * under it: INTO OUTFILE and KILL run; `SELECT file('…')` reads any file, also when the name is escaped
 * (`f\x69le`) or hidden in APPLY; DESCRIBE url(…), s3(…) and sqlite(…) reach the network or create files.
 * So an analyst's statement must be a single read by the engine's own parser, of a few known kinds, and
 * without that function. It then runs with readonly=1 and limits. In case of doubt it is refused.
 */
import type { IncomingMessage } from 'node:http';
import { ClickHouseException } from './exception.ts';

export type User = 'default' | 'analyst';

/** Limits of every analyst statement; `readonly` is added last, since it freezes the others. */
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
  'join_use_nulls',
  'log_comment',
  'output_format_json_named_tuples_as_objects',
  'output_format_json_quote_64bit_floats',
  'output_format_json_quote_64bit_integers',
  'output_format_json_quote_decimals',
  'output_format_json_quote_denormals',
  'session_timezone',
]);

/**
 * Returns the user of a request. Neither user has a password, because the server listens on loopback
 * only. Throws ClickHouseException 516 for all other credentials, and for `default` from a web page.
 */
export function authenticate({ headers }: IncomingMessage, url: URL): User {
  const basic = /^Basic (.+)$/i.exec(headers.authorization ?? '')?.[1] ?? '';
  const [, name, password] =
    /^([^:]*):([\s\S]*)$/.exec(Buffer.from(basic, 'base64').toString()) ?? [];
  const user =
    headers['x-clickhouse-user']?.toString() ?? url.searchParams.get('user') ?? name ?? '';
  const key =
    headers['x-clickhouse-key']?.toString() ?? url.searchParams.get('password') ?? password ?? '';
  const isAnalyst = user === 'analyst';
  const isKnown = isAnalyst || user === '' || user === 'default';
  // A web page must not reach the full-access user through its reader's browser.
  const isLocal = /^(127\.0\.0\.1|localhost)(:\d+)?$/.test(headers.host ?? '');
  const isForeign = !isAnalyst && (headers.origin !== undefined || !isLocal);
  if (!isKnown || isForeign || key !== '' || headers.authorization?.startsWith('Bearer')) {
    const known = 'default (not from a web page) and analyst, both without password';
    const reason = `${user || 'default'}: Authentication failed; the users are ${known}.`;
    throw new ClickHouseException(516, 'AUTHENTICATION_FAILED', reason);
  }
  return isAnalyst ? 'analyst' : 'default';
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

/** Throws ClickHouseException unless the one statement is a harmless read; `isRead` is the parser's view. */
export function refuseUnlessRead(text: string, isRead: boolean): void {
  if (!isRead) throw readonly('Cannot execute query in readonly mode.');
  // Strips comments where ClickHouse ends them: `--` at a line feed, `/*` at the first `*/`.
  const bare = text.replace(/^(?:\s|--[^\n]*(?:\n|$)|\/\*[\s\S]*?\*\/)*/, '');
  const isSelect = /^\(*\s*(?:SELECT|WITH|EXPLAIN)\b/i.test(bare) && !/\bOVERRIDE\b/i.test(bare);
  // No parentheses and no slashes: neither a table function nor a file path used as a name.
  const isShow = /^(?:SHOW|EXISTS|DESC|DESCRIBE)\b[\w\s.,;%'=`"-]*$/i.test(bare);
  if (!isSelect && !isShow) {
    throw denied('Analysts may use SELECT, WITH, EXPLAIN, and SHOW, EXISTS, DESCRIBE of a table.');
  }
  if (/\bfile\b/i.test(text)) {
    throw denied(
      "Analysts may not read files: the word 'file' is refused, even in a string; bind it as {value:String}.",
    );
  }
  if (/[`"]/.test(text) && text.includes('\\')) {
    throw denied(
      'A statement with a backslash may not have quoted names; bind values as parameters.',
    );
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
