/** The home view: active markets, top traders and the biggest trades. */
import type { ComponentChildren } from 'preact';
import type { BiggestTrades, Leaderboard, MarketEntry, Markets } from './answers.ts';
import { Ago, Pnl, Roi, Side, Usdc } from './figures.tsx';
import { cents } from './format.ts';
import { MARKET, MARKET_OF } from './markets.tsx';
import { SinceLastVisit } from './position-events.tsx';
import { CardTable, type Column } from './table.tsx';
import { TRADER, TraderName } from './trader-name.tsx';
import { type Answered, Loaded, useAnswer, useTicks } from './use-answer.tsx';

const REFRESH_MS = 15_000;
const ROWS = 10;
const CHANGE = { ...MARKET.change, title: '24 h' };

export function Home() {
  const refresh = useTicks(REFRESH_MS);
  return (
    <div class="home">
      <h1 class="hidden">Markets and traders now</h1>
      <SinceLastVisit refresh={refresh} />
      <MarketList
        id="trending"
        title="Trending"
        settings="sort_by=volume_24h"
        refresh={refresh}
        columns={[CHANGE, MARKET.volume24h]}
      />
      <Leaders refresh={refresh} />
      <Biggest refresh={refresh} />
      <MarketList
        id="rising"
        title="Rising"
        settings="sort_by=change_24h"
        refresh={refresh}
        columns={[CHANGE]}
      />
      <MarketList
        id="falling"
        title="Falling"
        settings="sort_by=change_24h&order=asc"
        refresh={refresh}
        columns={[CHANGE]}
      />
      <MarketList
        id="closing"
        title="Closing soon"
        settings="sort_by=closing"
        refresh={refresh}
        columns={[MARKET.closes]}
      />
    </div>
  );
}

/** A section of the view, with the time when its data was computed and a link to the full list. */
function Part<Answer>(props: {
  readonly id: string;
  readonly title: string;
  readonly more: string;
  readonly answer: Answered<Answer>;
  readonly asOf?: string | undefined;
  /** Whether its rows have two lines on a phone. */
  readonly tall?: boolean;
  readonly children: (data: Answer) => ComponentChildren;
}) {
  const { id, title, more, answer, asOf = '', tall = false } = props;
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
      <Loaded answer={answer} rows={ROWS + 1} tall={tall} what={title}>
        {props.children}
      </Loaded>
    </section>
  );
}

function MarketList(props: {
  readonly id: string;
  readonly title: string;
  /** Parameters of /v2/markets and of the list of markets. */
  readonly settings: string;
  readonly refresh: unknown;
  /** After market and price. */
  readonly columns: readonly Column<MarketEntry>[];
}) {
  const { id, title, settings, refresh, columns } = props;
  const answer = useAnswer<Markets>(`/v2/markets?limit=${ROWS}&${settings}`, { refresh });
  return (
    <Part
      id={id}
      title={title}
      more={`/markets?${settings}`}
      answer={answer}
      asOf={answer.data?.as_of}
      tall
    >
      {({ markets }) => (
        <CardTable
          label={title}
          class="market-table two-line"
          columns={[MARKET.name, MARKET.price, ...columns]}
          rows={markets}
          keyOf={({ market }) => market.condition_id}
          empty="No open markets."
        />
      )}
    </Part>
  );
}

const LEADERS: readonly Column<Leaderboard['traders'][number]>[] = [
  { title: '#', class: 'figure soft', cell: ({ rank }) => rank },
  TRADER,
  {
    title: 'PnL',
    class: 'figure strong',
    cell: ({ total_pnl }) => <Pnl micro={total_pnl} decimals={0} />,
  },
  { title: 'ROI', class: 'figure', cell: ({ roi }) => <Roi value={roi} /> },
];

function Leaders({ refresh }: { readonly refresh: unknown }) {
  const path = `/v2/analytics/leaderboard?time_frame=1D&limit=${ROWS}`;
  const answer = useAnswer<Leaderboard>(path, { refresh });
  const title = 'Top traders, 24 h';
  return (
    <Part
      id="leaders"
      title={title}
      more="/leaderboard?time_frame=1D"
      answer={answer}
      asOf={answer.data?.as_of}
    >
      {({ traders }) => (
        <CardTable
          label={title}
          columns={LEADERS}
          rows={traders}
          keyOf={({ profile }) => profile.address}
          empty="No trades in the last 24 hours."
        />
      )}
    </Part>
  );
}

type BigTrade = BiggestTrades['trades'][number];

const BIGGEST: readonly Column<BigTrade>[] = [
  { title: 'Time', class: 'f-time soft', cell: ({ time }) => <Ago time={time} /> },
  { title: 'Trader', class: 'f-who', cell: ({ taker }) => <TraderName profile={taker} row /> },
  MARKET_OF,
  { title: 'Side', class: 'f-side', cell: ({ side }) => <Side side={side} /> },
  { title: 'Outcome', class: 'f-outcome', cell: ({ outcome }) => outcome },
  { title: 'Price', class: 'f-price figure', cell: ({ usdc, shares }) => cents(usdc, shares) },
  { title: 'USDC', class: 'f-usdc figure strong', cell: ({ usdc }) => <Usdc micro={usdc} /> },
];

function Biggest({ refresh }: { readonly refresh: unknown }) {
  const answer = useAnswer<BiggestTrades>(`/v2/biggest_trades?limit=${ROWS}`, { refresh });
  const title = 'Biggest trades, 1 h';
  return (
    <Part id="biggest" title={title} more="/tape?min_usdc=1000" answer={answer} tall>
      {({ trades }) => (
        <CardTable
          label={title}
          class="fills market-table two-line"
          columns={BIGGEST}
          rows={trades}
          keyOf={({ tx_hash, order_hash, usdc, shares }) =>
            [tx_hash, order_hash, usdc, shares].join()
          }
          empty="No trades in the last hour."
        />
      )}
    </Part>
  );
}
