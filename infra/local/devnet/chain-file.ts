/**
 * Keeps the chain's state file usable. anvil rewrites it in place, so a machine that dies in the half
 * second of a write leaves a torn file; a copy of the last whole one lies beside it. Contents are never
 * looked into, except that a whole file ends with the last field that anvil 1.7 writes.
 */
import { closeSync, existsSync, openSync, readSync, rmSync, statSync } from 'node:fs';
import { copyFile, rename } from 'node:fs/promises';

/** A write takes well under this, so an older file is not being written. */
const SETTLED_MS = 2_000;
const TAIL = /"historical_states":null\}\s*$/;
const TAIL_BYTES = 64;

/** Puts the last whole state in place, or none when there is none. Call before anvil starts. */
export async function restoreStateFile(file: string): Promise<void> {
  if (isWhole(file)) return;
  rmSync(file, { force: true });
  const previous = previousOf(file);
  if (isWhole(previous)) await copyFile(previous, file);
}

/** Copies the state file aside when it is whole and newer than the copy. */
export async function keepStateFile(file: string): Promise<void> {
  const previous = previousOf(file);
  const written = modifiedMs(file);
  if (written === undefined || Date.now() - written < SETTLED_MS) return;
  if (written <= (modifiedMs(previous) ?? 0) || !isWhole(file)) return;
  await copyFile(file, `${previous}.new`);
  // A write that began meanwhile would have been copied in part.
  if (modifiedMs(file) === written) await rename(`${previous}.new`, previous);
}

export function removeStateFile(file: string): void {
  rmSync(file, { force: true });
  rmSync(previousOf(file), { force: true });
}

function previousOf(file: string): string {
  return `${file}.previous`;
}

function modifiedMs(file: string): number | undefined {
  return statSync(file, { throwIfNoEntry: false })?.mtimeMs;
}

function isWhole(file: string): boolean {
  if (!existsSync(file)) return false;
  const { size } = statSync(file);
  const descriptor = openSync(file, 'r');
  try {
    const tail = Buffer.alloc(TAIL_BYTES);
    const count = readSync(descriptor, tail, 0, TAIL_BYTES, Math.max(0, size - TAIL_BYTES));
    return TAIL.test(tail.subarray(0, count).toString());
  } finally {
    closeSync(descriptor);
  }
}
