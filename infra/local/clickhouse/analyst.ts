// The gate of the read-only user. The engine has no users, and its `readonly=1` is not enough.
// Measured under it: INTO OUTFILE and KILL run; `SELECT file('…')` reads any file, also with the
// name spelt by an escape (`f\x69le`) or hidden in APPLY; DESCRIBE url(…), s3(…), sqlite(…) reach
// the network or make files. So: one statement that the engine's parser calls a read, of a few
// kinds, without that function; then readonly=1 and limits. In doubt it refuses.
import type { Statement } from './engine.ts';
import { ClickHouseException } from './exception.ts';

/** Calls of analysts that run at once. */
export const ANALYST_CALLS_MAX = 2;
export const ANALYST_TEXT_BYTES_MAX = 256 * 2 ** 10;

/** Limits of every analyst's call; `readonly` comes last, since it freezes the others. */
const LIMITS = new Map([
  // A GROUP BY or ORDER BY beyond these goes to disk instead of failing at max_memory_usage.
  ['max_bytes_before_external_group_by', String(300 * 2 ** 20)],
  ['max_bytes_before_external_sort', String(300 * 2 ** 20)],
  ['max_execution_time', '30'],
  ['max_memory_usage', String(2 ** 30)],
  ['max_result_bytes', String(64 * 2 ** 20)],
  ['max_result_rows', '1000000'],
  ['max_threads', '2'],
  // Reordering flattens the joins inside views and mixes up columns of one name (error 352 or 49).
  ['query_plan_optimize_join_order_limit', '0'],
  ['result_overflow_mode', 'throw'],
  ['timeout_overflow_mode', 'throw'],
  // The indexes of the analysts' views are on columns of the key: FINAL need not widen what they chose.
  ['use_skip_indexes_if_final_exact_mode', '0'],
]);

/** Limits that a caller may lower. */
const LOWERABLE = new Set(['max_execution_time', 'max_result_rows', 'max_threads']);

const CLIENT_SETTINGS = new Set([
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

/** The settings of an analyst's call. Throws ClickHouseException 164 for one that is not theirs. */
export function analystSettings(asked: ReadonlyMap<string, string>): Map<string, string> {
  const settings = new Map(LIMITS);
  for (const [name, value] of asked) {
    if (name.startsWith('param_') || CLIENT_SETTINGS.has(name)) settings.set(name, value);
    else if (LOWERABLE.has(name)) settings.set(name, lower(name, value));
    else throw readonly(`Cannot modify '${name}' setting in readonly mode.`);
  }
  return settings.set('readonly', '1');
}

/** Throws ClickHouseException when the text is not one harmless read. */
export function refuseUnlessRead(text: string, statement: Statement): void {
  if (statement.kind !== 'read') throw readonly('Cannot execute query in readonly mode.');
  // ClickHouse ends a comment where this does: `--` at a line feed, `/*` at the first `*/`.
  const bare = text.replace(/^(?:\s|--[^\n]*(?:\n|$)|\/\*[\s\S]*?\*\/)*/, '');
  const select = /^\(*\s*(?:SELECT|WITH|EXPLAIN)\b/i.test(bare) && !/\bOVERRIDE\b/i.test(bare);
  // No parentheses and no slashes: neither a table function nor the path of a file as a name.
  const show = /^(?:SHOW|EXISTS|DESC|DESCRIBE)\b[\w\s.,;%'=`"-]*$/i.test(bare);
  if (!select && !show) {
    throw denied('Analysts may use SELECT, WITH, EXPLAIN, and SHOW, EXISTS, DESCRIBE of a table.');
  }
  if (/\bfile\b/i.test(text)) {
    throw denied(
      "Analysts may not read files: the word 'file' is refused, in a text too; bind that as {value:String}.",
    );
  }
  if (/[`"]/.test(text) && text.includes('\\')) {
    throw denied('A text with a backslash may have no quoted names; bind values as parameters.');
  }
}

function lower(name: string, value: string): string {
  const limit = Number(LIMITS.get(name));
  const asked = Number(value);
  // 0 means without limit.
  if (asked > 0 && asked <= limit) return value;
  throw readonly(`Setting '${name}' may be from 1 to ${limit} in readonly mode.`);
}

function readonly(reason: string): ClickHouseException {
  return new ClickHouseException(164, 'READONLY', reason);
}

function denied(reason: string): ClickHouseException {
  return new ClickHouseException(497, 'ACCESS_DENIED', reason);
}
