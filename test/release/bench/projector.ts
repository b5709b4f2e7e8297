/**
 * `npm run bench:projector`: LEDGER → fold → ClickHouse with all views, by one projector and by two, beside
 * the same rows inserted ready-made and the bare read of the stream; then state, sizes, leaderboards, and
 * every query of the api on that data, idle and while 10,000 fills a second are inserted. FILLS=20000000 for
 * the large run; its data is made once (test/release/bench/fills.ts). POSITIONS=20000000 for the restart of `state`.
 * Parts: `-- shape throughput state sizes boards examples queries`.
 */
import { connectClickHouse } from '../../../infra/clickhouse.ts';
import { type BookedEvent, batchesOf, OpenPositions } from '../../../projector/fold.ts';
import { partitionsOf } from '../../../projector/lease.ts';
import { Store } from '../../../projector/store.ts';
import { migrate } from '../../../sql/migrate.ts';
import { blockHash } from '../../support/ledger-generator.ts';
import { Exchange, type ExchangeOptions } from './exchange.ts';
import { type Dataset, exchangeOf, openDataset } from './fills.ts';
import { measureLedger } from './ledger-throughput.ts';
import { measureExamples, measureQueries, refreshBoards } from './projector-queries.ts';
import { machine, median, percent, printTable, readable } from './report.ts';
import { measureRestart } from './restart.ts';
import { shapeOf } from './shape.ts';

const FILLS = Number(process.env.FILLS || 1_000_000);
const OPEN_POSITIONS = Number(process.env.POSITIONS || 1_000_000);
/** Of the fold alone: enough to be steady, small in memory. */
const FOLDED_FILLS = 300_000;
/** Of LEDGER and of the ready-made insert: their tables grow and merge, too. */
const THROUGHPUT_FILLS_MAX = 3_000_000;
const READY_EVENTS = 50_000;
const ROUNDS = 5;
const ALL_PARTS = ['shape', 'throughput', 'state', 'sizes', 'boards', 'examples', 'queries'];
const PARTS = process.argv.length > 2 ? process.argv.slice(2) : ALL_PARTS;

/**
 * Rows a second of the fold; they are dropped as they come. What the rounds before left is collected first: to
 * mark it with the benchmark's own events made every second round two fifths slower.
 */
function foldAlone(): number {
  const events = [...new Exchange(exchangeOf(FOLDED_FILLS)).events()];
  const rates: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    globalThis.gc?.();
    const positions = new OpenPositions();
    let rows = 0;
    const startedAt = performance.now();
    for (const event of events) rows += positions.apply(event).length;
    rates.push(Math.round((rows / (performance.now() - startedAt)) * 1_000));
  }
  return median(rates);
}

/** Rows a second of the inserts alone: some rows at a time are made beforehand. */
async function insertReadyMade(url: string, options: ExchangeOptions): Promise<number> {
  return inDatabase(url, 'ready_made', async (store) => {
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
    for (const event of new Exchange(options).events()) {
      booked.push({ blockHash: blockHash(event.blockNumber), rows: positions.apply(event) });
      if (booked.length === READY_EVENTS) await insert();
    }
    await insert();
    return Math.round((rows / ms) * 1_000);
  });
}

async function inDatabase<T>(
  url: string,
  database: string,
  work: (store: Store, client: ReturnType<typeof connectClickHouse>) => Promise<T>,
): Promise<T> {
  await migrate({ url, database });
  const client = connectClickHouse({ url, database, name: 'bench' });
  try {
    return await work(new Store(client, partitionsOf(0, 1), { database }), client);
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
     GROUP BY table HAVING sum(p.rows) > 1000 ORDER BY sum(bytes_on_disk) DESC`,
  );
  const all = rows.reduce((sum, row) => sum + Number(row.bytes), 0);
  return [
    ...rows.map(({ table, rows, bytes, parts }) => ({
      table,
      rows: readable(Number(rows)),
      parts,
      'bytes a row': readable(Number(bytes) / Number(rows)),
      'bytes a fill': readable(Number(bytes) / fills),
    })),
    {
      table: 'all',
      rows: '',
      parts: '',
      'bytes a row': '',
      'bytes a fill': readable(all / fills),
    },
  ];
}

async function measureThroughput(url: string): Promise<void> {
  const options = exchangeOf(Math.min(FILLS, THROUGHPUT_FILLS_MAX));
  const folded = foldAlone();
  const ready = await insertReadyMade(url, options);
  const { read, fills, rows, byTwo } = await measureLedger(options);
  const row = (what: string, perSecond: number, ofReady = '') => ({
    what,
    'a second': readable(perSecond),
    'of the ready-made': ofReady,
  });
  printTable('Throughput', [
    row('fold alone, rows', folded),
    row('bare read of LEDGER, fills', read),
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
    if (PARTS.includes('shape')) printTable('Shape of the data', await shapeOf(data));
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
    if (PARTS.includes('queries')) {
      printTable('Queries of the api, milliseconds', await measureQueries(data));
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
