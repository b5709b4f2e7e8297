/** The commands that show analytics: `top`, `trader`, `market`, `positions`, `search`. */
import { cleanJson } from '../../infra/printed.ts';
import {
  type LeaderboardQuery,
  type MarketListing,
  type Profile,
  traderAddress,
} from '../client/index.ts';
import { PARAMETERS } from '../client/parameters.ts';
import { type Call, choiceOf, command, TRADER } from './command.ts';
import {
  type Column,
  cents,
  dollars,
  facts,
  gain,
  minute,
  painted,
  percent,
  printPages,
  shares,
  table,
} from './format.ts';

const LIST_FORMAT = {
  value: 'FORMAT',
  choices: ['pretty', 'json', 'csv'],
  text: 'format of the output (default: pretty); json has a line per entry',
} as const;
const ONE_FORMAT = {
  value: 'FORMAT',
  choices: ['pretty', 'json'],
  text: 'format of the output (default: pretty)',
} as const;
const LIMIT = {
  value: 'N',
  isNumber: true,
  text: 'maximum number of entries (default: 20)',
} as const;

const PNL: Column<{ readonly pnl: number }> = {
  head: 'PnL',
  isRight: true,
  cell: ({ pnl }) => dollars(pnl),
  color: ({ pnl }) => gain(pnl),
};

export const top = command({
  summary: 'the leaderboard',
  usage: '',
  takes: [0, 0],
  options: {
    'time-frame': choiceOf('FRAME', PARAMETERS.leaderboard.time_frame, 'time frame'),
    sort: choiceOf('BY', PARAMETERS.leaderboard.sort_by, 'sort order'),
    order: choiceOf('ORDER', PARAMETERS.leaderboard.order),
    tag: { value: 'TAG', text: 'only markets with this tag' },
    market: { value: 'MARKET', text: 'only this market: id, condition id or slug' },
    series: { value: 'SLUG', text: 'only markets of this series' },
    'min-markets': { value: 'N', isNumber: true, text: 'minimum number of markets' },
    'min-pnl': { value: 'N', isNumber: true, text: 'minimum PnL, dollars' },
    limit: { ...LIMIT, text: `${LIMIT.text}; at most 20 in the demo tier` },
    format: LIST_FORMAT,
  },
  examples: [
    'top',
    'top --time-frame 7D --sort roi --min-markets 5',
    'top --tag crypto --format csv',
  ],
  async run(call) {
    const { flags } = call;
    const { limit = 20 } = flags;
    const traders = call.client().leaderboard({
      ...{ time_frame: flags['time-frame'], sort_by: flags.sort, order: flags.order },
      // The server checks which tags have boards.
      ...{ tag: flags.tag as LeaderboardQuery['tag'], market: flags.market, series: flags.series },
      ...{ min_market_count: flags['min-markets'], min_pnl: flags['min-pnl'] },
      limit: Math.min(limit, PARAMETERS.leaderboard.limit.maximum),
    });
    await printList(call, await take(traders, limit), [
      { head: '#', isRight: true, cell: ({ rank }) => String(rank) },
      { head: 'trader', cut: 'middle', cell: ({ profile }) => profile.address },
      { head: 'name', cut: 'end', cell: ({ profile }) => profile.name },
      {
        head: 'PnL',
        isRight: true,
        cell: (one) => dollars(one.total_pnl),
        color: (one) => gain(one.total_pnl),
      },
      { head: 'ROI', isRight: true, cell: ({ roi }) => percent(roi) },
      { head: 'volume', isRight: true, cell: (one) => dollars(one.total_volume) },
      { head: 'won', isRight: true, cell: (one) => percent(one.win_rate) },
      { head: 'markets', isRight: true, cell: (one) => String(one.markets_count) },
    ]);
  },
});

export const trader = command({
  summary: 'one trader: profile, six windows, positions, tags',
  usage: 'TRADER',
  takes: [1, 1],
  options: { format: ONE_FORMAT },
  more: TRADER,
  examples: ['trader Ada', 'trader @ada', 'trader 0x… --format json'],
  async run(call) {
    const { args, client, flags, screen, write } = call;
    const [text = ''] = args;
    const fillstream = client();
    const address = await traderAddress(fillstream, text);
    const [profile, batch] = await Promise.all([
      fillstream.trader(address),
      fillstream.traders({ addresses: [address] }),
    ]);
    const [known] = batch.traders;
    if (flags.format === 'json') {
      const { windows, positions } = known ?? {};
      await write(`${cleanJson({ ...profile, windows, positions })}\n`);
      return;
    }
    await write(
      facts(
        [
          ['trader', profile.profile.address],
          ...named(profile.profile),
          ['last trade', minute(profile.last_trade_at)],
          ['balance', dollars(profile.pusd_balance)],
          ...(known === undefined
            ? []
            : ([
                ['open positions', String(known.positions.open_count)],
                ['value', dollars(known.positions.value)],
                ['unrealised PnL', dollars(known.positions.unrealised_pnl)],
                ['realised PnL', dollars(known.positions.realised_pnl)],
              ] as const)),
        ],
        screen,
      ),
    );
    const spans = Object.entries(known?.windows ?? {}).map(([name, one]) => ({
      name: name.slice(2),
      ...one,
    }));
    if (spans.length > 0) await write(`\n${table(figures('last'), spans, screen)}`);
    const tags = profile.top_tags.map(({ slug, ...one }) => ({ name: slug, ...one }));
    if (tags.length > 0) await write(`\n${table(figures('tag, 30D'), tags, screen)}`);
  },
});

type Figures = {
  readonly name: string;
  readonly pnl: number;
  readonly roi: number;
  readonly volume: number;
  readonly win_rate: number;
  readonly markets_count: number;
};

function figures(head: string): Column<Figures>[] {
  return [
    { head, cut: 'end', cell: ({ name }) => name },
    PNL,
    { head: 'ROI', isRight: true, cell: ({ roi }) => percent(roi) },
    { head: 'volume', isRight: true, cell: ({ volume }) => dollars(volume) },
    { head: 'won', isRight: true, cell: (one) => percent(one.win_rate) },
    { head: 'markets', isRight: true, cell: (one) => String(one.markets_count) },
  ];
}

export const market = command({
  summary: 'one market: price, volume, open interest, top earners',
  usage: 'MARKET',
  takes: [1, 1],
  options: { format: ONE_FORMAT },
  more: 'MARKET is an id, a condition id or a slug; `fillstream search` finds them.',
  examples: ['market will-it-rain', 'market 512345 --format json'],
  async run({ args, client, flags, screen, write }) {
    const [id = ''] = args;
    const one = await client().market(id);
    if (flags.format === 'json') {
      await write(`${cleanJson(one)}\n`);
      return;
    }
    const { market: about, mark } = one;
    await write(
      facts(
        [
          ['market', titleOf(about)],
          ['id', String(about.id)],
          ['slug', about.slug],
          ['condition id', about.condition_id],
          about.resolved_at === ''
            ? ['ends', minute(about.end_date)]
            : ['resolved', `${about.winning_outcome}, ${minute(about.resolved_at)}`],
          [about.outcome_1, cents(mark.price_1)],
          [about.outcome_2, cents(mark.price_2)],
          ['volume', `${dollars(one.volume)} in ${one.matches} matches`],
          ['open interest', `${shares(one.open_interest)} shares`],
          ['traders', `${one.total_traders}, ${one.total_winners} of them ahead`],
        ],
        screen,
      ),
    );
    if (one.top_earners.length === 0) return;
    const columns: Column<(typeof one.top_earners)[number]>[] = [
      { head: '#', isRight: true, cell: ({ rank }) => String(rank) },
      { head: 'top earner', cut: 'middle', cell: ({ profile }) => profile.address },
      { head: 'name', cut: 'end', cell: ({ profile }) => profile.name },
      PNL,
      { head: 'ROI', isRight: true, cell: ({ roi }) => percent(roi) },
      { head: 'volume', isRight: true, cell: ({ volume }) => dollars(volume) },
    ];
    await write(`\n${table(columns, one.top_earners, screen)}`);
  },
});

export const positions = command({
  summary: "a trader's positions, at average price and mark",
  usage: 'TRADER',
  takes: [1, 1],
  options: {
    status: choiceOf('STATUS', PARAMETERS.traderPositions.status),
    sort: choiceOf('BY', PARAMETERS.traderPositions.sort_by),
    order: choiceOf('ORDER', PARAMETERS.traderPositions.order),
    limit: LIMIT,
    format: LIST_FORMAT,
  },
  more: TRADER,
  examples: ['positions Ada', 'positions 0x… --status all --sort pnl --limit 500 --format csv'],
  async run(call) {
    const { args, client, flags, screen, write } = call;
    const [text = ''] = args;
    const { limit = 20, format = 'pretty' } = flags;
    const fillstream = client();
    const list = fillstream.traderPositions(await traderAddress(fillstream, text), {
      ...{ status: flags.status, sort_by: flags.sort, order: flags.order },
      limit: Math.min(limit, PARAMETERS.traderPositions.limit.maximum),
    });
    const held = await take(list, limit);
    await printList(call, held, [
      { head: 'market', cut: 'end', cell: (one) => titleOf(one.market) },
      { head: 'outcome', cut: 'end', cell: ({ outcome }) => outcome },
      { head: 'shares', isRight: true, cell: (one) => shares(one.shares) },
      { head: 'paid', isRight: true, cell: (one) => cents(one.average_price) },
      {
        head: 'mark',
        isRight: true,
        cell: ({ mark }) => (mark.source === 'none' ? '' : cents(mark.price)),
      },
      { head: 'value', isRight: true, cell: ({ value }) => dollars(value) },
      PNL,
      { head: 'status', cell: ({ status }) => status },
    ]);
    if (format !== 'pretty') return;
    const { totals, total_count: count } = await list;
    const shown = held.length < count ? `${held.length} of ${count} shown; all: ` : '';
    const sums = `value ${dollars(totals.value)}, unrealised PnL ${dollars(totals.unrealised_pnl)}, realised PnL ${dollars(totals.realised_pnl)}`;
    await write(`${painted(shown + sums, 'dim', screen)}\n`);
  },
});

export const search = command({
  summary: 'find markets and traders',
  usage: 'WORDS',
  takes: [1, 100],
  options: {
    limit: {
      value: 'N',
      isNumber: true,
      text: `maximum number of each (default: ${PARAMETERS.search.limit.default})`,
    },
    format: ONE_FORMAT,
  },
  more: 'WORDS are words of a question or a name, an id, the beginning of an address, or a URL.',
  examples: ['search bitcoin friday', 'search 0x12ab', 'search rain --format json'],
  async run({ args, client, flags, screen, write }) {
    const { limit, format } = flags;
    const found = await client().search({ q: args.join(' '), limit });
    if (format === 'json') {
      await write(`${cleanJson(found)}\n`);
      return;
    }
    if (found.markets.length > 0) {
      const columns: Column<(typeof found.markets)[number]>[] = [
        { head: 'market', cut: 'end', cell: (one) => titleOf(one.market) },
        { head: 'slug', cut: 'end', cell: (one) => one.market.slug },
        { head: 'volume', isRight: true, cell: ({ volume }) => dollars(volume) },
      ];
      await write(table(columns, found.markets, screen));
    }
    if (found.traders.length > 0) {
      const columns: Column<(typeof found.traders)[number]>[] = [
        { head: 'trader', cut: 'middle', cell: ({ profile }) => profile.address },
        { head: 'name', cut: 'end', cell: ({ profile }) => profile.name },
        { head: 'fills', isRight: true, cell: ({ fills }) => fills.toLocaleString('en-US') },
        { head: 'last trade', cell: (one) => minute(one.last_trade_at) },
      ];
      const between = found.markets.length > 0 ? '\n' : '';
      await write(between + table(columns, found.traders, screen));
    }
    if (found.markets.length + found.traders.length === 0) await write('nothing found\n');
  },
});

/** Prints entries in the requested format. */
async function printList<Entry extends object>(
  { flags, screen, write }: Call<{ readonly format: typeof LIST_FORMAT }>,
  entries: readonly Entry[],
  columns: readonly Column<Entry>[],
): Promise<void> {
  const { format = 'pretty' } = flags;
  if (format !== 'pretty') return await printPages([entries], format, write);
  await write(entries.length === 0 ? 'nothing found\n' : table(columns, entries, screen));
}

async function take<Entry>(list: AsyncIterable<Entry>, limit: number): Promise<Entry[]> {
  const taken: Entry[] = [];
  for await (const entry of list) {
    if (taken.push(entry) >= limit) break;
  }
  return taken;
}

/** A market without a listing has no question. */
function titleOf({ question, condition_id }: MarketListing): string {
  return question === '' ? condition_id : question;
}

function named({ name, x_username }: Profile): (readonly [string, string])[] {
  return [
    ...(name === '' ? [] : [['name', name] as const]),
    ...(x_username === '' ? [] : [['on X', `@${x_username}`] as const]),
  ];
}
