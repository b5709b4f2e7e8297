/**
 * The life of a key, as an operator manages it with `npm run keys` and its help, with a real
 * nats-server and two api processes.
 */
import { execFile } from 'node:child_process';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { generateKey, KEYS_BUCKET, keyIdOf, storeKey } from '../../api/auth/keys.ts';
import { connectNats } from '../../infra/nats/connection.ts';
import { openKv } from '../../infra/nats/kv.ts';
import { start, temporaryDirectory } from '../support/service.ts';
import { type Parts, startParts } from '../support/stack.ts';

const run = promisify(execFile);
const KEY = /fs_pro_[1-9A-HJ-NP-Za-km-z]{40,44}/;
const ID = /key ([0-9a-f]{16})/;

let directory: ReturnType<typeof temporaryDirectory>;
let parts: Parts;
let second: ReturnType<typeof start>;
let urls: readonly string[];

beforeAll(async () => {
  directory = temporaryDirectory();
  parts = await startParts(directory.path, ['api']);
  second = start('api/main.ts', [], parts.env);
  const { port } = await second.event('listening');
  urls = [parts.apiUrl, `http://127.0.0.1:${port}`];
});

afterAll(async () => {
  await second?.stop();
  await parts?.stop();
  directory?.remove();
});

function keys(...args: string[]) {
  return keysAt(parts.env.NATS_URL, args);
}

async function keysAt(
  natsUrl: string,
  args: readonly string[],
): Promise<{ code: number; out: string; error: string }> {
  try {
    const options = { env: { ...process.env, NATS_URL: natsUrl } };
    const { stdout } = await run(process.execPath, ['ops/keys.ts', ...args], options);
    return { code: 0, out: stdout, error: '' };
  } catch (error) {
    const { code, stdout, stderr } = error as { code: number; stdout: string; stderr: string };
    return { code, out: stdout, error: stderr };
  }
}

/** Statuses of both api processes. */
function statuses(key: string): Promise<readonly number[]> {
  return Promise.all(
    urls.map(async (url) => {
      const headers = { 'X-Service-Key': key };
      return (await fetch(`${url}/v1/analytics/leaderboard`, { headers })).status;
    }),
  );
}

test('issue, use, rotate with both valid, expire, revoke with an open stream', async () => {
  expect((await keys()).out).toMatch(/npm run keys -- issue --tier TIER --account NAME/);

  const issued = await keys('issue', '--tier', 'pro', '--account', 'acme', '--label', 'laptop');
  const key = KEY.exec(issued.out)?.[0] ?? '';
  const id = ID.exec(issued.out)?.[1] ?? '';
  expect(issued.out).toContain('not shown again');
  expect(await statuses(key)).toEqual([200, 200]);

  const listed = await keys('list', '--account', 'acme');
  expect(listed.out.split('\n')[1]).toMatch(new RegExp(`^${id} +valid +pro +acme +laptop `));
  expect(listed.out).not.toMatch(KEY);

  const rotated = await keys('rotate', id, '--grace', '1h');
  const successor = KEY.exec(rotated.out)?.[0] ?? '';
  const successorId = ID.exec(rotated.out)?.[1] ?? '';
  expect(successor).not.toBe(key);
  expect(await statuses(key)).toEqual([200, 200]);
  expect(await statuses(successor)).toEqual([200, 200]);

  expect((await keys('expire', id, '--at', '0s')).code).toBe(0);
  await allAnswer(key, 401);
  expect(await statuses(successor)).toEqual([200, 200]);

  const streams = await Promise.all(
    urls.map((url) =>
      fetch(`${url}/v1/stream/orders`, { headers: { 'X-Service-Key': successor } }),
    ),
  );
  expect(streams.map(({ status }) => status)).toEqual([200, 200]);
  expect((await keys('revoke', successorId)).out).toContain('was revoked at');
  await Promise.all(streams.map((stream) => stream.text()));
  expect(await statuses(successor)).toEqual([401, 401]);

  const all = JSON.parse((await keys('list', '--account', 'acme', '--all', '--json')).out);
  expect(all.map((one: { status: string }) => one.status)).toEqual(['expired', 'revoked']);
  expect((await keys('list', '--account', 'acme')).out.trim().split('\n')).toHaveLength(1);
});

test('finds the NATS of npm start by its data directory, unless NATS_URL is set', async () => {
  const data = `${directory.path}/started`;
  const args = ['issue', '--tier', 'pro', '--account', 'started', '--data', data];
  const error = `keys: npm start runs no NATS in ${data}: start it, pass its directory with --data DIR, or set NATS_URL\n`;
  expect(await keysAt('', args)).toMatchObject({ code: 1, error });
  const nats = start('local/nats-server.ts', ['--data', `${data}/nats`]);
  await nats.event('listening');
  expect((await keysAt('', args)).out).toMatch(KEY);
  const listed = ['list', '--account', 'started', '--data', data];
  expect((await keysAt('', listed)).out.trim().split('\n')).toHaveLength(2);
  expect((await keys(...listed)).out.trim().split('\n')).toHaveLength(1);
  await nats.stop();
  expect((await keysAt('', args)).code).toBe(1);
});

test('a label cannot control the terminal of an operator', async () => {
  const refused = await keys('issue', '--tier', 'demo', '--account', 'c', '--label', 'a\x1b[2Jb');
  expect(refused).toMatchObject({ code: 2, error: expect.stringContaining('--label: ') });
  // As stored by an api that still took such labels.
  const label = 'red\x1b[31m \x9b2J\u202e\r\nnext';
  const nats = await connectNats({ url: parts.env.NATS_URL, name: 'test' });
  const key = generateKey('demo');
  const keyHash = await storeKey(await openKv(nats, KEYS_BUCKET), key, {
    ...{ label, tier: 'demo', account: 'c', created_at: '2026-05-01T00:00:00Z' },
  });
  await nats.close();
  const listed = await keys('list', '--account', 'c');
  const json = await keys('list', '--account', 'c', '--json');
  const changed = await keys('expire', keyIdOf(keyHash), '--at', '1h');
  expect(changed.out).toContain('red');
  for (const { out } of [listed, json, changed]) expect(out).not.toMatch(/[^\n\P{C}]/u);
  expect(listed.out.trim().split('\n')).toHaveLength(2);
  expect(JSON.parse(json.out)).toMatchObject([{ label }]);
});

test('the rates of a key and of its account hold over two processes', async () => {
  const account = ['--tier', 'individual', '--account', 'busy'];
  const issue = () => keys('issue', ...account);
  const issued = await Promise.all([issue(), issue(), issue()]);
  const own = issued.map(({ out }) => /fs_individual_\w+/.exec(out)?.[0] ?? '');
  await Promise.all(own.map((key) => allAnswer(key, 200)));
  await delay(2_000);
  const startMs = performance.now();
  const admitted = new Map(own.map((key) => [key, 0]));
  // Far above 20 a second, through every process and with every key.
  const senders = own.flatMap((key) =>
    urls.map(async (url) => {
      while (performance.now() - startMs < 3_000) {
        const headers = { 'X-Service-Key': key };
        const { status } = await fetch(`${url}/v1/markets/1`, { headers });
        expect([404, 429]).toContain(status);
        if (status === 404) admitted.set(key, (admitted.get(key) ?? 0) + 1);
      }
    }),
  );
  await Promise.all(senders);
  const seconds = (performance.now() - startMs) / 1_000;
  // A bucket holds a second of requests, in each process.
  const most = (rate: number) => rate * seconds + 2 * rate;
  const all = [...admitted.values()].reduce((sum, count) => sum + count, 0);
  console.log(
    `${[...admitted.values()]} requests in ${seconds.toFixed(1)} s: 20 a second and key, 40 in all`,
  );
  for (const count of admitted.values()) expect(count).toBeLessThanOrEqual(most(20));
  expect(all).toBeLessThanOrEqual(most(40));
  expect(all).toBeGreaterThan(40);
});

describe('the command', () => {
  test.each([
    [['issue', '--tier', 'gold', '--account', 'a'], /--tier/],
    [['issue', '--tier', 'pro'], /--account/],
    [['issue', '--tier', 'pro', '--account', 'a', '--expires', 'soon'], /--expires/],
    [['revoke'], /expected one ID/],
    [['revoke', `fs_pro_${'1'.repeat(43)}`], /expected one ID/],
    [['rotate', '0123456789abcdef', '--grace', 'x'], /--grace/],
    [['expire', '0123456789abcdef'], /--at/],
    [['fly'], /unknown command/],
    [['list', '--colour'], /--colour/],
  ])('explains what is wrong with %j, without repeating a key', async (args, message) => {
    const { code, error } = await keys(...args);
    expect(code).toBe(2);
    expect(error).toMatch(message);
    expect(error).not.toContain('fs_pro_1');
  });

  test('rejects unknown ids and changes of revoked keys', async () => {
    const unknown = await keys('revoke', '0123456789abcdef');
    expect(unknown).toMatchObject({ code: 1, error: 'keys: no key has the id 0123456789abcdef\n' });
    const id = ID.exec((await keys('issue', '--tier', 'demo', '--account', 'b')).out)?.[1] ?? '';
    await keys('revoke', id);
    expect((await keys('expire', id, '--at', 'never')).error).toContain('is revoked');
    expect((await keys('rotate', id)).error).toContain('is revoked');
    expect((await keys('revoke', id)).code).toBe(0);
  });
});

async function allAnswer(key: string, status: number): Promise<void> {
  while ((await statuses(key)).some((one) => one !== status)) await delay(20);
}
