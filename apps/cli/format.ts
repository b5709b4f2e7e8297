/** Formats amounts, tables and CSV. */

import { csvRow } from '../../api/http/csv-row.ts';
import { clean, cleanJson } from '../../infra/printed.ts';

/** The terminal or file that receives the output. */
export type Screen = {
  /** Columns of the terminal; Infinity without a terminal. */
  readonly width: number;
  readonly hasColors: boolean;
};

export type Color = 'green' | 'red' | 'dim';

export type Column<Row> = {
  readonly head: string;
  readonly cell: (row: Row) => string;
  /** Aligned to the right, for numbers. */
  readonly isRight?: true;
  /** Where cells are truncated if the table is too wide; default: nowhere. */
  readonly cut?: 'end' | 'middle';
  readonly color?: (row: Row) => Color | undefined;
};

const CODES: Readonly<Record<Color, number>> = { green: 32, red: 31, dim: 2 };
const CUT_WIDTH_LEAST = 11;
const BETWEEN = '  ';

export function painted(text: string, color: Color | undefined, { hasColors }: Screen): string {
  return hasColors && color !== undefined ? `\x1b[${CODES[color]}m${text}\x1b[0m` : text;
}

/** Green for a gain, red for a loss. */
export function gain(amount: number): Color | undefined {
  return amount === 0 ? undefined : amount > 0 ? 'green' : 'red';
}

/** Micro-USDC as dollars: `$0.0042`, `$12.50`, `-$48,210`. */
export function dollars(micro: number | string): string {
  const amount = Number(micro) / 1e6;
  return `${amount < 0 ? '-' : ''}$${plain(Math.abs(amount), 2, 10_000)}`;
}

/** Micro-shares: `0.0042`, `12.5`, `48,210`. */
export function shares(micro: number | string): string {
  return plain(Number(micro) / 1e6, 0, 1_000);
}

/** Micro-USDC a share in cents: `62¢`, `0.4¢`; empty without a price. */
export function cents(micro: number | null): string {
  return micro === null ? '' : `${plain(micro / 1e4, 0, 1_000)}¢`;
}

export function percent(value: number): string {
  return `${value.toLocaleString('en-US', { minimumFractionDigits: 1, maximumFractionDigits: 1 })}%`;
}

/** Two decimals, none from `wholeFrom` on, and more for amounts that would look like zero. */
function plain(amount: number, minimumFractionDigits: number, wholeFrom: number): string {
  const size = Math.abs(amount);
  if (size >= wholeFrom) return amount.toLocaleString('en-US', { maximumFractionDigits: 0 });
  const maximumFractionDigits = size > 0 && size < 0.01 ? 6 : 2;
  return amount.toLocaleString('en-US', { minimumFractionDigits, maximumFractionDigits });
}

/** An ISO time as `2026-01-31 12:00`; empty stays empty. */
export function minute(time: string): string {
  return time.slice(0, 16).replace('T', ' ');
}

/** The width of a text in terminal columns. */
export function widthOf(text: string): number {
  let width = 0;
  for (const character of text) width += charWidth(character);
  return width;
}

function charWidth(character: string): number {
  if (/\p{M}/u.test(character)) return 0;
  return /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|\p{Emoji_Presentation}/u.test(
    character,
  )
    ? 2
    : 1;
}

/** Truncates a text to this many columns, with `…` in place of the rest. */
export function cutTo(text: string, width: number, where: 'end' | 'middle' = 'end'): string {
  if (widthOf(text) <= width) return text;
  const end = where === 'end' ? '' : text.slice(text.length - Math.floor((width - 1) / 2));
  const room = width - 1 - widthOf(end);
  let start = '';
  let used = 0;
  for (const character of text) {
    used += charWidth(character);
    if (used > room) break;
    start += character;
  }
  return `${start}…${end}`;
}

/** A table with a header. Wide columns are truncated to fit the screen, and columns that still do not fit are omitted. */
export function table<Row>(
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  screen: Screen,
): string {
  const cells = rows.map((row) => columns.map((column) => clean(column.cell(row))));
  const natural = columns.map(({ head }, n) =>
    Math.max(widthOf(head), ...cells.map((one) => widthOf(one[n] ?? ''))),
  );
  const widths = fit(columns, natural, screen.width);
  const line = (texts: readonly string[], colors: readonly (Color | undefined)[]) =>
    widths
      .map((width, n) => {
        const { cut, isRight } = columns[n] ?? {};
        const text = cutTo(texts[n] ?? '', width, cut);
        const space = ' '.repeat(width - widthOf(text));
        const shown = painted(text, colors[n], screen);
        return isRight ? space + shown : shown + space;
      })
      .join(BETWEEN)
      .trimEnd();
  const heads = columns.map(({ head }) => head);
  const lines = rows.map((row, r) =>
    line(
      cells[r] ?? [],
      columns.map(({ color }) => color?.(row)),
    ),
  );
  return `${[
    line(
      heads,
      heads.map(() => 'dim'),
    ),
    ...lines,
  ].join('\n')}\n`;
}

/** The widths of the shown columns. */
function fit<Row>(
  columns: readonly Column<Row>[],
  natural: readonly number[],
  width: number,
): number[] {
  for (let count = columns.length; count > 1; count -= 1) {
    const widths = natural.slice(0, count);
    let excess = widths.reduce((sum, one) => sum + one + BETWEEN.length, -BETWEEN.length) - width;
    while (excess > 0) {
      const cuttable = widths.map((one, n) => (columns[n]?.cut === undefined ? 0 : one));
      const widest = cuttable.indexOf(Math.max(...cuttable));
      if ((cuttable[widest] ?? 0) <= CUT_WIDTH_LEAST) break;
      widths[widest] = (widths[widest] ?? 0) - 1;
      excess -= 1;
    }
    if (excess <= 0) return widths;
  }
  return [Math.min(natural[0] ?? 0, width)];
}

/** Lines of a name and a value. */
export function facts(pairs: readonly (readonly [string, string])[], screen: Screen): string {
  const shown = pairs.map(([name, value]) => [clean(name), clean(value)] as const);
  const width = Math.max(...shown.map(([name]) => widthOf(name)));
  const lines = shown.map(([name, value]) => {
    const text = cutTo(value, Math.max(CUT_WIDTH_LEAST, screen.width - width - 2));
    const space = ' '.repeat(width - widthOf(name));
    return `${painted(name + space, 'dim', screen)}${BETWEEN}${text}`.trimEnd();
  });
  return `${lines.join('\n')}\n`;
}

/** A row of CSV without control characters, because it may be printed on a terminal. */
export function cleanRow(values: readonly unknown[]): string {
  return csvRow(values.map(cleanCell));
}

function cleanCell(value: unknown): unknown {
  if (typeof value === 'string') return clean(value);
  if (!Array.isArray(value)) return value;
  return value.some((one) => typeof one === 'object') ? cleanJson(value) : value.map(cleanCell);
}

/** Prints entries as JSON, one a line, or as CSV with the columns of the first entry. */
export async function printPages(
  pages: AsyncIterable<readonly object[]> | Iterable<readonly object[]>,
  format: 'csv' | 'json',
  write: (text: string) => Promise<void>,
): Promise<void> {
  let names: string[] | undefined;
  for await (const page of pages) {
    const [first] = page;
    if (first === undefined) continue;
    if (format === 'json') {
      await write(page.map((entry) => `${cleanJson(entry)}\n`).join(''));
      continue;
    }
    const head = names === undefined;
    names ??= Object.keys(flat(first));
    const columns = names;
    const rows = page.map((entry) => {
      const cells = flat(entry);
      return cleanRow(columns.map((name) => cells[name]));
    });
    await write((head ? cleanRow(columns) : '') + rows.join(''));
  }
}

/** The members of an entry by column, named as in the API's CSV: `profile.address`. */
export function flat(entry: object, prefix = ''): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(entry).flatMap(([name, value]) =>
      value instanceof Object && !Array.isArray(value)
        ? Object.entries(flat(value, `${prefix}${name}.`))
        : [[prefix + name, value]],
    ),
  );
}
