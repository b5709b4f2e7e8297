/** `fillstream export`: fills as CSV, JSON lines or Parquet, page by page from the API, or of everybody from ClickHouse. */
import { type Call, command, Failure, timeOf, UsageError } from './command.ts';
import { csvRow, flat } from './format.ts';

const PAGE_MAX = 1_000;
const CLICKHOUSE_FORMATS = { csv: 'CSVWithNames', json: 'JSONEachRow', parquet: 'Parquet' };

export const exportFills = command({
  summary: 'fills of a trader, matches of a market, or all fills of a time',
  usage: 'trader ADDRESS | market MARKET | fills',
  takes: [1, 2],
  options: {
    from: { value: 'TIME', text: 'only from this time on, ISO 8601' },
    to: { value: 'TIME', text: 'only until this time' },
    market: { value: 'MARKET', text: 'trader: only this market' },
    side: { value: 'SIDE', choices: ['BUY', 'SELL'], text: 'trader: only this side' },
    format: {
      value: 'FORMAT',
      choices: ['csv', 'json', 'parquet'],
      text: 'default: csv; json is a line per fill; parquet is for fills only',
    },
    clickhouse: { value: 'URL', text: 'fills: where ClickHouse is (default: CLICKHOUSE_URL)' },
  },
  more: `trader   every final fill, newest first, in micro-units as in the API
market   every final match with the fill of its taker, newest first, in micro-units
fills    every fill of the time in analyst.fills, in USDC and shares, from ClickHouse: \`npm start\` prints its URL.
         A URL with a password belongs into CLICKHOUSE_URL, where no list of processes shows it.

Nothing is complete before the command ends with 0.`,
  examples: [
    'export trader 0x… > fills.csv',
    'export market will-it-rain --from 2026-01-01 --format json > matches.jsonl',
    'export fills --from 2026-01-01 --to 2026-01-02 --format parquet --clickhouse URL > day.parquet',
  ],
  async run({ args, client, flags, signal, screen, env, write }) {
    const [what, id] = args;
    const { format = 'csv', from, to, market, side } = flags;
    const [fromMs, toMs] = [timeOf('--from', from), timeOf('--to', to)];
    if (what === 'fills') {
      if (id !== undefined) throw new UsageError(`unexpected argument: ${id}`);
      if (fromMs === undefined || toMs === undefined) {
        throw new UsageError('export fills needs --from and --to');
      }
      if (format === 'parquet' && screen.width !== Number.POSITIVE_INFINITY) {
        throw new UsageError('Parquet is not for a terminal: add > FILE');
      }
      const url = clickhouseUrl(flags.clickhouse, env.CLICKHOUSE_URL);
      await exportRange({ url, fromMs, toMs, format: CLICKHOUSE_FORMATS[format] }, signal, write);
      return;
    }
    if (what !== 'trader' && what !== 'market') throw new UsageError(`cannot export ${what}`);
    if (id === undefined) throw new UsageError(`missing argument: export ${what} ID`);
    if (format === 'parquet') throw new UsageError('--format parquet is for export fills');
    const fillstream = client();
    const limit = PAGE_MAX;
    if (what === 'trader') {
      const query = { market, side, from: isoOf(fromMs), to: isoOf(toMs), limit };
      await printPages(pagesOf(fillstream.traderTrades(id, query).pages()), format, write);
      return;
    }
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

/** The entries of a time, from pages of which the newest is first. */
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

async function printPages(
  pages: AsyncIterable<readonly object[]>,
  format: 'csv' | 'json',
  write: Call['write'],
): Promise<void> {
  let names: string[] | undefined;
  for await (const page of pages) {
    const [first] = page;
    if (first === undefined) continue;
    if (format === 'json') {
      await write(page.map((entry) => `${JSON.stringify(entry)}\n`).join(''));
      continue;
    }
    const head = names === undefined;
    names ??= Object.keys(flat(first));
    const columns = names;
    const rows = page.map((entry) => {
      const cells = flat(entry);
      return csvRow(columns.map((name) => cells[name]));
    });
    await write((head ? csvRow(columns) : '') + rows.join(''));
  }
}

/** Throws UsageError without a URL, and for a password among the arguments. */
function clickhouseUrl(argument: string | undefined, variable: string | undefined): URL {
  const text = argument ?? variable;
  if (text === undefined) throw new UsageError('set CLICKHOUSE_URL, or give --clickhouse URL');
  if (!URL.canParse(text)) throw new UsageError('the URL of ClickHouse is none');
  const url = new URL(text);
  if (argument !== undefined && url.password !== '') {
    throw new UsageError('a URL with a password belongs into CLICKHOUSE_URL');
  }
  return url;
}

async function exportRange(
  { url, fromMs, toMs, format }: { url: URL; fromMs: number; toMs: number; format: string },
  signal: AbortSignal,
  write: Call['write'],
): Promise<void> {
  const { username, password } = url;
  const address = new URL(url);
  address.username = '';
  address.password = '';
  // An error in the middle would be part of the output.
  address.searchParams.set('wait_end_of_query', '1');
  address.searchParams.set('param_from', String(Math.ceil(fromMs / 1_000)));
  address.searchParams.set('param_to', String(Math.floor(toMs / 1_000)));
  const body = `SELECT * FROM analyst.fills
    WHERE time >= toDateTime({from:UInt32}) AND time <= toDateTime({to:UInt32})
    ORDER BY block_number, log_index FORMAT ${format}`;
  const login = Buffer.from(decodeURIComponent(`${username}:${password}`)).toString('base64');
  const headers = username === '' ? {} : { Authorization: `Basic ${login}` };
  const response = await fetch(address, { method: 'POST', body, headers, signal }).catch(
    (error) => {
      signal.throwIfAborted();
      throw new Failure(`ClickHouse cannot be reached at ${address.origin}`, { cause: error });
    },
  );
  if (!response.ok || response.body === null) {
    const [line = ''] = (await response.text()).split('\n');
    throw new Failure(`ClickHouse answered ${response.status}: ${line}`);
  }
  for await (const chunk of response.body) await write(chunk);
}
