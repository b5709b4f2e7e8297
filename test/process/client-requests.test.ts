/** The client's requests against an api with data: every endpoint, pages, errors and retries. */
import { beforeAll, describe, expect, test } from 'vitest';
import {
  ApiError,
  ConnectionError,
  Fillstream,
  FillstreamError,
  type Options,
} from '../../apps/client/index.ts';
import { ENDPOINTS } from '../../apps/reference/document.ts';
import { addressOf } from '../support/api-bookings.ts';
import { get } from '../support/api-harness.ts';
import { startSeeded } from '../support/api-seeded.ts';
import { forFile } from '../support/for-file.ts';
import { serve } from '../support/http-server.ts';
import { until } from '../support/service.ts';

const TRADER = addressOf(3);
const MARKET = '1002';

const seeded = forFile(startSeeded);
let fillstream: Fillstream;

beforeAll(async () => {
  fillstream = client();
});

function client(options: Partial<Options> = {}): Fillstream {
  return new Fillstream({ url: seeded.api.url, key: seeded.key, ...options });
}

/** A client, and the requests that it has sent. */
function counting() {
  const requests: string[] = [];
  const counted = client({
    fetch: (url, init) => {
      requests.push(`${init.method} ${new URL(url).pathname}`);
      return fetch(url, init);
    },
  });
  return { requests, counted };
}

async function all<Entry>(entries: AsyncIterable<Entry>): Promise<Entry[]> {
  const collected: Entry[] = [];
  for await (const entry of entries) collected.push(entry);
  return collected;
}

test('a DELETE is not retried unless it was certainly not carried out', async () => {
  for (const [status, tries] of [
    [502, 1],
    [429, 5],
  ] as const) {
    let sent = 0;
    const answers = client({
      fetch: async () => {
        sent += 1;
        return new Response('', { status, headers: { 'Retry-After': '0' } });
      },
    });
    await expect(answers.deleteKey('0123456789abcdef')).rejects.toMatchObject({ status });
    expect(sent).toBe(tries);
  }
});

describe('an endpoint', () => {
  test('has a method, whose request the API accepts', async () => {
    const { requests, counted } = counting();
    const { v1 } = counted;
    const stream = await counted.createStream({ name: 'mine', tags: ['crypto'] });
    const made = await counted.createKey({ label: 'a key' });
    const { destination } = await counted.createDestination({
      ...{ name: 'a bot', target: { kind: 'webhook', url: 'https://bot.example/' } },
    });
    const alert = await counted.createAlert({
      ...{ name: 'mine', rule: { type: 'match', traders: [TRADER] } },
      destinations: [destination.id],
    });
    await counted.testAlert(alert.id);
    await Promise.all([
      ...[v1.leaderboard(), v1.trader(TRADER), v1.traderMarkets(TRADER)],
      ...[v1.traderOrders(TRADER, 1002), v1.traderHours(TRADER), v1.market(MARKET)],
      ...[
        v1.marketTraders(MARKET),
        counted.leaderboard(),
        counted.traders({ addresses: [TRADER] }),
      ],
      ...[counted.trader(TRADER), counted.traderMarkets(TRADER), counted.traderPositions(TRADER)],
      ...[counted.traderTrades(TRADER), counted.traderMovements(TRADER)],
      ...[counted.traderAudit(TRADER), counted.positionEvents()],
      ...[counted.traderPnl(TRADER), counted.traderHours(TRADER)],
      ...[counted.traderOrders(TRADER, MARKET), counted.market(MARKET), counted.markets()],
      ...[counted.pnlLines({ traders: TRADER })],
      ...[counted.marketCandles(MARKET), counted.marketTrades(MARKET)],
      ...[counted.biggestTrades(), counted.marketHolders(MARKET)],
      ...[counted.search({ q: 'question' }), counted.me()],
      ...[counted.telemetry(), counted.keys(), counted.tiers(), counted.recentMatches()],
      ...[counted.status(), counted.streams(), counted.streamMeta(stream.id), counted.sessions()],
      ...[counted.endedSessions(), counted.updateStream(stream.id, { enabled: false })],
      ...[counted.updateSubscription(stream.id, { tags: [] })],
      ...[counted.updateKey(made.id, { label: 'another' })],
      ...[counted.alerts(), counted.alert(alert.id), counted.alertEvents()],
      ...[counted.pushKey()],
      ...[counted.updateAlert(alert.id, { enabled: false }), counted.destinations()],
      ...[counted.destination(destination.id), counted.deliveries(destination.id)],
      ...[counted.updateDestination(destination.id, { name: 'my bot' })],
      ...[counted.rotateSecret(destination.id)],
    ]);
    await expect(counted.redeliver(destination.id, 'evt_0')).rejects.toMatchObject({ status: 404 });
    await counted.deleteAlert(alert.id);
    await counted.deleteDestination(destination.id);
    await counted.deleteStream(stream.id);
    await counted.deleteKey(made.id);
    const pattern = (path: string) => new RegExp(`^${path.replaceAll(/:\w+/g, '[^/]+')}$`);
    const unused = ENDPOINTS.filter(({ method = 'get', path }) => {
      const isIt = (request: string) => {
        const [sent, where = ''] = request.split(' ');
        return sent === method.toUpperCase() && pattern(path).test(where);
      };
      return !requests.some(isIt);
    });
    expect(unused.map(({ path }) => path)).toEqual([]);
  });

  test('returns the response of the API', async () => {
    const board = await fillstream.leaderboard({ time_frame: '7D', sort_by: 'roi', limit: 5 });
    const path = '/v2/analytics/leaderboard?time_frame=7D&sort_by=roi&limit=5';
    expect(board).toEqual((await get(seeded.api.url + path, seeded.key)).body);
    expect(board.traders).toHaveLength(5);
    expect(await fillstream.request('GET', path)).toEqual(board);
    const asked = fillstream.traders({ addresses: [TRADER] }).then((one) => one.traders.length);
    expect(await asked).toBe(1);
  });
});

describe('a list', () => {
  test('iterates over all pages, by entries or by pages', async () => {
    const whole = (await fillstream.traderTrades(TRADER, { limit: 1_000 })).trades;
    expect(whole.length).toBeGreaterThan(50);
    const limit = Math.ceil(whole.length / 4);
    expect(await all(fillstream.traderTrades(TRADER, { limit }))).toEqual(whole);
    const pages = await all(fillstream.traderTrades(TRADER, { limit }).pages());
    expect(pages.flatMap(({ trades }) => trades)).toEqual(whole);
    expect(pages).toHaveLength(4);
  });

  test('continues if the body has no cursor, and from an offset', async () => {
    const whole = await fillstream.v1.leaderboard({ limit: 100, time_frame: '7D' });
    const query = { limit: 7, offset: 3, time_frame: '7D' } as const;
    expect(await all(fillstream.v1.leaderboard(query))).toEqual(whole.traders.slice(3));
  });

  test('fails once, when it is iterated', async () => {
    await expect(all(fillstream.traderTrades('nobody'))).rejects.toMatchObject({ status: 400 });
    await expect(fillstream.traderTrades('nobody')).rejects.toMatchObject({ status: 400 });
  });

  test('requests only the pages that are needed', async () => {
    const { requests, counted } = counting();
    for await (const _ of counted.traderTrades(TRADER, { limit: 2 })) break;
    expect(requests).toHaveLength(1);
  });
});

describe('an error', () => {
  test('has the status, code, request id and issues of the response', async () => {
    const unknown = await fillstream.market('no-such-market').catch((error) => error);
    expect(unknown).toBeInstanceOf(ApiError);
    expect(unknown).toBeInstanceOf(FillstreamError);
    expect(unknown).toMatchObject({ name: 'ApiError', status: 404, code: 'not_found' });
    expect(unknown.requestId).toMatch(/^[\w-]{8,}$/);
    const bad = await fillstream.leaderboard({ limit: 1_000 }).catch((error) => error);
    expect(bad).toMatchObject({ status: 400, issues: [{ path: 'limit' }] });
    await expect(client({ key: 'fs_pro_wrong' }).me()).rejects.toMatchObject({ status: 401 });
  });

  test('of a rate limit leads to a wait, or is thrown with the time to wait', async () => {
    const { demoKey: key } = seeded;
    const many = (one: Fillstream) =>
      Promise.allSettled(Array.from({ length: 12 }, () => one.me()));
    // On a slow machine, twelve requests may take more than a second.
    const refused = await until(async () => {
      const all = await many(client({ key, retry: false }));
      return all.find((one) => one.status === 'rejected')?.reason;
    });
    expect(refused).toMatchObject({ status: 429, code: 'rate_limited' });
    expect(refused.retryAfterSeconds).toBeGreaterThan(0);
    const waited = await many(client({ key }));
    expect(waited.filter(({ status }) => status === 'rejected')).toEqual([]);
  });

  test('of the connection is a ConnectionError', async () => {
    const nowhere = client({ url: 'http://127.0.0.1:9', retry: false });
    await expect(nowhere.me()).rejects.toThrow(ConnectionError);
    await expect(nowhere.me()).rejects.toMatchObject({ status: 0, code: 'unreachable' });
  });

  test('is thrown in time if the server does not respond', async () => {
    using server = await serve(() => undefined);
    const { url } = server;
    const mute = client({ url, retry: false, timeoutMs: 200 });
    await expect(mute.me()).rejects.toThrow('no response within 200 ms');
    const gone = AbortSignal.timeout(100);
    await expect(client({ url }).me({ signal: gone })).rejects.toBe(
      await new Promise((resolve) => gone.addEventListener('abort', () => resolve(gone.reason))),
    );
  });
});

test('the key is sent to no other server, even if the server redirects to one', async () => {
  const keys: unknown[] = [];
  using other = await serve((request, response) => {
    keys.push(request.headers['x-service-key']);
    response.end('{}');
  });
  using server = await serve((_, response) => {
    response.writeHead(307, { Location: other.url }).end();
  });
  await expect(client({ url: server.url }).me()).rejects.toMatchObject({
    ...{ name: 'ApiError', status: 307 },
  });
  expect(keys).toEqual([]);
});

describe('a request whose response is lost', () => {
  /** Loses the first responses on the way. */
  function lossy(lost: number) {
    let requests = 0;
    const fillstream = client({
      fetch: async (url, init) => {
        const response = await fetch(url, init);
        requests += 1;
        if (requests > lost) return response;
        await response.arrayBuffer();
        throw new TypeError('the connection was cut');
      },
    });
    return { fillstream, requests: () => requests };
  }

  test('is retried, and creates nothing twice', async () => {
    const before = (await fillstream.streams()).total_count;
    const { fillstream: cut, requests } = lossy(2);
    const { id } = await cut.createStream({ name: 'once' });
    expect(requests()).toBe(3);
    const after = await fillstream.streams();
    expect(after.total_count).toBe(before + 1);
    expect(after.data.some((stream) => stream.id === id)).toBe(true);
  });

  test('is not retried if it deletes, or if retries are disabled', async () => {
    const { id } = await fillstream.createStream({ name: 'to be deleted' });
    const deleting = lossy(1);
    await expect(deleting.fillstream.deleteStream(id)).rejects.toThrow(ConnectionError);
    expect(deleting.requests()).toBe(1);
    await expect(fillstream.streamMeta(id)).rejects.toMatchObject({ status: 404 });
    const reading = lossy(1);
    await expect(reading.fillstream.me({ retry: false })).rejects.toThrow(ConnectionError);
    expect(reading.requests()).toBe(1);
  });
});
