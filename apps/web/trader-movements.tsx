/** Shares of a trader that moved without a trade, newest first. */
import type { TraderMovements as Answer } from './answers.ts';
import { TransactionLink } from './figures.tsx';
import { FILL_TIME } from './fills.tsx';
import { CursorPager, settingsOf } from './filters.tsx';
import { amount, capital, exact, signed } from './format.ts';
import { CsvButton } from './in-code.tsx';
import { MARKET_OF } from './markets.tsx';
import { CardTable, type Column } from './table.tsx';
import { TraderName } from './trader-name.tsx';
import { Loaded, useAnswer } from './use-answer.tsx';

const PAGE = 25;

/** Beside the trades, which have pages of their own. */
const settings = settingsOf({}, 'movements_cursor');

type Movement = Answer['movements'][number];

function changes({ change_0, change_1, market }: Movement): string {
  const all = [
    { change: change_0, outcome: market.outcome_1 },
    { change: change_1, outcome: market.outcome_2 },
  ];
  return all
    .filter(({ change }) => change !== 0)
    .map(({ change, outcome }) => `${signed(change)} ${outcome}`)
    .join(', ');
}

const COLUMNS: readonly Column<Movement>[] = [
  FILL_TIME,
  MARKET_OF,
  { title: 'Kind', class: 'f-outcome', cell: ({ reason }) => capital(reason) },
  { title: 'Shares', class: 'figure wide-only', cell: changes },
  {
    ...{ title: 'USDC', class: 'f-usdc figure' },
    cell: ({ value, is_mark }) => (
      <span title={`${exact(value)}${is_mark ? ', at the mark' : ''}`}>{amount(value)}</span>
    ),
  },
  {
    ...{ title: 'Wallet', class: 'f-who' },
    cell: ({ counterparty }) =>
      counterparty === '' ? null : <TraderName profile={{ address: counterparty, name: '' }} />,
  },
  {
    ...{ title: <span class="hidden">Transaction</span>, class: 'match-link' },
    cell: ({ tx_hash }) => <TransactionLink hash={tx_hash} />,
  },
];

export function TraderMovements(props: { readonly address: string; readonly refresh: unknown }) {
  const { address, refresh } = props;
  const cursor = settings.get(settings.cursor);
  const asked = new URLSearchParams({ limit: String(PAGE), ...(cursor === '' ? {} : { cursor }) });
  const path = `/v2/traders/${encodeURIComponent(address)}/movements?${asked}`;
  const answer = useAnswer<Answer>(path, { refresh, subject: address });
  return (
    <section aria-labelledby="movements-title" aria-busy={answer.busy}>
      <div class="section-head">
        <h2 id="movements-title">Other movements of shares</h2>
        <CsvButton name="movements" path={path} />
      </div>
      <Loaded answer={answer} rows={4} what="movements">
        {({ movements }) => (
          <CardTable
            label="Shares of the trader that moved without a trade"
            class="fills movements"
            columns={COLUMNS}
            rows={movements}
            keyOf={(one) => `${one.block_number}-${one.log_index}-${one.part}`}
            empty="No splits, merges, redemptions, conversions or transfers."
          />
        )}
      </Loaded>
      <CursorPager
        settings={settings}
        answer={answer}
        shown={answer.data?.movements.length}
        what="movements"
      />
    </section>
  );
}
