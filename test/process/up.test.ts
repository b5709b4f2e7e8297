import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createInterface } from 'node:readline';
import { nanos } from '@nats-io/transport-node';
import { afterAll, describe, expect, test } from 'vitest';
import { connectNats } from '../../infra/nats/connection.ts';
import { FEED_STREAM } from '../../ingest/contract.ts';
import { freePort } from '../../local/ports.ts';
import { FeedClient } from '../support/feed-client.ts';
import {
  rpc,
  type Service,
  start,
  startService,
  temporaryDirectory,
  until,
} from '../support/service.ts';

const FRAMES = ['1H', '4H', '1D', '3D', '7D', '30D'];
const QUICK = ['--history-days', '3'];
const TRADING = [...QUICK, '--demo-rate', '10'];

type Leaderboard = { traders: unknown[]; total_count: number };

/** Command lines of running processes that name the directory. */
function processesOf(directory: string): string[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && name !== String(process.pid))
    .map((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
      } catch {
        return '';
      }
    })
    .filter((command) => command.includes(directory));
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

async function isHealthy(url: string): Promise<boolean> {
  try {
    return (await fetch(`${url}/healthz`)).ok;
  } catch {
    return false;
  }
}

async function outcome(args: readonly string[], env: NodeJS.ProcessEnv = {}) {
  const up = start('local/up.ts', args, env);
  const code = await up.exit;
  return { code, errors: up.errors(), lines: up.lines };
}

describe('npm start', () => {
  const directory = temporaryDirectory();
  /** A start takes long: the last three tests share the directory, and pass on the service that runs on it. */
  const data = `${directory.path}/again`;
  let service: Service | undefined;

  afterAll(async () => {
    await service?.up.stop();
    directory.remove();
  });

  test('refuses a wrong option, a bad variable and a taken port with one clear message each', async () => {
    expect(await outcome(['--prot', '1'])).toMatchObject({
      code: 2,
      errors: expect.stringContaining("Unknown option '--prot'"),
    });
    expect(await outcome(['--demo-rate', 'fast'])).toMatchObject({
      code: 2,
      errors: expect.stringContaining('--demo-rate'),
    });
    expect(await outcome([], { LOG_LEVEL: 'loud' })).toMatchObject({
      code: 1,
      errors: expect.stringContaining('LOG_LEVEL'),
    });
    const other = createServer().listen(0, '127.0.0.1');
    await new Promise((listening) => other.once('listening', listening));
    const { port } = other.address() as AddressInfo;
    const args = ['--data', `${directory.path}/taken`];
    const taken = await outcome(['--port', String(port), ...args]);
    const alsoTaken = await outcome(args, { HTTP_PORT: String(port) });
    other.close();
    for (const { code, errors } of [taken, alsoTaken]) {
      expect([code, errors]).toEqual([1, expect.stringContaining(`port ${port} is taken`)]);
    }
    await expect.poll(() => processesOf(`${directory.path}/taken`)).toEqual([]);
  });

  test('refuses a missing binary, and leaves no process behind', async () => {
    const data = `${directory.path}/missing`;
    const missing = await outcome(['--port', '0', '--data', data], {
      NATS_SERVER_BIN: '/nowhere/nats-server',
    });
    expect(missing).toMatchObject({ code: 1, errors: expect.stringContaining('NATS_SERVER_BIN') });
    expect(missing.errors.trim().split('\n')).toHaveLength(1);
    await expect.poll(() => processesOf(data)).toEqual([]);
  });

  test('uses the servers whose URLs are in files instead of its own', async () => {
    const data = `${directory.path}/files`;
    const file = `${directory.path}/url`;
    writeFileSync(file, `http://127.0.0.1:${await freePort()}\n`);
    const { code, errors, lines } = await outcome(['--json', '--port', '0', '--data', data], {
      CLICKHOUSE_URL_FILE: file,
      RPC_URL_FILE: file,
    });
    expect([code, errors]).toEqual([1, expect.stringContaining('server cannot be reached')]);
    const started = lines.filter((line) => line.event === 'starting').map(({ name }) => name);
    expect(started).not.toContain('clickhouse');
    expect(started).not.toContain('devnet');
  });

  test.each([
    ['ulimit -n 256', 'local/up.ts', /only 256 files may be open/],
    ['ulimit -v 6000000', 'local/clickhouse/main.ts', /5859 MB of virtual memory \(ulimit -v\)/],
  ])('names the limit after %s in one line', (limit, module, reason) => {
    const data = `${directory.path}/limited`;
    const command = `${limit}; exec "$0" ${module} --port 0 --data ${data}`;
    const { status, stderr } = spawnSync('/bin/sh', ['-c', command, process.execPath], {
      encoding: 'utf8',
    });
    expect([status, stderr.trim().split('\n').length]).toEqual([1, 1]);
    expect(stderr).toMatch(reason);
  });

  test('starts api and projector while the chain is still being made', async () => {
    const data = `${directory.path}/held`;
    const up = start('local/up.mjs', ['--json', '--port', '0', '--data', data, ...QUICK]);
    const devnet = await up.reached('starting', ({ name }) => name === 'devnet');
    process.kill(Number(devnet.pid), 'SIGSTOP');
    for (const part of ['api', 'projector']) {
      await up.reached('started', ({ name }) => name === part);
    }
    const names = up.lines.filter(({ event }) => event === 'starting').map(({ name }) => name);
    expect(names).not.toContain('ingest');
    process.kill(Number(devnet.pid), 'SIGCONT');
    await up.reached('starting', ({ name }) => name === 'ingest');
    expect(await up.stop()).toBe(0);
    await expect.poll(() => processesOf(data)).toEqual([]);
  });

  test('refuses an old Node with one line that names what it needs', async () => {
    const up = start('local/up.mjs', [], {}, ['--no-strip-types']);
    expect(await up.exit).toBe(1);
    expect(up.errors()).toMatch(/^Fillstream needs Node 22\.18 or newer; this is \S+\.\n$/);
  });

  test('stops everything when npm gets SIGTERM', async () => {
    const data = `${directory.path}/npm`;
    const args = ['start', '--', '--json', '--port', '0', '--data', data, ...QUICK];
    const npm = spawn('npm', args, { stdio: ['ignore', 'pipe', 'inherit'] });
    const closed = once(npm, 'close');
    for await (const line of createInterface({ input: npm.stdout })) {
      if (line.startsWith('{"event":"ready"')) break;
    }
    npm.kill('SIGTERM');
    npm.stdout.resume();
    await closed;
    await expect.poll(() => processesOf(data)).toEqual([]);
  });

  test('reports in one line what is wrong with a file or directory of its data', async () => {
    const data = `${directory.path}/damaged`;
    const refused = async (...args: string[]) => {
      const { code, errors } = await outcome(['--port', '0', ...args]);
      expect([code, errors.trim().split('\n').length], errors).toEqual([1, 1]);
      return errors;
    };
    mkdirSync(`${data}/devnet`, { recursive: true });
    writeFileSync(`${data}/keys.json`, '{"demo": "fs_de');
    expect(await refused('--data', data)).toMatch(
      /keys\.json is damaged: restore it, or delete it/,
    );
    rmSync(`${data}/keys.json`);
    writeFileSync(`${data}/devnet/devnet.json`, '{"seed": 1, "trad');
    expect(await refused('--data', data)).toMatch(/devnet\.json is damaged: restore it, or delete/);
    expect(await refused('--data', '/sys/fillstream')).toMatch(/cannot start: E\w+: .*'\/sys/);
    await expect.poll(() => processesOf(data)).toEqual([]);
  });

  test('starts despite truncated lock and pid files, is ready with every time frame, stops completely, and continues with equal counts', async () => {
    mkdirSync(`${data}/nats`, { recursive: true });
    mkdirSync(`${data}/devnet`, { recursive: true });
    for (const file of ['up.pid', 'nats/nats-server.lock', 'devnet/chain.json.pid']) {
      writeFileSync(`${data}/${file}`, '');
    }
    service = await startService(data, { args: QUICK });
    const { ready, up } = service;
    expect(ready).toMatchObject({
      event: 'ready',
      url: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/),
      key: expect.stringMatching(/^fs_pro_/),
      clickhouse_url: expect.stringMatching(/^http:/),
      nats_url: expect.stringMatching(/^nats:/),
      rpc_url: expect.stringMatching(/^http:/),
    });
    const secrets = [new URL(ready.clickhouse_url).password, String(service.env.NATS_TOKEN)];
    for (const secret of secrets) {
      expect(secret).toMatch(/^[0-9a-f]{64}$/);
      expect(JSON.stringify(up.lines)).not.toContain(secret);
    }
    for (const frame of FRAMES) {
      const path = `/v1/analytics/leaderboard?time_frame=${frame}`;
      const { traders, total_count } = await service.get<Leaderboard>(path);
      expect(traders.length, frame).toBeGreaterThan(0);
      expect(total_count).toBeGreaterThanOrEqual(traders.length);
    }
    // Markets had their tags when the boards were computed. The next refresh of the long ones is in 5
    // minutes.
    const tagged: Record<string, number> = {};
    for (const tag of ['all', 'crypto', 'sports', 'politics']) {
      const path = `/v1/analytics/leaderboard?time_frame=30D&tag=${tag}`;
      tagged[tag] = (await service.get<Leaderboard>(path)).total_count;
    }
    expect(Math.min(...Object.values(tagged)), JSON.stringify(tagged)).toBeGreaterThan(10);

    const second = await outcome(['--port', '0', '--data', data]);
    expect(second).toMatchObject({ code: 1, errors: expect.stringContaining('is in use') });

    const counts = (block: string) =>
      (service as Service).query<{ rows: string; hash: string; block: string }>(
        `SELECT toString(count()) AS rows, toString(max(block_number)) AS block,
           toString(groupBitXor(cityHash64(trader, tx_hash, log_index, kind, realised_pnl))) AS hash
         FROM bookings WHERE block_number <= ${block}`,
      );
    const [before] = await counts('1000000000');
    const [first] = await counts(before?.block ?? '');
    const pids = up.lines
      .filter((line) => line.event === 'starting')
      .map((line) => Number(line.pid));
    up.kill('SIGINT');
    await up.event('stopping');
    // Twice, as from a terminal and from npm.
    expect(await up.stop()).toBe(0);
    expect(up.lines.at(-1)).toEqual({ event: 'stopped' });
    await expect.poll(() => pids.filter(isAlive)).toEqual([]);
    await expect.poll(() => processesOf(data)).toEqual([]);

    service = await startService(data, { args: TRADING });
    // Notebooks and data sources of the first start keep working.
    const { key, clickhouse_url, nats_url, rpc_url } = ready;
    expect(service.ready).toMatchObject({ key, clickhouse_url, nats_url, rpc_url });
    const [after] = await counts(first?.block ?? '');
    expect(after).toEqual(first);
  });

  test('keeps the feed of its own chain for a day', async () => {
    service ??= await startService(data, { args: TRADING });
    const nats = await connectNats({ ...service.nats, name: 'test' });
    const { config } = await nats.jsm.streams.info(FEED_STREAM);
    await nats.close();
    expect(config.max_age).toBe(nanos(86_400_000));
  });

  test('streams matches before their block, and stores each of them once', async () => {
    service ??= await startService(data, { args: TRADING });
    const { url, key, rpc_url } = service.ready;
    const client = new FeedClient(url, key);
    const seen = new Set<string>();
    let early = 0;
    await until(async () => {
      for (const { txHash } of client.events) {
        if (seen.has(txHash)) continue;
        seen.add(txHash);
        const receipt = await rpc<unknown>(rpc_url, 'eth_getTransactionReceipt', [txHash]);
        if (receipt === null) early += 1;
      }
      return seen.size >= 40 ? true : undefined;
    });
    await client.stop();
    expect(early).toBeGreaterThan(0);
    const mined: string[] = [];
    for (const txHash of seen) {
      const receipt = await until(async () => {
        const params = [txHash];
        const found = await rpc<{ status: string } | null>(
          rpc_url,
          'eth_getTransactionReceipt',
          params,
        );
        return found ?? undefined;
      });
      // A few matches of the devnet revert: they were pending and never became a fill.
      if (receipt.status === '0x1') mined.push(txHash.slice(2));
    }
    const { query } = service;
    const rows = await until(async () => {
      const found = await query<{ tx: string; takers: string }>(
        `SELECT lower(hex(tx_hash)) AS tx, toString(countIf(is_taker)) AS takers FROM bookings
         WHERE kind = 'fill' GROUP BY tx_hash HAVING tx IN ('${mined.join("','")}')`,
      );
      return found.length === mined.length ? found : undefined;
    });
    expect(rows.every((row) => row.takers === '1')).toBe(true);
  });

  test('waits for the previous service, which is still stopping', async () => {
    service ??= await startService(data, { args: TRADING });
    const { up } = service;
    up.kill('SIGINT');
    await up.event('stopping');
    service = await startService(data, { args: TRADING });
    expect(await up.exit).toBe(0);
  });

  test('starts again after kill −9 of the supervisor and the api, on the same port', async () => {
    service ??= await startService(data, { args: TRADING });
    const pids = service.up.lines
      .filter((line) => line.event === 'starting')
      .map((line) => Number(line.pid));
    service.up.kill('SIGKILL');
    await service.up.exit;
    // The next start follows at once, while the old parts are still stopping.
    service = await startService(data, { args: TRADING });
    await expect.poll(() => pids.filter(isAlive)).toEqual([]);
    const { url } = service.ready;
    const api = service.pidOf('api');
    process.kill(api, 'SIGKILL');
    const isBack = async () =>
      service?.pidOf('api') === api ? undefined : (await isHealthy(url)) || undefined;
    await until(isBack);
  });
});
