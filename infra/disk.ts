/** Detects a full disk, by its free space and by errors. */
import { statfsSync } from 'node:fs';
import type { Reasons } from './metrics-server.ts';

/** With less free space than this, the disk counts as full, and the embedded ClickHouse stops writing. */
export const DISK_RESERVE_BYTES = 32 * 2 ** 20;
const MB = 1e6;

/** "disk full: 0 of 300 MB free"; undefined if the directory's disk has room. */
export function diskFull(directory: string): string | undefined {
  const { bavail, blocks, bsize } = statfsSync(directory);
  const free = bavail * bsize;
  if (free >= DISK_RESERVE_BYTES) return undefined;
  return `disk full: ${Math.floor(free / MB)} of ${Math.round((blocks * bsize) / MB)} MB free`;
}

/** The reason for /readyz while the servers' disk is full or cannot be read; empty if their directory is unknown. */
export function diskReasons(directory: string | undefined): Reasons {
  if (directory === undefined) return {};
  try {
    const fault = diskFull(directory);
    return fault === undefined ? {} : { disk: fault };
  } catch (error) {
    return { disk: error instanceof Error ? error.message : String(error) };
  }
}

/** Whether a write failed for lack of room. */
export function isNoSpace(error: unknown): boolean {
  const code = error instanceof Error && 'code' in error ? error.code : '';
  return code === 'ENOSPC' || code === 'EDQUOT';
}
