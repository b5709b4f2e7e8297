/**
 * Parts of the service without the supervisor: real NATS and ClickHouse, and the processes that a test
 * asks for, each started alone from environment variables as in production.
 */
import { join } from 'node:path';
import { generateKey, KEYS_BUCKET, storeKey } from '../../api/auth/keys.ts';
import { NatsConfig, readConfig } from '../../infra/config.ts';
import { startNatsServer } from '../../infra/local/nats-server.ts';
import { serviceUrl } from '../../infra/local/secret.ts';
import { connectNats, natsOptions } from '../../infra/nats/connection.ts';
import { openKv } from '../../infra/nats/kv.ts';
import { migrate } from '../../sql/migrate.ts';
import { answerOf, query, start } from './service.ts';
import { copyTemplate } from './template.ts';

const READY = { ingest: 'caught_up', projector: 'projecting', api: 'listening' } as const;
type PartName = keyof typeof READY;

export async function startParts(
  directory: string,
  names: readonly PartName[],
  extra: Readonly<Record<string, string>> = {},
) {
  const nats = await startNatsServer({ dataDir: join(directory, 'nats') });
  const data = join(directory, 'clickhouse');
  copyTemplate(data);
  const clickhouse = start('infra/local/clickhouse/main.ts', ['--data', data, '--port', '0']);
  const url = serviceUrl(String((await clickhouse.event('listening')).url), data);
  const env = { NATS_URL: nats.url, CLICKHOUSE_URL: url, HTTP_PORT: '0', ...extra };
  try {
    await migrate({ url: env.CLICKHOUSE_URL, database: 'fillstream' });
  } catch (error) {
    // Data of other migrations is refused.
    await clickhouse.stop();
    await nats.stop();
    throw error;
  }
  const key = generateKey('pro');
  const client = await connectNats({ url: nats.url, name: 'test' });
  await storeKey(await openKv(client, KEYS_BUCKET), key, {
    label: 'test',
    tier: 'pro',
    account: 'test',
    created_at: new Date().toISOString(),
  });
  await client.close();
  const parts = new Map(names.map((name) => [name, start(`${name}/main.ts`, [], env)]));
  for (const [name, part] of parts) await part.event(READY[name]);
  const api = await parts.get('api')?.event('listening');
  return {
    env,
    key,
    /** The process of ClickHouse. */
    clickhousePid: clickhouse.pid,
    nats: natsOptions(readConfig(NatsConfig, env)),
    apiUrl: `http://127.0.0.1:${api?.port}`,
    get: <T>(path: string): Promise<T> => answerOf<T>(`http://127.0.0.1:${api?.port}`, key, path),
    query: <Row>(sql: string) => query<Row>(env.CLICKHOUSE_URL, sql),
    async stop() {
      await Promise.all([...parts.values()].map((part) => part.stop()));
      await clickhouse.stop();
      await nats.stop();
    },
  };
}
export type Parts = Awaited<ReturnType<typeof startParts>>;
