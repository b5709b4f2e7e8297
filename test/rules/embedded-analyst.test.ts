// What the analyst of the embedded ClickHouse may run, and what is refused: writes, files, other servers,
// other settings, and attempts to hide one of these in the text.
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { get } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ClickHouseClient } from '@clickhouse/client';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { connect, start, stopAll } from '../support/embedded-harness.ts';

const root = mkdtempSync(join(tmpdir(), 'embedded-analyst-'));
const secret = join(root, 'secret.csv');
let url: string;
let serviceUrl: string;
let client: ClickHouseClient;

beforeAll(async () => {
  writeFileSync(secret, 'top,secret\n1,2\n');
  ({ url, serviceUrl } = await start(join(root, 'data')));
  client = connect({ url: serviceUrl });
  await client.command({ query: 'CREATE TABLE exact (id UInt8) ORDER BY id' });
  await client.command({ query: 'INSERT INTO exact VALUES (1)' });
});

afterAll(async () => {
  await client?.close();
  await stopAll();
  rmSync(root, { recursive: true, force: true });
});

async function count(): Promise<unknown> {
  const query = 'SELECT count() AS n FROM exact';
  return (await client.query({ query, format: 'JSONEachRow' })).json();
}

/** As whoever knows no password: at the URL that `npm start` prints. */
const ask = async (query: string, more = '') => {
  const response = await fetch(`${url}/?${more}`, { method: 'POST', body: query });
  return { status: response.status, text: await response.text() };
};

test.each([
  'SELECT count() > 0 FROM exact',
  '-- a question\nWITH 1 AS one SELECT one = 1',
  'EXISTS TABLE exact',
  "SELECT {word:String} = concat('fi', 'le')",
  "SELECT 'a file \\\\ of url(1)' != '' AS `it's` -- file('x')",
  'SELECT $$no file$$ != $$$$',
  "SELECT count() > 0 FROM values('a Int8', 1)",
])('may run: %s', async (query) => {
  expect(await ask(query, 'param_word=file')).toEqual({
    status: 200,
    text: expect.stringMatching(/^(1|true)\n$/),
  });
  const basic = connect({ url, username: 'analyst', password: '' });
  expect(
    (await basic.query({ query: 'SHOW TABLES', format: 'JSONEachRow' })).query_id,
  ).toBeTruthy();
  await basic.close();
});

test.each([
  'INSERT INTO exact (id) VALUES (9)',
  'INSERT INTO exact (id) FORMAT CSV\n9',
  'CREATE TABLE x (n UInt8) ORDER BY n',
  'DROP TABLE exact',
  'KILL QUERY WHERE 1',
  'SYSTEM RELOAD DICTIONARIES',
  'SET readonly = 0',
  'SELECT 1; DROP TABLE exact',
  'SELECT 1 SETTINGS readonly = 0',
  'SELECT 1 SETTINGS max_memory_usage = 0',
  `SELECT * FROM exact INTO OUTFILE '${join(root, 'leak')}'`,
  `SELECT * FROM file('${secret}')`,
  `SELECT file('${secret}')`,
  `SELECT \`f\\x69le\`('${secret}')`,
  `SELECT * APPLY file FROM (SELECT '${secret}')`,
  `SELECT arrayMap(file, ['${secret}'])`,
  `SELECT arrayMap({file:Identifier}, ['${secret}'])`,
  `SELECT * FROM eval('SELECT file(\\'${secret}\\')')`,
  `SELECT 'it\\'s', file('${secret}') --'`,
  `SELECT * FROM \`${secret}\``,
  `DESCRIBE file('${secret}')`,
  `DESCRIBE \`${secret}\``,
  `/**/ DESCRIBE file('${secret}')`,
  `EXPLAIN DESCRIBE file('${secret}')`,
  `EXPLAIN TABLE OVERRIDE file('${secret}') COLUMNS (a Int8)`,
  "SELECT * FROM url('http://127.0.0.1:1/', CSV)",
  "DESC url('http://127.0.0.1:1/x.csv')",
  "DESCRIBE s3('http://127.0.0.1:1/bucket/x.csv')",
  "SELECT * FROM remote('127.0.0.1', system.one)",
  "SELECT * FROM executable('true', CSV, 'a Int8')",
  `SELECT * FROM sqlite('${join(root, 'leak')}', 't')`,
  "SELECT hasColumnInTable('127.0.0.1:1', 'default', 'exact', 'id')",
  "SELECT catboostEvaluate('/model', 1)",
  "SELECT reverseDNSQuery('127.0.0.1')",
  'SELECT * FROM numbers(2000000)',
  'SELECT 1 FROM',
])('may not: %s', async (query) => {
  const { status, text } = await ask(query, 'param_file=file');
  expect(status).toBeGreaterThanOrEqual(400);
  expect(text).toMatch(/^Code: \d+\. DB::Exception: /);
  expect(text).not.toContain('top,');
  expect(existsSync(join(root, 'leak'))).toBe(false);
  expect(await count()).toEqual([{ n: '1' }]);
});

test.each(['?', '?user=default', '?user=analyst', '?readonly=0', '?readonly=2', '?password='])(
  'nobody writes with a GET of %s',
  async (search) => {
    for (const query of ['CREATE DATABASE x', 'DROP TABLE exact']) {
      const get = await fetch(`${url}/${search}&query=${encodeURIComponent(query)}`);
      expect(get.status).toBeGreaterThanOrEqual(400);
      expect((await ask(query, search.slice(1))).status).toBeGreaterThanOrEqual(400);
    }
    const databases = await client.query({ query: 'SHOW DATABASES', format: 'JSONEachRow' });
    expect(await databases.json()).not.toContainEqual({ name: 'x' });
    expect(await count()).toEqual([{ n: '1' }]);
  },
);

test('the password is random, of this directory, and for its owner only', async () => {
  const file = join(root, 'data', 'password');
  expect(statSync(file).mode & 0o777).toBe(0o600);
  expect(readFileSync(file, 'utf8')).toMatch(/^[0-9a-f]{64}$/);
  for (const password of ['', 'wrong', readFileSync(file, 'utf8').slice(1)]) {
    const headers = { 'X-ClickHouse-User': 'service', 'X-ClickHouse-Key': password };
    expect((await fetch(`${url}/?query=SELECT+1`, { headers })).status).toBe(403);
  }
});

test.each([
  ['a page of another site', { Origin: 'https://evil.example' }],
  ['a page without an origin', { Origin: 'null' }],
  ['an image or script of a page', { 'Sec-Fetch-Site': 'cross-site' }],
  ['another port of this machine', { 'Sec-Fetch-Site': 'same-site' }],
  ['a name that was rebound to loopback', { Host: 'evil.example:8123' }],
  ['a name that begins like loopback', { Host: '127.0.0.1.evil.example' }],
])('refuses %s, also with the password', async (_, headers) => {
  const { username, password } = new URL(serviceUrl);
  for (const credentials of [{}, { Authorization: `Basic ${btoa(`${username}:${password}`)}` }]) {
    const options = { headers: { ...headers, ...credentials } };
    const [response] = await once(get(`${url}/?query=SELECT+1`, options), 'response');
    expect(response.statusCode).toBe(403);
    response.resume();
  }
});

test.each(['readonly=0', 'max_memory_usage=0', 'max_execution_time=0', 'max_execution_time=99'])(
  'may not set %s',
  async (setting) => {
    expect((await ask('SELECT 1', setting)).text).toMatch(/^Code: 164\. /);
    expect((await ask('SELECT 1', 'max_execution_time=5')).text).toBe('1\n');
  },
);
