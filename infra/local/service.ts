/**
 * The parts of the service and the order in which they start: stores and chain side by side, then the
 * schema and the keys, then projector and api, then ingest; ready when the final blocks of the chain
 * are in ClickHouse and in the leaderboards. Knows the parts only as processes with URLs.
 */
import { createServer } from 'node:net';
import { join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { ClickHouseClient } from '@clickhouse/client';
import { hashKey, storeKey } from '../../api/auth/keys.ts';
import { METADATA_STREAM } from '../../ingest/contract-metadata.ts';
import { migrate } from '../../sql/migrate.ts';
import { clickHouseUrlFault, connectClickHouse } from '../clickhouse.ts';
import { ConfigError, type ServiceConfig } from '../config.ts';
import { connectNats, natsOptions, streamState } from '../nats/connection.ts';
import { openKv } from '../nats/kv.ts';
import { concealer } from '../secrets.ts';
import { KEYS_BUCKET } from '../streams.ts';
import { readShownKeys, type ShownKeys } from './data-directory.ts';
import { Child, ChildStartError, type Message } from './supervise.ts';

/** Everything is down within this time, or killed. */
const STOP_MS_MAX = 4_500;
const STOP_PROCESSES_MS = 2_500;
const STOP_STORES_MS = 1_800;
/** A market that nobody lists is not waited for any longer. */
const LISTINGS_MS_MAX = 5_000;
const POLL_MS = 50;
const HISTORY_MATCHES_PER_DAY = 130;
/** How to be let in by servers that are not started here. */
const NATS_ACCESS = [
  ...(['NATS_USER', 'NATS_PASSWORD', 'NATS_TOKEN', 'NATS_CREDS'] as const),
  ...(['NATS_TLS_CA', 'NATS_TLS_CERT', 'NATS_TLS_KEY'] as const),
];
const LEADERBOARDS = ['1h', '4h', '1d', '3d', '7d', '30d'] as const;

/**
 * Options of Node for ingest and api; the containers have the same. Nearly all of their garbage is
 * young: its space may not grow to the 128 MB that V8 allows, of which the resident memory had 100 MB
 * (docs/benchmarks.md).
 */
export const SMALL_YOUNG_SPACE = '--max-semi-space-size=16';

export type Report = (message: Message) => void;

export type ServiceOptions = {
  readonly port: number;
  readonly data: string;
  readonly demoRate: number;
  readonly historyDays: number;
  readonly report: Report;
};

/** The port of the API is used by another program. */
export class PortTakenError extends Error {}

type Urls = {
  readonly NATS_URL: string;
  readonly CLICKHOUSE_URL: string;
  readonly RPC_URL: string;
  readonly GAMMA_URL: string;
};

export class Service {
  readonly #options: ServiceOptions;
  readonly #config: ServiceConfig;
  readonly #given: Readonly<Record<string, string | undefined>>;
  readonly #stores: Child[] = [];
  readonly #processes: Child[] = [];
  #stopping: Promise<void> | undefined;
  #storedSequence = 0;
  #storedMetadata = 0;

  constructor(options: ServiceOptions, config: ServiceConfig, environment: NodeJS.ProcessEnv) {
    this.#options = { ...options, data: resolve(options.data) };
    this.#config = config;
    this.#given = environment;
  }

  /** Resolves when the service answers with all of history. Throws named errors that tell what to do. */
  async start(): Promise<void> {
    const { port, report, data } = this.#options;
    await refuseTakenPort(port);
    const keys = readShownKeys(data);
    const [NATS_URL, CLICKHOUSE_URL, chain] = await Promise.all([
      this.#startNats(keys),
      this.#startClickHouse(),
      this.#startChain(),
    ]);
    const urls = { NATS_URL, CLICKHOUSE_URL, ...chain };
    // Each process has a free port of its own for its metrics.
    const env = {
      ...urls,
      CHAIN: this.#chain(),
      HTTP_PORT: String(port),
      METRICS_HOST: '127.0.0.1',
      METRICS_PORT: '0',
    };
    const NODE_OPTIONS = `${this.#given.NODE_OPTIONS ?? ''} ${SMALL_YOUNG_SPACE}`;
    const smallEnv = { ...env, NODE_OPTIONS };
    const [api] = await Promise.all([
      this.#start('api', 'api/main.ts', [], smallEnv, 'listening'),
      this.#start('projector', 'projector/main.ts', [], env, 'projecting'),
    ]);
    const caughtUp = await this.#start('ingest', 'ingest/main.ts', [], smallEnv, 'caught_up');
    await this.#stored(Number(caughtUp.sequence), await this.#lastMetadata(NATS_URL));
    await this.#refreshLeaderboards(urls);
    const shown = concealer(this.#given);
    report({
      event: 'ready',
      url: `http://${this.#config.HTTP_HOST}:${api.port}`,
      key: keys.pro,
      keys,
      clickhouse_url: shown(CLICKHOUSE_URL),
      nats_url: shown(NATS_URL),
      rpc_url: shown(urls.RPC_URL),
    });
  }

  /** Stops every part, the stores last; later calls wait for the first. */
  stop(): Promise<void> {
    this.#stopping ??= this.#stopAll();
    return this.#stopping;
  }

  async #stopAll(): Promise<void> {
    await Promise.all(this.#processes.map((child) => child.stop(STOP_PROCESSES_MS)));
    const left = Math.min(STOP_STORES_MS, STOP_MS_MAX - STOP_PROCESSES_MS);
    await Promise.all(this.#stores.map((child) => child.stop(left)));
  }

  async #startNats(keys: ShownKeys): Promise<string> {
    const url = this.#given.NATS_URL || (await this.#startEmbeddedNats());
    const nats = await connectNats({ ...natsOptions(this.#config), url, name: 'up' });
    try {
      const bucket = await openKv(nats, KEYS_BUCKET, { replicas: this.#config.NATS_REPLICAS });
      for (const tier of ['demo', 'individual', 'pro'] as const) {
        // Never written again: a key that was revoked stays revoked.
        if ((await bucket.get(hashKey(keys[tier]))) !== undefined) continue;
        await storeKey(bucket, keys[tier], {
          label: 'shown by npm start',
          tier,
          account: `local-${tier}`,
          created_at: new Date().toISOString(),
        });
      }
    } finally {
      await nats.close();
    }
    return url;
  }

  async #startEmbeddedNats(): Promise<string> {
    const meant = NATS_ACCESS.filter((name) => this.#config[name] !== undefined);
    if (meant.length > 0) {
      throw new ConfigError(`${meant.join(', ')}: for a server of NATS_URL, which is not set`);
    }
    const port = await freePort();
    const args = ['--data', join(this.#options.data, 'nats'), '--port', String(port)];
    const module = 'infra/local/nats-server.ts';
    await this.#start('nats', module, args, {}, 'listening', this.#stores);
    return `nats://127.0.0.1:${port}`;
  }

  async #startClickHouse(): Promise<string> {
    let url = this.#given.CLICKHOUSE_URL || '';
    if (url === '') {
      const port = await freePort();
      const args = ['--data', join(this.#options.data, 'clickhouse'), '--port', String(port)];
      const module = 'infra/local/clickhouse/main.ts';
      await this.#start('clickhouse', module, args, {}, 'listening', this.#stores);
      url = `http://127.0.0.1:${port}`;
    }
    const { CLICKHOUSE_DATABASE: database, CLICKHOUSE_CLUSTER: cluster } = this.#config;
    const applied = await migrate({ url, database, cluster }).catch((error: unknown) => {
      const fault = clickHouseUrlFault(error);
      throw fault === undefined ? error : new ConfigError(`CLICKHOUSE_URL: ${fault}`);
    });
    this.#options.report({ event: 'migrated', applied: applied.length });
    return url;
  }

  async #startChain(): Promise<Pick<Urls, 'RPC_URL' | 'GAMMA_URL'>> {
    if (this.#given.RPC_URL) {
      return { RPC_URL: this.#config.RPC_URL, GAMMA_URL: this.#config.GAMMA_URL };
    }
    const { data, demoRate, historyDays } = this.#options;
    const [rpcPort, gammaPort] = [await freePort(), await freePort()];
    const args = ['--data', join(data, 'devnet'), '--rpc-port', String(rpcPort)];
    args.push('--gamma-port', String(gammaPort), '--demo-rate', String(demoRate));
    args.push('--history-days', String(historyDays));
    args.push('--history-matches', String(Math.ceil(historyDays * HISTORY_MATCHES_PER_DAY)));
    await this.#start('devnet', 'infra/local/devnet/main.ts', args, {}, 'ready');
    return {
      RPC_URL: `http://127.0.0.1:${rpcPort}`,
      GAMMA_URL: this.#given.GAMMA_URL || `http://127.0.0.1:${gammaPort}`,
    };
  }

  /** A node of one's own is Polygon's unless CHAIN says otherwise; the embedded one is the devnet. */
  #chain(): string {
    if (this.#given.CHAIN) return this.#config.CHAIN;
    return this.#given.RPC_URL ? 'polygon' : 'devnet';
  }

  async #start(
    name: string,
    module: string,
    args: readonly string[],
    env: Readonly<Record<string, string>>,
    ready: string,
    group: Child[] = this.#processes,
  ): Promise<Message> {
    if (this.#stopping !== undefined) throw new ChildStartError(`${name} not started: stopping`);
    const { report, data } = this.#options;
    const child = new Child({
      name,
      module,
      args,
      env,
      logs: join(data, 'logs'),
      onMessage: (message) => this.#hear(name, message),
      onSpawn: (pid) => report({ event: 'starting', name, pid }),
      onRestart: (reason, waitMs) => report({ event: 'restarting', name, reason, wait_ms: waitMs }),
    });
    group.push(child);
    const message = await child.start(ready);
    report({ event: 'started', name });
    return message;
  }

  #hear(name: string, message: Message): void {
    if (message.event === 'stored') this.#storedSequence = Number(message.sequence);
    if (message.event === 'metadata_stored') this.#storedMetadata = Number(message.sequence);
    if (message.event === 'progress') this.#options.report({ ...message, name });
    if (message.event === 'metrics') {
      const url = `http://127.0.0.1:${message.port}/metrics`;
      this.#options.report({ event: 'metrics', name, url });
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

  /** Waits until ClickHouse holds LEDGER and METADATA up to these sequences. */
  async #stored(ledger: number, metadata: number): Promise<void> {
    const isBehind = () => this.#storedSequence < ledger || this.#storedMetadata < metadata;
    while (isBehind() && this.#stopping === undefined) await delay(POLL_MS);
  }

  /** The long frames refresh every few minutes: not worth waiting for after a start. */
  async #refreshLeaderboards(urls: Urls): Promise<void> {
    const client = connectClickHouse({
      url: urls.CLICKHOUSE_URL,
      database: this.#config.CLICKHOUSE_DATABASE,
      name: 'up',
    });
    try {
      // The projector reloads it some seconds after new listings; without it markets have no tags. A
      // listing may come a moment after the first match of its market.
      const deadline = Date.now() + LISTINGS_MS_MAX;
      for (;;) {
        await client.command({ query: 'SYSTEM RELOAD DICTIONARY market_dictionary' });
        const isLate = Date.now() >= deadline || this.#stopping !== undefined;
        if (isLate || !(await lacksListings(client))) break;
        await delay(POLL_MS);
      }
      for (const frame of LEADERBOARDS) {
        // A refresh that its schedule has begun may not see the tags: it is waited for first.
        await client.command({ query: `SYSTEM WAIT VIEW leaderboard_${frame}_mv` });
        await client.command({ query: `SYSTEM REFRESH VIEW leaderboard_${frame}_mv` });
        await client.command({ query: `SYSTEM WAIT VIEW leaderboard_${frame}_mv` });
      }
    } finally {
      await client.close();
    }
  }
}

/** Whether a market was traded that the dictionary does not know. */
async function lacksListings(client: ClickHouseClient): Promise<boolean> {
  const result = await client.query({
    query: `SELECT hex(condition_id) FROM (SELECT condition_id FROM market_traders GROUP BY condition_id)
      WHERE NOT dictHas('market_dictionary', tuple(reinterpretAsUInt256(condition_id))) LIMIT 1`,
    format: 'JSONCompactEachRow',
  });
  return (await result.text()) !== '';
}

async function refuseTakenPort(port: number): Promise<void> {
  if (port === 0) return;
  if (await canListen(port)) return;
  throw new PortTakenError(
    `port ${port} is taken: stop the program that uses it, or choose another with --port N (0 = a free port)`,
  );
}

function canListen(port: number): Promise<boolean> {
  const server = createServer();
  return new Promise((done) => {
    server.once('error', () => done(false));
    server.listen(port, '127.0.0.1', () => server.close(() => done(true)));
  });
}

function freePort(): Promise<number> {
  const server = createServer();
  return new Promise((done, failed) => {
    server.once('error', failed);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      const port = typeof address === 'object' && address !== null ? address.port : 0;
      server.close(() => done(port));
    });
  });
}
