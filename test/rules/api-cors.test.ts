// Reading the api from pages of other origins: closed by default, open to the configured ones.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { issueKey, startApi } from '../support/api-harness.ts';
import { forFile } from '../support/for-file.ts';
import { startNats } from '../support/stack.ts';

const PAGE = 'https://page.example';

const nats = forFile(startNats);
let closed: Awaited<ReturnType<typeof startApi>>;
let open: Awaited<ReturnType<typeof startApi>>;
let key: string;

beforeAll(async () => {
  // Nothing here queries ClickHouse.
  const options = { clickhouseUrl: 'http://127.0.0.1:9', nats };
  closed = await startApi(options);
  open = await startApi({ ...options, corsOrigins: [PAGE] });
  key = await issueKey(nats.bucket, 'pro');
});

afterAll(async () => {
  await closed?.stop();
  await open?.stop();
});

function preflight(url: string, origin: string) {
  return fetch(`${url}/v1/stream/orders`, {
    method: 'OPTIONS',
    headers: {
      Origin: origin,
      'Access-Control-Request-Method': 'GET',
      'Access-Control-Request-Headers': 'x-service-key,last-event-id,if-none-match',
    },
  });
}

async function listen(url: string, origin: string): Promise<Headers> {
  const leaving = new AbortController();
  const { status, headers } = await fetch(`${url}/v1/stream/orders`, {
    headers: { Origin: origin, 'X-Service-Key': key },
    signal: leaving.signal,
  });
  leaving.abort();
  expect(status).toBe(200);
  return headers;
}

describe('a page of a configured origin', () => {
  test('may send a key and a position; the preflight needs no key', async () => {
    const { status, headers } = await preflight(open.url, PAGE);
    expect(status).toBe(204);
    expect(headers.get('access-control-allow-origin')).toBe(PAGE);
    const allowed = headers.get('access-control-allow-headers')?.toLowerCase().split(',');
    expect(allowed).toEqual(
      expect.arrayContaining(['x-service-key', 'authorization', 'last-event-id', 'if-none-match']),
    );
    expect(headers.get('access-control-allow-credentials')).toBeNull();
  });

  test('may read an event stream, and the headers of an error', async () => {
    const headers = await listen(open.url, PAGE);
    expect(headers.get('access-control-allow-origin')).toBe(PAGE);
    expect(headers.get('vary')).toContain('Origin');
    expect(headers.get('content-type')).toBe('text/event-stream');
    const refused = await fetch(`${open.url}/streams`, { headers: { Origin: PAGE } });
    expect(refused.status).toBe(401);
    expect(refused.headers.get('access-control-allow-origin')).toBe(PAGE);
    const exposed = refused.headers.get('access-control-expose-headers')?.split(',');
    expect(exposed).toEqual(expect.arrayContaining(['Retry-After', 'ETag']));
  });
});

test.each([
  ['another origin', () => open.url, 'https://other.example'],
  ['any origin where none is configured', () => closed.url, PAGE],
])('a page of %s may read nothing', async (_, url, origin) => {
  expect((await preflight(url(), origin)).headers.get('access-control-allow-origin')).toBeNull();
  expect((await listen(url(), origin)).get('access-control-allow-origin')).toBeNull();
});
