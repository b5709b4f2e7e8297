/**
 * The stage of a fault run: devnet, nats-server, and ingest behind faulty proxies. Each is a process that is restarted
 * when it dies, as under `npm start`. Uses only the processes' interfaces: modules, environment variables, messages.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { socketOf } from '../../../infra/local/devnet/chain.ts';
import { Rpc } from '../../../infra/local/devnet/rpc.ts';
import { type NatsServer, startNatsServer } from '../../../infra/local/nats-server.ts';
import { freePort } from '../../../infra/local/ports.ts';
import { Child } from '../../../infra/local/supervise.ts';
import { until } from '../../support/service.ts';
import { type Gate, startGate } from './gate.ts';
import { type RpcProxy, startRpcProxy } from './rpc-proxy.ts';

const STOP_MS = 10_000;
const MEMORY_SAMPLE_MS = 500;

export type StageOptions = {
  readonly directory: string;
  readonly seed: string;
  readonly endpoints: number;
  readonly devnet: readonly string[];
};

/** Unexpected ends of processes, with their names and last words on stderr. */
export type Restart = { readonly name: string; readonly reason: string };

export class Stage {
  readonly proxies: readonly RpcProxy[];
  readonly gamma: Gate;
  readonly rpcUrl: string;
  /** All methods of the devnet's node. */
  readonly rpc: Rpc;
  readonly restarts: Restart[];
  readonly #directory: string;
  readonly #urls: { readonly rpc: string; readonly gamma: string };
  readonly #pids: Map<string, number>;
  #devnet: Child;
  #nats: NatsServer;
  #ingest: Child | undefined;
  #ingestEnv: Readonly<Record<string, string>> = {};
  #memoryMax = 0;
  #sampling: NodeJS.Timeout | undefined;

  private constructor(
    { directory }: StageOptions,
    parts: {
      readonly devnet: Child;
      readonly nats: NatsServer;
      readonly proxies: readonly RpcProxy[];
      readonly gamma: Gate;
      readonly urls: { readonly rpc: string; readonly gamma: string };
      readonly restarts: Restart[];
      readonly pids: Map<string, number>;
    },
  ) {
    this.#directory = directory;
    this.#devnet = parts.devnet;
    this.#nats = parts.nats;
    this.#urls = parts.urls;
    this.restarts = parts.restarts;
    this.#pids = parts.pids;
    this.proxies = parts.proxies;
    this.gamma = parts.gamma;
    this.rpcUrl = parts.urls.rpc;
    this.rpc = new Rpc(socketOf(join(directory, 'devnet', 'chain.json')));
  }

  /** Everything but ingest. */
  static async open(options: StageOptions): Promise<Stage> {
    const { directory, seed, endpoints } = options;
    mkdirSync(join(directory, 'logs'), { recursive: true });
    const restarts: Restart[] = [];
    // Fixed ports, because a restarted devnet is the same node.
    const ports = [
      '--rpc-port',
      String(await freePort()),
      '--gamma-port',
      String(await freePort()),
    ];
    const pids = new Map<string, number>();
    const devnet = devnetOf(directory, [...ports, ...options.devnet], restarts, pids);
    const [ready, nats] = await Promise.all([
      devnet.start('ready'),
      startNatsServer({ dataDir: join(directory, 'nats') }),
    ]);
    const urls = { rpc: String(ready.rpc_url), gamma: String(ready.gamma_url) };
    const proxies = await Promise.all(
      Array.from({ length: endpoints }, (_, i) => startRpcProxy(urls.rpc, `${seed}:rpc${i}`)),
    );
    const gamma = await startGate(urls.gamma);
    return new Stage(options, { devnet, nats, proxies, gamma, urls, restarts, pids });
  }

  get natsUrl(): string {
    return this.#nats.url;
  }

  /** Environment for an ingest on this stage. */
  get env(): Readonly<Record<string, string>> {
    return {
      CHAIN: 'devnet',
      NATS_URL: this.#nats.url,
      RPC_URL: this.proxies.map(({ url }) => url).join(','),
      GAMMA_URL: this.gamma.url,
    };
  }

  /**
   * Largest resident memory of any ingest process so far, in bytes; 0 if the system does not report it.
   */
  get ingestMemoryMax(): number {
    return this.#memoryMax;
  }

  /** Starts ingest and keeps it running; resolves after it has caught up for the first time. */
  async startIngest(extra: Readonly<Record<string, string>> = {}): Promise<void> {
    this.#ingestEnv = { ...this.env, ...extra };
    this.#ingest = new Child({
      name: 'ingest',
      module: 'ingest/main.ts',
      args: [],
      env: { ...process.env, ...this.#ingestEnv },
      logs: join(this.#directory, 'logs'),
      onMessage: () => undefined,
      onRestart: (reason) => this.restarts.push({ name: 'ingest', reason }),
      onSpawn: (pid) => this.#pids.set('ingest', pid),
    });
    this.#sampling = setInterval(() => this.#sampleMemory(), MEMORY_SAMPLE_MS);
    await this.#ingest.start('caught_up');
  }

  killIngest(): void {
    const pid = this.#pids.get('ingest');
    if (pid !== undefined && isAlive(pid)) process.kill(pid, 'SIGKILL');
  }

  /** Runs a second ingest next to the first until one of them encounters what the other stored, and ends. */
  async rivalIngest(): Promise<void> {
    const known = this.restarts.length;
    const isFenced = ({ name, reason }: Restart) =>
      name === 'ingest' && reason.includes('another ingest');
    const rival = startProcess('ingest/main.ts', this.#ingestEnv);
    try {
      await until(async () => {
        const isOver = rival.exitCode !== null || this.restarts.slice(known).some(isFenced);
        return isOver || undefined;
      });
    } finally {
      await ended(rival, 'SIGKILL');
    }
  }

  /** Restarts the devnet on the same chain, so that its traders read their nonces again. */
  restartTraders(): void {
    const pid = this.#pids.get('devnet');
    if (pid !== undefined && isAlive(pid)) process.kill(pid, 'SIGTERM');
  }

  /**
   * Runs `change` while anvil gets no other requests, which are held: anvil panics on a request for a receipt of a
   * block that is being removed, and traders would lose track of their nonces.
   */
  async whileNobodyAsks(change: () => Promise<void>): Promise<void> {
    const traders = this.#pids.get('devnet') ?? 0;
    const release = this.proxies.map((proxy) => proxy.hold());
    if (isAlive(traders)) process.kill(traders, 'SIGSTOP');
    try {
      await change();
    } finally {
      if (isAlive(traders)) process.kill(traders, 'SIGCONT');
      for (const resolve of release) resolve();
    }
  }

  /** Kills nats-server with −9; `reviveNats` starts it again with the same port and data. */
  async killNats(): Promise<void> {
    await ended(this.#nats.child, 'SIGKILL');
  }

  async reviveNats(): Promise<void> {
    const { port } = this.#nats;
    this.#nats = await startNatsServer({ dataDir: join(this.#directory, 'nats'), port });
  }

  /** Restarts the same chain on the same ports, mining only empty blocks. */
  async freezeChain(): Promise<void> {
    await this.#devnet.stop(STOP_MS);
    const port = (url: string) => new URL(url).port;
    const ports = ['--rpc-port', port(this.#urls.rpc), '--gamma-port', port(this.#urls.gamma)];
    this.#devnet = devnetOf(this.#directory, [...ports, '--no-live'], this.restarts, this.#pids);
    await this.#devnet.start('ready');
  }

  async close(): Promise<void> {
    clearInterval(this.#sampling);
    await this.#ingest?.stop(STOP_MS);
    await this.#devnet.stop(STOP_MS);
    await Promise.all([...this.proxies, this.gamma].map((one) => one.close()));
    await this.#nats.stop();
  }

  #sampleMemory(): void {
    const bytes = residentBytesMax(this.#pids.get('ingest') ?? 0);
    this.#memoryMax = Math.max(this.#memoryMax, bytes);
  }
}

/** A separate process that is not restarted. */
export function startProcess(module: string, env: Readonly<Record<string, string>>): ChildProcess {
  return spawn(process.execPath, [module], {
    cwd: join(import.meta.dirname, '../../..'),
    env: { ...process.env, ...env },
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
  });
}

/** Sends the signal and waits until the process is gone. */
export async function ended(running: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (running.exitCode !== null || running.signalCode !== null) return;
  const gone = new Promise<void>((resolve) => running.once('exit', () => resolve()));
  running.kill(signal);
  await gone;
}

/** The peak memory of a running process, from Linux's /proc; 0 on other systems and if it has ended. */
export function residentBytesMax(pid: number): number {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8');
    return Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0) * 1_024;
  } catch {
    return 0;
  }
}

function devnetOf(
  directory: string,
  args: readonly string[],
  restarts: Restart[],
  pids: Map<string, number>,
): Child {
  return new Child({
    name: 'devnet',
    module: 'infra/local/devnet/main.ts',
    args: ['--data', join(directory, 'devnet'), ...args],
    env: process.env,
    logs: join(directory, 'logs'),
    onMessage: () => undefined,
    onRestart: (reason) => restarts.push({ name: 'devnet', reason }),
    onSpawn: (pid) => pids.set('devnet', pid),
  });
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
