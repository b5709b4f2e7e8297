/** Amounts and ratios in tables: right-aligned figures of one width, the sign and the tone together. */
import { amount, exact, type Micro, percent, signed, tone } from './format.ts';

/** A PnL in USDC. */
export function Pnl({ micro, decimals }: { readonly micro: Micro; readonly decimals?: number }) {
  return (
    <span class={tone(micro)} title={exact(micro)}>
      {signed(micro, decimals)}
    </span>
  );
}

/** An amount that has no direction. */
export function Usdc({
  micro,
  decimals = 0,
}: {
  readonly micro: Micro;
  readonly decimals?: number;
}) {
  return <span title={exact(micro)}>{amount(micro, decimals)}</span>;
}

/** A ROI. */
export function Roi({ value }: { readonly value: number }) {
  return (
    <span class={value > 0 ? 'gain' : value < 0 ? 'loss' : 'even'}>
      {percent(value, { sign: true })}
    </span>
  );
}

/** A share of 100 with a bar behind it. */
export function Share({ value, title }: { readonly value: number; readonly title: string }) {
  return (
    <span class="share" title={title}>
      <span class="bar" aria-hidden="true">
        <i style={{ width: `${value}%` }} />
      </span>
      {percent(value)}
    </span>
  );
}
