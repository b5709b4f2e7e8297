/**
 * Lists as CSV: a header row and one row per element. The columns come from the element's schema, so even an
 * empty list has a header. Members of nested objects become columns such as `profile.address`.
 */
import { z } from 'zod';
import { csvRow } from './csv-row.ts';

type Column = { readonly name: string; readonly path: readonly string[] };

/** Returns the header row and a function that writes rows, for the member `list` of a response. */
export function csvOf(answer: z.ZodObject, list: string) {
  const columns = columnsOf(elementOf(answer, list), []);
  return {
    header: csvRow(columns.map(({ name }) => name)),
    row: (element: object) => csvRow(columns.map(({ path }) => valueAt(element, path))),
  };
}

/** Schema of the elements of a list. Throws if `list` is not a list of objects. */
function elementOf(answer: z.ZodObject, list: string): z.ZodObject {
  const member = answer.shape[list];
  if (member instanceof z.ZodArray && member.element instanceof z.ZodObject) return member.element;
  throw new Error(`${list} is not a list of objects`);
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
