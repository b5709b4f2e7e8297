/**
 * The price of a market over time: candles or a step line, with the volume below, on one canvas. Dragging zooms. A
 * tooltip and the line below the chart show the candle under the pointer. The arrow keys move the pointer, and plus
 * and minus zoom, so keyboards and screen readers can reach every value.
 */
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import type { Candle } from './answers.ts';
import type { FollowedTrade } from './followed-trades.ts';
import { centsTick, count, priceText, short, timeMs, timeText, units } from './format.ts';
import { axis, type PlotOptions, timeAxis, usePlot } from './plot.ts';
import { colour } from './theme.ts';

export type ChartKind = 'candles' | 'line';

type Props = {
  /** Accessible name. */
  readonly label: string;
  readonly kind: ChartKind;
  /** Oldest first. */
  readonly candles: readonly Candle[];
  /** Marked at their candles. */
  readonly trades: readonly FollowedTrade[];
  readonly height: number;
};

const AXIS_PIXELS = 52;
/** Share of the chart's height for the volume, below the prices. */
const VOLUME_SHARE = 0.2;
const CANDLE_SHARE = 0.68;
const CANDLE_PIXELS_MAX = 15;
/** Smallest range of prices shown, in cents. */
const CENTS_MIN = 1;
const TIP_PIXELS = 190;
/** Most trades that the tooltip and the text list. */
const TRADES_TOLD_MAX = 4;
const MARK_PIXELS = 5;
/** Share of the range that remains after one zoom step. */
const ZOOM_STEP = 0.6;
/** Opacity of the area under a line, and of the volume. */
const WASH = 0.1;
const VOLUME_WASH = 0.35;

type Pointed = { readonly index: number; readonly left: number };

export function MarketChart({ label, kind, candles, trades, height }: Props) {
  const marks = useMemo(() => marksOf(candles, trades), [candles, trades]);
  const marked = useRef(marks);
  marked.current = marks;
  const [pointed, setPointed] = useState<Pointed | undefined>(undefined);
  const [isZoomed, setZoomed] = useState(false);
  const data = useMemo(() => dataOf(candles), [candles]);
  const { place, plot } = usePlot({
    height,
    data,
    isZoomed,
    shape: kind,
    options: () => optionsOf(kind, marked, { setPointed, setZoomed }),
  });

  useEffect(() => plot.current?.redraw(false), [marks]);

  const index = Math.min(pointed?.index ?? candles.length - 1, candles.length - 1);
  const candle = candles[index];
  const pointedTrades = marks.get(index) ?? [];

  function point(to: number): void {
    const next = candles[Math.max(0, Math.min(candles.length - 1, to))];
    if (next === undefined || plot.current === null) return;
    plot.current.setCursor({ left: plot.current.valToPos(secondsOf(next), 'x'), top: 0 });
  }
  function zoom(factor: number): void {
    const drawn = plot.current;
    const [first, last] = [candles[0], candles.at(-1)];
    const { min, max } = drawn?.scales.x ?? {};
    if (!drawn || !first || !last || min == null || max == null) return;
    const middle = candle === undefined ? (min + max) / 2 : secondsOf(candle);
    const from = Math.max(secondsOf(first), middle - (middle - min) * factor);
    const to = Math.min(secondsOf(last), middle + (max - middle) * factor);
    if (to > from) drawn.setScale('x', { min: from, max: to });
  }
  function reset(): void {
    plot.current?.setData(data);
  }
  function onKeyDown(event: KeyboardEvent): void {
    const act = {
      ArrowLeft: () => point(index - 1),
      ArrowRight: () => point(index + 1),
      Home: () => point(0),
      End: () => point(candles.length - 1),
      '+': () => zoom(ZOOM_STEP),
      '-': () => zoom(1 / ZOOM_STEP),
      Escape: reset,
    }[event.key];
    if (act === undefined || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    act();
  }

  const width = place.current?.clientWidth ?? 0;
  /** Beside the pointer, on the side with more room; never beyond the chart, which may be as narrow as a phone. */
  const tipLeft = (at: number) => {
    const beside = at > width / 2 ? at - TIP_PIXELS - 14 : at + 14;
    return Math.max(0, Math.min(beside, width - TIP_PIXELS));
  };
  return (
    <figure class="chart market-chart">
      <div
        ref={place}
        class="plot"
        style={{ height: `${height}px` }}
        role="slider"
        tabIndex={0}
        aria-label={label}
        aria-valuemin={0}
        aria-valuemax={Math.max(0, candles.length - 1)}
        aria-valuenow={Math.max(0, index)}
        aria-valuetext={candle === undefined ? 'no value' : describeCandle(candle, pointedTrades)}
        onKeyDown={onKeyDown}
      />
      {pointed === undefined || candle === undefined ? null : (
        <Tip candle={candle} trades={pointedTrades} left={tipLeft(pointed.left)} />
      )}
      <figcaption>
        {candle === undefined ? '' : describeCandle(candle, pointedTrades)}
        {isZoomed ? (
          <button type="button" onClick={reset}>
            Reset zoom
          </button>
        ) : null}
      </figcaption>
    </figure>
  );
}

function Tip(props: {
  readonly candle: Candle;
  readonly trades: readonly FollowedTrade[];
  readonly left: number;
}) {
  const { candle, trades, left } = props;
  const { open, high, low, close } = candle;
  return (
    <div class="tip" style={{ transform: `translateX(${left}px)` }} aria-hidden="true">
      <p class="soft">{timeOf(candle)}</p>
      <dl>
        {candle.is_empty ? (
          <Line name="Price" value={priceText(close)} />
        ) : (
          <>
            <Line name="Open" value={priceText(open)} />
            <Line name="High" value={priceText(high)} />
            <Line name="Low" value={priceText(low)} />
            <Line name="Close" value={priceText(close)} tone={close < open ? 'loss' : 'gain'} />
          </>
        )}
        <Line name="Volume" value={`${short(units(candle.volume))} USDC`} />
        <Line name="Trades" value={count(candle.trades)} />
      </dl>
      {describeTrades(trades).map((text, index) => (
        <p key={index}>{text}</p>
      ))}
    </div>
  );
}

function Line(props: { readonly name: string; readonly value: string; readonly tone?: string }) {
  return (
    <div>
      <dt>{props.name}</dt>
      <dd class={props.tone}>{props.value}</dd>
    </div>
  );
}

function describeCandle(candle: Candle, followed: readonly FollowedTrade[]): string {
  const { open, high, low, close, volume, trades } = candle;
  if (candle.is_empty) return `${timeOf(candle)}: ${priceText(close)}, no trade`;
  const prices = `open ${priceText(open)}, high ${priceText(high)}, low ${priceText(low)}, close ${priceText(close)}`;
  const traded = `volume ${short(units(volume))} USDC in ${count(trades)} trades`;
  return [`${timeOf(candle)}: ${prices}`, traded, ...describeTrades(followed)].join(', ');
}

/** Newest first. */
function describeTrades(trades: readonly FollowedTrade[]): string[] {
  const more = trades.length - TRADES_TOLD_MAX;
  const some = trades.slice(0, TRADES_TOLD_MAX).map(({ text }) => text);
  return more > 0 ? [...some, `and ${count(more)} more`] : some;
}

type Marks = ReadonlyMap<number, readonly FollowedTrade[]>;

/** Trades by the index of their candle. */
function marksOf(candles: readonly Candle[], trades: readonly FollowedTrade[]): Marks {
  const times = candles.map(secondsOf);
  return Map.groupBy(trades, ({ seconds }) => times.findLastIndex((time) => time <= seconds));
}

function timeOf({ time }: Candle): string {
  return `${timeText(timeMs(time) ?? 0).slice(0, 16)} UTC`;
}

function secondsOf({ time }: Candle): number {
  return (timeMs(time) ?? 0) / 1_000;
}

const centsOf = (micro: number) => micro / 10_000;

/** Times; opens, highs, lows and closes in cents; volumes in USDC. */
function dataOf(candles: readonly Candle[]): uPlot.AlignedData {
  return [
    candles.map(secondsOf),
    candles.map(({ open }) => centsOf(open)),
    candles.map(({ high }) => centsOf(high)),
    candles.map(({ low }) => centsOf(low)),
    candles.map(({ close }) => centsOf(close)),
    candles.map(({ volume }) => units(volume)),
  ];
}

function optionsOf(
  kind: ChartKind,
  marks: { readonly current: Marks },
  handlers: {
    readonly setPointed: (pointed: Pointed | undefined) => void;
    readonly setZoomed: (isZoomed: boolean) => void;
  },
): PlotOptions {
  const isLine = kind === 'line';
  const accent = colour('accent');
  const unseen: uPlot.Series = { scale: 'cents', paths: () => null, points: { show: false } };
  const step = uPlot.paths.stepped?.({ align: 1 });
  const bars = uPlot.paths.bars?.({ size: [CANDLE_SHARE, CANDLE_PIXELS_MAX] });
  return {
    padding: [10, 0, 0, 22],
    cursor: {
      drag: { x: true, y: false, dist: 8 },
      points: { show: false },
    },
    scales: {
      x: {
        // With a margin around the first and the last candle, unless zoomed.
        range: ({ data: [times] }, first, last) => {
          const isAll = first <= (times[0] ?? first) && last >= (times.at(-1) ?? last);
          const air = isAll ? spacing(times) / 2 : 0;
          return [first - air, last + air];
        },
      },
      cents: { range: (_plot, low, high) => centsRange(low, high) },
      volume: { range: (_plot, _low, high) => [0, (high || 1) / VOLUME_SHARE] },
    },
    axes: [
      { ...timeAxis(), space: 80, grid: { show: false } },
      {
        ...axis(),
        ...{ scale: 'cents', side: 1, size: AXIS_PIXELS, space: 44 },
        values: (_plot, values) => values.map(centsTick),
      },
    ],
    series: [
      {},
      unseen,
      unseen,
      unseen,
      isLine && step !== undefined
        ? {
            ...{ scale: 'cents', stroke: accent, width: 1.8, paths: step },
            ...{ fill: colour('accent', WASH), points: { show: false } },
          }
        : unseen,
      {
        ...{ scale: 'volume', width: 0, points: { show: false } },
        fill: colour('soft', VOLUME_WASH),
        ...(bars === undefined ? {} : { paths: bars }),
      },
    ],
    hooks: {
      setCursor: [
        ({ cursor: { idx, left = -1 } }) => {
          handlers.setPointed(idx == null || left < 0 ? undefined : { index: idx, left });
        },
      ],
      setScale: [
        (plot, name) => {
          if (name !== 'x') return;
          const [times] = plot.data;
          const { min = 0, max = 0 } = plot.scales.x ?? {};
          const [first = 0, last = 0] = [times[0], times.at(-1)];
          handlers.setZoomed((min ?? 0) > first || (max ?? 0) < last);
        },
      ],
      draw: [...(isLine ? [] : [drawCandles]), (plot) => drawMarks(plot, marks.current)],
    },
  };
}

/** The usual interval between two times, in seconds. */
function spacing(times: ArrayLike<number>): number {
  return times.length < 2 ? 3_600 : (times[1] ?? 0) - (times[0] ?? 0);
}

/** The range of the price axis: a margin around the prices, room for the volume below, at most 0 to 100. */
function centsRange(low: number | null, high: number | null): [number, number] {
  const [least, most] = [low ?? 0, high ?? 100];
  const range = Math.max(CENTS_MIN, most - least);
  const middle = (least + most) / 2;
  const bottom = middle - range / 2 - range * (VOLUME_SHARE + 0.1);
  return [Math.max(-3, bottom), Math.min(102, middle + range * 0.6)];
}

/** Draws a triangle at each trade of a followed trader. Its tip is at the price; up means for outcome 0. */
function drawMarks(plot: uPlot, marks: Marks): void {
  const { ctx, data } = plot;
  const size = MARK_PIXELS * devicePixelRatio;
  const { left, width } = plot.bbox;
  ctx.save();
  ctx.fillStyle = colour('accent');
  ctx.strokeStyle = colour('surface');
  ctx.lineWidth = devicePixelRatio;
  for (const [index, trades] of marks) {
    const time = data[0][index];
    if (time === undefined) continue;
    const x = plot.valToPos(time, 'x', true);
    if (x < left || x > left + width) continue;
    for (const { cents, isFor } of trades) {
      const y = plot.valToPos(cents, 'cents', true);
      const foot = isFor ? y + 2 * size : y - 2 * size;
      ctx.beginPath();
      ctx.moveTo(x, y);
      ctx.lineTo(x - size, foot);
      ctx.lineTo(x + size, foot);
      ctx.closePath();
      ctx.fill();
      ctx.stroke();
    }
  }
  ctx.restore();
}

function drawCandles(plot: uPlot): void {
  const { ctx, data } = plot;
  const [times, opens = [], highs = [], lows = [], closes = []] = data;
  const [gain, loss] = [colour('gain'), colour('loss')];
  const each = Math.abs(plot.valToPos(spacing(times), 'x', true) - plot.valToPos(0, 'x', true));
  const ratio = devicePixelRatio;
  const width = Math.max(1, Math.min(CANDLE_PIXELS_MAX * ratio, each * CANDLE_SHARE));
  const { left, top, width: plotWidth, height } = plot.bbox;
  ctx.save();
  ctx.beginPath();
  ctx.rect(left, top, plotWidth, height);
  ctx.clip();
  for (const [index, time] of times.entries()) {
    const [open, high, low, close] = [opens[index], highs[index], lows[index], closes[index]];
    if (open == null || high == null || low == null || close == null) continue;
    const x = Math.round(plot.valToPos(time, 'x', true));
    if (x < left - width || x > left + plotWidth + width) continue;
    const y = (cents: number) => Math.round(plot.valToPos(cents, 'cents', true));
    ctx.fillStyle = close < open ? loss : gain;
    const wick = Math.max(1, Math.round(ratio));
    ctx.fillRect(x - wick / 2, y(high), wick, Math.max(1, y(low) - y(high)));
    const [upper, lower] = [y(Math.max(open, close)), y(Math.min(open, close))];
    ctx.fillRect(x - width / 2, upper, width, Math.max(wick, lower - upper));
  }
  ctx.restore();
}
