/**
 * Rows of long answers, proved column by column: zod takes 6 µs for a row of eight columns, and 50 µs
 * until it is warm, which for a month of hours is as long as ClickHouse takes to find them. Says as much
 * as zod's schemas for rows: a wrong value is a fault of a statement of ours.
 */
import type { RowReader } from './query.ts';

type Column<Value> = (value: unknown) => Value;
type Values<Columns extends Readonly<Record<string, Column<unknown>>>> = {
  readonly [Name in keyof Columns]: ReturnType<Columns[Name]>;
};

/** Reads rows that have these columns; others are left out. Throws TypeError for a wrong value. */
export function rowOf<Columns extends Readonly<Record<string, Column<unknown>>>>(
  columns: Columns,
): RowReader<Values<Columns>> {
  const entries = Object.entries(columns);
  return {
    parse(row) {
      const values: Record<string, unknown> = {};
      for (const [name, column] of entries) values[name] = column((row as typeof values)[name]);
      return values as Values<Columns>;
    },
  };
}

const INT = /^-?\d{1,20}$/;
const HEX = /^[0-9A-F]*$/;

/** An Int64 or UInt64 as ClickHouse quotes it. */
export function int(value: unknown): bigint {
  if (typeof value !== 'string' || !INT.test(value)) throw wrong('64-bit integer', value);
  return BigInt(value);
}

/** A count that fits a JSON number; ClickHouse quotes UInt64. */
export function count(value: unknown): number {
  const number = typeof value === 'string' ? Number(value) : value;
  if (!Number.isSafeInteger(number) || (number as number) < 0) throw wrong('count', value);
  return number as number;
}

/** Seconds since the epoch; 0 = never. */
export function seconds(value: unknown): number {
  if (typeof value !== 'number' || count(value) > 4_294_967_295) throw wrong('time', value);
  return value;
}

export function string(value: unknown): string {
  if (typeof value !== 'string') throw wrong('text', value);
  return value;
}

/** Bytes as `hex` writes them, with 0x and in lower case then. */
export function hexText(value: unknown): string {
  if (typeof value !== 'string' || !HEX.test(value)) throw wrong('hexadecimal text', value);
  return `0x${value.toLowerCase()}`;
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

export function texts(value: unknown): readonly string[] {
  return list(value).map(string);
}

function wrong(what: string, value: unknown): TypeError {
  return new TypeError(`a ${what} expected in a row, got ${JSON.stringify(value)}`);
}
