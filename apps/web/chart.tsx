/**
 * Time series charts, drawn with uPlot, and sparklines. A chart redraws when its data, width or colours change. The
 * value under the pointer is also shown as text below, and the arrow keys move the pointer, so keyboards and screen
 * readers can reach every value.
 */
import { useMemo, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import { signed, timeText } from './format.ts';
import { axis, type PlotOptions, timeAxis, usePlot } from './plot.ts';
import { colour } from './theme.ts';

type Values = readonly (number | null)[];

/** Colours are names of custom properties in the style sheet. */
type Series =
  | {
      readonly kind: 'line' | 'bars';
      readonly values: Values;
      /** Colours above and below zero. */
      readonly above: string;
      readonly below: string;
    }
  | {
      readonly kind: 'lines';
      readonly lines: readonly { readonly values: Values; readonly colour: string }[];
    };

export type ChartProps = {
  /** Accessible name. */
  readonly label: string;
  readonly height: number;
  /** Seconds since the epoch, ascending. */
  readonly times: readonly number[];
  readonly series: Series;
  /** Formats a value on the axis. */
  readonly tick: (value: number) => string;
  /** Describes a point in words. */
  readonly describe: (index: number) => string;
  /** Charts of one group share the pointer. */
  readonly group: string;
};

const AXIS_PIXELS = 64;
/** Opacity of the area under a line. */
const WASH = 0.13;
const BAR_SHARE = 0.8;
const BAR_PIXELS_MAX = 24;
/** Lines with up to this many values have markers. */
const MARKED_MAX = 30;
/** Time shown before and after a single value. */
const ALONE_SECONDS = 1_800;

export function Chart(props: ChartProps) {
  const { height, series, times } = props;
  const shown = useRef(props);
  shown.current = props;
  const [at, setAt] = useState<number | null>(null);

  const data = useMemo(
    () => dataOf(props),
    [times, series.kind === 'lines' ? series.lines : series.values],
  );
  const { place, plot } = usePlot({
    height,
    data,
    isZoomed: false,
    shape: `${props.group} ${shapeOf(series)}`,
    options: () => optionsOf(shown, setAt),
  });
  const index = at === null || at >= times.length ? times.length - 1 : at;
  const time = times[index];
  return (
    <figure class="chart">
      <div
        ref={place}
        class="plot"
        // The plot is created after the first paint.
        style={{ height: `${height}px` }}
        role="slider"
        tabIndex={0}
        aria-label={props.label}
        aria-valuemin={0}
        aria-valuemax={Math.max(0, times.length - 1)}
        aria-valuenow={Math.max(0, index)}
        aria-valuetext={
          time === undefined ? 'no value' : `${timeText(time * 1_000)}: ${props.describe(index)}`
        }
        onKeyDown={(event) => {
          const step = event.key === 'ArrowLeft' ? -1 : event.key === 'ArrowRight' ? 1 : 0;
          if (step === 0) return;
          event.preventDefault();
          const next = Math.min(times.length - 1, Math.max(0, index + step));
          setAt(next);
          const left = plot.current?.valToPos(times[next] ?? 0, 'x') ?? -1;
          plot.current?.setCursor({ left, top: 0 });
        }}
      />
      <figcaption>
        {time === undefined ? '' : `${timeText(time * 1_000).slice(0, 16)} `}
        {time === undefined ? '' : <b>{props.describe(index)}</b>}
        {at === null && time !== undefined ? <span class="soft"> (latest)</span> : null}
      </figcaption>
    </figure>
  );
}

/** What a plot is created for; its values may change later. */
function shapeOf(series: Series): string {
  if (series.kind !== 'lines') return series.kind;
  return series.lines.map(({ colour }) => colour).join();
}

function dataOf({ times, series }: ChartProps): uPlot.AlignedData {
  const all = series.kind === 'lines' ? series.lines : [series];
  return [[...times], ...all.map(({ values }) => [...values])];
}

function optionsOf(
  shown: { readonly current: ChartProps },
  setAt: (index: number | null) => void,
): PlotOptions {
  const { series, group } = shown.current;
  const isMarked = () => series.kind !== 'bars' && shown.current.times.length <= MARKED_MAX;
  return {
    // Half of a label of the time axis fits on the right.
    padding: [8, 18, 0, 0],
    cursor: {
      sync: { key: group },
      drag: { x: false, y: false },
      points: { size: 7 },
      y: false,
    },
    scales: {
      x: {
        range: ({ data: [times] }, first, last) =>
          times.length === 1 ? [first - ALONE_SECONDS, first + ALONE_SECONDS] : [first, last],
      },
      y: {
        range: (_plot, low, high) => spread(low, high),
      },
    },
    axes: [
      { ...timeAxis(), space: 70 },
      {
        ...axis(),
        size: AXIS_PIXELS,
        values: (_plot, values) => values.map((value) => shown.current.tick(value)),
      },
    ],
    series: [
      {},
      ...(series.kind === 'lines' ? linesOf(series.lines) : [signedSeries(series)]).map((one) => ({
        ...one,
        points: { show: isMarked },
      })),
    ],
    hooks: { setCursor: [(plot) => setAt(plot.cursor.idx ?? null)] },
  };
}

function linesOf(lines: Extract<Series, { kind: 'lines' }>['lines']): uPlot.Series[] {
  return lines.map((one) => ({ stroke: colour(one.colour), width: 1.8 }));
}

function signedSeries(series: Exclude<Series, { kind: 'lines' }>): uPlot.Series {
  const [above, below] = [colour(series.above), colour(series.below)];
  const [aboveWash, belowWash] = [colour(series.above, WASH), colour(series.below, WASH)];
  const signedColour = (plot: uPlot) => gradientAtZero(plot, above, below);
  const isBars = series.kind === 'bars';
  return {
    stroke: isBars ? 'transparent' : signedColour,
    width: isBars ? 0 : 1.6,
    fill: isBars ? signedColour : (plot) => gradientAtZero(plot, aboveWash, belowWash),
    fillTo: 0,
    ...(isBars ? barPaths() : {}),
  };
}

function barPaths(): Pick<uPlot.Series, 'paths'> {
  const paths = uPlot.paths.bars?.({ size: [BAR_SHARE, BAR_PIXELS_MAX] });
  return paths === undefined ? {} : { paths };
}

/** A gradient with a sharp step: one colour above zero, another below. */
function gradientAtZero(plot: uPlot, above: string, below: string): CanvasGradient | string {
  const { top, height } = plot.bbox;
  const zero = plot.valToPos(0, 'y', true);
  if (!Number.isFinite(zero)) return above;
  const share = Math.min(1, Math.max(0, (zero - top) / height));
  const gradient = plot.ctx.createLinearGradient(0, top, 0, top + height);
  gradient.addColorStop(0, above);
  gradient.addColorStop(share, above);
  gradient.addColorStop(share, below);
  gradient.addColorStop(1, below);
  return gradient;
}

/** Always includes zero, with a margin. */
function spread(low: number | null, high: number | null): [number, number] {
  const least = Math.min(0, low ?? 0);
  const most = Math.max(0, high ?? 0);
  const air = (most - least) * 0.08 || 1;
  return [least < 0 ? least - air : 0, most > 0 ? most + air : 0];
}

const WIDTH = 96;
const HEIGHT = 24;
const EDGE = 2;

type SparklineProps = {
  /** Cumulative PnL, oldest first, from 0, in micro-units. */
  readonly sums: readonly number[] | undefined;
  /** Of all lines of the page, so that they can be compared. */
  readonly scale: { readonly low: number; readonly high: number };
  /** What the line covers. */
  readonly frame: string;
};

/** A trader's PnL as a line without axes. */
export function Sparkline({ sums, scale, frame }: SparklineProps) {
  if (sums === undefined) return <span class="spark" />;
  const sum = sums.at(-1) ?? 0;
  if (sums.every((one) => one === 0)) {
    return (
      <span class="spark quiet" title={`nothing realised in ${frame}`}>
        ·
      </span>
    );
  }
  const { low, high } = scale;
  const x = (index: number) => round((index / (sums.length - 1)) * WIDTH);
  const y = (value: number) =>
    round(EDGE + (1 - (value - low) / (high - low)) * (HEIGHT - 2 * EDGE));
  const line = sums.map((value, index) => `${x(index)} ${y(value)}`).join('L');
  const title = `${signed(sum)} USDC in ${frame}`;
  return (
    <svg
      class={`spark ${sum < 0 ? 'loss' : 'gain'}`}
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      width={WIDTH}
      height={HEIGHT}
      role="img"
      aria-label={title}
    >
      <title>{title}</title>
      <path class="base" d={`M0 ${y(0)}H${WIDTH}`} />
      <path class="area" d={`M0 ${y(0)}L${line}L${WIDTH} ${y(0)}Z`} />
      <path class="line" d={`M${line}`} />
    </svg>
  );
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
