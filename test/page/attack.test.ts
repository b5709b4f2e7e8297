/**
 * A hostile web page in the reader's browser, against every port that `npm start` listens on: by images,
 * scripts, forms, fetches and sockets from another site, and by a name that the attacker points at loopback.
 * It must not read or change anything. (Paths that need no key may be read under any host name.)
 */
import { once } from 'node:events';
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { type Browser, chromium, type Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { LASTING_TABLES } from '../../infra/clickhouse.ts';
import { connectNats } from '../../infra/nats/connection.ts';
import { rpc, type Service, startService, temporaryDirectory } from '../support/service.ts';
import { CHROMIUM, MISSING, SWITCHES } from './browser.ts';

const PAGE = join(import.meta.dirname, 'attack.html');
const EVIL = 'evil.example';
/** Parts of `npm start` that listen; chain, metadata API and metrics have ports of their own. */
const PORTS_MIN = 8;
/** Time limit of an attack on one port; it ends earlier if all its requests have a response. */
const ROUND_MS = 6_000;

type Port = { readonly address: string; readonly port: number };
type Loot = { readonly read: readonly string[]; readonly opened: readonly string[] };

/** Runs in a page whose own origin is the attacked port, under the attacker's name. */
async function ask(paths: readonly string[]): Promise<readonly string[]> {
  const call = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'eth_chainId', params: [] });
  const answers: string[] = [];
  for (const [path, body] of [...paths.map((one) => [one]), ['/', call], ['/', 'SELECT 1']]) {
    const init = body === undefined ? {} : { method: 'POST', body };
    const answer = await fetch(path ?? '', init).catch(() => undefined);
    if (answer?.ok) answers.push(`${body ?? ''} ${path}`.trim());
  }
  return answers;
}

if (CHROMIUM === undefined) console.warn(MISSING);

describe.skipIf(CHROMIUM === undefined)(`a hostile page (${CHROMIUM ?? MISSING})`, () => {
  const directory = temporaryDirectory();
  let service: Service;
  let browser: Browser;
  let site: Server;
  let page: Page;
  let ports: readonly Port[];

  beforeAll(async () => {
    service = await startService(`${directory.path}/data`, { args: ['--history-days', '1'] });
    ports = listening(service.up.pid);
    const rules = `MAP ${EVIL} 127.0.0.1`;
    const args = [...SWITCHES, `--host-resolver-rules=${rules}`];
    browser = await chromium.launch({ executablePath: CHROMIUM ?? '', args });
    site = createServer((_, response) => {
      response.setHeader('Content-Type', 'text/html').end(readFileSync(PAGE));
    }).listen(0, '127.0.0.1');
    await once(site, 'listening');
    page = await browser.newPage();
  });

  afterAll(async () => {
    await browser?.close();
    site?.close();
    await service?.up.stop();
    directory.remove();
  });

  /** What an attack would change. */
  async function state() {
    const nats = await connectNats({ ...service.nats, name: 'test' });
    const streams = [];
    for await (const { config } of nats.jsm.streams.list()) streams.push(config);
    await nats.close();
    const databases = await service.query('SELECT name FROM system.databases ORDER BY name');
    const tables = await service.query(
      `SELECT name FROM system.tables WHERE database = 'fillstream' AND ${LASTING_TABLES} ORDER BY name`,
    );
    const first = await rpc<{ hash: string }>(service.ready.rpc_url, 'eth_getBlockByNumber', [
      '0x1',
      false,
    ]);
    return { streams, databases, tables, first: first.hash };
  }

  const head = async () => Number(await rpc<string>(service.ready.rpc_url, 'eth_blockNumber', []));

  test('of another site reads nothing and changes nothing', async () => {
    expect(ports.length).toBeGreaterThanOrEqual(PORTS_MIN);
    const before = { ...(await state()), head: await head() };
    const { port } = site.address() as AddressInfo;
    // Most of an attack is waiting, so all ports are attacked at the same time.
    const loot = await Promise.all(
      ports.map(async ({ address, port: attacked }) => {
        const found: Loot[] = [];
        const page = await browser.newPage();
        page.setDefaultTimeout(120_000);
        for (const host of new Set([address, 'localhost'])) {
          await page.goto(`http://${EVIL}:${port}/`);
          found.push(await page.evaluate(`attack('http://${host}:${attacked}', ${ROUND_MS})`));
        }
        await page.close();
        return found;
      }),
    );
    expect(loot.flat().flatMap(({ read }) => read)).toEqual([]);
    expect(loot.flat().flatMap(({ opened }) => opened)).toEqual([]);
    const { head: headBefore, ...stateBefore } = before;
    expect(await state()).toEqual(stateBefore);
    expect(await head()).toBeGreaterThanOrEqual(headBefore);
    expect(service.up.lines.filter(({ event }) => event === 'restarting')).toEqual([]);
  });

  test('whose name is pointed at loopback reads only what the API shows everybody', async () => {
    const api = Number(new URL(service.ready.url).port);
    for (const { port } of ports) {
      const answer = await page.goto(`http://${EVIL}:${port}/`).catch(() => undefined);
      // A port that does not speak HTTP serves no page to send requests from.
      if (answer === undefined || answer === null) continue;
      const paths = ['/', '/?query=SELECT+1', '/metrics', '/healthz', '/markets', '/v2/status'];
      const answers = await page.evaluate(`(${ask})(${JSON.stringify(paths)})`);
      expect({ port, answers }).toEqual({
        port,
        answers: port === api ? ['/', '/?query=SELECT+1', '/healthz', '/markets'] : [],
      });
    }
  });
});

/** TCP addresses on which a process and its descendants listen. */
function listening(root: number): readonly Port[] {
  const sockets = new Set(descendants(root).flatMap(socketsOf));
  return ['/proc/net/tcp', '/proc/net/tcp6'].flatMap((file) =>
    readFileSync(file, 'utf8')
      .split('\n')
      .slice(1)
      .map((line) => line.trim().split(/\s+/))
      .filter(([, , , state, , , , , , inode]) => state === '0A' && sockets.has(inode ?? ''))
      .map(([, local = '']) => {
        const [address = '', port = ''] = local.split(':');
        const bytes = Buffer.from(address, 'hex').reverse();
        return { address: bytes.join('.'), port: Number.parseInt(port, 16) };
      }),
  );
}

function descendants(pid: number): readonly number[] {
  const children = readdirSync(`/proc/${pid}/task`).flatMap((thread) =>
    readFileSync(`/proc/${pid}/task/${thread}/children`, 'utf8').match(/\d+/g),
  );
  return [pid, ...children.flatMap((child) => (child === null ? [] : descendants(Number(child))))];
}

function socketsOf(pid: number): readonly string[] {
  return readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
    const target = readlinkOf(`/proc/${pid}/fd/${fd}`);
    return /^socket:\[(\d+)\]$/.exec(target)?.[1] ?? [];
  });
}

/** '' if the file was closed meanwhile. */
function readlinkOf(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return '';
  }
}
