import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { generateKey } from '../../api/auth/keys.ts';
import { openSlowConnections } from '../release/attack.ts';
import {
  get,
  issueKey,
  startClickHouse,
  startNats,
  temporaryDirectory,
} from '../support/api-harness.ts';
import { type ApiProcess, startApiProcess } from '../support/api-process.ts';

const SLOW_CONNECTIONS = 200;

let directory: Awaited<ReturnType<typeof temporaryDirectory>>;
let clickhouse: Awaited<ReturnType<typeof startClickHouse>>;
let nats: Awaited<ReturnType<typeof startNats>>;
let api: ApiProcess;
let key: string;

beforeAll(async () => {
  directory = await temporaryDirectory();
  clickhouse = await startClickHouse(`${directory.path}/clickhouse`);
  nats = await startNats(`${directory.path}/nats`);
  api = await startMain();
  key = await issueKey(nats.bucket, 'pro');
});

afterAll(async () => {
  await api?.stop();
  await nats?.stop();
  await clickhouse?.stop();
  await directory?.remove();
});

function startMain(more: NodeJS.ProcessEnv = {}): Promise<ApiProcess> {
  const stores = { natsUrl: nats.server.url, clickhouseUrl: clickhouse.url };
  return startApiProcess(stores, more);
}

describe('what a client may hold', () => {
  test('slow connections do not stop the api from serving, and end', async () => {
    const target = { host: '127.0.0.1', port: api.port, keys: [key] } as const;
    const slow = await openSlowConnections(target, { count: SLOW_CONNECTIONS, everyMs: 200 });
    for (let n = 0; n < 20; n += 1) {
      expect((await get(`${api.url}/v1/analytics/leaderboard`, key)).status).toBe(200);
    }
    while (slow.open() > 0) await delay(200);
    slow.close();
  });
});

describe('who a client may be', () => {
  test('a forged X-Forwarded-For changes nothing unless the proxy is trusted', async () => {
    const guess = (url: string, n: number) =>
      get(`${url}/v1/markets/1`, generateKey('pro'), {
        headers: { 'X-Forwarded-For': `10.0.0.${n}` },
      });
    const statuses = async (url: string) => {
      const answers = await Promise.all(Array.from({ length: 60 }, (_, n) => guess(url, n)));
      return new Set(answers.map(({ status }) => status));
    };
    // On a slow machine, sixty requests may take many seconds.
    const seen = new Set<number>();
    while (!seen.has(429)) for (const status of await statuses(api.url)) seen.add(status);
    expect(seen).toEqual(new Set([401, 429]));
    const behind = await startMain({ TRUSTED_PROXIES: '127.0.0.1' });
    expect(await statuses(behind.url)).toEqual(new Set([401]));
    await behind.stop();
  });

  test('all invalid keys get the same response and cost at most one lookup', async () => {
    const known = await issueKey(nats.bucket, 'pro', { revoked_at: '2026-01-01T00:00:00Z' });
    const wrong = [generateKey('pro'), generateKey('demo'), known, `${key}x`, key.slice(0, -1)];
    await delay(1_100);
    for (const one of wrong) {
      const { status, text, headers } = await get(`${api.url}/v1/markets/1`, one);
      expect([status, headers.get('www-authenticate')]).toEqual([
        401,
        'ApiKey header="X-Service-Key"',
      ]);
      expect(text).not.toContain(one);
    }
  });

  test('scripts of other sites may read nothing', async () => {
    const headers = { Origin: 'https://evil.example', 'Access-Control-Request-Method': 'GET' };
    for (const method of ['GET', 'OPTIONS']) {
      const answer = await get(`${api.url}/v1/analytics/leaderboard`, key, { method, headers });
      expect(answer.headers.get('access-control-allow-origin')).toBeNull();
    }
    const { headers: sent } = await get(`${api.url}/v1/analytics/leaderboard`, key);
    expect(sent.get('x-content-type-options')).toBe('nosniff');
    expect(sent.get('x-frame-options')).toBe('DENY');
    expect(sent.get('strict-transport-security')).toMatch(/max-age=\d+/);
    expect(sent.get('content-security-policy')).toBe("default-src 'none';frame-ancestors 'none'");
    expect(sent.get('x-powered-by')).toBeNull();
    for (const path of ['/', '/docs']) {
      const { headers: page } = await fetch(`${api.url}${path}`);
      expect(page.get('referrer-policy')).toBe('no-referrer');
      expect(page.get('cross-origin-opener-policy')).toBe('same-origin');
    }
  });
});

describe('what the processes may reach', () => {
  test('NATS requires its password, and the api connects with it', async () => {
    const { startNatsServer } = await import('../../infra/local/nats-server.ts');
    const { connectNats, NatsRefusedError } = await import('../../infra/nats/connection.ts');
    const server = await startNatsServer({
      dataDir: `${directory.path}/closed`,
      configExtra: 'authorization { user: "fillstream", password: "a password" }',
    });
    const without = connectNats({ url: server.url, name: 'nobody', isPatient: false });
    await expect(without).rejects.toThrow(NatsRefusedError);
    const own = await startMain({
      ...{ NATS_URL: server.url, NATS_USER: 'fillstream', NATS_PASSWORD: 'a password' },
    });
    expect((await get(`${own.url}/readyz`, undefined)).body.checks.nats.ready).toBe(true);
    expect(own.log()).not.toContain('a password');
    await own.stop();
    await server.stop();
  });

  test('secrets in configured URLs appear in no log', async () => {
    const hole = createHttpServer((_request, response) => response.destroy());
    hole.listen(0, '127.0.0.1');
    await once(hole, 'listening');
    const { port } = hole.address() as AddressInfo;
    const own = await startMain({
      CLICKHOUSE_URL: `http://default:very-secret@127.0.0.1:${port}`,
    });
    const { status } = await get(`${own.url}/v1/analytics/leaderboard`, key);
    expect(status).toBe(503);
    await own.stop();
    hole.close();
    expect(own.log()).toContain('analytics store');
    expect(own.log()).not.toContain('very-secret');
  });
});
