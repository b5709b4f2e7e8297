/**
 * Runs the compose file: the image is built, the containers are started, used, killed one by one, and
 * stopped. A devnet in a container is the chain. Images that are not available have stand-ins, which are
 * printed. `npm run test:containers` runs it; it takes minutes.
 */

import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { Fillstream } from '../../../apps/client/index.ts';
import { freePort } from '../../../local/ports.ts';
import { temporaryDirectory, until } from '../../support/service.ts';
import { type Engine, openEngine } from './engine.ts';
import { embedded, isAvailable, makeNodeImage, natsStandIn } from './stand-ins.ts';

const ROOT = join(import.meta.dirname, '../../..');
const TEST_MS_MAX = 1_800_000;
const HEALTH_MS = 1_000;
const OURS = ['ingest', 'projector', 'api'];
/** The services to kill, in this order. */
const KILLED = ['api', 'projector', 'ingest', 'clickhouse', 'nats', 'chain'];

const LIMITS = { nofile: { soft: 4_096, hard: 4_096 }, nproc: { soft: 4_096, hard: 4_096 } };

const isWanted = process.env.CONTAINERS === 'run';
if (!isWanted) console.log('compose skipped: `npm run test:containers` runs it');

describe.skipIf(!isWanted)('the service of compose.yaml', { timeout: TEST_MS_MAX }, () => {
  const directory = temporaryDirectory();
  const deploy = join(directory.path, 'infra/deploy');
  const env: NodeJS.ProcessEnv = { CHAIN: 'devnet' };
  const stopped = new AbortController();
  let engine: Engine;
  let client: Fillstream;
  let url: string;

  const compose = (...args: readonly string[]) =>
    engine.compose(
      env,
      ...['--project-name', 'fillstream-test', '--project-directory', deploy],
      ...['-f', join(deploy, 'tried.json'), ...args],
    );
  const idOf = (service: string) => compose('ps', '-q', service);
  const stateOf = async (service: string) => {
    const text = await engine.run('inspect', '--format', '{{json .State}}', await idOf(service));
    return JSON.parse(text) as { Pid: number; ExitCode: number; Running: boolean };
  };
  const inside = (service: string, command: string) =>
    compose('exec', '-T', service, 'sh', '-c', command);

  beforeAll(async () => {
    engine = await openEngine(directory.path);
    const changes = await prepareImages(engine);
    await build(engine, directory.path);
    cpSync(join(ROOT, 'infra/deploy'), deploy, {
      recursive: true,
      filter: (path) => !path.endsWith('/secrets'),
    });
    execFileSync(join(deploy, 'make-secrets.sh'));
    const chain = 'RPC_URL=http://chain:8545\nGAMMA_URL=http://chain:8546\nSTART_BLOCK=0\n';
    writeFileSync(join(deploy, 'secrets/chain.env'), chain);
    writeFileSync(join(deploy, 'tried.json'), JSON.stringify(tried(deploy, changes)));
    const port = await freePort();
    env.API_PORT = `127.0.0.1:${port}`;
    url = `http://127.0.0.1:${port}`;
    if (engine.name === 'podman') void checkHealth(engine, stopped.signal);
    await compose('up', '--detach', '--no-build');
  }, TEST_MS_MAX);

  afterAll(async () => {
    stopped.abort();
    if (existsSync(join(deploy, 'tried.json')))
      await compose('down', '--volumes', '--timeout', '10');
    engine?.close();
    directory.remove();
  }, TEST_MS_MAX);

  test('becomes ready, and a key of its command opens it', async () => {
    await ready(url);
    expect((await fetch(`${url}/v1/analytics/leaderboard`)).status).toBe(401);
    const issued = await compose(
      ...['run', '--rm', '-T', 'keys', 'issue', '--tier', 'pro', '--account', 'test'],
    );
    const key = /fs_\w+/.exec(issued)?.[0] ?? '';
    client = new Fillstream({ url, key });
    const board = await until(async () => {
      const { traders } = await client.v1.leaderboard({ time_frame: '1D', limit: 5 });
      return traders.length === 5 ? traders : undefined;
    });
    expect(BigInt(board[0]?.total_pnl ?? 0)).toBeGreaterThan(0n);
  });

  test.each(OURS)(
    '%s has no rights, no writable root, and no secret in its environment',
    async (service) => {
      const status = await inside(service, 'grep -E "^(Uid|CapEff|NoNewPrivs)" /proc/1/status');
      expect(status.split(/\s+/)).toEqual([
        'Uid:',
        '1000',
        '1000',
        '1000',
        '1000',
        'CapEff:',
        '0000000000000000',
        'NoNewPrivs:',
        '1',
      ]);
      await expect(inside(service, 'touch /app/file')).rejects.toThrow('Read-only file system');
      await inside(service, 'touch /tmp/file');
      const settings = await engine.run('inspect', await idOf(service));
      for (const file of ['nats-password', 'clickhouse-url']) {
        const secret = readFileSync(join(deploy, 'secrets', file), 'utf8');
        expect(settings).not.toContain(secret);
        expect(await inside(service, `cat /run/secrets/${file}`)).toBe(secret);
      }
    },
  );

  test('its backup command reaches both stores', async () => {
    const to = join(directory.path, 'backups');
    mkdirSync(to);
    await compose(
      ...['run', '--rm', '-T', '--user', `${process.getuid?.()}`, '--volume', `${to}:/backups`],
      ...['backup', 'backup', '--to', '/backups/first'],
    );
    const manifest = JSON.parse(readFileSync(join(to, 'first/backup.json'), 'utf8'));
    expect(manifest.clickhouse.databases).toContain('fillstream');
    expect(manifest.streams).toEqual(expect.arrayContaining(['LEDGER', 'FEED', 'KV_keys']));
  });

  test('each container is killed and comes back, and a listener loses nothing', async () => {
    const seen: string[] = [];
    const gone = new AbortController();
    const listening = (async () => {
      for await (const { type, cursor } of client.feed({}, { signal: gone.signal })) {
        expect(type).not.toBe('gap');
        seen.push(cursor);
      }
    })();
    const more = async (count: number) => {
      const goal = seen.length + count;
      await until(async () => {
        if (seen.length < goal) await Promise.race([listening, delay(0)]);
        return seen.length >= goal || undefined;
      });
    };
    await more(5);
    for (const service of KILLED) {
      const { Pid } = await stateOf(service);
      process.kill(Pid, 'SIGKILL');
      await until(async () => {
        const { Running, Pid: next } = await stateOf(service);
        return (Running && next !== Pid) || undefined;
      });
      await ready(url);
      await more(5);
    }
    gone.abort();
    await listening.catch(() => undefined);
    const again: string[] = [];
    for await (const { cursor } of client.feed({}, { from: seen[0] })) {
      again.push(cursor);
      if (again.length === seen.length - 1) break;
    }
    expect(again).toEqual(seen.slice(1));
  });

  test('stops in time', async () => {
    await compose('stop', 'api', 'ingest', 'projector');
    for (const service of OURS) {
      const { ExitCode, Running } = await stateOf(service);
      // 137 would mean that the engine had to kill the container.
      expect({ service, ExitCode, Running }).toEqual({ service, ExitCode: 0, Running: false });
    }
  });
});

/** Changes to the compose file for images that are not available. */
async function prepareImages(engine: Engine): Promise<Record<string, object>> {
  const { services } = parsedCompose(join(ROOT, 'infra/deploy'));
  const imageOf = (text: string) => text.replace(/^\$\{\w+:-(.*)\}$/, '$1');
  const node = imageOf(services.migrate?.build?.args.NODE_IMAGE ?? '');
  const nats = imageOf(services.nats?.image ?? '');
  const clickhouse = imageOf(services.clickhouse?.image ?? '');
  const changes: Record<string, object> = {};
  if (!(await isAvailable(engine, node))) {
    console.log(`stand-in for ${node}: Debian bookworm with Node.js ${process.version}`);
    await makeNodeImage(engine, node);
  }
  if (!(await isAvailable(engine, nats))) {
    changes.nats = await natsStandIn(node);
    console.log(`stand-in for ${nats}: the nats-server of this machine`);
  }
  if (!(await isAvailable(engine, clickhouse))) {
    changes.clickhouse = embedded('clickhouse');
    console.log(`stand-in for ${clickhouse}: the embedded ClickHouse`);
  }
  return changes;
}

/** Builds our image; with podman, uses this machine's certificates and npm settings, which may name a mirror. */
async function build(engine: Engine, directory: string): Promise<void> {
  const settings = join(directory, 'npmrc');
  const { npm_config_userconfig: own = '' } = process.env;
  const copied = existsSync(own) ? readFileSync(own, 'utf8') : '';
  writeFileSync(settings, `${copied}\ncafile=/etc/ssl/certs/ca-certificates.crt\n`);
  const mounts = [
    ...['--volume', '/etc/ssl/certs:/etc/ssl/certs:ro'],
    ...['--volume', `${settings}:/usr/local/etc/npmrc:ro`],
  ];
  const options = ['--network', 'host', '--format', 'docker', ...mounts];
  await engine.run(
    'build',
    ...(engine.name === 'podman' ? options : []),
    ...['--file', join(ROOT, 'infra/deploy/Dockerfile'), '--tag', 'fillstream', ROOT],
  );
}

type Compose = {
  readonly services: Record<
    string,
    {
      readonly image: string;
      readonly build?: { readonly args: { readonly NODE_IMAGE: string } };
      readonly env_file?: string | readonly (string | { readonly path: string })[];
      readonly volumes?: readonly string[];
    }
  >;
  readonly volumes: Record<string, unknown>;
};

function parsedCompose(directory: string): Compose {
  const text = readFileSync(join(directory, 'compose.yaml'), 'utf8');
  return parse(text, { merge: true, maxAliasCount: -1 });
}

/** The compose file with a chain and stand-ins, and without settings that docker-compose 1 cannot read. */
function tried(directory: string, changes: Record<string, object>): object {
  const { services, volumes, ...rest } = parsedCompose(directory);
  const all = { ...services, ...changed(services, changes), chain: embedded('chain') };
  const { name: _, ...known } = rest as { name?: string };
  return { ...known, services: readable(all), volumes: { ...volumes, chain: null } };
}

function changed(services: Compose['services'], changes: Record<string, object>) {
  return Object.fromEntries(
    Object.entries(changes).map(([name, change]) => {
      const volumes = [
        ...(services[name]?.volumes ?? []),
        ...('volumes' in change ? (change.volumes as string[]) : []),
      ];
      return [name, { ...services[name], ...change, volumes }];
    }),
  );
}

/** docker-compose 1 only supports paths of env files, and podman's default limits may exceed those of this machine. */
function readable(services: Record<string, { env_file?: unknown }>) {
  return Object.fromEntries(
    Object.entries(services).map(([name, service]) => {
      const { env_file: files } = service;
      if (!Array.isArray(files)) return [name, { ...service, ulimits: LIMITS }];
      const paths = files.map((file) => (typeof file === 'string' ? file : file.path));
      return [name, { ...service, env_file: paths, ulimits: LIMITS }];
    }),
  );
}

/** podman leaves health checks to systemd, which containers and small machines lack. */
async function checkHealth(engine: Engine, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const ids = await engine.run('ps', '--quiet', '--filter', 'name=fillstream-test');
    for (const id of ids.split('\n').filter((id) => id !== '')) {
      // A failed check is visible in the container's state, and some containers have no check.
      await engine.run('healthcheck', 'run', id).catch(() => undefined);
    }
    await delay(HEALTH_MS);
  }
}

async function ready(url: string): Promise<void> {
  await until(async () => {
    const answer = await fetch(`${url}/readyz`).catch(() => undefined);
    return answer?.ok || undefined;
  });
}
