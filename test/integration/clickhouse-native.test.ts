// The format Native as the real engine writes it: whatever is put into a table comes out the same.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { decodeNative } from '../../infra/clickhouse-native.ts';
import { type ClickHouseReader, connectReader } from '../../infra/clickhouse-reader.ts';
import { start, stopAll } from './embedded-harness.ts';

const root = mkdtempSync(join(tmpdir(), 'clickhouse-native-'));
let url: string;
let reader: ClickHouseReader;

beforeAll(async () => {
  ({ url } = await start(join(root, 'data')));
  reader = connectReader({ url, database: 'default', name: 'test' });
});

afterAll(async () => {
  reader.close();
  await stopAll();
  rmSync(root, { recursive: true, force: true });
});

const ALONE = { parameters: {}, settings: {}, signal: null, msMax: 10_000 };

async function ask(sql: string) {
  const table = await reader.select({ sql, ...ALONE });
  return Object.fromEntries([...table].map(([name, values]) => [name, Array.from(values)]));
}

const signed = (bits: number) =>
  fc.bigInt({ min: -(2n ** BigInt(bits - 1)), max: 2n ** BigInt(bits - 1) - 1n });
const unsigned = (bits: number) => fc.bigInt({ min: 0n, max: 2n ** BigInt(bits) - 1n });
const literal = (value: string) => `unhex('${Buffer.from(value).toString('hex')}')`;
const text = fc.string({ unit: 'grapheme' });
const bytes = (length: number) =>
  fc
    .uint8Array({ minLength: length, maxLength: length })
    .map((all) => `0x${Buffer.from(all).toString('hex')}`);

/** Of each type: values, and how SQL writes them. */
const TYPES: Record<string, [fc.Arbitrary<unknown>, (value: never) => string]> = {
  UInt8: [unsigned(8).map(Number), String],
  UInt16: [unsigned(16).map(Number), String],
  UInt32: [unsigned(32).map(Number), String],
  UInt64: [unsigned(64), (value) => `toUInt64('${value}')`],
  UInt128: [unsigned(128), (value) => `toUInt128('${value}')`],
  UInt256: [unsigned(256), (value) => `toUInt256('${value}')`],
  Int8: [signed(8).map(Number), String],
  Int16: [signed(16).map(Number), String],
  Int32: [signed(32).map(Number), String],
  Int64: [signed(64), (value) => `toInt64('${value}')`],
  Int128: [signed(128), (value) => `toInt128('${value}')`],
  Int256: [signed(256), (value) => `toInt256('${value}')`],
  Float64: [fc.integer().map((value) => value / 8), String],
  Bool: [fc.boolean(), String],
  String: [text, literal],
  'FixedString(20)': [bytes(20), (value: string) => `unhex('${value.slice(2)}')`],
  "Enum8('a, (b' = -5, 'SELL' = 7)": [fc.constantFrom('a, (b', 'SELL'), (value) => `'${value}'`],
  "DateTime('UTC')": [unsigned(32).map(Number), (value) => `toDateTime(${value}, 'UTC')`],
  "DateTime64(3, 'UTC')": [
    fc.bigInt({ min: 0n, max: 4_000_000_000_000n }),
    (value) => `fromUnixTimestamp64Milli(${value}, 'UTC')`,
  ],
  'Nullable(Int64)': [
    fc.option(signed(64)),
    (value) => (value === null ? 'NULL' : `toInt64('${value}')`),
  ],
  'Array(String)': [fc.array(text), (value: string[]) => `[${value.map(literal).join()}]`],
  'Array(Array(UInt64))': [
    fc.array(fc.array(unsigned(64))),
    (value: bigint[][]) =>
      `[${value.map((inner) => `[${inner.map((one) => `toUInt64('${one}')`).join()}]`).join()}]`,
  ],
  'Tuple(pnl Int64, who FixedString(2), other Array(UInt8))': [
    fc.tuple(signed(64), bytes(2), fc.array(unsigned(8).map(Number))),
    ([pnl, who, other]: [bigint, string, number[]]) =>
      `(toInt64('${pnl}'), unhex('${who.slice(2)}'), [${other.join()}])`,
  ],
  'SimpleAggregateFunction(sum, Int64)': [signed(64), (value) => `toInt64('${value}')`],
};

test.each(Object.keys(TYPES))('%s comes out as it was put in', async (type) => {
  const [values, written] = TYPES[type] ?? [];
  if (values === undefined || written === undefined) throw new Error(type);
  const [column] = fc.sample(fc.array(values, { minLength: 50, maxLength: 50 }), 1);
  await fetch(url, { method: 'POST', body: 'DROP TABLE IF EXISTS given' });
  const create = `CREATE TABLE given (at UInt32, one ${type}) ENGINE = MergeTree ORDER BY at`;
  for (const body of [
    create,
    `INSERT INTO given VALUES ${column?.map((value, at) => `(${at}, ${written(value as never)})`)}`,
  ]) {
    const response = await fetch(url, { method: 'POST', body });
    expect(await response.text()).toBe('');
  }
  expect(await ask('SELECT one, at FROM given ORDER BY at')).toEqual({
    one: column,
    at: column?.map((_, at) => at),
  });
  expect(await ask('SELECT one FROM given WHERE at = 7')).toEqual({ one: [column?.[7]] });
});

test('blocks are put together, and no rows are no values', async () => {
  const some = await ask(
    'SELECT number AS n, toString(number) AS t FROM numbers(1000) SETTINGS max_block_size = 7',
  );
  expect(some.n).toEqual(Array.from({ length: 1000 }, (_, n) => BigInt(n)));
  expect(some.t).toEqual(Array.from({ length: 1000 }, (_, n) => String(n)));
  expect(Object.values(await ask('SELECT 1 AS one WHERE 0')).flat()).toEqual([]);
});

test('a type that is not known is named, and an answer that is cut is refused', async () => {
  await expect(ask("SELECT toLowCardinality('a') AS one")).rejects.toThrow(
    'columns of the type LowCardinality(String) are not read',
  );
  const response = await fetch(`${url}/?default_format=Native`, {
    method: 'POST',
    body: "SELECT [1, 2] AS a, 'text' AS b, toUInt64(1) AS c",
  });
  const whole = Buffer.from(await response.arrayBuffer());
  expect(decodeNative(whole).size).toBe(3);
  for (let length = 1; length < whole.length; length++) {
    expect(() => decodeNative(whole.subarray(0, length))).toThrow(RangeError);
  }
});

describe('a read ends', () => {
  const SLOW = 'SELECT sleepEachRow(0.5) FROM numbers(20) SETTINGS max_block_size = 1';

  test('at the server, with its error, when its time is over', async () => {
    const late = reader.select({ sql: SLOW, ...ALONE, msMax: 700 });
    await expect(late).rejects.toMatchObject({ code: '159', type: 'TIMEOUT_EXCEEDED' });
  });

  test('here, when the server keeps silent', async () => {
    const sql = 'SELECT sleep(3)';
    const silent = reader.select({ sql, ...ALONE, msMax: 100 });
    await expect(silent).rejects.toMatchObject({ code: 'ETIMEDOUT' });
  });

  test('with its client, for the reason that the client had', async () => {
    const client = new AbortController();
    const left = reader.select({ sql: SLOW, ...ALONE, signal: client.signal });
    setTimeout(() => client.abort(new Error('gone')), 100);
    await expect(left).rejects.toThrow('gone');
    const gone = reader.select({ sql: SLOW, ...ALONE, signal: client.signal });
    await expect(gone).rejects.toThrow('gone');
    expect(await ask('SELECT 1 AS one')).toEqual({ one: [1] });
  });
});
