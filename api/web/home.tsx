/** The first view: what moves now, and who earns. */
import type { ComponentChildren } from 'preact';
import { useEffect } from 'preact/hooks';
import type { LeaderboardV2, MarketEntry, Markets } from './answers.ts';
import { Skeleton } from './controls.tsx';
import { Ago, Pnl, Roi, Usdc } from './figures.tsx';
import { Change, Closes, MarketLink, Odds } from './markets.tsx';
import { TraderName } from './trader-name.tsx';
import { type Answered, Problem, useAnswer, useTicks } from './use-answer.tsx';

const REFRESH_MS = 15_000;
const ROWS = 10;

export function Home() {
  const refresh = useTicks(REFRESH_MS);
  useEffect(() => {
    document.title = 'Fillstream';
  }, []);
  return (
    <div class="home wide">
      <h1 class="hidden">Markets and traders now</h1>
      <MarketList
        id="trending"
        title="Trending"
        settings="sort_by=volume_24h"
        refresh={refresh}
        columns={['24 h', 'Volume, 24 h']}
        row={(entry) => [
          <Change key="change" micro={entry.change_24h} />,
          <Usdc key="volume" micro={entry.volume_24h} />,
        ]}
      />
      <Leaders refresh={refresh} />
      <MarketList
        id="rising"
        title="Rising"
        settings="sort_by=change_24h"
        refresh={refresh}
        columns={['24 h']}
        row={(entry) => [<Change key="change" micro={entry.change_24h} />]}
      />
      <MarketList
        id="falling"
        title="Falling"
        settings="sort_by=change_24h&order=asc"
        refresh={refresh}
        columns={['24 h']}
        row={(entry) => [<Change key="change" micro={entry.change_24h} />]}
      />
      <MarketList
        id="closing"
        title="Closing soon"
        settings="sort_by=closing"
        refresh={refresh}
        columns={['Closes']}
        row={(entry) => [<Closes key="closes" entry={entry} />]}
      />
    </div>
  );
}

/** A part of the view: its answer's age beside the title, and all of it behind a link. */
function Part(props: {
  readonly id: string;
  readonly title: string;
  readonly more: string;
  readonly asOf: string | undefined;
  readonly answer: Answered<unknown>;
  readonly children: ComponentChildren;
}) {
  const { id, title, more, asOf = '', answer } = props;
  return (
    <section class={id} aria-labelledby={`${id}-title`}>
      <div class="section-head">
        <h2 id={`${id}-title`}>{title}</h2>
        {asOf === '' ? null : (
          <span class="soft">
            <Ago time={asOf} />
          </span>
        )}
        <a class="more" href={more} aria-label={`All: ${title}`}>
          All
        </a>
      </div>
      <Problem problem={answer.problem} answer={answer} />
      {answer.data === undefined ? (
        answer.problem === undefined ? (
          <Skeleton rows={ROWS + 1} what={title} />
        ) : null
      ) : (
        <div class="card">{props.children}</div>
      )}
    </section>
  );
}

function MarketList(props: {
  readonly id: string;
  readonly title: string;
  /** Of /v2/markets and of the list of markets. */
  readonly settings: string;
  readonly refresh: unknown;
  /** After market and price. */
  readonly columns: readonly string[];
  readonly row: (entry: MarketEntry) => readonly ComponentChildren[];
}) {
  const { id, title, settings, refresh } = props;
  const answer = useAnswer<Markets>(`/v2/markets?limit=${ROWS}&${settings}`, { refresh });
  const markets = answer.data?.markets ?? [];
  return (
    <Part
      id={id}
      title={title}
      more={`/markets?${settings}`}
      asOf={answer.data?.as_of}
      answer={answer}
    >
      {markets.length === 0 ? (
        <p class="empty">No market is open.</p>
      ) : (
        <table class="market-table" aria-labelledby={`${id}-title`}>
          <thead>
            <tr>
              <th scope="col">Market</th>
              <th scope="col" class="figure">
                Price
              </th>
              {props.columns.map((column) => (
                <th key={column} scope="col" class="figure">
                  {column}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {markets.map((entry) => (
              <tr key={entry.market.condition_id}>
                <th scope="row" class="question">
                  <MarketLink market={entry.market} />
                </th>
                <td class="figure">
                  <Odds entry={entry} />
                </td>
                {props.row(entry).map((cell, index) => (
                  <td key={index} class="figure">
                    {cell}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Part>
  );
}

function Leaders({ refresh }: { readonly refresh: unknown }) {
  const answer = useAnswer<LeaderboardV2>(`/v2/analytics/leaderboard?time_frame=1D&limit=${ROWS}`, {
    refresh,
  });
  const traders = answer.data?.traders ?? [];
  return (
    <Part
      id="leaders"
      title="Top traders, 24 h"
      more="/leaderboard?time_frame=1D"
      asOf={answer.data?.as_of}
      answer={answer}
    >
      {traders.length === 0 ? (
        <p class="empty">Nobody traded in the last 24 hours.</p>
      ) : (
        <table aria-labelledby="leaders-title">
          <thead>
            <tr>
              <th scope="col" class="figure">
                #
              </th>
              <th scope="col">Trader</th>
              <th scope="col" class="figure">
                PnL
              </th>
              <th scope="col" class="figure">
                ROI
              </th>
            </tr>
          </thead>
          <tbody>
            {traders.map(({ profile, rank, total_pnl, roi }) => (
              <tr key={profile.address}>
                <td class="figure soft">{rank}</td>
                <th scope="row">
                  <TraderName profile={profile} row />
                </th>
                <td class="figure strong">
                  <Pnl micro={total_pnl} decimals={0} />
                </td>
                <td class="figure">
                  <Roi value={roi} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Part>
  );
}
