/** Damages a server's files: flips bytes, or fills and empties a disk. */
import { execFileSync } from 'node:child_process';
import {
  appendFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statfsSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';

const FLIPPED_BYTES = 64;

/**
 * Flips 64 bytes in the largest file below the directory with a matching path, at each of these places, from 0 to 1; returns
 * its path.
 */
export function flipBytes(
  directory: string,
  path: RegExp,
  places: readonly number[] = [0.5],
): string {
  const files = readdirSync(directory, { recursive: true, encoding: 'utf8' })
    .map((name) => join(directory, name))
    .filter((file) => path.test(file))
    .map((file) => ({ file, bytes: readFileSync(file) }))
    .toSorted((a, b) => b.bytes.length - a.bytes.length);
  const [largest] = files;
  if (largest === undefined) throw new Error(`no file of ${directory} matches ${path}`);
  const { file, bytes } = largest;
  for (const place of places) {
    const start = Math.floor(bytes.length * place);
    for (let i = start; i < start + FLIPPED_BYTES && i < bytes.length; i += 1) {
      bytes[i] = (bytes[i] ?? 0) ^ 0xff;
    }
  }
  writeFileSync(file, bytes);
  return file;
}

/** Whether `smallDisk` works here, because only root may mount. */
export const mayMount = process.platform === 'linux' && process.getuid?.() === 0;

/** A separate disk in memory, mounted at the directory. */
export function smallDisk(directory: string, megabytes: number) {
  mkdirSync(directory, { recursive: true });
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${megabytes}m`, 'tmpfs', directory]);
  const filler = join(directory, 'filler');
  const freeBytes = () => {
    const { bavail, bsize } = statfsSync(directory);
    return bavail * bsize;
  };
  return {
    /** Fills the disk except for `leave` bytes. With 0, all other writes to the disk fail from now on. */
    fill(leave = 0) {
      const block = Buffer.alloc(2 ** 16);
      try {
        for (let room = freeBytes(); leave === 0 || room > leave; room = freeBytes()) {
          appendFileSync(filler, block);
        }
      } catch (error) {
        if (!(error instanceof Error && 'code' in error && error.code === 'ENOSPC')) throw error;
      }
    },
    drain: () => rmSync(filler, { force: true }),
    remove: () => execFileSync('umount', [directory]),
  };
}
