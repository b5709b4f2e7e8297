/** Lock files of data directories. They name a process, and count only while it runs. */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';

/** Another live process uses the data directory. */
export class DataDirectoryInUseError extends Error {
  override readonly name = 'DataDirectoryInUseError';
  constructor(directory: string, pid: number) {
    super(`${directory} is in use by process ${pid}; stop it or choose another directory`);
  }
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
 * Whether the process runs and its command line contains `part`: ids are reused, so that one may belong to
 * another program by now. A zombie has no command line.
 */
export function runs(pid: number, part: string): boolean {
  if (!(pid > 0)) return false;
  try {
    const command = existsSync('/proc/self')
      ? readFileSync(`/proc/${pid}/cmdline`, 'utf8')
      : execFileSync('ps', ['-ww', '-o', 'command=', '-p', String(pid)], { encoding: 'utf8' });
    return command.includes(part);
  } catch {
    // There is no such process.
    return false;
  }
}
