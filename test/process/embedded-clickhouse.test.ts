// The embedded ClickHouse through its protocol, as the other processes use it: a real child process on a
// temporary directory and a free port. Faults are real, too: kill −9, aborted requests, a second process
// on the same directory.
import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import {
  type ClickHouseClient,
  ClickHouseError,
  type ClickHouseSettings,
} from '@clickhouse/client';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { connect, refusal, send, startEngine, stopEngine, stopEngines } from '../support/stack.ts';

const SLOW =
  'SELECT count() FROM numbers(1000) WHERE sleepEachRow(0.02) = 0 SETTINGS max_block_size = 5';
/** Calls that run at once. */
const CALLS = 8;

const root = mkdtempSync(join(tmpdir(), 'embedded-clickhouse-'));
let url: string;
let client: ClickHouseClient;

beforeAll(async () => {
  // The engine's zone is not the machine's.
  process.env.TZ = 'America/New_York';
  ({ serviceUrl: url } = await startEngine(join(root, 'shared')));
  client = connect({ url, max_open_connections: 32 });
});

afterAll(async () => {
  await client.close();
  await stopEngines();
  rmSync(root, { recursive: true, force: true });
});

describe('client round trips', () => {
  test('answers ping, health checks and the identity of a server', async () => {
    expect(await client.ping()).toEqual({ success: true });
    expect(await client.ping({ select: true })).toEqual({ success: true });
    expect(await (await send(`${url}/replicas_status`)).text()).toBe('Ok.\n');
    const response = await send(`${url}/?query_id=q-7`, { method: 'POST', body: 'SELECT 1' });
    expect(await response.text()).toBe('1\n');
    expect(response.headers.get('x-clickhouse-query-id')).toBe('q-7');
    expect(response.headers.get('x-clickhouse-format')).toBe('TabSeparated');
    expect(response.headers.get('x-clickhouse-timezone')).toBe('UTC');
    expect(await rows('SELECT timezone() AS zone, toString(toDateTime(0)) AS epoch')).toEqual([
      { zone: 'UTC', epoch: '1970-01-01 00:00:00' },
    ]);
    expect(JSON.parse(response.headers.get('x-clickhouse-summary') ?? '')).toMatchObject({
      read_rows: '1',
    });
  });

  test('isolates the settings and parameters of each read', async () => {
    const threads = "SELECT toUInt32(getSetting('max_threads')) AS n, {x:UInt8} AS x";
    const ask = async (settings: ClickHouseSettings, x?: number) => {
      const query_params = x === undefined ? {} : { x };
      const given = { query: threads, query_params, clickhouse_settings: settings };
      return await (await client.query({ ...given, format: 'JSONEachRow' })).json();
    };
    const [usual] = (await ask({}, 1)) as { n: number }[];
    for (let round = 0; round < 3; round++) {
      expect(await ask({ max_threads: 7 }, 2)).toEqual([{ n: 7, x: 2 }]);
      expect(await ask({ max_threads: 9 }, 3)).toEqual([{ n: 9, x: 3 }]);
      expect(await ask({}, 4)).toEqual([{ n: usual?.n, x: 4 }]);
      await expect(ask({ max_threads: 7 })).rejects.toThrow(/Substitution `x` is not set/);
      await expect(rows("SELECT throwIf(number = 2, 'stop') FROM numbers(3)")).rejects.toThrow();
    }
  });

  test('preserves every digit and byte', async () => {
    await client.command({
      query: `CREATE TABLE exact (id UInt8, u64 UInt64, i64 Int64, u256 UInt256,
        trader_hex String EPHEMERAL, trader FixedString(20) DEFAULT unhex(trader_hex))
        ENGINE = MergeTree ORDER BY id`,
    });
    const u64 = (2n ** 64n - 1n).toString();
    const i64 = (-(2n ** 63n)).toString();
    const u256 = (2n ** 256n - 1n).toString();
    const trader = '00ff0a0d5c27'.padEnd(40, 'e9');
    const { summary } = await client.insert({
      table: 'exact',
      columns: ['id', 'u64', 'i64', 'u256', 'trader_hex'],
      values: [[1, u64, i64, u256, trader]],
      format: 'JSONCompactEachRow',
    });
    expect(summary?.written_rows).toBe('1');
    expect(
      await rows(
        'SELECT u64, i64, toString(u256) AS u256, lower(hex(trader)) AS trader FROM exact',
      ),
    ).toEqual([{ u64, i64, u256, trader }]);
  });

  test('binds any string, alone and in an array', async () => {
    const query = 'SELECT {one:String} AS one, {many:Array(String)} AS many';
    const any = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.string({
        unit: fc.constantFrom("'", '"', '\\', '\t', '\n', '\r', '\0', '`', '{', 'N', ';'),
      }),
    );
    await fc.assert(
      fc.asyncProperty(any, fc.array(any, { maxLength: 4 }), async (one, many) => {
        expect(await rows(query, { one, many })).toEqual([{ one, many }]);
      }),
      { numRuns: 100 },
    );
  });

  test('accepts parameters in a multipart body, long lists, identifiers and a database', async () => {
    const list = Array.from({ length: 5_000 }, (_, i) => `0x${i.toString(16).padStart(40, '0')}`);
    for (const use_multipart_params of [false, true]) {
      const found = await client.query({
        query: 'SELECT length({list:Array(String)}) AS n FROM system.{t:Identifier}',
        query_params: { list, t: 'one' },
        format: 'JSONEachRow',
        use_multipart_params,
      });
      expect(await found.json()).toEqual([{ n: '5000' }]);
    }
    await client.command({ query: 'CREATE DATABASE other' });
    const other = connect({ url, database: 'other' });
    const current = await other.query({ query: 'SELECT currentDatabase() AS d' });
    expect((await current.json()).data).toEqual([{ d: 'other' }]);
    await other.close();
  });

  test('inserts and streams more than the limits for memory', async () => {
    await client.command({ query: 'CREATE TABLE wide (n UInt32, s String) ORDER BY n' });
    const values = Array.from({ length: 10_000 }, (_, n) => [n, String(n).padEnd(390, 'x')]);
    await client.insert({ table: 'wide', values, format: 'JSONCompactEachRow' });
    expect(await rows('SELECT sum(n) AS n, uniqExact(s) AS s FROM wide')).toEqual([
      { n: '49995000', s: '10000' },
    ]);
    const query = 'SELECT n, repeat(s, 12) AS s FROM wide ORDER BY n';
    const stream = (await client.query({ query, format: 'JSONEachRow' })).stream<{ n: number }>();
    let next = 0;
    for await (const batch of stream) {
      for (const row of batch) expect(row.json().n).toBe(next++);
    }
    expect(next).toBe(10_000);
  });

  test('inserts rows in any format, with empty lines, and never runs them as SQL', async () => {
    await client.command({ query: 'CREATE TABLE lines (n UInt8, s String) ORDER BY n' });
    const bodies = {
      JSONEachRow: '{"n":1,"s":"a"}\n\n{"n":2,"s":"b"}\n',
      TabSeparated: '3\t\n4\t;\n5\tDROP TABLE lines;\n',
      'CSV SETTINGS': '6,"\n\nDROP TABLE lines;\n"\n',
      RowBinary: Buffer.from([7, 2, 10, 10]),
      Values: "(8, 'a''b')",
    };
    for (const [name, body] of Object.entries(bodies)) {
      const [format, settings] = name.split(' ');
      const clause = settings === undefined ? '' : 'SETTINGS max_threads = 1 ';
      const query = `INSERT INTO lines (n, s) ${clause}FORMAT ${format}`;
      const inUrl = new URLSearchParams({ query }).toString();
      const response = await send(`${url}/?${inUrl}`, { method: 'POST', body });
      expect([response.status, await response.text()]).toEqual([200, '']);
    }
    const inline = 'INSERT INTO lines FORMAT TSV\n9\t\n\n10\tx\n';
    expect((await send(url, { method: 'POST', body: inline })).status).toBe(400);
    await client.command({ query: "INSERT INTO lines VALUES (11, 'it''s')" });
    const found = await client.exec({
      query: 'SELECT groupArray(n) FROM (SELECT n FROM lines ORDER BY n)',
    });
    expect(await text(found.stream)).toBe('[1,2,3,4,5,6,7,8,11]\n');
  });

  test('compresses requests and responses', async () => {
    const gzip = connect({ url, compression: { request: true, response: true } });
    await client.command({ query: 'CREATE TABLE packed (n UInt32) ORDER BY n' });
    const values = Array.from({ length: 1_000 }, (_, n) => ({ n }));
    await gzip.insert({ table: 'packed', values, format: 'JSONEachRow' });
    const found = await gzip.query({
      query: 'SELECT n FROM packed ORDER BY n',
      format: 'JSONEachRow',
    });
    expect(found.response_headers['content-encoding']).toBe('gzip');
    expect(await found.json()).toEqual(values);
    await expect(gzip.query({ query: 'SELECT x' })).rejects.toBeInstanceOf(ClickHouseError);
    await gzip.close();
  });
});

describe('errors', () => {
  test.each([
    ['SELECT * FROM nowhere', 404, '60', 'UNKNOWN_TABLE'],
    // The client takes the first capitals in parentheses for the type.
    ['SELECT FROM WHERE', 400, '62', ''],
    ['SELECT 1; SELECT 2', 400, '62', 'SYNTAX_ERROR'],
    ['SELECT throwIf(1)', 500, '395', 'FUNCTION_THROW_IF_VALUE_IS_NON_ZERO'],
    ['SELECT throwIf(number = 2999999) FROM numbers(3000000)', 500, '395', 'FUNCTION_THROW_IF'],
  ])('of %s have a ClickHouseError and a status', async (query, status, code, type) => {
    const failed = client.query({ query });
    await expect(failed).rejects.toBeInstanceOf(ClickHouseError);
    await expect(failed).rejects.toMatchObject({ code, type: expect.stringContaining(type) });
    const response = await send(url, { method: 'POST', body: query });
    expect(response.status).toBe(status);
    expect(response.headers.get('x-clickhouse-exception-code')).toBe(code);
    expect(await response.text()).toMatch(new RegExp(`^Code: ${code}\\. DB::Exception: `));
  });

  test.each([
    ['compress=1', 501],
    ['session_id=s', 501],
    ['no_such_setting=1', 404],
    ['max_threads=many', 400],
    ['user=stranger', 403],
    ['password=guess', 403],
    [`query=${encodeURIComponent('INSERT INTO exact SELECT 1')}`, 501],
  ])('refuse the URL argument %s', async (argument, status) => {
    const response = await send(`${url}/?${argument}`, { method: 'POST', body: 'SELECT 1' });
    expect(response.status).toBe(status);
    expect(await response.text()).toMatch(/^Code: \d+\. DB::Exception: /);
  });

  test('refuse a GET that writes, a page of another site, and a body that is too large', async () => {
    const drop = encodeURIComponent('DROP TABLE exact');
    for (const more of ['', '&readonly=0', '&readonly=2']) {
      expect((await send(`${url}/?query=${drop}${more}`)).status).toBe(500);
    }
    expect((await send(url, { method: 'POST', headers: { origin: 'http://x' } })).status).toBe(403);
    const body = Buffer.alloc(33 * 2 ** 20, ' ');
    const large = await send(url, { method: 'POST', body });
    expect(large.status).toBe(413);
    expect(await rows('SELECT count() AS n FROM exact')).toEqual([{ n: '1' }]);
  });
});

describe('exactly once', () => {
  test('counts a batch once even if it is sent several times, and keeps no setting for later inserts', async () => {
    await createLedger(client);
    for (let attempt = 0; attempt < 3; attempt++) await insertBatch(client, 1);
    expect(await ledger(client)).toEqual({ source: '100', target: '100' });
    for (let n = 0; n < 2; n++) {
      const values = [[1, n]];
      await client.insert({ table: 'ledger', values, format: 'JSONCompactEachRow' });
    }
    expect(await ledger(client)).toEqual({ source: '102', target: '102' });
  });

  test('never runs a queued request whose client has disconnected', async () => {
    await client.command({ query: 'CREATE TABLE late (n UInt8) ORDER BY n' });
    const busy = Array.from({ length: CALLS }, () => abortable(SLOW));
    await until(async () => (await running(SLOW)) === CALLS);
    // Its rows are spooled, so it has been received and is waiting.
    const spooled = () => readdirSync(join(root, 'shared', 'spool')).length;
    const waiting = abortable('INSERT INTO late FORMAT CSV\n1\n');
    await until(async () => spooled() === 1);
    const behind = rows('SELECT count() AS n FROM late');
    waiting.abort();
    await waiting.ended;
    await until(async () => spooled() === 0);
    for (const one of busy) one.abort();
    await Promise.all(busy.map((one) => one.ended));
    expect(await behind).toEqual([{ n: '0' }]);
    expect(await rows('SELECT count() AS n FROM late')).toEqual([{ n: '0' }]);
  });

  test('loses no acknowledged row after kill −9, and a repeated batch fills the views', async () => {
    const directory = join(root, 'killed');
    let batch = 0;
    for (let round = 0; round < 3; round++) {
      const { child, serviceUrl: url } = await startEngine(directory);
      // `default` is empty at every start.
      await send(url, { method: 'POST', body: 'CREATE DATABASE IF NOT EXISTS own' });
      const own = connect({ url, database: 'own', keep_alive: { enabled: false } });
      if (round === 0) await createLedger(own);
      // The batch that was in progress at the kill of the last round.
      if (round > 0) await insertBatch(own, batch);
      expect(await ledger(own)).toEqual(bothOf(100 * batch));
      for (let n = 0; n < 4; n++) await insertBatch(own, ++batch);
      const unacknowledged = insertBatch(own, ++batch).catch(() => undefined);
      setTimeout(() => child.kill('SIGKILL'), 2 * round);
      await Promise.all([unacknowledged, once(child, 'exit')]);
      await own.close();
    }
    const { serviceUrl: url } = await startEngine(directory);
    const own = connect({ url, database: 'own' });
    await insertBatch(own, batch);
    expect(await ledger(own)).toEqual(bothOf(100 * batch));
    await own.close();
  });
});

describe('cancelling', () => {
  test('kills the query of an aborted request', async () => {
    const one = abortable(SLOW);
    await until(async () => (await running(SLOW)) === 1);
    one.abort();
    await one.ended;
    await until(async () => (await running(SLOW)) === 0);
  });

  test('supports KILL QUERY by the id, which is the log_comment', async () => {
    const failed = client.query({ query: SLOW, query_id: 'to-be-killed' });
    const checked = expect(failed).rejects.toMatchObject({ code: '394' });
    await until(async () => (await running(SLOW)) === 1);
    const where = "Settings['log_comment'] = 'to-be-killed'";
    await client.command({ query: `KILL QUERY WHERE ${where} ASYNC` });
    await checked;
  });

  test('runs eight calls at once', async () => {
    const calls = Array.from({ length: CALLS }, () => abortable(SLOW));
    // libuv has four threads by itself.
    await until(async () => (await running(SLOW)) === CALLS);
    for (const call of calls) call.abort();
    await Promise.all(calls.map((call) => call.ended));
    await until(async () => (await running(SLOW)) === 0);
  });
});

describe('the engine in the background', () => {
  test('refreshes views automatically, and reloads dictionaries on request', async () => {
    // chdb's own `default` database is an overlay, in which no view can be refreshable.
    await client.command({ query: 'CREATE DATABASE views' });
    const views = connect({ url, database: 'views' });
    await views.command({ query: 'CREATE TABLE tags (id UInt64, tag String) ORDER BY id' });
    await views.command({ query: 'CREATE TABLE totals (n UInt64) ORDER BY n' });
    await views.command({
      query: `CREATE MATERIALIZED VIEW totals_mv REFRESH EVERY 1 SECOND TO totals
        AS SELECT count() AS n FROM tags`,
    });
    await views.command({
      query: `CREATE DICTIONARY tag_of (id UInt64, tag String) PRIMARY KEY id
        SOURCE(CLICKHOUSE(TABLE 'tags' DB 'views')) LAYOUT(FLAT()) LIFETIME(0)`,
    });
    const tag = () => rows("SELECT dictGetOrDefault('tag_of', 'tag', 1, '-') AS tag", {}, views);
    expect(await tag()).toEqual([{ tag: '-' }]);
    await views.command({ query: "INSERT INTO tags VALUES (1, 'politics')" });
    await views.command({ query: 'SYSTEM RELOAD DICTIONARY tag_of' });
    expect(await tag()).toEqual([{ tag: 'politics' }]);
    await until(
      async () => JSON.stringify(await rows('SELECT n FROM totals', {}, views)) === '[{"n":"1"}]',
    );
    await views.close();
  });
});

describe('the process', () => {
  test('refuses a directory in use, a taken port and bad arguments in one line', async () => {
    const taken = ['--data', join(root, 'other'), '--port', new URL(url).port];
    expect(await refusal(['--data', join(root, 'shared'), '--port', '0'])).toEqual([
      1,
      expect.stringMatching(/ is in use by process \d+; stop it or choose another directory\n$/),
    ]);
    // Without cgroups, the engine complains first.
    expect(await refusal(taken)).toEqual([1, expect.stringMatching(/^Port \d+ is taken: .+\n$/m)]);
    // A pattern for the engine: rows spooled below it would be lost.
    expect(await refusal(['--data', join(root, 'a*'), '--port', '0'])).toEqual([
      1,
      expect.stringMatching(/^The path .+ must not contain .+\n$/),
    ]);
    expect(await refusal(['--port', '0'])).toEqual([1, expect.stringMatching(/^Usage: .+\n$/)]);
    expect(await rows('SELECT 1 AS n')).toEqual([{ n: 1 }]);
  });

  test.each(['SIGTERM', 'disconnect'] as const)('stops a running query on %s', async (how) => {
    const { child, serviceUrl: url } = await startEngine(join(root, how));
    const failed = send(url, { method: 'POST', body: SLOW }).then((response) => response.text());
    const checked = expect(failed).resolves.toMatch(/^Code: 394\. /);
    const own = connect({ url });
    await until(async () => (await running(SLOW, own)) === 1);
    await own.close();
    await stopEngine(child, how);
    expect(child.exitCode).toBe(0);
    await checked;
  });
});

async function rows(query: string, query_params = {}, from = client): Promise<unknown[]> {
  return (await from.query({ query, query_params, format: 'JSONEachRow' })).json();
}

async function running(query: string, from = client): Promise<number> {
  // KILL's slot is free when all others are taken; a SELECT would wait behind them.
  const found = await from.query({
    query: `KILL QUERY WHERE startsWith(query, {query:String}) TEST`,
    query_params: { query },
    format: 'JSONEachRow',
  });
  return (await found.json()).length;
}

function abortable(query: string): {
  readonly abort: () => void;
  readonly ended: Promise<unknown>;
} {
  const controller = new AbortController();
  const { signal } = controller;
  const ended = send(url, { method: 'POST', body: query, signal }).catch(() => undefined);
  return { abort: () => controller.abort(), ended };
}

async function until(holds: () => Promise<boolean>): Promise<void> {
  while (!(await holds())) await new Promise((resolve) => setTimeout(resolve, 20));
}

async function createLedger(on: ClickHouseClient): Promise<void> {
  const engine = 'ORDER BY batch SETTINGS non_replicated_deduplication_window = 100';
  await on.command({ query: `CREATE TABLE ledger (batch UInt32, n UInt32) ${engine}` });
  await on.command({
    query: `CREATE TABLE ledger_counts (batch UInt32, n UInt64)
      ENGINE = SummingMergeTree ${engine}`,
  });
  await on.command({
    query: `CREATE MATERIALIZED VIEW ledger_counts_mv TO ledger_counts
      AS SELECT batch, count() AS n FROM ledger GROUP BY batch`,
  });
}

async function insertBatch(on: ClickHouseClient, batch: number): Promise<void> {
  await on.insert({
    table: 'ledger',
    columns: ['batch', 'n'],
    values: Array.from({ length: 100 }, (_, n) => [batch, n]),
    format: 'JSONCompactEachRow',
    clickhouse_settings: { insert_deduplication_token: `batch-${batch}` },
  });
}

async function ledger(on: ClickHouseClient): Promise<unknown> {
  const query =
    'SELECT (SELECT count() FROM ledger) AS source, (SELECT sum(n) FROM ledger_counts) AS target';
  return (await rows(query, {}, on))[0];
}

function bothOf(count: number): { readonly source: string; readonly target: string } {
  return { source: String(count), target: String(count) };
}
