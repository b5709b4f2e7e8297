/**
 * `npm start`, and the operator's commands, on a NATS and a ClickHouse that require a password: every
 * part of the service uses the configured credentials and shows them nowhere.
 */
import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type NatsServer, startNatsServer } from '../../local/nats-server.ts';
import { serviceUrl } from '../../local/secret.ts';
import { makeCertificates } from '../support/nats-credentials.ts';
import { start, startService, temporaryDirectory } from '../support/service.ts';

const PASSWORD = 'correct horse/battery@staple';

const run = promisify(execFile);
let directory: ReturnType<typeof temporaryDirectory>;
let nats: NatsServer;
let clickhouse: ReturnType<typeof start>;
let clickHouseUrl: string;
let env: Record<string, string>;

beforeAll(async () => {
  directory = temporaryDirectory();
  const { authority, server } = makeCertificates(directory.path);
  nats = await startNatsServer({
    dataDir: join(directory.path, 'nats'),
    configExtra: `tls { cert_file: "${server.cert}", key_file: "${server.key}" }
authorization { user: "service", password: "${PASSWORD}" }`,
  });
  const data = join(directory.path, 'clickhouse');
  clickhouse = start('local/clickhouse/main.ts', ['--data', data, '--port', '0']);
  clickHouseUrl = serviceUrl(String((await clickhouse.event('listening')).url), data);
  env = {
    ...{ NATS_URL: nats.url, NATS_TLS_CA: authority },
    ...{ NATS_USER: 'service', NATS_PASSWORD: PASSWORD },
    CLICKHOUSE_URL: clickHouseUrl,
  };
});

afterAll(async () => {
  await clickhouse?.stop();
  await nats?.stop();
  directory?.remove();
});

const command = (module: string, ...args: string[]) =>
  run(process.execPath, [module, ...args], { env: { ...process.env, ...env } });

test('the whole service, keys, backup and rebuild work', async () => {
  const data = join(directory.path, 'data');
  const service = await startService(data, { args: ['--history-days', '2'], env });
  const board = await service.get<{ traders: unknown[] }>('/v1/analytics/leaderboard?limit=5');
  expect(board.traders).toHaveLength(5);
  const said = [
    await command('ops/keys.ts', 'list'),
    await command('ops/rebuild.ts', '--yes'),
    await command('ops/backup.ts', 'backup', '--to', join(directory.path, 'backup')),
  ].map(({ stdout, stderr }) => stdout + stderr);
  expect(said[0]).toContain('local-pro');
  expect(said[1]).toContain('done');
  expect(said[2]).toContain('JetStream: LEDGER');
  await service.up.stop();
  const logs = readdirSync(join(data, 'logs')).map((name) =>
    readFileSync(join(data, 'logs', name), 'utf8'),
  );
  const shown = [...said, ...logs, JSON.stringify(service.up.lines), service.up.errors()].join();
  for (const secret of [PASSWORD, new URL(clickHouseUrl).password])
    expect(shown).not.toContain(secret);
});

test.each<[string, Record<string, string>, RegExp]>([
  ['NATS_PASSWORD', { NATS_PASSWORD: 'wrong' }, /NATS/],
  [
    'the password of ClickHouse',
    { CLICKHOUSE_URL: 'http://service:wrong@' },
    /CLICKHOUSE_URL: .* password/,
  ],
  ['CLICKHOUSE_URL', { CLICKHOUSE_URL: 'http://127.0.0.1:9' }, /CLICKHOUSE_URL: .*ECONNREFUSED/],
  ['NATS_URL with a user', { NATS_URL: 'nats://service:x@127.0.0.1:4222' }, /NATS_USER/],
  ['NATS_USER without NATS_URL', { NATS_URL: '' }, /NATS_USER.*NATS_URL/],
])('%s that is wrong ends the start with one message', async (_, wrong, message) => {
  const given: NodeJS.ProcessEnv = { ...env, ...wrong };
  if (given.CLICKHOUSE_URL?.endsWith('@')) given.CLICKHOUSE_URL += new URL(clickHouseUrl).host;
  const data = join(directory.path, `wrong-${message.source.length}`);
  const up = start('local/up.ts', ['--json', '--port', '0', '--data', data], given);
  expect(await up.exit).toBe(1);
  expect(up.errors()).toMatch(message);
  expect(up.errors()).not.toMatch(/\n {4}at /);
});
