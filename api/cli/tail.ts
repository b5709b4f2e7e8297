/**
 * `fillstream tail`: the live feed. Which guarantee it gives depends on where it writes. Nobody can check
 * what arrived at standard output, so with `--state` an event that was printed just before the process died is
 * printed again: at least once. A file that the command appends to is its own state: it continues after the
 * file's last whole line, so each event is there exactly once.
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
import type { FeedEvent } from '../client/index.ts';
import { type Call, command, Failure, timeOf, UsageError } from './command.ts';
import { cents, clean, csvRow, cutTo, dollars, painted, type Screen, widthOf } from './format.ts';

type Format = 'pretty' | 'json' | 'csv';

/** Of a feed in which all is filtered out, the cursor is kept as often as this. */
const KEEP_MS = 1_000;
/** No line is longer. */
const LINE_BYTES_MAX = 4 * 1_048_576;

export const tail = command({
  summary: 'follow the live feed: every match when it is first seen',
  usage: '',
  takes: [0, 0],
  options: {
    trader: { value: 'ADDRESS', isList: true, text: 'only matches of these wallets' },
    tag: { value: 'TAG', isList: true, text: 'only markets with one of these tags' },
    series: { value: 'SLUG', isList: true, text: 'only markets of these series' },
    market: { value: 'MARKET', isList: true, text: 'only these markets: id, condition id or slug' },
    'min-usdc': { value: 'N', isNumber: true, text: 'least value of the taker order, dollars' },
    'max-usdc': { value: 'N', isNumber: true, text: 'greatest value of it' },
    'min-shares': { value: 'N', isNumber: true, text: 'least shares of the taker order' },
    'max-shares': { value: 'N', isNumber: true, text: 'most shares of it' },
    'min-price': { value: 'N', isNumber: true, text: 'least price of the taker, 0 to 100 cents' },
    'max-price': { value: 'N', isNumber: true, text: 'greatest price of it' },
    finality: { text: 'also say when a match is in a final block' },
    format: {
      value: 'FORMAT',
      choices: ['pretty', 'json', 'csv'],
      text: 'of a line (default: pretty; json with --output)',
    },
    from: { value: 'CURSOR|TIME', text: 'begin after this event, or at this time (default: now)' },
    state: { value: 'FILE', text: 'keep the cursor there after each event, and go on from it' },
    output: { value: 'FILE', text: 'append to this file, each event once, and go on at its end' },
  },
  more: `Lines of json and csv have the cursor of their event. The feed has the matches of three days; \`export\` has older ones.
Times are UTC. "void" is a match that will not settle; "gap" says that the server no longer has what is missing.

After a cut, the feed goes on by itself. After an end of the command, kill -9 included:
  --state   at least once: the cursor is kept after the line is printed, so at most one line comes twice; its cursor tells
  --output  exactly once: it goes on after the file's last whole line; an empty file begins at --from or now
A --from is for the first start, when there is neither.`,
  examples: [
    'tail',
    'tail --min-usdc 1000 --tag politics --finality',
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
    if (state !== undefined && output !== undefined) {
      throw new UsageError('--output resumes by itself: do not combine it with --state');
    }
    const format = flags.format ?? (output === undefined ? 'pretty' : 'json');
    const fillstream = client();
    const sink =
      output === undefined ? new Printed(write, state, format) : new Appended(output, format);
    const filter = {
      ...{ traders: flags.trader, tags: flags.tag, series: flags.series, markets: flags.market },
      ...{ min_usdc: flags['min-usdc'], max_usdc: flags['max-usdc'] },
      ...{ min_shares: flags['min-shares'], max_shares: flags['max-shares'] },
      ...{ min_price: flags['min-price'], max_price: flags['max-price'] },
      ...(flags.finality && { finality: true }),
    };
    const print = async (event: Shown) => {
      await sink.take(lineOf(event, format, screen));
      sink.keep(event.cursor);
    };
    let keeping: NodeJS.Timeout | undefined;
    try {
      let start = sink.cursor ?? from;
      await sink.begin();
      if (sink.cursor === undefined && fromMs !== undefined) {
        // A stream begins at a cursor. This request gives the cursor of a time, and shows what came first.
        const since = { ...filter, from: new Date(fromMs).toISOString(), limit: 200 };
        const { events, cursor, gap } = await fillstream.recentMatches(since, { signal });
        if (gap) note(`the feed does not have all matches since ${from}; export has older ones`);
        for (const event of events) await print(event);
        start = cursor === '' ? undefined : cursor;
        if (start !== undefined) sink.keep(start);
      }
      const feed = fillstream.feed(filter, {
        from: start,
        signal,
        onState(now) {
          if (now.kind === 'waiting') {
            note(`${now.error.message}; trying again in ${seconds(now.waitMs)}`);
          } else if (now.kind === 'live' && now.cutMs !== undefined) {
            note(`connected again after ${seconds(now.cutMs)}`);
          }
        },
      });
      let isBusy = false;
      keeping = setInterval(() => {
        if (!isBusy) sink.keep(feed.cursor);
      }, KEEP_MS);
      for await (const event of feed) {
        isBusy = true;
        // What the connection does is a note.
        if (event.type !== 'end') await print(event);
        isBusy = false;
      }
    } finally {
      clearInterval(keeping);
      sink.close();
    }
  },
});

/** Standard output, and a file with the cursor if one is wanted. */
class Printed {
  /** Where to go on; undefined at the first start. */
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

  /** Writes the head of a CSV, unless this run continues an earlier one. */
  async begin(): Promise<void> {
    if (this.#format === 'csv' && this.cursor === undefined) await this.#write(csvRow(CSV_HEAD));
  }

  take(line: string): Promise<void> {
    return this.#write(line);
  }

  keep(cursor: string): void {
    if (this.#state === undefined || cursor === '' || cursor === this.#kept) return;
    // A kill between two writes leaves the old cursor or the new one.
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

  /** Cuts off a last line that is not whole. Throws Failure for a file that is something else. */
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
    const lines = text.toString().trimEnd().split('\n');
    this.cursor = this.#isNew ? undefined : cursorOf(lines.at(-1) ?? '', format);
    const isHead = format === 'csv' && `${lines.at(-1)}`.trim() === csvRow(CSV_HEAD).trim();
    if (!this.#isNew && !isHead && this.cursor === undefined) {
      closeSync(this.#file);
      throw new Failure(`${path} does not end with a ${format} line of this command`);
    }
    ftruncateSync(this.#file, whole);
  }

  async begin(): Promise<void> {
    if (this.#format === 'csv' && this.#isNew) await this.take(csvRow(CSV_HEAD));
  }

  async take(line: string): Promise<void> {
    const bytes = Buffer.from(line);
    for (let done = 0; done < bytes.length; ) done += writeSync(this.#file, bytes, done);
  }

  /** The line has it. */
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
  if (!/^\d+$/.test(text)) throw new Failure(`${path} holds no cursor`);
  return text;
}

/** The cursor in a line of JSON or CSV; undefined if it is none of this command. */
function cursorOf(line: string, format: Format): string | undefined {
  const pattern = format === 'csv' ? /^(\d+),/ : /^\{"cursor":"(\d+)",.*\}$/;
  return pattern.exec(line)?.[1];
}

const CSV_HEAD = [
  ...['cursor', 'type', 'time', 'match_id', 'tx_hash', 'trader', 'trader_name', 'side', 'outcome'],
  ...['usdc', 'shares', 'market_id', 'market_slug', 'question', 'detail'],
];

/** One event as one line, with its end. */
export function lineOf(event: Shown, format: Format, screen: Screen): string {
  const { type, cursor, data } = event;
  if (format === 'json') return `${JSON.stringify({ cursor, type, data })}\n`;
  if (format === 'csv') return csvRow(csvValues(event).map((value) => clean(value)));
  return `${pretty(event, screen)}\n`;
}

type Shown = Exclude<FeedEvent, { readonly type: 'end' }>;

function csvValues(event: Shown): string[] {
  const { cursor, type } = event;
  const nothing = ['', '', '', '', '', '', '', '', ''];
  if (type === 'gap') return [cursor, type, '', '', '', ...nothing, detailOf(event)];
  const { timestamp, match_id, tx_hash } = event.data;
  const known = [cursor, type, timestamp, match_id, tx_hash];
  if (type !== 'order') return [...known, ...nothing, detailOf(event)];
  const { taker_order: taker, market } = event.data;
  return [
    ...[...known, taker.trader.address, taker.trader.name, taker.side, taker.outcome],
    ...[taker.usdc, taker.shares, market.id, market.slug, market.question, ''],
  ];
}

function detailOf(event: Shown): string {
  switch (event.type) {
    case 'void':
      return event.data.reason;
    case 'final':
      return `block ${event.data.block_number}`;
    case 'gap':
      return `lost after ${event.data.requested}, goes on at ${event.data.first_available}`;
    default:
      return '';
  }
}

const TRADER_WIDTH = 16;

function pretty(event: Shown, screen: Screen): string {
  const time = event.type === 'gap' ? '' : (/\d\d:\d\d:\d\d/.exec(event.data.timestamp)?.[0] ?? '');
  const start = painted(time.padEnd(8), 'dim', screen);
  if (event.type !== 'order') {
    const about = event.type === 'gap' ? '' : `match ${cutTo(event.data.match_id, 20)} `;
    const color = event.type === 'gap' || event.type === 'void' ? 'red' : 'dim';
    const text = cutTo(clean(about + detailOf(event)), screen.width - 20);
    return `${start}  ${painted(event.type.padEnd(8), color, screen)}  ${text}`.trimEnd();
  }
  const { taker_order: taker, market } = event.data;
  const isBuy = taker.side === 'BUY';
  const price =
    Number(taker.shares) === 0 ? null : (Number(taker.usdc) / Number(taker.shares)) * 1e6;
  const side = painted(taker.side.padEnd(4), isBuy ? 'green' : 'red', screen);
  const amounts = `${dollars(taker.usdc).padStart(9)}  ${cents(price).padStart(6)}`;
  const name = clean(taker.trader.name);
  const trader =
    name === '' ? cutTo(taker.trader.address, TRADER_WIDTH, 'middle') : cutTo(name, TRADER_WIDTH);
  const space = ' '.repeat(TRADER_WIDTH - widthOf(trader));
  const left = `${time}  ${taker.side.padEnd(4)}  ${amounts}  ${trader}${space}  `;
  const what = clean(`${taker.outcome}: ${market.question}`);
  const room = Math.max(11, screen.width - widthOf(left));
  return `${start}  ${side}  ${amounts}  ${trader}${space}  ${cutTo(what, room)}`;
}

function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s`;
}
