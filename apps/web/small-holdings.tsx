/** Holdings below one share, often the rest of a sale: lists count them in place of showing them. */
import { count } from './format.ts';

type Holding = { readonly shares: number };

const SHARE = 1_000_000;

/** Whether a holding has at least one share. */
export function isShare({ shares }: Holding): boolean {
  return shares >= SHARE;
}

export function BelowOneShare({ of }: { readonly of: readonly Holding[] }) {
  const small = of.filter((one) => !isShare(one)).length;
  return small === 0 ? null : <p class="soft below-one">And {count(small)} below one share</p>;
}
