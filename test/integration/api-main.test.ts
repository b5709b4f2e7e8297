/** The api as a process: what it tells when it listens, serves, and how it ends. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { hashKey } from '../../api/auth/keys.ts';
import {
  DATABASE,
  get,
  issueKey,
  startClickHouse,
  startNats,
  temporaryDirectory,
} from './api-harness.ts';

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

async function startMain() {
  const child = spawn(process.execPath, [MAIN], {
    env: {
      ...process.env,
      ...{ NATS_URL: nats.server.url, CLICKHOUSE_URL: clickhouse.url, HTTP_PORT: '0' },
      ...{ CLICKHOUSE_DATABASE: DATABASE, LOG_LEVEL: 'info' },
    },
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
  });
  let log = '';
  child.stdout?.on('data', (text) => {
    log += String(text);
  });
  const [message] = await once(child, 'message');
  return { child, message, url: `http://127.0.0.1:${message.port}`, log: () => log };
}

async function ended(child: ChildProcess): Promise<{ code: number | null; ms: number }> {
  const startMs = performance.now();
  const [code] = await once(child, 'exit');
  return { code, ms: performance.now() - startMs };
}

describe('api/main', () => {
  test('reports its port, serves, streams, and exits in time on SIGTERM', async () => {
    const api = await startMain();
    expect(api.message).toEqual({ event: 'listening', port: expect.any(Number) });
    const key = await issueKey(nats.bucket, 'pro');
    expect((await get(`${api.url}/readyz`, undefined)).body.status).toBe('ready');
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
    const { code, ms } = await ended(api.child);
    expect(code).toBe(0);
    expect(ms).toBeLessThan(2_500);
    expect(await text).toMatch(/^retry: 2000\n\n/);

    const lines = api
      .log()
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(lines.filter((line) => line.event === 'listening')).toHaveLength(1);
    expect(api.log()).not.toContain(key);
  });

  test('ends the open stream of a revoked key within a second', async () => {
    const api = await startMain();
    const key = await issueKey(nats.bucket, 'pro');
    const stream = await fetch(`${api.url}/v1/stream/orders`, {
      headers: { 'X-Service-Key': key },
    });
    const startMs = performance.now();
    await issueRevocation(key);
    await stream.text();
    expect(performance.now() - startMs).toBeLessThan(1_000);
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
