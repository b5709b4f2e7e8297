/**
 * What the charts have in common: a uPlot that fills the width of its element. It is created again when the colours
 * change, because it reads them then, and keeps the pointer at its time when its data changes.
 */
import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import { colour, colours } from './theme.ts';

const DAY_SECONDS = 86_400;

export type PlotOptions = Omit<uPlot.Options, 'width' | 'height'>;

export function usePlot(chart: {
  /** In pixels; it stays. */
  readonly height: number;
  readonly data: uPlot.AlignedData;
  readonly options: () => PlotOptions;
  /** What the options depend on: when it changes, the plot is created again. */
  readonly shape: string;
  /** Whether new data leaves the range of times as it is. */
  readonly isZoomed: boolean;
}) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const { height, data, options, shape, isZoomed } = chart;

  useEffect(() => {
    const element = place.current;
    if (element === null) return;
    const size = () => ({ width: element.clientWidth, height });
    const made = new uPlot(
      {
        ...size(),
        tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1_000), 'UTC'),
        legend: { show: false },
        ...options(),
      },
      data,
      element,
    );
    plot.current = made;
    const observer = new ResizeObserver(() => made.setSize(size()));
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [colours.value, shape]);

  useEffect(() => {
    const drawn = plot.current;
    if (drawn === null) return;
    const { idx, top = 0 } = drawn.cursor;
    const time = idx == null ? undefined : drawn.data[0][idx];
    // At once, because the pointer is placed on the new scale.
    drawn.batch(() => {
      drawn.setData(data, !isZoomed);
      if (isZoomed) drawn.redraw();
    });
    // By default, the plot keeps the pointer at its pixel.
    if (time !== undefined) drawn.setCursor({ left: drawn.valToPos(time, 'x'), top });
  }, [data]);

  return { place, plot };
}

/** The look of an axis. */
export function axis(): uPlot.Axis {
  return {
    stroke: colour('soft'),
    font: '11px "Inter Variable", system-ui, sans-serif',
    grid: { stroke: colour('line'), width: 1 },
    ticks: { show: false },
  };
}

export function timeAxis(): uPlot.Axis {
  return { ...axis(), size: 34, values: timeTicks };
}

/** Labels days if ticks are days apart, otherwise hours, with the date at each new day. */
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
