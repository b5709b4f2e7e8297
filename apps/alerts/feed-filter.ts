/** The filter of a rule, which restricts matches as the order feed does. */
import { type Filter, filterOf } from '../../api/feed/filter.ts';
import { parseDecimal } from '../../api/feed/filter-rules.ts';

type Restricting = {
  readonly traders?: readonly string[] | undefined;
  readonly markets?: readonly string[] | undefined;
  readonly tags?: readonly string[] | undefined;
  readonly series?: readonly string[] | undefined;
  readonly min_usdc?: number | undefined;
  readonly max_usdc?: number | undefined;
  readonly min_price?: number | undefined;
  readonly max_price?: number | undefined;
};

/** A filter of the order feed from the members of a rule that have its names. */
export function feedFilter(rule: Restricting): Filter {
  const { markets, max_price, max_usdc, min_price, min_usdc, series, tags, traders } = rule;
  return filterOf({
    ...{ traders, markets, series, tags },
    ...{ min_usdc: least(min_usdc), max_usdc: fraction(max_usdc) },
    ...{ min_price: least(min_price), max_price: fraction(max_price) },
  });
}

/** A minimum of 0 restricts nothing. */
function least(value: number | undefined) {
  return value === 0 ? undefined : fraction(value);
}

function fraction(value: number | undefined) {
  return value === undefined ? undefined : parseDecimal(String(value));
}
