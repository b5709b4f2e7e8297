/** Who holds the outcomes of a market, who won and lost in it, and the other markets of its event. */
import type {
  Holders,
  Leaderboard,
  Market,
  MarketDetail,
  MarketEntry,
  Markets,
} from './answers.ts';
import { eventMarketsPath } from './event.tsx';
import { Pnl, Roi, Usdc } from './figures.tsx';
import { capital, count, percent, priceText } from './format.ts';
import { MARKET, Shares } from './markets.tsx';
import { BelowOneShare, isShare } from './small-holdings.tsx';
import { CardTable, type Column } from './table.tsx';
import { TRADER } from './trader-name.tsx';
import { Loaded, Problem, useAnswer } from './use-answer.tsx';

const HOLDERS_MAX = 10;
/** The limit of the demo tier. */
const TRADERS_MAX = 20;

const HOLDER: readonly Column<Holders['holders'][number]>[] = [
  TRADER,
  { title: 'Shares', class: 'figure strong', cell: ({ shares }) => <Shares micro={shares} /> },
  {
    title: '% of outcome',
    class: 'figure wide-only',
    cell: ({ outcome_share }) => percent(outcome_share),
  },
  {
    title: 'Average',
    class: 'figure wide-only',
    cell: ({ average_price }) => priceText(average_price),
  },
  {
    title: 'Value',
    class: 'figure wide-only',
    cell: ({ value }) => <Usdc micro={value} decimals={2} />,
  },
  {
    ...{ title: 'Unrealised PnL', class: 'figure' },
    cell: ({ unrealised_pnl }) => <Pnl micro={unrealised_pnl} />,
  },
];

const WON_OR_LOST: readonly Column<
  Pick<Leaderboard['traders'][number], 'profile' | 'total_pnl' | 'total_volume' | 'roi'>
>[] = [
  TRADER,
  { title: 'PnL', class: 'figure strong', cell: ({ total_pnl }) => <Pnl micro={total_pnl} /> },
  { title: 'ROI', class: 'figure', cell: ({ roi }) => <Roi value={roi} /> },
  {
    ...{ title: 'Volume', class: 'figure wide-only' },
    cell: ({ total_volume }) => <Usdc micro={total_volume} decimals={2} />,
  },
];

export function HoldersBySide({
  market,
  refresh,
}: {
  readonly market: Market;
  readonly refresh: unknown;
}) {
  return (
    <div class="pair">
      <HoldersOf market={market} outcome={0} refresh={refresh} />
      <HoldersOf market={market} outcome={1} refresh={refresh} />
    </div>
  );
}

function HoldersOf(props: {
  readonly market: Market;
  readonly outcome: 0 | 1;
  readonly refresh: unknown;
}) {
  const { market, outcome, refresh } = props;
  const { condition_id: id } = market;
  const answer = useAnswer<Holders>(
    `/v2/markets/${id}/holders?outcome=${outcome}&limit=${HOLDERS_MAX}`,
    { refresh, subject: id },
  );
  const label = labelOf(market, outcome);
  return (
    <section aria-labelledby={`holders-${outcome}`}>
      <div class="section-head">
        <h2 id={`holders-${outcome}`}>Holders of {label}</h2>
        {answer.data === undefined ? null : (
          <span class="soft">
            {HOLDERS_MAX < answer.data.total_count ? `${HOLDERS_MAX} of ` : ''}
            {count(answer.data.total_count)}
          </span>
        )}
      </div>
      <Loaded answer={answer} rows={6} what={`holders of ${label}`}>
        {({ holders }) => (
          <>
            <CardTable
              label={`Holders of ${label}`}
              columns={HOLDER}
              rows={holders.filter(isShare)}
              keyOf={({ profile }) => profile.address}
              empty={`Nobody holds ${label}.`}
            />
            <BelowOneShare of={holders} />
          </>
        )}
      </Loaded>
    </section>
  );
}

export function labelOf(market: Market, outcome: 0 | 1): string {
  const label = outcome === 0 ? market.outcome_1 : market.outcome_2;
  return label === '' ? `outcome ${outcome + 1}` : label;
}

export function WinnersAndLosers({
  detail,
  refresh,
}: {
  readonly detail: MarketDetail;
  readonly refresh: unknown;
}) {
  const { market, top_earners } = detail;
  const { condition_id: id } = market;
  const board = useAnswer<Leaderboard>(
    `/v2/analytics/leaderboard?market=${id}&time_frame=30D&order=asc&limit=${TRADERS_MAX}`,
    { refresh, subject: id },
  );
  return (
    <div class="pair">
      <section aria-labelledby="earners-title">
        <div class="section-head">
          <h2 id="earners-title">Winners</h2>
          <span class="soft">Realised, of all time</span>
        </div>
        <CardTable
          label="Winners"
          columns={WON_OR_LOST}
          rows={top_earners.map((earner) => ({
            ...earner,
            total_pnl: earner.pnl,
            total_volume: earner.volume,
          }))}
          keyOf={({ profile }) => profile.address}
          empty="No realised gains yet."
        />
      </section>
      <section aria-labelledby="losers-title">
        <div class="section-head">
          <h2 id="losers-title">Losers</h2>
          <span class="soft">Realised, last 30 days</span>
        </div>
        <Loaded answer={board} rows={6} what="losers">
          {({ traders }) => (
            <CardTable
              label="Losers"
              columns={WON_OR_LOST}
              rows={traders.filter(({ total_pnl }) => total_pnl < 0)}
              keyOf={({ profile }) => profile.address}
              empty="No realised losses in 30 days."
            />
          )}
        </Loaded>
      </section>
    </div>
  );
}

const SIBLING: readonly Column<MarketEntry>[] = [
  ...[MARKET.name, MARKET.price, MARKET.change, MARKET.volume],
  { title: 'Status', class: 'figure soft', cell: ({ status }) => capital(status) },
];

/** Empty if the event has no other market. */
export function Siblings({
  market,
  refresh,
}: {
  readonly market: Market;
  readonly refresh: unknown;
}) {
  const { event_slug: slug, condition_id: id } = market;
  const answer = useAnswer<Markets>(slug === '' ? null : eventMarketsPath(slug), {
    refresh,
    subject: slug,
  });
  const others = answer.data?.markets.filter(({ market }) => market.condition_id !== id) ?? [];
  if (others.length === 0) return <Problem problem={answer.problem} answer={answer} />;
  return (
    <section aria-labelledby="siblings-title">
      <div class="section-head">
        <h2 id="siblings-title">Other markets of the event</h2>
        <a class="more" href={`/event/${encodeURIComponent(slug)}`}>
          All {answer.data?.next_cursor === '' ? count(others.length + 1) : ''}
        </a>
      </div>
      <Problem problem={answer.problem} answer={answer} />
      <CardTable
        label="Other markets of the event"
        class="market-table two-line"
        columns={SIBLING}
        rows={others}
        keyOf={({ market }) => market.condition_id}
        empty=""
      />
    </section>
  );
}
