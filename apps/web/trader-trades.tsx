/** All final fills of a trader, newest first. */
import type { TraderTrades as Answer } from './answers.ts';
import { Choice, CursorPager, TypedField } from './controls.tsx';
import { TransactionLink } from './figures.tsx';
import { FILL } from './fills.tsx';
import { timeMs, timeText } from './format.ts';
import { MARKET_OF } from './markets.tsx';
import { query, setQuery } from './route.ts';
import { CardTable, type Column } from './table.tsx';
import { Loaded, useAnswer } from './use-answer.tsx';

const PAGE = 25;
const SIDES = [
  ['', 'All'],
  ['BUY', 'Buys'],
  ['SELL', 'Sells'],
] as const;

const COLUMNS: readonly Column<Answer['trades'][number]>[] = [
  { title: 'Time', cell: ({ time }) => timeText(timeMs(time) ?? 0) },
  MARKET_OF,
  ...FILL,
  {
    ...{ title: <span class="hidden">Transaction</span>, class: 'match-link' },
    cell: ({ tx_hash }) => <TransactionLink hash={tx_hash} />,
  },
];

export function TraderTrades(props: { readonly address: string; readonly refresh: unknown }) {
  const { address, refresh } = props;
  const side = query.value.get('side') ?? '';
  const least = query.value.get('min_usdc') ?? '';
  const cursor = query.value.get('cursor') ?? '';
  const asked = new URLSearchParams({ limit: String(PAGE) });
  for (const [name, value] of Object.entries({ side, min_usdc: least, cursor })) {
    if (value !== '') asked.set(name, value);
  }
  const path = `/v2/traders/${encodeURIComponent(address)}/trades?${asked}`;
  const answer = useAnswer<Answer>(path, { refresh, subject: address });
  return (
    <section aria-labelledby="trades-title" aria-busy={answer.busy}>
      <div class="section-head">
        <h2 id="trades-title">Trades</h2>
        <Choice
          name="side"
          legend="Side"
          class="push"
          choices={SIDES}
          chosen={side}
          onChoose={(next) => setQuery({ side: next, cursor: '' })}
        />
        <div class="words">
          <TypedField
            name="min_usdc"
            label="Min USDC"
            type="number"
            value={least}
            onValue={(next) => setQuery({ min_usdc: next, cursor: '' }, { typed: true })}
          />
        </div>
      </div>
      <Loaded answer={answer} rows={PAGE + 1} what="trades">
        {({ trades }) => (
          <CardTable
            label="Trades of the trader"
            class="trades"
            columns={COLUMNS}
            rows={trades}
            keyOf={({ block_number, log_index }) => `${block_number}-${log_index}`}
            empty="No trades."
          />
        )}
      </Loaded>
      {answer.data === undefined ? null : (
        <CursorPager
          cursor={cursor}
          next={answer.data.next_cursor}
          isStale={answer.isStale}
          shown={answer.data.trades.length}
          what="trades"
          onCursor={(next) => setQuery({ cursor: next })}
        />
      )}
    </section>
  );
}
