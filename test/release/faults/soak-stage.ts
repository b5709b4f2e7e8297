/**
 * The stage of a soak: a devnet, gates in front of its two ports, and the service, whose data is on a small separate
 * disk if one can be mounted. Service and devnet can be restarted on the same ports.
 */
import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { connectNats, type Nats } from '../../../infra/nats/connection.ts';
import { mayMount, smallDisk } from '../../support/damage.ts';
import {
  type Devnet,
  type JsonLine,
  type Service,
  startDevnet,
  startService,
} from '../../support/service.ts';
import { type Gate, startGate } from './gate.ts';
import { type RpcProxy, startRpcProxy } from './rpc-proxy.ts';
import { childPid } from './soak-memory.ts';

const HISTORY = { matches: 600, days: 2 };
/** Half an hour at 50 matches a second needs less than half of this. */
const DISK_MB = 2_048;
/** No child outlives its supervisor for longer than this. */
const ORPHANS_MS_MAX = 10_000;
const POLL_MS = 100;

export type StageOptions = {
  readonly directory: string;
  readonly seed: number;
  readonly matchesPerSecond: number;
  /** Environment of the service. */
  readonly env: Readonly<Record<string, string>>;
  readonly port: number;
};

export class SoakStage {
  readonly disk: ReturnType<typeof smallDisk> | undefined;
  readonly differences: string[] = [];
  readonly #options: StageOptions;
  /** Output lines of supervisors that were killed or stopped. */
  readonly #earlier: JsonLine[] = [];
  #parts!: { rpc: RpcProxy; gamma: Gate; devnet: Devnet; service: Service; nats: Nats };

  private constructor(options: StageOptions) {
    this.#options = options;
    this.disk = mayMount ? smallDisk(this.#diskPath, DISK_MB) : undefined;
  }

  static async open(options: StageOptions): Promise<SoakStage> {
    const stage = new SoakStage(options);
    const devnet = await stage.#startDevnet([]);
    const rpc = await startRpcProxy(devnet.rpcUrl, `${options.seed}`);
    const gamma = await startGate(devnet.env.GAMMA_URL);
    const service = await stage.#startService(rpc.url, gamma.url);
    const nats = await stage.#connect(service);
    stage.#parts = { rpc, gamma, devnet, service, nats };
    return stage;
  }

  get #diskPath(): string {
    return join(this.#options.directory, 'disk');
  }

  /** The service's data directory. */
  get data(): string {
    return join(this.#diskPath, 'service');
  }

  get rpc(): RpcProxy {
    return this.#parts.rpc;
  }

  get gamma(): Gate {
    return this.#parts.gamma;
  }

  get devnet(): Devnet {
    return this.#parts.devnet;
  }

  get service(): Service {
    return this.#parts.service;
  }

  get nats(): Nats {
    return this.#parts.nats;
  }

  /** The output lines of all supervisors, the current one last. */
  get lines(): readonly JsonLine[] {
    return [...this.#earlier, ...this.service.up.lines];
  }

  get anvilPid(): number | undefined {
    const shell = childPid(this.devnet.process.pid, 'sh');
    return shell === undefined ? undefined : childPid(shell, 'anvil');
  }

  /** Pid of the process that does a part's work. */
  pidOf(name: string): number | undefined {
    if (name === 'supervisor') return this.service.up.pid;
    if (name === 'anvil') return this.anvilPid;
    const pid = this.service.pidOf(name);
    return name === 'nats' ? childPid(pid, 'nats-server') : pid;
  }

  /** Kills the supervisor with −9. Its children end by themselves, and the next supervisor starts at once. */
  async killSupervisor(): Promise<void> {
    const names = ['nats', 'clickhouse', 'projector', 'api', 'ingest'];
    const pids = names.flatMap((name) => this.pidOf(name) ?? []);
    this.service.up.kill('SIGKILL');
    const until = performance.now() + ORPHANS_MS_MAX;
    while (pids.some(isAlive) && performance.now() < until) await delay(POLL_MS);
    const left = pids.filter(isAlive);
    if (left.length > 0) {
      this.differences.push(`${left.length} processes outlive the supervisor: ${left.join()}`);
    }
    await this.#restart();
  }

  /** Stops the service, deletes ClickHouse's data, and starts it again; LEDGER and METADATA refill it. */
  async rebuildClickHouse(): Promise<void> {
    await this.service.up.stop();
    rmSync(join(this.data, 'clickhouse'), { recursive: true });
    await this.#restart();
  }

  /** Kills the chain node with −9. If the devnet ends with it, restarts the devnet on the same ports. */
  async killAnvil(): Promise<void> {
    const pid = this.anvilPid;
    if (pid === undefined) throw new Error('no process of anvil');
    process.kill(pid, 'SIGKILL');
    const { process: running, env } = this.devnet;
    const isBack = async () => {
      while (this.anvilPid === pid || this.anvilPid === undefined) await delay(POLL_MS);
    };
    const code = await Promise.race([running.exit, isBack()]);
    if (code === undefined) return;
    const port = (url: string) => new URL(url).port;
    const ports = ['--rpc-port', port(env.RPC_URL), '--gamma-port', port(env.GAMMA_URL)];
    this.#parts.devnet = await this.#startDevnet(ports);
  }

  async close(): Promise<number> {
    await this.nats.close();
    const code = await this.service.up.stop();
    await Promise.all([this.rpc.close(), this.gamma.close(), this.devnet.process.stop()]);
    return code;
  }

  /** Unmounts the disk, with the logs on it. */
  remove(): void {
    this.disk?.remove();
  }

  async #restart(): Promise<void> {
    this.#earlier.push(...this.service.up.lines);
    await this.nats.close();
    const service = await this.#startService(this.rpc.url, this.gamma.url);
    const nats = await this.#connect(service);
    Object.assign(this.#parts, { service, nats });
  }

  #startDevnet(ports: readonly string[]): Promise<Devnet> {
    return startDevnet(join(this.#options.directory, 'devnet'), {
      ...HISTORY,
      rate: this.#options.matchesPerSecond,
      args: ports,
    });
  }

  #startService(rpcUrl: string, gammaUrl: string): Promise<Service> {
    return startService(this.data, {
      args: ['--port', String(this.#options.port)],
      env: { CHAIN: 'devnet', RPC_URL: rpcUrl, GAMMA_URL: gammaUrl, ...this.#options.env },
    });
  }

  #connect(service: Service): Promise<Nats> {
    return connectNats({ ...service.nats, name: 'soak' });
  }
}

function isAlive(pid: number): boolean {
  return existsSync(`/proc/${pid}`);
}
