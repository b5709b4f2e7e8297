/** What traders that the user follows did with their positions: the newest, and what happened since the last visit. */
import type { PositionEvents as Answer } from './answers.ts';
import { Ago, Pnl, Usdc } from './figures.tsx';
import { FILL_TIME } from './fills.tsx';
import { followed } from './follow.tsx';
import { amount, capital, priceText } from './format.ts';
import { lastVisit } from './last-visit.ts';
import { MARKET_OF } from './markets.tsx';
import { CardTable, type Column } from './table.tsx';
import { TraderName } from './trader-name.tsx';
import { Loaded, useAnswer } from './use-answer.tsx';

const ROWS = 10;

type Event = Answer['events'][number];

function sharesText({ shares_before, shares_after, type }: Event): string {
  if (type === 'opened' || shares_before === 0) return amount(shares_after, 0);
  return `${amount(shares_before, 0)} → ${amount(shares_after, 0)}`;
}

const COLUMNS: readonly Column<Event>[] = [
  FILL_TIME,
  { title: 'Trader', class: 'f-who', cell: ({ trader }) => <TraderName profile={trader} /> },
  {
    ...{ title: 'What', class: 'f-outcome' },
    cell: ({ type, outcome, outcome_index }) =>
      `${capital(type)} ${outcome || `outcome ${outcome_index + 1}`}`,
  },
  MARKET_OF,
  { title: 'Shares', class: 'figure wide-only', cell: sharesText },
  { title: 'Price', class: 'f-price figure', cell: ({ price }) => priceText(price) },
  {
    ...{ title: 'Now', class: 'figure wide-only' },
    cell: ({ price_now }) => priceText(price_now),
  },
  {
    ...{ title: 'USDC', class: 'f-usdc figure strong' },
    cell: ({ value }) => <Usdc micro={value} decimals={2} />,
  },
  {
    ...{ title: 'PnL', class: 'figure wide-only' },
    cell: ({ realised_pnl, type }) =>
      type === 'opened' || type === 'added' ? null : <Pnl micro={realised_pnl} />,
  },
];

function EventTable({
  label,
  events,
}: {
  readonly label: string;
  readonly events: readonly Event[];
}) {
  return (
    <CardTable
      label={label}
      class="fills events"
      columns={COLUMNS}
      rows={events}
      keyOf={(one) =>
        `${one.block_number}-${one.log_index}-${one.trader.address}-${one.market.condition_id}-${one.number}`
      }
      empty="Nothing yet."
    />
  );
}

/** The newest events of these traders. */
export function PositionEvents(props: {
  readonly traders: readonly string[];
  readonly refresh: unknown;
}) {
  const path = `/v2/position_events?traders=${props.traders.join(',')}&limit=${ROWS}`;
  const answer = useAnswer<Answer>(path, { refresh: props.refresh });
  return (
    <section aria-labelledby="events-title">
      <div class="section-head">
        <h2 id="events-title">What they did</h2>
      </div>
      <Loaded answer={answer} rows={ROWS + 1} what="what they did">
        {({ events }) => (
          <EventTable label="What the traders that you follow did" events={events} />
        )}
      </Loaded>
    </section>
  );
}

/** Nothing on a first visit, for somebody who follows nobody, and if nothing happened. */
export function SinceLastVisit({ refresh }: { readonly refresh: unknown }) {
  const traders = followed.trader.value.map(({ id }) => id);
  if (lastVisit === undefined || traders.length === 0) return null;
  return <EventsSince from={lastVisit} traders={traders} refresh={refresh} />;
}

function EventsSince(props: {
  /** ISO 8601. */
  readonly from: string;
  readonly traders: readonly string[];
  readonly refresh: unknown;
}) {
  const { from, refresh, traders } = props;
  const query = new URLSearchParams({ traders: traders.join(','), from, limit: String(ROWS) });
  const { data } = useAnswer<Answer>(`/v2/position_events?${query}`, { refresh });
  if (data === undefined || data.events.length === 0) return null;
  return (
    <section class="since" aria-labelledby="since-title">
      <div class="section-head">
        <h2 id="since-title">Since you were last here</h2>
        <span class="soft">
          <Ago time={from} />
        </span>
        <a class="more" href="/following" aria-label="All: what they did">
          All
        </a>
      </div>
      <EventTable label="What the traders that you follow did since" events={data.events} />
    </section>
  );
}
