/** The api as a process of its own, as it runs in production, with its log. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { DATABASE } from './api-harness.ts';

export type ApiProcess = Awaited<ReturnType<typeof startApiProcess>>;

/** Resolves once it listens. */
export async function startApiProcess(
  stores: { readonly natsUrl: string; readonly clickhouseUrl: string },
  more: NodeJS.ProcessEnv = {},
) {
  const child = spawn(process.execPath, [join(import.meta.dirname, '../../api/main.ts')], {
    env: {
      ...process.env,
      ...{ NATS_URL: stores.natsUrl, CLICKHOUSE_URL: stores.clickhouseUrl, HTTP_PORT: '0' },
      ...{ CLICKHOUSE_DATABASE: DATABASE, LOG_LEVEL: 'info' },
      ...more,
    },
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
  });
  let log = '';
  child.stdout?.on('data', (text) => {
    log += String(text);
  });
  const port = await new Promise<number>((done) => {
    child.on('message', (message: { event: string; port: number }) => {
      if (message.event === 'listening') done(message.port);
    });
  });
  return {
    port,
    url: `http://127.0.0.1:${port}`,
    log: () => log,
    async stop() {
      child.kill('SIGTERM');
      await once(child, 'exit');
    },
  };
}
