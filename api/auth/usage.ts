/**
 * Today's requests (UTC) of each account, across all api processes. Each process writes its own counts to a
 * bucket, in parts, every second or as fast as BYTES_PER_SECOND_MAX allows, and watches the counts of the others. A killed
 * process loses the counts that it has not written. Clients see these counts, but no limit depends on them.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import { z } from 'zod';
import { follow, type Kv, parseValue } from '../../infra/nats/kv.ts';
import { keyOf, PARTS, partOf } from './account-parts.ts';

export const USAGE_BUCKET = 'usage';
/** Only today's counts matter; two days allow for clocks that differ. */
export const USAGE_TTL_MS = 48 * 3_600_000;

const DAY_MS = 24 * 3_600_000;
const FLUSH_MS = 1_000;
const BYTES_PER_SECOND_MAX = 100_000;
/** Keys consist of day, process and part. */
const KEY = /^(\d{4}-\d\d-\d\d)\.([0-9a-f-]{36})\.(\d+)$/;
/** Value of a bucket entry, as JSON: account and count. */
const Counts = z.array(z.tuple([z.string(), z.int().min(0)]));

export type Usage = Awaited<ReturnType<typeof openUsage>>;

/** Resolves once the counts of all processes are known. */
export async function openUsage(options: {
  readonly bucket: Pick<Kv, 'put' | 'watch'>;
  readonly logger: Logger;
  /** Milliseconds since the epoch. */
  readonly now?: () => number;
}) {
  const { bucket, logger, now = Date.now } = options;
  const instance = randomUUID();
  /** This process's counts of today: part → account → count. */
  const own = Array.from({ length: PARTS }, () => new Map<string, number>());
  const unwritten = new Set<number>();
  /** Other processes' counts of today: part → process → account → count. */
  const others = Array.from(
    { length: PARTS },
    () => new Map<string, ReadonlyMap<string, number>>(),
  );
  let day = dayOf(now());
  const stop = new AbortController();

  function turnDay(): void {
    const today = dayOf(now());
    if (today === day) return;
    day = today;
    for (const counts of [...own, ...others]) counts.clear();
    unwritten.clear();
  }

  function learn(key: string, value: Uint8Array): void {
    const [, date, process = '', part = ''] = KEY.exec(key) ?? [];
    turnDay();
    if (date !== dateOf(day) || process === instance) return;
    const counts = parseValue(Counts, value);
    if (counts === undefined) logger.error({ key }, 'unreadable record in the bucket of usage');
    else others[Number(part)]?.set(process, new Map(counts));
  }

  const { watching } = await follow(bucket, stop.signal, (event) => {
    if (event.type === 'put') learn(event.key, event.value);
  });

  /** Resolves with the number of bytes. */
  async function flush(): Promise<number> {
    turnDay();
    let bytes = 0;
    for (const part of [...unwritten]) {
      unwritten.delete(part);
      const value = JSON.stringify([...(own[part] ?? [])]);
      bytes += value.length;
      try {
        await bucket.put(`${dateOf(day)}.${instance}.${part}`, value);
      } catch (error) {
        unwritten.add(part);
        logger.warn({ err: error }, 'usage could not be written, retrying');
        break;
      }
    }
    return bytes;
  }

  async function keepFlushing(): Promise<void> {
    let waitMs = FLUSH_MS;
    while (!stop.signal.aborted) {
      await delay(waitMs, undefined, { signal: stop.signal, ref: false }).catch(() => undefined);
      waitMs = Math.max(FLUSH_MS, (1_000 * (await flush())) / BYTES_PER_SECOND_MAX);
    }
  }
  const flushing = keepFlushing();

  return {
    /** Counts one request. */
    count(account: string): void {
      turnDay();
      const part = partOf(keyOf(account));
      const counts = own[part];
      counts?.set(account, (counts.get(account) ?? 0) + 1);
      unwritten.add(part);
    },
    /** Today's requests in all processes, as known to this one. */
    today(account: string): number {
      turnDay();
      const part = partOf(keyOf(account));
      const elsewhere = [...(others[part]?.values() ?? [])].map(
        (counts) => counts.get(account) ?? 0,
      );
      return elsewhere.reduce((sum, count) => sum + count, own[part]?.get(account) ?? 0);
    },
    /** Resolves after `close`; rejects when the bucket can no longer be watched. */
    watching,
    /** Writes the remaining counts. */
    async close(): Promise<void> {
      stop.abort();
      await flushing;
      await watching;
    },
  };
}

/** Days since the epoch. */
function dayOf(ms: number): number {
  return Math.floor(ms / DAY_MS);
}

function dateOf(day: number): string {
  return new Date(day * DAY_MS).toISOString().slice(0, 10);
}
