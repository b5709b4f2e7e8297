/**
 * Three real nats-servers on loopback that form a cluster with JetStream. The routes between them go through gates, so
 * that a server can be cut off as if by a broken switch: its process lives and its clients reach it, but the other
 * servers do not.
 */
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import {
  answered,
  connectNats,
  type Nats,
  NatsUnavailableError,
} from '../../infra/nats/connection.ts';
import { ensureStream } from '../../infra/nats/streams.ts';
import { retry } from '../../infra/retry.ts';
import { type NatsServer, startNatsServer } from '../../local/nats-server.ts';
import { freePort } from '../../local/ports.ts';
import { Front } from './front.ts';

export const NODES = ['n1', 'n2', 'n3'] as const;
export type NodeName = (typeof NODES)[number];

const POLL_MS = 50;
/** A whole cluster takes about 6 s, on a busy machine several times that. */
const WHOLE_MS_MAX = 40_000;

export class Cluster {
  readonly #directory: string;
  readonly #binary: string;
  readonly #servers = new Map<NodeName, NatsServer>();
  readonly #clientPorts = new Map<NodeName, number>();
  readonly #routePorts = new Map<NodeName, number>();
  /** The route from each server to each other one. */
  readonly #routes: { readonly from: NodeName; readonly to: NodeName; readonly gate: Front }[] = [];

  private constructor(directory: string, binary: string) {
    this.#directory = directory;
    this.#binary = binary;
  }

  /** Resolves when streams with three copies can be created. `binary` comes from findClusterServer. */
  static async start(directory: string, binary: string): Promise<Cluster> {
    const cluster = await Cluster.prepare(directory, binary);
    for (;;) {
      await Promise.all(NODES.map((node) => cluster.restart(node)));
      if (await cluster.#isWhole()) return cluster;
      console.log('the cluster began with two of its servers: starting again');
      await cluster.#stopServers();
      for (const node of NODES) rmSync(join(directory, node), { recursive: true });
    }
  }

  /** Starts no server; `restart` starts each. */
  static async prepare(directory: string, binary: string): Promise<Cluster> {
    const cluster = new Cluster(directory, binary);
    for (const node of NODES) {
      cluster.#clientPorts.set(node, await freePort());
      cluster.#routePorts.set(node, await freePort());
    }
    for (const from of NODES) {
      for (const to of NODES) {
        if (from === to) continue;
        const gate = await Front.listen(`nats://127.0.0.1:${cluster.#routePorts.get(to)}`);
        cluster.#routes.push({ from, to, gate });
      }
    }
    return cluster;
  }

  /** The URLs of all servers, for a client. */
  get url(): string {
    return NODES.map((node) => this.urlOf(node)).join(',');
  }

  urlOf(node: NodeName): string {
    return `nats://127.0.0.1:${this.#clientPorts.get(node)}`;
  }

  async restart(node: NodeName): Promise<void> {
    const routes = this.#routes
      .filter(({ from }) => from === node)
      .map(({ gate }) => `"nats://127.0.0.1:${gate.port}"`);
    const server = await startNatsServer({
      binary: this.#binary,
      dataDir: join(this.#directory, node),
      port: this.#clientPorts.get(node) ?? 0,
      name: node,
      // Advertises port 1 instead of the real one, so that servers connect only through the gates.
      configExtra: `cluster {
  name: "test"
  listen: "127.0.0.1:${this.#routePorts.get(node)}"
  advertise: "127.0.0.1:1"
  routes: [${routes.join(', ')}]
}`,
    });
    this.#servers.set(node, server);
  }

  async kill(node: NodeName): Promise<void> {
    const child = this.#servers.get(node)?.child;
    if (child === undefined) return;
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
  }

  cutOff(node: NodeName): void {
    for (const { from, to, gate } of this.#routes) if ([from, to].includes(node)) gate.down();
  }

  heal(): void {
    for (const { gate } of this.#routes) gate.up();
  }

  /**
   * In about one of fifty first starts, nats-server 2.10 elects a leader that has not yet discovered JetStream on the
   * third server and therefore never counts it.
   */
  async #isWhole(): Promise<boolean> {
    const nats = await connectNats({ url: this.url, name: 'whole', isPatient: false });
    const stream = { name: 'whole', subjects: ['whole'], replicas: NODES.length };
    try {
      await retry(() => ensureStream(nats, stream), {
        isRetryable: (error) => error instanceof NatsUnavailableError,
        giveUpAfterMs: WHOLE_MS_MAX,
      });
      await nats.jsm.streams.delete(stream.name);
      return true;
    } catch (error) {
      if (error instanceof NatsUnavailableError) return false;
      throw error;
    } finally {
      await nats.close();
    }
  }

  /** The state of these streams at each server, to find out why a test waits forever. */
  async report(streams: readonly string[]): Promise<string> {
    const lines = NODES.map(async (node) => {
      try {
        const nats = await connectNats({ url: this.urlOf(node), name: 'report', isPatient: false });
        const infos = await Promise.allSettled(streams.map((one) => nats.jsm.streams.info(one)));
        await nats.close();
        return infos.map((info, at) => {
          if (info.status === 'rejected') return `${node} ${streams[at]}: ${info.reason}`;
          const { cluster, state } = info.value;
          return `${node} ${streams[at]}: ${JSON.stringify({ cluster, last: state.last_seq })}`;
        });
      } catch (error) {
        return [`${node}: ${error}`];
      }
    });
    return (await Promise.all(lines)).flat().join('\n');
  }

  async #stopServers(): Promise<void> {
    await Promise.all([...this.#servers.values()].map((server) => server.stop()));
  }

  async stop(): Promise<void> {
    await this.#stopServers();
    for (const { gate } of this.#routes) gate.close();
  }
}

/** Waits for a leader of the stream and returns its node. */
export async function leaderOf(nats: Nats, stream: string): Promise<NodeName> {
  for (;;) {
    const leader = (await clusterInfo(nats, stream))?.leader;
    if (leader !== undefined && leader !== '') return leader as NodeName;
    await delay(POLL_MS);
  }
}

/** Waits until every replica of a stream has all of it. */
export async function replicated(nats: Nats, stream: string): Promise<void> {
  for (;;) {
    const info = await clusterInfo(nats, stream);
    const peers = info?.replicas ?? [];
    const current = peers.filter((peer) => peer.current && !peer.offline);
    if (current.length === NODES.length - 1) return;
    await delay(POLL_MS);
  }
}

async function clusterInfo(nats: Nats, stream: string) {
  try {
    return (await answered(nats, stream, () => nats.jsm.streams.info(stream))).cluster;
  } catch (error) {
    if (error instanceof Error && error.name === 'NatsUnavailableError') return undefined;
    throw error;
  }
}
