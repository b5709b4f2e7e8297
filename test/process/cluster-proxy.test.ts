// The proxy of the cluster's compose file, in front of two small servers instead of the apis.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { freePort } from '../../local/ports.ts';
import { answered } from '../support/service.ts';
import { address } from '../unit/feed-matches.ts';

const NGINX = '/usr/sbin/nginx';
const CONFIG = join(import.meta.dirname, '../../infra/deploy/proxy/nginx.conf');

const isInstalled = existsSync(NGINX);
if (!isInstalled) console.log('proxy skipped: apt-get install nginx');

describe.skipIf(!isInstalled)('the proxy of the cluster', () => {
  let directory: string;
  let backends: Server[];
  let nginx: ChildProcess;
  let ended: Promise<unknown>;
  let url: string;
  let unavailable = 0;

  beforeAll(async () => {
    directory = mkdtempSync(join(tmpdir(), 'fillstream-proxy-'));
    backends = await Promise.all([startBackend(), startBackend()]);
    const [first, second] = backends.map((backend) => (backend.address() as AddressInfo).port);
    const port = await freePort();
    url = `http://127.0.0.1:${port}`;
    const config = join(directory, 'nginx.conf');
    writeFileSync(
      config,
      readFileSync(CONFIG, 'utf8')
        .replaceAll('/tmp/', `${directory}/`)
        .replace('/dev/stderr', join(directory, 'error.log'))
        .replace('listen 8080', `listen 127.0.0.1:${port}`)
        .replace('api-1:8080', `127.0.0.1:${first}`)
        .replace('api-2:8080', `127.0.0.1:${second}`),
    );
    const args = ['-c', config, '-e', join(directory, 'error.log'), '-g', 'daemon off;'];
    nginx = spawn(NGINX, args, { stdio: 'inherit' });
    ended = once(nginx, 'exit');
    await Promise.race([answered(() => fetch(url)), ended]);
  });

  afterAll(async () => {
    nginx.kill('SIGTERM');
    await ended;
    for (const backend of backends) backend.close();
    rmSync(directory, { recursive: true, force: true });
  });

  /** Responds with 503 on one path, as an api does while ClickHouse is down, and 200 on all others. */
  async function startBackend(): Promise<Server> {
    const server = createServer((request, response) => {
      const isDown = request.url === '/down';
      if (isDown) unavailable += 1;
      response.writeHead(isDown ? 503 : 200).end(isDown ? 'no ClickHouse' : request.url);
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return server;
  }

  test('tries both apis before it forwards a 503, and serves all other requests', async () => {
    for (let n = 1; n <= 5; n++) {
      const down = await fetch(`${url}/down`);
      expect([down.status, await down.text(), unavailable]).toEqual([503, 'no ClickHouse', 2 * n]);
      expect((await fetch(`${url}/feed`)).status).toBe(200);
    }
  });

  test('forwards as many addresses as a filter may have', async () => {
    const traders = Array.from({ length: 350 }, (_, n) => address(n)).join('%2C');
    const path = `/v1/stream/orders?traders=${traders}`;
    const response = await fetch(url + path);
    expect([response.status, (await response.text()) === path]).toEqual([200, true]);
  });
});
