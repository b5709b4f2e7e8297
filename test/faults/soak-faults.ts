/**
 * The faults of a soak, one after the other: kill −9 of each part, the metadata API and the chain's node
 * cut off. Kills come in the first third of the run and at its end, so that memory is watched in between in
 * processes that are not new; the cuts come in between too. After each fault everything must be ready again.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Service } from '../e2e/service.ts';
import type { Gate } from './gate.ts';
import type { RpcProxy } from './rpc-proxy.ts';
import type { FaultWindow } from './soak-logs.ts';
import { childPid } from './soak-memory.ts';

export const KILLED = ['api', 'projector', 'ingest', 'nats', 'clickhouse'] as const;
const CUT = ['metadata API', 'chain node'] as const;
export type Fault = (typeof KILLED)[number] | (typeof CUT)[number];

/** Parts of the run. */
const FIRST_KILLS = { from: 0.03, to: 0.28 };
const LAST_KILLS = { from: 0.9, to: 1 };
const CUTS_AT = [0.08, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.95];
/** Memory counts up to the second round of kills. */
export const MEMORY_UNTIL = LAST_KILLS.from;

const CUT_MS = { least: 3_000, spread: 12_000 };
const RECOVERY_MS_MAX = 90_000;
const POLL_MS = 200;
/** Ready in all parts for so long: requests that were on their way have been answered. */
const CALM_MS = 3_000;

export type Plan = readonly { readonly atMs: number; readonly fault: Fault }[];

export function planOf(durationMs: number, random: () => number): Plan {
  const shuffled = () => KILLED.toSorted(() => random() - 0.5);
  // The ring of a new api fills for 13 minutes at 50 matches a second: it comes first.
  const apiFirst = (): Fault[] => ['api', ...shuffled().filter((name) => name !== 'api')];
  const spread = (names: readonly Fault[], { from, to }: { from: number; to: number }) =>
    names.map((fault, i) => ({
      atMs: durationMs * (from + ((to - from) * i) / names.length),
      fault,
    }));
  return [
    ...spread(apiFirst(), FIRST_KILLS),
    ...spread(shuffled(), LAST_KILLS),
    ...CUTS_AT.map((at, i) => ({ atMs: at * durationMs, fault: CUT[i % CUT.length] ?? CUT[0] })),
  ].toSorted((a, b) => a.atMs - b.atMs);
}

export class Disturber {
  readonly #service: Service;
  readonly #gamma: Gate;
  readonly #rpc: RpcProxy;
  readonly #random: () => number;
  #disturbances = 0;
  /** How often each fault was made. */
  readonly done = new Map<Fault, number>();
  readonly windows: FaultWindow[] = [];
  readonly differences: string[] = [];

  constructor(parts: {
    readonly service: Service;
    readonly gamma: Gate;
    readonly rpc: RpcProxy;
    readonly random: () => number;
  }) {
    this.#service = parts.service;
    this.#gamma = parts.gamma;
    this.#rpc = parts.rpc;
    this.#random = parts.random;
  }

  /** Odd while a fault is under way. */
  get disturbances(): number {
    return this.#disturbances;
  }

  /** Makes the fault and resolves when all parts have been ready again for a while. */
  async run(fault: Fault): Promise<{ readonly recoveryMs: number }> {
    this.#disturbances += 1;
    const startedAt = performance.now();
    const fromMs = Date.now();
    await this.#make(fault);
    const endedAt = performance.now();
    for (let calmSince: number | undefined; ; await delay(POLL_MS)) {
      const now = performance.now();
      const reasons = await this.#notReady();
      if (reasons.length > 0) calmSince = undefined;
      else calmSince ??= now;
      if (calmSince !== undefined && now - calmSince >= CALM_MS) break;
      if (now - startedAt > RECOVERY_MS_MAX) {
        this.differences.push(`not ready ${RECOVERY_MS_MAX} ms after ${fault}: ${reasons.join()}`);
        break;
      }
    }
    this.#disturbances += 1;
    this.windows.push({ fault, fromMs, toMs: Date.now() });
    this.done.set(fault, (this.done.get(fault) ?? 0) + 1);
    return { recoveryMs: performance.now() - endedAt - CALM_MS };
  }

  /** Pid of the process that does the work of a part. */
  pidOf(name: (typeof KILLED)[number]): number | undefined {
    const pid = this.#service.pidOf(name);
    return name === 'nats' ? childPid(pid, 'nats-server') : pid;
  }

  async #make(fault: Fault): Promise<void> {
    const whileMs = CUT_MS.least + this.#random() * CUT_MS.spread;
    if (fault === 'metadata API' || fault === 'chain node') {
      const part = fault === 'chain node' ? this.#rpc : this.#gamma;
      part.down();
      await delay(whileMs);
      part.up();
      return;
    }
    const pid = this.pidOf(fault);
    if (pid === undefined) throw new Error(`no process of ${fault}`);
    const starts = this.#starts(fault);
    process.kill(pid, 'SIGKILL');
    const until = performance.now() + RECOVERY_MS_MAX;
    while (this.#starts(fault) === starts && performance.now() < until) await delay(POLL_MS);
  }

  #starts(name: string): number {
    const { lines } = this.#service.up;
    return lines.filter((one) => one.event === 'starting' && one.name === name).length;
  }

  /** The parts that are not ready. */
  async #notReady(): Promise<readonly string[]> {
    const urls = (['api', 'projector', 'ingest'] as const).map((name) => {
      const line = this.#service.up.lines.findLast(
        (one) => one.event === 'metrics' && one.name === name,
      );
      return [name, String(line?.url).replace('/metrics', '/readyz')] as const;
    });
    const asked = await Promise.all(
      urls.map(async ([name, url]) => ((await isReady(url)) ? [] : [name])),
    );
    return asked.flat();
  }
}

async function isReady(url: string): Promise<boolean> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(2_000) });
    await response.arrayBuffer();
    return response.status === 200;
  } catch (error) {
    if (error instanceof TypeError || (error as Error).name === 'TimeoutError') return false;
    throw error;
  }
}
