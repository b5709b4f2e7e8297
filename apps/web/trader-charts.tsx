/** A trader's PnL of the last 30 days: cumulative, and per hour below. */
import { useMemo, useState } from 'preact/hooks';
import type { Hourly } from './answers.ts';
import { Chart } from './chart.tsx';
import { SelectField } from './controls.tsx';
import { amount, short, signed, timeMs, units } from './format.ts';
import { Loaded, useAnswer } from './use-answer.tsx';

const HOUR_SECONDS = 3_600;
/** The height of both charts. */
const CARD_PIXELS = 418;

export function TraderCharts(props: {
  readonly address: string;
  readonly tags: readonly string[];
  readonly refresh: unknown;
}) {
  const [tag, setTag] = useState('all');
  const path = `/v2/traders/${encodeURIComponent(props.address)}/hourly_stats?tag=${encodeURIComponent(tag)}`;
  const hourly = useAnswer<Hourly>(path, {
    refresh: props.refresh,
    subject: `${props.address} ${tag}`,
  });
  const stats = hourly.data?.stats;
  const hours = useMemo(() => everyHour(stats ?? []), [stats]);
  return (
    <section aria-labelledby="curve-title">
      <div class="section-head">
        <h2 id="curve-title">PnL of the last 30 days</h2>
        <SelectField
          label="Tag"
          class="push"
          value={tag}
          choices={['all', ...props.tags].map((one) => [one, one])}
          onValue={setTag}
        />
      </div>
      <Loaded answer={hourly} rows={1} pixels={CARD_PIXELS} what="the PnL by hour">
        {({ stats }) =>
          stats.length === 0 ? (
            <p class="card empty">No activity in the last 30 days.</p>
          ) : (
            <div class="card charts">
              <Chart
                label="Cumulative PnL, USDC"
                height={220}
                times={hours.times}
                series={{ kind: 'line', values: hours.sums, above: 'gain', below: 'loss' }}
                tick={short}
                describe={(index) => `${signed(hours.exactSums[index] ?? 0)} USDC`}
                group="trader"
              />
              <Chart
                label="PnL by hour, USDC"
                height={120}
                times={hours.times}
                series={{ kind: 'bars', values: hours.pnl, above: 'gain', below: 'loss' }}
                tick={short}
                describe={(index) => describeHour(hours.stats[index])}
                group="trader"
              />
            </div>
          )
        }
      </Loaded>
    </section>
  );
}

type Stat = Hourly['stats'][number];

function describeHour(stat: Stat | undefined): string {
  if (stat === undefined) return 'no activity';
  const volume = amount(stat.maker_volume + stat.taker_volume, 0);
  return `${signed(stat.pnl)} USDC in the hour, volume ${volume}, fees ${amount(stat.fee)}, ${stat.market_count} markets, ${stat.win_count} won`;
}

/** Adds the hours without activity, which the API omits. */
function everyHour(stats: readonly Stat[]) {
  const known = new Map(stats.map((stat) => [(timeMs(stat.hour) ?? 0) / 1_000, stat]));
  const [first, last] = [Math.min(...known.keys()), Math.max(...known.keys())];
  const times: number[] = [];
  for (let at = first; at <= last; at += HOUR_SECONDS) times.push(at);
  let sum = 0;
  const exactSums = times.map((at) => {
    sum += known.get(at)?.pnl ?? 0;
    return sum;
  });
  return {
    times,
    exactSums,
    stats: times.map((at) => known.get(at)),
    sums: exactSums.map(units),
    pnl: times.map((at) => units(known.get(at)?.pnl ?? 0)),
  };
}
