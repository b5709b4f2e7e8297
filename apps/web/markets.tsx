/** The list of markets: one page for the settings in the URL, under the API's parameter names. */
import type { Markets as Answer, Market, MarketEntry } from './answers.ts';
import { Choice } from './controls.tsx';
import { Ago, Usdc } from './figures.tsx';
import {
  CursorPager,
  type Filter,
  ListControls,
  parametersOf,
  SettingField,
  settingsOf,
  sortedBy,
} from './filters.tsx';
import {
  capital,
  changeText,
  count,
  exact,
  priceText,
  shortAddress,
  span,
  timeMs,
  timeText,
  tone,
} from './format.ts';
import { ListTools } from './in-code.tsx';
import { Picture } from './picture.tsx';
import { now } from './status-strip.tsx';
import { CardTable, type Column } from './table.tsx';
import { Loaded, useAnswer, useTicks } from './use-answer.tsx';

const REFRESH_MS = 15_000;
const PAGE_SIZE = 50;

const STATUSES = [
  ['open', 'Open'],
  ['closed', 'Closed'],
  ['resolved', 'Resolved'],
  ['all', 'All'],
] as const;

const FILTERS: readonly Filter[] = [
  { name: 'series', label: 'Series (slug)', chip: 'series #', type: 'text' },
  { name: 'event', label: 'Event (slug)', chip: 'event #', type: 'text' },
];

const settings = settingsOf({
  ...{ status: 'open', tag: 'all', sort_by: 'volume_24h', order: 'desc' },
});
const NAMES = ['q', 'status', 'tag', 'series', 'event', 'sort_by', 'order', 'cursor'];

type Named = Pick<Market, 'id' | 'condition_id' | 'question' | 'icon'>;

const GREATEST = { desc: 'highest first', asc: 'lowest first' };

/** The fields of a row's market. */
export const MARKET_OF: Column<{ readonly market: Named }> = {
  ...{ title: 'Market', class: 'question', isHead: true },
  cell: ({ market }) => (
    <span class="market">
      <Picture id={market.condition_id} image={market.icon} />
      <MarketLink market={market} />
    </span>
  ),
};

/** Columns of tables of markets. Where a title takes two lines, its unit stays with its number. */
export const MARKET = {
  name: MARKET_OF,
  price: { title: 'Price', class: 'figure', cell: (entry) => <Odds entry={entry} /> },
  change: {
    ...{ title: 'Change, 24\u00a0h', class: 'figure' },
    cell: ({ change_24h }) => <Change micro={change_24h} />,
    sort: { name: 'change_24h', desc: 'biggest gains first', asc: 'biggest losses first' },
  },
  volume24h: {
    ...{ title: 'Volume, 24\u00a0h', class: 'figure strong' },
    cell: ({ volume_24h }) => <Usdc micro={volume_24h} />,
    sort: { name: 'volume_24h', ...GREATEST },
  },
  volume: {
    ...{ title: 'Volume', class: 'figure wide-only' },
    cell: ({ volume }) => <Usdc micro={volume} />,
    sort: { name: 'volume', ...GREATEST },
  },
  closes: {
    ...{ title: 'Closes', class: 'figure soft' },
    cell: (entry) => <Closes entry={entry} />,
    sort: { name: 'closing', desc: 'soonest first', asc: 'latest first' },
  },
} satisfies Readonly<Record<string, Column<MarketEntry>>>;

const COLUMNS: readonly Column<MarketEntry>[] = [
  ...[MARKET.name, MARKET.price, MARKET.change, MARKET.volume24h, MARKET.volume],
  {
    ...{ title: 'Traders', class: 'figure wide-only' },
    cell: ({ traders }) => count(traders),
    sort: { name: 'traders', desc: 'most first', asc: 'fewest first' },
  },
  {
    ...{ title: 'Open interest', class: 'figure wide-only' },
    cell: ({ open_interest }) => <Shares micro={open_interest} />,
  },
  {
    ...{ title: 'First match', class: 'figure wide-only soft' },
    cell: ({ first_match_at }) => <Ago time={first_match_at} />,
    sort: { name: 'newest', desc: 'newest first', asc: 'oldest first' },
  },
  MARKET.closes,
];

export function Markets() {
  const path = `/v2/markets?limit=${PAGE_SIZE}&${parametersOf(settings, NAMES)}`;
  const answer = useAnswer<Answer>(path, { refresh: useTicks(REFRESH_MS) });
  const { data } = answer;
  return (
    <section aria-labelledby="title" aria-busy={answer.busy}>
      <div class="head">
        <h1 id="title">Markets</h1>
        <p class="sub">
          Prices and amounts in USDC
          {data === undefined || data.as_of === '' ? null : (
            <span class="age">
              <span aria-hidden="true">↻</span> computed <Ago time={data.as_of} />
            </span>
          )}
        </p>
        <ListTools name="markets" path={path} />
      </div>
      <ListControls settings={settings} columns={COLUMNS} filters={FILTERS}>
        <Choice
          name="status"
          legend="Status"
          choices={STATUSES}
          chosen={settings.get('status')}
          onChoose={(status) => settings.set({ status })}
        />
        <div class="words">
          <SettingField settings={settings} name="q" label="Words" type="text" />
        </div>
      </ListControls>
      <Loaded answer={answer} rows={20} what="markets" tall>
        {({ markets }) => (
          <CardTable
            label="Markets"
            class="board-table market-table two-line"
            columns={COLUMNS}
            rows={markets}
            keyOf={({ market }) => market.condition_id}
            sorted={sortedBy(settings)}
            empty="No markets match these filters."
          />
        )}
      </Loaded>
      <CursorPager
        settings={settings}
        answer={answer}
        shown={data?.markets.length}
        what="markets"
        onTurn={() => scrollTo(0, 0)}
      />
    </section>
  );
}

export function marketPath({ id, condition_id }: Pick<Market, 'id' | 'condition_id'>): string {
  return `/market/${id === 0 ? condition_id : id}`;
}

export function MarketLink({ market }: { readonly market: Named }) {
  const { condition_id, question } = market;
  return (
    <a href={marketPath(market)} data-row title={question}>
      {question === '' ? `Unlisted market ${shortAddress(condition_id)}` : question}
    </a>
  );
}

/** The price of the first outcome, with its name. */
export function Odds(props: { readonly entry: Pick<MarketEntry, 'mark' | 'market'> }) {
  const { mark, market } = props.entry;
  return (
    <span class="odds">
      <span class="soft">{market.outcome_1}</span> <b>{priceText(mark.price_1)}</b>
    </span>
  );
}

/** A difference of prices. */
export function Change({ micro }: { readonly micro: number }) {
  const text = changeText(micro);
  return <span class={tone(micro, text)}>{text}</span>;
}

export function Shares({ micro }: { readonly micro: number }) {
  return (
    <span title={exact(micro).replace('USDC', 'shares')}>{count(Math.round(micro / 1e6))}</span>
  );
}

/** How long until a market closes. */
function Closes({ entry: { market, status } }: { readonly entry: MarketEntry }) {
  if (status !== 'open') return <span>{capital(status)}</span>;
  const ms = timeMs(market.end_date);
  if (ms === undefined) return <span>–</span>;
  const left = ms - now.value;
  return (
    <time dateTime={market.end_date} title={timeText(ms)}>
      {left <= 0 ? 'Now' : `In ${span(left)}`}
    </time>
  );
}
