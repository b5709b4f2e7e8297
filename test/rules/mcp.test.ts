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

type Body = Readonly<Record<string, unknown>>;

async function v2(path: string): Promise<Body> {
  return (await get(`${api.url}/v2/${path}`, seeded.key)).body;
}

async function batchOf(address: string): Promise<Body> {
  const { body } = await get(`${api.url}/v2/traders/batch`, seeded.key, {
    ...{ method: 'POST', headers: { 'Content-Type': 'application/json' } },
    body: JSON.stringify({ addresses: [address] }),
  });
  return body.traders[0];
}

const traderOf = async (address: string) => {
  return { ...(await v2(`traders/${address}`)), ...(await batchOf(address)) };
};

/** A tool call, and the response of the API that it must have; `query` is compared with a separate sum. */
const QUESTIONS: readonly (readonly [tool: string, given: object, expected: () => object])[] = [
  ['leaderboard', {}, () => v2('analytics/leaderboard?time_frame=7D&limit=10')],
  [
    'leaderboard',
    { sort_by: 'roi', limit: 3 },
    () => v2('analytics/leaderboard?time_frame=7D&sort_by=roi&limit=3'),
  ],
  [
    'leaderboard',
    { time_frame: '30D', order: 'asc', min_pnl: -2 },
    () => v2('analytics/leaderboard?time_frame=30D&order=asc&min_pnl=-2&limit=10'),
  ],
  [
    'leaderboard',
    { tag: 'crypto', min_market_count: 2 },
    () => v2('analytics/leaderboard?time_frame=7D&tag=crypto&min_market_count=2&limit=10'),
  ],
  ['trader', { trader: TRADER }, () => traderOf(TRADER)],
  ['trader', { trader: 'name 6' }, () => traderOf(OTHER)],
  ['positions', { trader: TRADER }, () => v2(`traders/${TRADER}/positions?limit=10`)],
  [
    'positions',
    { trader: '@x6', status: 'all', sort_by: 'pnl', limit: 2 },
    () => v2(`traders/${OTHER}/positions?status=all&sort_by=pnl&limit=2`),
  ],
  ['trades', { trader: TRADER }, () => v2(`traders/${TRADER}/trades?limit=20`)],
  [
    'trades',
    { trader: 'Name 3', side: 'BUY', market: MARKET, min_usdc: 1.5, limit: 5 },
    () => v2(`traders/${TRADER}/trades?side=BUY&market=${MARKET}&min_usdc=1.5&limit=5`),
  ],
  ['trades', { market: MARKET }, () => v2(`markets/${MARKET}/trades?limit=20`)],
  ['search', { q: 'question' }, () => v2('search?q=question&limit=5')],
  ['search', { q: TRADER }, () => v2(`search?q=${TRADER}&limit=5`)],
  ['markets', {}, () => v2('markets?limit=10')],
  [
    'markets',
    { status: 'resolved', sort_by: 'traders' },
    () => v2('markets?status=resolved&sort_by=traders&limit=10'),
  ],
  ['market', { market: MARKET }, () => v2(`markets/${MARKET}`)],
  ['market', { market: `0x${conditionOf(2)}` }, () => v2(`markets/0x${conditionOf(2)}`)],
  [
    'market',
    { market: MARKET, candles: '1d', holders: 3 },
    async () => {
      const { candles } = await v2(`markets/${MARKET}/candles?interval=1d`);
      const { holders } = await v2(`markets/${MARKET}/holders?limit=3`);
      return { ...(await v2(`markets/${MARKET}`)), candles, holders };
    },
  ],
  ['recent_matches', {}, () => v2('recent_matches?limit=20')],
  [
    'recent_matches',
    { from: '2020-01-01', traders: [MATCHED, OTHER], min_usdc: 1.5, finality: true, limit: 2 },
    () =>
      v2(
        `recent_matches?from=2020-01-01&traders=${MATCHED},${OTHER}&min_usdc=1.5&finality=true&limit=2`,
      ),
  ],
  [
    'recent_matches',
    { from: '2020-01-01', traders: ['Name 6'], min_price: 0.29, max_price: 0.57 },
    () => v2(`recent_matches?from=2020-01-01&traders=${OTHER}&min_price=29&max_price=57&limit=20`),
  ],
  ['status', {}, () => v2('status')],
];

/** The members that are amounts or prices. All others are returned as the API has them. */
const MICRO = new Set(
  `average_price average_price_with_fees balance_0 balance_1 change_24h close cost_basis fee high low maker_volume open open_fees
  open_interest pairs payout pnl price price_1 price_2 pusd_balance realised_pnl settled_cost settled_fees settled_shares
  shares taker_volume total_pnl total_pnl_distributed total_volume unrealised_pnl usdc value volume volume_24h
  vwap_5m`.split(/\s+/),
);

/** A response of the API in whole units. */
function whole<Answer>(answer: Answer): Answer {
  return JSON.parse(
    JSON.stringify(answer, (name, value) =>
      MICRO.has(name) && value !== null ? Number(`${value}e-6`) : value,
    ),
  );
}

/** Arguments as models and other languages write them, with the usual ones, which must have the same result. */
const SPELLINGS: readonly (readonly [tool: string, given: object, usual: object])[] = [
  ['leaderboard', { limit: '3', min_pnl: '-5' }, { limit: 3, min_pnl: -5 }],
  ['leaderboard', { limit: null, tag: '', market: null, order: null }, {}],
  ['leaderboard', { market: Number(MARKET) }, { market: MARKET }],
  ['trades', { trader: TRADER, min_usdc: '1.5', cursor: '' }, { trader: TRADER, min_usdc: 1.5 }],
  [
    'trades',
    { trader: TRADER, from: 1_577_836_800 },
    { trader: TRADER, from: '2020-01-01T00:00:00Z' },
  ],
  ['trades', { trader: null, market: MARKET, side: '' }, { market: MARKET }],
  ['search', { q: 2026 }, { q: '2026' }],
  ['market', { market: Number(MARKET) }, { market: MARKET }],
  ['market', { market: MARKET, holders: '3', candles: null }, { market: MARKET, holders: 3 }],
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

  test('every tool has a title, a description, arguments and annotations, in a short list', async () => {
    const { tools } = await client.listTools();
    expect(new Set(tools.map(({ name }) => name))).toEqual(
      new Set([...QUESTIONS.map(([name]) => name), 'query']),
    );
    for (const tool of tools) {
      expect(tool.title, tool.name).toBeTruthy();
      expect(tool.description, tool.name).toBeTruthy();
      expect(tool.inputSchema.type, tool.name).toBe('object');
      expect(tool.annotations).toEqual({ readOnlyHint: true, openWorldHint: false });
    }
    // A host shows it to the model with every question.
    expect(Buffer.byteLength(JSON.stringify(tools))).toBeLessThan(10_000);
    expect(client.getInstructions()).toContain('whole units');
  });

  test('input schemas have the plain type of each argument', async () => {
    const { tools } = await client.listTools();
    for (const { name, inputSchema } of tools) {
      const isValid = new Ajv2020({ strict: false }).compile(inputSchema);
      const [, given = {}] = QUESTIONS.find(([tool]) => tool === name) ?? [];
      if (name !== 'query') expect(isValid(given), name).toBe(true);
      expect(isValid({ ...given, no_such_argument: 1 }), name).toBe(false);
    }
    const { properties, required } =
      tools.find(({ name }) => name === 'positions')?.inputSchema ?? {};
    expect(required).toEqual(['trader']);
    expect(properties).toMatchObject({
      trader: { type: 'string', description: expect.stringContaining('address') },
      limit: { type: 'integer', default: 10 },
    });
  });

  test('an unknown argument is refused, and the error names it', async () => {
    const { tools } = await client.listTools();
    for (const { name } of tools) {
      const [, given = {}] = QUESTIONS.find(([tool]) => tool === name) ?? [];
      const { isError, text } = await ask(client, name, { ...given, min_size: 5 });
      const named = expect.stringMatching(/there is no argument min_size; the arguments are \w+/);
      expect([isError, text], name).toEqual([true, named]);
    }
  });

  test.each(SPELLINGS)('%s of %j is accepted', async (name, given, usual) => {
    const { isError, text, answer } = await ask(client, name, given);
    expect(isError, text).toBe(false);
    expect(lasting(answer)).toEqual(lasting((await ask(client, name, usual)).answer));
  });

  test.each([
    ['leaderboard', { limit: '3.5' }, 'limit: expected int, received number'],
    ['leaderboard', { limit: 'many' }, 'limit: expected number, received string'],
    ['leaderboard', { limit: '0x10' }, 'limit: expected number, received string'],
    ['leaderboard', { limit: [3] }, 'limit: expected number, received array'],
    ['leaderboard', { limit: 500 }, 'limit: Too big: expected number to be <=100'],
    ['leaderboard', { order: 'up' }, 'order: expected one of "asc"|"desc"'],
    ['leaderboard', { tag: 'cheese' }, 'tag: got "cheese", expected one of all, sports, crypto'],
    ['recent_matches', { finality: 'maybe' }, 'finality: expected boolean, received string'],
    ['recent_matches', { finality: 2 }, 'finality: expected boolean, received number'],
    ['recent_matches', { traders: [{}] }, 'traders.0: expected string, received object'],
    ['recent_matches', { min_price: 62 }, 'min_price: Too big: expected number to be <=1'],
    ['recent_matches', { min_usdc: 2, max_usdc: 1 }, 'min_usdc: must not be above max_usdc'],
    ['trader', { trader: null }, 'trader is missing'],
    ['trader', {}, 'trader is missing'],
    [
      'trader',
      { trader: 'nobody' },
      'no trader has the name or account @nobody; the tool `search`',
    ],
    ['positions', { trader: 'Nam' }, 'no trader has the name or account @Nam; similar: Name '],
    ['trades', {}, 'trades needs a trader, a market or both'],
    ['trades', { market: MARKET, side: 'BUY' }, 'side works only with a trader'],
    [
      'market',
      { market: 'no-such-market' },
      'no market has the slug no-such-market; the tool `search`',
    ],
    ['market', { market: 'not a market' }, 'market: got "not a market", expected a market id, a'],
    ['market', { market: MARKET, from: '2020-01-01' }, 'from and to need candles'],
    // JSON has lost digits of this number.
    ['market', { market: 2 ** 60 }, 'market: expected string, received number'],
    ['no_such_tool', {}, 'there is no tool no_such_tool; the tools are leaderboard, '],
  ])('%s of %j is refused in a sentence', async (name, given, sentence) => {
    const { isError, text, answer } = await ask(client, name, given);
    expect([isError, answer]).toEqual([true, undefined]);
    expect(text.slice(0, sentence.length)).toBe(sentence);
    expect(text).not.toMatch(/[{}[\]]|not_found|invalid_request|-32/);
  });

  test.each(QUESTIONS)(
    '%s of %j has the figures of the API in whole units',
    async (...question) => {
      const [name, given, expected] = question;
      const { isError, text, answer } = await ask(client, name, given);
      expect(isError, text).toBe(false);
      expect(JSON.parse(text)).toEqual(answer);
      expect(lasting(answer)).toEqual(lasting(whole(await expected())));
    },
  );

  test('the figures are the sums of the bookings', async () => {
    const { answer: leaders } = await ask(client, 'leaderboard', { limit: 5 });
    const pnls = leaders.traders.map((one: { total_pnl: number }) => one.total_pnl);
    expect(pnls).toEqual(
      board('7D', 'all', 'pnl')
        .slice(0, 5)
        .map(({ pnl }) => Number(pnl) / 1e6),
    );
    const { answer: trader } = await ask(client, 'trader', { trader: TRADER });
    const { pusd_balance, top_tags } = expectedTrader(3);
    expect(trader).toMatchObject(whole({ pusd_balance, top_tags }));
    const { answer: market } = await ask(client, 'market', { market: expectedMarket(5).market.id });
    expect(market.total_volume).toBe(expectedMarketV2(5).total_volume / 1e6);
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

  test('refusals for the analyst are errors of the tool', async () => {
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
  expect(text).toMatch(/^limit: the tier demo allows /);
  await client.close();
});

test('without an analyst there is no query', async () => {
  const client = await overHttp(seeded.key, seeded.api.url);
  const { tools } = await client.listTools();
  expect(tools.map(({ name }) => name)).not.toContain('query');
  await client.close();
});
