/**
 * A Model Context Protocol server: the API's endpoints as read-only tools for language models. It calls the
 * API with a key, so tiers, rate limits and errors are those of the API. An API error becomes a tool error
 * with the problem's detail. Lists are short unless the model asks for more.
 */
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { z } from 'zod';
import { tradersBatch } from '../../api/analytics/batch.ts';
import { candlesV2 } from '../../api/analytics/candles.ts';
import { holdersV2 } from '../../api/analytics/holders.ts';
import { leaderboardV2 } from '../../api/analytics/leaderboard.ts';
import { marketDetailV2 } from '../../api/analytics/market.ts';
import { marketTradesV2 } from '../../api/analytics/market-trades.ts';
import { marketsV2 } from '../../api/analytics/markets.ts';
import { positionsV2 } from '../../api/analytics/positions.ts';
import { search } from '../../api/analytics/search.ts';
import { traderV2 } from '../../api/analytics/trader.ts';
import { traderTradesV2 } from '../../api/analytics/trader-trades.ts';
import { recentMatches } from '../../api/feed/recent.ts';
import { ADDRESS } from '../../api/http/parameters.ts';
import { status } from '../../api/service/status.ts';
import { RefusedStatementError, refuseUnlessHarmless } from '../../infra/analyst/guard.ts';
import { boundedBody, ResponseTooLongError } from '../../infra/http-request.ts';
import { createCallerSlots, createSlots, TooManyWaitingError } from '../../infra/slots.ts';
import manifest from '../cli/package.json' with { type: 'json' };
import { type Fillstream, FillstreamError } from '../client/index.ts';
import { PARAMETERS } from '../client/parameters.ts';
import { toolInput } from './input.ts';

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
const COMPARED_MAX = 20;
const FILTERED_MAX = 5;

const INSTRUCTIONS = `Analytics of a prediction-market exchange, from final blocks.
Amounts (pnl, volume, usdc, shares, value, fee) are micro-units: divide by 1,000,000 for USDC or shares. In
\`query\`, amounts are whole USDC and shares. ROI, win rates and shares of a total are percent. Times are UTC.
To find an address or a market by its name, call \`search\` first.`;

const address = z.string().regex(ADDRESS).describe('wallet address, 0x and 40 hexadecimal digits');
const market = z.string().min(1).max(200).describe('market id, condition id or slug');
const word = z.string().min(1).max(100);
const size = z.number().min(0).optional();
const instant = z.string().max(40).optional();
const cursor = z.string().max(200).optional().describe('`next_cursor` of the previous page');

function limit(most: number, usual: number) {
  return z.int().min(1).max(most).default(usual).describe(`maximum entries, 1 to ${most}`);
}

type Sent = { readonly query?: Readonly<Record<string, unknown>>; readonly body?: unknown };
type Request = readonly [method: 'GET' | 'POST', path: string, sent?: Sent];

/** Checks the type of a tool's input against its request. */
function tool<Input extends z.ZodObject>(one: {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly input: Input;
  readonly output: z.ZodObject;
  readonly request: (input: z.output<Input>) => Request;
}) {
  const { request, ...described } = one;
  // The SDK has parsed the input with this schema.
  return { ...described, request: (input: unknown) => request(input as z.output<Input>) };
}

const { leaderboard, marketCandles, marketHolders, markets, traderPositions, traderTrades } =
  PARAMETERS;

const TOOLS = [
  tool({
    name: 'leaderboard',
    title: 'Leaderboard',
    description: 'The best traders of a time frame, by PnL, ROI, win rate, markets or volume.',
    input: toolInput({
      time_frame: z.enum(leaderboard.time_frame.enum).default('7D'),
      sort_by: z.enum(leaderboard.sort_by.enum).default('pnl'),
      order: z.enum(leaderboard.order.enum).default('desc').describe('asc: the worst first'),
      tag: z
        .string()
        .max(100)
        .optional()
        .describe('only markets with this tag: crypto, politics …'),
      market: market.optional().describe('only this market, by id, condition id or slug'),
      min_market_count: z.int().min(0).optional().describe('minimum markets in the time frame'),
      min_pnl: z.int().optional().describe('minimum PnL, whole USDC'),
      limit: limit(100, 10),
    }),
    output: leaderboardV2.answer,
    request: (query) => ['GET', '/v2/analytics/leaderboard', { query }],
  }),
  tool({
    name: 'trader',
    title: 'Trader',
    description:
      'A trader: name, balance, fee tier, and the PnL and ROI of the last 30 days by tag. compare_traders has time windows.',
    input: toolInput({ address }),
    output: traderV2.answer,
    request: (input) => ['GET', `/v2/traders/${input.address}`],
  }),
  tool({
    name: 'compare_traders',
    title: 'Compare traders',
    description: `PnL, ROI, volume and position totals of up to ${COMPARED_MAX} traders side by side.`,
    input: toolInput({ addresses: z.array(address).min(1).max(COMPARED_MAX) }),
    output: tradersBatch.answer,
    request: (body) => ['POST', '/v2/traders/batch', { body }],
  }),
  tool({
    name: 'positions',
    title: 'Positions of a trader',
    description: 'What a trader holds: shares, average price, value, realised and unrealised PnL.',
    input: toolInput({
      address,
      status: z.enum(traderPositions.status.enum).default('open'),
      sort_by: z.enum(traderPositions.sort_by.enum).default('value'),
      order: z.enum(traderPositions.order.enum).default('desc'),
      limit: limit(50, 10),
      cursor,
    }),
    output: positionsV2.answer,
    request: ({ address, ...query }) => ['GET', `/v2/traders/${address}/positions`, { query }],
  }),
  tool({
    name: 'trades',
    title: 'Trades of a trader',
    description: "A trader's fills, newest first, in one market or all.",
    input: toolInput({
      address,
      market: market.optional(),
      side: z.enum(traderTrades.side.enum).optional(),
      min_usdc: z.number().min(0).optional().describe('minimum size of a fill, whole USDC'),
      from: instant.describe('earliest time, ISO 8601'),
      to: instant.describe('latest time, ISO 8601'),
      limit: limit(100, 20),
      cursor,
    }),
    output: traderTradesV2.answer,
    request: ({ address, ...query }) => ['GET', `/v2/traders/${address}/trades`, { query }],
  }),
  tool({
    name: 'search',
    title: 'Search',
    description: 'Markets and traders by words, name, id, beginning of an address, or URL.',
    input: toolInput({ q: z.string().min(1).max(300), limit: limit(20, 5) }),
    output: search.answer,
    request: (query) => ['GET', '/v2/search', { query }],
  }),
  tool({
    name: 'markets',
    title: 'List of markets',
    description: 'Markets by volume, traders, price change, age or end date.',
    input: toolInput({
      q: z.string().min(1).max(200).optional().describe('words of the question'),
      tag: z.string().max(100).optional(),
      status: z.enum(markets.status.enum).default('open'),
      sort_by: z.enum(markets.sort_by.enum).default('volume_24h'),
      limit: limit(50, 10),
      cursor,
    }),
    output: marketsV2.answer,
    request: (query) => ['GET', '/v2/markets', { query }],
  }),
  tool({
    name: 'market',
    title: 'Market',
    description: 'A market: question, outcomes, resolution, volume, traders and top earners.',
    input: toolInput({ market }),
    output: marketDetailV2.answer,
    request: (input) => ['GET', marketPath(input.market)],
  }),
  tool({
    name: 'candles',
    title: 'Candles of a market',
    description:
      'Open, high, low, close and volume of a market by interval. Set `from` to limit the period.',
    input: toolInput({
      market,
      interval: z.enum(marketCandles.interval.enum).default('1d'),
      from: instant.describe('a time in the first candle, ISO 8601; default: 300 candles ago'),
      to: instant.describe('a time in the last candle, ISO 8601; default: now'),
    }),
    output: candlesV2.answer,
    request: ({ market, ...query }) => ['GET', `${marketPath(market)}/candles`, { query }],
  }),
  tool({
    name: 'recent_matches',
    title: 'Recent matches of the whole feed',
    description:
      'Matches of all markets and traders when they are first seen, oldest first: the newest ones, or from up to 72 hours ago (unless the operator chose another time) with `from`. Matches may be pending: a `void` event retracts one by its match_id, and with `finality` a `final` event says that one is final. A call reads at most 16,384 messages of the feed (about half an hour). If `more` is true, continue with `from` = `cursor`. If `gap` is true, the feed no longer has everything after `from`. For older matches use `market_trades` or `trades`.',
    input: toolInput({
      traders: z.array(address).max(COMPARED_MAX).optional().describe('any participant counts'),
      tags: z.array(word).max(FILTERED_MAX).optional().describe('any of crypto, politics …'),
      series: z.array(word).max(FILTERED_MAX).optional().describe('slugs of series'),
      markets: z.array(market).max(COMPARED_MAX).optional(),
      min_usdc: size.describe('minimum value of the taker order, whole USDC'),
      max_usdc: size.describe('maximum value of the taker order, whole USDC'),
      min_shares: size.describe('minimum shares of the taker order, whole shares'),
      max_shares: size.describe('maximum shares of the taker order, whole shares'),
      min_price: size.describe('minimum price, 0 to 100'),
      max_price: size.describe('maximum price, 0 to 100'),
      finality: z.boolean().default(false).describe('also return `final` events'),
      from: z
        .string()
        .max(40)
        .optional()
        .describe('an ISO 8601 time, or the `cursor` of an earlier result; default: the newest'),
      limit: limit(100, 20),
    }),
    output: recentMatches.answer,
    request: (input) => [
      'GET',
      '/v2/recent_matches',
      // Models may send an empty list for no filter, which the API would reject.
      { query: Object.fromEntries(Object.entries(input).filter(([, one]) => String(one) !== '')) },
    ],
  }),
  tool({
    name: 'market_trades',
    title: 'Trades of a market',
    description:
      'Every final match of one market since it opened, newest first, with the fill of its taker.',
    input: toolInput({ market, limit: limit(100, 20), cursor }),
    output: marketTradesV2.answer,
    request: ({ market, ...query }) => ['GET', `${marketPath(market)}/trades`, { query }],
  }),
  tool({
    name: 'holders',
    title: 'Holders of a market',
    description: 'Who holds shares of a market, largest holdings first.',
    input: toolInput({
      market,
      outcome: z
        .enum(marketHolders.outcome.enum)
        .default('both')
        .describe('0 is the first outcome'),
      limit: limit(50, 10),
      cursor,
    }),
    output: holdersV2.answer,
    request: ({ market, ...query }) => ['GET', `${marketPath(market)}/holders`, { query }],
  }),
  tool({
    name: 'status',
    title: 'Status',
    description: 'How fresh the data is: blocks, ages and delays.',
    input: toolInput({}),
    output: status.answer,
    request: () => ['GET', '/v2/status'],
  }),
];

const QUERY = {
  name: 'query',
  title: 'SQL query',
  description: `One SELECT on ClickHouse as the read-only analyst, 30 s, at most ${SQL_ROWS_MAX} rows: use LIMIT and no FORMAT. \`SHOW TABLES\` and \`DESCRIBE TABLE fills\` show the views. Amounts are whole USDC and shares.`,
  input: toolInput({ sql: z.string().min(1).max(SQL_CHARACTERS_MAX) }),
  output: z.object({
    columns: z.array(z.object({ name: z.string(), type: z.string() })),
    rows: z.array(z.array(z.unknown())).describe('values in the order of the columns'),
  }),
};

const Result = z.object({
  meta: QUERY.output.shape.columns,
  data: QUERY.output.shape.rows,
});

/** Statements at a time, of all callers. */
const querySlots = createSlots(QUERIES_MAX);
/** One statement at a time of each account. */
const accountSlots = createCallerSlots(1, QUERIES_WAITING_MAX);

/** The analyst's ClickHouse rejected the statement or was unreachable, or too many statements wait. */
class QueryError extends Error {}

const LISTED = TOOLS.map(listed);
const LISTED_WITH_QUERY = [...LISTED, listed(QUERY)];

/** One server per connection. Without `analystUrl` there is no tool `query`. */
export function createMcpServer(
  api: Pick<Fillstream, 'request'>,
  analystUrl: string | undefined,
  account: string,
): McpServer {
  const server = new McpServer(
    { name: 'fillstream', title: 'Fillstream', version: manifest.version },
    { instructions: INSTRUCTIONS },
  );
  for (const { name, input, output, request } of TOOLS) {
    const schemas = { inputSchema: input, outputSchema: output };
    server.registerTool(name, schemas, (input, { signal }) => {
      const [method, path, sent] = request(input);
      return resultOf(api.request<Record<string, unknown>>(method, path, sent, { signal }));
    });
  }
  if (analystUrl !== undefined) {
    const schemas = { inputSchema: QUERY.input, outputSchema: QUERY.output };
    server.registerTool(QUERY.name, schemas, ({ sql }, { signal }) =>
      resultOf(inTurn(account, signal, () => runQuery(analystUrl, sql, signal))),
    );
  }
  const tools = analystUrl === undefined ? LISTED : LISTED_WITH_QUERY;
  server.server.setRequestHandler(ListToolsRequestSchema, () => ({ tools }));
  return server;
}

/**
 * A tool as `tools/list` shows it. The SDK would write its schemas in draft 7; MCP expects 2020-12, and hosts refuse
 * schemas that name another draft.
 */
function listed(tool: {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly input: z.ZodObject;
  readonly output: z.ZodObject;
}) {
  const { name, title, description, input, output } = tool;
  return {
    ...{ name, title, description },
    inputSchema: { ...z.toJSONSchema(input, { io: 'input' }), type: 'object' as const },
    outputSchema: { ...z.toJSONSchema(output), type: 'object' as const },
    annotations: { title, readOnlyHint: true, idempotentHint: true, openWorldHint: false },
  };
}

function marketPath(market: string): string {
  return `/v2/markets/${encodeURIComponent(market)}`;
}

async function resultOf(answer: Promise<Record<string, unknown>>) {
  try {
    const structuredContent = await answer;
    const text = JSON.stringify(structuredContent);
    return { structuredContent, content: [{ type: 'text' as const, text }] };
  } catch (error) {
    if (!(error instanceof FillstreamError || error instanceof QueryError)) throw error;
    return { isError: true, content: [{ type: 'text' as const, text: describe(error) }] };
  }
}

function describe(error: FillstreamError | QueryError): string {
  if (error instanceof QueryError) return error.message;
  const { code, message, retryAfterSeconds } = error;
  const wait = retryAfterSeconds > 0 ? ` (try again in ${retryAfterSeconds} s)` : '';
  return `${code}: ${message}${wait}`;
}

async function inTurn<T>(account: string, signal: AbortSignal, run: () => Promise<T>): Promise<T> {
  try {
    return await accountSlots(account, signal, () => querySlots(signal, run));
  } catch (error) {
    if (!(error instanceof TooManyWaitingError)) throw error;
    throw new QueryError(
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
    throw new QueryError(error.message);
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
 * The text of the response. Throws QueryError for an error of ClickHouse, and for a response that is too large or in
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
      if (error instanceof ResponseTooLongError) throw new QueryError(TOO_LARGE);
      throw new QueryError('the analysts’ ClickHouse did not respond');
    });
  if (isGood && format === settings.default_format) return text;
  if (isGood) throw new QueryError('leave out FORMAT: the tool returns columns and rows');
  if (text.includes(RESULT_LIMIT) || text.includes(MEMORY_LIMIT)) throw new QueryError(TOO_LARGE);
  throw new QueryError(text.slice(0, 1_000));
}
