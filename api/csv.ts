/**
 * Lists as CSV (RFC 4180): a header and one row an element, CRLF line ends. Columns come from the
 * schema of an element, so that an empty list has its header too: a member of a nested object is
 * `profile.address`, a list of texts is joined by semicolons, a list of objects is JSON in its cell.
 */
import { z } from 'zod';

type Column = { readonly name: string; readonly path: readonly string[] };

/** What writes rows of the list `list` of an answer that `answer` describes. */
export function csvOf(answer: z.ZodObject, list: string) {
  const columns = columnsOf(elementOf(answer, list), []);
  return {
    header: `${columns.map((column) => cell(column.name)).join(',')}\r\n`,
    row: (element: object) =>
      `${columns.map(({ path }) => cell(text(valueAt(element, path)))).join(',')}\r\n`,
  };
}

/** Schema of the elements of a list. Throws where `list` is none of objects. */
function elementOf(answer: z.ZodObject, list: string): z.ZodObject {
  const member = answer.shape[list];
  if (member instanceof z.ZodArray && member.element instanceof z.ZodObject) return member.element;
  throw new Error(`${list} is no list of objects`);
}

function columnsOf(schema: z.ZodObject, path: readonly string[]): Column[] {
  return Object.entries(schema.shape).flatMap(([name, member]) => {
    const own = [...path, name];
    return member instanceof z.ZodObject
      ? columnsOf(member, own)
      : [{ name: own.join('.'), path: own }];
  });
}

function valueAt(element: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>(
    (value, name) => (value as Readonly<Record<string, unknown>>)[name],
    element,
  );
}

function text(value: unknown): string {
  if (value === undefined) return '';
  if (!Array.isArray(value)) return String(value);
  const isPlain = value.every((one) => typeof one !== 'object');
  return isPlain ? value.join(';') : JSON.stringify(value);
}

function cell(given: string): string {
  return /[",\r\n]/.test(given) ? `"${given.replaceAll('"', '""')}"` : given;
}
