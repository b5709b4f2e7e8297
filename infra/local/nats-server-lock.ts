// One nats-server per data directory: two on one store would destroy it. The lock file names the
// process that started the server and the server itself. A process counts as alive only while its
// command line names this directory's configuration file, so a reused process id never blocks.
// A server whose starter was killed is an orphan: it is stopped and its directory taken over.
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
  /** 0 until it is spawned. */
  serverPid: z.int().nonnegative(),
  takenAtMs: z.int(),
  nonce: z.string(),
});
type Holder = z.infer<typeof Holder>;

const ORPHAN_STOP_MS_MAX = 10_000;
const STARTING_MS_MAX = 10_000;
const ORPHAN_POLL_MS = 20;
const ATTEMPTS_MAX = 5;

/** Takes the lock of a data directory. Throws DataDirectoryInUseError when it is held. */
export async function lockDataDirectory(
  dataDir: string,
  configPath: string,
): Promise<DataDirectoryLock> {
  const path = join(dataDir, 'nats-server.lock');
  const nonce = crypto.randomUUID();
  const taken = { starterPid: process.pid, takenAtMs: Date.now(), nonce };
  const text = (serverPid: number) => JSON.stringify({ ...taken, serverPid } satisfies Holder);
  for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt += 1) {
    if (createExclusively(path, text(0))) {
      return {
        hold: (serverPid) => writeFileSync(path, text(serverPid)),
        release: () => {
          if (holder(path)?.nonce === nonce) rmSync(path, { force: true });
        },
      };
    }
    const other = holder(path);
    if (other !== undefined) await settle(other, dataDir, configPath);
    // Whoever removes a stale lock first wins; the loser finds the winner's at its next attempt.
    if (other === undefined || holder(path)?.nonce === other.nonce) rmSync(path, { force: true });
  }
  throw new DataDirectoryInUseError(dataDir, holder(path)?.starterPid ?? 0);
}

/** Returns when nothing of the holder is left; throws when it is at work. */
async function settle(other: Holder, dataDir: string, configPath: string): Promise<void> {
  const serverRuns = other.serverPid !== 0 && runs(other.serverPid, configPath);
  if (exists(other.starterPid)) {
    // Between taking the lock and spawning there is no server yet: its starter counts, for as
    // long as that can take. After it, the process id belongs to somebody else.
    const starting = other.serverPid === 0 && Date.now() - other.takenAtMs < STARTING_MS_MAX;
    if (serverRuns || starting) {
      throw new DataDirectoryInUseError(dataDir, serverRuns ? other.serverPid : other.starterPid);
    }
    return;
  }
  if (!serverRuns) return;
  process.kill(other.serverPid, 'SIGTERM');
  const deadline = Date.now() + ORPHAN_STOP_MS_MAX;
  while (runs(other.serverPid, configPath)) {
    if (Date.now() > deadline) throw new DataDirectoryInUseError(dataDir, other.serverPid);
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

/** The lock's holder; undefined when the file is gone or was cut short by a crash. */
function holder(path: string): Holder | undefined {
  try {
    return Holder.safeParse(JSON.parse(readFileSync(path, 'utf8'))).data;
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
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

/** True while the process runs with this configuration file; a zombie has no command line. */
function runs(pid: number, configPath: string): boolean {
  if (!exists(pid)) return false;
  return commandLine(pid).includes(configPath);
}

function commandLine(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
  } catch (error) {
    if (!(error instanceof Error)) throw error;
  }
  try {
    // Without /proc, e.g. on macOS.
    return execFileSync('ps', ['-o', 'command=', '-p', String(pid)], { encoding: 'utf8' });
  } catch (error) {
    if (error instanceof Error) return '';
    throw error;
  }
}
