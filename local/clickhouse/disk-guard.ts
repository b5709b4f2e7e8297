/**
 * Stops merges and refreshes while the disk is full. chdb ignores failed writes and keeps the damaged part (we saw
 * write(2) return ENOSPC and the merge continue without that MiB), or the empty definition of a refreshed table; a real
 * server throws. The engine's configuration prevents it from starting a merge that does not fit above
 * DISK_RESERVE_BYTES. This file ends what runs if other programs fill the disk, but cannot help if they fill the reserve
 * within one interval.
 */
import { diskFull } from '../../infra/disk.ts';
import type { Engine } from './engine.ts';

const INTERVAL_MS = 100;

/** Runs until the process ends. */
export function guardDisk(engine: Engine, directory: string): void {
  let isStopped = false;
  let isRunning = false;
  const look = async () => {
    const isFull = diskFull(directory) !== undefined;
    if (isFull === isStopped || isRunning) return;
    isRunning = true;
    try {
      for (const what of ['VIEWS', 'MERGES']) {
        await engine.run({
          statement: `SYSTEM ${isFull ? 'STOP' : 'START'} ${what}`,
          settings: new Map(),
          database: undefined,
          format: 'Null',
          mark: 'disk-guard',
        });
      }
      isStopped = isFull;
    } catch {
      // The engine is closing or out of memory.
    } finally {
      isRunning = false;
    }
  };
  void look();
  setInterval(look, INTERVAL_MS).unref();
}
