/**
 * A service's data with FILLS generated fills in it, made once and kept in the system's temporary
 * directory: 20,000,000 fills take ten minutes. Its tables are merged as they are a day after the
 * last fill. Shared by the benchmarks of the projector and of the api. Removing the directory is always
 * safe. Its fills end when it was made: the leaderboards of the short frames are empty some hours later.
 */
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connectNats, type Nats, streamState } from '../../infra/nats/connection.ts';
import { tailBatches } from '../../infra/nats/reader.ts';
import { type Block, LEDGER_STREAM, newestMessage } from '../../ingest/ledger.ts';
import { ensureStreams } from '../../ingest/streams.ts';
import { migrate } from '../../sql/migrate.ts';
import { type Parts, startParts } from '../e2e/parts.ts';
import { start } from '../e2e/service.ts';
import {
  blocksOf,
  type GeneratorOptions,
  ledgerEvents,
  listingOf,
  publishMetadata,
  traderFacts,
} from '../support/ledger-generator.ts';
import { TestLedger } from '../support/publish-ledger.ts';
import { median } from './report.ts';

/** Mean fills of a generated match. */
export const FILLS_PER_MATCH = 2.9;
const DAYS = 60;
/** Tables whose parts become one when they are a day old (min_age_to_force_merge_seconds). */
const SETTLING = [
  'bookings',
  'trader_hours',
  'trader_markets',
  'market_traders',
  'market_bookings',
];
/** About 400 KB of JSON, as in a catch-up. */
const BLOCKS_PER_MESSAGE = 30;
const READ_ROUNDS = 3;
const ONE = { database: 'fillstream', count: 1 };

/** What was measured while the data was made, fills per second. */
export type Filling = {
  readonly fills: number;
  /** Generated and published to LEDGER, listings aside. */
  readonly published: number;
  /** The bare read of LEDGER. */
  readonly read: number;
  /** LEDGER → fold → ClickHouse with all views. */
  readonly projected: number;
  /** The same in rows of bookings: settlements are rows, too. */
  readonly projectedRows: number;
};

export type Dataset = {
  readonly options: GeneratorOptions;
  readonly filling: Filling;
  /** NATS and ClickHouse on that data; `env` and `key` for the processes and their clients. */
  readonly parts: Parts;
};

/**
 * Opens the data, after making what is not there yet: LEDGER first, then its projection. A run that was
 * interrupted continues. `stop` its parts at the end. Without `traders` there are as many as suit the fills.
 */
export async function openDataset(fills: number, traders?: number): Promise<Dataset> {
  const name = traders === undefined ? fills : `${fills}-${traders}`;
  const directory = join(tmpdir(), `fillstream-bench-fills-${name}`);
  const [ledgerFile, projectedFile] = [`${directory}/ledger.json`, `${directory}/projected.json`];
  if (!existsSync(ledgerFile)) {
    rmSync(directory, { recursive: true, force: true });
    mkdirSync(directory);
    const options = optionsOf(fills, Math.floor(Date.now() / 1_000), traders);
    const filled = await withNats(directory, (nats) => fillLedger(nats, options));
    writeFileSync(ledgerFile, JSON.stringify({ options, filled }));
  }
  const { options, filled } = JSON.parse(readFileSync(ledgerFile, 'utf8'));
  if (!existsSync(projectedFile)) {
    const rates = await withNats(directory, async (nats, parts) => ({
      read: await readBare(nats, filled.fills),
      ...(await project(parts, nats, filled.fills)),
    }));
    writeFileSync(projectedFile, JSON.stringify(rates));
  }
  const rates = JSON.parse(readFileSync(projectedFile, 'utf8'));
  const parts = await startParts(directory, []);
  for (const table of SETTLING) {
    await parts.query(`OPTIMIZE TABLE ${table} FINAL SETTINGS optimize_skip_merged_partitions = 1`);
  }
  return { options, filling: { ...filled, ...rates }, parts };
}

/** 150,000 traders and 20,000 markets at 20,000,000 fills, in 60 days until `now`. */
function optionsOf(fills: number, now: number, traders?: number): GeneratorOptions {
  const scale = Math.sqrt(fills / 20_000_000);
  return {
    seed: 1,
    traders: traders ?? Math.round(150_000 * scale),
    markets: Math.round(20_000 * scale),
    from: now - DAYS * 86_400,
    to: now,
    matches: Math.round(fills / FILLS_PER_MATCH),
    matchesPerMarket: 3_000,
  };
}

async function withNats<T>(
  directory: string,
  work: (nats: Nats, parts: Parts) => Promise<T>,
): Promise<T> {
  const parts = await startParts(directory, []);
  const nats = await connectNats({ url: parts.env.NATS_URL, name: 'bench' });
  try {
    return await work(nats, parts);
  } finally {
    await nats.close();
    await parts.stop();
  }
}

const numbers = (count: number) => Array.from({ length: count }, (_, number) => number);

async function fillLedger(nats: Nats, options: GeneratorOptions) {
  await ensureStreams(nats, 1);
  const ledger = await TestLedger.open(nats);
  await publishMetadata(nats, numbers(options.markets).map(listingOf));
  await publishMetadata(nats, numbers(options.traders).flatMap(traderFacts));
  let fills = 0;
  const startedAt = performance.now();
  let some: Block[] = [];
  for (const block of blocksOf(ledgerEvents(options))) {
    fills += block.matches.reduce((sum, match) => sum + match.fills.length, 0);
    some.push(block);
    if (some.length < BLOCKS_PER_MESSAGE) continue;
    await ledger.publish(some);
    some = [];
  }
  await ledger.publish(some);
  ledger.close();
  return { fills, published: perSecond(fills, startedAt) };
}

async function readBare(nats: Nats, fills: number): Promise<number> {
  const { lastSequence } = await streamState(nats, LEDGER_STREAM);
  const rates: number[] = [];
  for (let round = 0; round < READ_ROUNDS; round++) {
    const stop = new AbortController();
    const startedAt = performance.now();
    const tail = tailBatches(nats, {
      stream: LEDGER_STREAM,
      fromSequence: 1,
      signal: stop.signal,
    });
    for await (const messages of tail) {
      if ((messages.at(-1)?.sequence ?? 0) >= lastSequence) break;
    }
    rates.push(perSecond(fills, startedAt));
  }
  return median(rates);
}

/** Fills and rows a second of what is not stored yet, by several projectors that share the partitions. */
async function project(parts: Parts, nats: Nats, fills: number, { database, count } = ONE) {
  const last = (await newestMessage(nats))?.range.to ?? 0;
  const projectors = Array.from({ length: count }, (_, index) =>
    start('projector/main.ts', [], {
      ...parts.env,
      CLICKHOUSE_DATABASE: database,
      PROJECTOR_INSTANCE: `${index}/${count}`,
    }),
  );
  const stored = async () => {
    const [row] = await parts.query<{ block: string; rows: string }>(
      `SELECT toString(max(block_number)) AS block, toString(count()) AS rows FROM ${database}.bookings`,
    );
    return { block: Number(row?.block), rows: Number(row?.rows) };
  };
  try {
    const before = await stored();
    await Promise.all(projectors.map((one) => one.event('projecting')));
    const startedAt = performance.now();
    await Promise.all(
      projectors.map((one) => one.reached('stored', (line) => Number(line.block) >= last)),
    );
    const left = 1 - before.block / last;
    const seconds = (performance.now() - startedAt) / 1_000;
    const rows = (await stored()).rows - before.rows;
    return {
      projected: Math.round((fills * left) / seconds),
      projectedRows: Math.round(rows / seconds),
    };
  } finally {
    await Promise.all(projectors.map((one) => one.stop()));
  }
}

/** Rows a second of all fills, projected anew into a database of its own by two projectors. */
export async function projectByTwo({ parts, filling }: Dataset): Promise<number> {
  const target = { url: parts.env.CLICKHOUSE_URL, database: 'by_two' };
  await migrate(target);
  const nats = await connectNats({ url: parts.env.NATS_URL, name: 'bench' });
  try {
    const how = { database: target.database, count: 2 };
    return (await project(parts, nats, filling.fills, how)).projectedRows;
  } finally {
    await nats.close();
    await parts.query(`DROP DATABASE ${target.database} FORMAT Null`);
    // The analysts' views follow the database that was migrated last.
    await migrate({ ...target, database: 'fillstream' });
  }
}

function perSecond(count: number, startedAt: number): number {
  return Math.round((count / (performance.now() - startedAt)) * 1_000);
}
