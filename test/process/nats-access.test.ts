/**
 * Every way for the processes to authenticate to NATS through their configuration: real servers with a
 * token, a user, credentials files and TLS with their own authority. Connections without these are
 * rejected.
 */
import { execFile } from 'node:child_process';
import { mkdtempSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { NatsConfig, readConfig } from '../../infra/config.ts';
import {
  connectNats,
  NatsUnavailableError,
  natsOptions,
  streamState,
} from '../../infra/nats/connection.ts';
import { openKv } from '../../infra/nats/kv.ts';
import { LEDGER_STREAM } from '../../ingest/ledger/ledger.ts';
import { ensureStreams } from '../../ingest/streams.ts';
import { type NatsServer, startNatsServer } from '../../local/nats-server.ts';
import { findNatsServer } from '../../local/nats-server-binary.ts';
import { Cluster, NODES } from '../support/nats-cluster.ts';
import { makeCertificates, makeCredentials } from '../support/nats-credentials.ts';
import { temporaryDirectory } from '../support/service.ts';

type Way = {
  readonly name: string;
  /** Lines of the server's configuration. */
  readonly server: string;
  /** Variables that a process needs in addition to NATS_URL. */
  readonly env: Readonly<Record<string, string>>;
  /** Configurations that are not sufficient. */
  readonly refused: readonly Readonly<Record<string, string>>[];
};

const run = promisify(execFile);
let directory: ReturnType<typeof temporaryDirectory>;
const ways = new Map<string, Way>();

beforeAll(async () => {
  directory = temporaryDirectory();
  const certificates = makeCertificates(directory.path);
  const { authority, server, client } = certificates;
  const NATS_CREDS = `${directory.path}/user.creds`;
  const files = `cert_file: "${server.cert}", key_file: "${server.key}"`;
  const certificate = { NATS_TLS_CERT: client.cert, NATS_TLS_KEY: client.key };
  const all: readonly Way[] = [
    {
      name: 'a token',
      server: 'authorization { token: "a token of 24 characters" }',
      env: { NATS_TOKEN: 'a token of 24 characters' },
      refused: [{}, { NATS_TOKEN: 'another' }],
    },
    {
      name: 'user and password',
      server: 'authorization { user: "fillstream", password: "p@ss:w/rd" }',
      env: { NATS_USER: 'fillstream', NATS_PASSWORD: 'p@ss:w/rd' },
      refused: [{}, { NATS_USER: 'fillstream', NATS_PASSWORD: 'p' }],
    },
    {
      name: 'a credentials file',
      server: makeCredentials(NATS_CREDS),
      env: { NATS_CREDS },
      refused: [{}, { NATS_TOKEN: 'x' }],
    },
    {
      name: 'TLS and a password',
      server: `tls { ${files} }\nauthorization { user: "fillstream", password: "secret" }`,
      env: { NATS_TLS_CA: authority, NATS_USER: 'fillstream', NATS_PASSWORD: 'secret' },
      // Without the authority, its certificate is not trusted.
      refused: [{ NATS_TLS_CA: authority }, { NATS_USER: 'fillstream', NATS_PASSWORD: 'secret' }],
    },
    {
      name: 'TLS with client certificates',
      server: `tls { ${files}, ca_file: "${authority}", verify: true }`,
      env: { NATS_TLS_CA: authority, ...certificate },
      refused: [{ NATS_TLS_CA: authority }, certificate],
    },
  ];
  for (const way of all) ways.set(way.name, way);
});

afterAll(() => directory?.remove());

describe.each([
  'a token',
  'user and password',
  'a credentials file',
  'TLS and a password',
  'TLS with client certificates',
])('%s', (name) => {
  let server: NatsServer;
  let way: Way;

  beforeAll(async () => {
    const found = ways.get(name);
    if (found === undefined) throw new Error(name);
    way = found;
    const dataDir = `${directory.path}/${name.replaceAll(' ', '-')}`;
    server = await startNatsServer({ dataDir, configExtra: way.server });
  });

  afterAll(() => server?.stop());

  const open = (env: Readonly<Record<string, string>>) => {
    const config = readConfig(NatsConfig, { NATS_URL: server.url, ...env });
    return connectNats({ ...natsOptions(config), name: 'test', isPatient: false });
  };

  test('lets a process with it write and read', async () => {
    const nats = await open(way.env);
    const bucket = await openKv(nats, 'access');
    await bucket.put('key', 'value');
    expect(Buffer.from((await bucket.get('key'))?.value ?? []).toString()).toBe('value');
    await nats.close();
  });

  test('rejects every client without it', async () => {
    for (const env of way.refused) await expect(open(env)).rejects.toThrow();
  });

  test('is enough for npm run keys, and no secret is printed', async () => {
    const keys = async (env: Readonly<Record<string, string>>) => {
      const options = { env: { ...process.env, NATS_URL: server.url, ...env } };
      return run(process.execPath, ['ops/keys.ts', 'list'], options);
    };
    expect((await keys(way.env)).stdout).toMatch(/^ID +STATUS/);
    const [wrong = {}] = way.refused.toReversed();
    const failed = (await keys(wrong).catch((error: unknown) => error)) as {
      code: number;
      stderr: string;
    };
    expect(failed.code).toBe(1);
    expect(failed.stderr).toMatch(/NATS/);
    // A message for a person, not a stack.
    expect(failed.stderr).not.toMatch(/\n {4}at /);
    for (const secret of Object.values(wrong)) expect(failed.stderr).not.toContain(secret);
  });
});

// Again if the leader does not count a server: see Cluster.start.
test('processes wait for a cluster without a leader, and commands do not', {
  retry: 1,
}, async ({ onTestFinished }) => {
  const binary = await findNatsServer(process.env.NATS_SERVER_BIN);
  const cluster = await Cluster.prepare(mkdtempSync(`${directory.path}/cluster-`), binary);
  onTestFinished(() => cluster.stop());
  await cluster.restart('n1');
  const nats = await connectNats({ url: cluster.url, name: 'process' });
  const command = await connectNats({ url: cluster.url, name: 'command', isPatient: false });
  await expect(ensureStreams(command, NODES.length)).rejects.toThrow(NatsUnavailableError);
  let isThere = false;
  const ensured = ensureStreams(nats, NODES.length).then(() => {
    isThere = true;
  });
  await delay(3_000);
  expect(isThere).toBe(false);
  await cluster.restart('n2');
  await cluster.restart('n3');
  await ensured;
  expect((await streamState(nats, LEDGER_STREAM)).messages).toBe(0);
  await Promise.all([nats.close(), command.close()]);
});

test('a process that waits for a server logs it repeatedly until it is stopped', async () => {
  const errors: unknown[] = [];
  const stop = new AbortController();
  const waiting = connectNats({
    ...{ url: 'nats://127.0.0.1:1', name: 'test', signal: stop.signal },
    onWait(error) {
      errors.push(error);
      if (errors.length === 2) stop.abort(new Error('stopped'));
    },
  });
  await expect(waiting).rejects.toThrow('stopped');
  expect(errors[0]).toBeInstanceOf(NatsUnavailableError);
});
