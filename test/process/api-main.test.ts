/** The api as a process: what it tells when it listens, serves, and how it ends. */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { hashKey } from '../../api/auth/keys.ts';
import { reportState } from '../../infra/nats/states.ts';
import { emptyBlock } from '../../ingest/ledger.ts';
import {
  DATABASE,
  get,
  issueKey,
  startClickHouse,
  startNats,
  temporaryDirectory,
} from '../support/api-harness.ts';
import { blockHash } from '../support/ledger-generator.ts';
import { TestLedger } from '../support/publish-ledger.ts';
import { until } from '../support/service.ts';

const MAIN = fileURLToPath(new URL('../../api/main.ts', import.meta.url));

let directory: Awaited<ReturnType<typeof temporaryDirectory>>;
let clickhouse: Awaited<ReturnType<typeof startClickHouse>>;
let nats: Awaited<ReturnType<typeof startNats>>;

beforeAll(async () => {
  directory = await temporaryDirectory();
  clickhouse = await startClickHouse(`${directory.path}/clickhouse`);
  nats = await startNats(`${directory.path}/nats`);
});

afterAll(async () => {
  await nats?.stop();
  await clickhouse?.stop();
  await directory?.remove();
});

function environment(extra: Readonly<Record<string, string>>) {
  return {
    ...process.env,
    ...{ NATS_URL: nats.server.url, CLICKHOUSE_URL: clickhouse.url, HTTP_PORT: '0' },
    ...{ CLICKHOUSE_DATABASE: DATABASE, LOG_LEVEL: 'info', ...extra },
  };
}

async function startMain(extra: Readonly<Record<string, string>> = {}) {
  const child = spawn(process.execPath, [MAIN], {
    env: environment(extra),
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
  });
  let log = '';
  child.stdout?.on('data', (text) => {
    log += String(text);
  });
  const [message] = await once(child, 'message');
  return { child, message, url: `http://127.0.0.1:${message.port}`, log: () => log };
}

async function ended(child: ChildProcess): Promise<{ code: number | null }> {
  const [code] = await once(child, 'exit');
  return { code };
}

describe('api/main', () => {
  test('reports its port, serves, streams, and exits on SIGTERM with a stream open', async () => {
    const api = await startMain();
    expect(api.message).toEqual({ event: 'listening', port: expect.any(Number) });
    const key = await issueKey(nats.bucket, 'pro');
    expect((await get(`${api.url}/v1/analytics/leaderboard`, key)).body).toEqual({
      traders: [],
      total_count: 0,
    });

    const stream = await fetch(`${api.url}/v1/stream/orders`, {
      headers: { 'X-Service-Key': key },
    });
    expect(stream.headers.get('content-type')).toMatch(/^text\/event-stream/);
    const text = stream.text();
    api.child.kill('SIGTERM');
    const { code } = await ended(api.child);
    expect(code).toBe(0);
    expect(await text).toMatch(/^retry: 2000\n\n/);

    const lines = api
      .log()
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(lines.filter((line) => line.event === 'listening')).toHaveLength(1);
    expect(api.log()).not.toContain(key);
  });

  test('is ready while ingest and projector say so and the chain and the analytics are new', async () => {
    const api = await startMain({ CHAIN_AGE_SECONDS_MAX: '4', PROJECTION_AGE_SECONDS_MAX: '900' });
    const key = await issueKey(nats.bucket, 'pro');
    const checks = async () => (await get(`${api.url}/readyz`, undefined)).body.checks;
    const seconds = () => Math.floor(Date.now() / 1_000);
    const stopped = { ready: false, detail: 'process: has not reported' };
    expect(await checks()).toMatchObject({
      chain: { ready: false, detail: 'no block yet' },
      projection: { ready: false, detail: 'no block yet' },
      ...{ ingest: stopped, projector: stopped },
    });

    let reasons: Record<string, string> = { final: 'catching up' };
    const started = seconds();
    const stopIngest = reportState(nats.nats, { name: 'ingest' }, () => ({ reasons }));
    const projectors = [0, 1].map((index) =>
      reportState(nats.nats, { name: 'projector', index, count: 2 }, () => ({
        ...{ reasons: {}, reached: started - index },
      })),
    );
    const ledger = await TestLedger.open(nats.nats);
    await ledger.publish([emptyBlock({ number: 1, hash: blockHash(1), time: started })]);
    ledger.close();
    await until(async () =>
      (await checks()).ingest.detail === 'final: catching up' ? true : undefined,
    );
    reasons = {};
    await until(async () => ((await checks()).ingest.ready ? true : undefined));

    const chain = async () => (await checks()).chain.detail;
    await expect.poll(chain).toMatch(/^\d+ s old, more than 4 s$/);
    expect((await checks()).projection.ready).toBe(true);
    await until(async () => ((await checks()).projector.ready ? true : undefined));
    const { body: status } = await get(`${api.url}/v2/status`, key);
    expect(status.chain).toMatchObject({ final_block: 1, age_seconds_max: 4 });
    expect(status.projection).toMatchObject({ age_seconds_max: 900 });
    expect(status.projection.age_seconds).toBeGreaterThanOrEqual(status.chain.age_seconds);
    const processes = async () => (await get(`${api.url}/v2/status`, key)).body.processes;
    await expect.poll(processes).toEqual([
      { name: 'ingest', ready: true, reason: '' },
      { name: 'projector 0/2', ready: true, reason: '' },
      { name: 'projector 1/2', ready: true, reason: '' },
    ]);

    stopIngest();
    projectors[1]?.();
    await until(async () =>
      (await checks()).ingest.detail === 'process: stopped' ? true : undefined,
    );
    const projector = async () => (await checks()).projector.detail;
    await expect.poll(projector).toBe('projector 1/2: process: stopped');
    // A process that is stalled says nothing at all.
    await until(async () =>
      /^process: silent for \d+ s$/.test((await checks()).ingest.detail) ? true : undefined,
    );
    projectors[0]?.();
    api.child.kill('SIGTERM');
    await ended(api.child);
  });

  test('says in one line why it cannot start', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    const { port } = other.address() as AddressInfo;
    const env = environment({ HTTP_PORT: String(port) });
    const failed = await promisify(execFile)(process.execPath, [MAIN], { env }).catch(
      (error: { code: number; stderr: string }) => error,
    );
    expect(failed).toMatchObject({
      code: 1,
      stderr: `api: listen EADDRINUSE: address already in use 127.0.0.1:${port}\n`,
    });
    other.close();
  });

  test('ends the open stream of a revoked key', async () => {
    const api = await startMain();
    const key = await issueKey(nats.bucket, 'pro');
    const stream = await fetch(`${api.url}/v1/stream/orders`, {
      headers: { 'X-Service-Key': key },
    });
    await issueRevocation(key);
    await stream.text();
    const answer = await get(`${api.url}/v1/markets/1`, key);
    expect([answer.status, answer.body.detail]).toEqual([
      401,
      'the key in X-Service-Key was revoked',
    ]);
    api.child.kill('SIGTERM');
    expect((await ended(api.child)).code).toBe(0);
  });

  test('exits when its supervisor goes away', async () => {
    const { child } = await startMain();
    child.disconnect();
    expect((await ended(child)).code).toBe(0);
  });
});

async function issueRevocation(key: string): Promise<void> {
  await nats.bucket.put(
    hashKey(key),
    JSON.stringify({
      ...{ label: 'test', tier: 'pro', account: 'account-pro' },
      ...{ created_at: '2026-01-01T00:00:00Z', revoked_at: new Date().toISOString() },
    }),
  );
}
