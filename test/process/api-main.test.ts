/** The api as a process: what it reports when it listens and serves, and how it ends. */
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { describe, expect, test } from 'vitest';
import { reportState } from '../../infra/nats/states.ts';
import { emptyBlock } from '../../ingest/ledger/ledger.ts';
import { get, issueKey, startStores } from '../support/api-harness.ts';
import { startApiProcess } from '../support/api-process.ts';
import { forFile } from '../support/for-file.ts';
import { blockHash } from '../support/ledger-generator.ts';
import { TestLedger } from '../support/publish-ledger.ts';
import { start } from '../support/service.ts';

const stores = forFile(startStores);

const startMain = (more: NodeJS.ProcessEnv = {}) =>
  startApiProcess({ natsUrl: stores.nats.server.url, clickhouseUrl: stores.clickhouse.url }, more);

describe('api/main', () => {
  test('reports its port, serves, streams, and exits on SIGTERM with a stream open', async () => {
    const api = await startMain();
    const key = await issueKey(stores.nats.bucket, 'pro');
    expect((await get(`${api.url}/v1/analytics/leaderboard`, key)).body).toEqual({
      traders: [],
      total_count: 0,
    });

    const stream = await fetch(`${api.url}/v1/stream/orders`, {
      headers: { 'X-Service-Key': key },
    });
    expect(stream.headers.get('content-type')).toMatch(/^text\/event-stream/);
    const text = stream.text();
    expect(await api.stop()).toBe(0);
    expect(await text).toMatch(/^retry: 2000\n\n/);

    // One in its log, one to its supervisor.
    const told = { event: 'listening', port: expect.any(Number) };
    const listening = api.lines.filter(({ event }) => event === 'listening');
    expect(listening).toHaveLength(2);
    expect(listening).toContainEqual(told);
    expect(api.log()).not.toContain(key);
  });

  test('is ready while ingest and projector report ready and the chain and the analytics are fresh', async () => {
    const api = await startMain({ CHAIN_AGE_SECONDS_MAX: '4', PROJECTION_AGE_SECONDS_MAX: '900' });
    const key = await issueKey(stores.nats.bucket, 'pro');
    const checks = async () => (await get(`${api.url}/readyz`, undefined)).body.checks;
    const seconds = () => Math.floor(Date.now() / 1_000);
    const stopped = { ready: false, detail: 'process: has not reported' };
    expect(await checks()).toMatchObject({
      chain: { ready: false, detail: 'no block yet' },
      projection: { ready: false, detail: 'no block yet' },
      ...{ ingest: stopped, projector: stopped },
    });

    let reasons: Record<string, string> = { final: 'catching up' };
    const started = seconds();
    const { stop: stopIngest } = reportState(stores.nats.nats, { name: 'ingest' }, () => ({
      reasons,
    }));
    const projectors = [0, 1].map((index) =>
      reportState(stores.nats.nats, { name: 'projector', index, count: 2 }, () => ({
        ...{ reasons: {}, reached: started - index },
      })),
    );
    const ledger = await TestLedger.open(stores.nats.nats);
    await ledger.publish([emptyBlock({ number: 1, hash: blockHash(1), time: started })]);
    const detail = (name: string) => expect.poll(async () => (await checks())[name].detail);
    const ready = (name: string) => expect.poll(async () => (await checks())[name].ready);
    await detail('ingest').toBe('final: catching up');
    reasons = {};
    await ready('ingest').toBe(true);
    await detail('chain').toMatch(/^\d+ s old, more than 4 s$/);
    expect((await checks()).projection.ready).toBe(true);
    await ready('projector').toBe(true);
    const { body: status } = await get(`${api.url}/v2/status`, key);
    expect(status.chain).toMatchObject({ final_block: 1, age_seconds_max: 4 });
    expect(status.projection).toMatchObject({ age_seconds_max: 900 });
    expect(status.projection.age_seconds).toBeGreaterThanOrEqual(status.chain.age_seconds);
    const processes = async () => (await get(`${api.url}/v2/status`, key)).body.processes;
    await expect.poll(processes).toEqual([
      { name: 'ingest', ready: true, reason: '' },
      { name: 'projector 0/2', ready: true, reason: '' },
      { name: 'projector 1/2', ready: true, reason: '' },
    ]);

    // The chain as seen by a clock that is five minutes behind.
    await ledger.publish([emptyBlock({ number: 2, hash: blockHash(2), time: seconds() + 300 })]);
    ledger.close();
    await detail('chain').toMatch(/^\d+ s in the future: the clock of this host is behind$/);
    expect((await checks()).chain.ready).toBe(false);

    stopIngest();
    projectors[1]?.stop();
    await detail('ingest').toBe('process: stopped');
    await detail('projector').toBe('projector 1/2: process: stopped');
    // A process that is stalled reports nothing at all.
    await detail('ingest').toMatch(/^process: silent for \d+ s$/);
    projectors[0]?.stop();
    await api.stop();
  });

  test('reports in one line why it cannot start', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    const { port } = other.address() as AddressInfo;
    const env = { NATS_URL: stores.nats.server.url, CLICKHOUSE_URL: stores.clickhouse.url };
    const failed = start('api/main.ts', [], { ...env, HTTP_PORT: String(port) });
    expect(await failed.exit).toBe(1);
    expect(failed.errors()).toBe(
      `api: listen EADDRINUSE: address already in use 127.0.0.1:${port}\n`,
    );
    other.close();
  });

  test('exits when its supervisor dies', async () => {
    const api = await startMain();
    expect(await api.orphan(), api.errors()).toBe(0);
  });
});
