/**
 * Measures LEDGER → fold → ClickHouse. Publishes the events of a generated exchange to a LEDGER in a separate directory,
 * then only reads them, and projects them with one projector and with two.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connectNats, type Nats, streamState } from '../../../infra/nats/connection.ts';
import { tailBatches } from '../../../infra/nats/reader.ts';
import { type Block, LEDGER_STREAM } from '../../../ingest/ledger.ts';
import { ensureStreams } from '../../../ingest/streams.ts';
import { migrate } from '../../../sql/migrate.ts';
import { blocksOf } from '../../support/ledger-generator.ts';
import { type Parts, startParts } from '../../support/parts.ts';
import { TestLedger } from '../../support/publish-ledger.ts';
import { start } from '../../support/service.ts';
import { Exchange, type ExchangeOptions } from './exchange.ts';
import { median } from './report.ts';

/** About 400 KB of JSON, like a message of a catch-up. */
const FILLS_PER_MESSAGE = 1_000;
const READ_ROUNDS = 3;

/** Rates per second: fills read only, fills projected, and rows stored by one and by two projectors. */
export async function measureLedger(options: ExchangeOptions) {
  const directory = mkdtempSync(join(tmpdir(), 'fillstream-bench-ledger-'));
  const parts = await startParts(directory, []);
  const nats = await connectNats({ url: parts.env.NATS_URL, name: 'bench' });
  try {
    const ledger = await publish(nats, options);
    const read = await readBare(nats, ledger.fills);
    const one = await project(parts, ledger, 'fillstream', 1);
    await migrate({ url: parts.env.CLICKHOUSE_URL, database: 'by_two' });
    const two = await project(parts, ledger, 'by_two', 2);
    return { read, fills: one.fills, rows: one.rows, byTwo: two.rows };
  } finally {
    await nats.close();
    await parts.stop();
    rmSync(directory, { recursive: true });
  }
}

async function publish(nats: Nats, options: ExchangeOptions) {
  await ensureStreams(nats, 1);
  const ledger = await TestLedger.open(nats);
  let [fills, last]: [number, number] = [0, 0];
  let [some, someFills]: [Block[], number] = [[], 0];
  for (const block of blocksOf(new Exchange(options).events())) {
    last = block.number;
    some.push(block);
    someFills += block.matches.reduce((sum, match) => sum + match.fills.length, 0);
    if (someFills < FILLS_PER_MESSAGE) continue;
    await ledger.publish(some);
    fills += someFills;
    [some, someFills] = [[], 0];
  }
  await ledger.publish(some);
  ledger.close();
  return { fills: fills + someFills, last };
}

async function readBare(nats: Nats, fills: number): Promise<number> {
  const { lastSequence } = await streamState(nats, LEDGER_STREAM);
  const rates: number[] = [];
  for (let round = 0; round < READ_ROUNDS; round++) {
    const { signal } = new AbortController();
    const startedAt = performance.now();
    for await (const messages of tailBatches(nats, {
      ...{ stream: LEDGER_STREAM, fromSequence: 1, signal },
    })) {
      if ((messages.at(-1)?.sequence ?? 0) >= lastSequence) break;
    }
    rates.push(Math.round((fills / (performance.now() - startedAt)) * 1_000));
  }
  return median(rates);
}

/** Projects with several projectors that share the partitions. */
async function project(
  parts: Parts,
  ledger: { readonly fills: number; readonly last: number },
  database: string,
  count: number,
) {
  const projectors = Array.from({ length: count }, (_, index) =>
    start('projector/main.ts', [], {
      ...parts.env,
      CLICKHOUSE_DATABASE: database,
      PROJECTOR_INSTANCE: `${index}/${count}`,
    }),
  );
  try {
    await Promise.all(projectors.map((one) => one.event('projecting')));
    const startedAt = performance.now();
    await Promise.all(
      projectors.map((one) => one.reached('stored', (line) => Number(line.block) >= ledger.last)),
    );
    const seconds = (performance.now() - startedAt) / 1_000;
    const [stored] = await parts.query<{ rows: string }>(
      `SELECT toString(count()) AS rows FROM ${database}.bookings`,
    );
    const rows = Math.round(Number(stored?.rows) / seconds);
    return { fills: Math.round(ledger.fills / seconds), rows };
  } finally {
    await Promise.all(projectors.map((one) => one.stop()));
  }
}
