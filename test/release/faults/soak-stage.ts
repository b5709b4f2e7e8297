/**
 * The stage of a soak: a devnet, gates in front of its two ports, and the service, whose data is on a small separate
 * disk if one can be mounted. Service and devnet can be restarted on the same ports.
 */
import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { connectNats } from '../../../infra/nats/connection.ts';
import { freePort } from '../../../local/ports.ts';
import { mayMount, smallDisk } from '../../support/damage.ts';
import { Front } from '../../support/front.ts';
import { type JsonLine, startDevnet, startService } from '../../support/service.ts';
import { startRpcProxy } from './rpc-proxy.ts';
import { childPid } from './soak-memory.ts';

const HISTORY = { matches: 600, days: 2 };
/** Half an hour at 50 matches a second needs less than half of this. */
const DISK_MB = 2_048;
/** No child outlives its supervisor for longer than this. */
const ORPHANS_MS_MAX = 10_000;
const POLL_MS = 100;

type StageOptions = {
  readonly directory: string;
  readonly seed: number;
  readonly matchesPerSecond: number;
  /** Environment of the service. */
  readonly env: Readonly<Record<string, string>>;
};

export type SoakStage = Awaited<ReturnType<typeof openSoakStage>>;

export async function openSoakStage({ directory, seed, matchesPerSecond, env }: StageOptions) {
  const diskPath = join(directory, 'disk');
  /** The service's data directory. */
  const data = join(diskPath, 'service');
  const disk = mayMount ? smallDisk(diskPath, DISK_MB) : undefined;
  const [rpcPort, gammaPort, port] = [await freePort(), await freePort(), await freePort()];
  const openDevnet = () => {
    const options = { ...HISTORY, rate: matchesPerSecond, rpcPort, gammaPort };
    return startDevnet(join(directory, 'devnet'), options);
  };
  let devnet = await openDevnet();
  const rpc = await startRpcProxy(devnet.rpcUrl, `${seed}`);
  const gamma = await Front.listen(devnet.env.GAMMA_URL);
  const openService = () =>
    startService(data, {
      args: ['--port', String(port)],
      env: { CHAIN: 'devnet', RPC_URL: rpc.url, GAMMA_URL: gamma.url, ...env },
    });
  let service = await openService();
  let nats = await connectNats({ ...service.nats, name: 'soak' });
  /** Output lines of supervisors that were killed or stopped. */
  const earlier: JsonLine[] = [];
  const differences: string[] = [];

  async function restart(): Promise<void> {
    earlier.push(...service.up.lines);
    await nats.close();
    service = await openService();
    nats = await connectNats({ ...service.nats, name: 'soak' });
  }

  function anvilPid(): number | undefined {
    const shell = childPid(devnet.process.pid, 'sh');
    return shell === undefined ? undefined : childPid(shell, 'anvil');
  }

  /** Pid of the process that does a part's work. */
  function pidOf(name: string): number | undefined {
    if (name === 'supervisor') return service.up.pid;
    if (name === 'anvil') return anvilPid();
    const pid = service.pidOf(name);
    return name === 'nats' ? childPid(pid, 'nats-server') : pid;
  }

  return {
    ...{ data, disk, differences, rpc, gamma, pidOf },
    get devnet() {
      return devnet;
    },
    get service() {
      return service;
    },
    get nats() {
      return nats;
    },
    /** The output lines of all supervisors, the current one last. */
    get lines(): readonly JsonLine[] {
      return [...earlier, ...service.up.lines];
    },

    /** Kills the supervisor with −9. Its children end by themselves, and the next supervisor starts at once. */
    async killSupervisor(): Promise<void> {
      const names = ['nats', 'clickhouse', 'projector', 'api', 'ingest'];
      const pids = names.flatMap((name) => pidOf(name) ?? []);
      service.up.kill('SIGKILL');
      const until = performance.now() + ORPHANS_MS_MAX;
      while (pids.some(isAlive) && performance.now() < until) await delay(POLL_MS);
      const left = pids.filter(isAlive);
      if (left.length > 0) {
        differences.push(`${left.length} processes outlive the supervisor: ${left.join()}`);
      }
      await restart();
    },

    /** Stops the service, deletes ClickHouse's data, and starts it again; LEDGER and METADATA refill it. */
    async rebuildClickHouse(): Promise<void> {
      await service.up.stop();
      rmSync(join(data, 'clickhouse'), { recursive: true });
      await restart();
    },

    /** Kills the chain node with −9. If the devnet ends with it, restarts the devnet on the same ports. */
    async killAnvil(): Promise<void> {
      const pid = anvilPid();
      if (pid === undefined) throw new Error('no process of anvil');
      process.kill(pid, 'SIGKILL');
      const isBack = async () => {
        while (anvilPid() === pid || anvilPid() === undefined) await delay(POLL_MS);
      };
      const code = await Promise.race([devnet.process.exit, isBack()]);
      if (code !== undefined) devnet = await openDevnet();
    },

    async close(): Promise<number> {
      await nats.close();
      const code = await service.up.stop();
      gamma.close();
      await Promise.all([rpc.close(), devnet.process.stop()]);
      return code;
    },
  };
}

function isAlive(pid: number): boolean {
  return existsSync(`/proc/${pid}`);
}
