/**
 * Follows FEED and publishes what the alerts send. One process at a time does this, under a lease. How far it is, is stored after
 * everything up to there is stored, so a successor repeats a second of events with their ids, and skips none.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import { z } from 'zod';
import { type Nats, streamState } from '../../../infra/nats/connection.ts';
import { type Kv, openKv, parseValue } from '../../../infra/nats/kv.ts';
import {
  firstMessageAtOrAfter,
  getMessage,
  type StreamMessage,
  storedSince,
  tailBatches,
} from '../../../infra/nats/reader.ts';
import {
  decodeFeedEvent,
  FEED_STREAM,
  type FeedMatch,
  type FeedSequel,
} from '../../../ingest/contract.ts';
import { ALERTS_STREAM, AlertMessage, PROGRESS_BUCKET, publishEvent } from '../logs.ts';
import type { AlertMetrics } from '../metrics.ts';
import { Confirmations } from './confirmations.ts';
import type { Evaluator } from './evaluator.ts';
import { clear, type Lookups } from './lookups.ts';

const STORE_PROGRESS_MS = 1_000;
const STORED_AT_ONCE = 500;
const BOOKED_POLL_MS = 250;
/** FEED is not exactly in the order of detection, nor are clocks the same. */
const MARGIN_MS = 60_000;

const Progress = z.object({
  /** Sequence in FEED up to which everything that alerts send is stored. */
  feed: z.int().min(0),
  /** Sequence in ALERTS from which on there are events that may have to be taken back. */
  alerts: z.int().min(0),
});
type Progress = z.infer<typeof Progress>;

export type Pass = {
  /** Key of its progress and of its lease. */
  readonly name: string;
  /** What its rules look up; absent: nothing. */
  readonly createLookups?: () => Lookups;
  /** Whether this pass evaluates rules of a type. */
  readonly has: (type: string) => boolean;
  /** Reads what the rules have to look up for these matches. Waits while it cannot. */
  readonly load?: (
    lookups: Lookups,
    matches: readonly FeedMatch[],
    until: AbortSignal,
  ) => Promise<void>;
  /** The confirmations whose matches are booked. Waits while it cannot read them. */
  readonly booked?: (
    waiting: Confirmations,
    until: AbortSignal,
  ) => ReturnType<Confirmations['booked']>;
};

export type EvaluateOptions = {
  readonly pass: Pass;
  readonly nats: Nats;
  readonly logger: Logger;
  readonly evaluator: Evaluator;
  /** Of the evaluator, if its rules have any. */
  readonly lookups: Lookups | undefined;
  readonly metrics: AlertMetrics;
  readonly replicas: number;
  readonly signal: AbortSignal;
};

/** Resolves when the signal aborts. Rejects with StreamRewoundError if FEED lost its end, and with errors that no retry mends. */
export async function evaluateFeed(options: EvaluateOptions): Promise<void> {
  const { evaluator, logger, metrics, nats, pass } = options;
  const ended = new AbortController();
  const signal = AbortSignal.any([options.signal, ended.signal]);
  const bucket = await openKv(nats, PROGRESS_BUCKET, { replicas: options.replicas });
  const stored = await storedProgress(bucket, pass.name);
  const known = stored?.feed ?? 0;
  const { firstSequence, lastSequence } = await streamState(nats, FEED_STREAM, known);
  // Without progress, alerts begin now. Beyond the end, FEED was lost.
  const isKnown = stored !== undefined && stored.feed <= lastSequence;
  const from = isKnown ? stored.feed : lastSequence;
  if (stored !== undefined && !isKnown) logger.error({ stored }, 'FEED was lost; alerts begin now');
  if (isKnown && from + 1 < firstSequence) {
    logger.error({ from, firstSequence }, 'FEED no longer holds events that were not evaluated');
  }
  const confirmations = new Confirmations();
  if (isKnown) await recollect(options, stored);
  await remember(options, confirmations, from);

  let evaluated = from;
  let progress: Progress = { feed: from, alerts: stored?.alerts ?? 0 };
  let storedAtMs = 0;
  const store = async () => {
    const oldest = evaluator.open.oldest(Date.now());
    const alerts = oldest?.sequence ?? (await streamState(nats, ALERTS_STREAM)).lastSequence + 1;
    // A restarted process finds the waiting confirmations from here.
    progress = { feed: evaluated, alerts: Math.min(alerts, confirmations.oldest ?? alerts) };
    await bucket.put(pass.name, JSON.stringify(progress));
    storedAtMs = Date.now();
  };
  await store();
  const about = { event: 'evaluating', pass: pass.name, ...progress, alerts: evaluator.size };
  logger.info(about, 'evaluating alerts');
  async function follow(): Promise<void> {
    for await (const batch of tailBatches(nats, {
      ...{ stream: FEED_STREAM, fromSequence: from + 1, signal },
    })) {
      await evaluate({ ...options, signal }, confirmations, batch);
      evaluated = batch.at(-1)?.sequence ?? evaluated;
      metrics.open.labels(pass.name).set(evaluator.open.size);
      if (Date.now() - storedAtMs >= STORE_PROGRESS_MS) await store();
    }
  }
  const parts = [follow(), confirm({ ...options, signal }, confirmations)];
  try {
    await Promise.race(parts);
  } finally {
    ended.abort();
    await Promise.allSettled(parts);
  }
}

/** Sends the confirmations whose matches are booked, until the signal aborts. */
async function confirm(
  { metrics, nats, pass, signal }: EvaluateOptions,
  waiting: Confirmations,
): Promise<void> {
  while (!signal.aborted) {
    const booked = (await pass.booked?.(waiting, signal)) ?? [];
    await Promise.all(
      booked.map(async ({ message, sent }) => {
        await publishEvent(nats, message, signal);
        metrics.events.labels(message.event.state).inc();
        sent();
      }),
    );
    await delay(BOOKED_POLL_MS, undefined, { signal }).catch(() => undefined);
  }
}

/** The events in ALERTS that may have to be taken back. */
async function recollect({ evaluator, nats, pass }: EvaluateOptions, { alerts }: Progress) {
  for await (const { data, sequence } of storedSince(nats, ALERTS_STREAM, {
    sequence: Math.max(alerts, 1),
  })) {
    const message = parseValue(AlertMessage, data);
    if (message !== undefined && pass.has(message.event.type)) evaluator.sent(message, sequence);
  }
}

/** Shows the rules the matches that they need to remember, and finds out what became of the events that were sent. */
async function remember(
  options: EvaluateOptions,
  confirmations: Confirmations,
  through: number,
): Promise<void> {
  const { evaluator, lookups, nats } = options;
  const oldest = evaluator.open.oldest(Date.now());
  const last = through === 0 ? undefined : await getMessage(nats, FEED_STREAM, through);
  const lastMs = last?.timestampMs ?? Date.now();
  const openMs = oldest === undefined ? lastMs : Date.parse(oldest.message.event.timestamp);
  const fromMs = Math.min(openMs, lastMs - evaluator.memorySeconds * 1_000);
  const first = await firstMessageAtOrAfter(nats, FEED_STREAM, fromMs - MARGIN_MS);
  if (first === undefined || first.sequence > through) return;
  for await (const message of storedSince(nats, FEED_STREAM, { sequence: first.sequence })) {
    if (message.sequence > through) return;
    const event = decodeFeedEvent(message.data);
    if (event.kind !== 'match') {
      // Only confirmations may still have to be sent; all other events were stored before the restart.
      followed(options, confirmations, event);
      continue;
    }
    evaluator.prepare(event);
    evaluator.remember(event, message.messageId);
    if (lookups !== undefined) clear(lookups);
  }
}

/** Returns the events to send about the outcome of a match. Confirmations that wait for the booking are queued instead. */
function followed(
  { evaluator, pass }: EvaluateOptions,
  confirmations: Confirmations,
  sequel: FeedSequel,
): readonly AlertMessage[] {
  const open = evaluator.open.ofMatch(sequel.matchId);
  const messages = evaluator.sequel(sequel);
  if (sequel.kind !== 'final' || pass.booked === undefined) return messages;
  return messages.filter((message) => {
    const first = open.find((one) => one.message.event.id === message.event.refers_to);
    return !confirmations.add(message, sequel.blockNumber, first?.sequence ?? 0);
  });
}

/** Resolves when everything that the alerts send about these events is stored. */
async function evaluate(
  options: EvaluateOptions,
  confirmations: Confirmations,
  batch: readonly StreamMessage[],
): Promise<void> {
  const { evaluator, lookups, metrics, nats, pass, signal } = options;
  const events = batch.map(({ data, messageId }) => ({ event: decodeFeedEvent(data), messageId }));
  const matches = events.flatMap(({ event }) => (event.kind === 'match' ? [event] : []));
  for (const match of matches) evaluator.prepare(match);
  if (matches.length > 0 && lookups !== undefined) await pass.load?.(lookups, matches, signal);
  let storing: Promise<void>[] = [];
  for (const { event, messageId } of events) {
    // What takes an event back is stored after it.
    if (event.kind !== 'match' || storing.length > STORED_AT_ONCE) {
      await Promise.all(storing);
      storing = [];
    }
    const messages =
      event.kind === 'match'
        ? evaluator.match(event, messageId)
        : followed(options, confirmations, event);
    metrics.evaluated.inc();
    for (const message of messages) {
      storing.push(
        publishEvent(nats, message, signal).then((stored) => {
          evaluator.sent(stored.message, stored.sequence);
          metrics.events.labels(message.event.state).inc();
        }),
      );
    }
  }
  await Promise.all(storing);
  if (lookups !== undefined) clear(lookups);
}

async function storedProgress(bucket: Kv, name: string): Promise<Progress | undefined> {
  const entry = await bucket.get(name);
  return entry === undefined ? undefined : parseValue(Progress, entry.value);
}
