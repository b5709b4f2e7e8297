/**
 * Backup while everything runs, loss of both stores, restore, and more trades: in the end, the
 * restored service has the data of the first one, and clients notice nothing but the outage.
 */
import { execFile } from 'node:child_process';
import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { cursorOf } from '../../api/feed/cursor.ts';
import { connectNats } from '../../infra/nats/connection.ts';
import { storedSince } from '../../infra/nats/reader.ts';
import { FEED_MATCH_SUBJECT, FEED_STREAM } from '../../ingest/contract.ts';
import { storedMessages } from '../../ingest/ledger/ledger.ts';
import { natsToken, serviceUrl } from '../../local/secret.ts';
import { FeedClient } from '../support/feed-client.ts';
import {
  type Devnet,
  freeze,
  rpc,
  type Service,
  settled,
  start,
  startDevnet,
  startService,
  temporaryDirectory,
  until,
} from '../support/service.ts';

const run = promisify(execFile);
const SUMS = [
  `SELECT count() AS rows, groupBitXor(cityHash64(trader, condition_id, tx_hash, log_index, kind, leg,
     shares, usdc, fee, realised_pnl, realised_cost)) AS hash FROM bookings`,
  ...['trader_hours', 'trader_markets', 'market_traders'].map(
    (
      table,
    ) => `SELECT sum(fills) + sum(settlements) AS rows, sum(realised_pnl) AS pnl, sum(fee) AS fee,
      sum(maker_volume) AS maker, sum(taker_volume) AS taker FROM ${table}`,
  ),
  `SELECT count() AS rows, groupBitXor(cityHash64(condition_id, trader, held)) AS hash
   FROM (SELECT condition_id, trader, max(position) AS held FROM market_traders GROUP BY condition_id, trader)`,
];

/** A position a million events ahead, as of a much longer feed. */
const AHEAD = 10n ** 10n;

let directory: ReturnType<typeof temporaryDirectory>;
let devnet: Devnet;
let service: Service | undefined;

beforeAll(async () => {
  directory = temporaryDirectory();
  devnet = await startDevnet(join(directory.path, 'devnet'), { matches: 300, days: 2, rate: 10 });
});

afterAll(async () => {
  await service?.up.stop();
  await devnet?.process.stop();
  directory?.remove();
});

async function command(env: NodeJS.ProcessEnv, ...args: string[]): Promise<string> {
  const options = { env: { ...process.env, ...env } };
  const { stdout } = await run(process.execPath, ['ops/backup.ts', ...args], options);
  return stdout;
}

async function figures(of: Service) {
  const nats = await connectNats({ ...of.nats, name: 'test' });
  const ids: string[] = [];
  for await (const { range } of storedMessages(nats, { sequence: 1 })) {
    for (const { txHash, logIndex } of range.blocks.flatMap(({ events }) => events)) {
      ids.push(`${txHash}:${logIndex}`);
    }
  }
  await nats.close();
  const sums = [];
  for (const sql of SUMS) sums.push(await of.query(sql));
  return { ids, sums };
}

test('backup, wipe, restore, continue: counts and sums equal', async () => {
  const data = join(directory.path, 'data');
  const target = join(directory.path, 'backup');
  service = await startService(data, { env: devnet.env });
  const { env } = service;
  const { key } = service.ready;
  const listener = new FeedClient(service.ready.url, key);
  await until(async () => (listener.events.length >= 20 ? true : undefined));

  const { length } = listener.events;
  const output = await command(env, 'backup', '--to', target, '--name', 'first');
  expect(output).toContain('JetStream: LEDGER');
  const atBackup = listener.events.length;
  await until(async () => (listener.events.length >= atBackup + 30 ? true : undefined));
  await listener.stop();

  const dataOfDevnet = join(directory.path, 'devnet');
  devnet = await freeze(devnet, dataOfDevnet);
  const block = Number(await rpc<string>(devnet.rpcUrl, 'eth_blockNumber', []));
  await settled(service, block);
  const before = await figures(service);
  await service.up.stop();

  rmSync(join(data, 'nats'), { recursive: true });
  rmSync(join(data, 'clickhouse'), { recursive: true });
  const stores = {
    nats: start('local/nats-server.ts', ['--data', join(data, 'nats')]),
    clickhouse: start('local/clickhouse/main.ts', [
      ...['--data', join(data, 'clickhouse'), '--port', '0'],
    ]),
  };
  const restoredEnv = {
    NATS_URL: String((await stores.nats.event('listening')).url),
    NATS_TOKEN: natsToken(join(data, 'nats')),
    CLICKHOUSE_URL: serviceUrl(
      String((await stores.clickhouse.event('listening')).url),
      join(data, 'clickhouse'),
    ),
  };
  // A restore that fails at ClickHouse has not touched JetStream, and can be run again.
  const incomplete = join(directory.path, 'incomplete');
  cpSync(target, incomplete, { recursive: true });
  const manifest = readFileSync(join(target, 'backup.json'), 'utf8');
  writeFileSync(join(incomplete, 'backup.json'), manifest.replace('"first"', '"missing"'));
  await expect(command(restoredEnv, 'restore', '--from', incomplete)).rejects.toThrow('missing');
  expect(await command(restoredEnv, 'restore', '--from', target)).toContain('start the processes');
  await expect(command(restoredEnv, 'restore', '--from', target)).rejects.toThrow('already');
  await stores.nats.stop();
  await stores.clickhouse.stop();

  service = await startService(data, { env: devnet.env });
  await settled(service, block);
  const restored = await figures(service);
  expect(before.ids.length).toBeGreaterThan(300);
  expect(restored).toEqual(before);
  // The old key is valid, because it was restored and not created again.
  expect(service.ready.key).toBe(key);
  const board = await service.get<{ traders: unknown[] }>('/v1/analytics/leaderboard?limit=5');
  expect(board.traders).toHaveLength(5);

  // A client that returns with an earlier cursor continues exactly, or gets a gap.
  const cursors = listener.events.map(({ id }) => id);
  const kept = cursors[length - 1] ?? '';
  const ahead = String(BigInt(cursors.at(-1) ?? 0) + AHEAD);
  const requested = [kept, cursors[atBackup + 5], cursors[atBackup + 15], cursors.at(-1), ahead];
  const url = service.ready.url;
  const clients = requested.map((id) => ({ id, client: new FeedClient(url, key, '', id) }));
  await devnet.process.stop();
  devnet = await trading(devnet, dataOfDevnet);
  for (const { client } of clients) {
    await until(async () => (client.events.length >= 20 ? true : undefined));
    await client.stop();
  }
  const feed = await feedIds(service);
  for (const { id = '', client } of clients) {
    const ids = client.events.map((event) => event.id);
    const from = feed.indexOf(ids[0] ?? '');
    expect(ids).toEqual(feed.slice(from, from + ids.length));
    expect(client.gaps).toBe(feed.includes(id) ? 0 : 1);
    if (feed.includes(id)) expect(from).toBe(feed.indexOf(id) + 1);
  }
  expect(feed).toContain(kept);
  expect(feed).not.toContain(ahead);
  console.log(`gaps seen: ${clients.map(({ client }) => client.gaps).join(', ')}`);
});

/** Positions of FEED's matches, in order. */
async function feedIds(of: Service): Promise<readonly string[]> {
  const nats = await connectNats({ ...of.nats, name: 'test' });
  const ids: string[] = [];
  for await (const message of storedSince(nats, FEED_STREAM, { sequence: 1 })) {
    if (message.subject !== FEED_MATCH_SUBJECT) continue;
    ids.push(String(cursorOf(message.sequence, message.messageId)));
  }
  await nats.close();
  return ids;
}

/** The devnet on the same ports, trading again. */
function trading(old: Devnet, data: string): Promise<Devnet> {
  const port = (given: string | undefined) => Number(new URL(given ?? '').port);
  return startDevnet(data, {
    matches: 1,
    days: 1,
    rate: 10,
    rpcPort: port(old.env.RPC_URL),
    gammaPort: port(old.env.GAMMA_URL),
  });
}
