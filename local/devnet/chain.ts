/**
 * Starts anvil as the embedded chain behind its gate, and owns its lifecycle. anvil never mines by itself: history is
 * mined with explicit timestamps, later blocks by `mineEvery`. anvil holds the chain in memory; journal.ts stores it on
 * disk. `eth_call` works at the newest STATES_KEPT blocks. anvil runs under a small shell script: however this process
 * dies, the script's stdin closes and it stops anvil, so that no orphan keeps the port.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, relative, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import type { Hex } from 'viem';
import { kill, readText, runs } from '../lock.ts';
import { isPortTaken } from '../ports.ts';
import { CHAIN_ID } from './contracts.ts';
import { openGate } from './gate.ts';
import { Rpc } from './rpc.ts';

const unzip = promisify(gunzip);

type ChainOptions = {
  /** Names the socket and the file with anvil's process id. */
  readonly stateFile: string;
  /** 0: any free port. */
  readonly port: number;
  /** Unix seconds of block 0; must be the same at every start on one state file. */
  readonly genesisTime: number;
  /** The initial state. */
  readonly loadState?: string | undefined;
  /** Runs before any other client can reach anvil. */
  readonly prepare?: (rpc: Rpc) => Promise<void>;
  /** The state is written to this file on stop. */
  readonly dumpState?: string;
  /** Transactions, receipts and logs of older blocks are dropped; all are kept if omitted. */
  readonly keepBlocks?: number | undefined;
};

export type Chain = {
  /** All of anvil's methods. */
  readonly rpc: Rpc;
  /** The port for all other clients (gate.ts). */
  readonly url: string;
  readonly webSocketUrl: string;
  readonly pid: number;
  /** Resolves with anvil's exit code when it has ended for any reason. */
  readonly exited: Promise<number>;
  /**
   * Mines a block every `seconds` from now on, with the wall clock's time, but waits until `onMined` has resolved for
   * the previous one.
   */
  mineEvery(seconds: number, onMined: () => Promise<void>): Promise<void>;
  /** Ends anvil and waits for it. */
  stop(): Promise<void>;
};

/** Every state is a full copy of the accounts. Enough for balances at the newest final block. */
const STATES_KEPT = 8;
/**
 * Makes anvil's allocator return freed pages sooner: with a write every 3 s, 4,000 matches took 259 MB instead of
 * 333 MB.
 */
const ALLOCATOR = 'dirty_decay_ms:500,muzzy_decay_ms:0,narenas:2';
/** Far above any block, so that the base fee stays 0 and gas never limits what a block contains. */
const BLOCK_GAS_LIMIT = 30_000_000_000_000;
const START_MS_MAX = 60_000;
const POLL_MS = 25;
/** "Bad ports" of the Fetch standard that need no root. */
const PORTS_BLOCKED_BY_BROWSERS = [6665, 6666, 6667, 6668, 6669, 6679, 6697, 10_080, 5060, 5061];
/** How long the anvil of a killed predecessor may take to end before it is killed; it stores nothing. */
const PREDECESSOR_MS_MAX = 2_000;

// Runs anvil ("$@") with its files readable by the owner only, writes its pid to $PID_FILE and stdout, and sends it
// SIGTERM when stdin closes.
const GUARD_SCRIPT = `
exec 3<&0
umask 077
"$@" </dev/null >/dev/null 3<&- & child=$!
echo "$child" > "$PID_FILE"
echo "$child"
trap 'kill -TERM "$child" 2>/dev/null' TERM INT
(cat <&3 >/dev/null; kill -TERM "$child" 2>/dev/null) & reader=$!
wait "$child"; code=$?
while kill -0 "$child" 2>/dev/null; do wait "$child"; code=$?; done
kill "$reader" 2>/dev/null
exit "$code"
`;

/** Starts anvil and resolves when it responds. Throws if it does not within START_MS_MAX. */
export async function startChain(options: ChainOptions): Promise<Chain> {
  const pidFile = pidFileOf(options.stateFile);
  await waitForPredecessor(options.stateFile);
  const socket = socketOf(options.stateFile);
  rmSync(socket, { force: true });
  const command = [anvilPath(), ...flags(options), '--ipc', socket, ...(await closedPort())];
  const child = spawn('/bin/sh', ['-c', GUARD_SCRIPT, 'sh', ...command], {
    env: { ...process.env, PID_FILE: pidFile, _RJEM_MALLOC_CONF: ALLOCATOR },
    stdio: ['pipe', 'pipe', 'inherit'],
    // Its own process group: Ctrl-C reaches this process only, which then stops anvil in order.
    detached: true,
  });
  const exited = new Promise<number>((resolve) => {
    child.once('exit', (code) => resolve(code ?? 1));
    child.once('error', () => resolve(1));
  });
  child.stdin.on('error', () => {});
  const [line] = await Promise.race([
    once(createInterface({ input: child.stdout }), 'line'),
    exited.then(() => ['0']),
  ]);
  const rpc = new Rpc(socket);
  await untilReady(rpc, exited);
  await options.prepare?.(rpc);
  const { port, close } = await openGate(socket, options.port);
  const mining = new AbortController();
  void exited.then(() => {
    mining.abort();
    close();
  });
  return {
    rpc,
    url: `http://127.0.0.1:${port}`,
    webSocketUrl: `ws://127.0.0.1:${port}`,
    pid: Number(line),
    exited,
    async mineEvery(seconds, onMined) {
      await rpc.call('evm_setTime', Math.floor(Date.now() / 1000));
      void mineEvery(rpc, seconds * 1_000, onMined, mining.signal);
    },
    async stop() {
      mining.abort();
      child.stdin.end();
      await exited;
    },
  };
}

/** The state at the head, with all blocks and transactions, as `loadState` and `dumpState` have it. */
export async function stateOf(rpc: Rpc): Promise<Buffer> {
  const zipped = await rpc.call<Hex>('anvil_dumpState');
  return unzip(Buffer.from(zipped.slice(2), 'hex'));
}

/**
 * Loads what anvil has into an empty chain. anvil computes other state roots for accounts that it loaded than for those that
 * it created: storage that was only read counts, too. So without this, a chain that is loaded later would not continue with
 * the same hashes.
 */
export async function reload(rpc: Rpc): Promise<void> {
  const state = await rpc.call<Hex>('anvil_dumpState');
  await rpc.call('anvil_reset');
  await rpc.call('anvil_loadState', state);
}

/**
 * Mines until the signal aborts. anvil's own interval mining is not used: with 1 or 2 s it keeps 1,500 states despite
 * --prune-history (`InMemoryBlockStates`), which takes 11 GB after 70,000 matches.
 */
async function mineEvery(
  rpc: Rpc,
  everyMs: number,
  onMined: () => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  for (let due = Date.now() + everyMs; ; due = Math.max(due + everyMs, Date.now())) {
    await sleep(Math.max(0, due - Date.now()), undefined, { signal }).catch(() => undefined);
    if (signal.aborted) return;
    // `exited` reports that anvil has ended.
    await rpc.call('evm_mine').catch(() => undefined);
    await onMined();
  }
}

/**
 * anvil always opens a TCP port, through which anyone may do anything. On Linux it listens on a multicast address,
 * which no connection can reach; elsewhere on a port that browsers block.
 */
async function closedPort(): Promise<readonly string[]> {
  if (process.platform === 'linux') return ['--host', '224.0.0.1', '--port', '0'];
  for (const port of PORTS_BLOCKED_BY_BROWSERS) {
    if (!(await isPortTaken(port))) return ['--host', '127.0.0.1', '--port', String(port)];
  }
  throw new Error(`all of the ports ${PORTS_BLOCKED_BY_BROWSERS.join(', ')} are taken`);
}

function flags(options: ChainOptions): string[] {
  const { loadState, dumpState, keepBlocks, genesisTime } = options;
  const values = {
    'chain-id': CHAIN_ID,
    order: 'fifo',
    'slots-in-an-epoch': 1,
    // Since Prague, the state contains the hashes of the last 8,191 blocks.
    hardfork: 'cancun',
    'gas-limit': BLOCK_GAS_LIMIT,
    'base-fee': 0,
    'gas-price': 0,
    'prune-history': STATES_KEPT,
    'load-state': loadState,
    'dump-state': dumpState,
    'transaction-block-keeper': keepBlocks,
    // At every start, because anvil creates block 0 again, and without this its hash changed at some later start.
    timestamp: genesisTime,
  };
  return [
    '--no-cors',
    '--no-mining',
    '--no-request-size-limit',
    '--disable-min-priority-fee',
    '--disable-pool-balance-checks',
    '--disable-console-log',
    '--quiet',
    ...Object.entries(values).flatMap(([name, value]) =>
      value === undefined ? [] : [`--${name}`, String(value)],
    ),
  ];
}

/** The binary in the platform package of @foundry-rs/anvil; its launcher would add a process. */
function anvilPath(): string {
  const architecture = process.arch === 'arm64' ? 'arm64' : 'amd64';
  const name = `@foundry-rs/anvil-${process.platform}-${architecture}`;
  const require = createRequire(import.meta.url);
  return join(dirname(require.resolve(`${name}/package.json`)), 'bin', 'anvil');
}

async function untilReady(rpc: Rpc, exited: Promise<number>): Promise<void> {
  let exitCode: number | undefined;
  void exited.then((code) => {
    exitCode = code;
  });
  const deadline = Date.now() + START_MS_MAX;
  for (;;) {
    if (exitCode !== undefined) throw new Error(`anvil did not start: exit code ${exitCode}`);
    try {
      await rpc.call('eth_chainId');
      return;
    } catch (error) {
      // Other errors are real responses.
      if (!isNotListening(error) || Date.now() > deadline) throw error;
      await sleep(POLL_MS);
    }
  }
}

function isNotListening(error: unknown): boolean {
  const code = error instanceof Error && 'code' in error ? error.code : '';
  return code === 'ENOENT' || code === 'ECONNREFUSED';
}

/** anvil's socket. A path may have at most about 100 characters, so a relative one is used if it is shorter. */
export function socketOf(stateFile: string): string {
  const path = resolve(`${stateFile}.ipc`);
  const near = relative(process.cwd(), path);
  return near.length < path.length ? near : path;
}

function pidFileOf(stateFile: string): string {
  return `${stateFile}.pid`;
}

/** Waits until the anvil of a killed predecessor has ended. */
async function waitForPredecessor(stateFile: string): Promise<void> {
  const pidFile = pidFileOf(stateFile);
  const pid = Number(readText(pidFile));
  const deadline = Date.now() + PREDECESSOR_MS_MAX;
  while (runs(pid, 'anvil')) {
    if (Date.now() > deadline) kill(pid, 'SIGKILL');
    await sleep(POLL_MS);
  }
  rmSync(pidFile, { force: true });
}
