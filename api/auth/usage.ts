/**
 * Requests of each account today (UTC), over all api processes. Each process writes its own counts into
 * a bucket and watches those of the others, so a sum is a read of maps. The others' part is at most
 * FLUSH_MS and a moment old, with more than WRITES_MAX accounts at a time some seconds, and what a killed
 * process had not written yet is lost. It is shown, not enforced.
 */
import { createHash, randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import { z } from 'zod';
import type { Kv } from '../../infra/nats/kv.ts';

export const USAGE_BUCKET = 'usage';
/** Yesterday's counts are of no use; two days leave room for any clock. */
export const USAGE_TTL_MS = 48 * 3_600_000;

const Count = z.int().min(0);

export type Usage = {
  /** Counts one request. */
  count(account: string): void;
  /** The requests of today in all processes, as this one knows them. */
  today(account: string): number;
  /** Rejects when the bucket cannot be watched any more; settles after `close`. */
  readonly watching: Promise<void>;
  /** Writes what is not written yet. */
  close(): Promise<void>;
};

const FLUSH_MS = 1_000;
/** Of a flush; those that waited longest come first. */
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
  /** Today's own counts by account, and which of them the bucket lacks. */
  const own = new Map<string, number>();
  const unwritten = new Set<string>();
  /** Others' counts of today: account token → process → counts. */
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
        // Counted on in memory, and written by the next flush.
        unwritten.add(account);
        logger.warn({ err: error }, 'usage could not be written, trying again');
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

/** A name of any characters as a part of a bucket's key. */
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
