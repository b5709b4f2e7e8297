/** Files of data directories. A lock file names a process and is valid only while that process runs. */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import type { z } from 'zod';
import { ExpectedError } from '../infra/expected.ts';

/** Another live process uses the data directory. */
export class DataDirectoryInUseError extends ExpectedError {
  override readonly name = 'DataDirectoryInUseError';
  constructor(directory: string, pid: number) {
    super(`${directory} is in use by process ${pid}; stop it or choose another directory`);
  }
}

/** A file of a data directory is damaged; the message names it and says what to do. */
export class DamagedFileError extends ExpectedError {
  override readonly name = 'DamagedFileError';
}

/** Reads a JSON file. Throws DamagedFileError, which includes `remedy`. */
export function readJson<T>(file: string, schema: z.ZodType<T>, remedy: string): T {
  try {
    return schema.parse(JSON.parse(readFileSync(file, 'utf8')));
  } catch (error) {
    if (error instanceof Error && 'syscall' in error) throw error;
    throw new DamagedFileError(`${file} is damaged: ${remedy}`);
  }
}

/** Writes a JSON file, completely or not at all. */
export function writeJson(file: string, value: unknown, mode = 0o644): void {
  writeFileSync(`${file}.new`, `${JSON.stringify(value, null, 2)}\n`, { mode });
  renameSync(`${file}.new`, file);
}

/** The text of a file; '' if there is none. */
export function readText(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return '';
    throw error;
  }
}

/**
 * Whether the process runs and its command line contains `part`. Ids are reused, so this one may already belong to
 * another program. A zombie has no command line.
 */
export function runs(pid: number, part: string): boolean {
  if (!(pid > 0)) return false;
  try {
    const command = existsSync('/proc/self')
      ? readFileSync(`/proc/${pid}/cmdline`, 'utf8')
      : execFileSync('ps', ['-ww', '-o', 'command=', '-p', String(pid)], { encoding: 'utf8' });
    return command !== '' && command.includes(part);
  } catch {
    // There is no such process.
    return false;
  }
}

/** Sends a signal to a process, if it still runs. */
export function kill(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error;
  }
}
