/** The list of markets: a page for the settings in the URL, which has the API's own names of parameters. */
import { useEffect, useState } from 'preact/hooks';
import type { Markets as Answer, Market, MarketEntry } from './answers.ts';
import { Scroll, Skeleton, TypedField } from './controls.tsx';
import { Ago, Usdc } from './figures.tsx';
import { changeText, count, exact, priceText, span, timeMs, timeText, tone } from './format.ts';
import { TAGS } from './leaderboard-filters.tsx';
import { query, setQuery } from './route.ts';
import { now } from './status-strip.tsx';
import { Problem, useAnswer, useTicks } from './use-answer.tsx';

const REFRESH_MS = 15_000;
const PAGE_SIZE = 50;

const STATUSES = [
  ['open', 'Open'],
  ['closed', 'Closed'],
  ['resolved', 'Resolved'],
  ['all', 'All'],
] as const;

const SORTS = [
  { name: 'volume_24h', title: 'Volume, 24 h', first: 'greatest first', last: 'least first' },
  {
    name: 'change_24h',
    title: 'Change, 24 h',
    first: 'most risen first',
    last: 'most fallen first',
  },
  { name: 'volume', title: 'Volume', first: 'greatest first', last: 'least first' },
  { name: 'traders', title: 'Traders', first: 'most first', last: 'fewest first' },
  { name: 'newest', title: 'First match', first: 'newest first', last: 'oldest first' },
  { name: 'closing', title: 'Closes', first: 'next first', last: 'last first' },
] as const;
type SortName = (typeof SORTS)[number]['name'];

const FIELDS = [
  { name: 'series', label: 'Series (slug)', chip: 'series' },
  { name: 'event', label: 'Event (slug)', chip: 'event' },
] as const;

const DEFAULTS: Readonly<Record<string, string>> = {
  ...{ status: 'open', tag: 'all', sort_by: 'volume_24h', order: 'desc' },
};
const NAMES = ['q', 'status', 'tag', 'series', 'event', 'sort_by', 'order', 'cursor'];

function setting(name: string): string {
  return query.value.get(name) ?? DEFAULTS[name] ?? '';
}

/** Every change returns to the first page. */
function set(changes: Readonly<Record<string, string>>, typed = false): void {
  setQuery({ ...changes, cursor: '' }, { typed });
}

export function Markets() {
  useEffect(() => {
    document.title = 'Markets – Fillstream';
  }, []);
  const asked = new URLSearchParams({ limit: String(PAGE_SIZE) });
  for (const name of NAMES) {
    const value = setting(name);
    if (value !== '') asked.set(name, value);
  }
  const answer = useAnswer<Answer>(`/v2/markets?${asked}`, { refresh: useTicks(REFRESH_MS) });
  const { data } = answer;
  return (
    <section class="wide" aria-labelledby="title" aria-busy={answer.busy}>
      <div class="head">
        <h1 id="title">Markets</h1>
        <p class="sub">
          prices and amounts in USDC
          {data === undefined || data.as_of === '' ? null : (
            <span class="age">
              <span aria-hidden="true">↻</span> computed <Ago time={data.as_of} />
            </span>
          )}
        </p>
      </div>
      <Filters />
      <Problem problem={answer.problem} answer={answer} />
      {data === undefined ? (
        answer.problem === undefined ? (
          <Skeleton rows={20} what="markets" />
        ) : null
      ) : data.markets.length === 0 ? (
        <p class="card empty">No markets match these filters.</p>
      ) : (
        <div class={answer.isStale ? 'stale' : ''}>
          <Table markets={data.markets} />
        </div>
      )}
      {data === undefined ? null : <Pages next={data.next_cursor} shown={data.markets.length} />}
    </section>
  );
}

/** Pages have cursors: the way back is the one that was taken here. */
function Pages({ next, shown }: { readonly next: string; readonly shown: number }) {
  const [trail, setTrail] = useState<readonly string[]>([]);
  const cursor = setting('cursor');
  if (cursor === '' && next === '') return null;
  function turn(to: string, path: readonly string[]): void {
    setTrail(path);
    setQuery({ cursor: to });
    scrollTo(0, 0);
  }
  return (
    <nav class="pager" aria-label="Pages">
      <span>{count(shown)} markets</span>
      <button type="button" disabled={cursor === ''} onClick={() => turn('', [])}>
        First
      </button>
      <button
        type="button"
        disabled={cursor === '' || trail.length === 0}
        onClick={() => turn(trail.at(-1) ?? '', trail.slice(0, -1))}
      >
        Previous
      </button>
      <button type="button" disabled={next === ''} onClick={() => turn(next, [...trail, cursor])}>
        Next
      </button>
    </nav>
  );
}

function Filters() {
  const active = FIELDS.filter(({ name }) => setting(name) !== '');
  const [isOpen, setOpen] = useState(false);
  return (
    <div class="controls">
      <fieldset class="segments">
        <legend class="hidden">Status</legend>
        {STATUSES.map(([name, title]) => (
          <label key={name}>
            <input
              type="radio"
              name="status"
              value={name}
              checked={setting('status') === name}
              onChange={() => set({ status: name })}
            />
            <span>{title}</span>
          </label>
        ))}
      </fieldset>
      <div class="words">
        <TypedField
          name="q"
          label="Words"
          type="text"
          value={setting('q')}
          onValue={(value) => set({ q: value.trim() }, true)}
        />
      </div>
      <label class="field">
        <span>Tag</span>
        <select
          value={setting('tag')}
          onChange={(event) => set({ tag: event.currentTarget.value })}
        >
          {[...new Set([...TAGS, setting('tag')])].map((tag) => (
            <option key={tag} value={tag}>
              {tag}
            </option>
          ))}
        </select>
      </label>
      <label class="field">
        <span>Sort</span>
        <select
          value={`${setting('sort_by')} ${setting('order')}`}
          onChange={(event) => {
            const [sort_by = '', order = ''] = event.currentTarget.value.split(' ');
            set({ sort_by, order });
          }}
        >
          {SORTS.map(({ name, title, first, last }) => [
            <option key={name} value={`${name} desc`}>
              {title}, {first}
            </option>,
            <option key={`${name} asc`} value={`${name} asc`}>
              {title}, {last}
            </option>,
          ])}
        </select>
      </label>
      <button
        type="button"
        aria-expanded={isOpen}
        aria-controls="filters"
        onClick={() => setOpen(!isOpen)}
      >
        Filters{active.length === 0 ? '' : ` (${active.length})`}
      </button>
      {active.map(({ name, chip }) => (
        <button
          key={name}
          type="button"
          class="chip"
          title="Remove this filter"
          onClick={() => set({ [name]: '' })}
        >
          {chip} {setting(name)} <span aria-hidden="true">×</span>
          <span class="hidden">(remove)</span>
        </button>
      ))}
      <div id="filters" class="filters" hidden={!isOpen}>
        {FIELDS.map(({ name, label }) => (
          <TypedField
            key={name}
            name={name}
            label={label}
            type="text"
            value={setting(name)}
            onValue={(value) => set({ [name]: value.trim() }, true)}
          />
        ))}
      </div>
    </div>
  );
}

function Table({ markets }: { readonly markets: readonly MarketEntry[] }) {
  return (
    <Scroll label="Markets">
      <table class="board-table market-table">
        <caption class="hidden">Markets</caption>
        <thead>
          <tr>
            <th scope="col">Market</th>
            <th scope="col" class="figure">
              Price
            </th>
            <SortHead name="change_24h" />
            <SortHead name="volume_24h" />
            <SortHead name="volume" />
            <SortHead name="traders" />
            <th scope="col" class="figure wide-only">
              Open interest
            </th>
            <SortHead name="newest" />
            <SortHead name="closing" />
          </tr>
        </thead>
        <tbody>
          {markets.map((entry) => (
            <tr key={entry.market.condition_id}>
              <th scope="row" class="question">
                <MarketLink market={entry.market} />
              </th>
              <td class="figure">
                <Odds entry={entry} />
              </td>
              <td class="figure">
                <Change micro={entry.change_24h} />
              </td>
              <td class="figure strong">
                <Usdc micro={entry.volume_24h} />
              </td>
              <td class="figure">
                <Usdc micro={entry.volume} />
              </td>
              <td class="figure">{count(entry.traders)}</td>
              <td class="figure wide-only">
                <Shares micro={entry.open_interest} />
              </td>
              <td class="figure wide-only soft">
                <Ago time={entry.first_match_at} />
              </td>
              <td class="figure soft">
                <Closes entry={entry} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}

function SortHead({ name }: { readonly name: SortName }) {
  const title = SORTS.find((sort) => sort.name === name)?.title ?? '';
  const isSorted = setting('sort_by') === name;
  const order = setting('order');
  const next = isSorted && order === 'desc' ? 'asc' : 'desc';
  return (
    <th
      scope="col"
      class={name === 'newest' ? 'figure wide-only' : 'figure'}
      aria-sort={isSorted ? (order === 'desc' ? 'descending' : 'ascending') : 'none'}
    >
      <button type="button" class="sort" onClick={() => set({ sort_by: name, order: next })}>
        {title}
        <span aria-hidden="true">{isSorted ? (order === 'desc' ? ' ↓' : ' ↑') : ''}</span>
      </button>
    </th>
  );
}

export function marketPath({ id, condition_id }: Pick<Market, 'id' | 'condition_id'>): string {
  return `/market/${id === 0 ? condition_id : id}`;
}

export function MarketLink({ market }: { readonly market: Market }) {
  const { question } = market;
  return (
    <a href={marketPath(market)} data-row title={question}>
      {question === '' ? 'Unlisted market' : question}
    </a>
  );
}

/** The price of the first outcome, with its name. */
export function Odds({ entry: { mark, market } }: { readonly entry: MarketEntry }) {
  return (
    <span class="odds">
      <span class="soft">{market.outcome_1}</span> <b>{priceText(mark.price_1)}</b>
    </span>
  );
}

/** A difference of prices. */
export function Change({ micro }: { readonly micro: number }) {
  const text = changeText(micro);
  return <span class={/[1-9]/.test(text) ? tone(micro) : 'even'}>{text}</span>;
}

export function Shares({ micro }: { readonly micro: number }) {
  return (
    <span title={exact(micro).replace('USDC', 'shares')}>{count(Math.round(micro / 1e6))}</span>
  );
}

/** How long a market is open still. */
export function Closes({ entry: { market, status } }: { readonly entry: MarketEntry }) {
  if (status !== 'open') return <span>{status}</span>;
  const ms = timeMs(market.end_date);
  if (ms === undefined) return <span>–</span>;
  const left = ms - now.value;
  return (
    <time dateTime={market.end_date} title={timeText(ms)}>
      {left <= 0 ? 'now' : `in ${span(left)}`}
    </time>
  );
}
