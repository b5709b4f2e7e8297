/**
 * The stage of a fault run: devnet, nats-server, and ingest behind faulty proxies. Each is a process that is restarted
 * when it dies, as under `npm start`. Uses only the processes' interfaces: modules, environment variables, messages.
 */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { socketOf } from '../../../local/devnet/chain.ts';
import { Rpc } from '../../../local/devnet/rpc.ts';
import { startNatsServer } from '../../../local/nats-server.ts';
import { freePort } from '../../../local/ports.ts';
import { Child } from '../../../local/supervise.ts';
import { Front } from '../../support/front.ts';
import { ended, start, until } from '../../support/service.ts';
import { startRpcProxy } from './rpc-proxy.ts';

const STOP_MS = 10_000;

type StageOptions = {
  readonly directory: string;
  readonly seed: number;
  readonly endpoints: number;
  readonly devnet: readonly string[];
};

/** An unexpected end of a process, with its name and last words on stderr. */
type Restart = { readonly name: string; readonly reason: string };

export type Stage = Awaited<ReturnType<typeof openStage>>;

/** Everything but ingest. */
export async function openStage({ directory, seed, endpoints, ...options }: StageOptions) {
  const logs = join(directory, 'logs');
  mkdirSync(logs, { recursive: true });
  const restarts: Restart[] = [];
  const pids = new Map<string, number>();
  const supervised = (name: string, module: string, args: readonly string[], env = {}) =>
    new Child({
      ...{ name, module, args, logs, env: { ...process.env, ...env } },
      onMessage: () => undefined,
      onRestart: (reason) => restarts.push({ name, reason }),
      onSpawn: (pid) => pids.set(name, pid),
    });
  // Fixed ports, because a restarted devnet is the same node.
  const ports = ['--rpc-port', `${await freePort()}`, '--gamma-port', `${await freePort()}`];
  const devnetOf = (args: readonly string[]) => {
    const all = ['--data', join(directory, 'devnet'), ...ports, ...args];
    return supervised('devnet', 'local/devnet/main.ts', all);
  };
  const dataDir = join(directory, 'nats');
  let devnet = devnetOf(options.devnet);
  const [ready, server] = await Promise.all([devnet.start('ready'), startNatsServer({ dataDir })]);
  let nats = server;
  const rpcUrl = String(ready.rpc_url);
  const proxies = await Promise.all(
    Array.from({ length: endpoints }, (_, i) => startRpcProxy(rpcUrl, `${seed}:rpc${i}`)),
  );
  const gamma = await Front.listen(String(ready.gamma_url));
  /** Environment for an ingest on this stage. */
  const env = {
    CHAIN: 'devnet',
    NATS_URL: nats.url,
    RPC_URL: proxies.map(({ url }) => url).join(','),
    GAMMA_URL: gamma.url,
  };
  let ingest: Child | undefined;
  let ingestEnv: NodeJS.ProcessEnv = env;
  const signal = (name: string, sent: NodeJS.Signals) => {
    try {
      process.kill(pids.get(name) ?? Number.NaN, sent);
    } catch {
      // It is being restarted.
    }
  };

  return {
    ...{ env, gamma, proxies, restarts, rpcUrl, natsUrl: nats.url },
    /** All methods of the devnet's node. */
    rpc: new Rpc(socketOf(join(directory, 'devnet', 'chain.json'))),

    /** Starts ingest and keeps it running; resolves after it has caught up for the first time. */
    async startIngest(extra: Readonly<Record<string, string>> = {}): Promise<void> {
      ingestEnv = { ...env, ...extra };
      ingest = supervised('ingest', 'ingest/main.ts', [], ingestEnv);
      await ingest.start('caught_up');
    },

    killIngest: () => signal('ingest', 'SIGKILL'),

    /** Runs a second ingest next to the first until one of them encounters what the other stored, and ends. */
    async rivalIngest(): Promise<void> {
      const known = restarts.length;
      const isFenced = ({ name, reason }: Restart) =>
        name === 'ingest' && reason.includes('another ingest');
      const rival = start('ingest/main.ts', [], ingestEnv);
      await Promise.race([
        rival.exit,
        until(async () => restarts.slice(known).some(isFenced) || undefined),
      ]);
      rival.kill('SIGKILL');
      await rival.exit;
    },

    /** Restarts the devnet on the same chain, so that its traders read their nonces again. */
    restartTraders: () => signal('devnet', 'SIGTERM'),

    /**
     * Runs `change` while anvil gets no other requests, which are held: anvil panics on a request for a receipt of a
     * block that is being removed, and traders would lose track of their nonces.
     */
    async whileNobodyAsks(change: () => Promise<void>): Promise<void> {
      const release = proxies.map((proxy) => proxy.hold());
      signal('devnet', 'SIGSTOP');
      try {
        await change();
      } finally {
        signal('devnet', 'SIGCONT');
        for (const resolve of release) resolve();
      }
    },

    /** Kills nats-server with −9; `reviveNats` starts it again with the same port and data. */
    killNats: () => ended(nats.child, 'SIGKILL'),

    async reviveNats(): Promise<void> {
      nats = await startNatsServer({ dataDir, port: nats.port });
    },

    /** Restarts the same chain on the same ports, mining only empty blocks. */
    async freezeChain(): Promise<void> {
      await devnet.stop(STOP_MS);
      devnet = devnetOf(['--no-live']);
      await devnet.start('ready');
    },

    async close(): Promise<void> {
      await ingest?.stop(STOP_MS);
      await devnet.stop(STOP_MS);
      gamma.close();
      await Promise.all(proxies.map((one) => one.close()));
      await nats.stop();
    },
  };
}
