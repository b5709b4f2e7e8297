/**
 * The embedded ClickHouse with every migration and view, and nothing else of the service: what the
 * tests of the schema share. Each test file has its own, in a directory that goes away with it.
 */
import { join } from 'node:path';
import { connectClickHouse } from '../../infra/clickhouse.ts';
import { serviceUrl } from '../../infra/local/secret.ts';
import { migrate } from '../../sql/migrate.ts';
import { start, temporaryDirectory } from './service.ts';
import { copyTemplate } from './template.ts';

export const DATABASE = 'fillstream';

export async function startSchema() {
  const directory = temporaryDirectory();
  const data = join(directory.path, 'clickhouse');
  copyTemplate(data);
  const engine = start('infra/local/clickhouse/main.ts', ['--data', data, '--port', '0']);
  const url = serviceUrl(String((await engine.event('listening')).url), data);
  await migrate({ url, database: DATABASE });
  const client = connectClickHouse({ url, database: DATABASE, name: 'test' });
  return {
    url,
    client,
    async rows<Row>(query: string): Promise<readonly Row[]> {
      return (await client.query({ query, format: 'JSONEachRow' })).json<Row>();
    },
    async stop() {
      await client.close();
      await engine.stop();
      directory.remove();
    },
  };
}
export type Schema = Awaited<ReturnType<typeof startSchema>>;
