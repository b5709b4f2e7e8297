/** The tools for language models, called by the official MCP client over HTTP and stdio. */
import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { addressOf, conditionOf } from '../support/api-bookings.ts';
import {
  board,
  expectedMarket,
  expectedMarketV2,
  expectedTrader,
  NOW,
  rows,
} from '../support/api-expected.ts';
import { get, issueKey, startApi } from '../support/api-harness.ts';
import { startSeeded } from '../support/api-seeded.ts';
import { hashes, matches, publish, publishFinal } from '../support/feed-harness.ts';
import { forFile } from '../support/for-file.ts';
import { forbiddenSources, NESTINGS, SETTINGS } from '../support/forbidden-sql.ts';
import { serve } from '../support/http-server.ts';
import { isLong } from '../support/seed.ts';
import { until } from '../support/service.ts';
import { address as matchAddress } from '../unit/feed-matches.ts';

const CLI = join(import.meta.dirname, '../../apps/cli/main.ts');
const TRADER = addressOf(3);
const OTHER = addressOf(6);
const MARKET = '1002';
/** Of the feed. */
const MATCHED = matchAddress(2);
const PATH = `/v2/markets/${MARKET}`;

/** A tool call with the path whose response it must have; `query` is compared with a separate sum. */
const QUESTIONS: readonly (readonly [tool: string, given: object, path: string])[] = [
  ['leaderboard', {}, '/v2/analytics/leaderboard?time_frame=7D&limit=10'],
  [
    'leaderboard',
    { sort_by: 'roi', limit: 3 },
    '/v2/analytics/leaderboard?time_frame=7D&sort_by=roi&limit=3',
  ],
  [
    'leaderboard',
    { time_frame: '30D', order: 'asc' },
    '/v2/analytics/leaderboard?time_frame=30D&order=asc&limit=10',
  ],
  [
    'leaderboard',
    { tag: 'crypto', min_market_count: 2 },
    '/v2/analytics/leaderboard?time_frame=7D&tag=crypto&min_market_count=2&limit=10',
  ],
  ['trader', { address: TRADER }, `/v2/traders/${TRADER}`],
  ['positions', { address: TRADER }, `/v2/traders/${TRADER}/positions?limit=10`],
  [
    'positions',
    { address: OTHER, status: 'all', sort_by: 'pnl', limit: 2 },
    `/v2/traders/${OTHER}/positions?status=all&sort_by=pnl&limit=2`,
  ],
  ['trades', { address: TRADER }, `/v2/traders/${TRADER}/trades?limit=20`],
  [
    'trades',
    { address: TRADER, side: 'BUY', market: MARKET, limit: 5 },
    `/v2/traders/${TRADER}/trades?side=BUY&market=${MARKET}&limit=5`,
  ],
  ['search', { q: 'question' }, '/v2/search?q=question&limit=5'],
  ['search', { q: TRADER }, `/v2/search?q=${TRADER}&limit=5`],
  ['markets', {}, '/v2/markets?limit=10'],
  [
    'markets',
    { status: 'resolved', sort_by: 'traders' },
    '/v2/markets?status=resolved&sort_by=traders&limit=10',
  ],
  ['market', { market: MARKET }, PATH],
  ['market', { market: `0x${conditionOf(2)}` }, `/v2/markets/0x${conditionOf(2)}`],
  ['candles', { market: MARKET }, `${PATH}/candles?interval=1d`],
  ['market_trades', { market: MARKET }, `${PATH}/trades?limit=20`],
  ['recent_matches', {}, '/v2/recent_matches?limit=20'],
  [
    'recent_matches',
    { from: '2020-01-01', traders: [MATCHED, OTHER], min_usdc: 1.5, finality: true, limit: 2 },
    `/v2/recent_matches?from=2020-01-01&traders=${MATCHED},${OTHER}&min_usdc=1.5&finality=true&limit=2`,
  ],
  ['holders', { market: MARKET }, `${PATH}/holders?limit=10`],
  ['holders', { market: MARKET, outcome: '1', limit: 3 }, `${PATH}/holders?outcome=1&limit=3`],
  ['status', {}, '/v2/status'],
];

/** Arguments as models and other languages write them, with the usual ones, which must have the same result. */
const SPELLINGS: readonly (readonly [tool: string, given: object, usual: object])[] = [
  ['leaderboard', { limit: '3', min_pnl: '-5' }, { limit: 3, min_pnl: -5 }],
  ['leaderboard', { limit: null, tag: '', market: null, order: null }, {}],
  ['leaderboard', { market: Number(MARKET) }, { market: MARKET }],
  ['trades', { address: TRADER, min_usdc: '1.5', cursor: '' }, { address: TRADER, min_usdc: 1.5 }],
  [
    'trades',
    { address: TRADER, from: 1_577_836_800 },
    { address: TRADER, from: '2020-01-01T00:00:00Z' },
  ],
  ['compare_traders', { addresses: TRADER }, { addresses: [TRADER] }],
  ['search', { q: 2026 }, { q: '2026' }],
  ['market', { market: Number(MARKET) }, { market: MARKET }],
  ['holders', { market: MARKET, outcome: 1 }, { market: MARKET, outcome: '1' }],
  [
    'recent_matches',
    { from: '2020-01-01', traders: MATCHED, tags: null, finality: 'True', limit: '2' },
    { from: '2020-01-01', traders: [MATCHED], finality: true, limit: 2 },
  ],
  ['recent_matches', { markets: [Number(MARKET)], finality: 0 }, { markets: [MARKET] }],
];

const seeded = forFile(startSeeded);
let api: Awaited<ReturnType<typeof startApi>>;
let analystUrl: string;

beforeAll(async () => {
  analystUrl = `http://${new URL(seeded.clickhouse.url).host}`;
  const { nats, clickhouse } = seeded;
  await publish(nats.nats, 'FEED', matches(1, 3));
  await publishFinal(nats.nats, 'FEED', matches(2, 2));
  api = await startApi({
    ...{ nats, clickhouseUrl: clickhouse.url, analystUrl, now: () => NOW * 1000 },
  });
});

afterAll(async () => {
  await api?.stop();
});

async function overHttp(key: string, url = api.url) {
  const client = new Client({ name: 'test', version: '1.0.0' });
  const requestInit = { headers: { Authorization: `Bearer ${key}` } };
  // The SDK declares optional members without `undefined`.
  const transport = new StreamableHTTPClientTransport(new URL(`${url}/mcp`), { requestInit });
  await client.connect(transport as Parameters<Client['connect']>[0]);
  return client;
}

async function overStdio() {
  const client = new Client({ name: 'test', version: '1.0.0' });
  const env = { FILLSTREAM_URL: api.url, FILLSTREAM_KEY: seeded.key };
  const args = [CLI, 'mcp'];
  await client.connect(new StdioClientTransport({ command: process.execPath, args, env }));
  return client;
}

async function ask(client: Client, name: string, given: object) {
  const result = await client.callTool({ name, arguments: { ...given } });
  const [content] = result.content as readonly { readonly text: string }[];
  return {
    isError: result.isError ?? false,
    text: content?.text ?? '',
    // biome-ignore lint/suspicious/noExplicitAny: each tool answers something else.
    answer: result.structuredContent as any,
  };
}

/** Without what changes between two requests. */
function lasting(answer: object) {
  return JSON.parse(
    JSON.stringify(answer, (name, value) =>
      /^(age_\w+|\w+_age|\w+_seconds|now)$/.test(name) ? undefined : value,
    ),
  );
}

const WAYS: [string, () => Promise<Client>][] = [['HTTP', () => overHttp(seeded.key)]];
// The same server behind another transport.
if (isLong) WAYS.push(['stdio', overStdio]);

describe.each(WAYS)('over %s', (_, connect) => {
  let client: Client;
  beforeAll(async () => {
    client = await connect();
  });
  afterAll(() => client?.close());

  test('every tool has a title, a description, schemas and annotations', async () => {
    const { tools } = await client.listTools();
    expect(new Set(tools.map(({ name }) => name))).toEqual(
      new Set([...QUESTIONS.map(([name]) => name), 'compare_traders', 'query']),
    );
    for (const tool of tools) {
      expect(tool.title, tool.name).toBeTruthy();
      expect(tool.description, tool.name).toBeTruthy();
      expect(tool.inputSchema.type, tool.name).toBe('object');
      expect(tool.outputSchema?.type, tool.name).toBe('object');
      expect(tool.annotations).toMatchObject({ title: tool.title, readOnlyHint: true });
      expect(tool.annotations).toMatchObject({ openWorldHint: false });
    }
  });

  test('input schemas are draft 2020-12 and have the plain type of each argument', async () => {
    const { tools } = await client.listTools();
    for (const { name, inputSchema, outputSchema } of tools) {
      const $schema = 'https://json-schema.org/draft/2020-12/schema';
      expect([inputSchema, outputSchema], name).toMatchObject([{ $schema }, { $schema }]);
      const isValid = new Ajv2020({ strict: false }).compile(inputSchema);
      const [, given = {}] = QUESTIONS.find(([tool]) => tool === name) ?? [];
      if (name !== 'query' && name !== 'compare_traders') expect(isValid(given), name).toBe(true);
      expect(isValid({ ...given, no_such_argument: 1 }), name).toBe(false);
    }
    const { properties, required } = tools.find(({ name }) => name === 'trades')?.inputSchema ?? {};
    expect(required).toEqual(['address']);
    expect(properties).toMatchObject({
      address: { type: 'string', description: expect.stringContaining('wallet address') },
      limit: { type: 'integer', default: 20 },
    });
  });

  test('an unknown argument is refused, and the error names it', async () => {
    const { tools } = await client.listTools();
    for (const { name } of tools) {
      const [, given = {}] = QUESTIONS.find(([tool]) => tool === name) ?? [];
      const { isError, text } = await ask(client, name, { ...given, min_size: 5 });
      expect([isError, text], name).toEqual([true, expect.stringContaining('"min_size"')]);
    }
  });

  test.each(SPELLINGS)('%s of %j is accepted', async (name, given, usual) => {
    const { isError, text, answer } = await ask(client, name, given);
    expect(isError, text).toBe(false);
    expect(lasting(answer)).toEqual(lasting((await ask(client, name, usual)).answer));
  });

  test.each([
    ['leaderboard', { limit: '3.5' }],
    ['leaderboard', { limit: 'many' }],
    ['leaderboard', { limit: '0x10' }],
    ['leaderboard', { limit: [3] }],
    ['leaderboard', { order: 'up' }],
    ['recent_matches', { finality: 'maybe' }],
    ['recent_matches', { finality: 2 }],
    ['trader', { address: null }],
    ['trader', {}],
    // JSON has lost digits of this number.
    ['market', { market: 2 ** 60 }],
  ])('%s of %j is refused', async (name, given) => {
    const { isError, text } = await ask(client, name, given);
    expect([isError, text]).toEqual([true, expect.stringContaining('Invalid arguments')]);
  });

  test.each(QUESTIONS)('%s of %j has the figures of the API', async (name, given, path) => {
    const { isError, text, answer } = await ask(client, name, given);
    expect(isError, text).toBe(false);
    expect(JSON.parse(text)).toEqual(answer);
    expect(lasting(answer)).toEqual(lasting((await get(api.url + path, seeded.key)).body));
  });

  test('the figures are the sums of the bookings', async () => {
    const { answer: leaders } = await ask(client, 'leaderboard', { limit: 5 });
    const pnls = leaders.traders.map((one: { total_pnl: number }) => one.total_pnl);
    expect(pnls).toEqual(
      board('7D', 'all', 'pnl')
        .slice(0, 5)
        .map(({ pnl }) => Number(pnl)),
    );
    const { answer: trader } = await ask(client, 'trader', { address: TRADER });
    expect(trader).toMatchObject({ pusd_balance: expectedTrader(3).pusd_balance });
    expect(trader.top_tags).toEqual(expectedTrader(3).top_tags);
    const { answer: market } = await ask(client, 'market', { market: expectedMarket(5).market.id });
    expect(market.total_volume).toBe(expectedMarketV2(5).total_volume);
    const compared = await ask(client, 'compare_traders', { addresses: [TRADER, OTHER] });
    expect(compared.answer.traders).toHaveLength(2);
    expect(compared.answer.traders[0].pusd_balance).toBe(expectedTrader(3).pusd_balance);
    const sql = "SELECT count() FROM fillstream.bookings WHERE kind = 'fill'";
    const { answer: counted, text } = await ask(client, 'query', { sql });
    expect(counted, text).toBeDefined();
    expect(Number(counted.rows[0][0])).toBe(rows.filter(({ kind }) => kind === 'fill').length);
  });

  test('recent matches continue after their cursor, over the whole feed', async () => {
    const hashesOf = ({ answer }: { answer: { events: { data: { tx_hash: string } }[] } }) =>
      answer.events.map(({ data }) => data.tx_hash);
    const first = await ask(client, 'recent_matches', { from: '2020-01-01', limit: 2 });
    expect(hashesOf(first)).toEqual(hashes(1, 2));
    expect(first.answer).toMatchObject({ more: true, gap: true });
    const rest = await ask(client, 'recent_matches', { from: first.answer.cursor });
    expect(hashesOf(rest)).toEqual(hashes(3, 3));
    expect(rest.answer).toMatchObject({ more: false, gap: false });
  });

  test('refusals of the API or for the analyst are errors of the tool', async () => {
    const unknown = await ask(client, 'market', { market: 'no-such-market' });
    expect(unknown).toMatchObject({ isError: true, answer: undefined });
    expect(unknown.text).toMatch(/^not_found: /);
    expect(await ask(client, 'trader', { address: 'nobody' })).toMatchObject({ isError: true });
    const written = await ask(client, 'query', { sql: 'DROP TABLE fillstream.bookings' });
    expect(written).toMatchObject({ isError: true });
    expect(written.text).toContain('DropQuery is not allowed');
    const secret = "SELECT * FROM (SELECT file('/etc/passwd') SETTINGS readonly = 0)";
    const file = await ask(client, 'query', { sql: secret });
    expect(file).toMatchObject({ isError: true, text: expect.stringContaining('not open') });
    for (const format of ['CSV', 'TSVRaw', 'JSONCompact', 'JSON;', 'Null', 'Pretty']) {
      const formatted = await ask(client, 'query', { sql: `SELECT 1 FORMAT ${format}` });
      expect(formatted, format).toMatchObject({ isError: true });
      expect(formatted.text, format).toMatch(/^leave out FORMAT/);
    }
    for (const sql of [
      'SELECT number FROM numbers(501)',
      'SELECT repeat(repeat(char(0), 1000000), 40)',
      // Each of these bytes is six in JSON.
      'SELECT repeat(char(0), 900000)',
    ]) {
      const large = await ask(client, 'query', { sql });
      expect(large).toMatchObject({ isError: true, text: expect.stringMatching(/use LIMIT/) });
    }
  });
});

test('a key is needed, in either header', async () => {
  await expect(overHttp('fs_pro_wrong')).rejects.toThrow(/401|unauthorized/i);
  const url = `${api.url}/mcp`;
  expect((await get(url, undefined, { method: 'POST' })).status).toBe(401);
  expect((await get(url, seeded.key)).status).toBe(405);
});

test.each(['', '*/*', 'application/json', 'text/event-stream', 'text/html,application/xhtml+xml'])(
  'a request with Accept: %s is answered with JSON',
  async (Accept) => {
    const { status, body, headers } = await get(`${api.url}/mcp`, seeded.key, {
      method: 'POST',
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' }),
      headers: { 'Content-Type': 'application/json', Accept },
    });
    expect([status, headers.get('content-type')]).toEqual([200, 'application/json']);
    expect(body).toEqual({ jsonrpc: '2.0', id: 1, result: {} });
  },
);

test('one message a request', async () => {
  const message = { jsonrpc: '2.0', id: 1, method: 'tools/list' };
  const { status, body } = await get(`${api.url}/mcp`, seeded.key, {
    method: 'POST',
    body: JSON.stringify([message, message]),
    headers: { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' },
  });
  expect([status, body.detail]).toEqual([400, 'body: send one message a request']);
});

/** An api whose analyst's ClickHouse never responds. `open` has the running statements. */
async function withSilentAnalyst() {
  const open = new Set<object>();
  const analyst = await serve((_request, response) => {
    open.add(response);
    response.on('close', () => open.delete(response));
  });
  const own = await startApi({
    ...{ nats: seeded.nats, clickhouseUrl: seeded.clickhouse.url },
    analystUrl: analyst.url,
  });
  return {
    open,
    /** Sends a query for each key, from a separate client. Returns the clients and their pending results. */
    async query(keys: readonly string[]) {
      const clients = await Promise.all(keys.map((key) => overHttp(key, own.url)));
      const asked = clients.map((one) =>
        one.callTool({ name: 'query', arguments: { sql: 'SELECT 1' } }).catch(() => undefined),
      );
      return { clients, asked };
    },
    async stop() {
      await own.stop();
      await analyst.stop();
    },
  };
}

test('queries end with their client, and only a few run at a time', async () => {
  const { open, query, stop } = await withSilentAnalyst();
  const keys = Array.from({ length: 6 }, () => issueKey(seeded.nats.bucket, 'pro'));
  const { clients, asked } = await query(await Promise.all(keys));
  await until(async () => open.size === 4 || undefined);
  for (const one of clients) await one.close();
  await Promise.all(asked);
  await until(async () => open.size === 0 || undefined);
  await stop();
});

test('an account runs one query at a time, a few wait, and the rest get an error', async () => {
  const { open, query, stop } = await withSilentAnalyst();
  const { clients, asked } = await query(Array(6).fill(seeded.key));
  expect(await Promise.race(asked)).toMatchObject({
    ...{ isError: true, content: [{ text: expect.stringContaining('and 4 wait') }] },
  });
  await until(async () => open.size > 0 || undefined);
  expect(open.size).toBe(1);
  for (const one of clients) await one.close();
  await Promise.all(asked);
  await stop();
});

test.each([
  ['a wrong key', () => api.url, 'fs_pro_wrong', /key/],
  ['nobody there', () => 'http://127.0.0.1:9', 'fs_pro_any', /cannot reach/],
])('over stdio with %s, each request is answered with an error', async (_, url, key, reason) => {
  const env = { FILLSTREAM_URL: url(), FILLSTREAM_KEY: key };
  const program = spawn(process.execPath, [CLI, 'mcp'], { env, stdio: 'pipe' });
  const input = [
    'nonsense',
    '{"jsonrpc":"2.0","method":"notifications/initialized"}',
    '{"jsonrpc":"2.0","id":7,"method":"tools/list"}',
  ];
  program.stdin.end(input.join('\n'));
  const lines = (await text(program.stdout)).trim().split('\n');
  const answers = lines.map((line) => JSON.parse(line)).toSorted((a, b) => a.id - b.id);
  expect(answers).toEqual([
    { jsonrpc: '2.0', id: null, error: { code: -32_700, message: expect.any(String) } },
    { jsonrpc: '2.0', id: 7, error: { code: -32_000, message: expect.stringMatching(reason) } },
  ]);
});

test('a demo key allows nothing that is forbidden to analysts, in any nesting', async () => {
  const root = mkdtempSync(join(tmpdir(), 'mcp-guard-'));
  mkdirSync(join(root, 'open'));
  const file = join(root, 'open', 'secret.csv');
  writeFileSync(file, 'sesame-9b1c,1\n');
  const sources = forbiddenSources({ file, root, port: 1 });
  const nestings = [...NESTINGS, ...SETTINGS];
  // A demo key admits five requests a second, so each source has its own.
  for (const [i, rows] of sources.entries()) {
    const [, nest] = nestings[i % nestings.length] as (typeof nestings)[number];
    const client = await overHttp(await issueKey(seeded.nats.bucket, 'demo'));
    const sql = `SELECT * FROM ${nest(rows)}`;
    const { isError, text } = await ask(client, 'query', { sql });
    expect([isError, text], sql).toEqual([true, expect.stringMatching(/^(?:Code: \d+|Analysts)/)]);
    expect(text, sql).not.toContain('sesame');
    await client.close();
  }
  expect(readdirSync(root)).toEqual(['open']);
  rmSync(root, { recursive: true });
});

test('the limits of a tier are errors of the tool', async () => {
  const client = await overHttp(seeded.demoKey);
  const { isError, text } = await ask(client, 'leaderboard', { limit: 100 });
  expect(isError).toBe(true);
  expect(text).toMatch(/^tier_required: /);
  await client.close();
});

test('without an analyst there is no query', async () => {
  const client = await overHttp(seeded.key, seeded.api.url);
  const { tools } = await client.listTools();
  expect(tools.map(({ name }) => name)).not.toContain('query');
  await client.close();
});
