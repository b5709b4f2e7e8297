/**
 * Rows of a SELECT. Each column is defined once, with its name in the row, its SQL expression and its schema, which is that
 * of the whole column: a schema for each value would allocate two objects for it.
 */
import { z } from 'zod';

export type Column<Value> = { readonly sql: string; readonly list: z.ZodType<readonly Value[]> };

export type RowSchema<Row> = {
  /** The list after SELECT. */
  readonly columns: string;
  readonly rows: z.ZodType<readonly Row[]>;
};
export type RowOf<Schema> = Schema extends RowSchema<infer Row> ? Row : never;

type Values<Columns> = {
  readonly [Name in keyof Columns]: Columns[Name] extends Column<infer Value> ? Value : never;
};

/** The columns are selected in this order, without aliases. */
export function rowOf<Columns extends Readonly<Record<string, Column<unknown>>>>(
  columns: Columns,
): RowSchema<Values<Columns>> {
  const names = Object.keys(columns);
  const own = Object.values(columns);
  const [first, ...rest] = own.map(({ list }) => list);
  if (first === undefined) throw new Error('a row has at least one column');
  // Without rows, JSONCompactColumns has no columns either.
  const schema = z.union([z.tuple([]), z.tuple([first, ...rest])]).transform((all) => {
    const [keys = []] = all as readonly (readonly unknown[])[];
    return keys.map((_, row) => {
      const values: Record<string, unknown> = {};
      for (const [at, name] of names.entries()) values[name] = all[at]?.[row];
      return values as Values<Columns>;
    });
  });
  return { columns: own.map(({ sql }) => sql).join(',\n  '), rows: schema };
}

/** A column of values that each match a schema, which may change them. */
export function typed<Value>(sql: string, schema: z.ZodType<Value>): Column<Value> {
  return { sql, list: z.array(schema) };
}

/** A column of plain values that all pass a test. */
function column<Value>(sql: string, test: (value: unknown) => boolean, wanted: string) {
  const list = z.custom<readonly Value[]>(
    (values) => Array.isArray(values) && values.every(test),
    `expected ${wanted}`,
  );
  return { sql, list };
}

const HEX = /^0x[0-9a-f]*$/;
const isString = (value: unknown) => typeof value === 'string';
const isNatural = (value: unknown) => Number.isSafeInteger(value) && Number(value) >= 0;
const isDigits = (value: unknown) => typeof value === 'string' && /^\d+$/.test(value);
const isCount = (value: unknown) => isNatural(isDigits(value) ? Number(value) : value);
const isInteger = (value: unknown) =>
  typeof value === 'string' ? /^-?\d+$/.test(value) : Number.isSafeInteger(value);

/** An integer of 64 bits or more. */
export const bigint = z.coerce.bigint<string>();
/** Bytes as 0x and lower-case digits; `hexSql` selects them. */
export const hex = z.string().regex(HEX);

export function hexSql(bytes: string): string {
  return `concat('0x', lower(hex(${bytes})))`;
}

export function int(sql: string): Column<bigint> {
  const { list } = column<string | number>(sql, isInteger, 'integers');
  return { sql, list: list.transform((values) => values.map(BigInt)) };
}

/** A large integer as decimal text. */
export const digits = (sql: string) => column<string>(sql, isDigits, 'digits');

/** A count that fits a JSON number, of any integer type. */
export function count(sql: string): Column<number> {
  const { list } = column<string | number>(sql, isCount, 'counts');
  return { sql, list: list.transform((values) => values.map(Number)) };
}

/** A DateTime as seconds since the epoch; 0 = never. */
export const seconds = (sql: string) =>
  column<number>(`toUnixTimestamp(${sql})`, isNatural, 'seconds');
/** A double. */
export const number = (sql: string) =>
  column<number>(sql, (value) => typeof value === 'number', 'numbers');
export const boolean = (sql: string) =>
  column<boolean>(sql, (value) => typeof value === 'boolean', 'booleans');
export const string = (sql: string) => column<string>(sql, isString, 'strings');
export const strings = (sql: string) =>
  column<string[]>(
    sql,
    (value) => Array.isArray(value) && value.every(isString),
    'lists of strings',
  );
export const hexText = (sql: string) =>
  column<string>(
    hexSql(sql),
    (value) => typeof value === 'string' && HEX.test(value),
    'hex digits',
  );
