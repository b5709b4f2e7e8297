// The order feed read by Python's standard library, line by line, through cuts, another process and
// a revoked key.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { encodeMatch } from '../../api/feed/encode.ts';
import { hashKey } from '../../api/keys.ts';
import { match } from '../unit/feed-matches.ts';
import { issueKey, startApi, startNats, temporaryDirectory } from './api-harness.ts';
import { positionOf, publish } from './feed-harness.ts';
import { Front } from './front.ts';

/** Nothing here asks ClickHouse. */
const NOWHERE = 'http://127.0.0.1:9';

const hasPython = spawnSync('python3', ['--version']).status === 0;
if (!hasPython) console.info('skipped: there is no python3 on this machine');

let directory: Awaited<ReturnType<typeof temporaryDirectory>>;
let nats: Awaited<ReturnType<typeof startNats>>;
let front: Front;
let reader: ChildProcess | undefined;
const apis: Awaited<ReturnType<typeof startApi>>[] = [];

beforeAll(async () => {
  directory = await temporaryDirectory();
  nats = await startNats(`${directory.path}/nats`);
  front = await Front.listen();
  await trade(1);
  front.target = (await start()).url;
});

afterAll(async () => {
  reader?.kill();
  front?.close();
  await Promise.all(apis.map((api) => api.stop()));
  await nats?.stop();
  await directory?.remove();
});

/** Another process's worth of parts. */
async function start() {
  const api = await startApi({ clickhouseUrl: NOWHERE, nats });
  apis.push(api);
  return api;
}

async function trade(n: number): Promise<void> {
  await publish(nats.nats, 'FEED', [match(n)]);
}

async function revoke(key: string): Promise<void> {
  const entry = await nats.bucket.get(hashKey(key));
  const record = JSON.parse(Buffer.from(entry?.value ?? []).toString());
  const revoked_at = new Date().toISOString();
  await nats.bucket.put(hashKey(key), JSON.stringify({ ...record, revoked_at }));
}

test.skipIf(!hasPython)('python3 gets each match once, as it was written', async () => {
  const key = await issueKey(nats.bucket, 'pro');
  const script = fileURLToPath(new URL('sse-reader.py', import.meta.url));
  reader = spawn('python3', [script, `${front.url}/v1/stream/orders`, key], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(reader, 'exit');
  if (reader.stdout === null) throw new Error('python3 has no output');
  const lines = createInterface({ input: reader.stdout })[Symbol.asyncIterator]();
  const next = async () => JSON.parse(String((await lines.next()).value));
  const event = (n: number) => ({
    id: positionOf(n),
    event: 'order',
    data: JSON.parse(encodeMatch(match(n), 'compact')),
  });
  expect(await next()).toEqual({ status: 200 });
  await trade(2);
  expect(await next()).toEqual(event(2));
  front.cut();
  await trade(3);
  expect(await next()).toEqual({ status: 200 });
  expect(await next()).toEqual(event(3));
  const former = apis.at(-1);
  front.target = (await start()).url;
  await former?.stop();
  await trade(4);
  expect(await next()).toEqual({ status: 200 });
  expect(await next()).toEqual(event(4));
  await revoke(key);
  expect(await next()).toEqual({ status: 401 });
  await ended;
});
