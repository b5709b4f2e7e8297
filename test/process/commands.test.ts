/** The commands of operators say in one line what is wrong, and how to call them. */
import { tmpdir } from 'node:os';
import { expect, test } from 'vitest';
import { start } from '../support/service.ts';

/** Nobody listens there. */
const AWAY = { NATS_URL: 'nats://127.0.0.1:9', CLICKHOUSE_URL: 'http://127.0.0.1:9' };

const COMMANDS: readonly (readonly [string, ...string[]])[] = [
  ['ingest/main.ts', 'ledger', 'show', '5'],
  ['ingest/archive-command.ts', 'export', '--to', `${tmpdir()}/no-archive`],
  ['projector/backup.ts', 'backup', '--to', `${tmpdir()}/no-backup`],
  ['projector/rebuild.ts'],
  ['api/auth/command.ts', 'list'],
  ['sql/migrate.ts'],
];

test.each(COMMANDS)('%s %s: a store that is away is named in one line', async (module, ...args) => {
  const command = start(module, args, AWAY);
  expect(await command.exit).toBe(1);
  expect(command.errors()).toMatch(/^\w+: .*(NATS|CLICKHOUSE_URL).*\n$/);
});

test.each([
  ['ingest/archive-command.ts', 'export'],
  ['projector/backup.ts', 'backup', '--up'],
  ['projector/rebuild.ts', 'now'],
  ['api/auth/command.ts', 'issue', '--tier'],
] as const)('%s %s: a wrong command line is explained', async (module, ...args) => {
  const command = start(module, args);
  expect(await command.exit).toBe(2);
  expect(command.errors()).toMatch(/^\w+: .+\n\n.*npm run/s);
});
