/** The commands of operators report an error in one line, and print their usage. */
import { execFile } from 'node:child_process';
import { tmpdir } from 'node:os';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { emptyBlock } from '../../ingest/ledger/ledger.ts';
import { TestLedger } from '../support/publish-ledger.ts';
import { start } from '../support/service.ts';
import { startNats } from '../support/stack.ts';

/** Nobody listens there. */
const AWAY = { NATS_URL: 'nats://127.0.0.1:9', CLICKHOUSE_URL: 'http://127.0.0.1:9' };

const COMMANDS: readonly (readonly [string, ...string[]])[] = [
  ['ops/ledger.ts', 'show', '5'],
  ['ops/archive.ts', 'export', '--to', `${tmpdir()}/no-archive`],
  ['ops/backup.ts', 'backup', '--to', `${tmpdir()}/no-backup`],
  ['ops/rebuild.ts'],
  ['ops/keys.ts', 'list'],
  ['sql/migrate.ts'],
];

test.each(COMMANDS)('%s %s: an unreachable store is named in one line', async (module, ...args) => {
  const command = start(module, args, AWAY);
  expect(await command.exit).toBe(1);
  expect(command.errors()).toMatch(/^\w+: .*(NATS|CLICKHOUSE_URL).*\n$/);
});

test.each([
  ['ops/archive.ts', 'export'],
  ['ops/backup.ts', 'backup', '--up'],
  ['ops/rebuild.ts', 'now'],
  ['ops/keys.ts', 'issue', '--tier'],
] as const)('%s %s: a wrong command line is explained', async (module, ...args) => {
  const command = start(module, args);
  expect(await command.exit).toBe(2);
  expect(command.errors()).toMatch(/^\w+: .+\n\n.*npm run/s);
});

test('ledger show prints a block, and reports one that LEDGER does not contain', async () => {
  const { nats, server, stop } = await startNats();
  const ledger = await TestLedger.open(nats);
  const hash = `0x${'5'.repeat(64)}` as const;
  await ledger.publish([emptyBlock({ number: 5, hash, time: 1 })]);
  ledger.close();
  const run = (...args: string[]) =>
    promisify(execFile)(process.execPath, ['ops/ledger.ts', ...args], {
      env: { ...process.env, NATS_URL: server.url },
    });
  const { stdout } = await run('show', '5');
  expect(JSON.parse(stdout)).toMatchObject({ message: { sequence: 1 }, block: { hash } });
  const stderr = 'ledger: LEDGER does not contain block 6\n';
  await expect(run('show', '6')).rejects.toMatchObject({ code: 1, stderr });
  await expect(run('shown')).rejects.toMatchObject({ code: 2 });
  await stop();
});
