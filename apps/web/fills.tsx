/** Columns of tables of fills. */
import { Side } from './figures.tsx';
import { amount, cents, exact, type Micro } from './format.ts';
import type { Column } from './table.tsx';

type Fill = {
  readonly side: 'BUY' | 'SELL';
  readonly outcome: string;
  readonly usdc: Micro;
  readonly shares: Micro;
  readonly fee: Micro;
};

export const FILL: readonly Column<Fill>[] = [
  { title: 'Side', cell: ({ side }) => <Side side={side} /> },
  { title: 'Outcome', cell: ({ outcome }) => outcome },
  { title: 'Price', class: 'figure', cell: ({ usdc, shares }) => cents(usdc, shares) },
  { title: 'Shares', class: 'figure', cell: ({ shares }) => amount(shares) },
  {
    ...{ title: 'USDC', class: 'figure' },
    cell: ({ usdc }) => <span title={exact(usdc)}>{amount(usdc)}</span>,
  },
  { title: 'Fee', class: 'figure', cell: ({ fee }) => amount(fee) },
];
