/** `fillstream export`: fills as CSV, JSON lines or Parquet, either page by page from the API or from ClickHouse. */
import { ExpectedError, UsageError } from '../../infra/expected.ts';
import { backoffMs, pause } from '../client/http.ts';
import { traderAddress } from '../client/index.ts';
import { PARAMETERS } from '../client/parameters.ts';
import { type Call, command, httpUrl, TRADER, timeOf } from './command.ts';
import { printPages } from './format.ts';

const { marketTrades, traderTrades } = PARAMETERS;
const CLICKHOUSE_FORMATS = {
  csv: 'CSVWithNames',
  json: 'JSONEachRow',
  parquet: 'Parquet',
} as const;
type ClickHouseFormat = (typeof CLICKHOUSE_FORMATS)[keyof typeof CLICKHOUSE_FORMATS];
/** The clock of this machine may be behind that of the chain. */
const AHEAD_SECONDS = 86_400;
const PARQUET_ADVICE =
  '; Parquet takes one query: export a shorter period, csv or json, or use a ClickHouse user without this limit';

export const exportFills = command({
  summary: 'fills of a trader, a market or a period; matches of a market',
  usage: 'trader TRADER | market MARKET | fills',
  takes: [1, 2],
  options: {
    from: {
      value: 'TIME',
      text: 'only from this time, inclusive: ISO 8601, or seconds since 1970',
    },
    to: { value: 'TIME', text: 'only until this time, inclusive' },
    trader: { value: 'ADDRESS', text: 'fills: only of this trader' },
    market: { value: 'MARKET', text: 'trader, fills: only this market' },
    side: { value: 'SIDE', choices: traderTrades.side.enum, text: 'trader, fills: only this side' },
    format: {
      value: 'FORMAT',
      choices: ['csv', 'json', 'parquet'],
      text: 'default: csv; json has a line per fill; parquet works only with fills',
    },
    clickhouse: { value: 'URL', text: 'fills: URL of ClickHouse (default: CLICKHOUSE_URL)' },
  },
  more: `${TRADER}

trader   every final fill, newest first, in micro-units as in the API
market   every final match with the fill of its taker, newest first, in micro-units
fills    every fill of a period, trader or market in analyst.fills, oldest first, in USDC and shares, from
         ClickHouse, whose URL \`npm start\` prints. A market is an id, slug or condition id. Put a URL with a
         password into CLICKHOUSE_URL, so that no process list shows it. csv and json take any period, in parts
         that fit the limits of the analysts; once the queries of an hour are used up, the export waits for the next.
         Parquet is one query, so at most 1,000,000 fills, 64 MiB and 30 s, unless the URL is of a user without
         these limits.

Both ends of a period belong to it, to the second: a day ends at 23:59:59.

The output is complete only if the exit code is 0.`,
  examples: [
    'export trader Ada > fills.csv',
    'export market will-it-rain --from 2026-01-01 --format json > matches.jsonl',
    'export fills --from 2026-01-01 --to 2026-01-01T23:59:59 --format parquet --clickhouse URL > day.parquet',
    'export fills --trader 0x… --format parquet --clickhouse URL > trader.parquet',
  ],
  async run({ args, client, flags, signal, screen, env, write, note }) {
    const [what, id] = args;
    const { format = 'csv', from, to, market, side, trader } = flags;
    const [fromMs, toMs] = [timeOf('--from', from), timeOf('--to', to)];
    if (what === 'fills') {
      if (id !== undefined) throw new UsageError(`unexpected argument: ${id}`);
      if (trader !== undefined && !/^0x[0-9a-f]{40}$/i.test(trader)) {
        throw new UsageError(`--trader must be an address: ${trader}`);
      }
      const isTime = fromMs !== undefined && toMs !== undefined;
      if (!isTime && trader === undefined && market === undefined) {
        throw new UsageError('export fills needs --from and --to, --trader or --market');
      }
      if (format === 'parquet' && screen.width !== Number.POSITIVE_INFINITY) {
        throw new UsageError('Parquet is binary: redirect it with > FILE');
      }
      const url = clickhouseUrl(flags.clickhouse, env.CLICKHOUSE_URL);
      const filters = { fromMs, toMs, trader, market, side };
      const wanted = { filters, format: CLICKHOUSE_FORMATS[format] };
      await exportFrom(url, wanted, { signal, write, note });
      return;
    }
    if (what !== 'trader' && what !== 'market') throw new UsageError(`cannot export ${what}`);
    if (trader !== undefined) throw new UsageError('--trader works only with export fills');
    if (id === undefined) throw new UsageError(`missing argument: export ${what} ID`);
    if (format === 'parquet') throw new UsageError('--format parquet works only with export fills');
    if (what === 'market' && (side !== undefined || market !== undefined)) {
      throw new UsageError('--side and --market do not work with export market');
    }
    const fillstream = client();
    if (what === 'trader') {
      const limit = traderTrades.limit.maximum;
      const address = await traderAddress(fillstream, id);
      const query = { market, side, from: isoOf(fromMs), to: isoOf(toMs), limit };
      await printPages(pagesOf(fillstream.traderTrades(address, query).pages()), format, write);
      return;
    }
    const limit = marketTrades.limit.maximum;
    const pages = pagesOf(fillstream.marketTrades(id, { limit }).pages());
    await printPages(between(pages, fromMs, toMs), format, write);
  },
});

function isoOf(ms: number | undefined): string | undefined {
  return ms === undefined ? undefined : new Date(ms).toISOString();
}

async function* pagesOf<Entry>(pages: AsyncIterable<{ readonly trades: readonly Entry[] }>) {
  for await (const { trades } of pages) yield trades;
}

/** The entries of a period, from pages with the newest entry first. */
async function* between<Entry extends { readonly time: string }>(
  pages: AsyncIterable<readonly Entry[]>,
  fromMs = Number.NEGATIVE_INFINITY,
  toMs = Number.POSITIVE_INFINITY,
) {
  for await (const page of pages) {
    yield page.filter(({ time }) => Date.parse(time) >= fromMs && Date.parse(time) <= toMs);
    const last = page.at(-1);
    if (last !== undefined && Date.parse(last.time) < fromMs) return;
  }
}

/** Throws UsageError without a URL, or if an argument contains a password. */
function clickhouseUrl(argument: string | undefined, variable: string | undefined): URL {
  const text = argument ?? variable;
  if (text === undefined) throw new UsageError('set CLICKHOUSE_URL or use --clickhouse URL');
  const url = httpUrl('the ClickHouse URL', text);
  if (argument !== undefined && url.password !== '') {
    throw new UsageError('put a URL with a password into CLICKHOUSE_URL');
  }
  return url;
}

type Filters = Readonly<
  Record<'trader' | 'market' | 'side', string | undefined> &
    Record<'fromMs' | 'toMs', number | undefined>
>;

/** A period in whole seconds, including both ends. */
type Period = { readonly from: number; readonly to: number };

/** Conditions on analyst.fills, whose times are whole seconds and whose addresses are in lower case. */
function conditionsOf({ trader, market, side }: Filters, { from, to }: Period) {
  const all = [
    ['from', 'time >= toDateTime({from:UInt32})', from],
    ['to', 'time <= toDateTime({to:UInt32})', to],
    ['trader', 'trader = {trader:String}', trader?.toLowerCase()],
    ['market', IN_MARKET, market],
    ['side', 'side = {side:String}', side],
  ] as const;
  return all.filter(([, , value]) => value !== undefined);
}

const IN_MARKET = `(condition_id = lower({market:String}) OR condition_id IN (
  SELECT condition_id FROM analyst.markets
  WHERE toString(market_id) = {market:String} OR slug = {market:String}))`;

const UINT32_MAX = 4_294_967_295;
/** Limits that a shorter period avoids. */
const LIMITS = /TOO_MANY_ROWS_OR_BYTES|TIMEOUT_EXCEEDED|MEMORY_LIMIT_EXCEEDED/;
/** Errors after which the same query can succeed later. */
const PASSING = /QUOTA_EXCEEDED|TOO_MANY_SIMULTANEOUS_QUERIES/;

/**
 * A user may have a limit on the result of a query. So the period is exported in parts, one after the other: shorter ones
 * when a limit was exceeded, longer ones when there is little. A Parquet file cannot be continued, so it is one query.
 * While the user's quota is used up, the export waits.
 */
async function exportFrom(
  url: URL,
  { filters, format }: { readonly filters: Filters; readonly format: ClickHouseFormat },
  { signal, write, note }: Pick<Call, 'signal' | 'write' | 'note'>,
): Promise<void> {
  const { fromMs = 0, toMs = UINT32_MAX * 1_000 } = filters;
  // Most of the time after now is empty, so halving it would only repeat the query.
  const end = Math.min(Math.floor(toMs / 1_000), Math.floor(Date.now() / 1_000) + AHEAD_SECONDS);
  let from = Math.ceil(fromMs / 1_000);
  let seconds = Math.max(1, end - from + 1);
  let bytesMost = 0;
  let isFirst = true;
  let refusals = 0;
  do {
    const to = Math.min(end, from + seconds - 1);
    const part = isFirst || format !== 'CSVWithNames' ? format : 'CSV';
    const response = await query(url, filters, { from, to }, part, signal);
    if (response.ok && response.body !== null) {
      const bytes = await copy(response.body, url, signal, write);
      // Even one twice as long is expected to be no larger than the largest that was allowed.
      if (bytes * 2 <= bytesMost) seconds *= 2;
      bytesMost = Math.max(bytesMost, bytes);
      isFirst = false;
      refusals = 0;
      from = to + 1;
      continue;
    }
    const [line = ''] = (await response.text()).split('\n');
    if (PASSING.test(line)) {
      // Nothing of this part was written.
      refusals += 1;
      if (refusals === 1) note(`waiting, because ClickHouse responded with ${line}`);
      await pause(backoffMs(refusals), signal);
      continue;
    }
    const isLimit = LIMITS.test(line);
    if (isLimit && format !== 'Parquet' && seconds > 1) {
      seconds = Math.ceil(seconds / 2);
      continue;
    }
    const advice = isLimit && format === 'Parquet' ? PARQUET_ADVICE : '';
    throw new ExpectedError(`ClickHouse responded with ${response.status}: ${line}${advice}`);
  } while (isFirst || from <= end);
}

async function query(
  url: URL,
  filters: Filters,
  period: Period,
  format: string,
  signal: AbortSignal,
): Promise<Response> {
  const { username, password } = url;
  const address = new URL(url);
  address.username = '';
  address.password = '';
  // Otherwise a late error would become part of the output.
  address.searchParams.set('wait_end_of_query', '1');
  const conditions = conditionsOf(filters, period);
  for (const [name, , value] of conditions) {
    address.searchParams.set(`param_${name}`, String(value));
  }
  const body = `SELECT * FROM analyst.fills
    WHERE ${conditions.map(([, condition]) => condition).join(' AND ')}
    ORDER BY block_number, log_index FORMAT ${format}`;
  const login = Buffer.from(decodeURIComponent(`${username}:${password}`)).toString('base64');
  const headers = username === '' ? {} : { Authorization: `Basic ${login}` };
  return await fetch(address, { method: 'POST', body, headers, signal }).catch((error) => {
    signal.throwIfAborted();
    throw new ExpectedError(`ClickHouse cannot be reached at ${address.origin}`, { cause: error });
  });
}

/** Returns the number of bytes. */
async function copy(
  body: ReadableStream<Uint8Array>,
  { origin }: URL,
  signal: AbortSignal,
  write: Call['write'],
): Promise<number> {
  let bytes = 0;
  const chunks = body[Symbol.asyncIterator]();
  const next = () =>
    chunks.next().catch((error) => {
      signal.throwIfAborted();
      throw new ExpectedError(`the connection to ${origin} was lost`, { cause: error });
    });
  for (let chunk = await next(); !chunk.done; chunk = await next()) {
    await write(chunk.value);
    bytes += chunk.value.length;
  }
  return bytes;
}
