/** All final fills of a trader, newest first. */
import type { TraderTrades as Answer } from './answers.ts';
import { Choice } from './controls.tsx';
import { TransactionLink } from './figures.tsx';
import { FILL, FILL_TIME } from './fills.tsx';
import { CursorPager, parametersOf, SettingField, settingsOf } from './filters.tsx';
import { CsvButton } from './in-code.tsx';
import { MARKET_OF } from './markets.tsx';
import { CardTable, type Column } from './table.tsx';
import { Loaded, useAnswer } from './use-answer.tsx';

const PAGE = 25;
const SIDES = [
  ['', 'All'],
  ['BUY', 'Buys'],
  ['SELL', 'Sells'],
] as const;

const settings = settingsOf({});

const COLUMNS: readonly Column<Answer['trades'][number]>[] = [
  FILL_TIME,
  MARKET_OF,
  ...FILL,
  {
    ...{ title: <span class="hidden">Transaction</span>, class: 'match-link' },
    cell: ({ tx_hash }) => <TransactionLink hash={tx_hash} />,
  },
];

export function TraderTrades(props: { readonly address: string; readonly refresh: unknown }) {
  const { address, refresh } = props;
  const given = parametersOf(settings, ['side', 'min_usdc', 'cursor']);
  const asked = new URLSearchParams([['limit', String(PAGE)], ...given]);
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
          chosen={settings.get('side')}
          onChoose={(side) => settings.set({ side })}
        />
        <div class="words">
          <SettingField settings={settings} name="min_usdc" label="Min USDC" type="number" />
        </div>
        <CsvButton name="trades" path={path} />
      </div>
      <Loaded answer={answer} rows={PAGE + 1} what="trades">
        {({ trades }) => (
          <CardTable
            label="Trades of the trader"
            class="fills trades"
            columns={COLUMNS}
            rows={trades}
            keyOf={({ block_number, log_index }) => `${block_number}-${log_index}`}
            empty="No trades."
          />
        )}
      </Loaded>
      <CursorPager
        settings={settings}
        answer={answer}
        shown={answer.data?.trades.length}
        what="trades"
      />
    </section>
  );
}
