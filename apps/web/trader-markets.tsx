/** A trader's markets: open, settled and sold, filtered and sorted. Each expands to its fills. */
import { useState } from 'preact/hooks';
import type { Market, Orders, Position, Positions } from './answers.ts';
import { Choice } from './controls.tsx';
import { Ago, Pnl, Share, Usdc } from './figures.tsx';
import { FILL, FILL_TIME } from './fills.tsx';
import {
  CursorPager,
  parametersOf,
  SettingField,
  SortField,
  settingsOf,
  sortedBy,
} from './filters.tsx';
import { count } from './format.ts';
import { CsvButton } from './in-code.tsx';
import { MARKET_OF, MarketLink } from './markets.tsx';
import { CardTable, type Column, Table } from './table.tsx';
import { Loaded, useAnswer } from './use-answer.tsx';

const PAGE = 20;
const STATUSES = [
  ['all', 'All'],
  ['open', 'Open'],
  ['resolved', 'Resolved'],
] as const;

const DEFAULTS = { status: 'all', sort_by: 'last_trade', order: 'desc' };
// The list of trades below uses the parameter `cursor`.
const settings = settingsOf(DEFAULTS, 'markets_cursor');

const COLUMNS: readonly Column<Position>[] = [
  {
    ...{ title: 'PnL', class: 'figure strong' },
    cell: ({ pnl }) => <Pnl micro={pnl} />,
    sort: { name: 'pnl', desc: 'highest first', asc: 'lowest first' },
  },
  {
    ...{ title: 'Realised', class: 'figure wide-only' },
    cell: ({ realised_pnl }) => <Pnl micro={realised_pnl} />,
  },
  {
    ...{ title: 'Value', class: 'figure wide-only' },
    cell: ({ value }) => <Usdc micro={value} decimals={2} />,
    sort: { name: 'value', desc: 'highest first', asc: 'lowest first' },
  },
  { title: 'State', cell: (position) => <State of={position} /> },
  {
    ...{ title: 'First trade', class: 'figure soft wide-only' },
    cell: ({ first_trade_at }) => <Ago time={first_trade_at} />,
    sort: { name: 'age', desc: 'oldest first', asc: 'newest first' },
  },
  {
    ...{ title: 'Last trade', class: 'figure soft wide-only' },
    cell: ({ last_trade_at }) => <Ago time={last_trade_at} />,
    sort: { name: 'last_trade', desc: 'newest first', asc: 'oldest first' },
  },
];

const FILLS: readonly Column<Orders['orders'][number] & { readonly index: number }>[] = [
  FILL_TIME,
  { title: 'Role', class: 'wide-only', cell: ({ is_taker }) => (is_taker ? 'Taker' : 'Maker') },
  ...FILL,
];

export function TraderMarkets(props: { readonly address: string; readonly refresh: unknown }) {
  const { address, refresh } = props;
  const [open, setOpen] = useState<ReadonlySet<number>>(new Set());
  const asked = parametersOf(settings, ['status', 'q', 'sort_by', 'order']);
  const cursor = settings.get(settings.cursor);
  if (cursor !== '') asked.set('cursor', cursor);
  const path = `/v2/traders/${encodeURIComponent(address)}/positions?${asked}&limit=${PAGE}`;
  const page = useAnswer<Positions>(path, { refresh, subject: address });
  return (
    <section aria-labelledby="markets-title" aria-busy={page.busy}>
      <div class="section-head">
        <h2 id="markets-title">Markets</h2>
        {page.data === undefined ? null : <Count of={page.data} />}
        <Choice
          name="status"
          legend="State of the markets"
          class="push"
          choices={STATUSES}
          chosen={settings.get('status')}
          onChoose={(status) => settings.set({ status })}
        />
        <div class="words">
          <SettingField settings={settings} name="q" label="Words" type="text" />
        </div>
        <SortField settings={settings} columns={COLUMNS} />
        <CsvButton name="positions" path={path} />
      </div>
      <Loaded answer={page} rows={PAGE + 1} what="markets">
        {({ positions }) => (
          <CardTable
            label="Markets of the trader"
            class="history"
            columns={[
              {
                ...MARKET_OF,
                cell: ({ market }) => (
                  <>
                    <Expand market={market} open={open} onOpen={setOpen} />
                    <MarketLink market={market} />
                  </>
                ),
              },
              ...COLUMNS,
            ]}
            rows={positions}
            keyOf={({ market }) => market.condition_id}
            below={({ market }) =>
              open.has(market.id) ? (
                <Fills address={address} marketId={market.id} refresh={refresh} />
              ) : null
            }
            sorted={sortedBy(settings)}
            empty="No markets."
          />
        )}
      </Loaded>
      <CursorPager
        settings={settings}
        answer={page}
        shown={page.data?.positions.length}
        what="markets"
      />
    </section>
  );
}

/** Differs from the win rate of a window, which counts every market with a fill or settlement in that time. */
function Count({ of: { total_count, totals } }: { readonly of: Positions }) {
  const { closed_count, closed_won_count } = totals;
  return (
    <p class="soft totals">
      {count(total_count)}
      {closed_count === 0 ? null : (
        <>
          , won {count(closed_won_count)} of {count(closed_count)} closed{' '}
          <Share
            value={(100 * closed_won_count) / closed_count}
            title="Closed markets, settled or sold, with a realised PnL above 0"
          />
        </>
      )}
    </p>
  );
}

const ENDED = { sold: 'Sold', moved: 'Moved away' } as const;

function State({ of: { market, outcome, status } }: { readonly of: Position }) {
  if (status === 'open') return <span class="badge open">Holds {outcome}</span>;
  return (
    <span class="badge">
      {status === 'resolved' ? `Won by ${market.winning_outcome || 'none'}` : ENDED[status]}
    </span>
  );
}

function Expand(props: {
  readonly market: Pick<Market, 'id' | 'question'>;
  readonly open: ReadonlySet<number>;
  readonly onOpen: (open: ReadonlySet<number>) => void;
}) {
  const { market, open, onOpen } = props;
  const isOpen = open.has(market.id);
  return (
    <button
      type="button"
      class="expand"
      aria-expanded={isOpen}
      aria-label={`Fills in ${market.question}`}
      disabled={market.id === 0}
      onClick={() => {
        const next = new Set(open);
        if (!next.delete(market.id)) next.add(market.id);
        onOpen(next);
      }}
    >
      <span aria-hidden="true">{isOpen ? '▾' : '▸'}</span>
    </button>
  );
}

function Fills(props: {
  readonly address: string;
  readonly marketId: number;
  readonly refresh: unknown;
}) {
  const { address, marketId, refresh } = props;
  const path = `/v1/traders/${encodeURIComponent(address)}/markets/${marketId}/orders`;
  const answer = useAnswer<Orders>(path, { refresh });
  return (
    <Loaded answer={answer} rows={4} what="fills">
      {({ orders }) => (
        <Table
          label="Fills, oldest first"
          class="fills inner"
          columns={FILLS}
          rows={orders.map((fill, index) => ({ ...fill, index }))}
          keyOf={({ index }) => index}
        />
      )}
    </Loaded>
  );
}
