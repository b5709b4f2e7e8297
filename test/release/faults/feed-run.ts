/**
 * The order feed and managed streams under faults: listeners with random filters at two api processes, while matches
 * are published at a steady rate, connections are cut, api processes are killed or stopped and restarted, and
 * nats-server is killed and restarted. Each listener must have received exactly the published matches that pass its
 * filter, in order, each once, except after a `gap`.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { openSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { generateKey, KEYS_BUCKET, storeKey } from '../../../api/auth/keys.ts';
import { startNatsServer } from '../../../infra/local/nats-server.ts';
import { freePort } from '../../../infra/local/ports.ts';
import { connectNats, type Nats } from '../../../infra/nats/connection.ts';
import { openKv } from '../../../infra/nats/kv.ts';
import { openWriter } from '../../../infra/nats/writer.ts';
import { encodeFeedEvent, FEED_MATCH_SUBJECT, feedMessageId } from '../../../ingest/contract.ts';
import { ensureStreams } from '../../../ingest/streams.ts';
import { address, naivelyPasses, randomMatch, seeded } from '../../unit/feed-matches.ts';
import { FeedListener, type ListenerOptions, type Seen } from './feed-listener.ts';

/** A listener of either kind: on a bare socket, or in a program that uses the client. */
export type RunListener = Pick<
  FeedListener,
  'seen' | 'lastEventId' | 'connections' | 'refusals' | 'cut' | 'stop'
>;

export type FeedRunOptions = {
  /** Default: a FeedListener. */
  readonly listen?: (options: ListenerOptions) => Promise<RunListener>;
  readonly directory: string;
  readonly seed: number;
  readonly listeners: number;
  readonly seconds: number;
  readonly matchesPerSecond: number;
  /** Mean seconds between two faults of a kind; cuts are per listener. */
  readonly everySeconds: { readonly cut: number; readonly api: number; readonly nats: number };
  readonly onProgress?: (line: string) => void;
};

export type FeedRun = {
  readonly published: number;
  readonly delivered: number;
  readonly connections: number;
  readonly cuts: number;
  readonly apiKills: number;
  readonly natsKills: number;
  readonly gaps: number;
  readonly refusals: Readonly<Record<number, number>>;
  readonly differences: readonly string[];
};

const MAIN = fileURLToPath(new URL('../../../api/main.ts', import.meta.url));
const API_PROCESSES = 2;
/** Tier pro allows 100 open event streams; a disconnected one may still count for a moment. */
const LISTENERS_PER_ACCOUNT = 60;
const TICK_MS = 10;
const START_ATTEMPTS_MAX = 10;
/** After the last match, this long without anything received: time to reconnect, replay and receive a heartbeat. */
const SETTLE_MS_MAX = 120_000;
/** Any duplicates would arrive within this time. */
const AFTER_MS = 1_000;

export async function runFeed(options: FeedRunOptions): Promise<FeedRun> {
  const { directory, seed, onProgress = () => undefined } = options;
  const random = seeded(seed);
  const dataDir = join(directory, 'nats');
  let server = await startNatsServer({ dataDir });
  const nats = await connectNats({ url: server.url, name: 'feed run' });
  await ensureStreams(nats, 1);
  const writer = await openWriter(nats, { stream: 'FEED' });
  const published = [randomMatch(1, random)];
  const publish = async () => {
    const one = published.at(-1) ?? randomMatch(1, random);
    const id = feedMessageId(one.txHash, one.taker.orderHash, 0);
    await writer.append({ id, subject: FEED_MATCH_SUBJECT, data: encodeFeedEvent(one) });
  };
  await publish();
  const apis = await Promise.all(
    Array.from({ length: API_PROCESSES }, async (_, n) =>
      startApi(directory, server.url, await freePort(), n),
    ),
  );
  const ports = apis.map(({ port }) => port);
  const wanted = await makeListeners(options, nats, ports, random);
  onProgress(`${wanted.length} listeners at ports ${ports.join(', ')}`);
  // Each listener has a cursor and misses nothing from here on.
  while (wanted.some(({ listener }) => listener.lastEventId === '')) await delay(20);

  let cuts = 0;
  let apiKills = 0;
  let natsKills = 0;
  const endsAtMs = performance.now() + options.seconds * 1_000;
  const under = () => performance.now() < endsAtMs;
  const pause = (meanSeconds: number) => delay(-Math.log(1 - random()) * meanSeconds * 1_000);

  async function publishAll(): Promise<void> {
    const startedAtMs = performance.now();
    while (under()) {
      const due = ((performance.now() - startedAtMs) / 1_000) * options.matchesPerSecond;
      while (published.length - 1 < due) {
        published.push(randomMatch(published.length + 1, random));
        await publish();
      }
      await delay(TICK_MS);
    }
  }

  async function cutListeners(): Promise<void> {
    while (under()) {
      await pause(options.everySeconds.cut / wanted.length);
      wanted[Math.floor(random() * wanted.length)]?.listener.cut();
      cuts += 1;
    }
  }

  async function killApis(): Promise<void> {
    // At least one is killed, however long the first pause would be.
    await Promise.race([pause(options.everySeconds.api), delay((options.seconds * 1_000) / 2)]);
    while (under()) {
      const n = Math.floor(random() * apis.length);
      const api = apis[n];
      if (api === undefined) return;
      // One in four shuts down gracefully; the others are killed.
      await ended(api.child, random() < 0.25 ? 'SIGTERM' : 'SIGKILL');
      apiKills += 1;
      await delay(200 + random() * 1_500);
      apis[n] = await startApi(directory, server.url, api.port, n);
      await pause(options.everySeconds.api);
    }
  }

  async function killNats(): Promise<void> {
    await pause(options.everySeconds.nats);
    while (under()) {
      await ended(server.child, 'SIGKILL');
      natsKills += 1;
      await delay(100 + random() * 1_500);
      server = await startNatsServer({ dataDir, port: server.port });
      await pause(options.everySeconds.nats);
    }
  }

  await Promise.all([publishAll(), cutListeners(), killApis(), killNats()]);
  onProgress(`${published.length} matches, ${cuts} cuts, ${apiKills} + ${natsKills} kills`);

  const expected = new Map<string, readonly number[]>();
  for (const { query } of wanted) {
    if (expected.has(query)) continue;
    const numbers = published.flatMap((one, index) =>
      index > 0 && naivelyPasses(query, one) ? [index + 1] : [],
    );
    expected.set(query, numbers);
    // Sockets are read in between.
    await delay(0);
  }
  const expectedOf = (query: string) => expected.get(query) ?? [];
  const isBehind = () =>
    wanted.some(({ query, listener }) => listener.seen.at(-1) !== expectedOf(query).at(-1));
  const received = () => wanted.reduce((sum, { listener }) => sum + listener.seen.length, 0);
  let [last, lastAtMs] = [received(), performance.now()];
  while (isBehind() && performance.now() - lastAtMs < SETTLE_MS_MAX) {
    await delay(100);
    const now = received();
    if (now !== last) [last, lastAtMs] = [now, performance.now()];
  }
  await delay(AFTER_MS);

  const listeners = wanted.map(({ listener }) => listener);
  await Promise.all(listeners.map((listener) => listener.stop()));
  await Promise.all(apis.map(({ child }) => ended(child, 'SIGTERM')));
  writer.close();
  await nats.close();
  await server.stop();
  const seen = listeners.map((listener) => listener.seen);
  return {
    published: published.length,
    delivered: seen.flat().filter((one) => one !== 'gap').length,
    connections: listeners.reduce((sum, { connections }) => sum + connections, 0),
    cuts,
    apiKills,
    natsKills,
    gaps: seen.flat().filter((one) => one === 'gap').length,
    refusals: total(listeners.map(({ refusals }) => refusals)),
    differences: wanted.flatMap(({ query, listener }, n) => {
      const difference = differenceOf(listener.seen, expectedOf(query));
      return difference === undefined ? [] : [`listener ${n} (${query}): ${difference}`];
    }),
  };
}

type Wanted = { readonly query: string; readonly listener: RunListener };

async function makeListeners(
  options: FeedRunOptions,
  nats: Nats,
  ports: readonly number[],
  random: () => number,
): Promise<Wanted[]> {
  const { listen = async (given: ListenerOptions) => new FeedListener(given) } = options;
  const bucket = await openKv(nats, KEYS_BUCKET);
  const keys: string[] = [];
  const wanted: Wanted[] = [];
  for (let n = 0; n < options.listeners; n += 1) {
    if (n % LISTENERS_PER_ACCOUNT === 0) {
      const key = generateKey('pro');
      const created_at = new Date().toISOString();
      await storeKey(bucket, key, { label: 'run', tier: 'pro', account: `run-${n}`, created_at });
      keys.push(key);
    }
    const key = keys.at(-1) ?? '';
    const isManaged = random() < 0.4;
    const query = randomQuery(random, isManaged);
    const target = isManaged
      ? await createStream(`http://127.0.0.1:${ports[0]}`, key, query)
      : `/v1/stream/orders?${query}${random() < 0.3 ? '&format=json' : ''}`;
    const listener = await listen({ target, key, ports, random });
    wanted.push({ query, listener });
    // Stays within the rate limit of a key.
    await delay(5);
  }
  return wanted;
}

/** One of a few dozen filters; without bounds for a managed stream, which does not support them. */
function randomQuery(random: () => number, isManaged: boolean): string {
  const some = (names: readonly string[]) => names.filter(() => random() < 0.4).join(',');
  const kind = Math.floor(random() * 6);
  const trader = address(1 + Math.floor(random() * 12));
  const two = `${trader},${address(1 + Math.floor(random() * 12))}`;
  const bounds = isManaged ? '' : `&min_usdc=${1 + Math.floor(random() * 20)}&max_price=80`;
  switch (kind) {
    case 0:
      return isManaged ? 'tags=crypto' : 'min_usdc=5';
    case 1:
      return `traders=${trader}`;
    case 2:
      return `traders=${two}${bounds}`;
    case 3:
      return `tags=${some(['crypto', '5m', 'politics']) || 'sports'}${bounds}`;
    case 4:
      return `series=${random() < 0.5 ? 'nfl' : 'btc-hourly'}`;
    default:
      return `series=nfl&tags=${some(['crypto', '5m', 'politics']) || 'politics'}${bounds}`;
  }
}

/** Creates a managed stream with the filters of an order feed query; returns its path. */
export async function createStream(url: string, key: string, query: string): Promise<string> {
  const given = new URLSearchParams(query);
  const list = (name: string) => (given.get(name) ?? '').split(',').filter(Boolean);
  const response = await fetch(`${url}/streams`, {
    method: 'POST',
    headers: { 'X-Service-Key': key, 'Content-Type': 'application/json' },
    body: JSON.stringify({
      name: 'faults',
      addresses: list('traders'),
      tags: list('tags'),
      series: list('series'),
    }),
  });
  const body = await response.json();
  if (response.status !== 201) throw new Error(`no stream: ${JSON.stringify(body)}`);
  return `/streams/${(body as { id: string }).id}`;
}

type Api = { readonly child: ChildProcess; readonly port: number };

async function startApi(
  directory: string,
  natsUrl: string,
  port: number,
  n: number,
  attempts = 1,
): Promise<Api> {
  const log = openSync(join(directory, `api-${n}.log`), 'a');
  const child = spawn(process.execPath, [MAIN], {
    env: {
      ...process.env,
      ...{ NATS_URL: natsUrl, HTTP_PORT: String(port), LOG_LEVEL: 'warn' },
      // Nothing here queries ClickHouse.
      ...{ CLICKHOUSE_URL: 'http://127.0.0.1:9', HTTP_CONNECTIONS_PER_ADDRESS_MAX: '20000' },
    },
    stdio: ['ignore', log, log, 'ipc'],
  });
  const exited = once(child, 'exit').then(() => undefined);
  const listening = new Promise<number>((resolve) => {
    child.on('message', (message: { event: string; port: number }) => {
      if (message.event === 'listening') resolve(message.port);
    });
  });
  const listens = await Promise.race([listening, exited]);
  // The api exits if nats-server goes down during startup; restart it, as a supervisor would.
  if (listens !== undefined) return { child, port: listens };
  if (attempts === START_ATTEMPTS_MAX)
    throw new Error(`an api process does not start: ${directory}`);
  return await startApi(directory, natsUrl, port, n, attempts + 1);
}

async function ended(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, 'exit');
  child.kill(signal);
  await exit;
}

/** Describes how the received events differ from the expected ones; undefined if they are the same. */
export function differenceOf(
  seen: readonly Seen[],
  expected: readonly number[],
): string | undefined {
  let next = 0;
  let behindGap = false;
  for (const one of seen) {
    if (one === 'gap') {
      behindGap = true;
      continue;
    }
    if (behindGap) {
      const found = expected.indexOf(one, next);
      if (found !== -1) next = found;
      behindGap = false;
    }
    if (expected[next] !== one) return `got ${one} where ${expected[next]} was due`;
    next += 1;
  }
  return next === expected.length || behindGap
    ? undefined
    : `ends before ${expected[next]}, ${expected.length - next} are missing`;
}

function total(counts: readonly ReadonlyMap<number, number>[]): Record<number, number> {
  const sums: Record<number, number> = {};
  for (const [status, count] of counts.flatMap((one) => [...one])) {
    sums[status] = (sums[status] ?? 0) + count;
  }
  return sums;
}
