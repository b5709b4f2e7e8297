/**
 * Columns of tables of fills. On a phone, a table of the class `fills` has two lines for each: the trade, then its
 * market and trader. The classes name the places.
 */
import { Ago, Side } from './figures.tsx';
import { amount, cents, exact, type Micro, timeMs, timeText } from './format.ts';
import type { Column } from './table.tsx';

type Fill = {
  readonly side: 'BUY' | 'SELL';
  readonly outcome: string;
  readonly usdc: Micro;
  readonly shares: Micro;
  readonly fee: Micro;
};

/** The age takes less space on a phone. */
export const FILL_TIME: Column<{ readonly time: string }> = {
  ...{ title: 'Time', class: 'f-time' },
  cell: ({ time }) => (
    <>
      <span class="wide-only">{timeText(timeMs(time) ?? 0)}</span>
      <span class="phone-only">
        <Ago time={time} />
      </span>
    </>
  ),
};

export const FILL: readonly Column<Fill>[] = [
  { title: 'Side', class: 'f-side', cell: ({ side }) => <Side side={side} /> },
  { title: 'Outcome', class: 'f-outcome', cell: ({ outcome }) => outcome },
  { title: 'Price', class: 'f-price figure', cell: ({ usdc, shares }) => cents(usdc, shares) },
  { title: 'Shares', class: 'figure wide-only', cell: ({ shares }) => amount(shares) },
  {
    ...{ title: 'USDC', class: 'f-usdc figure' },
    cell: ({ usdc }) => <span title={exact(usdc)}>{amount(usdc)}</span>,
  },
  { title: 'Fee', class: 'figure wide-only', cell: ({ fee }) => amount(fee) },
];
