/** The listeners of a measurement, in a process of their own (feed-load.ts). */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { LoadOrder, LoadReport, Place } from './feed-load.ts';

const SAMPLED = 100;
const OPENED_PER_SECOND = 1_000;
const SETTLED_MS = 500;
/** Files of a process that are no listeners. */
const OTHER_FILES = 100;

/** Listeners that one process can have, or one api. */
export function listenersMax(): number {
  const limits = readFileSync('/proc/self/limits', 'utf8');
  const [, soft = '1024'] = /^Max open files\s+(\d+)/m.exec(limits) ?? [];
  return Number(soft) - OTHER_FILES;
}

export class Listeners {
  readonly #load = fork(join(import.meta.dirname, 'feed-load.ts'), { serialization: 'advanced' });
  readonly #order: Omit<LoadOrder, 'places'>;

  /** For so many listeners; latencies are kept for all of them, or for about a hundred. */
  constructor(count: number, options: { readonly returns: boolean; readonly samplesAll: boolean }) {
    const sampleEvery = options.samplesAll ? 1 : Math.ceil(count / SAMPLED);
    this.#order = { returns: options.returns, sampleEvery, openedPerSecond: OPENED_PER_SECOND };
  }

  /** Opens a listener at each of these places; resolves when all have a response. */
  async open(places: readonly Place[]): Promise<void> {
    this.#load.send({ ...this.#order, places } satisfies LoadOrder);
    await once(this.#load, 'message');
  }

  /** Forgets what was measured so far, or cuts every connection. */
  send(what: 'start' | 'cut'): void {
    this.#load.send(what);
  }

  async report(): Promise<LoadReport> {
    this.#load.send('report');
    const [report] = (await once(this.#load, 'message')) as [LoadReport];
    return report;
  }

  /** Resolves with the report once no more events arrive. */
  async settled(): Promise<LoadReport> {
    for (let before = -1; ; ) {
      const report = await this.report();
      const events = sum(report.events);
      if (events === before) return report;
      before = events;
      await delay(SETTLED_MS);
    }
  }

  async end(): Promise<void> {
    const exit = once(this.#load, 'exit');
    this.#load.disconnect();
    await exit;
  }
}

export function sum(values: readonly number[]): number {
  return values.reduce((all, one) => all + one, 0);
}
