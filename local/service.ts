/**
 * The parts of the service and their start order. Each starts as soon as what it needs is there: projector and api need
 * both stores, with schema and keys; ingest needs NATS and the chain. The service is ready when ClickHouse and the
 * leaderboards contain the chain's final blocks. For this file, the parts are only processes with URLs.
 */
import { join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { generateKey, hashKey, KEYS_BUCKET, KeyRecord, storeKey } from '../api/auth/keys.ts';
import { clickHouseUrlFault } from '../infra/clickhouse.ts';
import { ConfigError, type ServiceConfig } from '../infra/config.ts';
import { ExpectedError } from '../infra/expected.ts';
import { hostOf } from '../infra/loopback.ts';
import {
  connectNats,
  natsOptions,
  oldServerNotice,
  streamState,
} from '../infra/nats/connection.ts';
import { type Kv, openKv, parseValue } from '../infra/nats/kv.ts';
import { concealer } from '../infra/secrets.ts';
import { METADATA_STREAM } from '../ingest/contract.ts';
import { migrate } from '../sql/migrate.ts';
import { keptPort, readShownKeys, recordPart, type ShownKeys } from './data-directory.ts';
import { fillLeaderboards } from './leaderboards.ts';
import { NatsPart } from './nats-part.ts';
import { freePort, isPortTaken } from './ports.ts';
import { natsToken, serviceUrl } from './secret.ts';
import {
  Child,
  type ChildOptions,
  ChildStartError,
  type Message,
  type Part,
  type Report,
} from './supervise.ts';
import { Watch } from './watch.ts';

/** Within the sum of these, everything has stopped or is killed. */
const STOP_PROCESSES_MS = 2_500;
const STOP_STORES_MS = 1_800;
const POLL_MS = 50;
/** Enough for every board, list and chart to have entries. More would delay the first start. */
const HISTORY_MATCHES = 1_000;
/** Four minutes of the embedded chain. The chain waits for ingest if ingest is two minutes behind. */
const CHAIN_BLOCKS_KEPT = 120;
/** The feed is most of a demo's data, and no client of a demo resumes after days. */
const DEMO_FEED_HOURS = '24';
/** Credentials for NATS servers that are not started here. */
const NATS_ACCESS = [
  ...(['NATS_USER', 'NATS_PASSWORD', 'NATS_TOKEN', 'NATS_CREDS'] as const),
  ...(['NATS_TLS_CA', 'NATS_TLS_CERT', 'NATS_TLS_KEY'] as const),
];
const TIERS = ['demo', 'individual', 'pro'] as const;
/** Label of the key in the page, by which the next start finds it. */
const PAGE_LABEL = 'the page of npm start';

/**
 * Node's flag for ingest and api, also in the containers. Nearly all of their garbage is young, and V8 would let the
 * young space grow to 128 MB, which costs 100 MB of resident memory (docs/benchmarks/ingest.md).
 */
export const SMALL_YOUNG_SPACE = '--max-semi-space-size=16';
/** Node's flags for the api, as in the containers: V8 also collects its old space earlier. */
export const API_FLAGS: readonly string[] = [SMALL_YOUNG_SPACE, '--heap-growing-percent=100'];
const NODE_FLAGS: Readonly<Record<string, readonly string[]>> = {
  api: API_FLAGS,
  ingest: [SMALL_YOUNG_SPACE],
};

export type ServiceOptions = {
  /** HTTP_PORT by default. */
  readonly port: number | undefined;
  readonly data: string;
  readonly demoRate: number;
  readonly historyDays: number;
  readonly report: Report;
};

type ClickHouse = {
  readonly url: string;
  /** The URL to print. */
  readonly shownUrl: string;
  /** Contains no user, because the embedded ClickHouse treats requests without one as the analyst's. */
  readonly analystUrl: string | undefined;
};

/** Another program uses the API's port. */
class PortTakenError extends ExpectedError {}

type Chain = {
  readonly RPC_URL: string;
  readonly GAMMA_URL: string;
  readonly FEED_HOURS?: string;
};

type Environment = Readonly<Record<string, string>>;

type NatsAccess = { readonly NATS_URL: string; readonly NATS_TOKEN?: string };

export class Service {
  readonly #options: ServiceOptions;
  #config: ServiceConfig;
  readonly #environment: NodeJS.ProcessEnv;
  readonly #stores: Part[] = [];
  readonly #processes: Part[] = [];
  readonly #watch: Watch;
  #stopping: Promise<void> | undefined;
  #devnet: Child | undefined;
  #ledgerBlock = 0;
  #storedBlock = 0;
  #storedMetadata = 0;

  /** The environment must not name files: the parts would prefer these to the URLs that they get here. */
  constructor(options: ServiceOptions, config: ServiceConfig, environment: NodeJS.ProcessEnv) {
    this.#watch = new Watch(options.report);
    const { report } = this.#watch;
    this.#options = { ...options, data: resolve(options.data), report };
    this.#config = config;
    this.#environment = environment;
  }

  /** Resolves when the whole history can be queried. Throws errors whose message is for the user. */
  async start(): Promise<void> {
    const { report, data, port: given = this.#config.HTTP_PORT } = this.#options;
    // Chosen here, so that the api has the same port after a restart.
    const port = given === 0 ? await freePort() : given;
    if (await isPortTaken(port)) {
      throw new PortTakenError(
        `port ${port} is taken: stop the program that uses it, or choose another with --port N (0 = a free port)`,
      );
    }
    const keys = readShownKeys(data);
    const pageKey = generateKey('pro');
    const common = {
      CHAIN: this.#chain(),
      HTTP_PORT: String(port),
      METRICS_HOST: '127.0.0.1',
      // Each process serves its metrics on a free port of its own.
      METRICS_PORT: '0',
      DATA_DIRECTORY: data,
    };
    const nats = this.#openNats(keys, pageKey);
    const openingChain = this.#openChain();
    const [{ natsUrl, clickHouse, api }, { chain, caughtUp }] = await Promise.all([
      this.#startReaders(common, nats, pageKey),
      this.#startIngest(common, nats, openingChain),
    ]);
    const stored = this.#untilStored(Number(caughtUp.block), await this.#lastMetadata(natsUrl));
    await this.#watch.waitFor('the analytics of the history', stored);
    const filling = fillLeaderboards({
      url: clickHouse.url,
      database: this.#config.CLICKHOUSE_DATABASE,
      isStopping: () => this.#stopping !== undefined,
      onFailure: (view, error) =>
        report({ event: 'refresh_failed', view, reason: firstLine(error) }),
    });
    await this.#watch.waitFor('the leaderboards', filling);
    const shown = concealer(this.#environment);
    const url = `http://${hostOf(this.#config.HTTP_HOST)}:${api.port}`;
    await this.#watch.waitFor('the api', this.#watch.untilReady(url));
    report({
      event: 'ready',
      url,
      key: keys.pro,
      keys,
      clickhouse_url: shown(clickHouse.shownUrl),
      nats_url: shown(natsUrl),
      rpc_url: shown(chain.RPC_URL),
    });
    void this.#watch.follow(url);
  }

  /** Starts projector and api once both stores are open, and alerts when they have started. */
  async #startReaders(common: Environment, nats: Promise<NatsAccess>, pageKey: string) {
    const [access, clickHouse] = await Promise.all([nats, this.#openClickHouse()]);
    const env = { ...common, ...access, CLICKHOUSE_URL: clickHouse.url };
    const { ANALYST_URL = clickHouse.analystUrl } = this.#config;
    // Where everybody may read, the page shows what a visitor sees.
    const hasPageKey = this.#config.PUBLIC_TIER === 'none';
    const apiEnv = {
      ...env,
      ...(hasPageKey ? { PAGE_KEY: pageKey } : {}),
      ...(ANALYST_URL === undefined ? {} : { ANALYST_URL }),
    };
    const [api] = await Promise.all([
      this.#start('api', 'api/main.ts', [], 'listening', apiEnv),
      this.#start('projector', 'projector/main.ts', [], 'projecting', env),
    ]);
    await this.#start('alerts', 'apps/alerts/main.ts', [], 'delivering', env);
    return { natsUrl: access.NATS_URL, clickHouse, api };
  }

  /** Starts ingest once NATS and the chain are open, and waits until LEDGER contains the history. */
  async #startIngest(common: Environment, nats: Promise<NatsAccess>, opening: Promise<Chain>) {
    const [access, chain] = await Promise.all([nats, opening]);
    const env = { ...common, ...access, ...chain };
    const caughtUp = await this.#start('ingest', 'ingest/main.ts', [], 'caught_up', env);
    return { chain, caughtUp };
  }

  /** Stops every part, the stores last. Later calls wait for the first. */
  stop(): Promise<void> {
    this.#stopping ??= this.#stopAll();
    return this.#stopping;
  }

  async #stopAll(): Promise<void> {
    this.#watch.close();
    await Promise.all(this.#processes.map((child) => child.stop(STOP_PROCESSES_MS)));
    await Promise.all(this.#stores.map((child) => child.stop(STOP_STORES_MS)));
  }

  /** Starts NATS if necessary and stores the keys. */
  async #openNats(keys: ShownKeys, pageKey: string): Promise<NatsAccess> {
    const url = this.#environment.NATS_URL || (await this.#startNats());
    const connecting = connectNats({ ...natsOptions(this.#config), url, name: 'up' });
    const nats = await this.#watch.waitFor('NATS', connecting);
    const old = oldServerNotice(nats);
    if (old !== undefined) this.#options.report({ event: 'notice', text: old });
    try {
      const bucket = await openKv(nats, KEYS_BUCKET, { replicas: this.#config.NATS_REPLICAS });
      for (const tier of TIERS) {
        // Never overwritten, so that a revoked key stays revoked.
        if ((await bucket.get(hashKey(keys[tier]))) !== undefined) continue;
        await storeKey(bucket, keys[tier], {
          label: 'shown by npm start',
          tier,
          account: `local-${tier}`,
          created_at: new Date().toISOString(),
        });
      }
      await replacePageKey(bucket, pageKey);
    } finally {
      await nats.close();
    }
    const { NATS_TOKEN } = this.#config;
    return { NATS_URL: url, ...(NATS_TOKEN === undefined ? {} : { NATS_TOKEN }) };
  }

  async #startNats(): Promise<string> {
    const unused = NATS_ACCESS.filter((name) => this.#config[name] !== undefined);
    if (unused.length > 0) {
      throw new ConfigError(`${unused.join(', ')}: only used with NATS_URL, which is not set`);
    }
    const name = 'nats';
    const { data } = this.#options;
    const port = await keptPort(data, name);
    const dataDir = join(data, name);
    const binary = this.#environment.NATS_SERVER_BIN;
    const nats = new NatsPart({ dataDir, port, binary, ...this.#reports(name, 'nats-server') });
    await this.#run(name, nats, 'listening', this.#stores);
    const NATS_TOKEN = natsToken(dataDir);
    this.#config = { ...this.#config, NATS_TOKEN };
    return `nats://127.0.0.1:${port}`;
  }

  /** Starts ClickHouse if necessary and migrates the schema. The embedded one's `shownUrl` is read-only. */
  async #openClickHouse() {
    const opened = await this.#clickHouse();
    const { url } = opened;
    const { CLICKHOUSE_DATABASE: database, CLICKHOUSE_CLUSTER: cluster } = this.#config;
    const applied = await migrate({ url, database, cluster }).catch((error: unknown) => {
      const fault = clickHouseUrlFault(error);
      throw fault === undefined ? error : new ConfigError(`CLICKHOUSE_URL: ${fault}`);
    });
    this.#options.report({ event: 'migrated', applied: applied.length });
    return opened;
  }

  async #clickHouse(): Promise<ClickHouse> {
    const given = this.#environment.CLICKHOUSE_URL;
    if (given) return { url: given, shownUrl: given, analystUrl: undefined };
    const port = await this.#startStore('clickhouse', 'local/clickhouse/main.ts');
    const shownUrl = `http://127.0.0.1:${port}`;
    const url = serviceUrl(shownUrl, join(this.#options.data, 'clickhouse'));
    return { url, shownUrl, analystUrl: shownUrl };
  }

  /** Returns the port, which stays the same when the store is restarted. */
  async #startStore(name: string, module: string): Promise<number> {
    const port = await keptPort(this.#options.data, name);
    const args = ['--data', join(this.#options.data, name), '--port', String(port)];
    await this.#start(name, module, args, 'listening', {}, this.#stores);
    return port;
  }

  async #openChain(): Promise<Chain> {
    const { RPC_URL, GAMMA_URL } = this.#config;
    if (this.#environment.RPC_URL) return { RPC_URL, GAMMA_URL };
    const { data, demoRate, historyDays } = this.#options;
    const rpcPort = await keptPort(data, 'rpc');
    const gammaPort = await keptPort(data, 'gamma');
    const args = ['--data', join(data, 'devnet'), '--rpc-port', String(rpcPort)];
    args.push('--gamma-port', String(gammaPort), '--demo-rate', String(demoRate));
    args.push('--history-days', String(historyDays));
    args.push('--history-matches', String(HISTORY_MATCHES));
    args.push('--keep-blocks', String(CHAIN_BLOCKS_KEPT));
    await this.#start('devnet', 'local/devnet/main.ts', args, 'ready', {});
    return {
      RPC_URL: `http://127.0.0.1:${rpcPort}`,
      GAMMA_URL: this.#environment.GAMMA_URL || `http://127.0.0.1:${gammaPort}`,
      FEED_HOURS: this.#environment.FEED_HOURS || DEMO_FEED_HOURS,
    };
  }

  /** CHAIN if set; otherwise Polygon for a node from the environment, and devnet for the embedded one. */
  #chain(): string {
    if (this.#environment.CHAIN) return this.#config.CHAIN;
    return this.#environment.RPC_URL ? 'polygon' : 'devnet';
  }

  async #start(
    name: string,
    module: string,
    args: readonly string[],
    ready: string,
    env: Environment,
    group: Part[] = this.#processes,
  ): Promise<Message> {
    const child = new Child({
      name,
      module,
      args,
      nodeFlags: NODE_FLAGS[name] ?? [],
      env: { ...this.#environment, ...env },
      logs: join(this.#options.data, 'logs'),
      onMessage: (message) => this.#handle(name, message),
      ...this.#reports(name, module),
    });
    if (name === 'devnet') this.#devnet = child;
    return this.#run(name, child, ready, group);
  }

  /** Reports the processes of a part, whose command lines contain `command`. */
  #reports(name: string, command: string): Pick<ChildOptions, 'onSpawn' | 'onRestart'> {
    const { report, data } = this.#options;
    return {
      onSpawn: (pid) => {
        recordPart(data, pid, command);
        report({ event: 'starting', name, pid });
      },
      onRestart: (reason, waitMs) => report({ event: 'restarting', name, reason, wait_ms: waitMs }),
    };
  }

  async #run(name: string, part: Part, ready: string, group: Part[]): Promise<Message> {
    if (this.#stopping !== undefined) throw new ChildStartError(`${name} not started: stopping`);
    group.push(part);
    const message = await this.#watch.waitFor(name, part.start(ready));
    this.#options.report({ event: 'started', name });
    return message;
  }

  #handle(name: string, message: Message): void {
    if (message.event === 'ledger') this.#ledgerBlock = Number(message.block);
    const isNews = message.event === 'ledger' || (name === 'devnet' && message.event === 'ready');
    if (isNews) this.#devnet?.send({ stored: this.#ledgerBlock });
    if (message.event === 'stored') this.#storedBlock = Number(message.block);
    if (message.event === 'metadata_stored') this.#storedMetadata = Number(message.sequence);
    if (message.event === 'progress') this.#options.report({ ...message, name });
    if (message.event === 'metrics') {
      const url = `http://127.0.0.1:${message.port}/metrics`;
      this.#options.report({ event: 'metrics', name, url });
      this.#watch.serves(name, url);
    }
  }

  async #lastMetadata(url: string): Promise<number> {
    const nats = await connectNats({ ...natsOptions(this.#config), url, name: 'up' });
    try {
      return (await streamState(nats, METADATA_STREAM)).lastSequence;
    } finally {
      await nats.close();
    }
  }

  /** Waits until ClickHouse contains LEDGER up to this block and METADATA up to this sequence. */
  async #untilStored(ledger: number, metadata: number): Promise<void> {
    const isBehind = () => this.#storedBlock < ledger || this.#storedMetadata < metadata;
    while (isBehind() && this.#stopping === undefined) await delay(POLL_MS);
  }
}

/** Stores the key of the page of this start in place of those of earlier ones. */
async function replacePageKey(bucket: Kv, key: string): Promise<void> {
  const read = new AbortController();
  for await (const event of bucket.watch(read.signal)) {
    if (event.type === 'initialised') read.abort();
    if (event.type !== 'put') continue;
    const record = parseValue(KeyRecord, event.value);
    if (record?.label === PAGE_LABEL) await bucket.delete(event.key);
  }
  await storeKey(bucket, key, {
    ...{ label: PAGE_LABEL, tier: 'pro', account: 'local-pro' },
    created_at: new Date().toISOString(),
  });
}

function firstLine(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  return message.split('\n')[0] ?? '';
}
