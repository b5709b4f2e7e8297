/**
 * Reports what `npm start` is waiting for: the parts that are starting, and later the reasons in the api's /readyz.
 * Reports every change and, while it is waiting, at least every ten seconds.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import type { Reasons } from '../infra/metrics-server.ts';
import type { Report } from './supervise.ts';

const POLL_MS = 100;
const CHECK_MS = 2_000;
/** Longer than the api's own checks take. */
const ANSWER_MS_MAX = 3_000;
/** Together with the two above, below ten seconds, the longest silence. */
const REPORT_MS = 4_000;

const OfProcess = z.object({ reasons: z.record(z.string(), z.string()) });
const OfApi = z.object({
  checks: z.record(z.string(), z.object({ ready: z.boolean(), detail: z.string() })),
});

export class Watch {
  /** Every other part must report through this. */
  readonly report: Report;
  /** What we are waiting for, with the URL of the process's /readyz once it is known. */
  readonly #awaited = new Map<string, string>();
  readonly #timer: NodeJS.Timeout;
  readonly #stop = new AbortController();

  #reportedAt = 0;

  constructor(report: Report) {
    this.report = (message) => {
      this.#reportedAt = performance.now();
      report(message);
    };
    this.#timer = setInterval(() => void this.#reportAwaited(), CHECK_MS);
  }

  /** Reports that we are waiting for `what` until the work is done. */
  async waitFor<T>(what: string, work: Promise<T>): Promise<T> {
    this.#awaited.set(what, '');
    try {
      return await work;
    } finally {
      this.#awaited.delete(what);
    }
  }

  /** Call this with the URL of a process's metrics, next to which is its readiness. */
  serves(name: string, metricsUrl: string): void {
    if (this.#awaited.has(name)) {
      this.#awaited.set(name, metricsUrl.replace('/metrics', '/readyz'));
    }
  }

  async untilReady(apiUrl: string): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted && Object.keys(await reasonsOfApi(`${apiUrl}/readyz`)).length > 0) {
      await delay(POLL_MS, undefined, { signal }).catch(() => undefined);
    }
  }

  /** Polls the api until `close`. */
  async follow(apiUrl: string): Promise<void> {
    const { signal } = this.#stop;
    let before = '';
    let reportedAt = 0;
    for (;;) {
      await delay(CHECK_MS, undefined, { signal }).catch(() => undefined);
      const reasons = await reasonsOfApi(`${apiUrl}/readyz`);
      if (signal.aborted) return;
      const parts = Object.keys(reasons).join();
      if (parts === before && (parts === '' || performance.now() - reportedAt < REPORT_MS))
        continue;
      this.report(parts === '' ? { event: 'ready_again' } : { event: 'not_ready', reasons });
      before = parts;
      reportedAt = performance.now();
    }
  }

  close(): void {
    clearInterval(this.#timer);
    this.#stop.abort();
  }

  /** Does nothing if something else was reported recently. */
  async #reportAwaited(): Promise<void> {
    if (performance.now() - this.#reportedAt < REPORT_MS) return;
    const awaited = await Promise.all(
      [...this.#awaited].map(async ([name, url]) => {
        const reasons = url === '' ? {} : await reasonsOfProcess(url);
        return [name, reasons] as const;
      }),
    );
    if (awaited.length === 0 || this.#stop.signal.aborted) return;
    this.report({ event: 'waiting', for: Object.fromEntries(awaited) });
  }
}

async function reasonsOfProcess(url: string): Promise<Reasons> {
  const answer = await answerOf(url, OfProcess);
  return answer?.reasons ?? { process: 'does not respond' };
}

async function reasonsOfApi(url: string): Promise<Reasons> {
  const answer = await answerOf(url, OfApi);
  if (answer === undefined) return { api: 'does not respond' };
  const unready = Object.entries(answer.checks).filter(([, { ready }]) => !ready);
  return Object.fromEntries(unready.map(([part, { detail }]) => [part, detail]));
}

/** Undefined if the process is dead, stalled or restarting. */
async function answerOf<T>(url: string, schema: z.ZodType<T>): Promise<T | undefined> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(ANSWER_MS_MAX) });
    return schema.parse(await response.json());
  } catch {
    return undefined;
  }
}
