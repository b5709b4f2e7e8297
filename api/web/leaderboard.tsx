/** The leaderboard: one page of the ranking for the settings in the URL. Reloads when the board was recomputed. */
import { useEffect, useMemo } from 'preact/hooks';
import type { Leaderboard as Answer, LeaderboardEntry, PnlLines } from './answers.ts';
import { Sparkline } from './chart.tsx';
import { Pager, Scroll, Skeleton } from './controls.tsx';
import { Ago, Pnl, Roi, Share, Usdc } from './figures.tsx';
import { count, span } from './format.ts';
import {
  LeaderboardFilters,
  leaderboardPath,
  pageSize,
  SORTS,
  setting,
  TIME_FRAMES,
} from './leaderboard-filters.tsx';
import { query, setQuery } from './route.ts';
import { viewKeys } from './shortcuts.ts';
import { boardAgeMs, status } from './status-strip.tsx';
import { TraderName } from './trader-name.tsx';
import { Problem, useAnswer } from './use-answer.tsx';

const LINE_HOURS = 24;

export function Leaderboard() {
  useEffect(() => {
    document.title = 'Leaderboard – Fillstream';
    viewKeys.value = Object.fromEntries(
      TIME_FRAMES.map((frame, index) => [
        String(index + 1),
        () => setQuery({ time_frame: frame, offset: '' }),
      ]),
    );
    return () => {
      viewKeys.value = {};
    };
  }, []);
  const given = query.value;
  const frame = setting(given, 'time_frame');
  const refreshedAt = status.value?.boards.find((one) => one.time_frame === frame)?.refreshed_at;
  const board = useAnswer<Answer>(leaderboardPath(given), { refresh: refreshedAt });
  const traders = board.data?.traders ?? [];
  const addresses = traders.map((entry) => entry.profile.address).join(',');
  const lines = useAnswer<PnlLines>(
    addresses === '' ? null : `/v2/analytics/pnl_lines?hours=${LINE_HOURS}&traders=${addresses}`,
    { refresh: refreshedAt },
  );
  const lineOf = useMemo(
    // v2 returns mixed-case addresses, the ranking lower-case ones.
    () => new Map(lines.data?.lines.map(({ address, pnl }) => [address.toLowerCase(), pnl])),
    [lines.data],
  );
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
      </div>
      <LeaderboardFilters />
      <Problem problem={board.problem} answer={board} />
      {board.data === undefined ? (
        board.problem === undefined ? (
          <Skeleton rows={20} what="the ranking" />
        ) : null
      ) : traders.length === 0 ? (
        <p class="card empty">No traders match these filters in this time frame.</p>
      ) : (
        <div class={board.isStale ? 'stale' : ''}>
          <Table traders={traders} lineOf={lineOf} />
        </div>
      )}
      {board.data === undefined ? null : (
        <Pager
          offset={Number(setting(given, 'offset'))}
          shown={traders.length}
          size={pageSize(given)}
          total={board.data.total_count}
          onOffset={(offset) => setQuery({ offset: offset === 0 ? '' : String(offset) })}
        />
      )}
    </section>
  );
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

function Table(props: {
  readonly traders: readonly LeaderboardEntry[];
  readonly lineOf: ReadonlyMap<string, readonly number[]>;
}) {
  return (
    <Scroll label="Ranking">
      <table class="board-table">
        <caption class="hidden">Traders by rank</caption>
        <thead>
          <tr>
            <th scope="col" class="figure">
              #
            </th>
            <th scope="col">Trader</th>
            <th scope="col" class="wide-only">
              PnL, {LINE_HOURS} h
            </th>
            {SORTS.map(({ name, title }) => (
              <SortHead key={name} name={name} title={title} />
            ))}
            <th scope="col" class="figure wide-only">
              Last trade
            </th>
          </tr>
        </thead>
        <tbody>
          {props.traders.map((entry) => (
            <Row
              key={entry.profile.address}
              entry={entry}
              line={props.lineOf.get(entry.profile.address)}
            />
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}

function Row({
  entry,
  line,
}: {
  readonly entry: LeaderboardEntry;
  readonly line: readonly number[] | undefined;
}) {
  return (
    <tr>
      <td class={entry.rank <= 3 ? 'figure rank leader' : 'figure rank'}>{entry.rank}</td>
      <th scope="row">
        <TraderName profile={entry.profile} row />
      </th>
      <td class="wide-only">
        <Sparkline pnl={line} />
      </td>
      <td class="figure strong">
        <Pnl micro={entry.total_pnl} />
      </td>
      <td class="figure">
        <Roi value={entry.roi} />
      </td>
      <td class="figure">
        <Share
          value={entry.win_rate}
          title={`${entry.wins_count} of ${entry.markets_count} markets won`}
        />
      </td>
      <td class="figure">{count(entry.markets_count)}</td>
      <td class="figure">
        <Usdc micro={entry.total_volume} />
      </td>
      <td class="figure wide-only soft">
        <Ago time={entry.profile.last_trade_at} />
      </td>
    </tr>
  );
}

function SortHead({ name, title }: { readonly name: string; readonly title: string }) {
  const given = query.value;
  const isSorted = setting(given, 'sort_by') === name;
  const order = setting(given, 'order');
  const next = isSorted && order === 'desc' ? 'asc' : 'desc';
  return (
    <th
      scope="col"
      class="figure"
      aria-sort={isSorted ? (order === 'desc' ? 'descending' : 'ascending') : 'none'}
    >
      <button
        type="button"
        class="sort"
        onClick={() => setQuery({ sort_by: name, order: next, offset: '' })}
      >
        {title}
        <span aria-hidden="true">{isSorted ? (order === 'desc' ? ' ↓' : ' ↑') : ''}</span>
      </button>
    </th>
  );
}
