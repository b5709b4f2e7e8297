/**
 * `npm run backup` and `npm run restore`: copies all of JetStream and ClickHouse while the service runs. The projectors
 * pause while ClickHouse is copied, so that all tables are at the same block and the checkpoints cover them. LEDGER is
 * copied afterwards and before FEED and METADATA, so each reaches at least as far as the one before, and a restored
 * service can continue.
 * Ingest and api keep running during a backup.
 */
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ClickHouseClient } from '@clickhouse/client';
import { pino } from 'pino';
import { z } from 'zod';
import { flag, readArguments, text } from '../infra/arguments.ts';
import { connectClickHouse } from '../infra/clickhouse.ts';
import { runCommand } from '../infra/command.ts';
import { readConfig, StoresConfig } from '../infra/config.ts';
import { UsageError } from '../infra/expected.ts';
import { connectNats, type Nats, natsOptions } from '../infra/nats/connection.ts';
import { LEDGER_STREAM } from '../ingest/ledger/ledger.ts';
import {
  leaseHolder,
  openLeases,
  PAUSE_KEY,
  PROJECTORS_BUCKET,
  partitionsOf,
  withLeases,
} from '../projector/lease.ts';
import { Store } from '../projector/store.ts';
import { restoreStream, saveStream, streamNames } from './stream-backup.ts';

const HELP = `Backup and restore of Fillstream: JetStream and ClickHouse.

  npm run backup -- --to DIR [--name NAME]
  npm run restore -- --from DIR

backup   writes JetStream's streams and buckets as files to DIR, which must be new or empty. ClickHouse
         copies its databases under NAME (default: fillstream-<time>) to its own backup directory
         (backups.allowed_path); keep that copy together with DIR. During the backup the projectors
         pause; ingest, api and the feed keep running.
restore  needs a JetStream without these streams and a ClickHouse without these databases, with the backup
         in its backup directory. Stop all processes of the service first.

Both read NATS_URL, CLICKHOUSE_URL and CLICKHOUSE_DATABASE, like the processes.`;

const ANALYST_DATABASE = 'analyst';
/** Leases are meaningless in a restored service. */
const NOT_SAVED = new Set([`KV_${PROJECTORS_BUCKET}`]);
const PAUSE_PATIENCE_MS = 60_000;
const CLICKHOUSE_MS_MAX = 6 * 3_600_000;

const Manifest = z.object({
  made_at: z.iso.datetime(),
  clickhouse: z.object({ name: z.string(), databases: z.array(z.string()) }),
  streams: z.array(z.string()),
});

await runCommand('backup', main);

async function main(): Promise<undefined> {
  const { command, directory, name } = readCommand();
  if (command === 'help') return say(HELP);
  const config = readConfig(StoresConfig);
  if (config.CLICKHOUSE_CLUSTER !== undefined) {
    throw new UsageError(
      'this command cannot back up a cluster (CLICKHOUSE_CLUSTER): see docs/operations.md',
    );
  }
  const nats = await connectNats({ ...natsOptions(config), name: command, isPatient: false });
  const client = connectClickHouse({
    url: config.CLICKHOUSE_URL,
    database: 'default',
    name: command,
    requestTimeoutMs: CLICKHOUSE_MS_MAX,
  });
  try {
    if (command === 'backup') await backup(config, nats, client, directory, name);
    else await restore(nats, client, directory);
  } finally {
    await client.close();
    await nats.close();
  }
}

async function backup(
  config: StoresConfig,
  nats: Nats,
  client: ClickHouseClient,
  directory: string,
  name: string,
): Promise<void> {
  await mkdir(directory, { recursive: true });
  if ((await readdir(directory)).length > 0) {
    throw new UsageError(`${directory} is not empty: use a new directory for each backup`);
  }
  const databases = await existing(client, [config.CLICKHOUSE_DATABASE, ANALYST_DATABASE]);
  await whilePaused(config, nats, async () => {
    if (databases.includes(config.CLICKHOUSE_DATABASE)) await refuseUnconfirmed(config);
    await client.command({
      query: `BACKUP ${databases.map((one) => `DATABASE ${one}`).join(', ')} TO File({name:String})`,
      query_params: { name },
    });
  });
  say(`ClickHouse: ${databases.join(', ')} in its backup directory as ${name}`);
  // A match that LEDGER has and FEED lacks would never be shown; one that FEED has already is known.
  const isLater = (stream: string) => Number(stream !== LEDGER_STREAM);
  const streams = (await streamNames(nats))
    .filter((stream) => !NOT_SAVED.has(stream))
    .toSorted((a, b) => isLater(a) - isLater(b));
  for (const stream of streams) {
    say(`JetStream: ${stream}, ${await saveStream(nats, stream, join(directory, stream))} bytes`);
  }
  const manifest = { made_at: new Date().toISOString(), clickhouse: { name, databases }, streams };
  // Written last: a directory without this file is not a backup.
  await writeFile(join(directory, 'backup.json'), JSON.stringify(manifest, null, 2));
  say(`done: ${join(directory, 'backup.json')}`);
}

/**
 * A backup does not contain the list of inserts that ClickHouse remembers. The projectors of a restored service would
 * insert rows beyond the checkpoints again.
 */
async function refuseUnconfirmed(config: StoresConfig): Promise<void> {
  const { CLICKHOUSE_URL: url, CLICKHOUSE_DATABASE: database } = config;
  const client = connectClickHouse({ url, database, name: 'backup' });
  try {
    const tips = await new Store(client, partitionsOf(0, 1), { database }).unconfirmed();
    if (tips.length === 0) return;
  } finally {
    await client.close();
  }
  throw new UsageError(
    'a projector was killed or is cut off, so its last rows have no checkpoint: back up again when it is ready',
  );
}

async function restore(nats: Nats, client: ClickHouseClient, directory: string): Promise<void> {
  const text = await readFile(join(directory, 'backup.json'), 'utf8');
  const { clickhouse, streams } = Manifest.parse(JSON.parse(text));
  const present = await existing(client, clickhouse.databases);
  if (present.length > 0) {
    throw new UsageError(
      `ClickHouse already has ${present.join(', ')}: drop it or restore to another server`,
    );
  }
  const known = new Set(await streamNames(nats));
  const taken = streams.filter((stream) => known.has(stream));
  if (taken.length > 0) {
    throw new UsageError(
      `JetStream already has ${taken.join(', ')}: stop the service and delete it`,
    );
  }
  // First, because it is the most likely to fail, and JetStream is then as it was.
  const databases = clickhouse.databases.map((one) => `DATABASE ${one}`).join(', ');
  await client.command({
    query: `RESTORE ${databases} FROM File({name:String})`,
    query_params: { name: clickhouse.name },
  });
  say(`ClickHouse: ${clickhouse.databases.join(', ')}`);
  for (const stream of streams) {
    say(
      `JetStream: ${stream}, ${await restoreStream(nats, stream, join(directory, stream))} bytes`,
    );
  }
  say('done: start the processes');
}

/** Holds the pause and all partitions, so that no projector writes. */
async function whilePaused(
  config: StoresConfig,
  nats: Nats,
  work: () => Promise<void>,
): Promise<void> {
  const shared = {
    kv: await openLeases(nats, config.NATS_REPLICAS),
    holder: leaseHolder('backup'),
    logger: pino({ name: 'backup', level: 'warn' }),
    signal: new AbortController().signal,
    patienceMs: PAUSE_PATIENCE_MS,
  };
  await withLeases({ ...shared, keys: [PAUSE_KEY] }, (pause) =>
    withLeases({ ...shared, keys: partitionsOf(0, 1) }, async (partitions) => {
      say('the projectors are paused');
      await work();
      // If the lease was lost, a projector may have written during the copy, which makes the backup useless.
      pause.assertHeld();
      partitions.assertHeld();
    }),
  );
  say('the projectors resume');
}

async function existing(client: ClickHouseClient, databases: readonly string[]): Promise<string[]> {
  const result = await client.query({
    query:
      'SELECT name FROM system.databases WHERE name IN {databases:Array(String)} ORDER BY name',
    query_params: { databases: [...databases] },
    format: 'JSONEachRow',
  });
  const rows = await result.json<{ name: string }>();
  return rows.map(({ name }) => name);
}

function readCommand() {
  const options = { to: text, from: text, name: text, help: flag };
  const { positionals, values } = readArguments({ allowPositionals: true, options }, HELP);
  const [command, ...more] = positionals;
  if (values.help === true) return { command: 'help' as const, directory: '', name: '' };
  const name = values.name ?? `fillstream-${new Date().toISOString().replaceAll(/[:.]/g, '-')}`;
  if (!/^[\w.-]{1,100}$/.test(name)) throw new UsageError('--name: letters, digits, . _ and -');
  const directory = command === 'backup' ? values.to : values.from;
  const isKnown = command === 'backup' || command === 'restore';
  if (!isKnown || directory === undefined || more.length > 0) {
    throw new UsageError('expected a command and its directory', HELP);
  }
  return { command, directory, name };
}

function say(text: string): undefined {
  process.stdout.write(`${text}\n`);
}
