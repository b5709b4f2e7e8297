/** The tool `query`: one SELECT as the analyst. */
import { z } from 'zod';
import { RefusedStatementError, refuseUnlessHarmless } from '../../infra/analyst/guard.ts';
import { boundedBody, ResponseTooLongError } from '../../infra/http-request.ts';
import { createCallerSlots, createSlots, TooManyWaitingError } from '../../infra/slots.ts';
import { toolInput } from './input.ts';
import { type Tool, ToolError, tool } from './tool.ts';

const SQL_CHARACTERS_MAX = 20_000;
const SQL_ROWS_MAX = 500;
/** A result is parsed and written twice, so this also bounds how long it keeps other requests waiting. */
const SQL_BYTES_MAX = 1_000_000;
/** ClickHouse counts a constant column as one value, so only this limit holds for a large constant in many rows. */
const SQL_MEMORY_BYTES_MAX = 400 * 2 ** 20;
/** The types of ClickHouse's errors for max_result_rows and max_result_bytes, and for max_memory_usage. */
const RESULT_LIMIT = '(TOO_MANY_ROWS_OR_BYTES)';
const MEMORY_LIMIT = '(MEMORY_LIMIT_EXCEEDED)';
const TOO_LARGE = `the result is too large (at most ${SQL_ROWS_MAX} rows and ${SQL_BYTES_MAX} bytes): use LIMIT, fewer columns or a shorter period`;
const SQL_MS_MAX = 31_000;
const QUERIES_MAX = 4;
const QUERIES_WAITING_MAX = 4;

const Result = z.object({
  meta: z.array(z.object({ name: z.string(), type: z.string() })),
  data: z.array(z.array(z.unknown())),
});

/** Statements at a time, of all callers. */
const querySlots = createSlots(QUERIES_MAX);
/** One statement at a time of each account. */
const accountSlots = createCallerSlots(1, QUERIES_WAITING_MAX);

/** The tool of an account. */
export function queryTool(analystUrl: string, account: string): Tool {
  return tool({
    name: 'query',
    title: 'SQL query',
    description: `For all other questions: the rows of one SELECT on ClickHouse as the read-only analyst, at most 30 s and ${SQL_ROWS_MAX} rows. Use LIMIT and no FORMAT. \`SHOW TABLES\` and \`DESCRIBE TABLE fills\` show the views.`,
    input: toolInput({ sql: z.string().min(1).max(SQL_CHARACTERS_MAX) }),
    run: ({ sql }, { signal }) => inTurn(account, signal, () => runQuery(analystUrl, sql, signal)),
  });
}

async function inTurn<T>(account: string, signal: AbortSignal, run: () => Promise<T>): Promise<T> {
  try {
    return await accountSlots(account, signal, () => querySlots(signal, run));
  } catch (error) {
    if (!(error instanceof TooManyWaitingError)) throw error;
    throw new ToolError(
      `a query of this account runs and ${QUERIES_WAITING_MAX} wait: try again when one has ended`,
    );
  }
}

/**
 * Runs one statement as the analyst. The guard of the embedded ClickHouse runs here, too, because a server applies its
 * limits less strictly to SETTINGS in a subquery (ClickHouse#116028).
 */
async function runQuery(analystUrl: string, sql: string, cancelled: AbortSignal) {
  const signal = AbortSignal.any([cancelled, AbortSignal.timeout(SQL_MS_MAX)]);
  const tree = await sendQuery(
    analystUrl,
    `EXPLAIN AST ${sql}`,
    { default_format: 'TabSeparatedRaw' },
    signal,
  );
  try {
    refuseUnlessHarmless(tree, sql);
  } catch (error) {
    if (!(error instanceof RefusedStatementError)) throw error;
    throw new ToolError(error.message);
  }
  const settings = {
    ...{ default_format: 'JSONCompact', output_format_json_quote_decimals: '1' },
    ...{ max_result_bytes: String(SQL_BYTES_MAX), max_result_rows: String(SQL_ROWS_MAX) },
    max_memory_usage: String(SQL_MEMORY_BYTES_MAX),
  };
  const { meta, data } = Result.parse(
    JSON.parse(await sendQuery(analystUrl, sql, settings, signal)),
  );
  return { columns: meta, rows: data };
}

/**
 * The text of the response. Throws ToolError for an error of ClickHouse, and for a response that is too large or in
 * another format, which FORMAT in the statement has chosen.
 */
async function sendQuery(
  analystUrl: string,
  sql: string,
  settings: Readonly<Record<string, string>> & { readonly default_format: string },
  signal: AbortSignal,
): Promise<string> {
  const { origin, pathname, username, password } = new URL(analystUrl);
  const search = new URLSearchParams({ database: 'analyst', wait_end_of_query: '1', ...settings });
  const user = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  const headers: Record<string, string> =
    username === '' ? {} : { Authorization: `Basic ${Buffer.from(user).toString('base64')}` };
  const request = fetch(`${origin}${pathname}?${search}`, {
    ...{ method: 'POST', body: sql, headers, signal },
  });
  const [isGood, format, text] = await request
    .then(async (response) => {
      const body = await boundedBody(response, SQL_BYTES_MAX);
      return [response.ok, response.headers.get('X-ClickHouse-Format'), body.toString()] as const;
    })
    .catch((error: unknown) => {
      if (error instanceof ResponseTooLongError) throw new ToolError(TOO_LARGE);
      throw new ToolError('the analysts’ ClickHouse did not respond');
    });
  if (isGood && format === settings.default_format) return text;
  if (isGood) throw new ToolError('leave out FORMAT: the tool returns columns and rows');
  if (text.includes(RESULT_LIMIT) || text.includes(MEMORY_LIMIT)) throw new ToolError(TOO_LARGE);
  throw new ToolError(text.slice(0, 1_000));
}
