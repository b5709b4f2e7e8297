/**
 * Samples the resident memory of every process of a service, by process name, so that the series continues after a
 * restart, and judges whether memory is level.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { median } from '../bench/report.ts';

/**
 * Memory is level if the median of the last third of the samples is at most this factor times that of the second
 * third, or at most this many bytes above it. The first third, in which caches fill, is ignored. Heaps keep filling
 * for most of an hour (docs/benchmarks/reliability.md), so slow leaks are found only by longer runs.
 */
const GROWTH_MAX = 1.25;
const GROWTH_BYTES_MAX = 16 * 1_048_576;

const MIB = 1_048_576;

export type Memory = {
  readonly name: string;
  /** Medians of the three thirds, and the maximum, in MiB. */
  readonly thirds: readonly [number, number, number];
  readonly most: number;
  readonly isLevel: boolean;
};

export class MemoryWatch {
  readonly #samples = new Map<string, number[]>();

  /** Samples each process, in bytes by name; skips those that are not running. */
  sample(pids: ReadonlyMap<string, number | undefined>): ReadonlyMap<string, number> {
    const taken = new Map<string, number>();
    for (const [name, pid] of pids) {
      const bytes = pid === undefined ? 0 : residentBytes(pid);
      if (bytes === 0) continue;
      taken.set(name, bytes);
      this.#samples.set(name, [...(this.#samples.get(name) ?? []), bytes]);
    }
    return taken;
  }

  /** Judges all samples so far. */
  verdicts(): readonly Memory[] {
    return [...this.#samples].map(([name, samples]) => ({ name, ...levelOf(samples) }));
  }
}

/** Whether memory is level by the rule above. Samples are in bytes and evenly spaced in time. */
export function levelOf(samples: readonly number[]): Omit<Memory, 'name'> {
  const cut = (part: number) => Math.floor((samples.length * part) / 3);
  const of = (third: number) => {
    const values = samples.slice(cut(third), cut(third + 1));
    return values.length === 0 ? 0 : median(values);
  };
  const [first, second, last] = [of(0), of(1), of(2)];
  const isLevel = last <= Math.max(second * GROWTH_MAX, second + GROWTH_BYTES_MAX);
  const mib = (bytes: number) => Math.round(bytes / MIB);
  return { thirds: [mib(first), mib(second), mib(last)], most: mib(Math.max(...samples)), isLevel };
}

/** Pid of the first child process with this command name, from Linux' /proc; undefined without one. */
export function childPid(parent: number, command: string): number | undefined {
  for (const entry of readdirSync('/proc')) {
    if (!/^\d+$/.test(entry)) continue;
    const status = statusOf(Number(entry));
    if (status === undefined || Number(/^PPid:\s+(\d+)$/m.exec(status)?.[1]) !== parent) continue;
    if (/^Name:\s+(.+)$/m.exec(status)?.[1] === command) return Number(entry);
  }
  return undefined;
}

function residentBytes(pid: number): number {
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(statusOf(pid) ?? '')?.[1] ?? 0) * 1_024;
}

function statusOf(pid: number): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/status`, 'utf8');
  } catch {
    return undefined;
  }
}
