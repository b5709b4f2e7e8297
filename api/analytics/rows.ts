/**
 * Rows of answers, proved column by column: zod takes 6 µs for a row of eight columns, and 50 µs
 * until it is warm, which for a month of hours is as long as ClickHouse takes to find them. A wrong
 * column or value is a fault of a statement of ours.
 */
import type { Table } from '../../infra/clickhouse-native.ts';

/** Proves the rows of an answer. Throws TypeError for other columns or values. */
export type RowReader<Row> = {
  readonly rowsOf: (table: Table) => readonly Row[];
  /** The same one after the other, for who keeps none of many. */
  readonly each: (table: Table) => Iterable<Row>;
};

type Column<Value> = (value: unknown) => Value;
type Values<Columns extends Readonly<Record<string, Column<unknown>>>> = {
  readonly [Name in keyof Columns]: ReturnType<Columns[Name]>;
};
export type RowOf<Reader> = Reader extends RowReader<infer Row> ? Row : never;

/** Reads rows that have these columns and no others. */
export function rowOf<Columns extends Readonly<Record<string, Column<unknown>>>>(
  columns: Columns,
): RowReader<Values<Columns>> {
  const entries = Object.entries(columns);
  function* each(table: Table) {
    if (table.size === 0) return;
    if (table.size !== entries.length || !entries.every(([name]) => table.has(name))) {
      throw otherColumns(table, columns);
    }
    const proved = entries.map(([name, column]) => ({ name, column, all: table.get(name) ?? [] }));
    const rows = proved[0]?.all.length ?? 0;
    for (let row = 0; row < rows; row++) {
      const values: Record<string, unknown> = {};
      for (const { name, column, all } of proved) values[name] = column(all[row]);
      yield values as Values<Columns>;
    }
  }
  return { each, rowsOf: (table) => [...each(table)] };
}

function otherColumns(table: Table, columns: object): TypeError {
  const [got, expected] = [[...table.keys()], Object.keys(columns)].map((names) =>
    names.join(', '),
  );
  return new TypeError(`the columns ${expected} expected, got ${got}`);
}

/** An integer of 64 bits or more. */
export function int(value: unknown): bigint {
  if (typeof value !== 'bigint') throw wrong('large integer', value);
  return value;
}

/** A count that fits a JSON number. */
export function count(value: unknown): number {
  const number = typeof value === 'bigint' ? Number(value) : value;
  if (!Number.isSafeInteger(number) || (number as number) < 0) throw wrong('count', value);
  return number as number;
}

/** Seconds since the epoch; 0 = never. */
export function seconds(value: unknown): number {
  if (typeof value !== 'number' || count(value) > 4_294_967_295) throw wrong('time', value);
  return value;
}

/** A double. */
export function number(value: unknown): number {
  if (typeof value !== 'number') throw wrong('number', value);
  return value;
}

export function boolean(value: unknown): boolean {
  if (typeof value !== 'boolean') throw wrong('yes or no', value);
  return value;
}

export function string(value: unknown): string {
  if (typeof value !== 'string') throw wrong('text', value);
  return value;
}

/** Bytes as 0x and lower-case digits. */
export function hexText(value: unknown): string {
  if (typeof value !== 'string' || !value.startsWith('0x')) throw wrong('hexadecimal text', value);
  return value;
}

/** One of these values. */
export function oneOf<Value>(allowed: readonly Value[], value: unknown): Value {
  if (!allowed.includes(value as Value)) throw wrong(allowed.join(' or '), value);
  return value as Value;
}

/** An array or a tuple. */
export function list(value: unknown): readonly unknown[] {
  if (!Array.isArray(value)) throw wrong('list', value);
  return value;
}

export function texts(value: unknown): string[] {
  return list(value).map(string);
}

function wrong(what: string, value: unknown): TypeError {
  return new TypeError(`a ${what} expected in a row, got ${String(value)}`);
}
