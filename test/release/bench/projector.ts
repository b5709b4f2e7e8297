/**
 * `npm run bench:projector`: LEDGER → fold → ClickHouse with all views, by one projector and by two, beside the same rows
 * inserted ready-made; a restart over many open positions; then sizes, leaderboards and the analysts' examples on the
 * generated exchange. FILLS=20000000 for the large run; its data is made once (fills.ts). POSITIONS=20000000 for the restart.
 * Parts: `-- throughput state sizes boards examples`.
 */
import { connectClickHouse } from '../../../infra/clickhouse.ts';
import { type BookedEvent, batchesOf } from '../../../projector/fold/batches.ts';
import { OpenPositions } from '../../../projector/fold/positions.ts';
import { partitionsOf } from '../../../projector/lease.ts';
import { Store } from '../../../projector/store.ts';
import { migrate } from '../../../sql/migrate.ts';
import { blockHash } from '../../support/ledger-generator.ts';
import { Exchange, type ExchangeOptions } from './exchange.ts';
import { type Dataset, exchangeOf, openDataset } from './fills.ts';
import { measureLedger } from './ledger-throughput.ts';
import { measureExamples, refreshBoards } from './projector-queries.ts';
import { machine, percent, printTable, readable } from './report.ts';
import { measureRestart } from './restart.ts';

const FILLS = Number(process.env.FILLS || 1_000_000);
const OPEN_POSITIONS = Number(process.env.POSITIONS || 1_000_000);
/** Of LEDGER and of the ready-made insert: their tables grow and merge, too. */
const THROUGHPUT_FILLS_MAX = 3_000_000;
const READY_EVENTS = 50_000;
const ALL_PARTS = ['throughput', 'state', 'sizes', 'boards', 'examples'];
const PARTS = process.argv.length > 2 ? process.argv.slice(2) : ALL_PARTS;

/** Rows a second of the inserts alone: some rows at a time are made beforehand. */
async function insertReadyMade(url: string, options: ExchangeOptions): Promise<number> {
  const database = 'ready_made';
  await migrate({ url, database });
  const client = connectClickHouse({ url, database, name: 'bench' });
  const store = new Store(client, partitionsOf(0, 1), { database });
  const positions = new OpenPositions();
  let [rows, ms] = [0, 0];
  let booked: BookedEvent[] = [];
  const insert = async () => {
    const batches = batchesOf(booked);
    booked = [];
    const startedAt = performance.now();
    for (const batch of batches) await store.writeBatch(batch);
    ms += performance.now() - startedAt;
    rows += batches.reduce((sum, batch) => sum + batch.rows.length, 0);
  };
  try {
    for (const event of new Exchange(options).events()) {
      booked.push({ blockHash: blockHash(event.blockNumber), rows: positions.apply(event) });
      if (booked.length === READY_EVENTS) await insert();
    }
    await insert();
    return Math.round((rows / ms) * 1_000);
  } finally {
    await client.command({ query: `DROP DATABASE ${database}` });
    await client.close();
    // The analysts' views follow the database that was migrated last.
    await migrate({ url, database: 'fillstream' });
  }
}

async function sizes({ parts, fills }: Dataset) {
  const rows = await parts.query<{ table: string; rows: string; bytes: string; parts: string }>(
    `SELECT table, toString(sum(p.rows)) AS rows, toString(sum(bytes_on_disk)) AS bytes,
       toString(count()) AS parts
     FROM system.parts AS p WHERE active AND database = 'fillstream' AND table NOT LIKE '.%'
     GROUP BY table WITH ROLLUP HAVING sum(p.rows) > 1000 ORDER BY sum(bytes_on_disk) DESC`,
  );
  return rows.map(({ table, rows, bytes, parts }) => ({
    table: table || 'all',
    rows: readable(Number(rows)),
    parts,
    'bytes a row': readable(Number(bytes) / Number(rows)),
    'bytes a fill': readable(Number(bytes) / fills),
  }));
}

async function measureThroughput(url: string): Promise<void> {
  const options = exchangeOf(Math.min(FILLS, THROUGHPUT_FILLS_MAX));
  const ready = await insertReadyMade(url, options);
  const { fills, rows, byTwo } = await measureLedger(options);
  const row = (what: string, perSecond: number, ofReady = '') => ({
    what,
    'a second': readable(perSecond),
    'of the ready-made': ofReady,
  });
  printTable('Throughput', [
    row('ready-made rows with all views', ready, '100 %'),
    row('LEDGER → fold → ClickHouse, rows', rows, percent(rows, ready)),
    row('the same, fills', fills),
    row('the same by two projectors, rows', byTwo, percent(byTwo, ready)),
  ]);
}

async function main(): Promise<void> {
  const data = await openDataset(FILLS);
  const { fills, traders, markets, parts } = data;
  const { CLICKHOUSE_URL } = parts.env;
  try {
    if (PARTS.includes('throughput')) await measureThroughput(CLICKHOUSE_URL);
    if (PARTS.includes('state')) {
      const title = `Restart with ${readable(OPEN_POSITIONS)} open positions`;
      printTable(title, await measureRestart(OPEN_POSITIONS));
    }
    if (PARTS.includes('sizes')) printTable('Size on disk', await sizes(data));
    if (PARTS.includes('boards')) {
      printTable('Refresh of a leaderboard', await refreshBoards(data));
    }
    if (PARTS.includes('examples')) {
      printTable("The analysts' examples", await measureExamples(data));
    }
    console.log(
      `${readable(fills)} fills, ${readable(traders.length)} traders, ` +
        `${readable(markets.length)} markets; ${machine()}`,
    );
  } finally {
    await parts.stop();
  }
}

await main();
