// Statements that an analyst may run, and those that are rejected: writes, files, other servers, other settings, and
// attempts to hide one of these. No nesting, spelling or interface lets an analyst read a file, a setting of the server, or
// another host. Forbidden sources are put into every kind of nesting. Allowed ones must run in the same nestings, which
// proves that the nestings themselves are valid. Searches for a secret in each response and on disk, before and after the
// service has opened the file.
import { once } from 'node:events';
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { createServer, get } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { CLOSED_FUNCTIONS, FUNCTIONS } from '../../infra/analyst/functions.ts';
import {
  forbiddenSources,
  HARMLESS,
  NESTINGS,
  SETTINGS,
  STATEMENTS,
} from '../support/forbidden-sql.ts';
import { generator, isLong, SEED } from '../support/seed.ts';
import { connect, send, startEngine, stopEngines } from '../support/stack.ts';

const SECRET = 'sesame-7f3a';
const ROUNDS = isLong ? 1_000 : 100;
/** With all statements and a thousand rounds, half a minute on a quiet host. */
const TIMEOUT = isLong ? 600_000 : 60_000;
/** Statements for each forbidden source in a short run. */
const SAMPLE = 4;

const root = mkdtempSync(join(tmpdir(), 'analyst-guard-'));
const file = join(root, 'open', 'secret.csv');
const visitors: string[] = [];
const host = createServer((request, response) => {
  visitors.push(request.url ?? '');
  response.end(`${SECRET}\n`);
});
let url: string;
let serviceUrl: string;

beforeAll(async () => {
  mkdirSync(join(root, 'open'));
  writeFileSync(file, `${SECRET},1\n`);
  host.listen(0, '127.0.0.1');
  await once(host, 'listening');
  ({ url, serviceUrl } = await startEngine(join(root, 'data')));
  await asService('CREATE DATABASE fillstream');
  await asService('CREATE TABLE fillstream.fills (a String, b UInt8) ORDER BY a');
  await asService("INSERT INTO fillstream.fills VALUES ('x', 1)");
});

afterAll(async () => {
  await stopEngines();
  host.close();
  rmSync(root, { recursive: true, force: true });
});

async function asService(statement: string): Promise<string> {
  const response = await send(serviceUrl, { method: 'POST', body: statement });
  const text = await response.text();
  if (!response.ok) throw new Error(text);
  return text;
}

async function ask(statement: string, search = ''): Promise<{ ok: boolean; text: string }> {
  const response = await fetch(`${url}/?${search}`, { method: 'POST', body: statement });
  return { ok: response.ok, text: await response.text() };
}

/** Forbidden sources of rows. */
function forbidden(): string[] {
  return forbiddenSources({ file, root, port: (host.address() as AddressInfo).port });
}

const random = generator(SEED);
const roll = (below: number) => Math.floor(random() * below);

function sample<T>(list: readonly T[]): T[] {
  return Array.from({ length: SAMPLE }, () => list[roll(list.length)] as T);
}

/** Variants with comments and in other letter case that mean the same. */
function disguise(statement: string): string {
  const keywords = /\b(SELECT|FROM|WITH|AS|SETTINGS|WHERE|IN|UNION|ALL|DESCRIBE)\b/g;
  return statement.replaceAll(keywords, (word) => {
    const cased = roll(2) === 0 ? word : word.toLowerCase();
    return [cased, `/* ; */ ${cased}`, `${cased} -- '\n`, `${cased}\t`][roll(4)] ?? cased;
  });
}

function expectNothingLeaked({ ok, text }: { ok: boolean; text: string }, statement: string) {
  // It only parses and reads nothing, so it may name a table that does not exist.
  if (!/EXPLAIN AST/i.test(statement)) {
    expect(ok, statement).toBe(false);
    expect(text, statement).toMatch(/^Code: \d+\. DB::Exception: /);
  }
  expect(text, statement).not.toContain(SECRET);
  expect(text.replaceAll(statement, ''), statement).not.toContain(join(root, 'data'));
}

function expectNothingElse() {
  expect(visitors).toEqual([]);
  expect(readdirSync(root).sort()).toEqual(['data', 'open']);
  expect(readdirSync(join(root, 'open'))).toEqual(['secret.csv']);
}

/** No table or database was created or dropped, and nothing was written. */
async function expectUnchanged() {
  expect(await asService('SELECT * FROM fillstream.fills')).toBe('x\t1\n');
  expect((await asService('SHOW DATABASES')).split('\n')).not.toContain('x');
  expectNothingElse();
}

test.each([
  'SELECT count() > 0 FROM fillstream.fills',
  '-- a question\nWITH 1 AS one SELECT one = 1',
  'EXISTS TABLE fillstream.fills',
  "SELECT {word:String} = concat('fi', 'le')",
  "SELECT 'a file \\\\ of url(1)' != '' AS `it's` -- file('x')",
  'SELECT $$no file$$ != $$$$',
])('may run: %s', async (query) => {
  expect(await ask(query, 'param_word=file')).toEqual({
    ok: true,
    text: expect.stringMatching(/^(1|true)\n$/),
  });
});

test('may name itself, with an empty password', async () => {
  const basic = connect({ url, username: 'analyst', password: '' });
  expect((await basic.query({ query: 'SHOW TABLES' })).query_id).toBeTruthy();
  await basic.close();
});

test.each([
  ["INSERT INTO fillstream.fills VALUES ('y', 9)", 'readonly mode'],
  ['INSERT INTO fillstream.fills FORMAT CSV\ny,9', ''],
  ['CREATE TABLE x (n UInt8) ORDER BY n', 'readonly mode'],
  ['CREATE OR REPLACE VIEW fillstream.fills AS SELECT 1', 'readonly mode'],
  ['DROP TABLE fillstream.fills', 'readonly mode'],
  ['KILL QUERY WHERE 1', ''],
  ['SYSTEM RELOAD DICTIONARIES', ''],
  ['SET readonly = 0', ''],
  ['SELECT 1; DROP TABLE fillstream.fills', ''],
  ['SELECT 1 SETTINGS max_memory_usage = 0', 'readonly mode'],
  [`SELECT * FROM fillstream.fills INTO OUTFILE '${join(root, 'leak')}'`, ''],
  [`SELECT * FROM file('${file}', 'LineAsString')`, 'the function file is not open to analysts'],
  ["SELECT * FROM url('http://127.0.0.1:1/', 'CSV', 'a String')", 'the function url'],
  [`SELECT arrayMap({file:Identifier}, ['${file}'])`, ''],
  [`SELECT 'it\\'s', file('${file}') --'`, ''],
  [`/**/ DESCRIBE file('${file}')`, ''],
  [`EXPLAIN DESCRIBE file('${file}')`, ''],
  [`EXPLAIN TABLE OVERRIDE file('${file}') COLUMNS (a Int8)`, ''],
  ["SELECT hasColumnInTable('127.0.0.1:1', 'fillstream', 'fills', 'a')", ''],
  ["SELECT reverseDNSQuery('127.0.0.1')", ''],
  ['SELECT number FROM numbers(1000001)', 'TOO_MANY_ROWS_OR_BYTES'],
  ['SELECT length(groupArray(number)) FROM numbers(1000000000)', 'MEMORY_LIMIT_EXCEEDED'],
  ['SELECT 1 FROM', ''],
])('may not: %s', async (query, words) => {
  const answer = await ask(query, 'param_file=file');
  expectNothingLeaked(answer, query);
  expect(answer.text).toContain(words);
  await expectUnchanged();
});

test('may not run forever', async () => {
  const forever = 'SELECT sum(cityHash64(number)) FROM numbers(1000000000000)';
  expect((await ask(forever, 'max_execution_time=1')).text).toContain('TIMEOUT_EXCEEDED');
});

test.each(['?', '?user=default', '?user=analyst', '?readonly=0', '?readonly=2', '?password='])(
  'a GET of %s cannot write',
  async (search) => {
    for (const query of ['CREATE DATABASE x', 'DROP TABLE fillstream.fills']) {
      const get = await fetch(`${url}/${search}&query=${encodeURIComponent(query)}`);
      expect(get.status).toBeGreaterThanOrEqual(400);
      expect((await ask(query, search.slice(1))).ok).toBe(false);
    }
    await expectUnchanged();
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

test.each(
  STATEMENTS.flatMap(([name, nest], i) => {
    const sources = isLong ? HARMLESS : HARMLESS.slice(i % 3, (i % 3) + 1);
    return sources.map((rows) => [name, rows, nest] as const);
  }),
)('a harmless %s of %s runs in every nesting', async (_, rows, nest) => {
  for (const [name, wrap] of NESTINGS) {
    expect({ name, ...(await ask(nest(wrap(rows)))) }).toMatchObject({ name, ok: true });
  }
});

describe.each(['before', 'after'])('%s the service has read the file', (when) => {
  beforeAll(async () => {
    if (when === 'before') return;
    expect(await asService(`SELECT a FROM file('${file}', CSV, 'a String, b UInt8')`)).toContain(
      SECRET,
    );
    await asService(`SELECT * FROM default.\`${file}\``).catch(() => undefined);
  });

  test('no statement and no nesting of a closed source leaks', { timeout: TIMEOUT }, async () => {
    for (const rows of forbidden()) {
      const statements = [
        ...STATEMENTS.map(([, nest]) => nest(rows)),
        ...[...NESTINGS, ...SETTINGS].map(([, nest]) => `SELECT * FROM ${nest(rows)}`),
      ];
      for (const statement of isLong ? statements : sample(statements)) {
        expectNothingLeaked(await ask(statement), statement);
      }
    }
    expectNothingElse();
  });

  test(`random nestings and spellings leak nothing (TEST_SEED=${SEED})`, {
    timeout: TIMEOUT,
  }, async () => {
    const pick = <T>(list: readonly T[]): T => list[roll(list.length)] as T;
    for (let round = 0; round < ROUNDS; round++) {
      let rows = roll(4) === 0 ? pick(SETTINGS)[1](pick(HARMLESS)) : pick(forbidden());
      for (let depth = roll(4); depth >= 0; depth--) rows = pick(NESTINGS)[1](rows);
      const statement = disguise(pick(STATEMENTS)[1](rows));
      const search = pick([
        '',
        'user=default',
        'user=analyst',
        'database=fillstream',
        'database=analyst',
      ]);
      expectNothingLeaked(await ask(statement, search), statement);
    }
    expectNothingElse();
  });

  test('the database default has no tables', async () => {
    expect(await asService('SHOW TABLES FROM default')).toBe('');
  });
});

test.each([
  'database=system',
  'database=/etc',
  `database=${encodeURIComponent(root)}`,
  'readonly=0',
  'format_template_row=x',
  'dialect=kusto',
  'user=service',
  'user=service&password=',
])('refuses the parameters %s', async (search) => {
  expect((await ask('SELECT 1', search)).ok).toBe(false);
});

test.each([
  ['an Identifier', '{p:Identifier}', 'system.disks'],
  ['an escaped Identifier', '{p:Identifier}', '`x`'],
  ['a line break', '{p:Identifier}', 'a\\n Identifier b'],
])('refuses a parameter that becomes a name: %s', async (_, name, value) => {
  const search = `param_p=${encodeURIComponent(value)}`;
  for (const statement of [`SELECT * FROM ${name}`, `SELECT ${name}`, `SELECT 1 IN ${name}`]) {
    expectNothingLeaked(await ask(statement, search), statement);
  }
});

test('does not reveal where the data is', async () => {
  for (const statement of [
    'SELECT * FROM system.tables',
    'SELECT * FROM system.databases',
    'SELECT * FROM system.settings',
    'SHOW CREATE TABLE fillstream.fills',
    'SELECT * FROM fillstream.nothing',
    'SELECT * FROM default.nothing',
  ]) {
    expect((await ask(statement)).text).not.toContain(root);
  }
});

test('every function of the engine is either open or closed', async () => {
  const names = (await asService('SELECT DISTINCT lower(name) FROM system.functions')).split('\n');
  const unknown = names.filter(
    (name) => name && !FUNCTIONS.has(name) && !CLOSED_FUNCTIONS.has(name),
  );
  expect(unknown).toEqual([]);
  expect([...FUNCTIONS].filter((name) => CLOSED_FUNCTIONS.has(name))).toEqual([]);
});
