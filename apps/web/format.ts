/**
 * Formats values for display. Amounts are micro-units, as text or safe integers, and are never converted to floats.
 * Signs are shown wherever they matter, so colour is never the only cue. Times are UTC.
 */

/** An amount in micro-units as the API sends it: decimal text in v1, a number in v2. */
export type Micro = string | number | bigint;

const MICRO = 1_000_000n;
const MINUS = '−';
const GROUPS = new Intl.NumberFormat('en-US');
/** By number of decimals. Cached, because creating one takes longer than using it a hundred times. */
const DECIMALS = [0, 1, 2].map((digits) => {
  const fixed = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  return new Intl.NumberFormat('en-US', fixed);
});

/** `1,234.57`. Rounds half away from zero. */
export function amount(micro: Micro, decimals = 2): string {
  const value = BigInt(micro);
  const magnitude = value < 0n ? -value : value;
  const step = 10n ** BigInt(6 - decimals);
  const rounded = (magnitude + step / 2n) / step;
  const unit = 10n ** BigInt(decimals);
  const whole = GROUPS.format(rounded / unit);
  const part = decimals === 0 ? '' : `.${String(rounded % unit).padStart(decimals, '0')}`;
  return `${value < 0n && rounded > 0n ? MINUS : ''}${whole}${part}`;
}

/** Like `amount`, with `+` if it is above zero. */
export function signed(micro: Micro, decimals = 2): string {
  const text = amount(micro, decimals);
  return BigInt(micro) > 0n && /[1-9]/.test(text) ? `+${text}` : text;
}

/** All six decimals, for the tooltip of a rounded amount. */
export function exact(micro: Micro): string {
  return `${amount(micro, 6)} USDC`;
}

/** `12.3k`, `4.56M`: a value in whole units, for axes and narrow columns. */
export function short(value: number): string {
  const size = Math.abs(value);
  const [unit, name] =
    size >= 1e9 ? [1e9, 'B'] : size >= 1e6 ? [1e6, 'M'] : size >= 1e3 ? [1e3, 'k'] : [1, ''];
  const scaled = size / unit;
  const text = scaled.toFixed(name === '' ? (size < 10 ? 2 : 0) : scaled < 10 ? 2 : 1);
  return `${value < 0 ? MINUS : ''}${text.replace(/\.0+$/, '')}${name}`;
}

/** Micro-units as a number of whole units. For drawing only: it loses digits. */
export function units(micro: Micro): number {
  return Number(micro) / Number(MICRO);
}

/** `gain`, `loss`, or `even` if the text of the value is zero. */
export function tone(value: Micro, text: string): 'gain' | 'loss' | 'even' {
  if (!/[1-9]/.test(text)) return 'even';
  return Number(value) > 0 ? 'gain' : 'loss';
}

export function percent(value: number, { sign = false } = {}): string {
  const size = Math.abs(value);
  const text = DECIMALS[size >= 1_000 ? 0 : size >= 100 ? 1 : 2]?.format(size) ?? '';
  const isZero = !/[1-9]/.test(text);
  return `${isZero ? '' : value < 0 ? MINUS : sign ? '+' : ''}${text}%`;
}

export function count(value: number): string {
  return GROUPS.format(value);
}

/** Price in cents with one decimal, rounded to nearest, as a market buy spends whole micro-USDC. */
export function cents(usdc: Micro, shares: Micro): string {
  const parts = BigInt(shares);
  if (parts === 0n) return '–';
  const tenths = (BigInt(usdc) * 2_000n + parts) / (2n * parts);
  return `${tenths / 10n}.${tenths % 10n}¢`;
}

/** A price in micro-USD a share: `95.3¢`, `95¢`; a dash for none. Rounds to nearest. */
export function priceText(micro: number | null): string {
  if (micro === null) return '–';
  const tenths = Math.round(micro / 1_000);
  return `${Math.floor(tenths / 10)}${tenths % 10 === 0 ? '' : `.${tenths % 10}`}¢`;
}

/** The prices of both outcomes, given that of the first: rounded, they still add up to 100¢. */
export function pricesText(first: number | null): readonly [string, string] {
  if (first === null) return ['–', '–'];
  const rounded = Math.round(first / 1_000) * 1_000;
  return [priceText(rounded), priceText(1_000_000 - rounded)];
}

/** The label of a price axis at this number of cents: none beyond 0 and 100, where there are no prices. */
export function centsTick(value: number): string {
  const cents = Math.round(value * 100) / 100;
  return cents < 0 || cents > 100 ? '' : `${cents}¢`;
}

/** A difference of prices in micro-USD: `+3.2¢`. */
export function changeText(micro: number): string {
  return `${signed(BigInt(micro) * 100n, 1)}¢`;
}

/** With a capital letter, for words of the API that stand alone. */
export function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** The first and last digits of an address or hash, in lower case, as the feed has them, everywhere on the page. */
export function shortAddress(address: string): string {
  return `${address.slice(0, 6)}…${address.slice(-4)}`.toLowerCase();
}

/** A trader's name, or the address of one without. */
export function nameOf(trader: { readonly name: string; readonly address: string }): string {
  return trader.name === '' ? shortAddress(trader.address) : trader.name;
}

/** Milliseconds since the epoch of an API time, with `T` or a space; undefined for ''. */
export function timeMs(text: string): number | undefined {
  if (text === '') return undefined;
  const iso = text.replace(' ', 'T');
  return Date.parse(iso.endsWith('Z') ? iso : `${iso}Z`);
}

const UNITS = { second: 's', minute: 'min', hour: 'h', day: 'd' } as const;

/** `3 s`, `12 min`, `4 h`, `9 d`. */
export function span(ms: number): string {
  const [value, unit] = spanOf(ms);
  return `${value} ${UNITS[unit]}`;
}

/** `1 second`, `12 minutes`, `4 hours`, `9 days`. */
export function spanInWords(ms: number): string {
  const [value, unit] = spanOf(ms);
  return `${value} ${unit}${value === 1 ? '' : 's'}`;
}

function spanOf(ms: number): readonly [value: number, unit: keyof typeof UNITS] {
  const seconds = Math.max(0, Math.round(ms / 1_000));
  if (seconds < 100) return [seconds, 'second'];
  if (seconds < 100 * 60) return [Math.round(seconds / 60), 'minute'];
  if (seconds < 48 * 3_600) return [Math.round(seconds / 3_600), 'hour'];
  return [Math.round(seconds / 86_400), 'day'];
}

/** `2026-05-01 12:00:00 UTC`. */
export function timeText(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19).replace('T', ' ')} UTC`;
}

/** `12:00:00`. */
export function clock(ms: number): string {
  return new Date(ms).toISOString().slice(11, 19);
}

export function day(text: string): string {
  return text.slice(0, 10);
}

/** What an outcome pays per share, in cents. 50 means that both outcomes pay the same. */
export function paid(cents: number): string {
  if (cents === 0) return 'Lost';
  return `${cents === 50 ? '50-50' : cents > 50 ? 'Won' : 'Lost'}: pays ${cents}¢ a share`;
}
