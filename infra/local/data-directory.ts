/** The data directory of `npm start`: used by one service at a time, with the API keys that it shows. */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { generateKey } from '../../api/auth/keys.ts';
import { DataDirectoryInUseError, readText, runs } from './lock.ts';

export const ShownKeys = z.object({ demo: z.string(), individual: z.string(), pro: z.string() });
export type ShownKeys = z.infer<typeof ShownKeys>;

/**
 * Locks the directory, creating it if necessary; returns the function that unlocks it. A lock does not
 * block if its process is gone or its id belongs to another program. Throws DataDirectoryInUseError.
 */
export function lockDataDirectory(directory: string): () => void {
  mkdirSync(join(directory, 'logs'), { recursive: true });
  const lock = join(directory, 'up.pid');
  const pid = Number(readText(lock));
  if (pid !== process.pid && runs(pid, 'infra/local/up')) {
    throw new DataDirectoryInUseError(directory, pid);
  }
  writeFileSync(lock, String(process.pid));
  return () => rmSync(lock, { force: true });
}

/**
 * The keys of this directory, one per tier, created at the first start. They are kept in clear text (mode
 * 0600) because they open a demonstration on loopback; the service itself stores only hashes.
 */
export function readShownKeys(directory: string): ShownKeys {
  const file = join(directory, 'keys.json');
  const text = readText(file);
  if (text !== '') return ShownKeys.parse(JSON.parse(text));
  const keys = {
    demo: generateKey('demo'),
    individual: generateKey('individual'),
    pro: generateKey('pro'),
  };
  writeFileSync(file, `${JSON.stringify(keys, null, 2)}\n`, { mode: 0o600 });
  return keys;
}
