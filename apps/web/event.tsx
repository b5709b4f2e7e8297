/** The markets of an event: the price of each, what they add up to, and the dearest ones on one chart. */
import { useEffect, useMemo, useState } from 'preact/hooks';
import type { Candles, MarketEntry, Markets } from './answers.ts';
import { Chart } from './chart.tsx';
import { Choice, Skeleton } from './controls.tsx';
import { Tile, Usdc } from './figures.tsx';
import { capital, centsTick, count, priceText, timeMs } from './format.ts';
import { MARKET, marketPath } from './markets.tsx';
import { Picture } from './picture.tsx';
import { Nothing } from './shell.tsx';
import { now } from './status-strip.tsx';
import { CardTable, type Column } from './table.tsx';
import { useTitle } from './title.ts';
import { Loaded, Problem, useAnswer, useAnswers, useTicks } from './use-answer.tsx';

const REFRESH_MS = 15_000;
/** The API's limit. */
const MARKETS_MAX = 100;
/** The number of colours. */
const LINES_MAX = 5;
const CHART_PIXELS = 300;
/** With axis, text and padding. */
const CARD_PIXELS = 342;
const HOUR = 3_600;
const RANGES = {
  '1D': { seconds: 24 * HOUR, interval: '15m', width: HOUR / 4 },
  '1W': { seconds: 7 * 24 * HOUR, interval: '1h', width: HOUR },
  '1M': { seconds: 30 * 24 * HOUR, interval: '6h', width: 6 * HOUR },
} as const;
type Range = keyof typeof RANGES;
const RANGE_NAMES = Object.keys(RANGES) as Range[];

/** The markets of an event as the API has them. */
export function eventMarketsPath(slug: string): string {
  const event = encodeURIComponent(slug);
  return `/v2/markets?event=${event}&status=all&sort_by=volume&limit=${MARKETS_MAX}`;
}

export function Event({ id: slug }: { readonly id: string }) {
  const refresh = useTicks(REFRESH_MS);
  const answer = useAnswer<Markets>(eventMarketsPath(slug), { refresh, subject: slug });
  const first = answer.data?.markets[0]?.market;
  const title = first?.event_title || `Event ${slug}`;
  useTitle(title);
  if (answer.data !== undefined && first === undefined) {
    return <Nothing title="No such event">The service knows no market of “{slug}”.</Nothing>;
  }
  return (
    <article aria-busy={answer.busy}>
      <div class="head">
        <h1>{title}</h1>
      </div>
      <Loaded answer={answer} rows={12} what="the event" tall>
        {({ markets, next_cursor }) => (
          <Outcomes markets={markets} isCut={next_cursor !== ''} refresh={refresh} />
        )}
      </Loaded>
    </article>
  );
}

function Outcomes(props: {
  readonly markets: readonly MarketEntry[];
  readonly isCut: boolean;
  readonly refresh: unknown;
}) {
  const { isCut, refresh } = props;
  const markets = props.markets.toSorted((a, b) => priceOf(b) - priceOf(a));
  const [drawn, setDrawn] = useState<readonly string[]>([]);
  // The lines stay when prices overtake each other.
  const ids = markets.map(({ market }) => market.condition_id);
  const isKept = drawn.length > 0 && drawn.every((id) => ids.includes(id));
  const lines = isKept ? drawn : ids.slice(0, LINES_MAX);
  useEffect(() => setDrawn(lines), [lines.join()]);
  const isExclusive = markets.some(({ market }) => market.neg_risk);
  const sum = markets.reduce((total, entry) => total + priceOf(entry), 0);
  const volume = markets.reduce((total, entry) => total + entry.volume, 0);
  return (
    <>
      <dl class="tiles event-tiles">
        <Tile name="Markets">
          {count(markets.length)}
          {isCut ? '+' : ''}
        </Tile>
        {isExclusive ? <Tile name="Sum of prices, one wins">{priceText(sum)}</Tile> : null}
        <Tile name="Volume, USDC">
          <Usdc micro={volume} />
        </Tile>
      </dl>
      <Lines
        entries={lines.flatMap(
          (id) => markets.find(({ market }) => market.condition_id === id) ?? [],
        )}
        refresh={refresh}
      />
      <div class="section-head">
        <h2>Outcomes</h2>
      </div>
      <CardTable
        label="Markets of the event"
        class="market-table two-line"
        columns={columnsOf(lines)}
        rows={markets}
        keyOf={({ market }) => market.condition_id}
        empty=""
      />
    </>
  );
}

function columnsOf(lines: readonly string[]): readonly Column<MarketEntry>[] {
  return [
    {
      ...MARKET.name,
      cell: (entry) => {
        const line = lines.indexOf(entry.market.condition_id);
        return (
          <span class="compared">
            <i
              class="dot"
              style={{ background: line < 0 ? 'transparent' : `var(--${colourOf(line)})` }}
            />
            <Picture id={entry.market.condition_id} image={entry.market.icon} />
            <a href={marketPath(entry.market)} data-row title={entry.market.question}>
              {nameOf(entry.market)}
            </a>
          </span>
        );
      },
    },
    ...[MARKET.price, MARKET.change, MARKET.volume24h, MARKET.volume],
    { title: 'Status', class: 'figure soft', cell: ({ status }) => capital(status) },
  ];
}

/** The prices of the first outcomes over time. */
function Lines(props: { readonly entries: readonly MarketEntry[]; readonly refresh: unknown }) {
  const { entries, refresh } = props;
  const [range, setRange] = useState<Range>('1W');
  const { seconds, interval, width } = RANGES[range];
  const since = now.peek() / 1_000 - seconds;
  const from = Math.floor(since / width) * width;
  const paths = entries.map(
    ({ market }) => `/v2/markets/${market.condition_id}/candles?interval=${interval}&from=${from}`,
  );
  const answers = useAnswers<Candles>(paths, { refresh });
  const { data, problem } = answers;
  const drawn = useMemo(() => linesOf(paths.map((path) => data.get(path))), [data, paths.join()]);
  const isLoading = problem === undefined && paths.some((path) => !data.has(path));
  return (
    <section aria-labelledby="lines-title">
      <div class="section-head">
        <h2 id="lines-title">Prices</h2>
        <Choice
          name="range"
          legend="Range"
          class="push"
          choices={RANGE_NAMES.map((name) => [name, name])}
          chosen={range}
          onChoose={setRange}
        />
      </div>
      <Problem problem={problem} answer={answers} />
      {isLoading && data.size === 0 ? (
        <Skeleton rows={1} pixels={CARD_PIXELS} what="the prices" />
      ) : (
        <div class="card charts">
          <Chart
            label="Prices of the event, cents"
            height={CHART_PIXELS}
            times={drawn.times}
            series={{ kind: 'lines', lines: drawn.lines }}
            tick={centsTick}
            describe={(index) =>
              entries
                .map(({ market }, line) => `${nameOf(market)} ${textAt(drawn.lines[line], index)}`)
                .join(' · ')
            }
            group="event"
          />
        </div>
      )}
    </section>
  );
}

type Line = { readonly colour: string; readonly values: readonly (number | null)[] };

/** A market has no price before its first match. */
function linesOf(answers: readonly (Candles | undefined)[]) {
  const closes = answers.map(
    (answer) => new Map(answer?.candles.map(({ time, close }) => [timeMs(time) ?? 0, close])),
  );
  const times = [...new Set(closes.flatMap((one) => [...one.keys()]))].sort((a, b) => a - b);
  return {
    times: times.map((ms) => ms / 1_000),
    lines: closes.map((one, index): Line => {
      const values = times.map((ms) => {
        const close = one.get(ms);
        return close === undefined ? null : close / 10_000;
      });
      return { colour: colourOf(index), values };
    }),
  };
}

function textAt(line: Line | undefined, index: number): string {
  const value = line?.values[index] ?? null;
  return priceText(value === null ? null : value * 10_000);
}

const colourOf = (line: number) => `line-${line + 1}`;

function priceOf({ mark }: MarketEntry): number {
  return mark.price_1 ?? 0;
}

/** The title within the event, or the question. */
function nameOf({ group_item_title, question }: MarketEntry['market']): string {
  return group_item_title === '' ? question : group_item_title;
}
