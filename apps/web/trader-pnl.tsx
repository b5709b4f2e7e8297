/** A trader's PnL over time, realised and unrealised at the marks of the time, from zero at the start of the range. */
import { useMemo, useState } from 'preact/hooks';
import type { PnlPoints } from './answers.ts';
import { Chart } from './chart.tsx';
import { Choice } from './controls.tsx';
import { Pnl } from './figures.tsx';
import { short, signed, timeMs, units } from './format.ts';
import { Loaded, useAnswer } from './use-answer.tsx';

const DAY_MS = 86_400_000;
/** The height of the chart's card, so that nothing moves when it appears. */
const CARD_PIXELS = 262;
export const RANGES = [
  { title: '7 days', interval: '1h', days: 7 },
  { title: '30 days', interval: '1h', days: 30 },
  { title: '1 year', interval: '1d', days: 365 },
] as const;
export type Range = (typeof RANGES)[number];
const LINES = { pnl: 'Total', realised_pnl: 'Realised', unrealised_pnl: 'Unrealised' } as const;
type Line = keyof typeof LINES;
type Point = PnlPoints['points'][number];

export function TraderPnl(props: { readonly address: string; readonly refresh: unknown }) {
  const { address, refresh } = props;
  const [range, setRange] = useState<Range>(RANGES[1]);
  const [line, setLine] = useState<Line>('pnl');
  const answer = useAnswer<PnlPoints>(pnlPath(address, range), {
    ...{ refresh, subject: `${address} ${range.title}` },
  });
  const points = useMemo(() => gainsOf(answer.data?.points), [answer.data]);
  const drawn = useMemo(() => {
    const values = points.map((point) => point[line]);
    let peak = 0;
    let drawdown = 0;
    for (const value of values) {
      peak = Math.max(peak, value);
      drawdown = Math.min(drawdown, value - peak);
    }
    const times = points.map(({ time }) => (timeMs(time) ?? 0) / 1_000);
    return { times, values: values.map(units), drawdown };
  }, [points, line]);
  return (
    <section aria-labelledby="pnl-title">
      <div class="section-head">
        <h2 id="pnl-title">PnL</h2>
        {answer.data === undefined ? null : (
          <p class="soft totals drawdown">
            <Pnl micro={points.at(-1)?.[line] ?? 0} /> · largest drawdown{' '}
            <Pnl micro={drawn.drawdown} />
          </p>
        )}
        <Choice
          name="pnl-line"
          legend="Line"
          class="push"
          choices={Object.entries(LINES)}
          chosen={line}
          onChoose={(chosen) => setLine(chosen as Line)}
        />
        <RangeChoice chosen={range} onChoose={setRange} />
      </div>
      <Loaded answer={answer} rows={1} pixels={CARD_PIXELS} what="the PnL">
        {() => (
          <div class="card charts" aria-busy={answer.busy}>
            <Chart
              label={`${LINES[line]} PnL, USDC`}
              height={220}
              times={drawn.times}
              series={{ kind: 'line', values: drawn.values, above: 'gain', below: 'loss' }}
              tick={short}
              describe={(index) => describe(points[index])}
              group="pnl"
            />
          </div>
        )}
      </Loaded>
    </section>
  );
}

/** The same all day, because `from` is the start of a day. */
export function pnlPath(address: string, { days, interval }: Range): string {
  const from = (Math.floor(Date.now() / DAY_MS - days) + 1) * (DAY_MS / 1_000);
  return `/v2/traders/${encodeURIComponent(address)}/pnl?interval=${interval}&from=${from}`;
}

export function RangeChoice(props: {
  readonly class?: string;
  readonly chosen: Range;
  readonly onChoose: (range: Range) => void;
}) {
  return (
    <Choice
      name="pnl-range"
      legend="Time range"
      class={props.class ?? ''}
      choices={RANGES.map(({ title }) => [title, title])}
      chosen={props.chosen.title}
      onChoose={(chosen) =>
        props.onChoose(RANGES.find(({ title }) => title === chosen) ?? RANGES[0])
      }
    />
  );
}

/** The points less the first one. Drops the time before the first trade, except its last point. */
function gainsOf(points: PnlPoints['points'] | undefined): readonly Point[] {
  const first = points?.findIndex((one) => one.realised_pnl !== 0 || one.unrealised_pnl !== 0) ?? 0;
  const [start, ...others] = points?.slice(Math.max(0, first - 1)) ?? [];
  if (start === undefined) return [];
  return [start, ...others].map(({ time, pnl, realised_pnl, unrealised_pnl }) => ({
    time,
    pnl: pnl - start.pnl,
    realised_pnl: realised_pnl - start.realised_pnl,
    unrealised_pnl: unrealised_pnl - start.unrealised_pnl,
  }));
}

function describe(point: Point | undefined): string {
  if (point === undefined) return '';
  const { pnl, realised_pnl, unrealised_pnl } = point;
  return `${signed(pnl)} USDC: realised ${signed(realised_pnl)}, unrealised ${signed(unrealised_pnl)}`;
}
