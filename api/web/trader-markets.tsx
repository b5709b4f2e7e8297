/** A trader's markets, newest trade first. Each expands to its fills. */
import { useState } from 'preact/hooks';
import type { History, HistoryEntry, Market, Orders } from './answers.ts';
import { Choice, Pager } from './controls.tsx';
import { Ago, Pnl, Roi, Usdc } from './figures.tsx';
import { FILL } from './fills.tsx';
import { timeMs, timeText } from './format.ts';
import { MARKET_OF, MarketLink } from './markets.tsx';
import { query, setQuery } from './route.ts';
import { CardTable, type Column, Table } from './table.tsx';
import { Loaded, useAnswer } from './use-answer.tsx';

const PAGE = 20;
const STATES = [
  ['', 'All'],
  ['true', 'Open'],
  ['false', 'Resolved'],
] as const;

const COLUMNS: readonly Column<HistoryEntry>[] = [
  {
    title: 'State',
    cell: ({ market }) =>
      market.resolved_at === '' ? (
        <span class="badge open">open</span>
      ) : (
        <span class="badge">won by {market.winning_outcome}</span>
      ),
  },
  { title: 'PnL', class: 'figure strong', cell: ({ pnl }) => <Pnl micro={pnl} /> },
  { title: 'ROI', class: 'figure', cell: ({ roi }) => <Roi value={roi} /> },
  { title: 'Volume', class: 'figure', cell: ({ volume }) => <Usdc micro={volume} decimals={2} /> },
  {
    ...{ title: 'Last trade', class: 'figure soft' },
    cell: ({ last_trade_at }) => <Ago time={last_trade_at} />,
  },
];

const FILLS: readonly Column<Orders['orders'][number] & { readonly index: number }>[] = [
  { title: 'Time', cell: ({ time }) => timeText(timeMs(time) ?? 0) },
  { title: 'Role', cell: ({ is_taker }) => (is_taker ? 'taker' : 'maker') },
  ...FILL,
];

export function TraderMarkets(props: { readonly address: string; readonly refresh: unknown }) {
  const [open, setOpen] = useState<ReadonlySet<number>>(new Set());
  const active = query.value.get('is_active') ?? '';
  const offset = Number(query.value.get('offset') ?? 0);
  const asked = new URLSearchParams({ limit: String(PAGE), offset: String(offset) });
  if (active !== '') asked.set('is_active', active);
  const path = `/v2/traders/${encodeURIComponent(props.address)}/markets?${asked}`;
  const page = useAnswer<History>(path, { refresh: props.refresh, subject: props.address });
  return (
    <section aria-labelledby="markets-title" aria-busy={page.busy}>
      <div class="section-head">
        <h2 id="markets-title">Markets</h2>
        <Choice
          name="is_active"
          legend="State of the markets"
          class="push"
          choices={STATES}
          chosen={active}
          onChoose={(is_active) => setQuery({ is_active, offset: '' })}
        />
      </div>
      <Loaded answer={page} rows={PAGE + 1} what="markets">
        {({ history }) => (
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
            rows={history}
            keyOf={({ market }) => market.condition_id}
            below={({ market }) =>
              open.has(market.id) ? <Fills address={props.address} marketId={market.id} /> : null
            }
            empty="No markets."
          />
        )}
      </Loaded>
      {page.data === undefined ? null : (
        <Pager
          offset={offset}
          shown={page.data.history.length}
          size={PAGE}
          total={page.data.total_count}
          onOffset={(next) => setQuery({ offset: next === 0 ? '' : String(next) })}
        />
      )}
    </section>
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

function Fills({ address, marketId }: { readonly address: string; readonly marketId: number }) {
  const path = `/v1/traders/${encodeURIComponent(address)}/markets/${marketId}/orders`;
  const answer = useAnswer<Orders>(path);
  return (
    <Loaded answer={answer} rows={4} what="fills">
      {({ orders }) => (
        <Table
          label="Fills, oldest first"
          class="inner"
          columns={FILLS}
          rows={orders.map((fill, index) => ({ ...fill, index }))}
          keyOf={({ index }) => index}
        />
      )}
    </Loaded>
  );
}
