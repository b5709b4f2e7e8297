/** A trader's realised PnL by day: one month, in UTC. */
import { useMemo, useState } from 'preact/hooks';
import type { Hourly } from './answers.ts';
import { Pnl } from './figures.tsx';
import { amount, count, exact, short, signed, timeMs, units } from './format.ts';
import { Loaded, useAnswer } from './use-answer.tsx';

const DAY_MS = 86_400_000;
const WEEKDAYS = ['Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun'];
const MONTH = new Intl.DateTimeFormat('en-US', { month: 'long', year: 'numeric', timeZone: 'UTC' });
/** The height of six weeks, so that switching months moves nothing. */
const CARD_PIXELS = 334;

type Day = { readonly pnl: number; readonly volume: number; readonly wins: number };

export function TraderCalendar(props: { readonly address: string; readonly refresh: unknown }) {
  /** Number of months before the current one. */
  const [back, setBack] = useState(0);
  const today = new Date();
  const [first, end] = [-back, 1 - back].map((months) =>
    Date.UTC(today.getUTCFullYear(), today.getUTCMonth() + months),
  ) as [number, number];
  const path = `/v2/traders/${encodeURIComponent(props.address)}/hourly_stats?from=${first / 1_000}&to=${end / 1_000 - 1}`;
  const { refresh, address } = props;
  const answer = useAnswer<Hourly>(path, {
    ...{ refresh: back === 0 ? refresh : undefined, subject: `${address} ${first}` },
  });
  const days = useMemo(() => byDay(answer.data?.stats ?? []), [answer.data]);
  const month = MONTH.format(first);
  return (
    <section aria-labelledby="calendar-title" aria-busy={answer.busy}>
      <div class="section-head">
        <h2 id="calendar-title">PnL by day</h2>
        {answer.data === undefined ? null : (
          <p class="soft totals">
            {month} <Pnl micro={[...days.values()].reduce((sum, { pnl }) => sum + pnl, 0)} />
          </p>
        )}
        <div class="push months">
          <button type="button" aria-label="Previous month" onClick={() => setBack(back + 1)}>
            ‹
          </button>
          <button
            type="button"
            aria-label="Next month"
            disabled={back === 0}
            onClick={() => setBack(back - 1)}
          >
            ›
          </button>
        </div>
      </div>
      <Loaded answer={answer} rows={1} pixels={CARD_PIXELS} what="the PnL by day">
        {() => <Month title={month} first={first} end={end} days={days} />}
      </Loaded>
    </section>
  );
}

function Month(props: {
  readonly title: string;
  /** Milliseconds since 1970. */
  readonly first: number;
  readonly end: number;
  /** By its start. */
  readonly days: ReadonlyMap<number, Day>;
}) {
  const { title, first, end, days } = props;
  const most = Math.max(1, ...[...days.values()].map(({ pnl }) => Math.abs(pnl)));
  // 1970 began on a Thursday.
  const monday = first - ((first / DAY_MS + 3) % WEEKDAYS.length) * DAY_MS;
  return (
    <div class="card calendar" style={{ height: `${CARD_PIXELS}px` }}>
      <table>
        <caption class="hidden">PnL of each day of {title}, USDC</caption>
        <thead>
          <tr>
            {WEEKDAYS.map((name) => (
              <th key={name} scope="col">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {Array.from({ length: Math.ceil((end - monday) / DAY_MS / 7) }, (_, week) => (
            <tr key={week}>
              {WEEKDAYS.map((name, weekday) => {
                const start = monday + (week * 7 + weekday) * DAY_MS;
                if (start < first || start >= end) return <td key={name} />;
                return <DayCell key={name} start={start} day={days.get(start)} most={most} />;
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function DayCell(props: {
  readonly start: number;
  readonly day: Day | undefined;
  readonly most: number;
}) {
  const { start, day, most } = props;
  const date = new Date(start);
  return (
    <td
      class={day === undefined ? 'idle' : day.pnl < 0 ? 'down' : 'up'}
      style={{ '--heat': day === undefined ? 0 : Math.abs(day.pnl) / most }}
      title={
        day === undefined
          ? 'no activity'
          : `${exact(day.pnl)}, volume ${amount(day.volume, 0)}, ${count(day.wins)} markets won`
      }
    >
      <time dateTime={date.toISOString().slice(0, 10)}>{date.getUTCDate()}</time>
      {day === undefined ? null : (
        <b>
          {day.pnl > 0 ? '+' : ''}
          {short(units(day.pnl))}
          <span class="hidden"> ({signed(day.pnl)} USDC)</span>
        </b>
      )}
    </td>
  );
}

function byDay(stats: Hourly['stats']): ReadonlyMap<number, Day> {
  const days = new Map<number, Day>();
  for (const { hour, pnl, taker_volume, maker_volume, win_count } of stats) {
    const ms = timeMs(hour) ?? 0;
    const start = ms - (ms % DAY_MS);
    const { pnl: sum, volume, wins } = days.get(start) ?? { pnl: 0, volume: 0, wins: 0 };
    days.set(start, {
      ...{ pnl: sum + pnl, wins: wins + win_count },
      volume: volume + taker_volume + maker_volume,
    });
  }
  return days;
}
