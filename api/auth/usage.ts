/**
 * Requests of each account today (UTC), over all api processes. Each process writes its own counts to a
 * bucket and watches those of the others. Their counts are about FLUSH_MS old, or some seconds with
 * more than WRITES_MAX active accounts; a killed process loses what it has not written. Clients see
 * these counts, but no limit depends on them.
 */
import { createHash, randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import { z } from 'zod';
import type { Kv } from '../../infra/nats/kv.ts';

export const USAGE_BUCKET = 'usage';
/** Only today's counts matter; two days allow for clocks that differ. */
export const USAGE_TTL_MS = 48 * 3_600_000;

const Count = z.int().min(0);

export type Usage = {
  /** Counts one request. */
  count(account: string): void;
  /** Today's requests in all processes, as far as this one knows. */
  today(account: string): number;
  /** Resolves after `close`; rejects when the bucket can no longer be watched. */
  readonly watching: Promise<void>;
  /** Writes the remaining counts. */
  close(): Promise<void>;
};

const FLUSH_MS = 1_000;
/** Per flush; accounts that waited longest come first. */
const WRITES_MAX = 50;
const DAY_MS = 86_400_000;
const KEY = /^(\d{4}-\d\d-\d\d)\.([0-9a-f]{32})\.([0-9a-f-]{36})$/;

/** Resolves once the counts of all processes are known. */
export async function openUsage(options: {
  readonly bucket: Pick<Kv, 'put' | 'watch'>;
  readonly logger: Logger;
  /** Milliseconds since the epoch. */
  readonly now?: () => number;
}): Promise<Usage> {
  const { bucket, logger, now = Date.now } = options;
  const instance = randomUUID();
  /** This process's counts of today by account, and the accounts whose count is not written yet. */
  const own = new Map<string, number>();
  const unwritten = new Set<string>();
  /** Other processes' counts of today: account token → process → count. */
  const others = new Map<string, Map<string, number>>();
  let day = dayOf(now());
  let date = dateOf(day);
  const stop = new AbortController();
  const initialised = Promise.withResolvers<void>();

  function turnDay(): void {
    const today = dayOf(now());
    if (today === day) return;
    day = today;
    date = dateOf(day);
    own.clear();
    unwritten.clear();
    others.clear();
  }

  function learn(key: string, value: Uint8Array): void {
    const [, keyDate, token = '', process = ''] = KEY.exec(key) ?? [];
    turnDay();
    if (keyDate !== date || process === instance) return;
    const count = Count.safeParse(Number(new TextDecoder().decode(value)));
    if (!count.success) return;
    const known = others.get(token) ?? new Map<string, number>();
    others.set(token, known.set(process, count.data));
  }

  async function follow(): Promise<void> {
    for await (const event of bucket.watch(stop.signal)) {
      if (event.type === 'initialised') initialised.resolve();
      else if (event.type === 'put') learn(event.key, event.value);
    }
  }
  const watching = follow();
  watching.catch(initialised.reject);
  await initialised.promise;

  async function flush(writesMax: number): Promise<void> {
    turnDay();
    for (const account of [...unwritten].slice(0, writesMax)) {
      unwritten.delete(account);
      const key = `${date}.${tokenOf(account)}.${instance}`;
      try {
        await bucket.put(key, String(own.get(account) ?? 0));
      } catch (error) {
        // The next flush writes it.
        unwritten.add(account);
        logger.warn({ err: error }, 'usage could not be written, retrying');
        return;
      }
    }
  }

  async function keepFlushing(): Promise<void> {
    while (!stop.signal.aborted) {
      await delay(FLUSH_MS, undefined, { signal: stop.signal, ref: false }).catch(() => undefined);
      await flush(stop.signal.aborted ? unwritten.size : WRITES_MAX);
    }
  }
  const flushing = keepFlushing();

  return {
    count(account) {
      turnDay();
      own.set(account, (own.get(account) ?? 0) + 1);
      unwritten.add(account);
    },
    today(account) {
      turnDay();
      const elsewhere = others.get(tokenOf(account))?.values() ?? [];
      return [...elsewhere].reduce((sum, count) => sum + count, own.get(account) ?? 0);
    },
    watching,
    async close() {
      stop.abort();
      await flushing;
      await watching;
    },
  };
}

/** An account name of any characters as part of a bucket key. */
function tokenOf(account: string): string {
  return createHash('sha256').update(account).digest('hex').slice(0, 32);
}

/** Days since the epoch: cheaper to compare than dates. */
function dayOf(ms: number): number {
  return Math.floor(ms / DAY_MS);
}

function dateOf(day: number): string {
  return new Date(day * DAY_MS).toISOString().slice(0, 10);
}
