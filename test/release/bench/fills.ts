/**
 * A data directory with about FILLS fills of the generated exchange (exchange.ts), made once and kept in the system's
 * temporary directory for the benchmarks of the projector, the api and the page. The projector's fold computes the
 * bookings, which are inserted in bulk. LEDGER holds only the last block, so that a projector can continue. Tables are
 * merged like those of a service one day later. The fills end at the time when the data was made, so the leaderboards of
 * short time frames are empty some hours later. The directory can be removed at any time.
 */
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import type { ClickHouseClient } from '@clickhouse/client';
import { connectClickHouse } from '../../../infra/clickhouse.ts';
import { connectNats, streamState } from '../../../infra/nats/connection.ts';
import {
  type Address,
  type Hash,
  METADATA_STREAM,
  type TradingEvent,
} from '../../../ingest/contract.ts';
import { ensureStreams } from '../../../ingest/streams.ts';
import { BOOKING_COLUMNS, type Booking, bookingValues } from '../../../projector/contract.ts';
import { OpenPositions } from '../../../projector/fold/positions.ts';
import { partitionsOf } from '../../../projector/lease.ts';
import { type Fact, Store } from '../../../projector/store.ts';
import {
  blockHash,
  blocksOf,
  publishMetadata,
  traderFacts,
} from '../../support/ledger-generator.ts';
import { TestLedger } from '../../support/publish-ledger.ts';
import { start } from '../../support/service.ts';
import { type Parts, startParts } from '../../support/stack.ts';
import { Exchange, type ExchangeOptions, REAL } from './exchange.ts';
import { listingOf, type Market } from './exchange-markets.ts';

/** Increase it whenever the data changes. */
const VERSION = 8;
const SEED = 1;
const DATABASE = 'fillstream';
/** Tables whose parts are merged into one after a day (min_age_to_force_merge_seconds). */
const SETTLING = [
  ...['bookings', 'trader_hours', 'trader_markets', 'market_traders', 'market_bookings'],
  ...['matches', 'market_minutes', 'market_days', 'trader_market_hours', 'bookings_by_time'],
  'movements',
];
const FACTS = 10_000;
/** Of an insert. */
const ROWS = 100_000;
const EVENTS_AT_ONCE = 1_000;
const STATEMENT_MS_MAX = 4 * 3_600_000;

type ListedMarket = {
  readonly conditionId: Hash;
  readonly id: number;
  readonly slug: string;
  readonly question: string;
};

export type Dataset = {
  readonly exchange: ExchangeOptions;
  readonly fills: number;
  /** Busiest first. */
  readonly traders: readonly Address[];
  readonly markets: readonly ListedMarket[];
  /** NATS and ClickHouse on that data; `env` and `key` for the processes and their clients. */
  readonly parts: Parts;
};

/** An exchange with about this many fills in the thirty days up to now, with traders and markets in proportion. */
export function exchangeOf(fills: number): ExchangeOptions {
  const to = Math.floor(Date.now() / 1_000);
  return { seed: SEED, size: fills / REAL.fills, fills, from: to - REAL.days * 86_400, to };
}

/** Opens the data and makes it first if necessary. Call `parts.stop()` at the end. */
export async function openDataset(fills: number): Promise<Dataset> {
  const directory = join(tmpdir(), `fillstream-bench-exchange-${VERSION}-${fills}`);
  const made = join(directory, 'made.json');
  if (!existsSync(made)) {
    rmSync(directory, { recursive: true, force: true });
    mkdirSync(directory);
    writeFileSync(made, JSON.stringify(await make(directory, exchangeOf(fills))));
  }
  const { exchange, fills: stored } = JSON.parse(readFileSync(made, 'utf8'));
  const parts = await startParts(directory, []);
  const traders = await parts.query<{ address: Address }>(
    `SELECT concat('0x', lower(hex(trader))) AS address FROM trader_activity
     GROUP BY trader ORDER BY sum(fills) DESC, trader`,
  );
  const markets = await parts.query<ListedMarket>(
    `SELECT concat('0x', lower(hex(condition_id))) AS conditionId, toFloat64(market_id) AS id, slug, question
     FROM (SELECT condition_id, sum(matches) AS number FROM market_marks GROUP BY condition_id) AS marks
     JOIN (SELECT condition_id, market_id, slug, question FROM markets FINAL) AS listings USING condition_id
     ORDER BY number DESC, condition_id`,
  );
  const addresses = traders.map(({ address }) => address);
  return { exchange, fills: stored, traders: addresses, markets, parts };
}

async function make(directory: string, exchange: ExchangeOptions) {
  const startedAt = performance.now();
  const seconds = () => Math.round((performance.now() - startedAt) / 1_000);
  const parts = await startParts(directory, []);
  const client = connectClickHouse({
    ...{ url: parts.env.CLICKHOUSE_URL, database: DATABASE, name: 'bench' },
    requestTimeoutMs: STATEMENT_MS_MAX,
  });
  try {
    const filled = await fill(client, exchange);
    console.log(
      `${filled.fills} fills in ${seconds()} s, ${Math.round(filled.fills / seconds())} a second`,
    );
    await settle(client);
    console.log(`merged after ${seconds()} s`);
    await list(parts, filled);
    console.log(`listed after ${seconds()} s`);
    return { exchange, fills: filled.fills, seconds: seconds() };
  } finally {
    await client.close();
    await parts.stop();
  }
}

/** Two tables at a time, because one merge uses one core. */
async function settle(client: ClickHouseClient): Promise<void> {
  const tables = SETTLING.values();
  const merge = async () => {
    for (const table of tables) await client.command({ query: `OPTIMIZE TABLE ${table} FINAL` });
  };
  await Promise.all([merge(), merge()]);
}

/** Events → fold → ClickHouse, then the checkpoint. */
async function fill(client: ClickHouseClient, options: ExchangeOptions) {
  const partitions = partitionsOf(0, 1);
  const store = new Store(client, partitions, { database: DATABASE });
  const markets: Market[] = [];
  const exchange = new Exchange(options, (market) => markets.push(market));
  const positions = new OpenPositions();
  let rows: Booking[] = [];
  let inserting: Promise<unknown> = Promise.resolve();
  let facts: Fact[] = [];
  let [events, fills]: [number, number] = [0, 0];
  let last: TradingEvent[] = [];
  /** Starts to insert what there is once the insert before is done. */
  const insert = async () => {
    await inserting;
    inserting = insertBookings(client, rows);
    // Awaited later, so its rejection must not count as unhandled.
    inserting.catch(() => undefined);
    rows = [];
  };
  // Merging once at the end is cheaper than merging during the inserts.
  for (const what of ['MERGES', 'VIEWS']) await client.command({ query: `SYSTEM STOP ${what}` });
  for (const event of exchange.events()) {
    if (last[0]?.blockNumber !== event.blockNumber) last = [];
    last.push(event);
    if (event.kind === 'match') fills += event.fills.length;
    else if (facts.push(event) === FACTS) {
      await store.writeFacts(facts);
      facts = [];
    }
    // Lets pending inserts make progress.
    events += 1;
    if (events % EVENTS_AT_ONCE === 0) await setImmediate();
    rows.push(...positions.apply(event));
    if (rows.length >= ROWS) await insert();
  }
  await insert();
  await inserting;
  await store.writeFacts(facts);
  for (const what of ['MERGES', 'VIEWS']) await client.command({ query: `SYSTEM START ${what}` });
  const { blockNumber = 0, logIndex = 0 } = last.at(-1) ?? {};
  const checkpoint = { blockNumber, logIndex, blockHash: blockHash(blockNumber) };
  await store.writeCheckpoints(new Map(partitions.map((partition) => [partition, checkpoint])));
  return { fills, last, markets, traders: exchange.traders };
}

/** Streamed row by row, so that the event loop is free to see connections that the server closes. */
async function insertBookings(client: ClickHouseClient, rows: readonly Booking[]): Promise<void> {
  await client.insert({
    table: 'bookings',
    columns: BOOKING_COLUMNS as [string, ...string[]],
    values: Readable.from(valuesOf(rows)),
    format: 'JSONCompactEachRow',
    clickhouse_settings: { insert_deduplicate: 0, optimize_on_insert: 0 },
  });
}

function* valuesOf(rows: readonly Booking[]) {
  for (const row of rows) yield bookingValues(row, '1');
}

/** Publishes the last block to LEDGER, and listings, profiles and balances to METADATA, which a projector then stores. */
async function list(parts: Parts, filled: Awaited<ReturnType<typeof fill>>): Promise<void> {
  const { last, markets, traders } = filled;
  const nats = await connectNats({ url: parts.env.NATS_URL, name: 'bench' });
  await ensureStreams(nats, 1);
  const ledger = await TestLedger.open(nats);
  await ledger.publish([...blocksOf(last)]);
  ledger.close();
  await publishMetadata(nats, markets.map(listingOf));
  await publishMetadata(
    nats,
    Array.from({ length: traders.count }, (_, number) =>
      traderFacts(number, traders.address(number)),
    ).flat(),
  );
  const { lastSequence } = await streamState(nats, METADATA_STREAM);
  await nats.close();
  const projector = start('projector/main.ts', [], parts.env);
  await projector.reached('metadata_stored', (line) => Number(line.sequence) >= lastSequence);
  await projector.stop();
}
