/**
 * `npm run bench:projector`: LEDGER → fold → ClickHouse with all views, beside the same rows inserted
 * ready-made (the limit) and the bare read of the stream; then state, leaderboards and API queries on
 * that data. FILLS=20000000 for the large run; data lies in a temporary directory and is removed.
 */
import { availableParallelism, totalmem } from 'node:os';
import { connectClickHouse } from '../../infra/clickhouse.ts';
import { connectNats, type Nats, streamState } from '../../infra/nats.ts';
import { OrderedPublisher } from '../../infra/nats-publisher.ts';
import { tailBatches } from '../../infra/nats-tail.ts';
import { ensureStreams } from '../../infra/streams.ts';
import { LEDGER_STREAM } from '../../ingest/contract.ts';
import { publishEvent } from '../../ingest/follow-ledger.ts';
import { type Batch, type BookedEvent, batchesOf } from '../../projector/batch.ts';
import { Book } from '../../projector/book.ts';
import { partitionsOf } from '../../projector/partitions.ts';
import { Store } from '../../projector/store.ts';
import { migrate } from '../../sql/migrate.ts';
import { startParts } from '../e2e/parts.ts';
import { answerOf, start, temporaryDirectory } from '../e2e/service.ts';
import {
  type GeneratorOptions,
  ledgerEvents,
  listingOf,
  traderAddress,
} from '../ledger-generator.ts';

const FILLS = Number(process.env.FILLS || 1_000_000);
/** Rows of the ready-made insert and events of the fold alone: enough to be steady, small in memory. */
const SAMPLE_FILLS = Math.min(FILLS, 300_000);
/** Mean fills of a generated match. */
const FILLS_PER_MATCH = 2.9;
const OPEN_POSITIONS = 1_000_000;
const FRAMES = ['1h', '4h', '1d', '3d', '7d', '30d'] as const;
const CALLS = 200;
const ROUNDS = 3;

const now = Math.floor(Date.now() / 1_000);
const scale = FILLS / 20_000_000;
const OPTIONS: GeneratorOptions = {
  seed: 1,
  traders: Math.max(2_000, Math.round(150_000 * Math.sqrt(scale))),
  markets: Math.max(500, Math.round(20_000 * Math.sqrt(scale))),
  from: now - 60 * 86_400,
  to: now - 5,
  matches: Math.round(FILLS / FILLS_PER_MATCH),
  matchesPerMarket: 3_000,
};

const rows: [what: string, value: string, baseline: string][] = [];
const tell = (what: string, value: string, baseline = '') => {
  rows.push([what, value, baseline]);
  console.log(`${what}: ${value}${baseline === '' ? '' : ` (${baseline})`}`);
};
const rate = (count: number, ms: number) => Math.round((count / ms) * 1_000);
const thousands = (value: number) => Math.round(value).toLocaleString('en');
const median = (values: number[]) => values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0;

function foldAlone(): BookedEvent[] {
  const matches = Math.round(SAMPLE_FILLS / FILLS_PER_MATCH);
  const events = [...ledgerEvents({ ...OPTIONS, matches })];
  const rates: number[] = [];
  let booked: BookedEvent[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const book = new Book();
    const startedAt = performance.now();
    booked = events.map((event, i) => ({
      sequence: i + 1,
      messageId: String(i),
      rows:
        event.kind === 'match' ? book.applyMatch(event, i + 1) : book.applyResolution(event, i + 1),
    }));
    const count = booked.reduce((sum, event) => sum + event.rows.length, 0);
    rates.push(rate(count, performance.now() - startedAt));
  }
  tell('fold alone, rows/s', thousands(median(rates)), 'goal 500,000');
  return booked;
}

async function insertReadyMade(url: string, booked: readonly BookedEvent[]): Promise<number> {
  const database = 'ready_made';
  await migrate({ url, database });
  const client = connectClickHouse({ url, database, name: 'bench' });
  const store = new Store(client, partitionsOf(0, 1));
  const batches: readonly Batch[] = batchesOf(booked);
  const count = batches.reduce((sum, batch) => sum + batch.rows.length, 0);
  const startedAt = performance.now();
  for (const batch of batches) await store.writeBatch(batch);
  const perSecond = rate(count, performance.now() - startedAt);
  await client.command({ query: `DROP DATABASE ${database}` });
  await client.close();
  tell('ready-made rows inserted with all views, rows/s', thousands(perSecond), 'baseline a');
  return perSecond;
}

async function fillLedger(nats: Nats): Promise<number> {
  await ensureStreams(nats, 1);
  const ledger = new OrderedPublisher(nats, { stream: LEDGER_STREAM });
  for (let market = 0; market < OPTIONS.markets; market++) {
    await publishEvent(ledger, listingOf(market));
  }
  let fills = 0;
  const startedAt = performance.now();
  for (const event of ledgerEvents(OPTIONS)) {
    await publishEvent(ledger, event);
    if (event.kind === 'match') fills += event.fills.length;
  }
  await ledger.flush();
  ledger.close();
  tell(
    'generated and published to LEDGER, fills/s',
    thousands(rate(fills, performance.now() - startedAt)),
  );
  return fills;
}

async function readBare(nats: Nats, fills: number): Promise<number> {
  const { lastSequence } = await streamState(nats, LEDGER_STREAM);
  const rates: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const stop = new AbortController();
    const startedAt = performance.now();
    for await (const messages of tailBatches(nats, {
      stream: LEDGER_STREAM,
      fromSequence: 1,
      signal: stop.signal,
    })) {
      if ((messages.at(-1)?.sequence ?? 0) >= lastSequence) break;
    }
    rates.push(rate(fills, performance.now() - startedAt));
  }
  tell('bare read of LEDGER, fills/s', thousands(median(rates)), 'baseline b');
  return median(rates);
}

async function project(env: Readonly<Record<string, string>>, nats: Nats, fills: number) {
  const { lastSequence } = await streamState(nats, LEDGER_STREAM);
  const projector = start('projector/main.ts', [], env);
  await projector.event('projecting');
  const startedAt = performance.now();
  await projector.reached('stored', (line) => Number(line.sequence) >= lastSequence);
  const perSecond = rate(fills, performance.now() - startedAt);
  tell('LEDGER → fold → ClickHouse with all views, fills/s', thousands(perSecond));
  return { projector, perSecond };
}

async function measureState(url: string): Promise<void> {
  const book = new Book();
  globalThis.gc?.();
  const before = process.memoryUsage().heapUsed;
  for (let i = 0; i < OPEN_POSITIONS; i++) {
    // The strings of a position are its trader's: shared with no other position here.
    book.restorePosition(`0x${(i % 20_000).toString(16).padStart(64, '0')}`, traderAddress(i), {
      outcome: 0,
      shares: BigInt(1_000_000 + i),
      costBasis: BigInt(500_000 + i),
      openFees: BigInt(i),
    });
  }
  globalThis.gc?.();
  const bytes = (process.memoryUsage().heapUsed - before) / OPEN_POSITIONS;
  tell(
    'memory of an open position, bytes',
    thousands(bytes),
    `goal 200; ${book.openPositions()} open`,
  );
  const database = 'reload';
  await migrate({ url, database });
  const client = connectClickHouse({ url, database, name: 'bench' });
  await client.command({
    query: `INSERT INTO positions SELECT unhex(leftPad(hex(number % 20000), 64, '0')),
      unhex(leftPad(hex(number), 40, '0')), number % 16, 0, 1000000 + number, 500000, 10, 1
      FROM numbers(${OPEN_POSITIONS})`,
  });
  const startedAt = performance.now();
  await new Store(client, partitionsOf(0, 1)).restore(new Book());
  tell(
    'reload of 1,000,000 open positions, s',
    ((performance.now() - startedAt) / 1_000).toFixed(1),
  );
  await client.command({ query: `DROP DATABASE ${database}` });
  await client.close();
}

async function measureQueries(env: Readonly<Record<string, string>>, key: string): Promise<void> {
  const client = connectClickHouse({
    url: env.CLICKHOUSE_URL ?? '',
    database: 'fillstream',
    name: 'bench',
  });
  for (const frame of FRAMES) {
    const startedAt = performance.now();
    await client.command({ query: `SYSTEM REFRESH VIEW leaderboard_${frame}_mv` });
    await client.command({ query: `SYSTEM WAIT VIEW leaderboard_${frame}_mv` });
    tell(`leaderboard ${frame} refresh, ms`, thousands(performance.now() - startedAt));
  }
  const api = start('api/main.ts', [], env);
  const { port } = await api.event('listening');
  const url = `http://127.0.0.1:${port}`;
  const trader = (i: number) => traderAddress(((i * 7_919) % OPTIONS.traders) >> (i % 12));
  const market = (i: number) => 1_000_000 + (((i * 104_729) % OPTIONS.markets) >> (i % 8));
  const paths: [string, (i: number) => string][] = [
    ['leaderboard 30D', (i) => `/v1/analytics/leaderboard?limit=50&offset=${i}`],
    [
      'leaderboard 1D crypto by roi',
      (i) => `/v1/analytics/leaderboard?time_frame=1D&tag=crypto&sort_by=roi&offset=${i}`,
    ],
    ['trader', (i) => `/v1/traders/${trader(i)}`],
    ['hourly', (i) => `/v1/traders/${trader(i)}/hourly_stats`],
    ['orders', (i) => `/v1/traders/${trader(i)}/markets/${market(i)}/orders`],
    ['market', (i) => `/v1/markets/${market(i)}`],
  ];
  for (const [name, path] of paths) {
    const times: number[] = [];
    for (let i = 0; i < CALLS; i++) {
      const startedAt = performance.now();
      await answerOf(url, key, path(i)).catch((error: Error) => {
        if (!error.message.includes('404')) throw error;
      });
      times.push(performance.now() - startedAt);
      await new Promise((done) => setTimeout(done, 10));
    }
    const sorted = times.toSorted((a, b) => a - b);
    const at = (share: number) => (sorted[Math.floor(sorted.length * share)] ?? 0).toFixed(1);
    tell(`GET ${name}, p50 / p99 ms`, `${at(0.5)} / ${at(0.99)}`, 'idle');
  }
  await api.stop();
  await client.close();
}

async function main(): Promise<void> {
  const directory = temporaryDirectory();
  const parts = await startParts(directory.path, []);
  const nats = await connectNats({ url: parts.env.NATS_URL, name: 'bench' });
  try {
    const booked = foldAlone();
    const ready = await insertReadyMade(parts.env.CLICKHOUSE_URL, booked);
    const fills = await fillLedger(nats);
    const bare = await readBare(nats, fills);
    const { projector, perSecond } = await project(parts.env, nats, fills);
    tell(
      'ratio to the slower baseline',
      `${Math.round((100 * perSecond) / Math.min(ready, bare))} %`,
      'goal 60 %',
    );
    await projector.stop();
    await measureState(parts.env.CLICKHOUSE_URL);
    await measureQueries(parts.env, parts.key);
    const memory = Math.round(totalmem() / 2 ** 30);
    console.log(
      `\n${thousands(fills)} fills, ${thousands(OPTIONS.traders)} traders, ` +
        `${thousands(OPTIONS.markets)} markets; ${availableParallelism()} cores, ${memory} GiB, ` +
        `Node ${process.version}\n`,
    );
    console.log('| what | value | |\n|---|---|---|');
    for (const row of rows) console.log(`| ${row.join(' | ')} |`);
  } finally {
    await nats.close();
    await parts.stop();
    directory.remove();
  }
}

await main();
