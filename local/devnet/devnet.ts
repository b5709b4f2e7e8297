/**
 * Opens a devnet in a directory: deploys a new one and writes its history, or continues an existing one. `devnet.json`
 * records the parameters of the chain, journal.ts its blocks. If the process is killed while it writes the history, the
 * next start writes it again from the same parameters, with the same result.
 */
import { once } from 'node:events';
import { existsSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Hex } from 'viem';
import { z } from 'zod';
import { readJson } from '../lock.ts';
import { type Chain, reload, startChain, stateOf } from './chain.ts';
import { deploy } from './contracts.ts';
import { startGamma } from './gamma.ts';
import { blocksMax, writeHistory } from './history.ts';
import { Journal, type Replayer } from './journal.ts';
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
  /** Seconds between blocks after the history; 0 mines none. */
  readonly blockTimeSeconds: number;
  /** 0 disables live trading. */
  readonly matchesPerSecond: number;
  /** Old blocks are kept if omitted. */
  readonly dropping?: Dropping | undefined;
  /** Ends the trading; the chain continues with empty blocks. */
  readonly rest?: AbortSignal;
  /** Unix milliseconds. */
  readonly now: () => number;
  readonly report: (line: Readonly<Record<string, unknown>>) => void;
};

type Dropping = {
  /** How many of the newest blocks anvil keeps in memory. Mining waits while half of them are not in LEDGER. */
  readonly keepBlocks: number;
  /** The newest block known to be in LEDGER, or 0. Blocks up to it may be dropped. */
  readonly stored: () => number;
  /** See journal.ts. */
  readonly segmentBlocks?: number;
};

export type Devnet = {
  readonly chain: Chain;
  readonly world: World;
  readonly gammaUrl: string;
  /** Resolves with the reason when the devnet cannot continue; `renew` means that it should be closed and opened again. */
  readonly ended: Promise<string>;
  /** Resolves when every mined block is on the disk. */
  record(): Promise<void>;
  close(): Promise<void>;
};

/** The parameters from which a directory's chain was made. */
const Origin = z.object({
  seed: z.number(),
  traders: z.number(),
  /** Unix seconds. */
  genesisTime: z.number(),
  historyEnd: z.number(),
  historyMatches: z.number(),
  /** Matches per second at its end. */
  historyRate: z.number(),
  /** The last block of the history, once it is written. */
  historyBlock: z.number().optional(),
});
type Origin = z.infer<typeof Origin>;

const DAY_SECONDS = 86_400;
const PROGRESS_STEPS = 40;
/** The rate at which a history ends if no live trading follows. */
const RESTING_RATE = 1;
const RECORD_AGAIN_MS = 1_000;
const STORED_POLL_MS = 100;
/** anvil never drops headers, which take 24 MB after this many. Then it is restarted without them. */
const RENEW_BLOCKS = 10_000;
/** How long a failed call waits for anvil's exit, which would explain it. */
const EXIT_NEWS_MS = 500;

/** Starts everything and reports `ready`. The directory must exist. */
export async function openDevnet(options: DevnetOptions): Promise<Devnet> {
  const origin = readOrigin(options);
  const { chain, journal, hasHistory, made } = await openChain(origin, options);
  const world = made ?? (await recallWorld(chain.rpc, origin));
  const { seed } = origin;
  const gamma = await startGamma({ world, seed, port: options.gammaPort });
  const stopping = new AbortController();
  const recorder = recorderOf({ chain, journal, hasHistory }, options, stopping.signal);
  await recorder.record();
  const live = startLive(chain, world, recorder, options, stopping.signal);
  options.report({
    event: 'ready',
    rpc_url: chain.url,
    ws_url: chain.webSocketUrl,
    gamma_url: gamma.url,
  });
  const renew = recorder.old.then(() => 'renew');
  const died = chain.exited.then((code) => `anvil ended with exit code ${code}`);
  return {
    chain,
    world,
    gammaUrl: gamma.url,
    ended: Promise.race([died, live, renew]),
    record: recorder.settle,
    async close() {
      stopping.abort();
      await live;
      // Pending transactions would be lost with the pool.
      const isMining = options.blockTimeSeconds > 0 && recorder.fault === undefined;
      if (isMining) await chain.rpc.call('evm_mine').catch(() => {});
      await journal.record(chain.rpc).catch(() => {});
      await Promise.all([chain.stop(), gamma.close(), journal.close()]);
    },
  };
}

type RecordedChain = {
  readonly chain: Chain;
  readonly journal: Journal;
  /** Whether the blocks of the history are in anvil's memory. */
  readonly hasHistory: boolean;
  /** The world of a history that was written just now. */
  readonly made: World | undefined;
};

/** Starts a chain with its whole history. */
async function openChain(origin: Origin, options: DevnetOptions): Promise<RecordedChain> {
  const { directory, rpcPort: port, dropping } = options;
  const { genesisTime } = origin;
  const replayer: Replayer = async (loadState, dumpState, use) => {
    const at = { stateFile: join(directory, 'replay.json'), port: 0, genesisTime };
    const replaying = await startChain({ ...at, loadState, dumpState, keepBlocks: 1 });
    try {
      await use(replaying.rpc);
    } finally {
      await replaying.stop();
    }
  };
  const journal = new Journal(
    join(directory, 'chain'),
    dropping === undefined ? undefined : replayer,
    dropping?.segmentBlocks,
  );
  const isNew = origin.historyBlock === undefined;
  if (isNew) journal.clear();
  const hasHistory = isNew || journal.base === origin.historyBlock;
  const historyBlocks = hasHistory ? (origin.historyBlock ?? blocksMax(origin.historyMatches)) : 0;
  let made: World | undefined;
  const chain = await startChain({
    ...{ stateFile: join(directory, 'chain.json'), port, genesisTime, loadState: journal.state },
    prepare: async (rpc) => {
      if (isNew) {
        made = await makeHistory(rpc, origin, options);
        const historyBlock = await headOf(rpc);
        await journal.beginWith(await stateOf(rpc), historyBlock);
        writeOrigin(options, { ...origin, historyBlock });
      } else await journal.replay(rpc);
      // anvil's clock starts at the genesis.
      const { timestamp } = await rpc.call<{ timestamp: Hex }>(
        ...(['eth_getBlockByNumber', 'latest', false] as const),
      );
      await rpc.call(
        'evm_setTime',
        Math.max(Math.floor(options.now() / 1000), Number(timestamp) + 1),
      );
    },
    keepBlocks: dropping && historyBlocks + dropping.keepBlocks,
  });
  return { chain, journal, hasHistory, made };
}

type Recorder = {
  /** Why no block is mined: the newest ones are not on disk or not in LEDGER yet. */
  readonly fault: string | undefined;
  /** Resolves when anvil holds so much unneeded data in memory that it should be restarted. */
  readonly old: Promise<void>;
  /** Resolves when the newest blocks are on disk, or the devnet stops. */
  record(): Promise<void>;
  /** Resolves when the next block may be mined, or the devnet stops. */
  settle(): Promise<void>;
};

function recorderOf(
  { chain, journal, hasHistory }: Omit<RecordedChain, 'made'>,
  { report, dropping }: DevnetOptions,
  signal: AbortSignal,
): Recorder {
  const { rpc, exited } = chain;
  let isDead = false;
  void exited.then(() => {
    isDead = true;
  });
  let fault: string | undefined;
  const { head: first, base } = journal;
  const old = Promise.withResolvers<void>();
  const hold = async (reason: string, pauseMs: number) => {
    if (fault === undefined && !isDead) report({ event: 'not-mining', reason });
    fault = reason;
    await sleep(pauseMs, undefined, { signal }).catch(() => undefined);
  };
  const record = async () => {
    while (!signal.aborted && !isDead) {
      try {
        return await journal.record(rpc);
      } catch (error) {
        await hold(error instanceof Error ? error.message : String(error), RECORD_AGAIN_MS);
      }
    }
  };
  const follow = async ({ keepBlocks, stored }: Dropping) => {
    journal.fold(stored());
    const isOld = journal.head - first >= RENEW_BLOCKS || (hasHistory && journal.base > base);
    if (isOld) old.resolve();
    const isAhead = () => journal.head - Math.max(stored(), base) >= keepBlocks / 2;
    while (isAhead() && !signal.aborted && !isDead) {
      await hold(`waiting for ingest: LEDGER ends with block ${stored()}`, STORED_POLL_MS);
    }
  };
  return {
    record,
    old: old.promise,
    get fault() {
      return fault;
    },
    async settle() {
      await record();
      if (dropping !== undefined) await follow(dropping);
      if (fault !== undefined) report({ event: 'mining' });
      fault = undefined;
    },
  };
}

async function makeHistory(rpc: Rpc, origin: Origin, options: DevnetOptions): Promise<World> {
  await deploy(rpc, origin.genesisTime + 1);
  await reload(rpc);
  let step = 0;
  const world = new World(origin, 'history');
  await writeHistory(rpc, world, {
    seed: origin.seed,
    startTime: origin.genesisTime + 1,
    endTime: origin.historyEnd,
    matches: origin.historyMatches,
    matchesPerSecond: origin.historyRate,
    onProgress(done) {
      const total = origin.historyMatches;
      if (done * PROGRESS_STEPS < step * total) return;
      step = Math.floor((done * PROGRESS_STEPS) / total) + 1;
      options.report({ event: 'progress', done, total });
    },
  });
  return world;
}

/** Never rejects: resolves with the reason for the end. */
async function startLive(
  chain: Chain,
  world: World,
  recorder: Recorder,
  options: DevnetOptions,
  signal: AbortSignal,
): Promise<string> {
  try {
    await recorder.settle();
    if (options.blockTimeSeconds > 0) {
      await chain.mineEvery(options.blockTimeSeconds, recorder.settle);
    }
    if (options.matchesPerSecond > 0) {
      await tradeLive(chain.rpc, world, {
        seed: options.seed,
        matchesPerSecond: options.matchesPerSecond,
        signal: options.rest === undefined ? signal : AbortSignal.any([signal, options.rest]),
        isHeld: () => recorder.fault !== undefined,
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
    historyRate: options.matchesPerSecond || RESTING_RATE,
  };
  writeOrigin(options, origin);
  return origin;
}

function writeOrigin({ directory }: DevnetOptions, origin: Origin): void {
  const file = join(directory, 'devnet.json');
  writeFileSync(`${file}.new`, `${JSON.stringify(origin)}\n`);
  renameSync(`${file}.new`, file);
}
