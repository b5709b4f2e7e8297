/** A full disk: how much is left of it, and which errors say so. */
import { statfsSync } from 'node:fs';
import type { Reasons } from './metrics.ts';

/** With less than this the disk counts as full, and the embedded ClickHouse writes nothing more. */
export const DISK_RESERVE_BYTES = 32 * 2 ** 20;
const MB = 1e6;

/** "disk full: 0 of 300 MB free"; undefined while the disk of this directory has room. */
export function diskFull(directory: string): string | undefined {
  const { bavail, blocks, bsize } = statfsSync(directory);
  const free = bavail * bsize;
  if (free >= DISK_RESERVE_BYTES) return undefined;
  return `disk full: ${Math.floor(free / MB)} of ${Math.round((blocks * bsize) / MB)} MB free`;
}

/** A reason for /readyz while the disk of the servers is full; none if their directory is not known. */
export function diskReasons(directory: string | undefined): Reasons {
  const fault = directory === undefined ? undefined : diskFull(directory);
  return fault === undefined ? {} : { disk: fault };
}

/** Whether a write failed for lack of room. */
export function isNoSpace(error: unknown): boolean {
  const code = error instanceof Error && 'code' in error ? error.code : '';
  return code === 'ENOSPC' || code === 'EDQUOT';
}
