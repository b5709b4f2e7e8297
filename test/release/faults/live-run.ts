/**
 * Live sums under kills: two apis with memory, one of them with little, must give the same bytes as one without. Fills
 * are stored, windows end, tags change, and before each comparison an api, the projector or ClickHouse is killed, or the
 * tables are rebuilt. While they are compared nothing is stored, so that all are as of the same block, and no window
 * has ended between two equal responses without memory, each of which was computed.
 */
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { WINDOW_LENGTHS } from '../../../api/analytics/time-frames.ts';
import { connectNats, type Nats } from '../../../infra/nats/connection.ts';
import { ensureStreams } from '../../../ingest/streams.ts';
import { startNatsServer } from '../../../local/nats-server.ts';
import { freePort } from '../../../local/ports.ts';
import { serviceUrl } from '../../../local/secret.ts';
import { migrate } from '../../../sql/migrate.ts';
import {
  blocksOf,
  ledgerEvents,
  listingOf,
  publishMetadata,
  traderAddress,
} from '../../support/ledger-generator.ts';
import { publishEvents, TestLedger } from '../../support/publish-ledger.ts';
import { generator } from '../../support/seed.ts';
import { answered, query, start, until } from '../../support/service.ts';
import { issueKeys } from '../bench/load.ts';
import type { Given } from './run.ts';

const TRADERS = 3_000;
/** More in the oldest part of the history: some of them never come back. */
const OLD_TRADERS = 6_000;
const MARKETS = 400;
const DAY = 86_400;
/** About 60 fills. */
const MATCHES_PER_SECOND = 18;
/** From the begin of each window, so that in every second of the run bookings leave all of them. */
const DENSE = { seconds: 1_800, matches: 1_800 };
const SPARSE_MATCHES = 4_800;
const SERVED_MS = 8_000;
/** Until the caches of listings, which are at most five seconds old, and the dictionary agree. */
const SETTLED_MS = 8_000;
/** Of 500 traders, in each comparison. */
const SHARE_COMPARED = 0.08;
const AT_ONCE = 12;
/** An api shows a response for a second before it computes another one. */
const SHARED_MS = 1_050;
const TRIES_MAX = 100;
const PATHS: readonly ((trader: string) => string)[] = [
  (trader) => `/v1/traders/${trader}`,
  (trader) => `/v2/traders/${trader}`,
  (trader) => `/v2/traders/${trader}/positions`,
  (trader) => `/v1/traders/${trader}/markets`,
];
/** Of the apis: much memory, little, none. */
const MEMORY_MIB = ['128', '1', '0'] as const;
/** An account has 100 requests a second. */
const KEYS = 100;
const CAUSES = ['api', 'projector', 'clickhouse'] as const;

type Process = ReturnType<typeof start>;
type Options = Given & {
  readonly kills: number;
  readonly rebuilds: number;
  /** Of the traders, at the end. */
  readonly share: number;
};

export async function runLive(options: Options) {
  const { directory, seed, kills, rebuilds, share, onProgress } = options;
  const dice = generator(seed);
  const natsServer = await startNatsServer({ dataDir: join(directory, 'nats') });
  const nats = await connectNats({ url: natsServer.url, name: 'live run' });
  const data = join(directory, 'clickhouse');
  const port = String(await freePort());
  const startClickHouse = async () => {
    const child = start('local/clickhouse/main.ts', ['--data', data, '--port', port]);
    const { url } = await child.event('listening');
    return { child, url: serviceUrl(String(url), data) };
  };
  let clickhouse = await startClickHouse();
  const { url } = clickhouse;
  const env = { NATS_URL: natsServer.url, CLICKHOUSE_URL: url, HTTP_PORT: '0', METRICS_PORT: '0' };
  await migrate({ url, database: 'fillstream' });
  await ensureStreams(nats, 1);
  const keys = await issueKeys(nats, KEYS);
  const flow = await startFlow(nats, seed);
  let projector = start('projector/main.ts', [], env);
  const startApi = async (mib: string) => {
    const child = start('api/main.ts', [], { ...env, LIVE_TRADERS_MIB: mib, LOG_LEVEL: 'warn' });
    const [{ port }, { port: metricsPort }] = await Promise.all([
      child.event('listening'),
      child.event('metrics'),
    ]);
    return { child, port: Number(port), metricsPort: Number(metricsPort) };
  };
  const apis = await Promise.all(MEMORY_MIB.map(startApi));
  const disturb: Readonly<Record<string, () => Promise<void>>> = {
    async api() {
      const at = Math.floor(dice() * 2);
      await kill(apis[at]?.child);
      apis[at] = await startApi(MEMORY_MIB[at] ?? '');
    },
    async projector() {
      await kill(projector);
      projector = start('projector/main.ts', [], env);
    },
    async clickhouse() {
      await kill(clickhouse.child);
      clickhouse = await startClickHouse();
    },
    async rebuild() {
      const rebuild = start('ops/rebuild.ts', ['--yes'], env);
      if ((await rebuild.exit) !== 0) throw new Error(`rebuild: ${rebuild.errors()}`);
    },
  };

  /** The response of an api, once it is there again. */
  async function get(api: number, path: string): Promise<string> {
    const headers = { 'X-Service-Key': keys[Math.floor(dice() * KEYS)] ?? '' };
    return await until(async () => {
      const response = await answered(() =>
        fetch(`http://127.0.0.1:${apis[api]?.port}${path}`, { headers }),
      );
      const text = await response.text();
      // An age follows from its time, which is compared.
      if (response.status === 200) return text.replaceAll(/"age_seconds":\d+/g, '');
      // Its text has an id of the request.
      if (response.status === 404) return 'not found';
      if (![429, 503].includes(response.status)) {
        throw new Error(`${path}: ${response.status} ${text}`);
      }
      return undefined;
    });
  }

  /** Responses of both apis with memory that came from it. */
  async function fromMemory(): Promise<number> {
    const counts = apis.slice(0, 2).map(async ({ metricsPort }) => {
      const text = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text();
      bytesMax = Math.max(bytesMax, Number(/^fillstream_live_bytes.* (\d+)$/m.exec(text)?.[1]));
      return Number(/^fillstream_live_answers_total{from="memory".* (\d+)$/m.exec(text)?.[1]);
    });
    return (await Promise.all(counts)).reduce((sum, one) => sum + one, 0);
  }

  const differences: string[] = [];
  let [compared, live, bytesMax] = [0, 0, 0];
  async function compare(path: string): Promise<void> {
    for (let tried = 0; tried < TRIES_MAX; tried++) {
      const before = await get(2, path);
      const shown = await Promise.all([get(0, path), get(1, path)]);
      await delay(SHARED_MS);
      if ((await get(2, path)) !== before) {
        await delay(SHARED_MS);
        continue;
      }
      compared += shown.length;
      for (const one of shown.filter((text) => text !== before)) {
        differences.push(`${path}: ${one}, and without memory ${before}`);
      }
      return;
    }
    throw new Error(`${path} changes too often`);
  }

  async function compareAll(traders: readonly string[]): Promise<void> {
    const left = traders.flatMap((trader) => PATHS.map((path) => path(trader)));
    const work = async () => {
      for (let path = left.pop(); path !== undefined; path = left.pop()) await compare(path);
    };
    const before = await fromMemory();
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    live += (await fromMemory()) - before;
  }

  /** Requests while fills are stored, so that memory has to follow them. */
  async function ask(traders: readonly string[], signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      for (const trader of traders) {
        for (const path of PATHS) await Promise.all([get(0, path(trader)), get(1, path(trader))]);
        if (signal.aborted) break;
      }
    }
  }

  const isStored = async () => {
    const sql = 'SELECT max(block_number) AS block FROM bookings';
    const [row] = await query<{ block: string }>(url, sql);
    return Number(row?.block) >= flow.last() || undefined;
  };
  try {
    await until(isStored);
    const traders = await chooseTraders(url, dice);
    onProgress(`history stored; ${traders.length} traders`);
    const some = (share: number) => traders.filter(() => dice() < share);
    const disturbances = disturbancesOf(kills, rebuilds);
    for (const [step, cause] of disturbances.entries()) {
      const stopped = new AbortController();
      const asking = ask(some(SHARE_COMPARED), stopped.signal);
      const serving = flow.serve(SERVED_MS);
      await publishMetadata(nats, flow.retagged(step));
      await delay(dice() * SERVED_MS);
      await disturb[cause]?.();
      await serving;
      stopped.abort();
      await asking;
      await until(isStored);
      await delay(SETTLED_MS);
      await compareAll(some(SHARE_COMPARED));
      onProgress(
        `${step + 1} of ${disturbances.length}, ${cause}: ${compared} compared, ${live} from memory, ${differences.length} differ`,
      );
    }
    await compareAll(some(share));
    return { ...{ kills, rebuilds, compared, live, bytesMax, fills: flow.fills() }, differences };
  } finally {
    await Promise.all([projector, ...apis.map(({ child }) => child)].map((one) => one.stop()));
    flow.stop();
    await clickhouse.child.stop();
    await nats.close();
    await natsServer.stop();
  }
}

async function kill(process: Process | undefined): Promise<void> {
  const isKilled = process?.kill('SIGKILL');
  await process?.exit;
  // If it was already dead, something else killed it, which is a bug.
  if (!isKilled) throw new Error(`a process ended by itself: ${process?.errors()}`);
}

/** All causes in turn, and the rebuilds among them. */
function disturbancesOf(kills: number, rebuilds: number): readonly string[] {
  const all: string[] = Array.from({ length: kills }, (_, n) => CAUSES[n % CAUSES.length] ?? '');
  for (let n = rebuilds; n > 0; n--)
    all.splice(Math.floor((kills * n) / (rebuilds + 1)), 0, 'rebuild');
  return all;
}

/** The 20 busiest, 200 typical ones, 100 that were not seen for a week or never, and 180 of all. */
async function chooseTraders(url: string, dice: () => number): Promise<readonly string[]> {
  const rows = await query<{ trader: string; isIdle: boolean }>(
    url,
    `SELECT concat('0x', lower(hex(trader))) AS trader, max(last_trade_at) < now() - INTERVAL 7 DAY AS isIdle
     FROM trader_activity GROUP BY trader ORDER BY sum(fills) DESC, trader`,
  );
  const addresses = rows.map(({ trader }) => trader);
  const middle = Math.floor(rows.length / 2);
  const idle = rows.filter(({ isIdle }) => isIdle).map(({ trader }) => trader);
  const never = Array.from({ length: 50 }, (_, n) => traderAddress(OLD_TRADERS + n));
  const random = Array.from({ length: 180 }, () => Math.floor(dice() * rows.length));
  const chosen = [
    ...addresses.slice(0, 20),
    ...addresses.slice(middle - 100, middle + 100),
    ...idle.slice(0, 50),
    ...never,
    ...random.map((at) => addresses[at] ?? ''),
  ];
  return [...new Set(chosen)];
}

/** Stores a history of thirty days in LEDGER; then fills as of now, while `serve` runs. */
async function startFlow(nats: Nats, seed: number) {
  const now = Math.floor(Date.now() / 1_000);
  const listings = Array.from({ length: MARKETS }, (_, market) => listingOf(market));
  await publishMetadata(nats, listings);
  let firstMatch = 0;
  const begins = WINDOW_LENGTHS.map((seconds) => now - seconds).reverse();
  for (const [window, begin] of begins.entries()) {
    const end = begin + DENSE.seconds;
    for (const [from, to, matches] of [
      [begin, end, DENSE.matches],
      [end, begins[window + 1] ?? now, SPARSE_MATCHES],
    ] as const) {
      const events = ledgerEvents({
        ...{ seed: seed + window, from, to, matches, firstMatch, markets: MARKETS },
        ...{ traders: window === 0 ? OLD_TRADERS : TRADERS, matchesPerMarket: Infinity },
      });
      await publishEvents(nats, events, 100);
      firstMatch += matches;
    }
  }
  const blocks = blocksOf(
    ledgerEvents({
      ...{ seed: seed - 1, firstMatch, traders: TRADERS, markets: MARKETS, matchesPerMarket: 200 },
      ...{ from: now, to: now + DAY, matches: DAY * MATCHES_PER_SECOND },
    }),
  );
  const ledger = await TestLedger.open(nats);
  let [last, fills] = [Math.floor(firstMatch / 12) - 1, 0];
  let next = blocks.next();
  return {
    /** Publishes the blocks up to now, for so long. */
    async serve(ms: number): Promise<void> {
      const end = performance.now() + ms;
      while (performance.now() < end) {
        for (; !next.done && next.value.time * 1_000 <= Date.now(); next = blocks.next()) {
          await ledger.publish([next.value]);
          last = next.value.number;
          for (const event of next.value.events) {
            if (event.kind === 'match') fills += event.fills.length;
          }
        }
        await delay(100);
      }
    },
    /** A listing with other tags, of one of the busiest markets. */
    retagged: (step: number) => {
      const listing = listingOf(step % 20);
      const { tags } = listingOf(step + 7);
      return [{ ...listing, tags }];
    },
    last: () => last,
    fills: () => fills,
    stop: () => ledger.close(),
  };
}
