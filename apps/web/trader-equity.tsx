/** A trader's equity over time, realised PnL plus holdings at the marks of the time, and its drawdown. */
import { useMemo, useState } from 'preact/hooks';
import type { Equity } from './answers.ts';
import { Chart } from './chart.tsx';
import { Choice } from './controls.tsx';
import { Pnl } from './figures.tsx';
import { amount, short, signed, timeMs, units } from './format.ts';
import { Loaded, useAnswer } from './use-answer.tsx';

const DAY_MS = 86_400_000;
/** The height of both charts, so that nothing moves when they appear. */
const CARD_PIXELS = 388;
export const RANGES = [
  { title: '7 days', interval: '1h', days: 7 },
  { title: '30 days', interval: '1h', days: 30 },
  { title: '1 year', interval: '1d', days: 365 },
] as const;
export type Range = (typeof RANGES)[number];
const LINES = { equity: 'Total', realised_pnl: 'Realised', unrealised_pnl: 'Unrealised' } as const;

export function TraderEquity(props: { readonly address: string; readonly refresh: unknown }) {
  const { address, refresh } = props;
  const [range, setRange] = useState<Range>(RANGES[0]);
  const [line, setLine] = useState<keyof typeof LINES>('equity');
  const answer = useAnswer<Equity>(equityPath(address, range), {
    ...{ refresh, subject: `${address} ${range.title}` },
  });
  const points = useMemo(() => sinceFirst(answer.data?.points), [answer.data]);
  const drawn = useMemo(() => {
    const values = (points ?? []).map((point) => point[line]);
    let peak = Number.NEGATIVE_INFINITY;
    const below = values.map((value) => {
      peak = Math.max(peak, value);
      return value - peak;
    });
    return {
      times: (points ?? []).map(({ time }) => (timeMs(time) ?? 0) / 1_000),
      ...{ values, below, lowest: Math.min(0, ...below) },
    };
  }, [points, line]);
  const series = useMemo(
    () => ({ values: drawn.values.map(units), below: drawn.below.map(units) }),
    [drawn],
  );
  const name = LINES[line];
  return (
    <section aria-labelledby="equity-title">
      <div class="section-head">
        <h2 id="equity-title">Equity</h2>
        {points === undefined ? null : (
          <p class="soft totals drawdown">
            largest drawdown <Pnl micro={drawn.lowest} />
          </p>
        )}
        <Choice
          name="equity-line"
          legend="Line"
          class="push"
          choices={Object.entries(LINES)}
          chosen={line}
          onChoose={(chosen) => setLine(chosen as keyof typeof LINES)}
        />
        <RangeChoice chosen={range} onChoose={setRange} />
      </div>
      <Loaded answer={answer} rows={1} pixels={CARD_PIXELS} what="the equity">
        {() => (
          <div class="card charts" aria-busy={answer.busy}>
            <Chart
              label={`${name} PnL, USDC`}
              height={220}
              times={drawn.times}
              series={{ kind: 'line', values: series.values, above: 'gain', below: 'loss' }}
              tick={short}
              describe={(index) => describe(points?.[index])}
              group="equity"
            />
            <Chart
              label={`Drawdown of ${name.toLowerCase()} PnL, USDC`}
              height={90}
              times={drawn.times}
              series={{ kind: 'line', values: series.below, above: 'gain', below: 'loss' }}
              tick={short}
              describe={(index) => `${amount(-(drawn.below[index] ?? 0))} USDC below the peak`}
              group="equity"
            />
          </div>
        )}
      </Loaded>
    </section>
  );
}

/** The same all day, because `from` is the start of a day. */
export function equityPath(address: string, { days, interval }: Range): string {
  const from = (Math.floor(Date.now() / DAY_MS - days) + 1) * (DAY_MS / 1_000);
  return `/v2/traders/${encodeURIComponent(address)}/equity?interval=${interval}&from=${from}`;
}

export function RangeChoice(props: {
  readonly class?: string;
  readonly chosen: Range;
  readonly onChoose: (range: Range) => void;
}) {
  return (
    <Choice
      name="equity-range"
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

/** Drops the time before the first trade, except its last point. */
function sinceFirst(points: Equity['points'] | undefined): Equity['points'] | undefined {
  const first = points?.findIndex((one) => one.realised_pnl !== 0 || one.unrealised_pnl !== 0) ?? 0;
  return points?.slice(Math.max(0, first - 1));
}

function describe(point: Equity['points'][number] | undefined): string {
  if (point === undefined) return '';
  const { equity, realised_pnl, unrealised_pnl } = point;
  return `${signed(equity)} USDC: realised ${signed(realised_pnl)}, unrealised ${signed(unrealised_pnl)}`;
}
