/**
 * `fillstream tail`: the live feed. Its guarantee depends on the output. The command cannot check what the reader of
 * standard output received. So with `--state`, an event that was printed just before a crash is printed again: at least
 * once, unless that reader dies. A file that the command appends to is its own state: the command continues after the
 * file's last complete line, so the file has each event exactly once.
 */
import {
  closeSync,
  fstatSync,
  ftruncateSync,
  openSync,
  readFileSync,
  readSync,
  renameSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { csvRow } from '../../api/http/csv-row.ts';
import { ExpectedError, UsageError } from '../../infra/expected.ts';
import { clean, cleanJson } from '../../infra/printed.ts';
import { type FeedEvent, traded, traderAddress } from '../client/index.ts';
import { type Call, command, TRADER, timeOf } from './command.ts';
import { cents, cleanRow, cutTo, dollars, painted, type Screen, widthOf } from './format.ts';

type Format = 'pretty' | 'json' | 'csv';

/** How often the cursor is saved while all events are filtered out. */
const KEEP_MS = 1_000;
/** Maximum length of a line. */
const LINE_BYTES_MAX = 4 * 1_048_576;

export const tail = command({
  summary: 'follow the live feed: every match when it is first seen',
  usage: '',
  takes: [0, 0],
  options: {
    trader: {
      value: 'TRADER',
      isList: true,
      text: 'only matches of these traders, as their trades',
    },
    tag: { value: 'TAG', isList: true, text: 'only markets with one of these tags' },
    series: { value: 'SLUG', isList: true, text: 'only markets of these series' },
    market: { value: 'MARKET', isList: true, text: 'only these markets: id, condition id or slug' },
    'min-usdc': { value: 'N', isNumber: true, text: 'minimum value of the taker order, dollars' },
    'max-usdc': { value: 'N', isNumber: true, text: 'maximum value of the taker order, dollars' },
    'min-shares': { value: 'N', isNumber: true, text: 'minimum shares of the taker order' },
    'max-shares': { value: 'N', isNumber: true, text: 'maximum shares of the taker order' },
    'min-price': { value: 'N', isNumber: true, text: "taker's minimum price, 0 to 100 cents" },
    'max-price': { value: 'N', isNumber: true, text: "taker's maximum price, 0 to 100 cents" },
    finality: { text: 'also print when a match is in a final block' },
    format: {
      value: 'FORMAT',
      choices: ['pretty', 'json', 'csv'],
      text: 'format of a line (default: pretty; json with --output)',
    },
    from: { value: 'CURSOR|TIME', text: 'start after this event or at this time (default: now)' },
    last: {
      value: 'N',
      isNumber: true,
      text: 'start with the newest N matches that pass the filters',
    },
    state: {
      value: 'FILE',
      text: 'save the cursor to this file after each event, and resume from it',
    },
    output: { value: 'FILE', text: 'append each event to this file once, and resume at its end' },
  },
  more: `${TRADER}
Lines of json and csv include the cursor of their event. The feed covers three days; \`export\` has older matches.
Times are UTC. "void" retracts a match that will not settle. "gap" means that the server no longer has the missing events.

After a disconnect, the feed resumes automatically. When the command is restarted, even after kill -9:
  --state   at least once, if the reader lives on: the cursor is saved after the line is printed, so at most one line,
            with the same cursor, repeats. A reader that dies loses what it had not read: let it save the cursors of the
            lines it has handled, and pass the last one as --from
  --output  exactly once: it continues after the file's last complete line; an empty file starts at --from, --last or now
--from and --last apply only to the first start, without a saved cursor.`,
  examples: [
    'tail',
    'tail --min-usdc 1000 --tag politics --finality',
    'tail --last 20 --trader Ada',
    'tail --from 2026-01-31T12:00Z --format csv',
    'tail --trader 0x… --format json --state whale.cursor | ./copy-trades',
    'tail --format csv --output matches.csv',
  ],
  async run({ flags, client, signal, screen, write, note }) {
    const { state, output, from } = flags;
    const isTime = from !== undefined && !/^\d+$/.test(from);
    const fromMs = isTime ? timeOf('--from', from) : undefined;
    if (fromMs !== undefined && fromMs > Date.now()) {
      throw new UsageError('--from must not be in the future');
    }
    if (from !== undefined && flags.last !== undefined) {
      throw new UsageError('--from and --last are two starts: use one of them');
    }
    if (state !== undefined && output !== undefined) {
      throw new UsageError('--output resumes by itself: do not combine it with --state');
    }
    const format = flags.format ?? (output === undefined ? 'pretty' : 'json');
    const fillstream = client();
    const toAddress = (text: string) => traderAddress(fillstream, text);
    const followed = flags.trader && (await Promise.all(flags.trader.map(toAddress)));
    const sink =
      output === undefined ? new Printed(write, state, format) : new Appended(output, format);
    const filter = {
      ...{ traders: followed, tags: flags.tag, series: flags.series, markets: flags.market },
      ...{ min_usdc: flags['min-usdc'], max_usdc: flags['max-usdc'] },
      ...{ min_shares: flags['min-shares'], max_shares: flags['max-shares'] },
      ...{ min_price: flags['min-price'], max_price: flags['max-price'] },
      ...(flags.finality && { finality: true }),
    };
    const print = async (event: Shown) => {
      await sink.take(lineOf(event, format, screen, followed));
      sink.keep(event.cursor);
    };
    let keeping: NodeJS.Timeout | undefined;
    try {
      let start = sink.cursor ?? from;
      await sink.begin();
      if (sink.cursor === undefined && fromMs !== undefined) {
        // A stream needs a cursor. This request returns the cursor for a time, and the first events after it.
        const since = { ...filter, from: new Date(fromMs).toISOString(), limit: 200 };
        const { events, cursor, gap } = await fillstream.recentMatches(since, { signal });
        if (gap) note(`the feed does not have all matches since ${from}; export has older ones`);
        for (const event of events) await print(event);
        start = cursor === '' ? undefined : cursor;
        if (start !== undefined) sink.keep(start);
      }
      const broken = new AbortController();
      const live = { ...filter, last: flags.last };
      const feed = fillstream.feed(live, {
        from: start,
        signal: AbortSignal.any([signal, broken.signal]),
        onState(now) {
          if (now.kind === 'waiting') {
            note(`${now.error.message}; retrying in ${seconds(now.waitMs)}`);
          } else if (now.kind === 'live' && now.cutMs !== undefined) {
            note(`reconnected after ${seconds(now.cutMs)}`);
          }
        },
      });
      let isBusy = false;
      keeping = setInterval(() => {
        if (isBusy) return;
        try {
          sink.keep(feed.cursor);
        } catch (error) {
          broken.abort(error);
        }
      }, KEEP_MS);
      for await (const event of feed) {
        isBusy = true;
        // The end of a connection is reported as a note by `onState`.
        if (event.type !== 'end') await print(event);
        isBusy = false;
      }
      broken.signal.throwIfAborted();
    } finally {
      clearInterval(keeping);
      sink.close();
    }
  },
});

/** Standard output, and optionally a file with the cursor. */
class Printed {
  /** The cursor to resume after; undefined at the first start. */
  readonly cursor: string | undefined;
  readonly #write: Call['write'];
  readonly #state: string | undefined;
  readonly #format: Format;
  #kept = '';

  constructor(write: Call['write'], state: string | undefined, format: Format) {
    this.#write = write;
    this.#state = state;
    this.#format = format;
    this.cursor = state === undefined ? undefined : readState(state);
  }

  /** Writes the CSV header, unless this run continues an earlier one. */
  async begin(): Promise<void> {
    if (this.#format === 'csv' && this.cursor === undefined) await this.#write(csvRow(CSV_HEAD));
  }

  take(line: string): Promise<void> {
    return this.#write(line);
  }

  keep(cursor: string): void {
    if (this.#state === undefined || cursor === '' || cursor === this.#kept) return;
    // Write and rename, so that a kill leaves either the old cursor or the new one.
    const next = `${this.#state}.next`;
    writeFileSync(next, `${cursor}\n`);
    renameSync(next, this.#state);
    this.#kept = cursor;
  }

  close(): void {}
}

/** A file that only this command appends to. */
class Appended {
  readonly cursor: string | undefined;
  readonly #file: number;
  readonly #format: Format;
  readonly #isNew: boolean;

  /** Removes an incomplete last line. Throws ExpectedError if the file was not written by this command. */
  constructor(path: string, format: Format) {
    if (format === 'pretty') throw new UsageError('--output takes --format json or csv');
    this.#format = format;
    this.#file = openSync(path, 'a+');
    const { size } = fstatSync(this.#file);
    const end = Buffer.alloc(Math.min(size, LINE_BYTES_MAX));
    readSync(this.#file, end, 0, end.length, size - end.length);
    const text = end.subarray(0, end.lastIndexOf(0x0a) + 1);
    const whole = size - end.length + text.length;
    this.#isNew = whole === 0;
    const last = text.toString().trimEnd().split('\n').at(-1) ?? '';
    this.cursor = this.#isNew ? undefined : cursorOf(last, format);
    const isLast = this.#isNew || this.cursor !== undefined || `${last}\r\n` === csvRow(CSV_HEAD);
    const torn = end.subarray(text.length).toString();
    const isHeaded = format === 'json' || this.#isNew || this.#begins(csvRow(CSV_HEAD));
    if (!isLast || !isHeaded || !isTorn(torn, format, this.#isNew)) {
      closeSync(this.#file);
      throw new ExpectedError(`${path} is not a ${format} file of this command`);
    }
    ftruncateSync(this.#file, whole);
  }

  #begins(text: string): boolean {
    const start = Buffer.alloc(Buffer.byteLength(text));
    readSync(this.#file, start, 0, start.length, 0);
    return start.toString() === text;
  }

  async begin(): Promise<void> {
    if (this.#format === 'csv' && this.#isNew) await this.take(csvRow(CSV_HEAD));
  }

  async take(line: string): Promise<void> {
    const bytes = Buffer.from(line);
    for (let done = 0; done < bytes.length; ) done += writeSync(this.#file, bytes, done);
  }

  /** Nothing to do: each line includes its cursor. */
  keep(): void {}

  close(): void {
    closeSync(this.#file);
  }
}

function readState(path: string): string | undefined {
  let text: string;
  try {
    text = readFileSync(path, 'utf8').trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
  if (!/^\d+$/.test(text)) throw new ExpectedError(`${path} does not contain a cursor`);
  return text;
}

/** The cursor in a line of JSON or CSV; undefined if this command did not write the line. */
function cursorOf(line: string, format: Format): string | undefined {
  const pattern = format === 'csv' ? /^(\d+),/ : /^\{"cursor":"(\d+)",.*\}$/s;
  return pattern.exec(line)?.[1];
}

/** Whether a line without its end can be one that a kill of this command left. */
function isTorn(line: string, format: Format, isFirst: boolean): boolean {
  if (format === 'csv' && !isFirst) return /^\d*(?:,|$)/.test(line);
  const start = format === 'csv' ? csvRow(CSV_HEAD) : '{"cursor":"';
  return start.startsWith(line.slice(0, start.length));
}

const CSV_HEAD = [
  ...['cursor', 'type', 'time', 'match_id', 'tx_hash', 'trader', 'trader_name', 'side', 'outcome'],
  ...['usdc', 'shares', 'market_id', 'market_slug', 'question', 'detail'],
];

/** One event as one line, including the line end. Of a match, what the followed traders did, or its taker. */
export function lineOf(
  event: Shown,
  format: Format,
  screen: Screen,
  followed: readonly string[] = [],
): string {
  const { type, cursor, data } = event;
  if (format === 'json') return `${cleanJson({ cursor, type, data })}\n`;
  if (format === 'csv') return cleanRow(csvValues(event, followed));
  return `${pretty(event, screen, followed)}\n`;
}

type Shown = Exclude<FeedEvent, { readonly type: 'end' }>;

function csvValues(event: Shown, followed: readonly string[]): string[] {
  const { cursor, type } = event;
  const nothing = ['', '', '', '', '', '', '', '', ''];
  if (type === 'gap') return [cursor, type, '', '', '', ...nothing, detailOf(event)];
  const { timestamp, match_id, tx_hash } = event.data;
  const known = [cursor, type, timestamp, match_id, tx_hash];
  if (type !== 'order') return [...known, ...nothing, detailOf(event)];
  const { maker_orders, market, taker_order } = event.data;
  const own = traded(taker_order, maker_orders, followed);
  const { outcome, shares, side, trader, usdc } = own;
  return [
    ...[...known, trader.address, trader.name, side, outcome],
    ...[usdc, shares, market.id, market.slug, market.question, own.isTaker ? '' : 'maker'],
  ];
}

function detailOf(event: Shown): string {
  switch (event.type) {
    case 'void':
      return event.data.reason;
    case 'final':
      return `block ${event.data.block_number}`;
    case 'gap':
      return `lost after ${event.data.requested}, continues at ${event.data.first_available}`;
    default:
      return '';
  }
}

const TRADER_WIDTH = 16;

function pretty(event: Shown, screen: Screen, followed: readonly string[]): string {
  const time = event.type === 'gap' ? '' : (/\d\d:\d\d:\d\d/.exec(event.data.timestamp)?.[0] ?? '');
  const start = painted(time.padEnd(8), 'dim', screen);
  if (event.type !== 'order') {
    const about = event.type === 'gap' ? '' : `match ${cutTo(event.data.match_id, 20)} `;
    const color = event.type === 'gap' || event.type === 'void' ? 'red' : 'dim';
    const text = cutTo(clean(about + detailOf(event)), screen.width - 20);
    return `${start}  ${painted(event.type.padEnd(8), color, screen)}  ${text}`.trimEnd();
  }
  const { maker_orders, market, taker_order } = event.data;
  const own = traded(taker_order, maker_orders, followed);
  const isBuy = own.side === 'BUY';
  const price = Number(own.shares) === 0 ? null : (Number(own.usdc) / Number(own.shares)) * 1e6;
  const side = painted(own.side.padEnd(4), isBuy ? 'green' : 'red', screen);
  const amounts = `${dollars(own.usdc).padStart(9)}  ${cents(price).padStart(6)}`;
  const name = clean(own.trader.name);
  const trader =
    name === ''
      ? cutTo(clean(own.trader.address), TRADER_WIDTH, 'middle')
      : cutTo(name, TRADER_WIDTH);
  const space = ' '.repeat(TRADER_WIDTH - widthOf(trader));
  const left = `${time}  ${own.side.padEnd(4)}  ${amounts}  ${trader}${space}  `;
  const what = clean(`${own.isTaker ? '' : 'maker · '}${own.outcome}: ${market.question}`);
  const room = Math.max(11, screen.width - widthOf(left));
  return `${start}  ${side}  ${amounts}  ${trader}${space}  ${cutTo(what, room)}`;
}

function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s`;
}
