/** `fillstream` as a user runs it: packed and installed, in every installed runtime, against the real api. */
import { type ChildProcess, execFile, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { afterEach, beforeAll, describe, expect, test } from 'vitest';
import { addressOf, insertBookings } from '../support/api-bookings.ts';
import { EDGE_NOW, NOW, random } from '../support/api-expected.ts';
import { get } from '../support/api-harness.ts';
import { startSeeded } from '../support/api-seeded.ts';
import { positionOf, publish, publishFinal } from '../support/feed-harness.ts';
import { forFile } from '../support/for-file.ts';
import { serve } from '../support/http-server.ts';
import { installPackage, runtimesHere } from '../support/runtimes.ts';
import { until } from '../support/service.ts';
import { address, match } from '../unit/feed-matches.ts';

const run = promisify(execFile);
const ROOT = join(import.meta.dirname, '../..');
const TRADER = addressOf(3);
const SPAN = ['--from', '2020-01-01', '--to', '2040-01-01'];
const ALL_FILLS = ['export', 'fills', ...SPAN];

const seeded = forFile(startSeeded);
const installed = forFile(() => installPackage(join(ROOT, 'apps/cli/dist')));
let directory: string;
let program: string;
let child: ChildProcess | undefined;
let published = 0;

beforeAll(async () => {
  ({ directory } = installed);
  program = join(directory, 'node_modules/.bin/fillstream');
  // `export` ends now, long before the clock of the made-up exchange.
  const past = random.map((row) => {
    return { ...row, time: row.time - (NOW - EDGE_NOW), block: row.block - 20_000_000 };
  });
  await insertBookings(seeded.clickhouse.client, past, 9_000_000);
});

afterEach(() => {
  child?.kill('SIGKILL');
});

function environment(more: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv {
  return {
    ...{ ...process.env, FILLSTREAM_URL: seeded.api.url, FILLSTREAM_KEY: seeded.key },
    ...{ ...installed.env, ...more },
  };
}

/** Runs a command to its end. */
async function cli(args: readonly string[], more: NodeJS.ProcessEnv = {}) {
  const options = { cwd: directory, env: environment(more), maxBuffer: 2 ** 26 };
  const {
    code = 0,
    stdout,
    stderr,
  } = await run(process.execPath, [program, ...args], options).catch((error) => error);
  return { code, stdout: String(stdout), stderr: String(stderr) };
}

/** Runs a line of the shell, in which $0 and $1 run the program. */
async function shell(line: string, argument: string, options: readonly string[] = []) {
  const args = [...options, '-c', line, process.execPath, program, argument];
  const { code = 0, ...said } = await run('bash', args, {
    ...{ cwd: directory, env: environment() },
  }).catch((error) => error);
  return { code, stdout: String(said.stdout), stderr: String(said.stderr) };
}

/** Starts a command that does not end by itself. */
function start(args: readonly string[], runtime = [process.execPath]) {
  const [command = '', ...before] = runtime;
  const started = spawn(command, [...before, program, ...args], {
    cwd: directory,
    env: environment(),
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const read = { text: '' };
  started.stdout.on('data', (chunk) => {
    read.text += chunk;
  });
  child = started;
  return { process: started, read };
}

async function kill(one: ChildProcess, signal: NodeJS.Signals = 'SIGKILL') {
  const closed = once(one, 'close');
  one.kill(signal);
  return (await closed) as [number | null, NodeJS.Signals | null];
}

/** Publishes so many matches of a trader and returns their transactions. */
async function trade(count: number): Promise<string[]> {
  const made = Array.from({ length: count }, () => match(++published));
  await publish(seeded.nats.nats, 'FEED', made);
  return made.map(({ txHash }) => txHash);
}

/** The blocks of the made-up exchange are not in the order of their times. */
const sorted = (text: string) => linesOf(text).sort().join('\n');

/** ClickHouse, for requests without a user. */
const analyst = () => `http://${new URL(seeded.clickhouse.url).host}/`;

const linesOf = (text: string) => text.split('\n').filter((line) => line !== '');

test('the package holds one program, its documentation and its licence', async () => {
  expect(installed.files).toEqual(['LICENSE', 'README.md', 'fillstream.js', 'package.json']);
});

test('npx runs it from a checkout', async () => {
  const { stdout } = await run('npx', ['--no-install', 'fillstream', 'help'], { cwd: ROOT });
  expect(stdout).toContain('fillstream COMMAND');
});

test('prints its version, which is that of the service', async () => {
  const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
  expect((await cli(['--version'], { FILLSTREAM_KEY: '' })).stdout).toBe(`${version}\n`);
});

describe('help', () => {
  const commands = ['tail', 'top', 'trader', 'market', 'positions', 'search', 'export', 'keys'];

  test('names every command and needs no key', async () => {
    const whole = await cli([], { FILLSTREAM_KEY: '' });
    expect(whole.code).toBe(0);
    for (const name of commands) expect(whole.stdout).toContain(`\n  ${name} `);
  });

  test.each(commands)('of %s has examples that its own options can parse', async (name) => {
    const { code, stdout } = await cli(['help', name]);
    expect(code).toBe(0);
    expect((await cli([name, '--help'])).stdout).toBe(stdout);
    const examples = stdout.slice(stdout.indexOf('Examples:'));
    const used = [...examples.matchAll(/ (--[\w-]+)/g)].map(([, option = '']) => option);
    for (const option of used) expect(stdout).toContain(`\n  ${option}`);
  });
});

describe('a command that reads', () => {
  test('prints a table, JSON lines or CSV', async () => {
    const args = ['top', '--time-frame', '7D', '--sort', 'roi', '--limit', '7'];
    const path = '/v2/analytics/leaderboard?time_frame=7D&sort_by=roi&limit=7';
    const { traders } = (await get(seeded.api.url + path, seeded.key)).body;
    const json = await cli([...args, '--format', 'json']);
    expect(linesOf(json.stdout).map((line) => JSON.parse(line))).toEqual(traders);
    const csv = linesOf((await cli([...args, '--format', 'csv'])).stdout);
    expect(csv).toHaveLength(8);
    expect(csv[0]).toMatch(/^rank,|profile\.address/);
    const pretty = linesOf((await cli(args)).stdout);
    expect(pretty).toHaveLength(8);
    expect(pretty[1]).toContain(traders[0].profile.address);
    expect(pretty.join('')).not.toContain('\x1b');
  });

  const isHere = spawnSync('python3', ['--version']).status === 0;
  if (!isHere) console.info('skipped: there is no python3 here (apt-get install python3)');
  test.skipIf(!isHere)('prints whole tables on a terminal of unknown size', async () => {
    const terminal = 'import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)';
    const args = ['-c', terminal, process.execPath, program, 'top', '--limit', '7'];
    const { stdout } = await run('python3', args, { env: environment({ NO_COLOR: '1' }) });
    expect(stdout.replaceAll('\r', '')).toBe((await cli(['top', '--limit', '7'])).stdout);
  });

  test('shows a trader, positions, a market, and what a search finds', async () => {
    const one = await cli(['trader', TRADER]);
    expect(one.stdout).toMatch(/^trader +0x/);
    expect(one.stdout).toMatch(/\n30d +-?\$/);
    const json = JSON.parse((await cli(['trader', TRADER, '--format', 'json'])).stdout);
    expect(json).toMatchObject({ profile: {}, windows: { t_1h: {} }, positions: {} });
    const held = await cli(['positions', TRADER, '--status', 'all', '--limit', '3']);
    expect(linesOf(held.stdout)).toHaveLength(5);
    expect(held.stdout).toMatch(/3 of \d+ shown; all: value \$/);
    const market = await cli(['market', '1002']);
    expect(market.stdout).toMatch(/^market /);
    expect(market.stdout).toMatch(/\nid +1002\n/);
    const found = await cli(['search', TRADER.slice(0, 40)]);
    expect(found.stdout).toMatch(/^trader +name +fills +last trade\n0x/);
    expect(await cli(['search', 'xyzzyx'])).toMatchObject({ code: 0, stdout: 'nothing found\n' });
  });

  test.each(['Name 6', '@name 6', 'x6', '@X6'])('finds a trader by name: %s', async (name) => {
    const address = addressOf(6);
    for (const [before, after] of [
      [['trader'], ['--format', 'json']],
      [['positions'], ['--status', 'all', '--format', 'json']],
      [['export', 'trader'], []],
    ] as const) {
      const byName = await cli([...before, name, ...after]);
      expect(byName).toMatchObject({ code: 0, stderr: '' });
      expect(byName.stdout).toBe((await cli([...before, address, ...after])).stdout);
    }
  });

  test('exports every fill of a trader, and every match of a market or of a time', async () => {
    const path = `/v2/traders/${TRADER}/trades?limit=1000`;
    const { trades } = (await get(seeded.api.url + path, seeded.key)).body;
    const csv = linesOf((await cli(['export', 'trader', TRADER])).stdout);
    expect(csv).toHaveLength(trades.length + 1);
    expect(csv[0]).toContain('usdc,');
    const of = `${seeded.api.url}/v2/markets/1002/trades?limit=1000`;
    const matches = (await get(of, seeded.key)).body.trades;
    const all = await cli(['export', 'market', '1002', '--format', 'json']);
    expect(linesOf(all.stdout).map((line) => JSON.parse(line))).toEqual(matches);
    const middle = matches[Math.floor(matches.length / 2)].time;
    const since = await cli(['export', 'market', '1002', '--from', middle, '--format', 'json']);
    const wanted = matches.filter(({ time }: { time: string }) => time >= middle);
    expect(linesOf(since.stdout)).toHaveLength(wanted.length);
    // A time without a zone is UTC everywhere, as in the API.
    const bare = middle.replace('Z', '');
    for (const from of [bare, String(Date.parse(middle) / 1_000)]) {
      const args = ['export', 'market', '1002', '--from', from, '--format', 'json'];
      expect((await cli(args, { TZ: 'America/New_York' })).stdout).toBe(since.stdout);
    }
    expect((await cli(['export', 'market', '1002', '--side', 'SELL'])).code).toBe(2);
  });

  test('exports more from ClickHouse than a query may return, except to Parquet', async () => {
    const fillsOf = (search: string, format: string) => {
      const CLICKHOUSE_URL = `${analyst()}${search}`;
      return cli([...ALL_FILLS, '--format', format], { CLICKHOUSE_URL, FILLSTREAM_KEY: '' });
    };
    for (const format of ['csv', 'json']) {
      const whole = await fillsOf('', format);
      const inParts = await fillsOf('?max_result_rows=200', format);
      expect(linesOf(whole.stdout).length).toBeGreaterThan(1_000);
      expect(inParts).toMatchObject({ code: 0, stderr: '' });
      // Printing the difference of long texts would take minutes.
      expect(sorted(inParts.stdout) === sorted(whole.stdout)).toBe(true);
    }
    expect(await fillsOf('?max_result_rows=200', 'parquet')).toMatchObject({
      ...{ code: 1, stdout: '' },
      stderr: /TOO_MANY_ROWS_OR_BYTES.*export a shorter period, csv or json/,
    });
  });

  test('exports everything once even if a quota refuses some parts', async () => {
    const refusals = ['QUOTA_EXCEEDED', 'TOO_MANY_SIMULTANEOUS_QUERIES'];
    let asked = 0;
    using limited = await serve(async (request, response) => {
      asked += 1;
      const code = asked % 5 === 0 ? refusals.pop() : undefined;
      if (code !== undefined) {
        response.writeHead(500).end(`Code: 1. DB::Exception: Not now. (${code}) (version 26.3)\n`);
        return;
      }
      const body = await text(request);
      const answer = await fetch(analyst().slice(0, -1) + request.url, { method: 'POST', body });
      response.writeHead(answer.status).end(Buffer.from(await answer.arrayBuffer()));
    });
    const CLICKHOUSE_URL = `${limited.url}/?max_result_rows=200`;
    const env = { CLICKHOUSE_URL, FILLSTREAM_KEY: '' };
    const whole = await cli(ALL_FILLS, { ...env, CLICKHOUSE_URL: analyst() });
    const refused = await cli(ALL_FILLS, env);
    expect(refusals).toEqual([]);
    expect(refused.code).toBe(0);
    expect(refused.stderr).toMatch(/^(fillstream: waiting, .*\((QUOTA|TOO_MANY)\w+\).*\n){2}$/);
    expect(sorted(refused.stdout) === sorted(whole.stdout)).toBe(true);
  });

  test('exports a time, a trader and a market from ClickHouse', async () => {
    const env = { CLICKHOUSE_URL: analyst(), FILLSTREAM_KEY: '' };
    const csv = await cli(ALL_FILLS, env);
    expect(csv).toMatchObject({ code: 0, stderr: '' });
    expect(linesOf(csv.stdout)[0]).toContain('"trader"');
    expect(linesOf(csv.stdout).length).toBeGreaterThan(1_000);
    const parquet = await cli([...ALL_FILLS, '--format', 'parquet'], env);
    expect(parquet.stdout.slice(0, 4)).toBe('PAR1');
    const rowsOf = async (...filters: string[]) => {
      const { stdout } = await cli(['export', 'fills', ...filters, '--format', 'json'], env);
      return linesOf(stdout).map((line) => JSON.parse(line));
    };
    const everything = await rowsOf(...SPAN);
    const own = (row: { trader: string }) => row.trader === TRADER.toLowerCase();
    const ofTrader = await rowsOf('--trader', TRADER);
    expect(ofTrader.length).toBeGreaterThan(0);
    expect(ofTrader).toEqual(everything.filter(own));
    const [{ condition_id: condition }] = everything.filter(
      ({ market_id: id }) => Number(id) === 1002,
    );
    const inMarket = everything.filter((row) => row.condition_id === condition);
    for (const market of ['1002', condition.toUpperCase().replace('0X', '0x')]) {
      expect(await rowsOf('--market', market)).toEqual(inMarket);
    }
    const sold = inMarket.filter((row) => own(row) && row.side === 'SELL');
    const filters = ['--trader', TRADER, '--market', '1002', '--side', 'SELL'];
    expect(await rowsOf(...filters, ...SPAN)).toEqual(sold);
    expect(await cli(['export', 'fills', '--trader', '0x12'], env)).toMatchObject({
      code: 2,
      stderr: /--trader must be an address: 0x12/,
    });
    const nowhere = await cli(ALL_FILLS, {
      CLICKHOUSE_URL: 'http://127.0.0.1:9',
    });
    expect(nowhere).toMatchObject({
      code: 1,
      stderr: /cannot be reached at http:\/\/127.0.0.1:9\n$/,
    });
  });
});

test('keys are created, listed and revoked', async () => {
  const made = await cli(['keys', 'create', '--label', 'from the terminal']);
  const key = made.stdout.trim();
  expect(key).toMatch(/^fs_pro_\w+$/);
  const [, id = ''] = /created (\S+)/.exec(made.stderr) ?? [];
  writeFileSync(join(directory, 'key'), `${key}\n`);
  const asNew = ['--key-file', 'key'];
  const listed = await cli(['keys', ...asNew], { FILLSTREAM_KEY: '' });
  expect(listed.stdout).toMatch(new RegExp(`${id} +from the terminal +pro +valid, this one`));
  expect(listed.stdout).not.toContain(key);
  expect((await cli(['keys', 'revoke', id])).code).toBe(0);
  await until(async () => (await cli(['keys', ...asNew])).code === 1 || undefined);
});

describe('an error', () => {
  test.each([
    [['market', 'no-such-market'], 1, /\(404 not_found, request [\w-]+\)\n$/],
    [['market', 'not a market'], 1, /\(400 invalid_request, request [\w-]+\)\n {2}\w+: .+\n$/],
    [['trader', 'nobody'], 1, /no trader has the name or account @nobody \(404 not_found, /],
    [['tail', '--trader', 'Nam'], 1, /@Nam; similar: Name \d+, Name \d+, Name \d+ \(404 /],
    [
      ['top', '--limit', 'x'],
      2,
      /^fillstream: --limit must be a number: x\nSee fillstream help top\.\n$/,
    ],
    [['tail', '--from', 'yesterday'], 2, /--from must be a time such as 2026-/],
    [['tail', '--from', 'Jan 31 2026'], 2, /--from must be a time such as 2026-/],
    [['export', 'market', '1002', '--to', '2026-1-31'], 2, /--to must be a time such as 2026-/],
    [['tail', '--from', '2100-01-01'], 2, /--from must not be in the future/],
    [['tail', '--from', '1', '--last', '5'], 2, /--from and --last are two starts/],
    [['tail', '--last', '1001'], 1, /last: must be a number from 0 to 1000/],
    [['tail', '--key', 'k'], 2, /Unknown option '--key'/],
    [['tail', '--key-file', 'no-such-file'], 1, /ENOENT/],
    [['dance'], 2, /^fillstream: unknown command: dance\n/],
  ])('of %j exits with %i and names the cause', async (args, code, message) => {
    const outcome = await cli(args);
    expect(outcome).toMatchObject({ code, stdout: '' });
    expect(outcome.stderr).toMatch(message);
    expect(outcome.stderr).not.toMatch(/\n\s+at /);
  });

  test.skipIf(!existsSync('/dev/full')).each(['--version', 'help', 'top --help', 'top'])(
    'of a full disk is reported once: %s',
    async (line) => {
      const { code, stderr } = await shell(`"$0" "$1" ${line} > /dev/full`, '');
      expect([code, stderr]).toEqual([1, 'fillstream: ENOSPC: no space left on device, write\n']);
    },
  );

  test('of the key is reported as such', async () => {
    expect(await cli(['mcp'], { FILLSTREAM_KEY: '' })).toMatchObject({ code: 2 });
    const missing = await cli(['top'], { FILLSTREAM_KEY: '' });
    expect(missing).toMatchObject({ code: 1, stdout: '' });
    expect(missing.stderr).toMatch(/401 unauthorized.*set FILLSTREAM_KEY or use --key-file FILE/);
    // Beside npm start there is one, for this machine only.
    mkdirSync(join(directory, '.data'));
    writeFileSync(join(directory, '.data/keys.json'), JSON.stringify({ pro: seeded.key }));
    expect(await cli(['top'], { FILLSTREAM_KEY: '' })).toMatchObject({ code: 0 });
    const FILLSTREAM_URL = seeded.api.url.replace('127.0.0.1', '0.0.0.0');
    const elsewhere = await cli(['top'], { FILLSTREAM_KEY: '', FILLSTREAM_URL });
    rmSync(join(directory, '.data'), { recursive: true });
    expect(elsewhere.stderr).toContain('the request has no X-Service-Key header');
    const wrong = await cli(['tail'], { FILLSTREAM_KEY: 'fs_pro_wrong' });
    expect(wrong).toMatchObject({ code: 1, stdout: '' });
    expect(wrong.stderr).toMatch(/\(401 unauthorized/);
  });
});

describe('tail', () => {
  test.each(runtimesHere())('runs in $name', async ({ command, args }) => {
    await trade(1);
    const from = await present();
    const [hash] = await trade(1);
    const tail = ['tail', '--format', 'json', '--from', from];
    const { process: one, read } = start(tail, [command, ...args]);
    await until(async () => read.text.endsWith('\n') || undefined);
    expect(JSON.parse(read.text)).toMatchObject({ type: 'order', data: { tx_hash: hash } });
    expect(await kill(one, 'SIGINT')).toEqual([130, null]);
  });

  test('shows a match, and that it is final, in every format', async () => {
    const from = published === 0 ? [] : ['--from', positionOf(published)];
    const formats = ['pretty', 'json', 'csv'].map((format) => {
      return start(['tail', '--finality', ...from, '--format', format, '--trader', address(1)]);
    });
    await until(async () => {
      const { body } = await get(`${seeded.api.url}/sessions`, seeded.key);
      return body.data.length === 3 || undefined;
    });
    const [hash] = await trade(1);
    await publishFinal(seeded.nats.nats, 'FEED', [match(published)]);
    await until(async () => formats.every(({ read }) => read.text.includes('final')) || undefined);
    const [pretty, json, csv] = formats.map(({ read }) => linesOf(read.text));
    expect(pretty?.[0]).toMatch(
      /^\d\d:\d\d:\d\d {2}BUY +\$4\.50 +45¢ {2}trader-1 .*Yes: Will “it” rain/,
    );
    const events = json?.map((line) => JSON.parse(line));
    expect(events?.map(({ type }) => type)).toEqual(['order', 'final']);
    expect(events?.[0]).toMatchObject({ cursor: positionOf(published), data: { tx_hash: hash } });
    expect(csv?.map((line) => line.split(',')[1])).toEqual(['type', 'order', 'final']);
    // The sequence in the stream counts the final event, too.
    published += 1;
    // No key is in an argument, which a list of processes would show.
    for (const { process: one } of formats) {
      expect(readFileSync(`/proc/${one.pid}/cmdline`, 'utf8')).not.toContain(seeded.key);
      expect(await kill(one, 'SIGINT')).toEqual([130, null]);
    }
  });

  test('starts at a time or at the first match of the feed, and continues live', async () => {
    // More than the entries of one response.
    const expected = await trade(250);
    const { read } = start(['tail', '--format', 'json', '--from', '2020-01-01']);
    const isThere = async () =>
      (read.text.includes(`${expected.at(-1)}"`) && read.text.endsWith('\n')) || undefined;
    await until(isThere);
    expected.push(...(await trade(1)));
    await until(isThere);
    const events = linesOf(read.text).map((line) => JSON.parse(line));
    expect(events[0].cursor).toBe(positionOf(1));
    expect(events.map(({ data }) => data.tx_hash).slice(-251)).toEqual(expected);
  });

  test('starts with the newest matches that pass its filters, and continues live', async () => {
    const expected = (await trade(5)).slice(-3);
    const args = ['tail', '--format', 'json', '--last', '3', '--trader', address(1)];
    const { read } = start(args);
    const isLast = async () =>
      read.text.endsWith('\n') && read.text.includes(`${expected.at(-1)}"`);
    await until(async () => (await isLast()) || undefined);
    expected.push(...(await trade(1)));
    await until(async () => (await isLast()) || undefined);
    expect(linesOf(read.text).map((line) => JSON.parse(line).data.tx_hash)).toEqual(expected);
  });

  test('an export whose reader ends early fails', async () => {
    const line = '"$0" "$1" export trader $2 --format json | true';
    const { code } = await shell(line, TRADER, ['-o', 'pipefail']);
    expect(code).toBe(1);
  });

  test('exits quietly when its reader closes the pipe', async () => {
    const from = await present();
    // More than fits into a pipe.
    await trade(200);
    const first = '| head -n 1; "$0" "$1" top --format json | head -n 1';
    const { code, stdout, stderr } = await shell(
      `"$0" "$1" tail --format json --from $2 ${first}`,
      from,
    );
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(linesOf(stdout).length).toBeGreaterThan(0);
  });

  test.each(['json', 'csv'])(
    'with --output has each event once after kills −9, torn lines included (%s)',
    async (format) => {
      const file = join(directory, `matches.${format}`);
      const from = await present();
      const args = ['tail', '--format', format, '--output', file, '--from', from];
      const expected: string[] = [];
      const rows = () => (existsSync(file) ? linesOf(readFileSync(file, 'utf8')) : []);
      const head = format === 'csv' ? 1 : 0;
      for (let round = 0; round < 12; round++) {
        const { process: one } = start(args);
        expected.push(...(await trade(40)));
        // The last round reads to the end, the others are cut at random places.
        const least = head + (round < 11 ? round * 40 + 1 : expected.length);
        await until(async () => rows().length >= least || undefined);
        await kill(one);
        if (round % 3 === 0) appendFileSync(file, rows().at(-1)?.slice(0, 50) ?? '');
      }
      const hashes = rows().flatMap((row) =>
        format === 'csv' ? (row.split(',')[4] ?? '') : JSON.parse(row).data.tx_hash,
      );
      expect(hashes.filter((one) => one !== 'tx_hash')).toEqual(expected);
    },
  );

  test('with --state prints each event at least once, and at most one twice at a kill −9', async () => {
    const args = ['tail', '--format', 'json', '--state', join(directory, 'cursor')];
    args.push('--from', await present());
    const expected: string[] = [];
    const seen: { cursor: string; data: { tx_hash: string } }[] = [];
    const kills = 12;
    for (let round = 0; round <= kills; round++) {
      const { process: one, read } = start(args);
      expected.push(...(await trade(40)));
      const isLast = () => read.text.includes(`${expected.at(-1)}"`) && read.text.endsWith('\n');
      await until(async () => (round < kills ? read.text !== '' : isLast()) || undefined);
      await kill(one);
      // The kill may have cut a line off.
      const whole = read.text.slice(0, read.text.lastIndexOf('\n') + 1);
      seen.push(...linesOf(whole).map((line) => JSON.parse(line)));
    }
    const once = new Map(seen.map((event) => [event.cursor, event.data.tx_hash]));
    expect([...once.values()]).toEqual(expected);
    expect(seen.length - once.size).toBeLessThanOrEqual(kills);
  });

  test('with --state continues with what it missed, even if nothing passed its filter', async () => {
    const state = join(directory, 'idle');
    const args = ['tail', '--format', 'json', '--state', state, '--min-usdc', '1000000'];
    const { process: one } = start(args);
    await until(async () => existsSync(state) || undefined);
    await kill(one);
    const hashes = await trade(3);
    const { read } = start(['tail', '--format', 'json', '--state', state]);
    await until(async () => linesOf(read.text).length === 3 || undefined);
    expect(linesOf(read.text).map((line) => JSON.parse(line).data.tx_hash)).toEqual(hashes);
  });

  test('with --output continues after any text that a market may contain', async () => {
    const file = join(directory, 'separators');
    await trade(1);
    const last = { cursor: await present(), type: 'order', data: { question: 'a\u2028b\u2029c' } };
    writeFileSync(file, `${JSON.stringify(last)}\n`);
    start(['tail', '--format', 'json', '--output', file]);
    const hashes = await trade(1);
    await until(async () => readFileSync(file, 'utf8').includes(`${hashes[0]}"`) || undefined);
  });

  test.each([
    ['json', 'Dear reader,\n'],
    ['json', '[{"id": 1}]'],
    ['json', '{"cursor":"1","type":"order","data":{}}\nDear reader'],
    ['csv', 'id,name\n1,Ann\n2,B'],
    ['csv', 'id,name'],
  ])('refuses a %s file that is something else: %j', async (format, text) => {
    writeFileSync(join(directory, 'letter'), text);
    const args = ['tail', '--format', format, '--output', 'letter'];
    expect(await cli(args)).toMatchObject({ code: 1, stderr: /is not a \w+ file of this command/ });
    expect(readFileSync(join(directory, 'letter'), 'utf8')).toBe(text);
  });

  test('reports in one line that the cursor cannot be saved', async () => {
    const args = ['tail', '--state', 'no/such/directory/cursor', '--min-usdc', '1000000'];
    const { code, stderr } = await cli(args);
    expect(code).toBe(1);
    expect(stderr).toMatch(/^fillstream: ENOENT.*\n$/);
  });

  test('exits on a signal even if its reader no longer reads', async () => {
    const from = await present();
    // More than fits into a pipe and its buffers.
    await trade(500);
    const state = join(directory, 'stalled');
    const args = ['tail', '--format', 'json', '--from', from, '--state', state];
    const one = spawn(process.execPath, [program, ...args], {
      cwd: directory,
      env: environment(),
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    child = one;
    let before = '';
    await until(async () => {
      const now = existsSync(state) ? readFileSync(state, 'utf8') : '';
      const isStalled = now !== '' && now === before;
      before = now;
      return isStalled || undefined;
    });
    expect(before.trim()).not.toBe(positionOf(published));
    const exited = once(one, 'exit');
    one.kill('SIGTERM');
    expect(await exited).toEqual([143, null]);
  });
});

/** The cursor of the newest event. */
async function present(): Promise<string> {
  const state = join(directory, `present-${published}`);
  const { process: one } = start(['tail', '--state', state]);
  await until(async () => existsSync(state) || undefined);
  await kill(one);
  return readFileSync(state, 'utf8').trim();
}
