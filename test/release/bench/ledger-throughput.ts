/**
 * Measures LEDGER → fold → ClickHouse. Publishes the events of a generated exchange to a LEDGER in a separate directory,
 * then projects them with one projector and with two.
 */
import { connectNats } from '../../../infra/nats/connection.ts';
import { ensureStreams } from '../../../ingest/streams.ts';
import { migrate } from '../../../sql/migrate.ts';
import { publishEvents } from '../../support/publish-ledger.ts';
import { start, temporaryDirectory } from '../../support/service.ts';
import { type Parts, startParts } from '../../support/stack.ts';
import { Exchange, type ExchangeOptions } from './exchange.ts';

/** Up to 1,000 fills, about 400 KB of JSON, like a message of a catch-up. */
const BLOCKS_PER_MESSAGE = 300;

/** Rates per second: fills projected, and rows stored by one and by two projectors. */
export async function measureLedger(options: ExchangeOptions) {
  const directory = temporaryDirectory();
  const parts = await startParts(directory.path, []);
  try {
    const ledger = await publish(parts, options);
    const one = await project(parts, ledger, 'fillstream', 1);
    await migrate({ url: parts.env.CLICKHOUSE_URL, database: 'by_two' });
    const two = await project(parts, ledger, 'by_two', 2);
    return { fills: one.fills, rows: one.rows, byTwo: two.rows };
  } finally {
    await parts.stop();
    directory.remove();
  }
}

async function publish(parts: Parts, options: ExchangeOptions) {
  let [fills, last]: [number, number] = [0, 0];
  function* counted() {
    for (const event of new Exchange(options).events()) {
      if (event.kind === 'match') fills += event.fills.length;
      last = event.blockNumber;
      yield event;
    }
  }
  const nats = await connectNats({ url: parts.env.NATS_URL, name: 'bench' });
  await ensureStreams(nats, 1);
  await publishEvents(nats, counted(), BLOCKS_PER_MESSAGE);
  await nats.close();
  return { fills, last };
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
