/**
 * Rows of a SELECT. Each column is defined once, with its name in the row, its SQL expression and its schema.
 * Validation works on whole columns, which for long results takes a fraction of the time of validating rows.
 */
import { z } from 'zod';

export type Column<Value> = { readonly sql: string; readonly schema: z.ZodType<Value> };

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
  const [first, ...rest] = own.map(({ schema }) => z.array(schema));
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

function column<Value>(sql: string, schema: z.ZodType<Value>): Column<Value> {
  return { sql, schema };
}

/** An integer of 64 bits or more. */
export const bigint = z.coerce.bigint<string>();
const safeCount = z
  .union([z.number(), z.string()])
  .pipe(z.coerce.number<string | number>().int().min(0));
/** Bytes as 0x and lower-case digits; `hexSql` selects them. */
export const hex = z.string().regex(/^0x[0-9a-f]*$/);

export function hexSql(bytes: string): string {
  return `concat('0x', lower(hex(${bytes})))`;
}

export const int = (sql: string) => column(sql, bigint);
/** A large integer as decimal text. */
export const digits = (sql: string) => column(sql, z.string().regex(/^\d+$/));
/** A count that fits a JSON number, of any integer type. */
export const count = (sql: string) => column(sql, safeCount);
/** A DateTime as seconds since the epoch; 0 = never. */
export const seconds = (sql: string) => column(`toUnixTimestamp(${sql})`, z.int().min(0));
/** A double. */
export const number = (sql: string) => column(sql, z.number());
export const boolean = (sql: string) => column(sql, z.boolean());
export const string = (sql: string) => column(sql, z.string());
export const strings = (sql: string) => column(sql, z.array(z.string()));
export const hexText = (sql: string) => column(hexSql(sql), hex);
/** An expression of any other type. */
export const typed = column;
