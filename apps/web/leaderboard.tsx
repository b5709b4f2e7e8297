/** The leaderboard: one page of the ranking for the settings in the URL. Reloads when the board is recomputed. */
import { useMemo, useRef } from 'preact/hooks';
import type { Leaderboard as Answer, LeaderboardEntry, PnlLines } from './answers.ts';
import { Sparkline } from './chart.tsx';
import { Choice, Pager } from './controls.tsx';
import { Ago, Pnl, Roi, Share, Usdc, WinRate } from './figures.tsx';
import { type Filter, ListControls, parametersOf, settingsOf, sortedBy } from './filters.tsx';
import { count, span } from './format.ts';
import { ListTools } from './in-code.tsx';
import { key } from './key.ts';
import { setQuery } from './route.ts';
import { numberKeys, useViewKeys } from './shortcuts.ts';
import { boardAgeMs, status } from './status-strip.tsx';
import { CardTable, type Column } from './table.tsx';
import { TRADER } from './trader-name.tsx';
import { Loaded, useAnswer } from './use-answer.tsx';

/** The line of each time frame, about 30 points. Shorter frames have too few hours. */
const LINES: Readonly<Record<string, { readonly hours: number; readonly step: number }>> = {
  '1D': { hours: 24, step: 1 },
  '3D': { hours: 72, step: 2 },
  '7D': { hours: 168, step: 6 },
  '30D': { hours: 720, step: 24 },
};
const TIME_FRAMES = ['1H', '4H', '1D', '3D', '7D', '30D'] as const;

const FILTERS: readonly Filter[] = (
  [
    ['min_pnl', 'Min PnL, USDC', 'PnL ≥ # USDC'],
    ['min_roi', 'Min ROI, %', 'ROI ≥ #%'],
    ['max_roi', 'Max ROI, %', 'ROI ≤ #%'],
    ['min_win_rate', 'Min win rate, %', 'win rate ≥ #%'],
    ['max_win_rate', 'Max win rate, %', 'win rate ≤ #%'],
    ['min_market_count', 'Min markets', 'markets ≥ #'],
    ['max_market_count', 'Max markets', 'markets ≤ #'],
    ['last_active_hours', 'Active in the last … hours', 'active in last # h'],
  ] as const
).map(([name, label, chip]) => ({ name, label, chip, type: 'number' }));

const DEFAULTS = { time_frame: '30D', sort_by: 'pnl', order: 'desc', tag: 'all', offset: '0' };
const NAMES = [...Object.keys(DEFAULTS), ...FILTERS.map(({ name }) => name), 'limit'];
const plain = settingsOf(DEFAULTS);
/** A ranking by a rate begins with this many markets: otherwise, one lucky market comes first. */
const RATES = ['roi', 'win_rate'];
const RATE_MARKETS_MIN = '10';
const settings = {
  ...plain,
  set(changes: Readonly<Record<string, string>>, options?: { readonly typed: boolean }) {
    plain.set({ ...changes, ...minimumFor(changes.sort_by) }, options);
  },
};

/** Sets the minimum when a ranking by a rate is chosen, and takes it back with another one, unless the user changed it. */
function minimumFor(sortBy: string | undefined): Readonly<Record<string, string>> {
  if (sortBy === undefined || sortBy === plain.get('sort_by')) return {};
  const given = plain.get('min_market_count');
  if (RATES.includes(sortBy)) return given === '' ? { min_market_count: RATE_MARKETS_MIN } : {};
  return given === RATE_MARKETS_MIN ? { min_market_count: '' } : {};
}

type Entry = LeaderboardEntry & Parameters<typeof Sparkline>[0];

const bestBy = (name: string) => ({ name, desc: 'best first', asc: 'worst first' });

const LINE: Column<Entry> = {
  ...{ title: 'PnL over time', class: 'wide-only' },
  cell: ({ sums, scale, frame }) => <Sparkline sums={sums} scale={scale} frame={frame} />,
};

const COLUMNS: readonly Column<Entry>[] = [
  {
    ...{ title: '#', class: 'figure rank' },
    cell: ({ rank }) => (rank <= 3 ? <b>{rank}</b> : rank),
  },
  TRADER,
  LINE,
  {
    ...{ title: 'PnL', class: 'figure strong', sort: bestBy('pnl') },
    cell: ({ total_pnl }) => <Pnl micro={total_pnl} />,
  },
  {
    ...{ title: 'ROI', class: 'figure', sort: bestBy('roi') },
    cell: ({ roi }) => <Roi value={roi} />,
  },
  {
    ...{ title: 'Win rate', class: 'figure', sort: bestBy('win_rate') },
    cell: (entry) => <WinRate of={entry} />,
  },
  {
    ...{ title: 'Closed won', class: 'figure wide-only' },
    cell: ({ closed_count, closed_win_rate, closed_wins_count }) => (
      <Share
        value={closed_win_rate}
        title={`${closed_wins_count} of ${closed_count} markets in which shares were sold back or settled`}
      />
    ),
  },
  {
    ...{ title: 'Markets', class: 'figure', sort: bestBy('market_count') },
    cell: ({ markets_count }) => count(markets_count),
  },
  {
    ...{ title: 'Volume', class: 'figure', sort: bestBy('volume') },
    cell: ({ total_volume }) => <Usdc micro={total_volume} />,
  },
  {
    ...{ title: 'Last trade', class: 'figure wide-only soft' },
    cell: ({ last_trade_at }) => <Ago time={last_trade_at} />,
  },
];

/** Whether the limits of the demo tier apply: without a key, and with one of that tier, which its prefix reveals. */
function isDemo(): boolean {
  return key.value === '' || key.value.startsWith('fs_demo_');
}

/** Entries per page. The API returns 20 for the demo tier. */
function pageSize(): number {
  const given = Number(settings.get('limit'));
  if (Number.isInteger(given) && given > 0) return given;
  return isDemo() ? 20 : 50;
}

export function Leaderboard() {
  useViewKeys(numberKeys(TIME_FRAMES, (time_frame) => settings.set({ time_frame })));
  const frame = settings.get('time_frame');
  const refreshedAt = status.value?.boards.find((one) => one.time_frame === frame)?.refreshed_at;
  // The first status must not load the board again.
  const first = useRef(refreshedAt);
  first.current ??= refreshedAt;
  const refresh = refreshedAt === first.current ? undefined : refreshedAt;
  const asked = parametersOf(settings, NAMES);
  const path = `/v2/analytics/leaderboard?${asked}`;
  const board = useAnswer<Answer>(path, { refresh });
  const traders = board.data?.traders ?? [];
  const addresses = traders.map((entry) => entry.profile.address).join(',');
  const line = LINES[frame];
  const lines = useAnswer<PnlLines>(
    line === undefined || addresses === ''
      ? null
      : `/v2/analytics/pnl_lines?hours=${line.hours}&step_hours=${line.step}&traders=${addresses}`,
    { refresh },
  );
  const { sumsOf, scale } = useMemo(() => linesOf(lines.data), [lines.data]);
  const columns = line === undefined ? COLUMNS.filter((column) => column !== LINE) : COLUMNS;
  return (
    <section aria-labelledby="title" aria-busy={board.busy}>
      <div class="head">
        <h1 id="title">Leaderboard</h1>
        <p class="sub">
          {board.data === undefined
            ? ''
            : `${count(board.data.total_count)} traders · amounts in USDC`}
          <BoardAge frame={frame} />
        </p>
        <ListTools name="leaderboard" path={path} />
      </div>
      <ListControls settings={settings} columns={COLUMNS} filters={FILTERS}>
        <Choice
          name="time_frame"
          legend="Time frame"
          choices={TIME_FRAMES.map((frame) => [frame, frame])}
          chosen={frame}
          onChoose={(time_frame) => settings.set({ time_frame })}
        />
      </ListControls>
      <Loaded answer={board} rows={20} what="the ranking">
        {({ traders }) => (
          <CardTable
            label="Traders by rank"
            class="board-table"
            columns={columns}
            rows={traders.map((entry) => ({
              ...entry,
              sums: sumsOf.get(entry.profile.address),
              ...{ scale, frame },
            }))}
            keyOf={({ profile }) => profile.address}
            sorted={sortedBy(settings)}
            empty="No traders match these filters in this time frame."
          />
        )}
      </Loaded>
      {board.data === undefined ? null : isDemo() ? (
        <p class="soft">
          {count(traders.length)} of {count(board.data.total_count)}
          {traders.length < board.data.total_count
            ? '; a key above the demo tier shows them all.'
            : '.'}
        </p>
      ) : (
        <Pages board={board.data} isStale={board.isStale} />
      )}
    </section>
  );
}

/** The cumulative lines by address, and the scale that all of them share. */
function linesOf(answer: PnlLines | undefined) {
  const sumsOf = new Map<string, readonly number[]>();
  for (const { address, pnl } of answer?.lines ?? []) {
    let sum = 0;
    sumsOf.set(address, [0, ...pnl.map((one) => (sum += one))]);
  }
  const all = [...sumsOf.values()].flat();
  return { sumsOf, scale: { low: Math.min(0, ...all), high: Math.max(0, ...all) } };
}

function BoardAge({ frame }: { readonly frame: string }) {
  const ageMs = boardAgeMs(frame);
  if (ageMs === undefined) return null;
  return (
    <span class="age">
      <span aria-hidden="true">↻</span> computed {span(ageMs)} ago
    </span>
  );
}

function Pages({ board, isStale }: { readonly board: Answer; readonly isStale: boolean }) {
  const { traders, total_count: total } = board;
  const [offset, size] = [Number(settings.get('offset')), pageSize()];
  const end = offset + traders.length;
  const turnTo = (to: number) => setQuery({ offset: to <= 0 ? '' : String(to) });
  return (
    <Pager
      label="Pages"
      first={offset === 0 ? undefined : () => turnTo(0)}
      previous={offset === 0 ? undefined : () => turnTo(offset - size)}
      next={end >= total ? undefined : () => turnTo(offset + size)}
      isStale={isStale}
    >
      {traders.length === 0 ? 'none' : `${count(offset + 1)}–${count(end)}`} of {count(total)}
    </Pager>
  );
}
