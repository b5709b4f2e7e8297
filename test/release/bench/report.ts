/** Tables for terminals and Markdown, medians, ratios, and a description of the machine. */
import { cpus, totalmem } from 'node:os';

type Row = Readonly<Record<string, string | number>>;

/** Prints a Markdown table with the keys of the first row as its head. */
export function printTable(title: string, rows: readonly Row[]): void {
  const names = Object.keys(rows[0] ?? {});
  const cells = rows.map((row) => names.map((name) => String(row[name] ?? '')));
  const widths = names.map((name, i) =>
    Math.max(name.length, ...cells.map((line) => line[i]?.length ?? 0)),
  );
  const line = (texts: readonly string[]) =>
    `| ${texts.map((text, i) => text.padEnd(widths[i] ?? 0)).join(' | ')} |`;
  const rule = `|${widths.map((width) => '-'.repeat(width + 2)).join('|')}|`;
  console.log([`\n### ${title}\n`, line(names), rule, ...cells.map(line), ''].join('\n'));
}

/** The median; of an even number of values, the lower one of the middle two. */
export function median(values: readonly number[]): number {
  return percentile(values, 0.5);
}

/** The smallest value that so large a part of the values does not exceed. Throws without values. */
export function percentile(values: readonly number[], part: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  const value = sorted[Math.max(0, Math.ceil(sorted.length * part) - 1)];
  if (value === undefined) throw new RangeError('no values');
  return value;
}

/** `part` of `whole` with two decimals, rounded down: 100.00 % means all. */
export function percent(part: number, whole: number): string {
  if (whole === 0) return '–';
  return `${(Math.floor((part / whole) * 10_000) / 100).toFixed(2)} %`;
}

/** A number for people: 12,345 or 1.23. */
export function readable(value: number): string {
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return value.toLocaleString('en-US', {
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  });
}

export function machine(): string {
  const memory = Math.round(totalmem() / 2 ** 30);
  return `${cpus().length} cores, ${memory} GB, ${process.platform} ${process.arch}, Node ${process.versions.node}`;
}
