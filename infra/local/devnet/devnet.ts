/**
 * Opens a devnet in a directory: deploys a new one and writes its history, or continues an existing one.
 * `devnet.json` records what the chain was made from. A chain that is shorter than its history, because it was
 * killed meanwhile, is deleted and made again from the same record, with the same result.
 */
import { once } from 'node:events';
import { existsSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Hex } from 'viem';
import { z } from 'zod';
import { readJson } from '../lock.ts';
import {
  type Chain,
  keepStateFile,
  removeStateFile,
  restoreStateFile,
  startChain,
  waitForPredecessor,
} from './chain.ts';
import { deploy } from './contracts.ts';
import { startGamma } from './gamma.ts';
import { writeHistory } from './history.ts';
import { tradeLive } from './live.ts';
import type { Rpc } from './rpc.ts';
import { recallWorld, World } from './world.ts';

type DevnetOptions = {
  readonly directory: string;
  /** 0: any free port. */
  readonly rpcPort: number;
  /** 0: any free port. */
  readonly gammaPort: number;
  readonly seed: number;
  readonly traders: number;
  readonly historyDays: number;
  readonly historyMatches: number;
  /** Seconds between blocks after the history; 0: no blocks. */
  readonly blockTimeSeconds: number;
  /** 0: no live trading. */
  readonly matchesPerSecond: number;
  readonly stateIntervalSeconds?: number;
  /** Ends the trading; the chain continues with empty blocks. */
  readonly rest?: AbortSignal;
  /** Unix milliseconds. */
  readonly now: () => number;
  readonly report: (line: Readonly<Record<string, unknown>>) => void;
};

export type Devnet = {
  readonly chain: Chain;
  readonly world: World;
  readonly gammaUrl: string;
  /** Resolves with the reason when the devnet cannot continue. */
  readonly ended: Promise<string>;
  close(): Promise<void>;
};

/** What the chain in a directory was made from. */
const Origin = z.object({
  seed: z.number(),
  traders: z.number(),
  /** Unix seconds. */
  genesisTime: z.number(),
  historyEnd: z.number(),
  historyMatches: z.number(),
  /** The last block of the history, once it is written. */
  historyBlock: z.number().optional(),
});
type Origin = z.infer<typeof Origin>;

const DAY_SECONDS = 86_400;
const PROGRESS_STEPS = 40;
/** The copy is for a machine that dies while anvil writes. It takes as much disk as the chain. */
const KEEP_INTERVAL_MS = 300_000;
/** How long a failed call waits for anvil's exit, which would explain it. */
const EXIT_NEWS_MS = 500;

/** Starts everything and reports `ready`. The directory must exist. */
export async function openDevnet(options: DevnetOptions): Promise<Devnet> {
  const origin = readOrigin(options);
  const chain = await openChain(origin, options);
  const world = await recallWorld(chain.rpc, origin);
  const { seed } = origin;
  const gamma = await startGamma({ world, seed, port: options.gammaPort });
  const stopping = new AbortController();
  const live = startLive(chain, world, options, stopping.signal);
  const keeping = setInterval(
    () => void keepStateFile(stateFileOf(options)).catch(() => {}),
    KEEP_INTERVAL_MS,
  );
  options.report({
    event: 'ready',
    rpc_url: chain.url,
    ws_url: chain.webSocketUrl,
    gamma_url: gamma.url,
  });
  const died = chain.exited.then((code) => `anvil ended with exit code ${code}`);
  return {
    chain,
    world,
    gammaUrl: gamma.url,
    ended: Promise.race([died, live]),
    async close() {
      stopping.abort();
      clearInterval(keeping);
      await live;
      // Pending transactions would be lost with the pool.
      if (options.blockTimeSeconds > 0) await chain.rpc.call('evm_mine').catch(() => {});
      await Promise.all([chain.stop(), gamma.close()]);
    },
  };
}

/** Starts a chain with its whole history. */
async function openChain(origin: Origin, options: DevnetOptions): Promise<Chain> {
  const stateFile = stateFileOf(options);
  const start = () =>
    startChain({
      stateFile,
      port: options.rpcPort,
      genesisTime: origin.genesisTime,
      stateIntervalSeconds: options.stateIntervalSeconds,
    });
  await waitForPredecessor(stateFile);
  await restoreStateFile(stateFile);
  let chain = await start();
  const head = await headOf(chain.rpc);
  if (origin.historyBlock !== undefined && head >= origin.historyBlock) return chain;
  if (head > 0) {
    await chain.stop();
    removeStateFile(stateFile);
    chain = await start();
  }
  await makeHistory(chain.rpc, origin, options);
  writeOrigin(options, { ...origin, historyBlock: await headOf(chain.rpc) });
  return chain;
}

async function makeHistory(rpc: Rpc, origin: Origin, options: DevnetOptions): Promise<void> {
  await deploy(rpc, origin.genesisTime + 1);
  let step = 0;
  await writeHistory(rpc, new World(origin, 'history'), {
    seed: origin.seed,
    startTime: origin.genesisTime + 1,
    endTime: origin.historyEnd,
    matches: origin.historyMatches,
    onProgress(done) {
      const total = origin.historyMatches;
      if (done * PROGRESS_STEPS < step * total) return;
      step = Math.floor((done * PROGRESS_STEPS) / total) + 1;
      options.report({ event: 'progress', done, total });
    },
  });
}

/** Never rejects: resolves with the reason for the end. */
async function startLive(
  chain: Chain,
  world: World,
  options: DevnetOptions,
  signal: AbortSignal,
): Promise<string> {
  try {
    if (options.blockTimeSeconds > 0) await chain.mineEvery(options.blockTimeSeconds);
    if (options.matchesPerSecond > 0) {
      await tradeLive(chain.rpc, world, {
        seed: options.seed,
        matchesPerSecond: options.matchesPerSecond,
        signal: options.rest === undefined ? signal : AbortSignal.any([signal, options.rest]),
        onRevert: (hash) => options.report({ event: 'unexpected-revert', hash }),
      });
    }
    if (!signal.aborted) await once(signal, 'abort');
    return 'stopped';
  } catch (error) {
    const code = await Promise.race([chain.exited, sleep(EXIT_NEWS_MS)]);
    if (code !== undefined) return `anvil ended with exit code ${code}`;
    return `live trading failed: ${error instanceof Error ? error.message : String(error)}`;
  }
}

async function headOf(rpc: Rpc): Promise<number> {
  return Number(await rpc.call<Hex>('eth_blockNumber'));
}

function stateFileOf({ directory }: DevnetOptions): string {
  return join(directory, 'chain.json');
}

/** Reads the record of the directory's chain, or writes a new one. */
function readOrigin(options: DevnetOptions): Origin {
  const file = join(options.directory, 'devnet.json');
  if (existsSync(file)) {
    return readJson(file, Origin, 'restore it, or delete the directory for a new chain');
  }
  const historyEnd = Math.floor(options.now() / 1000);
  const origin: Origin = {
    seed: options.seed,
    traders: options.traders,
    genesisTime: historyEnd - Math.round(options.historyDays * DAY_SECONDS),
    historyEnd,
    historyMatches: options.historyMatches,
  };
  writeOrigin(options, origin);
  return origin;
}

function writeOrigin({ directory }: DevnetOptions, origin: Origin): void {
  const file = join(directory, 'devnet.json');
  writeFileSync(`${file}.new`, `${JSON.stringify(origin)}\n`);
  renameSync(`${file}.new`, file);
}
