// Short reads of the real engine: every type round-trips, no error hides behind a 200, and every read ends.
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ClickHouseClient } from '@clickhouse/client';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import {
  bigint,
  boolean,
  type Column,
  count,
  hex,
  hexSql,
  hexText,
  int,
  number,
  rowOf,
  seconds,
  string,
  strings,
  typed,
} from '../../api/analytics/rows.ts';
import {
  Bytes,
  connectClickHouse,
  createSelect,
  type Select,
  StoreUnreachableError,
} from '../../infra/clickhouse.ts';
import { startEngine, stopEngines } from '../support/stack.ts';

const root = mkdtempSync(join(tmpdir(), 'clickhouse-select-'));
let client: ClickHouseClient;
let select: Select;

beforeAll(async () => {
  const { serviceUrl: url } = await startEngine(join(root, 'data'));
  const store = { url, database: 'default', name: 'test' };
  client = connectClickHouse(store);
  select = createSelect(store);
});

afterAll(async () => {
  await client?.close();
  await stopEngines();
  rmSync(root, { recursive: true, force: true });
});

const ALONE = { parameters: {}, settings: {}, signal: null, msMax: 10_000 };
const One = rowOf({ one: count('one') });
const selectOne = (sql: string, more: object = {}) =>
  select({ sql: `SELECT one FROM (${sql})`, rows: One.rows, ...ALONE, ...more });

const signed = (bits: number) =>
  fc.bigInt({ min: -(2n ** BigInt(bits - 1)), max: 2n ** BigInt(bits - 1) - 1n });
const unsigned = (bits: number) => fc.bigInt({ min: 0n, max: 2n ** BigInt(bits) - 1n });
const literal = (value: string) => `unhex('${Buffer.from(value).toString('hex')}')`;
const text = fc.string({ unit: 'grapheme' });
const bytes = (length: number) =>
  fc
    .uint8Array({ minLength: length, maxLength: length })
    .map((all) => `0x${Buffer.from(all).toString('hex')}`);

/** Of each type: its column, values, and how SQL writes them. */
const TYPES: Record<
  string,
  [(sql: string) => Column<unknown>, fc.Arbitrary<unknown>, (value: never) => string]
> = {
  UInt8: [count, unsigned(8).map(Number), String],
  UInt32: [count, unsigned(32).map(Number), String],
  UInt64: [int, unsigned(64), (value) => `toUInt64('${value}')`],
  UInt256: [int, unsigned(256), (value) => `toUInt256('${value}')`],
  Int64: [int, signed(64), (value) => `toInt64('${value}')`],
  Int128: [int, signed(128), (value) => `toInt128('${value}')`],
  Float64: [number, fc.integer().map((value) => value / 8), String],
  Bool: [boolean, fc.boolean(), String],
  String: [string, text, literal],
  'FixedString(20)': [hexText, bytes(20), (value: string) => `unhex('${value.slice(2)}')`],
  "Enum8('a, (b' = -5, 'SELL' = 7)": [
    string,
    fc.constantFrom('a, (b', 'SELL'),
    (value) => `'${value}'`,
  ],
  "DateTime('UTC')": [seconds, unsigned(32).map(Number), (value) => `toDateTime(${value}, 'UTC')`],
  'Array(String)': [strings, fc.array(text), (value: string[]) => `[${value.map(literal).join()}]`],
  'Tuple(Int64, FixedString(2))': [
    (sql) => typed(`(${sql}.1, ${hexSql(`${sql}.2`)})`, z.tuple([bigint, hex])),
    fc.tuple(signed(64), bytes(2)),
    ([pnl, who]: [bigint, string]) => `(toInt64('${pnl}'), unhex('${who.slice(2)}'))`,
  ],
};

test.each(Object.keys(TYPES))('%s round-trips', async (type) => {
  const [column, values, written] = TYPES[type] ?? [];
  if (column === undefined || values === undefined || written === undefined) throw new Error(type);
  const [given = []] = fc.sample(fc.array(values, { minLength: 50, maxLength: 50 }), 1);
  const rows = given.map((value, at) => `(${at}, ${written(value as never)})`);
  for (const query of [
    'DROP TABLE IF EXISTS given',
    `CREATE TABLE given (at UInt32, one ${type}) ENGINE = MergeTree ORDER BY at`,
    `INSERT INTO given VALUES ${rows}`,
  ]) {
    await client.command({ query });
  }
  const row = rowOf({ one: column('one'), at: count('at') });
  const sql = `SELECT ${row.columns} FROM given WHERE at < {below:UInt32} ORDER BY at`;
  const read = (below: number) => select({ sql, rows: row.rows, ...ALONE, parameters: { below } });
  expect(await read(50)).toEqual(given.map((one, at) => ({ one, at })));
  expect(await read(0)).toEqual([]);
});

test.each([
  ['http://', undefined],
  ['http://fs:p%40ss@', `Basic ${Buffer.from('fs:p@ss').toString('base64')}`],
])('%s127.0.0.1 sends the credentials of the URL, and none without them', async (start, sent) => {
  const headers: unknown[] = [];
  const server = createServer((request, response) => {
    headers.push(request.headers.authorization);
    response.end('[["1"]]');
  }).listen(0, '127.0.0.1');
  await new Promise((listening) => server.once('listening', listening));
  const url = `${start}127.0.0.1:${(server.address() as AddressInfo).port}`;
  const read = createSelect({ url, database: 'default', name: 'test' });
  expect(await read({ sql: 'SELECT 1 AS one', rows: One.rows, ...ALONE })).toEqual([{ one: 1 }]);
  expect(headers).toEqual([sent]);
  server.closeAllConnections();
  server.close();
});

test('parameters are bound: text, numbers, booleans, bytes and lists of bytes', async () => {
  const row = rowOf({
    text: string('{text:String}'),
    number: count('{number:UInt32}'),
    flag: boolean('{flag:Bool}'),
    bytes: hexText('{bytes:FixedString(3)}'),
    list: typed(`arrayMap(x -> ${hexSql('x')}, {list:Array(FixedString(2))})`, z.array(hex)),
  });
  const hostile = `a'b\\c\td\ne\rf\0g'; DROP TABLE given --`;
  const parameters = {
    ...{ text: hostile, number: 7, flag: true, unused: undefined },
    ...{ bytes: new Bytes('0x00275c'), list: new Bytes(['0x2700', '0x0aff']) },
  };
  const sql = `SELECT ${row.columns}`;
  expect(await select({ sql, rows: row.rows, ...ALONE, parameters })).toEqual([
    { text: hostile, number: 7, flag: true, bytes: '0x00275c', list: ['0x2700', '0x0aff'] },
  ]);
});

describe('errors', () => {
  test('of the server are thrown, also those behind the first rows', async () => {
    const late = "SELECT throwIf(number = 900000, 'late') AS one FROM numbers(1000000)";
    await expect(selectOne(late)).rejects.toMatchObject({ code: '395' });
    await expect(selectOne('SELECT x')).rejects.toMatchObject({ code: '47' });
  });

  test('of the schema are thrown', async () => {
    await expect(selectOne("SELECT 'text' AS one")).rejects.toThrow(z.ZodError);
  });

  test('of the network mean that the store is unreachable', async () => {
    const closed = createServer();
    await new Promise<void>((done) => closed.listen(0, '127.0.0.1', done));
    const { port } = closed.address() as AddressInfo;
    await new Promise((done) => closed.close(done));
    const gone = createSelect({ url: `http://127.0.0.1:${port}`, database: 'x', name: 'test' });
    const read = gone({ sql: 'SELECT 1', rows: One.rows, ...ALONE });
    await expect(read).rejects.toThrow(StoreUnreachableError);
  });
});

test('an error page of a proxy means that the store is unreachable', async () => {
  const server = createServer((_request, response) => {
    response.writeHead(502).end('<html><h1>502 Bad Gateway</h1></html>');
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address() as AddressInfo;
  const own = createSelect({ url: `http://127.0.0.1:${port}`, database: 'x', name: 'test' });
  try {
    const read = own({ sql: 'SELECT 7', rows: One.rows, ...ALONE });
    await expect(read).rejects.toThrow(
      new StoreUnreachableError('ClickHouse responds with status 502'),
    );
  } finally {
    server.closeAllConnections();
    server.close();
  }
});

test('a connection that the server closed is opened again, once', async () => {
  let requests = 0;
  const server = createServer((request, response) => {
    requests += 1;
    if (requests === 2 || requests > 3) request.socket.destroy();
    else response.end('[[7]]');
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address() as AddressInfo;
  const own = createSelect({ url: `http://127.0.0.1:${port}`, database: 'x', name: 'test' });
  const read = () => own({ sql: 'SELECT 7', rows: One.rows, ...ALONE });
  try {
    expect(await read()).toEqual([{ one: 7 }]);
    expect(await read()).toEqual([{ one: 7 }]);
    expect(requests).toBe(3);
    await expect(read()).rejects.toThrow(StoreUnreachableError);
    expect(requests).toBe(5);
  } finally {
    server.closeAllConnections();
    server.close();
  }
});

test('at most 16 reads are in flight, and one that is aborted while it waits leaves the queue', async () => {
  let inFlight = 0;
  let most = 0;
  const held: (() => void)[] = [];
  const full = Promise.withResolvers<void>();
  const server = createServer((_request, response) => {
    inFlight += 1;
    most = Math.max(most, inFlight);
    held.push(() => {
      inFlight -= 1;
      response.end('[[7]]');
    });
    if (held.length === 16) full.resolve();
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address() as AddressInfo;
  const own = createSelect({ url: `http://127.0.0.1:${port}`, database: 'x', name: 'test' });
  const read = (signal: AbortSignal | null) =>
    own({ sql: 'SELECT 7', rows: One.rows, ...ALONE, signal });
  try {
    const reads = Array.from({ length: 16 }, () => read(null));
    await full.promise;
    const client = new AbortController();
    const left = read(client.signal);
    reads.push(read(null), read(null));
    client.abort(new Error('gone'));
    await expect(left).rejects.toThrow('gone');
    expect(held).toHaveLength(16);
    const all = Promise.all(reads);
    let done = false;
    all.finally(() => {
      done = true;
    });
    while (!done) {
      held.shift()?.();
      await new Promise((next) => setImmediate(next));
    }
    expect(await all).toHaveLength(18);
    expect(most).toBe(16);
  } finally {
    server.closeAllConnections();
    server.close();
  }
});

describe('a read ends', () => {
  const SLOW = 'SELECT sleepEachRow(0.02) AS one FROM numbers(500) SETTINGS max_block_size = 1';

  test('on the server, with its error, when its time is over', async () => {
    const late = selectOne(SLOW, { msMax: 700 });
    await expect(late).rejects.toMatchObject({ code: '159', type: 'TIMEOUT_EXCEEDED' });
  });

  test('here, if the server does not respond', async () => {
    const silent = selectOne('SELECT sleep(3) AS one', { msMax: 100 });
    await expect(silent).rejects.toThrow(StoreUnreachableError);
  });

  test('with its client, with the reason of the client', async () => {
    const client = new AbortController();
    const left = selectOne(SLOW, { signal: client.signal });
    setTimeout(() => client.abort(new Error('gone')), 100);
    await expect(left).rejects.toThrow('gone');
    const gone = selectOne(SLOW, { signal: client.signal });
    await expect(gone).rejects.toThrow('gone');
    expect(await selectOne('SELECT 1 AS one')).toEqual([{ one: 1 }]);
  });
});
