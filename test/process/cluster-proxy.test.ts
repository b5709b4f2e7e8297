// The proxy of the cluster's compose file and the site of a single machine, in front of small servers instead of the apis.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { freePort } from '../../local/ports.ts';
import { answered } from '../support/service.ts';
import { address } from '../unit/feed-matches.ts';

const NGINX = '/usr/sbin/nginx';
const PROXY = join(import.meta.dirname, '../../infra/deploy/proxy');

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
      readFileSync(join(PROXY, 'nginx.conf'), 'utf8')
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

test.skipIf(!isInstalled)(
  'the site of one machine forwards long filters, and each event of a stream when it is sent',
  async ({ onTestFinished }) => {
    const directory = mkdtempSync(join(tmpdir(), 'fillstream-site-'));
    onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
    const streams: ServerResponse[] = [];
    const api = createServer((request, response) => {
      if (request.url !== '/stream') {
        return response.end(`${request.headers['x-forwarded-for']} ${request.url}`);
      }
      streams.push(response);
      return response.writeHead(200, { 'Content-Type': 'text/event-stream' }).write('id: 1\n\n');
    });
    api.listen(0, '127.0.0.1');
    await once(api, 'listening');
    onTestFinished(() => void api.close());
    const port = await freePort();
    const site = readFileSync(join(PROXY, 'site.conf'), 'utf8')
      .replace('listen 80', `listen 127.0.0.1:${port}`)
      .replace('listen [::]:80;', '')
      .replace('127.0.0.1:8080', `127.0.0.1:${(api.address() as AddressInfo).port}`);
    const paths = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
      (name) => `${name}_temp_path ${directory}/${name};`,
    );
    const config = join(directory, 'nginx.conf');
    writeFileSync(
      config,
      `pid ${directory}/pid; events {} http { access_log off; ${paths.join(' ')} ${site} }`,
    );
    const args = ['-c', config, '-e', join(directory, 'error.log'), '-g', 'daemon off;'];
    const nginx = spawn(NGINX, args, { stdio: 'inherit' });
    const ended = once(nginx, 'exit');
    onTestFinished(async () => {
      nginx.kill('SIGTERM');
      await ended;
    });
    const url = `http://127.0.0.1:${port}`;
    const path = `/v1/stream/orders?traders=${Array.from({ length: 350 }, (_, n) => address(n)).join('%2C')}`;
    const headers = { 'X-Forwarded-For': '192.0.2.1' };
    const response = await answered(() => fetch(url + path, { headers }));
    expect(await response.text()).toBe(`127.0.0.1 ${path}`);
    const reader = (await fetch(`${url}/stream`)).body?.getReader();
    for (const id of [1, 2]) {
      const { value } = (await reader?.read()) ?? {};
      expect(Buffer.from(value ?? []).toString()).toBe(`id: ${id}\n\n`);
      if (id === 1) streams[0]?.write('id: 2\n\n');
    }
    await reader?.cancel();
  },
);
