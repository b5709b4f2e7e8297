/**
 * chdb ignores a write that fails, so a part that it writes while the disk is full is damaged and kept (measured:
 * write(2) returns ENOSPC, and the merge continues without that MiB). A real server throws. The engine's configuration
 * makes it start nothing that does not fit beside DISK_RESERVE_BYTES; this ends the merges that run when others fill
 * the disk. What fills the reserve within one interval is too fast for it.
 */
import { diskFull } from '../../disk.ts';
import type { Engine } from './engine.ts';

const INTERVAL_MS = 100;

/** Runs until the process ends. */
export function guardMerges(engine: Engine, directory: string): void {
  let isStopped = false;
  let isRunning = false;
  const look = async () => {
    const isFull = diskFull(directory) !== undefined;
    if (isFull === isStopped || isRunning) return;
    isRunning = true;
    try {
      await engine.run({
        statement: `SYSTEM ${isFull ? 'STOP' : 'START'} MERGES`,
        settings: new Map(),
        database: undefined,
        format: 'Null',
        mark: 'disk-guard',
      });
      isStopped = isFull;
    } catch {
      // The engine is closing, or has no memory left at this moment.
    } finally {
      isRunning = false;
    }
  };
  setInterval(look, INTERVAL_MS).unref();
}
