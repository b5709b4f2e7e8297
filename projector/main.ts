/**
 * The projector process: folds LEDGER into positions and writes them to ClickHouse.
 * Starts alone from environment variables (infra/config.ts); stops on SIGTERM with nothing half done.
 */
import { connectClickHouse } from '../infra/clickhouse.ts';
import { readConfig } from '../infra/config.ts';
import { connectNats } from '../infra/nats.ts';
import { runProcess } from '../infra/process.ts';
import { ensureStreams } from '../infra/streams.ts';
import { runProjector } from './consume.ts';
import { Store } from './store.ts';

await runProcess('projector', async ({ logger, signal, report }) => {
  const config = readConfig();
  const nats = await connectNats({ url: config.NATS_URL, name: 'projector' });
  const client = connectClickHouse({
    url: config.CLICKHOUSE_URL,
    database: config.CLICKHOUSE_DATABASE,
    name: 'projector',
  });
  try {
    await ensureStreams(nats, config.NATS_REPLICAS);
    await runProjector({
      nats,
      store: new Store(client),
      logger,
      signal,
      onStart: () => report({ event: 'projecting' }),
      onStored: (sequence) => report({ event: 'stored', sequence }),
    });
  } finally {
    await client.close();
    await nats.close();
  }
});
