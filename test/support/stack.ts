/**
 * The stores of the service as tests start them: the embedded ClickHouse, a real nats-server, and the processes over them, each
 * on a free port. A test file has its own: a copy of the migrated ClickHouse starts sooner than an empty database is migrated.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import {
  type ClickHouseClient,
  type ClickHouseClientConfigOptions,
  ClickHouseLogLevel,
  createClient,
} from '@clickhouse/client';
import { generateKey, KEYS_BUCKET, storeKey } from '../../api/auth/keys.ts';
import { connectClickHouse } from '../../infra/clickhouse.ts';
import { NatsConfig, readConfig } from '../../infra/config.ts';
import { connectNats, natsOptions } from '../../infra/nats/connection.ts';
import { openKv } from '../../infra/nats/kv.ts';
import { ensureStreams } from '../../ingest/streams.ts';
import { startNatsServer } from '../../local/nats-server.ts';
import { serviceUrl } from '../../local/secret.ts';
import { migrate } from '../../sql/migrate.ts';
import { answerOf, query, start, temporaryDirectory } from './service.ts';

export const DATABASE = 'fillstream';
const ENGINE = fileURLToPath(new URL('../../local/clickhouse/main.ts', import.meta.url));
const engines = new Set<ChildProcess>();

/** The embedded ClickHouse as a child; `url` is without credentials, `serviceUrl` has the service's. */
export async function startEngine(data: string, port = '0') {
  const child = spawn(process.execPath, [ENGINE, '--data', data, '--port', port], {
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
  });
  engines.add(child);
  child.once('exit', () => engines.delete(child));
  if (child.stdout === null) throw new Error('The child has no stdout.');
  const listening = once(createInterface(child.stdout), 'line');
  const ended = once(child, 'exit').then(([code]) => {
    throw new Error(`The engine ended with ${code} before it listened.`);
  });
  const [line] = await Promise.race([listening, ended]);
  ended.catch(() => undefined);
  const { url } = JSON.parse(line) as { url: string };
  return { child, url, serviceUrl: serviceUrl(url, data) };
}

/** Does nothing if it has ended. */
export async function stopEngine(
  child: ChildProcess,
  how: NodeJS.Signals | 'disconnect' = 'SIGTERM',
): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, 'exit');
  if (how === 'disconnect') child.disconnect();
  else child.kill(how);
  await exit;
}

/** Stops the engines that tests left running. */
export async function stopEngines(): Promise<void> {
  for (const child of engines) await stopEngine(child);
}

/** Exit code and the last line on stderr of a start that fails. */
export async function refusal(args: readonly string[]): Promise<[number | null, string]> {
  const child = spawn(process.execPath, [ENGINE, ...args], { stdio: ['ignore', 'ignore', 'pipe'] });
  const [errors] = await Promise.all([text(child.stderr), once(child, 'exit')]);
  return [child.exitCode, errors];
}

export function connect(options: ClickHouseClientConfigOptions): ClickHouseClient {
  // Many of these tests provoke errors.
  return createClient({ log: { level: ClickHouseLogLevel.OFF }, ...options });
}

/** A request to an engine. fetch rejects a user and password in a URL. */
export function send(url: string, init: RequestInit = {}): Promise<Response> {
  const { username, password } = new URL(url);
  const authorization = `Basic ${btoa(`${username}:${password}`)}`;
  const headers = { authorization, ...(init.headers as Record<string, string>) };
  return fetch(url.replace(/\/\/.*@/, '//'), { ...init, headers });
}

/** Begins a data directory with a copy of template.ts', if this run has one. Does nothing if the directory exists. */
function copyTemplate(directory: string): void {
  const template = process.env.TEST_TEMPLATE;
  if (template === undefined || existsSync(directory)) return;
  cpSync(template, directory, { recursive: true });
}

/** The embedded ClickHouse with every migration applied. */
export async function startClickHouse(data: string) {
  copyTemplate(data);
  const started = await startEngine(data);
  let { child } = started;
  const { serviceUrl: url } = started;
  try {
    await migrate({ url, database: DATABASE });
  } catch (error) {
    // The directory has the data of other migrations.
    await stopEngine(child);
    throw error;
  }
  // While other engines start on the same core, a statement takes longer than the service allows.
  const timeout = { requestTimeoutMs: 120_000 };
  const client = connectClickHouse({ url, database: DATABASE, name: 'test', ...timeout });
  return {
    url,
    client,
    pid: child.pid ?? 0,
    /** kill −9; it starts again at the same address. */
    async restart() {
      await stopEngine(child, 'SIGKILL');
      ({ child } = await startEngine(data, new URL(url).port));
    },
    async rows<Row>(sql: string): Promise<readonly Row[]> {
      return (await client.query({ query: sql, format: 'JSONEachRow' })).json<Row>();
    },
    async stop() {
      await client.close();
      await stopEngine(child);
    },
  };
}

/** ClickHouse alone, in a directory that is deleted with it: for tests of the schema. */
export async function startSchema() {
  const directory = temporaryDirectory();
  const clickhouse = await startClickHouse(join(directory.path, 'clickhouse'));
  return {
    ...clickhouse,
    async stop() {
      await clickhouse.stop();
      directory.remove();
    },
  };
}
export type Schema = Awaited<ReturnType<typeof startSchema>>;

/** A real nats-server and the bucket of keys in it; by default in a directory that is deleted with it. */
export async function startNats(given?: string) {
  const own = given === undefined ? temporaryDirectory() : undefined;
  const server = await startNatsServer({ dataDir: given ?? join(own?.path ?? '', 'nats') });
  const nats = await connectNats({ url: server.url, name: 'test' });
  await ensureStreams(nats, 1);
  const bucket = await openKv(nats, KEYS_BUCKET);
  return {
    server,
    nats,
    bucket,
    async stop() {
      await nats.close();
      await server.stop();
      own?.remove();
    },
  };
}

const READY = { ingest: 'caught_up', projector: 'projecting', api: 'listening' } as const;
type PartName = keyof typeof READY;

/** Both stores and processes of the service without the supervisor, each started from environment variables as in production. */
export async function startParts(
  directory: string,
  names: readonly PartName[],
  extra: Readonly<Record<string, string>> = {},
) {
  const clickhouse = await startClickHouse(join(directory, 'clickhouse'));
  const dataDir = join(directory, 'nats');
  let nats = await startNatsServer({ dataDir });
  const env = { NATS_URL: nats.url, CLICKHOUSE_URL: clickhouse.url, HTTP_PORT: '0', ...extra };
  const key = generateKey('pro');
  const client = await connectNats({ url: nats.url, name: 'test' });
  await storeKey(await openKv(client, KEYS_BUCKET), key, {
    label: 'test',
    tier: 'pro',
    account: 'test',
    created_at: new Date().toISOString(),
  });
  await client.close();
  const parts = new Map(names.map((name) => [name, start(`${name}/main.ts`, [], env)]));
  for (const [name, part] of parts) await part.event(READY[name]);
  const api = await parts.get('api')?.event('listening');
  return {
    env,
    key,
    /** The process of ClickHouse. */
    clickhousePid: clickhouse.pid,
    nats: natsOptions(readConfig(NatsConfig, env)),
    /** kill −9 of a server, which starts again at its address. */
    restart: {
      clickhouse: () => clickhouse.restart(),
      async nats() {
        const gone = once(nats.child, 'exit');
        nats.child.kill('SIGKILL');
        await gone;
        nats = await startNatsServer({ dataDir, port: nats.port });
      },
    },
    apiUrl: `http://127.0.0.1:${api?.port}`,
    get: <T>(path: string): Promise<T> => answerOf<T>(`http://127.0.0.1:${api?.port}`, key, path),
    query: <Row>(sql: string) => query<Row>(env.CLICKHOUSE_URL, sql),
    async stop() {
      await Promise.all([...parts.values()].map((part) => part.stop()));
      await clickhouse.stop();
      await nats.stop();
    },
  };
}
export type Parts = Awaited<ReturnType<typeof startParts>>;
