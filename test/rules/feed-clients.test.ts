// The event streams with common clients: `eventsource` (which behaves like browsers) and
// `eventsource-client` (fetch-based), through an address behind which api processes come and go.
import { EventSource } from 'eventsource';
import { createEventSource } from 'eventsource-client';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { hashKey } from '../../api/auth/keys.ts';
import { cursorOf } from '../../api/feed/cursor.ts';
import { feedMessageId } from '../../ingest/contract.ts';
import { issueKey, startApi, startNats, temporaryDirectory } from '../support/api-harness.ts';
import { publish } from '../support/feed-harness.ts';
import { Front } from '../support/front.ts';
import { address, fill, match } from '../unit/feed-matches.ts';

/** Nothing here queries ClickHouse. */
const NOWHERE = 'http://127.0.0.1:9';

let directory: Awaited<ReturnType<typeof temporaryDirectory>>;
let nats: Awaited<ReturnType<typeof startNats>>;
let published = 0;
let front: Front;
const apis: Awaited<ReturnType<typeof startApi>>[] = [];

beforeAll(async () => {
  directory = await temporaryDirectory();
  nats = await startNats(`${directory.path}/nats`);
  front = await Front.listen();
  await trade(1);
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

/** Publishes a match of this trader; returns its hash. */
async function trade(trader: number): Promise<string> {
  published += 1;
  const one = match(published, { taker: fill(trader) });
  await publish(nats.nats, 'FEED', [one]);
  return one.txHash;
}

async function send(key: string, method: string, path: string, body: object): Promise<unknown> {
  const headers = { 'X-Service-Key': key, 'Content-Type': 'application/json' };
  return (await fetch(front.url + path, { method, headers, body: JSON.stringify(body) })).json();
}

/** Path of a new managed stream that wants the matches of trader 5. */
async function manage(key: string): Promise<string> {
  const made = await send(key, 'POST', '/streams', { name: 'mine', addresses: [address(5)] });
  return `/streams/${(made as { id: string }).id}`;
}

/** Cursor of match n, which is message n. */
function at(n: number): string {
  const { txHash, taker } = match(n, { taker: fill(1) });
  return String(cursorOf(n, feedMessageId(txHash, taker.orderHash, 0)));
}

/** What these tests see of a client. */
class Heard {
  readonly hashes: string[] = [];
  readonly gaps: unknown[] = [];
  opened = 0;
  /** The status that ended it finally. */
  status: number | undefined;
  #wake: () => void = () => undefined;

  add(event: string | undefined, data: string): void {
    if (event === 'order') this.hashes.push(JSON.parse(data)[0]);
    if (event === 'tx') this.hashes.push(JSON.parse(data).tx_hash);
    if (event === 'gap') this.gaps.push(JSON.parse(data));
    this.wake();
  }

  wake(): void {
    this.#wake();
  }

  async until(condition: (heard: Heard) => boolean): Promise<void> {
    while (!condition(this)) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}

type Client = { readonly heard: Heard; close(): void };
type Open = (path: string, key: string, lastEventId?: string) => Client;

/** Like a browser: the first cursor is a parameter, later ones are sent automatically. */
const openEventSource: Open = (path, key, lastEventId) => {
  const heard = new Heard();
  const url = new URL(front.url + path);
  if (lastEventId !== undefined) url.searchParams.set('lastEventId', lastEventId);
  const source = new EventSource(url, {
    fetch: (input, init) =>
      fetch(input, { ...init, headers: { ...init?.headers, 'X-Service-Key': key } }),
  });
  for (const event of ['order', 'tx', 'gap']) {
    source.addEventListener(event, ({ data }) => heard.add(event, data));
  }
  source.addEventListener('open', () => {
    heard.opened += 1;
    heard.wake();
  });
  source.addEventListener('error', ({ code }) => {
    // It gives up by itself if the response is not an event stream.
    if (source.readyState === EventSource.CLOSED) heard.status = code;
    heard.wake();
  });
  return { heard, close: () => source.close() };
};

/** It reconnects after every status: its user must close it if the response is final. */
const openClient: Open = (path, key, lastEventId) => {
  const heard = new Heard();
  const source = createEventSource({
    url: front.url + path,
    headers: { 'X-Service-Key': key },
    ...(lastEventId === undefined ? {} : { initialLastEventId: lastEventId }),
    fetch: async (url, init) => {
      const response = await fetch(url, init as RequestInit);
      if (response.status >= 400 && response.status < 500) {
        heard.status = response.status;
        source.close();
      } else if (response.status === 200) heard.opened += 1;
      heard.wake();
      return response;
    },
    onMessage: ({ event, data }) => heard.add(event, data),
  });
  return { heard, close: () => source.close() };
};

describe.each([
  ['eventsource', openEventSource],
  ['eventsource-client', openClient],
])('%s', (_, open) => {
  test('gets what its filter asks for, across disconnects, a restart and another process', async () => {
    const key = await issueKey(nats.bucket, 'pro');
    const { heard, close } = open(`/v1/stream/orders?traders=${address(5)}`, key);
    await heard.until(({ opened }) => opened === 1);
    const wanted = [];
    wanted.push(await trade(5));
    await trade(6);
    await heard.until(({ hashes }) => hashes.length === 1);
    front.cut();
    wanted.push(await trade(5));
    await heard.until(({ hashes }) => hashes.length === 2);
    // The next process is ready before the current one stops.
    const former = apis.at(-1);
    front.target = (await start()).url;
    await former?.stop();
    await trade(6);
    wanted.push(await trade(5), await trade(5));
    await heard.until(({ hashes }) => hashes.length === 4);
    expect(heard.hashes).toEqual(wanted);
    expect(heard.opened).toBe(3);
    expect(heard.gaps).toEqual([]);
    close();
  });

  test('listens to a managed stream whose filter changes', async () => {
    const key = await issueKey(nats.bucket, 'pro');
    const path = await manage(key);
    const { heard, close } = open(path, key);
    await heard.until(({ opened }) => opened === 1);
    const first = await trade(5);
    await heard.until(({ hashes }) => hashes.length === 1);
    await send(key, 'PUT', `${path}/subscription`, { addresses: [address(6)] });
    await trade(5);
    const second = await trade(6);
    await heard.until(({ hashes }) => hashes.length === 2);
    expect(heard.hashes).toEqual([first, second]);
    close();
  });

  test.each(['the order feed', 'a managed stream'])(
    'on %s is ended by a revocation and takes the next response as final',
    async (which) => {
      const key = await issueKey(nats.bucket, 'pro');
      const path = which === 'the order feed' ? '/v1/stream/orders' : await manage(key);
      const { heard, close } = open(path, key);
      await heard.until(({ opened }) => opened === 1);
      const before = front.connections;
      const entry = await nats.bucket.get(hashKey(key));
      const record = JSON.parse(String(Buffer.from(entry?.value ?? [])));
      const revoked_at = new Date().toISOString();
      await nats.bucket.put(hashKey(key), JSON.stringify({ ...record, revoked_at }));
      await heard.until(({ status }) => status !== undefined);
      expect(heard.status).toBe(401);
      expect(front.connections - before).toBeLessThanOrEqual(1);
      close();
    },
  );

  test.each([
    ['/streams/0b9c2f6e-4a51-4c5b-9a0a-1f2e3d4c5b6a', undefined, 404],
    ['/v1/stream/orders', '12a', 400],
  ])('takes the response to %s with cursor %s as final', async (path, lastEventId, status) => {
    const { heard, close } = open(path, await issueKey(nats.bucket, 'pro'), lastEventId);
    await heard.until((now) => now.status !== undefined);
    expect(heard.status).toBe(status);
    close();
  });

  test('gets a gap for a cursor from the future', async () => {
    const key = await issueKey(nats.bucket, 'pro');
    const { heard, close } = open('/v1/stream/orders', key, '99999990000');
    await heard.until(({ gaps }) => gaps.length === 1);
    expect(heard.gaps[0]).toMatchObject({ requested: 99_999_990_000 });
    const next = await trade(1);
    await heard.until(({ hashes }) => hashes.length === 1);
    expect(heard.hashes).toEqual([next]);
    close();
  });
});

describe('an expired cursor', () => {
  test.each([
    ['eventsource', openEventSource],
    ['eventsource-client', openClient],
  ])('is a gap for %s, which continues at the first event kept', async (_, open) => {
    const kept = await trade(1);
    await nats.nats.jsm.streams.purge('FEED', { seq: published });
    const first = published;
    // A process that never saw the purged events.
    const former = apis.at(-1);
    front.target = (await start()).url;
    await former?.stop();
    const key = await issueKey(nats.bucket, 'pro');
    const { heard, close } = open('/v1/stream/orders', key, at(1));
    await heard.until(({ hashes }) => hashes.length === 1);
    expect(heard.hashes).toEqual([kept]);
    expect(heard.gaps).toEqual([{ requested: Number(at(1)), first_available: Number(at(first)) }]);
    close();
  });
});
