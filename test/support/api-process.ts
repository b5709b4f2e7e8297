/** The api as a separate process, as it runs in production, with its log. */

import { start } from './service.ts';
import { DATABASE } from './stack.ts';

export type ApiProcess = Awaited<ReturnType<typeof startApiProcess>>;

/** Resolves once it listens. */
export async function startApiProcess(
  stores: { readonly natsUrl: string; readonly clickhouseUrl: string },
  more: NodeJS.ProcessEnv = {},
) {
  const child = start('api/main.ts', [], {
    ...{ NATS_URL: stores.natsUrl, CLICKHOUSE_URL: stores.clickhouseUrl, HTTP_PORT: '0' },
    ...{ CLICKHOUSE_DATABASE: DATABASE, LOG_LEVEL: 'info' },
    ...more,
  });
  const { port } = await child.event('listening');
  return {
    ...child,
    port: Number(port),
    url: `http://127.0.0.1:${port}`,
    log: () => child.lines.map((line) => JSON.stringify(line)).join('\n') + child.errors(),
  };
}
