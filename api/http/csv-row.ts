/** CSV (RFC 4180) as the API and the command line write it, with CRLF line ends. */

/** One row. Lists of strings are joined with semicolons, lists of objects are JSON. */
export function csvRow(values: readonly unknown[]): string {
  return `${values.map((value) => cell(text(value))).join(',')}\r\n`;
}

function text(value: unknown): string {
  if (value === undefined || value === null) return '';
  if (!Array.isArray(value)) return String(value);
  const isPlain = value.every((element) => typeof element !== 'object');
  return isPlain ? value.join(';') : JSON.stringify(value);
}

function cell(given: string): string {
  return /[",\r\n]/.test(given) ? `"${given.replaceAll('"', '""')}"` : given;
}
