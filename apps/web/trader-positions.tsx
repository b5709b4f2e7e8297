/** A trader's open positions, largest first, with average price and the mark of their market. */
import { useState } from 'preact/hooks';
import type { Position, Positions } from './answers.ts';
import { Ago, Pnl, Roi, Share, Usdc } from './figures.tsx';
import { amount, cents, count, timeMs, timeText } from './format.ts';
import { MARKET_OF } from './markets.tsx';
import { BelowOneShare, isShare } from './small-holdings.tsx';
import { CardTable, type Column } from './table.tsx';
import { type Answered, Loaded } from './use-answer.tsx';

/** The API's limit for one response. */
export const POSITIONS_READ = 100;
const SHOWN = 8;
const SHARE = 1_000_000;

/** Columns of tables of open positions. */
export const POSITION = {
  outcome: {
    title: 'Outcome',
    cell: ({ outcome, outcome_index }) => outcome || `outcome ${outcome_index + 1}`,
  },
  shares: { title: 'Shares', class: 'figure wide-only', cell: ({ shares }) => amount(shares, 0) },
  value: {
    ...{ title: 'Value', class: 'figure strong amount' },
    cell: ({ value }) => <Usdc micro={value} decimals={2} />,
  },
  unrealised: {
    ...{ title: 'Unrealised', class: 'figure amount' },
    cell: ({ unrealised_pnl }) => <Pnl micro={unrealised_pnl} />,
  },
} satisfies Readonly<Record<string, Column<Position>>>;

const COLUMNS: readonly Column<Position>[] = [
  ...[MARKET_OF, POSITION.outcome, POSITION.shares],
  {
    ...{ title: 'Average', class: 'figure wide-only' },
    cell: ({ average_price }) => cents(average_price, SHARE),
  },
  { title: 'Mark', class: 'figure', cell: ({ mark }) => <Mark of={mark} /> },
  POSITION.value,
  { ...POSITION.unrealised, class: 'figure strong amount' },
  {
    title: 'ROI',
    class: 'figure wide-only',
    cell: ({ unrealised_roi }) => <Roi value={unrealised_roi} />,
  },
  {
    ...{ title: 'Realised', class: 'figure wide-only' },
    cell: ({ realised_pnl }) => <Pnl micro={realised_pnl} />,
  },
  {
    ...{ title: 'Portfolio', class: 'figure wide-only' },
    cell: ({ portfolio_share }) => (
      <Share value={portfolio_share} title="Share of the trader's portfolio" />
    ),
  },
  {
    ...{ title: 'Last trade', class: 'figure wide-only soft' },
    cell: ({ last_trade_at }) => <Ago time={last_trade_at} />,
  },
];

export function TraderPositions({ answer }: { readonly answer: Answered<Positions> }) {
  const [all, setAll] = useState(false);
  const { data } = answer;
  const held = (data?.positions ?? []).filter(isShare);
  return (
    <section aria-labelledby="positions-title" aria-busy={answer.busy}>
      <div class="section-head">
        <h2 id="positions-title">Open positions</h2>
        {data === undefined || data.total_count === 0 ? null : (
          <p class="soft totals">
            {count(data.total_count)} worth <Usdc micro={data.totals.value} decimals={2} /> USDC,
            unrealised <Pnl micro={data.totals.unrealised_pnl} />
          </p>
        )}
        {held.length <= SHOWN ? null : (
          <button type="button" class="push" aria-expanded={all} onClick={() => setAll(!all)}>
            {all
              ? 'Show fewer'
              : data?.next_cursor === ''
                ? `Show all ${data.total_count}`
                : `Show the largest ${held.length}`}
          </button>
        )}
      </div>
      <Loaded answer={answer} rows={SHOWN + 1} what="open positions">
        {({ positions }) => (
          <>
            <CardTable
              label="Open positions"
              class="positions two-line"
              columns={COLUMNS}
              rows={held.slice(0, all ? held.length : SHOWN)}
              keyOf={({ market }) => market.condition_id}
              empty="No open positions."
            />
            {all || held.length <= SHOWN ? <BelowOneShare of={positions} /> : null}
          </>
        )}
      </Loaded>
    </section>
  );
}

function Mark({ of: { source, time, price } }: { readonly of: Position['mark'] }) {
  if (source === 'none') return <span title="No match yet">–</span>;
  const at = timeText(timeMs(time) ?? 0);
  return (
    <span title={source === 'resolution' ? `Resolved ${at}` : `Newest match, ${at}`}>
      {cents(price, SHARE)}
    </span>
  );
}
