/** What Linux's /proc reports of a running process. */
import { readFileSync } from 'node:fs';

const TICKS_PER_SECOND = 100;

/** CPU seconds used so far. */
export function cpuSeconds(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /, '')
    .split(' ');
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
}

export function residentMiB(pid: number): number {
  return memoryMiB(pid, 'VmRSS');
}

/** The largest resident memory that it has had. */
export function peakMiB(pid: number): number {
  return memoryMiB(pid, 'VmHWM');
}

function memoryMiB(pid: number, field: string): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const [, kib] = new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(status) ?? [];
  return Number(kib) / 1_024;
}
