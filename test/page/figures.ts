/** Figures as the page must show them, written by the platform's own number format. */

/** An amount in micro-units, exact: the format takes decimal text. */
export function money(micro: string | number, decimals: number, sign: 'always' | 'negative') {
  const value = BigInt(micro);
  const digits = (value < 0n ? -value : value).toString().padStart(7, '0');
  const text = `${value < 0n ? '-' : ''}${digits.slice(0, -6)}.${digits.slice(-6)}`;
  return new Intl.NumberFormat('en-US', {
    minimumFractionDigits: decimals,
    maximumFractionDigits: decimals,
    roundingMode: 'halfExpand',
    signDisplay: sign === 'always' ? 'exceptZero' : 'negative',
  })
    .format(text as Intl.StringNumericLiteral)
    .replace('-', '−');
}

export function percent(value: number, sign: 'always' | 'negative'): string {
  const size = Math.abs(value);
  const decimals = size >= 1_000 ? 0 : size >= 100 ? 1 : 2;
  const text = new Intl.NumberFormat('en-US', {
    minimumFractionDigits: decimals,
    maximumFractionDigits: decimals,
    signDisplay: sign === 'always' ? 'exceptZero' : 'negative',
  }).format(value);
  return `${text.replace('-', '−')}%`;
}

/** Price of a fill in cents, rounded to the nearest tenth. */
export function cents(usdc: string, shares: string): string {
  const tenths = ((BigInt(usdc) * 10_000n) / BigInt(shares) + 5n) / 10n;
  return `${tenths / 10n}.${tenths % 10n}¢`;
}

export function count(value: number): string {
  return value.toLocaleString('en-US');
}

/** A price of a share in micro-USD, in cents: rounded to the nearest tenth. */
export function price(micro: number | null): string {
  if (micro === null) return '–';
  const text = new Intl.NumberFormat('en-US', { maximumFractionDigits: 1 });
  return `${text.format(micro / 10_000)}¢`;
}

/** A difference of two prices in micro-USD, in cents. */
export function change(micro: number): string {
  return `${money(micro * 100, 1, 'always')}¢`;
}

/** Whether a list shows a holding: at least one share. */
export const isShare = ({ shares }: { readonly shares: number }) => shares >= 1e6;
