/**
 * A chart over time: uPlot under a component that lives as long as the canvas, redrawn with new data,
 * another width or other colours. What the pointer is over is told beneath in text, which is also
 * where keyboard and screen reader find it: the arrow keys move the pointer.
 */
import { useEffect, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import { timeText } from './format.ts';
import { colour, colours } from './theme.ts';

export type Series = {
  readonly kind: 'line' | 'bars' | 'steps';
  readonly values: readonly (number | null)[];
  /** Custom properties of the style sheet, above and below zero. */
  readonly above: string;
  readonly below?: string;
};

export type ChartProps = {
  /** What a reader who sees nothing is told. */
  readonly label: string;
  readonly height: number;
  /** Seconds since the epoch, ascending. */
  readonly times: readonly number[];
  readonly series: Series;
  /** A value on the axis. */
  readonly tick: (value: number) => string;
  /** What is told of a point. */
  readonly tell: (index: number) => string;
  /** Charts of one group share the pointer. */
  readonly group: string;
  readonly range?: readonly [number, number];
};

const AXIS_PIXELS = 64;
const TIME_AXIS_PIXELS = 34;
const DAY_SECONDS = 86_400;
/** Opacity of the area under a line. */
const WASH = 0.13;
const BAR_SHARE = 0.8;
const BAR_PIXELS_MAX = 24;
/** So few values are marked each. */
const MARKED_MAX = 30;
/** Around a single value. */
const ALONE_SECONDS = 1_800;

export function Chart(props: ChartProps) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const shown = useRef(props);
  shown.current = props;
  const [at, setAt] = useState<number | null>(null);

  useEffect(() => {
    const element = place.current;
    if (element === null) return;
    const made = new uPlot(
      optionsOf(shown, element.clientWidth, setAt),
      dataOf(shown.current),
      element,
    );
    plot.current = made;
    const observer = new ResizeObserver(() => {
      made.setSize({ width: element.clientWidth, height: shown.current.height });
    });
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
    };
    // Colours are read when the plot is made.
  }, [colours.value, props.series.kind, props.group]);

  useEffect(() => {
    if (plot.current !== null) redraw(plot.current, dataOf(props));
  }, [props.times, props.series.values]);

  const index = at === null || at >= props.times.length ? props.times.length - 1 : at;
  const time = props.times[index];
  return (
    <figure class="chart">
      <div
        ref={place}
        class="plot"
        role="slider"
        tabIndex={0}
        aria-label={props.label}
        aria-valuemin={0}
        aria-valuemax={Math.max(0, props.times.length - 1)}
        aria-valuenow={Math.max(0, index)}
        aria-valuetext={
          time === undefined ? 'no value' : `${timeText(time * 1_000)}: ${props.tell(index)}`
        }
        onKeyDown={(event) => {
          const step = event.key === 'ArrowLeft' ? -1 : event.key === 'ArrowRight' ? 1 : 0;
          if (step === 0) return;
          event.preventDefault();
          const next = Math.min(props.times.length - 1, Math.max(0, index + step));
          setAt(next);
          const left = plot.current?.valToPos(props.times[next] ?? 0, 'x') ?? -1;
          plot.current?.setCursor({ left, top: 0 });
        }}
      />
      <figcaption>
        {time === undefined ? '' : `${timeText(time * 1_000).slice(0, 16)} `}
        {time === undefined ? '' : <b>{props.tell(index)}</b>}
        {at === null && time !== undefined ? <span class="soft"> newest</span> : null}
      </figcaption>
    </figure>
  );
}

function dataOf({ times, series }: ChartProps): uPlot.AlignedData {
  return [[...times], [...series.values]];
}

/** The plot would keep the pointer's pixel, where other data may have another time. */
function redraw(plot: uPlot, data: uPlot.AlignedData): void {
  const { idx, top = 0 } = plot.cursor;
  const time = idx == null ? undefined : plot.data[0][idx];
  plot.batch(() => plot.setData(data));
  if (time !== undefined) plot.setCursor({ left: plot.valToPos(time, 'x'), top });
}

function optionsOf(
  shown: { readonly current: ChartProps },
  width: number,
  setAt: (index: number | null) => void,
): uPlot.Options {
  const { height, series, group, range } = shown.current;
  const [ink, line] = [colour('soft'), colour('line')];
  const names = [series.above, series.below ?? series.above] as const;
  const [above, below] = [colour(names[0]), colour(names[1])];
  const [aboveWash, belowWash] = [colour(names[0], WASH), colour(names[1], WASH)];
  const axis: uPlot.Axis = {
    stroke: ink,
    font: '11px "Inter Variable", system-ui, sans-serif',
    grid: { stroke: line, width: 1 },
    ticks: { show: false },
  };
  const signedColour = (plot: uPlot) => gradientAtZero(plot, above, below);
  return {
    width,
    height,
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1_000), 'UTC'),
    padding: [8, 8, 0, 0],
    legend: { show: false },
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
        range: (_plot, low, high) => (range === undefined ? spread(low, high) : [...range]),
      },
    },
    axes: [
      { ...axis, size: TIME_AXIS_PIXELS, space: 70, values: timeTicks },
      {
        ...axis,
        size: AXIS_PIXELS,
        values: (_plot, values) => values.map((value) => shown.current.tick(value)),
      },
    ],
    series: [
      {},
      {
        stroke: series.kind === 'bars' ? 'transparent' : signedColour,
        width: series.kind === 'bars' ? 0 : 1.6,
        fill:
          series.kind === 'bars'
            ? signedColour
            : (plot) => gradientAtZero(plot, aboveWash, belowWash),
        fillTo: 0,
        points: { show: () => series.kind !== 'bars' && shown.current.times.length <= MARKED_MAX },
        ...pathOf(series.kind),
      },
    ],
    hooks: { setCursor: [(plot) => setAt(plot.cursor.idx ?? null)] },
  };
}

/** Days where ticks are days apart, else hours, with the day where it begins. */
function timeTicks(_plot: uPlot, splits: number[], _axis: number, _space: number, step: number) {
  let lastDay = '';
  return splits.map((seconds) => {
    const iso = new Date(seconds * 1_000).toISOString();
    const day = iso.slice(5, 10);
    const text = step >= DAY_SECONDS ? day : iso.slice(11, step < 60 ? 19 : 16);
    const isNew = step < DAY_SECONDS && day !== lastDay;
    lastDay = day;
    return isNew ? `${text}\n${day}` : text;
  });
}

function pathOf(kind: Series['kind']): Pick<uPlot.Series, 'paths'> {
  if (kind === 'bars') {
    const bars = uPlot.paths.bars?.({ size: [BAR_SHARE, BAR_PIXELS_MAX] });
    return bars === undefined ? {} : { paths: bars };
  }
  const stepped = kind === 'steps' ? uPlot.paths.stepped?.({ align: 1 }) : undefined;
  return stepped === undefined ? {} : { paths: stepped };
}

/** One colour above zero and another below, as one gradient with a sharp step. */
function gradientAtZero(plot: uPlot, above: string, below: string): CanvasGradient | string {
  const { top, height } = plot.bbox;
  const zero = plot.valToPos(0, 'y', true);
  if (!Number.isFinite(zero) || above === below) return above;
  const share = Math.min(1, Math.max(0, (zero - top) / height));
  const gradient = plot.ctx.createLinearGradient(0, top, 0, top + height);
  gradient.addColorStop(0, above);
  gradient.addColorStop(share, above);
  gradient.addColorStop(share, below);
  gradient.addColorStop(1, below);
  return gradient;
}

/** Always with zero, and some air. */
function spread(low: number | null, high: number | null): [number, number] {
  const least = Math.min(0, low ?? 0);
  const most = Math.max(0, high ?? 0);
  const air = (most - least) * 0.08 || 1;
  return [least < 0 ? least - air : 0, most > 0 ? most + air : 0];
}
