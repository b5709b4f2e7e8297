/**
 * The service on the real servers of its compose files, in containers: single nodes, and the cluster. The
 * devnet, ingest, projector and api run from the repository. Without containers, the same test runs on any
 * empty servers that NATS_URL and CLICKHOUSE_URL (and their credentials) name.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  GenericContainer,
  Network,
  type StartedNetwork,
  type StartedTestContainer,
  Wait,
} from 'testcontainers';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { issueKey } from '../../../api/auth/key-admin.ts';
import { generateKey, KEYS_BUCKET } from '../../../api/auth/keys.ts';
import { readConfig, StoresConfig } from '../../../infra/config.ts';
import { connectNats, natsOptions } from '../../../infra/nats/connection.ts';
import { openKv } from '../../../infra/nats/kv.ts';
import { migrate } from '../../../sql/migrate.ts';
import {
  answerOf,
  query,
  start,
  startDevnet,
  temporaryDirectory,
  until,
} from '../../support/service.ts';
import { missingEngine } from './engine.ts';

const INFRA = join(import.meta.dirname, '../../../infra/deploy');
const START_MS_MAX = 600_000;
const PASSWORD = generateKey('demo').slice(8);
/** SHA-256 of the empty text: no analyst. */
const NO_ANALYST = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855';

/** The image that the compose file names, so that the test runs the same. */
function imageOf(file: string, service: string): string {
  const { services } = parse(readFileSync(join(INFRA, file), 'utf8'), {
    merge: true,
    maxAliasCount: -1,
  });
  const image: string = services[service].image;
  return image.replace(/^\$\{\w+:-(.*)\}$/, '$1');
}

const reason = await missingEngine();
if (reason !== undefined) console.log(`containers skipped: no container engine (${reason})`);

const given = process.env.NATS_URL && process.env.CLICKHOUSE_URL;
if (!given) console.log('given servers skipped: NATS_URL and CLICKHOUSE_URL are not set');

const running: StartedTestContainer[] = [];
let network: StartedNetwork;
let directory: ReturnType<typeof temporaryDirectory>;

describe.skipIf(reason !== undefined)('on servers in containers', () => {
  beforeEach(async () => {
    directory = temporaryDirectory();
    network = await new Network().start();
  });

  afterEach(async () => {
    await Promise.all(running.splice(0).map((container) => container.stop()));
    await network?.stop();
    directory?.remove();
  });

  test('one node of each', { timeout: START_MS_MAX }, async () => {
    const nats = await keep(natsServer('nats', 'single.conf').start());
    const clickhouse = await keep(
      clickHouseServer('clickhouse', ['single/config.xml'], []).start(),
    );
    await tradesFlow({
      NATS_URL: natsUrl(nats),
      NATS_USER: 'fillstream',
      NATS_PASSWORD: PASSWORD,
      CLICKHOUSE_URL: clickHouseUrl(clickhouse),
    });
  });

  test('three NATS servers, two shards of two replicas', { timeout: START_MS_MAX }, async () => {
    const nats = await Promise.all(
      [1, 2, 3].map((n) =>
        keep(
          natsServer(`nats-${n}`, 'cluster.conf')
            .withEnvironment({ NATS_NAME: `nats-${n}` })
            .start(),
        ),
      ),
    );
    await Promise.all(
      [1, 2, 3].map((n) =>
        keep(
          new GenericContainer(imageOf('compose.cluster.yaml', 'keeper-1'))
            .withNetwork(network)
            .withNetworkAliases(`keeper-${n}`)
            .withEnvironment({ KEEPER_ID: String(n) })
            .withCopyFilesToContainer([
              {
                source: join(INFRA, 'clickhouse/keeper/keeper.xml'),
                target: '/etc/clickhouse-keeper/keeper_config.d/fillstream.xml',
              },
            ])
            .start(),
        ),
      ),
    );
    const clickhouse = await Promise.all(
      ['1-1', '1-2', '2-1', '2-2'].map((replica) =>
        keep(
          clickHouseServer(`clickhouse-${replica}`, ['cluster/config.xml'], ['cluster/users.xml'])
            .withEnvironment({
              CLICKHOUSE_SHARD: replica.charAt(0),
              CLICKHOUSE_REPLICA: replica,
            })
            .start(),
        ),
      ),
    );
    const [first] = clickhouse;
    if (first === undefined) throw new Error('no ClickHouse server');
    await tradesFlow({
      NATS_URL: nats.map(natsUrl).join(','),
      NATS_USER: 'fillstream',
      NATS_PASSWORD: PASSWORD,
      NATS_REPLICAS: '3',
      CLICKHOUSE_URL: clickHouseUrl(first),
      CLICKHOUSE_CLUSTER: 'fillstream',
    });
  });
});

describe.skipIf(!given)('on given servers', () => {
  test('NATS_URL and CLICKHOUSE_URL', { timeout: START_MS_MAX }, async () => {
    directory = temporaryDirectory();
    await tradesFlow({});
    directory.remove();
  });
});

async function keep(starting: Promise<StartedTestContainer>): Promise<StartedTestContainer> {
  const container = await starting;
  running.push(container);
  return container;
}

function natsServer(name: string, config: string): GenericContainer {
  return new GenericContainer(imageOf('compose.cluster.yaml', 'nats-1'))
    .withNetwork(network)
    .withNetworkAliases(name)
    .withCopyFilesToContainer([
      { source: join(INFRA, 'nats', config), target: '/etc/nats/nats.conf' },
    ])
    .withCopyContentToContainer([
      {
        content: `authorization { user: "fillstream", password: "${PASSWORD}" }\n`,
        target: '/run/secrets/nats-auth.conf',
      },
    ])
    .withCommand(['--config', '/etc/nats/nats.conf'])
    .withExposedPorts(4222)
    .withWaitStrategy(Wait.forLogMessage(/Listening for client connections/));
}

function clickHouseServer(
  name: string,
  configs: readonly string[],
  users: readonly string[],
): GenericContainer {
  const at = (folder: string, files: readonly string[]) =>
    files.map((file) => ({
      source: join(INFRA, 'clickhouse', file),
      target: `/etc/clickhouse-server/${folder}/${file.replaceAll('/', '-')}`,
    }));
  return new GenericContainer(imageOf('compose.yaml', 'clickhouse'))
    .withNetwork(network)
    .withNetworkAliases(name)
    .withEnvironment({
      CLICKHOUSE_PASSWORD: PASSWORD,
      CLICKHOUSE_DEFAULT_ACCESS_MANAGEMENT: '1',
      ANALYST_PASSWORD_SHA256: NO_ANALYST,
    })
    .withCopyFilesToContainer([
      ...at('config.d', configs),
      ...at('users.d', ['users.d/service.xml', 'users.d/analyst.xml', ...users]),
    ])
    .withExposedPorts(8123)
    .withWaitStrategy(Wait.forHttp('/ping', 8123).withStartupTimeout(START_MS_MAX));
}

function natsUrl(container: StartedTestContainer): string {
  return `nats://${container.getHost()}:${container.getMappedPort(4222)}`;
}

function clickHouseUrl(container: StartedTestContainer): string {
  return `http://default:${PASSWORD}@${container.getHost()}:${container.getMappedPort(8123)}`;
}

/** Runs devnet, ingest, projector and api on the servers, and checks that the trades arrive. */
async function tradesFlow(env: Record<string, string>): Promise<void> {
  const config = readConfig(StoresConfig, { ...process.env, ...env });
  const { CLICKHOUSE_URL, CLICKHOUSE_DATABASE: database, NATS_REPLICAS: replicas } = config;
  await migrate({ url: CLICKHOUSE_URL, database, cluster: config.CLICKHOUSE_CLUSTER });
  const nats = await connectNats({ ...natsOptions(config), name: 'test' });
  const bucket = await openKv(nats, KEYS_BUCKET, { replicas });
  const wanted = { tier: 'pro', account: 'test', label: '' } as const;
  const { key } = await issueKey(bucket, wanted, Date.now());
  await nats.close();
  // Also stops the processes of a test that fails.
  await using started = new AsyncDisposableStack();
  const stop = async (part: ReturnType<typeof start>) => void (await part.stop());
  const devnet = await startDevnet(join(directory.path, 'devnet'), {
    matches: 200,
    days: 2,
    rate: 5,
  });
  started.adopt(devnet.process, stop);
  const all = { ...env, ...devnet.env, HTTP_PORT: '0' };
  const projector = started.adopt(start('projector/main.ts', [], all), stop);
  await projector.event('projecting');
  const api = started.adopt(start('api/main.ts', [], all), stop);
  const { port } = await api.event('listening');
  const ingest = started.adopt(start('ingest/main.ts', [], all), stop);
  const { block } = await ingest.event('caught_up');
  await projector.reached('stored', (line) => Number(line.block) >= Number(block));
  const sums = await query<{ fills: string; volume: string }>(
    CLICKHOUSE_URL,
    `SELECT toString(sum(fills)) AS fills, toString(sum(maker_volume) + sum(taker_volume)) AS volume
     FROM trader_hours`,
    database,
  );
  expect(Number(sums[0]?.fills)).toBeGreaterThan(400);
  type Board = { traders: unknown[]; total_count: number };
  await until(async () => {
    const path = '/v1/analytics/leaderboard?time_frame=1D&limit=5';
    const board = await answerOf<Board>(`http://127.0.0.1:${port}`, key, path);
    return board.traders.length === 5 ? board : undefined;
  });
}
