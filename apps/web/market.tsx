/** One market: its odds, price over time, matches as they happen, holders, winners and losers. */
import type { ComponentChildren } from 'preact';
import { useEffect } from 'preact/hooks';
import { AlertMe } from './alert-me.tsx';
import type { Candles, MarketDetail, Market as MarketObject } from './answers.ts';
import { Choice, CopyButton, Skeleton } from './controls.tsx';
import { Tile, Usdc } from './figures.tsx';
import { followed, Star } from './follow.tsx';
import {
  type FollowedTrade,
  type FollowedTrades,
  TRADERS_MAX,
  TRADES_MAX,
  useFollowedTrades,
} from './followed-trades.ts';
import { count, paid, pricesText, priceText, timeMs, timeText } from './format.ts';
import { InCode } from './in-code.tsx';
import { type ChartKind, MarketChart } from './market-chart.tsx';
import { MarketTape } from './market-tape.tsx';
import { HoldersBySide, labelOf, Siblings, WinnersAndLosers } from './market-traders.tsx';
import { Change, marketPath, Shares } from './markets.tsx';
import { remember } from './recent.ts';
import { query, setQuery } from './route.ts';
import { numberKeys, useViewKeys } from './shortcuts.ts';
import { isSimulated } from './simulated.ts';
import { now } from './status-strip.tsx';
import { useTitle } from './title.ts';
import { type Answered, Problem, useAnswer, useTicks } from './use-answer.tsx';

const REFRESH_MS = 10_000;
const CHART_PIXELS = 340;

const HOUR = 3_600;
const DAY = 24 * HOUR;
/** The length of a range and of its candles, in seconds. */
const RANGES = [
  { name: '1H', seconds: HOUR, interval: '1m' },
  { name: '6H', seconds: 6 * HOUR, interval: '5m' },
  { name: '1D', seconds: DAY, interval: '15m' },
  { name: '1W', seconds: 7 * DAY, interval: '1h' },
  { name: '1M', seconds: 30 * DAY, interval: '6h' },
] as const;
const RANGE_NAMES = [...RANGES.map(({ name }) => name), 'All'];
const INTERVALS = [
  ...[['1m', 60] as const, ['5m', 300] as const, ['15m', 900] as const],
  ...[['1h', HOUR] as const, ['6h', 6 * HOUR] as const, ['1d', DAY] as const],
];
const KINDS = [
  ['candles', 'Candles'],
  ['line', 'Line'],
] as const;
/** Narrower candles could not be distinguished. */
const CANDLES_MAX = 250;
/** The API's limit. */
const DAYS_MAX = 1_500;

const ALERT_MOVE = { points: 10, within_seconds: 600 };
const ALERT_USDC = 1_000;

const CONDITIONAL_TOKENS = '0x4d97dcd97ec945f40cf65f87097ace5ea0476045';

export function Market({ id }: { readonly id: string }) {
  const refresh = useTicks(REFRESH_MS);
  const detail = useAnswer<MarketDetail>(`/v2/markets/${encodeURIComponent(id)}`, {
    refresh,
    subject: id,
  });
  const market = detail.data?.market;
  const question = market?.question || `Market ${id}`;
  useTitle(question);
  useViewKeys(numberKeys(RANGE_NAMES, (range) => setQuery({ range })));
  useEffect(() => {
    if (market !== undefined) {
      remember({ kind: 'market', path: marketPath(market), title: question });
    }
  }, [question, market?.condition_id]);
  if (detail.data === undefined || market === undefined) {
    return (
      <section>
        <h1 class="hidden">Market {id}</h1>
        <Problem problem={detail.problem} answer={detail} />
        {detail.problem === undefined ? <Skeleton rows={16} what="the market" /> : null}
      </section>
    );
  }
  return (
    <article>
      <Title market={market} />
      <Problem problem={detail.problem} answer={detail} />
      <div class="market-top">
        <PriceOverTime detail={detail.data} refresh={refresh} />
        <MarketTape market={market} refresh={refresh} />
      </div>
      <Totals detail={detail.data} />
      {market.resolved_at === '' ? <HoldersBySide market={market} refresh={refresh} /> : null}
      <WinnersAndLosers detail={detail.data} refresh={refresh} />
      <Siblings market={market} refresh={refresh} />
      <p class="ids">
        Condition <code>{market.condition_id}</code>
        <CopyButton text={market.condition_id} what="the condition id" />
      </p>
    </article>
  );
}

function Title({ market }: { readonly market: MarketObject }) {
  const { event_title, event_slug, question, series_slug, slug, token_ids } = market;
  const event = `/event/${encodeURIComponent(event_slug)}`;
  const path = event_slug === '' ? `market/${slug}` : `event/${event_slug}/${slug}`;
  return (
    <header class="market-title">
      <div>
        {event_title === '' || event_title === question ? null : (
          <p class="event">{event_slug === '' ? event_title : <a href={event}>{event_title}</a>}</p>
        )}
        <h1>{question === '' ? 'Unlisted market' : question}</h1>
        <p class="sub">
          {market.id === 0 ? null : <Star kind="market" id={String(market.id)} name={question} />}
          <MarketAlert market={market} />
          <InCode
            request={{
              path: `/v2/markets/${market.condition_id}`,
              call: `market(${JSON.stringify(market.condition_id)})`,
            }}
          />
          <State market={market} />
          {market.id === 0 ? null : <span>Id {market.id}</span>}
          {market.start_date === '' ? null : <span>{period(market)}</span>}
          {market.neg_risk ? <span>Negative risk</span> : null}
          {series_slug === '' ? null : (
            <a class="tag" href={`/markets?series=${encodeURIComponent(series_slug)}`}>
              {series_slug}
            </a>
          )}
          {market.tags.map((tag) => (
            <a key={tag} class="tag" href={`/markets?tag=${encodeURIComponent(tag)}`}>
              {tag}
            </a>
          ))}
        </p>
      </div>
      {isSimulated ? null : (
        <p class="outside">
          {slug === '' ? null : (
            <Outside href={`https://polymarket.com/${path}`}>Polymarket</Outside>
          )}
          {(token_ids[0] ?? '') === '' ? null : (
            <Outside href={`https://polygonscan.com/nft/${CONDITIONAL_TOKENS}/${token_ids[0]}`}>
              Polygonscan
            </Outside>
          )}
        </p>
      )}
    </header>
  );
}

function MarketAlert({ market }: { readonly market: MarketObject }) {
  if (market.resolved_at !== '') return null;
  const { condition_id, question } = market;
  const name = question === '' ? 'Unlisted market' : question;
  const markets = [condition_id];
  return (
    <AlertMe
      suggestions={[
        { title: 'Price moves', name, rule: { type: 'move', markets, ...ALERT_MOVE } },
        { title: 'Large trades', name, rule: { type: 'match', markets, min_usdc: ALERT_USDC } },
      ]}
      names={new Map([[condition_id, name]])}
    />
  );
}

function Outside({
  href,
  children,
}: {
  readonly href: string;
  readonly children: ComponentChildren;
}) {
  return (
    <a href={href} target="_blank" rel="noreferrer">
      {children} <span aria-hidden="true">↗</span>
      <span class="hidden">(in a new tab)</span>
    </a>
  );
}

function State({ market }: { readonly market: MarketObject }) {
  const resolved = timeMs(market.resolved_at);
  if (resolved !== undefined) {
    return (
      <span class="badge" title={`Resolved ${timeText(resolved)}`}>
        Resolved {timeText(resolved).slice(0, 16)}
      </span>
    );
  }
  const end = timeMs(market.end_date);
  const isOver = end !== undefined && end <= now.value;
  return <span class={isOver ? 'badge' : 'badge open'}>{isOver ? 'Closed' : 'Open'}</span>;
}

function Totals({ detail }: { readonly detail: MarketDetail }) {
  return (
    <dl class="tiles">
      <Tile name="Volume, USDC">
        <Usdc micro={detail.volume} />
      </Tile>
      <Tile name="Matches">{count(detail.matches)}</Tile>
      <Tile name="Open interest, shares">
        <Shares micro={detail.open_interest} />
      </Tile>
      <Tile name="Average of 5 min">{priceText(detail.vwap_5m)}</Tile>
      <Tile name="Traders">{count(detail.total_traders)}</Tile>
      <Tile name="Winners">{count(detail.total_winners)}</Tile>
      <Tile name="Gains realised, USDC">
        <Usdc micro={detail.total_pnl_distributed} />
      </Tile>
    </dl>
  );
}

function PriceOverTime({
  detail,
  refresh,
}: {
  readonly detail: MarketDetail;
  readonly refresh: unknown;
}) {
  const { market } = detail;
  const given = query.value.get('range') ?? '';
  const isRange = RANGE_NAMES.includes(given);
  const range = isRange ? given : 'All';
  const kind: ChartKind = query.value.get('chart') === 'line' ? 'line' : 'candles';
  const { interval, from, to } = periodOf(detail, range);
  const path = `/v2/markets/${market.condition_id}/candles?interval=${interval}&from=${from}${to}`;
  const answer = useAnswer<Candles>(path, { refresh, subject: `${market.condition_id} ${range}` });
  const marked = useFollowedTrades(market, { from, refresh });
  const candles = answer.data?.candles;
  const first = candles?.[0];
  const last = candles?.at(-1);
  const change = first === undefined || last === undefined ? undefined : last.close - first.open;
  return (
    <section class="price" aria-labelledby="price-title">
      <h2 id="price-title" class="hidden">
        Odds
      </h2>
      <Outcomes detail={detail} change={change} range={isWhole(detail, from) ? 'All' : range} />
      <div class="card charts">
        <div class="chart-head">
          <Choice
            name="range"
            legend="Range"
            choices={RANGE_NAMES.map((name) => [name, name])}
            chosen={range}
            onChoose={(name) => setQuery({ range: name })}
          />
          <Choice
            name="chart"
            legend="Chart"
            class="push"
            choices={KINDS}
            chosen={kind}
            onChoose={(name) => setQuery({ chart: name === 'line' ? name : '' })}
          />
        </div>
        <Problem problem={answer.problem} answer={answer} />
        <Drawn {...{ answer, kind, range }} trades={marked.trades} outcome={labelOf(market, 0)} />
        <Legend marked={marked} outcome={labelOf(market, 0)} />
      </div>
    </section>
  );
}

/** Has the same height with and without a chart. */
function Drawn(props: {
  readonly answer: Answered<Candles>;
  readonly trades: readonly FollowedTrade[];
  readonly kind: ChartKind;
  readonly range: string;
  readonly outcome: string;
}) {
  const { answer, trades, kind, range, outcome } = props;
  const candles = answer.data?.candles;
  if (candles !== undefined && candles.length > 0) {
    return (
      <MarketChart
        key={range}
        label={`Price of ${outcome}, cents`}
        kind={kind}
        candles={candles}
        trades={trades}
        height={CHART_PIXELS}
      />
    );
  }
  const text = candles === undefined ? '' : 'No trades in this range.';
  return (
    <p class="chart-none" role="status" aria-label={text === '' ? 'Loading the price' : undefined}>
      {text}
    </p>
  );
}

/** Legend of the marks in the chart. Shown even without marks, so that nothing moves when they appear. */
function Legend(props: { readonly marked: FollowedTrades; readonly outcome: string }) {
  const { marked, outcome } = props;
  const following = followed.trader.value.length;
  if (following === 0) return null;
  const who =
    following > TRADERS_MAX ? `the ${TRADERS_MAX} traders you followed last` : 'traders you follow';
  return (
    <p class="chart-marks soft">
      Trades of {who} (▲ for {outcome}, ▼ against): {markedText(marked)}
      {marked.isCut ? `; only the newest ${TRADES_MAX} of each` : ''}
    </p>
  );
}

function markedText({ trades, state }: FollowedTrades): string {
  const ofEach = Map.groupBy(trades, ({ trader }) => trader);
  const counts = [...ofEach].map(([trader, own]) => `${trader} ${count(own.length)}`);
  if (state === 'loading') return [...counts, 'loading'].join(', ');
  if (state === 'failed') return [...counts, 'not all could be loaded'].join(', ');
  return counts.length === 0 ? 'none in this range' : counts.join(', ');
}

/** The price of each outcome and its change over the range; after the resolution, what each outcome pays. */
function Outcomes(props: {
  readonly detail: MarketDetail;
  readonly change: number | undefined;
  readonly range: string;
}) {
  const { detail, change, range } = props;
  const { market, mark } = detail;
  const payouts = market.result < 0 ? undefined : [market.result, 100 - market.result];
  const since = range === 'All' ? 'since open' : `in ${range}`;
  const prices = pricesText(mark.price_1);
  return (
    <ul class="outcomes">
      {([0, 1] as const).map((outcome) => {
        const payout = payouts?.[outcome];
        const moved = change === undefined ? undefined : outcome === 0 ? change : -change;
        return (
          <li key={outcome} class={(payout ?? 0) >= 50 ? 'won' : ''}>
            <b>{labelOf(market, outcome)}</b>
            <strong class="price-now">{market.result === -1 ? '–' : prices[outcome]}</strong>
            <span class="moved">
              {payout !== undefined ? (
                paid(payout)
              ) : market.result === -1 ? (
                'Void: pays nothing'
              ) : moved === undefined ? null : (
                <>
                  <Change micro={moved} /> <span class="soft">{since}</span>
                </>
              )}
            </span>
          </li>
        );
      })}
    </ul>
  );
}

/** The period of a range, by default the life of the market. It starts at a whole interval, so that the same candles have the same path. */
function periodOf({ first_match_at, market }: MarketDetail, range: string) {
  const resolved = timeMs(market.resolved_at);
  const end = Math.floor((resolved ?? now.peek()) / 1_000);
  const fixed = RANGES.find(({ name }) => name === range);
  const opened = timeMs(first_match_at) ?? timeMs(market.start_date);
  const age = opened === undefined ? DAYS_MAX * DAY : end - opened / 1_000;
  const seconds = fixed?.seconds ?? Math.min(age, (DAYS_MAX - 1) * DAY);
  const [interval, width] = INTERVALS.find(
    ([name, width]) => name === fixed?.interval || (!fixed && seconds / width <= CANDLES_MAX),
  ) ?? ['1d', DAY];
  const from = Math.max(0, Math.floor((end - seconds) / width) * width);
  return { interval, from, to: resolved === undefined ? '' : `&to=${end}` };
}

/** Whether a chart that begins at a time has all matches. */
function isWhole({ first_match_at }: MarketDetail, from: number): boolean {
  return from * 1_000 <= (timeMs(first_match_at) ?? 0);
}

function period(market: MarketObject): string {
  const [start, end] = [market.start_date.slice(0, 10), market.end_date.slice(0, 10)];
  return end === '' ? `From ${start}` : start === end ? start : `${start} to ${end}`;
}
