/**
 * The faults of a soak, one after the other: kill −9 of each part, of two at once, of the supervisor and of the chain
 * node; each process stalled; the metadata API and the chain node cut off; a full disk; flipped bytes. Kills of each
 * part come in the first quarter, and faults that restart processes at the end, so that memory is measured in
 * long-running processes in between. After each fault everything must be ready again. Flipped bytes, however, must be
 * reported, and the tables are then rebuilt as the message says.
 */
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { DISK_RESERVE_BYTES } from '../../../infra/disk.ts';
import { flipBytes } from '../../support/damage.ts';
import type { FaultWindow } from './soak-logs.ts';
import type { SoakStage } from './soak-stage.ts';

export const KILLED = ['api', 'projector', 'ingest', 'nats', 'clickhouse'] as const;
type Killed = (typeof KILLED)[number];
const CUT = ['metadata API', 'chain node'] as const;
const STALLED = [...KILLED, 'supervisor', 'anvil'] as const;
const OTHERS = ['two at once', 'supervisor', 'anvil', 'full disk'] as const;
export type Fault =
  | Killed
  | (typeof CUT)[number]
  | `stalled ${(typeof STALLED)[number]}`
  | (typeof OTHERS)[number]
  | 'flipped bytes';

/** Parts of the run. */
const FIRST_KILLS = { from: 0.03, to: 0.24 };
const STALLS = { from: 0.25, to: 0.6 };
const LAST_KILLS = { from: 0.66, to: 0.97 };
const CUTS_AT = [0.08, 0.2, 0.3, 0.38, 0.46, 0.54, 0.61, 0.64];
/** Memory is judged up to the second round of kills. */
export const MEMORY_UNTIL = LAST_KILLS.from;

const CUT_MS = { least: 3_000, spread: 12_000 };
const STALL_MS = { least: 5_000, spread: 15_000 };
/** Longer than a part needs to notice that it cannot store anything. */
const FULL_MS = 15_000;
/** Damage must be reported within this time. */
const NAMED_MS_MAX = 60_000;
const RECOVERY_MS_MAX = 120_000;
const POLL_MS = 200;
/** After all parts were ready for this long, requests in flight have finished. */
const CALM_MS = 3_000;

export type Plan = readonly { readonly atMs: number; readonly fault: Fault }[];

export function planOf(durationMs: number, random: () => number): Plan {
  const shuffled = <T>(all: readonly T[]) => all.toSorted(() => random() - 0.5);
  // The ring of a new api fills for 13 minutes at 50 matches a second, so this comes first.
  const apiFirst = (): Fault[] => ['api', ...shuffled(KILLED).filter((name) => name !== 'api')];
  const spread = (names: readonly Fault[], { from, to }: { from: number; to: number }) =>
    names.map((fault, i) => ({
      atMs: durationMs * (from + ((to - from) * i) / names.length),
      fault,
    }));
  const stalls = shuffled(STALLED).map((name): Fault => `stalled ${name}`);
  return [
    ...spread(apiFirst(), FIRST_KILLS),
    ...spread(stalls, STALLS),
    ...spread(shuffled<Fault>([...KILLED, ...OTHERS, ...OTHERS]), LAST_KILLS),
    { atMs: durationMs * LAST_KILLS.to, fault: 'flipped bytes' as const },
    ...CUTS_AT.map((at, i) => ({ atMs: at * durationMs, fault: CUT[i % CUT.length] ?? CUT[0] })),
  ].toSorted((a, b) => a.atMs - b.atMs);
}

export class Disturber {
  readonly #stage: SoakStage;
  readonly #random: () => number;
  #disturbances = 0;
  /** How often each fault was injected. */
  readonly done = new Map<Fault, number>();
  /** How often the supervisor may have restarted each part. */
  readonly restarts = new Map<string, number>();
  readonly windows: FaultWindow[] = [];
  readonly differences: string[] = [];

  constructor(stage: SoakStage, random: () => number) {
    this.#stage = stage;
    this.#random = random;
  }

  /** Odd while a fault is in progress. */
  get disturbances(): number {
    return this.#disturbances;
  }

  /** Injects the fault and resolves when all parts have been ready again for a while. */
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

  async #make(fault: Fault): Promise<void> {
    const stage = this.#stage;
    const some = ({ least, spread }: typeof CUT_MS) => least + this.#random() * spread;
    if (fault === 'metadata API' || fault === 'chain node') {
      const part = fault === 'chain node' ? stage.rpc : stage.gamma;
      part.down();
      await delay(some(CUT_MS));
      part.up();
    } else if (fault === 'supervisor') await stage.killSupervisor();
    else if (fault === 'anvil') await stage.killAnvil();
    else if (fault === 'full disk') await this.#fillDisk();
    else if (fault === 'flipped bytes') await this.#flipBytes();
    else if (fault === 'two at once') {
      const [one = 'api', other = 'nats'] = KILLED.toSorted(() => this.#random() - 0.5);
      await this.#kill([one, other]);
    } else if (fault.startsWith('stalled ')) {
      const name = fault.slice('stalled '.length);
      await this.#stall(name, some(STALL_MS));
    } else await this.#kill([fault as Killed]);
  }

  async #kill(names: readonly Killed[]): Promise<void> {
    const before = names.map((name) => this.#starts(name));
    for (const name of names) {
      this.#mayRestart(name);
      this.#signal(name, 'SIGKILL');
    }
    const until = performance.now() + RECOVERY_MS_MAX;
    const isWaiting = () => names.some((name, i) => this.#starts(name) === before[i]);
    while (isWaiting() && performance.now() < until) await delay(POLL_MS);
  }

  async #stall(name: string, whileMs: number): Promise<void> {
    // A nats-server that does not respond for ten seconds is killed.
    if (name === 'nats') this.#mayRestart(name);
    const pid = this.#signal(name, 'SIGSTOP');
    await delay(whileMs);
    try {
      process.kill(pid, 'SIGCONT');
    } catch (error) {
      if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error;
    }
  }

  async #fillDisk(): Promise<void> {
    const { disk } = this.#stage;
    if (disk === undefined) return;
    this.#mayRestart('nats');
    disk.fill(DISK_RESERVE_BYTES / 2);
    await delay(FULL_MS / 2);
    const reasons = JSON.stringify(this.#stage.lines.findLast((one) => one.event === 'not_ready'));
    if (!/disk full: \d+ of \d+ MB free/.test(reasons)) {
      this.differences.push(`a full disk is not named: ${reasons}`);
    }
    disk.fill();
    await delay(FULL_MS / 2);
    disk.drain();
  }

  /** The api names damage that any read has met; the projector meets it only in the markets that LEDGER names. */
  async #flipBytes(): Promise<void> {
    const { service } = this.#stage;
    await service.query('OPTIMIZE TABLE market_traders FINAL');
    const [part] = await service.query<{ path: string }>(
      "SELECT path FROM system.parts WHERE table = 'market_traders' AND active ORDER BY rows DESC LIMIT 1",
    );
    flipBytes(join(this.#stage.data, 'clickhouse', part?.path ?? ''), /\.bin$/);
    this.#mayRestart('projector');
    this.#signal('projector', 'SIGKILL');
    await service.query('SELECT sum(cityHash64(*)) FROM market_traders').catch(() => undefined);
    const until = performance.now() + NAMED_MS_MAX;
    const isNamed = () =>
      this.#stage.lines.some((line) => /damaged data: .*market_traders/.test(JSON.stringify(line)));
    while (!isNamed() && performance.now() < until) await delay(POLL_MS);
    if (!isNamed()) this.differences.push('damaged data of the table market_traders is not named');
    await this.#stage.rebuildClickHouse();
  }

  #signal(name: string, signal: NodeJS.Signals): number {
    const pid = this.#stage.pidOf(name);
    if (pid === undefined) throw new Error(`no process of ${name}`);
    process.kill(pid, signal);
    return pid;
  }

  #mayRestart(name: string): void {
    this.restarts.set(name, (this.restarts.get(name) ?? 0) + 1);
  }

  #starts(name: string): number {
    const { lines } = this.#stage;
    return lines.filter((one) => one.event === 'starting' && one.name === name).length;
  }

  /** The parts that are not ready. */
  async #notReady(): Promise<readonly string[]> {
    const urls = (['api', 'projector', 'ingest'] as const).map((name) => {
      const line = this.#stage.service.up.lines.findLast(
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
