/**
 * One nats-server per data directory: two on one store would destroy it. The lock file names the process
 * that started the server, and the server. A server counts as running only while its command line names
 * this directory's configuration file, so a reused process id never blocks. A server whose starter was
 * killed is an orphan: it is stopped and its directory taken over.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';

/** Another live process uses the data directory. */
export class DataDirectoryInUseError extends Error {
  override readonly name = 'DataDirectoryInUseError';
  constructor(dataDir: string, pid: number) {
    super(`${dataDir} is in use by process ${pid}; stop it or choose another directory`);
  }
}

export type DataDirectoryLock = {
  /** Records the server's process id, once known. */
  hold(serverPid: number): void;
  /** Removes the lock if it is still ours. */
  release(): void;
};

const Holder = z.object({
  starterPid: z.int().positive(),
  /** 0 until the server is spawned. */
  serverPid: z.int().nonnegative(),
  takenAtMs: z.int(),
});
type Holder = z.infer<typeof Holder>;

const ORPHAN_STOP_MS_MAX = 10_000;
const STARTING_MS_MAX = 10_000;
const ORPHAN_POLL_MS = 20;
const ATTEMPTS_MAX = 5;

/** Takes the lock of a data directory. Throws DataDirectoryInUseError if it is held. */
export async function lockDataDirectory(
  dataDir: string,
  configPath: string,
): Promise<DataDirectoryLock> {
  const path = join(dataDir, 'nats-server.lock');
  const taken = { starterPid: process.pid, takenAtMs: Date.now() };
  let ours = JSON.stringify({ ...taken, serverPid: 0 } satisfies Holder);
  let other: Holder | undefined;
  for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt += 1) {
    if (createExclusively(path, ours)) {
      return {
        hold(serverPid) {
          ours = JSON.stringify({ ...taken, serverPid } satisfies Holder);
          writeFileSync(path, ours);
        },
        release() {
          if (textOf(path) === ours) rmSync(path, { force: true });
        },
      };
    }
    const text = textOf(path);
    other = holderOf(text);
    if (other !== undefined) await settle(other, dataDir, configPath);
    // The first to remove a stale lock wins; the loser finds the winner's at its next attempt.
    if (textOf(path) === text) rmSync(path, { force: true });
  }
  throw new DataDirectoryInUseError(dataDir, other?.starterPid ?? 0);
}

/** Resolves when nothing of the holder runs any more. Throws while it is in use. */
async function settle(other: Holder, dataDir: string, configPath: string): Promise<void> {
  const { starterPid, serverPid, takenAtMs } = other;
  const isServing = serverPid !== 0 && runs(serverPid, configPath);
  if (exists(starterPid)) {
    // Until the server is spawned, its starter counts. After this time the pid belongs to another program.
    const isStarting = serverPid === 0 && Date.now() - takenAtMs < STARTING_MS_MAX;
    if (!isServing && !isStarting) return;
    throw new DataDirectoryInUseError(dataDir, isServing ? serverPid : starterPid);
  }
  if (!isServing) return;
  process.kill(serverPid, 'SIGTERM');
  const deadline = Date.now() + ORPHAN_STOP_MS_MAX;
  while (runs(serverPid, configPath)) {
    if (Date.now() > deadline) throw new DataDirectoryInUseError(dataDir, serverPid);
    await delay(ORPHAN_POLL_MS);
  }
}

function createExclusively(path: string, text: string): boolean {
  try {
    writeFileSync(path, text, { flag: 'wx' });
    return true;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return false;
    throw error;
  }
}

function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return '';
    throw error;
  }
}

/** The holder that the lock names; undefined if the file is gone or was cut short by a crash. */
function holderOf(text: string): Holder | undefined {
  try {
    return Holder.safeParse(JSON.parse(text)).data;
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

function exists(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // EPERM: it exists and belongs to another user.
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}

/** Whether the process runs with this configuration file. A zombie has no command line. */
function runs(pid: number, configPath: string): boolean {
  if (!exists(pid)) return false;
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(configPath);
  } catch {
    // No /proc, for example on macOS, or the process has just ended.
  }
  try {
    const command = execFileSync('ps', ['-o', 'command=', '-p', String(pid)], { encoding: 'utf8' });
    return command.includes(configPath);
  } catch {
    return false;
  }
}
