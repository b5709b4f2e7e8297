// The order feed read with the standard libraries of Python and Go, line by line, across disconnects,
// another process and a revoked key.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { hashKey } from '../../api/auth/keys.ts';
import { encodeMatch } from '../../api/feed/encode.ts';
import { issueKey, startApi, startNats, temporaryDirectory } from '../support/api-harness.ts';
import { positionOf, publish } from '../support/feed-harness.ts';
import { Front } from '../support/front.ts';
import { match } from '../unit/feed-matches.ts';

/** Nothing here queries ClickHouse. */
const NOWHERE = 'http://127.0.0.1:9';

/** Each prints what it reads as lines of JSON. Go builds the reader first, which takes a while. */
const READERS = [
  { program: 'python3', version: '--version', args: ['sse-reader.py'], debian: 'python3' },
  { program: 'go', version: 'version', args: ['run', 'sse-reader.go'], debian: 'golang-go' },
];

let directory: Awaited<ReturnType<typeof temporaryDirectory>>;
let nats: Awaited<ReturnType<typeof startNats>>;
let front: Front;
let reader: ChildProcess | undefined;
let published = 0;
const apis: Awaited<ReturnType<typeof startApi>>[] = [];

beforeAll(async () => {
  directory = await temporaryDirectory();
  nats = await startNats(`${directory.path}/nats`);
  front = await Front.listen();
  await trade();
  front.target = (await start()).url;
});

afterAll(async () => {
  front?.close();
  await Promise.all(apis.map((api) => api.stop()));
  await nats?.stop();
  await directory?.remove();
});

/** The parts of another process. */
async function start() {
  const api = await startApi({ clickhouseUrl: NOWHERE, nats });
  apis.push(api);
  return api;
}

/** Publishes a match; returns the event that a reader has to print. */
async function trade() {
  published += 1;
  await publish(nats.nats, 'FEED', [match(published)]);
  const data = JSON.parse(encodeMatch(match(published), 'compact', ''));
  return { id: positionOf(published), event: 'order', data };
}

async function revoke(key: string): Promise<void> {
  const entry = await nats.bucket.get(hashKey(key));
  const record = JSON.parse(Buffer.from(entry?.value ?? []).toString());
  const revoked_at = new Date().toISOString();
  await nats.bucket.put(hashKey(key), JSON.stringify({ ...record, revoked_at }));
}

describe.each(READERS)('$program', ({ program, version, args, debian }) => {
  const isHere = spawnSync(program, [version]).status === 0;
  if (!isHere) console.info(`skipped: there is no ${program} here (apt-get install ${debian})`);

  // The whole process group: `go run` is not the reader itself.
  afterEach(() => {
    if (reader?.exitCode === null && reader.pid !== undefined) process.kill(-reader.pid);
  });

  test.skipIf(!isHere)('gets each match once, as it was written', async () => {
    const key = await issueKey(nats.bucket, 'pro');
    reader = spawn(program, [...args, `${front.url}/v1/stream/orders`, key], {
      cwd: fileURLToPath(new URL('../support/', import.meta.url)),
      detached: true,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const ended = once(reader, 'exit');
    if (reader.stdout === null) throw new Error(`${program} has no output`);
    const lines = createInterface({ input: reader.stdout })[Symbol.asyncIterator]();
    const next = async () => JSON.parse(String((await lines.next()).value));
    expect(await next()).toEqual({ status: 200 });
    expect(await trade()).toEqual(await next());
    front.cut();
    const missed = await trade();
    expect(await next()).toEqual({ status: 200 });
    expect(await next()).toEqual(missed);
    const former = apis.at(-1);
    front.target = (await start()).url;
    await former?.stop();
    const elsewhere = await trade();
    expect(await next()).toMatchObject({ event: 'end', data: { reason: 'shutdown' } });
    expect(await next()).toEqual({ status: 200 });
    expect(await next()).toEqual(elsewhere);
    await revoke(key);
    expect(await next()).toMatchObject({ event: 'end', data: { reason: 'key_revoked' } });
    expect(await next()).toEqual({ status: 401 });
    await ended;
  });
});
