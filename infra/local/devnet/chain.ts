/**
 * Starts anvil as the embedded chain, on loopback, and owns its life. Blocks are never mined by
 * anvil on its own until `mineEvery` says so: history is mined by hand with set timestamps.
 * The chain is kept in one file, written every STATE_INTERVAL_SECONDS and at a stop; blocks,
 * transactions and logs are never pruned, only the account states of old blocks are (`eth_call` works at
 * the newest STATES_KEPT blocks). A small shell stands between: when this process dies in whatever way,
 * its pipe closes and anvil is told to stop, so that no orphan keeps the port and the file.
 */
import { spawn } from 'node:child_process';
import { closeSync, existsSync, openSync, readFileSync, readSync, rmSync, statSync } from 'node:fs';
import { copyFile, rename } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from '../ports.ts';
import { CHAIN_ID } from './contracts.ts';
import { Rpc } from './rpc.ts';

type ChainOptions = {
  readonly stateFile: string;
  /** 0: any free port. */
  readonly port: number;
  /** Unix seconds of block 0; the same at every start on one state file. */
  readonly genesisTime: number;
  readonly stateIntervalSeconds?: number;
};

export type Chain = {
  readonly rpc: Rpc;
  readonly url: string;
  readonly webSocketUrl: string;
  readonly pid: number;
  /** Settles when anvil is gone, wanted or not, with its exit code. */
  readonly exited: Promise<number>;
  /** Mines a block every so many seconds from now on, at the wall clock's time. */
  mineEvery(seconds: number): Promise<void>;
  /** Writes the state file, ends anvil and waits for it. */
  stop(): Promise<void>;
};

/** A dump is about 23 KB a match: 0.6 s for 6,000 matches, and it grows with the chain. */
const STATE_INTERVAL_SECONDS = 30;
/**
 * Every kept state is a full copy of the accounts: 6,000 matches took 318 MB with 4, 534 MB with 32.
 * A reader of balances may lag this many blocks behind the head.
 */
const STATES_KEPT = 16;
/**
 * anvil's allocator gives freed pages back soon: with a dump every 3 s, 4,000 matches took 259 MB in place
 * of 333 MB. What grows for good is about 25 KB a match.
 */
const ALLOCATOR = 'dirty_decay_ms:500,muzzy_decay_ms:0,narenas:2';
/** Far above any block, so that the base fee stays 0 and packing is ours to decide. */
const BLOCK_GAS_LIMIT = 30_000_000_000_000;
/** 36,000 matches are 1.2 GB of state: 6 s on a quiet machine, over 20 s on a busy one. */
const START_MS_MAX = 60_000;
const POLL_MS = 25;
/**
 * How long an anvil of a killed predecessor gets to write its state (6 s a GB) and go: on a machine with a
 * load of 30 on two cores, 0.4 GB took more than 30 s. Killed meanwhile, it loses its newest blocks.
 */
const PREDECESSOR_MS_MAX = 180_000;

// Runs anvil ("$@") with its pid in $PID_FILE, and sends it SIGTERM when stdin closes.
const GUARD_SCRIPT = `
exec 3<&0
"$@" </dev/null 3<&- & child=$!
echo "$child" > "$PID_FILE"
trap 'kill -TERM "$child" 2>/dev/null' TERM INT
(cat <&3 >/dev/null; kill -TERM "$child" 2>/dev/null) & reader=$!
wait "$child"; code=$?
while kill -0 "$child" 2>/dev/null; do wait "$child"; code=$?; done
rm -f "$PID_FILE"
kill "$reader" 2>/dev/null
exit "$code"
`;

/** Starts anvil and waits until it answers. Throws when it does not within START_MS_MAX. */
export async function startChain(options: ChainOptions): Promise<Chain> {
  const pidFile = pidFileOf(options.stateFile);
  await waitForPredecessor(options.stateFile);
  const port = options.port === 0 ? await freePort() : options.port;
  const child = spawn('/bin/sh', ['-c', GUARD_SCRIPT, 'sh', anvilPath(), ...flags(options, port)], {
    env: { ...process.env, PID_FILE: pidFile, _RJEM_MALLOC_CONF: ALLOCATOR },
    stdio: ['pipe', 'ignore', 'inherit'],
    // Its own process group: Ctrl-C reaches this process only, which then stops anvil in order.
    detached: true,
  });
  const exited = new Promise<number>((resolve) => {
    child.once('exit', (code) => resolve(code ?? 1));
    child.once('error', () => resolve(1));
  });
  child.stdin.on('error', () => {});
  const rpc = new Rpc(`http://127.0.0.1:${port}`);
  await untilReady(rpc, exited);
  const mining = new AbortController();
  void exited.then(() => mining.abort());
  return {
    rpc,
    url: rpc.url,
    webSocketUrl: `ws://127.0.0.1:${port}`,
    pid: Number(readFileSync(pidFile, 'utf8')),
    exited,
    async mineEvery(seconds) {
      await rpc.call('evm_setTime', Math.floor(Date.now() / 1000));
      void mineEvery(rpc, seconds * 1_000, mining.signal);
    },
    async stop() {
      mining.abort();
      child.stdin.end();
      await exited;
    },
  };
}

/**
 * Mines a block so often until the signal. Not anvil's own interval: with one of 1 or 2 s it keeps 1,500
 * states whatever --prune-history says (`InMemoryBlockStates`), 11 GB after 70,000 matches.
 */
async function mineEvery(rpc: Rpc, everyMs: number, signal: AbortSignal): Promise<void> {
  for (let due = Date.now() + everyMs; ; due = Math.max(due + everyMs, Date.now())) {
    await sleep(Math.max(0, due - Date.now()), undefined, { signal }).catch(() => undefined);
    if (signal.aborted) return;
    // An anvil that is gone is told of by `exited`.
    await rpc.call('evm_mine').catch(() => undefined);
  }
}

function flags(options: ChainOptions, port: number): string[] {
  const interval = options.stateIntervalSeconds ?? STATE_INTERVAL_SECONDS;
  return [
    ...['--host', '127.0.0.1', '--port', String(port), '--chain-id', String(CHAIN_ID)],
    ...['--no-mining', '--order', 'fifo', '--slots-in-an-epoch', '1'],
    ...['--hardfork', 'prague', '--gas-limit', String(BLOCK_GAS_LIMIT)],
    ...['--base-fee', '0', '--gas-price', '0', '--disable-min-priority-fee'],
    ...['--disable-pool-balance-checks', '--disable-console-log'],
    ...['--no-request-size-limit', '--prune-history', String(STATES_KEPT)],
    ...['--state', options.stateFile, '--state-interval', String(interval)],
    // At every start: anvil makes block 0 anew, and without it some later start gave it another hash.
    ...['--timestamp', String(options.genesisTime)],
    '--quiet',
  ];
}

/** The binary inside the platform package of @foundry-rs/anvil: its launcher would add a process. */
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
      // fetch reports a refused connection as a TypeError; anything else is a real answer.
      if (!(error instanceof TypeError) || Date.now() > deadline) throw error;
      await sleep(POLL_MS);
    }
  }
}

function pidFileOf(stateFile: string): string {
  return `${stateFile}.pid`;
}

/** Waits until no anvil writes the state file any more: before that it may be torn. */
export async function waitForPredecessor(stateFile: string): Promise<void> {
  const pidFile = pidFileOf(stateFile);
  if (!existsSync(pidFile)) return;
  const pid = Number(readFileSync(pidFile, 'utf8'));
  const deadline = Date.now() + PREDECESSOR_MS_MAX;
  while (isAnvil(pid)) {
    if (Date.now() > deadline) process.kill(pid, 'SIGKILL');
    await sleep(POLL_MS);
  }
  rmSync(pidFile, { force: true });
}

/** Whether that pid still is an anvil: pids are used again, so the name is checked where it can be. */
function isAnvil(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return readFileSync(`/proc/${pid}/comm`, 'utf8').trim() === 'anvil';
  } catch {
    return false;
  }
}

/** A write takes well under this, so an older file is not being written. */
const SETTLED_MS = 2_000;
const TAIL = /"historical_states":null\}\s*$/;
const TAIL_BYTES = 64;

/** Puts the last whole state in place, or none when there is none. Call before anvil starts. */
export async function restoreStateFile(file: string): Promise<void> {
  if (isWhole(file)) return;
  rmSync(file, { force: true });
  const previous = previousOf(file);
  if (isWhole(previous)) await copyFile(previous, file);
}

/** Copies the state file aside when it is whole and newer than the copy. */
export async function keepStateFile(file: string): Promise<void> {
  const previous = previousOf(file);
  const written = modifiedMs(file);
  if (written === undefined || Date.now() - written < SETTLED_MS) return;
  if (written <= (modifiedMs(previous) ?? 0) || !isWhole(file)) return;
  await copyFile(file, `${previous}.new`);
  // A write that began meanwhile would have been copied in part.
  if (modifiedMs(file) === written) await rename(`${previous}.new`, previous);
}

export function removeStateFile(file: string): void {
  rmSync(file, { force: true });
  rmSync(previousOf(file), { force: true });
}

function previousOf(file: string): string {
  return `${file}.previous`;
}

function modifiedMs(file: string): number | undefined {
  return statSync(file, { throwIfNoEntry: false })?.mtimeMs;
}

function isWhole(file: string): boolean {
  if (!existsSync(file)) return false;
  const { size } = statSync(file);
  const descriptor = openSync(file, 'r');
  try {
    const tail = Buffer.alloc(TAIL_BYTES);
    const count = readSync(descriptor, tail, 0, TAIL_BYTES, Math.max(0, size - TAIL_BYTES));
    return TAIL.test(tail.subarray(0, count).toString());
  } finally {
    closeSync(descriptor);
  }
}
