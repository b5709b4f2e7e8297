import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { Duplex } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { generateKey } from '../../api/auth/keys.ts';
import { ADDRESSES_MAX } from '../../api/feed/parameters.ts';
import { createLimitedServer, type ServerLimits } from '../../api/http/server.ts';
import { startNatsServer } from '../../local/nats-server.ts';
import { openSlowConnections, sendBadRequests } from '../release/attack.ts';
import { get, issueKey, type Stores, startStores } from '../support/api-harness.ts';
import { type ApiProcess, startApiProcess } from '../support/api-process.ts';
import { SEED as TEST_SEED } from '../support/seed.ts';

const BAD_REQUESTS = 1_500;

let stores: Stores;
let nats: Stores['nats'];
let api: ApiProcess;
let key: string;

beforeAll(async () => {
  stores = await startStores();
  ({ nats } = stores);
  api = await startMain();
  key = await issueKey(nats.bucket, 'pro');
});

afterAll(async () => {
  await api?.stop();
  await stores?.stop();
});

function startMain(more: NodeJS.ProcessEnv = {}): Promise<ApiProcess> {
  const urls = { natsUrl: nats.server.url, clickhouseUrl: stores.clickhouse.url };
  return startApiProcess(urls, more);
}

/**
 * Sends bytes and reads until the server closes the connection; retries while the rate of this address is used up. ''
 * if there is no response.
 */
async function raw(port: number, bytes: string): Promise<string> {
  for (;;) {
    const answer = await sent(port, bytes);
    if (!answer.startsWith('HTTP/1.1 429 ')) return answer;
    await delay(100);
  }
}

async function sent(port: number, bytes: string): Promise<string> {
  const socket = connect(port, '127.0.0.1');
  let answer = '';
  socket.on('data', (chunk) => {
    answer += chunk.toString('latin1');
  });
  socket.on('error', () => undefined);
  socket.write(Buffer.from(bytes, 'latin1'));
  // Not `once`, because a reset is also a valid end.
  await new Promise((done) => socket.on('close', done));
  return answer;
}

/** A server with small versions of the api's limits that always responds with `ok`. */
async function limited(limits: Partial<ServerLimits>) {
  const { server, caps } = createLimitedServer(
    (request, response) => void request.resume().on('end', () => response.end('ok')),
    { connectionsPerAddressMax: 100, trustedProxies: [], ...limits },
  );
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    port,
    caps,
    connections: () => promisify(server.getConnections.bind(server))(),
    stop() {
      server.closeAllConnections();
      server.close();
    },
  };
}

describe('what a client may send', () => {
  test('random bad requests are rejected: no 5xx, no leak, and the api keeps serving', async () => {
    const seed = TEST_SEED;
    const others = Array.from({ length: 20 }, () => issueKey(nats.bucket, 'pro'));
    const keys: [string, ...string[]] = [key, ...(await Promise.all(others))];
    const target = { host: '127.0.0.1', port: api.port, keys };
    const attack = await sendBadRequests(target, { count: BAD_REQUESTS, parallel: 16, seed });
    console.log(`seed ${seed}`, Object.fromEntries([...attack.statuses].sort()));
    expect([...attack.statuses.keys()].filter((status) => status >= 500)).toEqual([]);
    expect(attack.unanswered).toEqual([]);
    expect(attack.leaks).toEqual([]);
    // The requests used up the rate of the key.
    const served = () => get(`${api.url}/v1/analytics/leaderboard`, key);
    await expect.poll(async () => (await served()).status).toBe(200);
    expect(api.log()).not.toContain(key);
  });

  test('headers of more than 16 KiB are rejected', async () => {
    const big = `GET / HTTP/1.1\r\nHost: x\r\nX-Big: ${'b'.repeat(17_000)}\r\n\r\n`;
    expect(await raw(api.port, big)).toMatch(/^HTTP\/1\.1 431 [\s\S]*\r\nX-Request-Id: /);
  });

  test.each([
    [['https://a.example', 'https://b.example'], 'https://b.example', 'https://b.example'],
    [['https://a.example'], 'https://evil.example', 'https://a.example'],
    [['*'], 'https://a.example', '*'],
  ])('a page of %j can read that refusal, but no other', async (corsOrigins, origin, allowed) => {
    const server = await limited({ corsOrigins });
    const big = `GET / HTTP/1.1\r\nHost: x\r\nOrigin: ${origin}\r\nX-Big: ${'b'.repeat(17_000)}\r\n\r\n`;
    const answer = await raw(server.port, big);
    server.stop();
    expect(answer).toMatch(/^HTTP\/1\.1 431 /);
    expect(answer).toContain(`\r\nAccess-Control-Allow-Origin: ${allowed}\r\n`);
    expect(answer).toMatch(/\r\nAccess-Control-Expose-Headers: .*X-Request-Id/);
  });

  test('the longest list of wallets fits, however it is escaped', async () => {
    const traders = Array(ADDRESSES_MAX)
      .fill(`0x${'a'.repeat(40)}`)
      .join('%2C');
    const request = `GET /v1/stream/orders?traders=${traders} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`;
    expect(await raw(api.port, request)).toMatch(/^HTTP\/1\.1 401 /);
  });

  test.each(['FOO', 'PROPFIND', 'CONNECT'])('the method %s gets a problem', async (method) => {
    const target = method === 'CONNECT' ? 'x:1' : '/v1/markets/1';
    const head = `${method} ${target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`;
    const answer = await raw(api.port, head);
    expect(answer).toMatch(
      /^HTTP\/1\.1 405 .*\r\n(.*\r\n)*Content-Type: application\/problem\+json/i,
    );
    expect(answer).toMatch(/\r\nAllow: .*GET/);
    const body = answer.slice(answer.indexOf('{'), answer.lastIndexOf('}') + 1);
    expect(JSON.parse(body)).toMatchObject({ error: 'method_not_allowed', status: 405 });
  });

  test('a client that resets its connection after CONNECT does not stop the api', async () => {
    const { server } = createLimitedServer(() => undefined, {
      ...{ connectionsPerAddressMax: 1, trustedProxies: [] },
    });
    // The socket as Node passes it on, without an error listener.
    const socket = new Duplex({
      read: () => undefined,
      write: (_chunk, _encoding, done) => done(new Error('ECONNRESET')),
    });
    server.emit('connect', {}, socket, Buffer.alloc(0));
    await new Promise((done) => socket.on('close', done));
    expect(socket.errored?.message).toBe('ECONNRESET');
  });

  test.each(['GET / HTTP/1.1\r\nHost: x\r\nA b\r\n\r\n', 'hello\r\n\r\n'])(
    'bytes that are not HTTP get a problem: %j',
    async (bytes) => {
      const answer = await raw(api.port, bytes);
      expect(answer).toMatch(/^HTTP\/1\.1 400 /);
      const body = JSON.parse(answer.slice(answer.indexOf('{')));
      expect(body).toMatchObject({ error: 'invalid_request', status: 400 });
    },
  );

  test('a URL with unencoded letters gets a problem that explains how to encode them', async () => {
    const answer = await raw(api.port, 'GET /v2/search?q=M\xfcller HTTP/1.1\r\nHost: x\r\n\r\n');
    expect(answer).toMatch(/^HTTP\/1\.1 400 /);
    expect(JSON.parse(answer.slice(answer.indexOf('{'))).detail).toContain('percent-encoded');
  });

  test.each([
    ['both lengths', 'Content-Length: 3\r\nTransfer-Encoding: chunked'],
    ['two lengths', 'Content-Length: 3\r\nContent-Length: 4'],
    ['a signed length', 'Content-Length: +3'],
    ['an unknown coding', 'Transfer-Encoding: cow'],
    ['a space before the colon', 'Transfer-Encoding : chunked'],
    ['a folded field', 'X-A: 1\r\n Transfer-Encoding: chunked'],
  ])('a request with %s cannot hide another one', async (_, field) => {
    const hidden = 'GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n';
    const head = `POST /v2/user/keys HTTP/1.1\r\nHost: x\r\n${field}\r\nConnection: close\r\n\r\n`;
    const answer = await raw(api.port, `${head}0\r\n\r\n${hidden}`);
    expect(answer).toMatch(/^HTTP\/1\.1 (400|411|413|501) /);
    expect(answer).not.toContain('alive');
  });

  test('unknown and special members are refused', async () => {
    const body = '{"label":"x","__proto__":{"tier":"pro"},"constructor":{"a":1},"tier":"pro"}';
    const demo = await issueKey(nats.bucket, 'demo');
    const headers = { 'Content-Type': 'application/json' };
    const answer = await get(`${api.url}/v2/user/keys`, demo, { method: 'POST', body, headers });
    const named = answer.body.issues.map(({ path }: { path: string }) => path);
    expect([answer.status, named]).toEqual([400, ['__proto__', 'constructor', 'tier']]);
    expect(({} as Record<string, unknown>).tier).toBeUndefined();
  });
});

describe('what a client may hold', () => {
  test('an unfinished request head is cut, and others are served meanwhile', async () => {
    const server = await limited({ headMsMax: 500 });
    const target = { host: '127.0.0.1', port: server.port, keys: [key] } as const;
    const slow = await openSlowConnections(target, { count: 50, everyMs: 50 });
    expect(await (await fetch(`http://127.0.0.1:${server.port}/`)).text()).toBe('ok');
    while (slow.open() > 0) await delay(50);
    slow.close();
    server.stop();
  });

  test('a silent connection and an unfinished body are cut', async () => {
    const server = await limited({ headMsMax: 400, requestMsMax: 800 });
    expect(await raw(server.port, '')).toMatch(/^(HTTP\/1\.1 408 |$)/);
    const unfinished = 'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc';
    expect(await raw(server.port, unfinished)).toMatch(/^(HTTP\/1\.1 408 |$)/);
    server.stop();
  });

  test('a client that does not read its response is cut', async () => {
    const { server } = createLimitedServer(
      (_request, response) => void response.end(Buffer.alloc(64 * 1_048_576)),
      { connectionsPerAddressMax: 10, trustedProxies: [], idleMsMax: 500 },
    );
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const socket = connect(port, '127.0.0.1').pause();
    socket.on('error', () => undefined);
    socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
    const [accepted] = await once(server, 'connection');
    await once(accepted, 'close');
    socket.destroy();
    server.close();
  });

  test('connections per address are limited, except for trusted proxies', async () => {
    const server = await limited({ connectionsPerAddressMax: 5 });
    const target = { host: '127.0.0.1', port: server.port, keys: [key] } as const;
    const held = await openSlowConnections(target, { count: 5, everyMs: 1_000 });
    while (held.open() < 5) await delay(10);
    expect(await raw(server.port, 'GET / HTTP/1.1\r\nHost: x\r\n\r\n')).toBe('');
    expect(server.caps.refused).toBe(1);
    held.close();
    while ((await server.connections()) > 0) await delay(10);
    expect(await raw(server.port, 'GET / HTTP/1.0\r\n\r\n')).toMatch(/^HTTP\/1\.1 200 /);
    server.stop();

    const trusting = await limited({
      connectionsPerAddressMax: 1,
      trustedProxies: ['127.0.0.0/8'],
    });
    const many = { host: '127.0.0.1', port: trusting.port, keys: [key] } as const;
    const passed = await openSlowConnections(many, { count: 20, everyMs: 1_000 });
    while ((await trusting.connections()) + trusting.caps.refused < 20) await delay(10);
    expect([passed.open(), trusting.caps.refused]).toEqual([20, 0]);
    passed.close();
    trusting.stop();
  });
});

describe('who a client may be', () => {
  // First, because the other test uses up the lookups of its address.
  test('all invalid keys get the same response and cost at most one lookup', async () => {
    const known = await issueKey(nats.bucket, 'pro', { revoked_at: '2026-01-01T00:00:00Z' });
    const wrong = [generateKey('pro'), generateKey('demo'), known, `${key}x`, key.slice(0, -1)];
    for (const one of wrong) {
      const { status, text, headers } = await get(`${api.url}/v1/markets/1`, one);
      expect([status, headers.get('www-authenticate')]).toEqual([
        401,
        'ApiKey header="X-Service-Key"',
      ]);
      expect(text).not.toContain(one);
    }
  });

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
    for (const path of ['/', '/docs', '/docs/streams']) {
      const { headers: page } = await fetch(`${api.url}${path}`);
      expect(page.get('referrer-policy')).toBe('no-referrer');
      expect(page.get('cross-origin-opener-policy')).toBe('same-origin');
    }
  });
});

describe('what the processes may reach', () => {
  test('the api connects to NATS with its password, which appears in no log', async () => {
    const server = await startNatsServer({
      dataDir: `${stores.path}/closed`,
      configExtra: 'authorization { user: "fillstream", password: "a password" }',
    });
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
