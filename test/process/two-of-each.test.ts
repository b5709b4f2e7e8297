/**
 * Two apis and two projectors on the same NATS and ClickHouse, under load: both apis show the same figures, and deliver the
 * same events in the same order.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { connectNats, type Nats } from '../../infra/nats/connection.ts';
import { openWriter } from '../../infra/nats/writer.ts';
import {
  encodeFeedEvent,
  FEED_MATCH_SUBJECT,
  FEED_STREAM,
  feedMessageId,
} from '../../ingest/contract.ts';
import { FeedClient } from '../support/feed-client.ts';
import { ledgerEvents, traderAddress } from '../support/ledger-generator.ts';
import { publishEvents } from '../support/publish-ledger.ts';
import { SEED as TEST_SEED } from '../support/seed.ts';
import { start, temporaryDirectory, until } from '../support/service.ts';
import { type Parts, startParts } from '../support/stack.ts';
import { hash, match } from '../unit/feed-matches.ts';

const TRADERS = 20;
const MATCHES = 600;
const EVENTS = 2_000;
const CUTS = 20;
const SEED = TEST_SEED;

const events = [
  ...ledgerEvents({
    ...{ seed: SEED, traders: TRADERS, markets: 5, matches: MATCHES, matchesPerMarket: 200 },
    from: Math.floor(Date.now() / 1_000) - 86_400,
    to: Math.floor(Date.now() / 1_000) - 60,
  }),
];
const fills = events.reduce((sum, one) => sum + (one.kind === 'match' ? one.fills.length : 0), 0);

let directory: ReturnType<typeof temporaryDirectory>;
let parts: Parts;
let nats: Nats;
const others: ReturnType<typeof start>[] = [];
let urls: readonly [string, string];

beforeAll(async () => {
  directory = temporaryDirectory();
  parts = await startParts(directory.path, ['projector', 'api'], { PROJECTOR_INSTANCE: '0/2' });
  const projector = start('projector/main.ts', [], { ...parts.env, PROJECTOR_INSTANCE: '1/2' });
  const api = start('api/main.ts', [], parts.env);
  others.push(projector, api);
  await projector.event('projecting');
  urls = [parts.apiUrl, `http://127.0.0.1:${(await api.event('listening')).port}`];
  nats = await connectNats({ url: parts.env.NATS_URL, name: 'test' });
});

afterAll(async () => {
  await nats?.close();
  for (const one of others) await one.stop();
  await parts?.stop();
  directory?.remove();
});

/** Requests every trader's figures until the signal aborts. */
async function ask(url: string, signal: AbortSignal): Promise<ReadonlySet<number>> {
  const statuses = new Set<number>();
  for (let n = 0; !signal.aborted; n += 1) statuses.add((await figures(url, n % TRADERS)).status);
  return statuses;
}

async function figures(url: string, trader: number) {
  const address = traderAddress(trader);
  const paths = ['', '/positions', '/trades'].map((path) => `/v2/traders/${address}${path}`);
  const headers = { 'X-Service-Key': parts.key };
  const responses = await Promise.all(paths.map((path) => fetch(url + path, { headers })));
  const bodies = await Promise.all(responses.map((response) => response.json()));
  return { status: Math.max(...responses.map(({ status }) => status)), bodies };
}

/** Publishes matches, and cuts the clients between them. */
async function publishFeed(clients: readonly FeedClient[]): Promise<readonly string[]> {
  const writer = await openWriter(nats, { stream: FEED_STREAM });
  const published: string[] = [];
  for (let n = 0; n < EVENTS; n += 1) {
    const one = match(n, { txHash: hash(n) });
    published.push(one.txHash);
    await writer.append({
      id: feedMessageId(one.txHash, one.taker.orderHash, 0),
      subject: FEED_MATCH_SUBJECT,
      data: encodeFeedEvent(one),
    });
    if (n % (EVENTS / CUTS) === 1) clients[n % clients.length]?.cut();
  }
  writer.close();
  return published;
}

test(`both apis show the same under load (seed ${SEED})`, { timeout: 240_000 }, async () => {
  const clients = [...urls, ...urls].map((url) => new FeedClient(url, parts.key));
  const first = match(EVENTS, { txHash: hash(EVENTS) });
  const writer = await openWriter(nats, { stream: FEED_STREAM });
  // Wait until every client has a cursor, so that none starts after the first match that is compared.
  await until(async () => {
    const id = `${first.txHash} ${performance.now()}`;
    await writer.append({ id, subject: FEED_MATCH_SUBJECT, data: encodeFeedEvent(first) });
    return clients.every(({ events }) => events.length > 0) || undefined;
  });
  writer.close();
  const loading = new AbortController();
  const asking = [...urls, ...urls].map((url) => ask(url, loading.signal));
  const [published] = await Promise.all([publishFeed(clients), publishEvents(nats, events)]);

  const delivered = (client: FeedClient) =>
    client.events.filter(({ txHash }) => txHash !== first.txHash);
  await until(async () => clients.every((one) => delivered(one).length >= EVENTS) || undefined);
  await until(async () => {
    const [row] = await parts.query<{ count: string }>(
      "SELECT toString(countIf(kind = 'fill')) AS count FROM bookings",
    );
    return Number(row?.count) >= fills || undefined;
  });
  loading.abort();
  for (const statuses of await Promise.all(asking)) {
    // A trader without trades yet is unknown, and on a slow host a query may reach its time limit.
    expect([...statuses].filter((status) => ![200, 404, 503].includes(status))).toEqual([]);
  }
  const ids = clients.slice(0, 1).flatMap((client) => delivered(client).map(({ id }) => id));
  for (const client of clients) {
    expect(delivered(client).map(({ txHash }) => txHash)).toEqual(published);
    expect(delivered(client).map(({ id }) => id)).toEqual(ids);
    expect(client.gaps).toBe(0);
    await client.stop();
  }
  for (let trader = 0; trader < TRADERS; trader += 1) {
    // A response from the time under load is cached for a second.
    await until(async () => {
      const [one, other] = await Promise.all(urls.map((url) => figures(url, trader)));
      return (one?.status === 200 && JSON.stringify(one) === JSON.stringify(other)) || undefined;
    });
  }
});
