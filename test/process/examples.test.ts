// The programs of examples/, run in this clone, and the Grafana dashboard's statements, against the real api and the
// analysts' ClickHouse. documented-commands.test.ts runs the lines of their README, also outside the clone.
import { type ChildProcess, execFile, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { afterAll, afterEach, describe, expect, test } from 'vitest';
import { cursorOf } from '../../api/feed/cursor.ts';
import { feedMessageId } from '../../ingest/contract.ts';
import { get } from '../support/api-harness.ts';
import { startSeeded } from '../support/api-seeded.ts';
import { publish, publishFinal, publishSequel } from '../support/feed-harness.ts';
import { forFile } from '../support/for-file.ts';
import { serve } from '../support/http-server.ts';
import { temporaryDirectory, until } from '../support/service.ts';
import { fill, market, match } from '../unit/feed-matches.ts';

const EXAMPLES = join(import.meta.dirname, '../../examples');

const seeded = forFile(startSeeded);
const { path: directory, remove } = temporaryDirectory();
let child: ChildProcess | undefined;
let published = 0;

afterAll(remove);

afterEach(() => {
  child?.kill('SIGKILL');
});

/** Starts an example; its files are in the directory. */
function spawnExample(name: string, args: readonly string[], env: NodeJS.ProcessEnv = {}) {
  const { api, key } = seeded;
  const started = spawn(process.execPath, [join(EXAMPLES, name), ...args], {
    cwd: directory,
    env: { ...process.env, FILLSTREAM_URL: api.url, FILLSTREAM_KEY: key, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  child = started;
  return started;
}

/** Starts an example and waits until it listens. */
async function start(name: string, args: readonly string[], env: NodeJS.ProcessEnv = {}) {
  await until(async () => ((await listeners()) === 0 ? true : undefined));
  child = spawnExample(name, args, env);
  await until(async () => ((await listeners()) > 0 ? true : undefined));
  return child;
}

async function listeners(): Promise<number> {
  const { body } = await get(`${seeded.api.url}/sessions`, seeded.key);
  return body.data?.length ?? 0;
}

async function kill(): Promise<void> {
  if (child === undefined) return;
  const gone = once(child, 'exit');
  child.kill('SIGKILL');
  await gone;
}

/** Publishes a match with this trader as its taker. */
async function trade(trader: number) {
  published += 1;
  const one = match(published, { taker: fill(trader, { usdc: 4_000_000n, shares: 8_000_000n }) });
  await publish(seeded.nats.nats, 'FEED', [one]);
  return one;
}

test('copy-a-whale.ts copies all trades of its wallet, and their outcomes', async () => {
  const whale = fill(501).trader.address;
  const copying = await start('copy-a-whale.ts', [whale.toUpperCase().replace('X', 'x')]);
  let output = '';
  copying.stdout?.on('data', (chunk) => {
    output += chunk;
  });
  await trade(502);
  published += 1;
  const made = [5_000_000n, 6_000_000n].map((usdc) => fill(501, { usdc, shares: 10_000_000n }));
  const one = match(published, { makers: made });
  const { nats } = seeded.nats;
  await publish(nats, 'FEED', [one]);
  await publishSequel(nats, one, { kind: 'void', reason: 'never_mined' });
  await publishSequel(nats, one, { kind: 'restored' });
  await publishFinal(nats, 'FEED', [one]);
  published += 3;
  await until(async () => output.includes('keep') || undefined);
  const order = (usdc: string, price: string) =>
    `(BUY|SELL) ${usdc} USDC of \\S+ in \\S+ at ${price} or better`;
  const both = `${order('0.05', '0.500')}, ${order('0.06', '0.600')}`;
  const tasks = ['place', 'close', 'place again', 'keep'];
  const lines = tasks.map((task) => `${task}: ${both}\n`);
  expect(output).toMatch(new RegExp(`^${lines.join('')}$`));
});

/** A chat that rejects the first messages with this status. */
async function startChat(refusals: number, status: number) {
  const posted: string[] = [];
  const mentions: string[] = [];
  let left = refusals;
  const server = await serve(async (request, response) => {
    const { content, allowed_mentions } = JSON.parse(await text(request));
    if (left-- > 0) return void response.writeHead(status).end();
    posted.push(content);
    mentions.push(...allowed_mentions.parse);
    response.writeHead(204).end();
  });
  return { ...server, posted, mentions };
}

test('whale-alert.ts posts each large match once, across refusals of the chat and a restart', async () => {
  using chat = await startChat(1, 500);
  const { posted } = chat;
  const env = { WEBHOOK_URL: chat.url, MIN_USDC: '4' };
  await start('whale-alert.ts', [], env);
  const { txHash, taker } = await trade(601);
  const id = feedMessageId(txHash, taker.orderHash, 0);
  await until(async () => posted.length === 1 || undefined);
  const file = join(directory, 'whale-alert.cursor');
  const cursor = () => (existsSync(file) ? readFileSync(file, 'utf8') : '');
  await until(async () => cursor() === String(cursorOf(published, id)) || undefined);
  await kill();
  await trade(602);
  await start('whale-alert.ts', [], env);
  await trade(603);
  await until(async () => posted.length === 3 || undefined);
  expect(posted[0]).toMatch(/ (buys|sells) \$4\.00 of “.+” at 50¢: /);
  expect(new Set(posted.map((line) => line.split(' ')[0])).size).toBe(3);
  expect(chat.mentions).toEqual([]);
});

test('whale-alert.ts posts what it missed while it was stopped, even if nothing was large enough before', async () => {
  using chat = await startChat(0, 500);
  const env = { WEBHOOK_URL: chat.url, CURSOR_FILE: 'quiet.cursor' };
  await start('whale-alert.ts', [], env);
  await trade(605);
  await until(async () => existsSync(join(directory, 'quiet.cursor')) || undefined);
  await kill();
  await trade(606);
  await start('whale-alert.ts', [], { ...env, MIN_USDC: '4' });
  await until(async () => chat.posted.some((line) => line.startsWith('trader-606 ')) || undefined);
});

test('whale-alert.ts shortens texts that the chat would refuse, and posts a match of zero shares', async () => {
  using chat = await startChat(0, 500);
  await start('whale-alert.ts', [], { WEBHOOK_URL: chat.url, CURSOR_FILE: 'long.cursor' });
  const usdc = 20_000_000_000n;
  const long = match(published + 1, {
    ...{ taker: fill(608, { usdc }), market: market({ question: '🐋'.repeat(3_000) }) },
  });
  const dust = match(published + 2, { taker: fill(609, { usdc, shares: 0n }) });
  published += 2;
  await publish(seeded.nats.nats, 'FEED', [long, dust]);
  await until(async () => chat.posted.length === 2 || undefined);
  const [first = '', second] = chat.posted;
  expect(first).toHaveLength(2_000);
  expect(first).toMatch(/^trader-608 .*🐋.?…$/su);
  expect(second).toMatch(/^trader-609 buys \$20,000\.00 of “\w+”: /);
});

test.each([
  ['without a chat', '', /WEBHOOK_URL is not set/],
  ['when the chat refuses for good', 'refusing', /the chat answered 404/],
])('whale-alert.ts ends %s', async (_, kind, reason) => {
  using chat = await startChat(Number.POSITIVE_INFINITY, 404);
  const env = { WEBHOOK_URL: kind && chat.url, MIN_USDC: '4', CURSOR_FILE: 'refused.cursor' };
  const alerting = spawnExample('whale-alert.ts', [], env);
  const errors = text(alerting.stderr);
  const ended = once(alerting, 'exit');
  if (kind !== '') {
    await until(async () => ((await listeners()) > 0 ? true : undefined));
    await trade(604);
  }
  expect((await ended)[0]).toBe(1);
  expect(await errors).toMatch(reason);
});

test('feed-to-sqlite.ts has every match once after kills −9', async () => {
  const file = join(directory, 'feed.db');
  const expected: string[] = [];
  const read = (sql: string) => {
    const database = new DatabaseSync(file, { readOnly: true });
    const found = database.prepare(sql).all();
    database.close();
    return found;
  };
  const rows = () => read('SELECT match_id, state FROM matches ORDER BY rowid');
  const hashesOf = () => rows().map(({ match_id }) => String(match_id).split(':')[0]);
  let first = '';
  for (let round = 0; round < 3; round++) {
    await start('feed-to-sqlite.ts', [file]);
    for (let n = 0; n < 20; n++) expected.push((await trade(700 + n)).txHash);
    // The last round is read to the end, the others are cut at random places.
    const least = round < 2 ? round * 20 + 1 : expected.length;
    await until(async () => rows().length >= least || undefined);
    await kill();
    first ||= String(read('SELECT cursor FROM place')[0]?.cursor);
  }
  expect(hashesOf()).toEqual(expected);
  expect(rows().every(({ state }) => state === 'shown')).toBe(true);
  // As after a restore of the service, the feed has them again.
  const database = new DatabaseSync(file);
  database.prepare('UPDATE place SET cursor = ?').run(first);
  database.close();
  await start('feed-to-sqlite.ts', [file]);
  expected.push((await trade(720)).txHash);
  await until(async () => rows().length >= expected.length || undefined);
  expect(hashesOf()).toEqual(expected);
  await kill();
});

describe('for analysts', () => {
  /** Like requests without a user. */
  const analyst = () => {
    const url = new URL(seeded.clickhouse.url);
    return `http://${url.host}/`;
  };

  const isHere = spawnSync('python3', ['--version']).status === 0;
  if (!isHere) console.info('skipped: there is no python3 here (apt-get install python3)');
  const analyse = (url: string) =>
    promisify(execFile)('python3', ['analysis.py'], {
      cwd: join(EXAMPLES, 'python'),
      env: { ...process.env, CLICKHOUSE_URL: url, PYTHONDONTWRITEBYTECODE: '1' },
    });

  test.skipIf(!isHere)('python/analysis.py answers its questions', async () => {
    const { stdout } = await analyse(analyst());
    const titles = stdout.split('\n').filter((line) => line !== '' && !line.startsWith(' '));
    expect(titles).toHaveLength(3);
  });

  test.skipIf(!isHere).each([
    ['ann:p%40ss@', `Basic ${Buffer.from('ann:p@ss').toString('base64')}`],
    ['service:secret@', undefined],
  ])('python/analysis.py asks http://%s… as %s', async (user, login) => {
    const logins: unknown[] = [];
    using server = await serve((request, response) => {
      logins.push(request.headers.authorization);
      response.end('{"data": []}');
    });
    await analyse(server.url.replace('//', `//${user}`));
    expect(logins).toEqual([login, login, login]);
  });

  const { panels, templating } = JSON.parse(
    readFileSync(join(EXAMPLES, 'grafana/trading.json'), 'utf8'),
  );
  const statements: [string, string][] = [
    ...panels.map((panel: { title: string; targets: [{ rawSql: string }] }) => {
      return [panel.title, panel.targets[0].rawSql];
    }),
    ['the list of markets', templating.list[1].query],
  ];
  test.each(statements)('grafana/trading.json: %s', async (_, sql) => {
    const filled = sql
      .replaceAll(/\$__(?:time|date)Filter\((\w+)\)/g, '$1 >= toDateTime(0) AND $1 <= now()')
      .replaceAll('$market', 'market-1001');
    const response = await fetch(analyst(), { method: 'POST', body: filled });
    const answer = await response.text();
    expect(response.status, answer).toBe(200);
  });
});
