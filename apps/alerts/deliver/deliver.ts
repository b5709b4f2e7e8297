/**
 * Delivers events to destinations. Each destination has a queue of its own on the server, and a loop while something waits in it.
 * Several processes may deliver: the server gives each message to one of them, and again if that one dies.
 *
 * What failed is tried again with growing pauses. A destination that fails gets one event at a time, with growing pauses of its own, so
 * that few of its events wait for a later attempt when it works again. After three days it is disabled.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { LRUCache } from 'lru-cache';
import type { Logger } from 'pino';
import type { AccountStore } from '../../../api/auth/account-store.ts';
import { upTo } from '../../../infra/lru.ts';
import { type Nats, NatsUnavailableError } from '../../../infra/nats/connection.ts';
import { parseValue } from '../../../infra/nats/kv.ts';
import {
  onPublished,
  queueOf,
  removeQueue,
  type Work,
  waitingBySubject,
  workFrom,
} from '../../../infra/nats/work-queue.ts';
import { createSlots, type Slots } from '../../../infra/slots.ts';
import { type DestinationRecord, urlOf } from '../destination.ts';
import { AlertEvent } from '../event.ts';
import { DELIVERIES_STREAM, DELIVERIES_SUBJECTS, deliveriesSubject } from '../logs.ts';
import type { AlertMetrics } from '../metrics.ts';
import { storeAttempt } from './attempts.ts';
import { type SendOptions, type Sent, sendEvent } from './send.ts';

/** Events of one destination on their way at once, in each process. */
const AT_ONCE = 16;
/** Of one account and host, over all its destinations. */
const AT_ONCE_PER_HOST = 32;
/** Shorter than the time after which the server gives the event to another process. */
const SLOT_MS_MAX = 5_000;
/** Events of one destination that are on their way or wait for another attempt. */
const PENDING_MAX = 64;
const HOSTS_MAX = 10_000;
const SWEEP_MS = 5_000;
const RETRY_MS = 1_000;
const FIRST_PAUSE_MS = 5_000;
const PAUSE_MS_MAX = 15 * 60_000;
/** A destination that fails is tried at least so often. */
const PROBE_MS_MAX = 5 * 60_000;
/** Statuses that refuse this event, whatever else the destination takes. */
const REFUSALS = new Set([400, 413, 422]);
/** For so long, a receiver may be repaired. */
const REFUSED_MS_MAX = 24 * 3_600_000;
const FAILING_MS_MAX = 3 * 24 * 3_600_000;
/** On shutdown, attempts may end within this time. */
const STOP_MS = 1_500;

export type DeliverOptions = SendOptions & {
  readonly nats: Nats;
  readonly logger: Logger;
  readonly destinations: Pick<AccountStore<DestinationRecord>, 'known' | 'change'>;
  readonly metrics: AlertMetrics;
  /** Pause before the second attempt; grows threefold; default 5 s. */
  readonly firstPauseMs?: number;
};

export type Delivering = {
  /** A destination was created, changed or deleted. */
  readonly changed: (id: string) => void;
  /** Resolves when nothing is on its way any more. */
  readonly stop: () => Promise<void>;
};

export function startDelivering(options: DeliverOptions): Delivering {
  const { destinations, logger, metrics, nats } = options;
  const stopping = new AbortController();
  const { signal } = stopping;
  const cutting = new AbortController();
  const loops = new Map<string, Promise<void>>();
  /** What the owner set, by destination. */
  const settings = new Map<string, string>();
  /** Of destinations that fail. */
  const pauses = new Map<string, AbortController>();
  /** How often in a row a destination failed; attempts at the same time count once. */
  const failures = new Map<string, number>();
  const hosts = new LRUCache<string, Slots>(upTo(HOSTS_MAX));

  /** The owner changed it. */
  function changed(id: string): void {
    const { enabled, target } = destinations.known(id) ?? {};
    const setting = JSON.stringify([enabled, target]);
    // The service itself notes since when one fails.
    if (settings.get(id) !== setting) {
      failures.delete(id);
      metrics.failing.set(failures.size);
      pauses.get(id)?.abort();
    }
    if (target === undefined) settings.delete(id);
    else settings.set(id, setting);
    wake(id);
  }

  function wake(id: string): void {
    if (signal.aborted || loops.has(id) || destinations.known(id)?.enabled !== true) return;
    const loop = deliverTo(id)
      .catch((err: unknown) => {
        // The next sweep starts it again.
        if (!(err instanceof NatsUnavailableError)) logger.error({ err, id }, 'delivery stopped');
      })
      .finally(() => loops.delete(id));
    loops.set(id, loop);
  }

  /** Resolves when nothing has waited for a while. */
  async function deliverTo(id: string): Promise<void> {
    const subject = deliveriesSubject(id);
    const queue = await queueOf(nats, DELIVERIES_STREAM, {
      ...{ name: id, subject, pendingMax: PENDING_MAX },
    });
    const running = new Set<Promise<void>>();
    try {
      while (!signal.aborted && destinations.known(id)?.enabled === true) {
        const failed = failures.get(id) ?? 0;
        const free = (failed > 0 ? 1 : AT_ONCE) - running.size;
        // Each request for work costs the server something.
        if (free <= 0 || running.size > AT_ONCE / 2) {
          await Promise.race(running);
          continue;
        }
        if (failed > 1) {
          const pause = new AbortController();
          pauses.set(id, pause);
          const either = AbortSignal.any([signal, pause.signal]);
          const pauseMs = Math.min(
            pauseAfter(failed - 1, NO_WISH, options.firstPauseMs),
            PROBE_MS_MAX,
          );
          await delay(pauseMs, undefined, { signal: either }).catch(() => undefined);
          pauses.delete(id);
        }
        let isIdle = true;
        for await (const batch of workFrom(nats, queue, free, signal)) {
          isIdle = false;
          for (const work of batch) {
            const attempt = attemptTo(id, work).finally(() => running.delete(attempt));
            running.add(attempt);
          }
        }
        if (!isIdle || running.size > 0) continue;
        const waiting = await waitingBySubject(nats, DELIVERIES_STREAM, subject);
        if ((waiting.get(subject) ?? 0) === 0) return;
      }
    } finally {
      await Promise.all(running);
    }
  }

  /** Never rejects: what is not acknowledged is delivered again. */
  async function attemptTo(id: string, work: Work): Promise<void> {
    const destination = destinations.known(id);
    const event = parseValue(AlertEvent, work.data);
    if (destination?.enabled !== true || event === undefined) {
      if (event === undefined) logger.error({ id }, 'an unreadable delivery');
      work.again(SWEEP_MS);
      return;
    }
    try {
      const slot = AbortSignal.any([cutting.signal, AbortSignal.timeout(SLOT_MS_MAX)]);
      await slotsOf(destination)(slot, () => attempt(destination, event, work));
    } catch (err) {
      if (!cutting.signal.aborted && !(err instanceof NatsUnavailableError)) {
        const isLate = err instanceof DOMException && err.name === 'TimeoutError';
        if (!isLate) logger.error({ err, id }, 'an attempt failed');
      }
      work.again(cutting.signal.aborted ? 0 : RETRY_MS);
    }
  }

  async function attempt(
    destination: DestinationRecord,
    event: AlertEvent,
    work: Work,
  ): Promise<void> {
    const { id } = destination;
    const startMs = options.now();
    const failedBefore = failures.get(id) ?? 0;
    const sent = await sendEvent(options, destination, event, cutting.signal);
    const isDelivered = sent.result === 'delivered';
    const endMs = options.now();
    const isOver = isDelivered || isGivenUp(destination, sent, endMs - work.storedAtMs);
    const pauseMs = isOver ? null : pauseAfter(work.attempt, sent, options.firstPauseMs);
    if (pauseMs === null) work.done();
    else work.again(pauseMs);
    metrics.attempts.labels(isDelivered ? 'delivered' : 'failed').inc();
    if (isDelivered) {
      metrics.latency.observe(Math.max(0, endMs - Date.parse(event.timestamp)) / 1_000);
      failures.delete(id);
    } else failures.set(id, failedBefore + 1);
    metrics.failing.set(failures.size);
    const { response, status } = sent;
    void storeAttempt(nats, id, {
      ...{ event, attempt: work.attempt, atMs: startMs, tookMs: endMs - startMs },
      ...{ isDelivered, status, response },
      retryAtMs: pauseMs === null ? null : endMs + pauseMs,
    });
    await keepState(destination, sent, endMs);
  }

  /** Stores since when a destination fails, and disables it when it is gone or has failed for too long. */
  async function keepState(used: DestinationRecord, sent: Sent, nowMs: number): Promise<void> {
    const { id } = used;
    const known = destinations.known(id);
    if (known === undefined || !known.enabled) return;
    if (sent.result === 'delivered' && known.failingSince === null) return;
    if (sent.result === 'failed' && known.failingSince !== null && !isTooLong(known, nowMs)) return;
    const changed = await destinations.change(id, (record) =>
      // What it was repaired to is not what failed.
      isDeepStrictEqual(record.target, used.target) ? stateAfter(record, sent, nowMs) : record,
    );
    if (changed?.disabledBecause) {
      logger.warn({ id, because: changed.disabledBecause }, 'a destination was disabled');
    }
  }

  function slotsOf({ account, target }: DestinationRecord): Slots {
    const { host } = new URL(urlOf(target) ?? options.telegramUrl);
    const key = `${account} ${host}`;
    const slots = hosts.get(key) ?? createSlots(AT_ONCE_PER_HOST);
    hosts.set(key, slots);
    return slots;
  }

  /** Also wakes those whose events wait from before, and those whose message was missed. */
  async function sweep(): Promise<void> {
    while (!signal.aborted) {
      try {
        const waiting = await waitingBySubject(nats, DELIVERIES_STREAM, DELIVERIES_SUBJECTS);
        metrics.waiting.set([...waiting.values()].reduce((sum, count) => sum + count, 0));
        for (const subject of waiting.keys()) {
          const id = idOf(subject);
          if (destinations.known(id) !== undefined) wake(id);
          else if ((await destinations.change(id, (record) => record)) === undefined) {
            // It was deleted while something was stored for it.
            await removeQueue(nats, DELIVERIES_STREAM, { name: id, subject });
          }
        }
      } catch (err) {
        if (!(err instanceof NatsUnavailableError)) logger.error({ err }, 'the sweep failed');
      }
      await delay(SWEEP_MS, undefined, { signal }).catch(() => undefined);
    }
  }

  const forget = onPublished(nats, DELIVERIES_SUBJECTS, (subject) => wake(idOf(subject)));
  const sweeping = sweep();
  return {
    changed,
    async stop() {
      forget();
      stopping.abort();
      const timer = setTimeout(() => cutting.abort(), STOP_MS);
      await Promise.allSettled([sweeping, ...loops.values()]);
      clearTimeout(timer);
    },
  };
}

/** A destination after an attempt. */
export function stateAfter(
  record: DestinationRecord,
  sent: Sent,
  nowMs: number,
): DestinationRecord {
  if (sent.result === 'delivered') {
    return record.failingSince === null ? record : { ...record, failingSince: null };
  }
  const failingSince = record.failingSince ?? new Date(nowMs).toISOString();
  if (sent.result === 'gone') {
    return { ...record, failingSince, enabled: false, disabledBecause: 'gone' };
  }
  if (isTooLong(record, nowMs)) return { ...record, enabled: false, disabledBecause: 'failing' };
  return record.failingSince === null ? { ...record, failingSince } : record;
}

function isTooLong({ failingSince }: DestinationRecord, nowMs: number): boolean {
  return failingSince !== null && nowMs - Date.parse(failingSince) > FAILING_MS_MAX;
}

/** An event that a webhook refuses for good must not keep others waiting. Messengers use these statuses for a wrong chat, too. */
export function isGivenUp(
  { target }: Pick<DestinationRecord, 'target'>,
  { status }: Pick<Sent, 'status'>,
  waitedMs: number,
): boolean {
  const isRefused = target.kind === 'webhook' && status !== null && REFUSALS.has(status);
  return isRefused && waitedMs > REFUSED_MS_MAX;
}

const NO_WISH = { retryAfterMs: undefined };

/** 5 s, 15 s, 45 s … 15 min, a fifth more or less, or as long as the destination asks for. */
export function pauseAfter(
  attempt: number,
  { retryAfterMs = 0 }: Pick<Sent, 'retryAfterMs'>,
  firstPauseMs = FIRST_PAUSE_MS,
): number {
  const pauseMs = Math.min(firstPauseMs * 3 ** (attempt - 1), PAUSE_MS_MAX);
  return Math.round(Math.max(pauseMs * (0.8 + 0.4 * Math.random()), retryAfterMs));
}

function idOf(subject: string): string {
  return subject.slice(deliveriesSubject('').length);
}
