/** The data directory of `npm start`: its lock, which admits one service at a time, and the API keys that it prints. */
import { appendFileSync, existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { generateKey } from '../api/auth/keys.ts';
import { DataDirectoryInUseError, kill, readJson, readText, runs, writeJson } from './lock.ts';
import { freePort, reservePort } from './ports.ts';

export const ShownKeys = z.object({ demo: z.string(), individual: z.string(), pro: z.string() });
export type ShownKeys = z.infer<typeof ShownKeys>;

/** Ports of the stores and of the chain by name. */
const Ports = z.record(z.string(), z.int().min(1).max(65_535));

/** How long the previous service may take to stop, for example if Ctrl-C is followed at once by another start. */
const STOP_MS_MAX = 5_000;
/** The parts of a killed service stop by themselves within this time; afterwards they are killed. */
const ORPHAN_MS_MAX = 8_000;
const ORPHAN_POLL_MS = 25;

/**
 * Locks the directory, creating it if necessary, and resolves with a function that unlocks it. Waits for a service that
 * is stopping. A lock is stale if its process is gone or its id belongs to another program; then this waits until the
 * parts of that service have ended.
 * Throws DataDirectoryInUseError.
 */
export async function lockDataDirectory(directory: string): Promise<() => void> {
  mkdirSync(join(directory, 'logs'), { recursive: true });
  const lock = lockOf(directory);
  const deadline = Date.now() + STOP_MS_MAX;
  for (;;) {
    const pid = Number(readText(lock).split('\n')[0]);
    if (pid === process.pid || !runs(pid, 'local/up')) break;
    if (Date.now() > deadline) throw new DataDirectoryInUseError(directory, pid);
    await delay(ORPHAN_POLL_MS);
  }
  const [, ...parts] = readText(lock).trimEnd().split('\n');
  writeFileSync(lock, `${process.pid}\n`);
  await Promise.all(parts.map(untilEnded));
  return () => rmSync(lock, { force: true });
}

/** Adds a part to the lock, so that after a kill, the next service can wait for it. */
export function recordPart(directory: string, pid: number, module: string): void {
  try {
    appendFileSync(lockOf(directory), `${pid} ${module}\n`);
  } catch {
    // The disk is full. The next service then does not wait for this part, but each part guards its own data.
  }
}

async function untilEnded(part: string): Promise<void> {
  const [pid = '', module = ''] = part.split(' ');
  const deadline = Date.now() + ORPHAN_MS_MAX;
  while (module !== '' && runs(Number(pid), module)) {
    if (Date.now() > deadline) kill(Number(pid), 'SIGKILL');
    await delay(ORPHAN_POLL_MS);
  }
}

function lockOf(directory: string): string {
  return join(directory, 'up.pid');
}

/**
 * The keys of this directory, one per tier, created at the first start. They are stored in clear text (mode 0600),
 * because they only protect a demo on loopback; the service itself stores only hashes.
 */
export function readShownKeys(directory: string): ShownKeys {
  const file = join(directory, 'keys.json');
  if (existsSync(file)) {
    return readJson(
      file,
      ShownKeys,
      'restore it, or delete it to create new keys at the next start',
    );
  }
  const keys = {
    demo: generateKey('demo'),
    individual: generateKey('individual'),
    pro: generateKey('pro'),
  };
  writeJson(file, keys, 0o600);
  return keys;
}

/**
 * The port of a server of this directory, which is the same at each start, so that notebooks and data sources keep working;
 * another one if a program has taken it.
 */
export async function keptPort(directory: string, name: string): Promise<number> {
  const file = join(directory, 'ports.json');
  const remedy = 'delete it to choose new ports at the next start';
  const read = () => (existsSync(file) ? readJson(file, Ports, remedy) : {});
  const kept = read()[name];
  const port = kept !== undefined && (await reservePort(kept)) ? kept : await freePort();
  if (port !== kept) writeJson(file, { ...read(), [name]: port });
  return port;
}
