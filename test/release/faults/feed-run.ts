/**
 * The order feed and managed streams under faults: listeners at two api processes, while matches are published at a
 * steady rate, connections are cut, api processes are killed or stopped and restarted, and nats-server is killed and
 * restarted.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { connectNats } from '../../../infra/nats/connection.ts';
import { openWriter } from '../../../infra/nats/writer.ts';
import { FEED_STREAM, type FeedMatch } from '../../../ingest/contract.ts';
import { ensureStreams } from '../../../ingest/streams.ts';
import { startNatsServer } from '../../../local/nats-server.ts';
import { freePort } from '../../../local/ports.ts';
import { message } from '../../support/feed-harness.ts';
import { generator } from '../../support/seed.ts';
import { ended, start } from '../../support/service.ts';
import { address, naivelyPasses, randomMatch } from '../../unit/feed-matches.ts';
import { Listeners, type OpenOptions } from './listeners.ts';
import type { Given } from './run.ts';

type FeedRunOptions = Given &
  Pick<OpenOptions, 'listen'> & {
    readonly listeners: number;
    readonly seconds: number;
    readonly matchesPerSecond: number;
    /** Mean seconds between two faults of a kind; cuts are per listener. */
    readonly cutSeconds: number;
    readonly apiSeconds: number;
    readonly natsSeconds: number;
  };

const API_PROCESSES = 2;
const TICK_MS = 10;
const START_ATTEMPTS_MAX = 10;

export async function runFeed(options: FeedRunOptions) {
  const { directory, seed, seconds, onProgress, listen } = options;
  const random = generator(seed);
  const dataDir = join(directory, 'nats');
  let server = await startNatsServer({ dataDir });
  const nats = await connectNats({ url: server.url, name: 'feed run' });
  await ensureStreams(nats, 1);
  const writer = await openWriter(nats, { stream: FEED_STREAM });
  const published: FeedMatch[] = [];
  const publish = async () => {
    const one = randomMatch(published.length + 1, random);
    published.push(one);
    await writer.append(message(FEED_STREAM, one));
  };
  await publish();
  const started: ReturnType<typeof start>[] = [];
  const startApi = async (port: number) => {
    for (let attempt = 1; ; attempt += 1) {
      const api = start('api/main.ts', [], {
        ...{ NATS_URL: server.url, HTTP_PORT: String(port), LOG_LEVEL: 'warn' },
        // Nothing here queries ClickHouse.
        ...{ CLICKHOUSE_URL: 'http://127.0.0.1:9', HTTP_CONNECTIONS_PER_ADDRESS_MAX: '20000' },
      });
      started.push(api);
      try {
        await api.event('listening');
        return api;
      } catch (error) {
        // It ends if nats-server goes down during startup; restart it, as a supervisor would.
        if (attempt === START_ATTEMPTS_MAX) throw error;
      }
    }
  };
  const ports = await Promise.all(Array.from({ length: API_PROCESSES }, () => freePort()));
  const apis = await Promise.all(ports.map(startApi));
  const queryOf = (isManaged: boolean) => randomQuery(random, isManaged);
  const count = options.listeners;
  const listeners = await Listeners.open({
    ...{ nats, count, queryOf, ports, random, ...(listen === undefined ? {} : { listen }) },
  });
  onProgress(`${count} listeners at ports ${ports.join(', ')}`);

  let apiKills = 0;
  let natsKills = 0;
  const startedAtMs = performance.now();
  const isGoing = () => performance.now() < startedAtMs + seconds * 1_000;
  const pause = (meanSeconds: number) => delay(-Math.log(1 - random()) * meanSeconds * 1_000);

  async function publishAll(): Promise<void> {
    while (isGoing()) {
      const due = ((performance.now() - startedAtMs) / 1_000) * options.matchesPerSecond;
      while (published.length - 1 < due) await publish();
      await delay(TICK_MS);
    }
  }

  async function killApis(): Promise<void> {
    // At least one is killed, however long the first pause would be.
    await Promise.race([pause(options.apiSeconds), delay((seconds * 1_000) / 2)]);
    while (isGoing()) {
      const n = Math.floor(random() * apis.length);
      // One in four shuts down gracefully; the others are killed.
      apis[n]?.kill(random() < 0.25 ? 'SIGTERM' : 'SIGKILL');
      await apis[n]?.exit;
      apiKills += 1;
      await delay(200 + random() * 1_500);
      apis[n] = await startApi(ports[n] ?? 0);
      await pause(options.apiSeconds);
    }
  }

  async function killNats(): Promise<void> {
    await pause(options.natsSeconds);
    while (isGoing()) {
      await ended(server.child, 'SIGKILL');
      natsKills += 1;
      await delay(100 + random() * 1_500);
      server = await startNatsServer({ dataDir, port: server.port });
      await pause(options.natsSeconds);
    }
  }

  const cutting = listeners.cutWhile(isGoing, options.cutSeconds, random);
  await Promise.all([publishAll(), cutting, killApis(), killNats()]);
  onProgress(
    `${published.length} matches, ${listeners.cuts} cuts, ${apiKills} + ${natsKills} kills`,
  );

  const expected = new Map<string, readonly number[]>();
  for (const query of listeners.queries) {
    const passing = published.flatMap((one, i) => (naivelyPasses(query, one) ? [i + 1] : []));
    // The first one came before the listeners.
    expected.set(
      query,
      passing.filter((number) => number > 1),
    );
    // Sockets are read in between.
    await delay(0);
  }
  const listened = await listeners.end(expected);
  await Promise.all(apis.map((api) => api.stop()));
  for (const [n, api] of started.entries()) {
    const lines = api.lines.map((line) => JSON.stringify(line));
    writeFileSync(join(directory, `api-${n}.log`), `${lines.join('\n')}\n${api.errors()}`);
  }
  writer.close();
  await nats.close();
  await server.stop();
  return { published: published.length, apiKills, natsKills, ...listened };
}

/** One of a few dozen filters. */
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
