/** What all tests of faults share: sizes, a directory that is kept after a failure, and a table of the figures. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'vitest';
import { SEED } from '../../support/seed.ts';
import { printTable } from '../bench/report.ts';

const isLong = process.env.FAULTS === 'long';

export type Given = {
  readonly directory: string;
  readonly seed: number;
  readonly onProgress: (line: string) => void;
};

/** Short in `npm run test:process`, long with FAULTS=long; a variable sets each alone: `cutSeconds` is CUT_SECONDS. */
export function sizes<Name extends string>(
  all: Readonly<Record<Name, readonly [short: number, long: number]>>,
): Readonly<Record<Name, number>> {
  const entries = Object.entries<readonly [number, number]>(all).map(([name, [short, long]]) => {
    const variable = name.replaceAll(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase();
    return [name, Number(process.env[variable] || (isLong ? long : short))];
  });
  return Object.fromEntries(entries);
}

/** Prints the figures of a run, and expects no differences. */
export async function faultRun<Run extends { readonly differences: readonly string[] }>(
  title: string,
  work: (given: Given) => Promise<Run>,
): Promise<Run> {
  const directory = mkdtempSync(join(tmpdir(), 'fillstream-faults-'));
  console.info(`TEST_SEED=${SEED} ${directory}`);
  const onProgress = (line: string) => void (isLong && console.info(line));
  const run = await work({ directory, seed: SEED, onProgress });
  const figures = Object.entries(run).map(([what, value]) => {
    return { what, value: typeof value === 'object' ? JSON.stringify(value) : String(value) };
  });
  printTable(title, figures);
  expect(run.differences).toEqual([]);
  rmSync(directory, { recursive: true });
  return run;
}
