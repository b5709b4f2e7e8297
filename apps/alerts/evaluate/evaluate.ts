/**
 * Follows FEED and publishes what the alerts send. One process at a time does this, under a lease. How far it is, is stored after
 * everything up to there is stored, so a successor repeats a second of events with their ids, and skips none.
 */
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
import { decodeFeedEvent, FEED_STREAM } from '../../../ingest/contract.ts';
import { ALERTS_STREAM, AlertMessage, PROGRESS_BUCKET, publishEvent } from '../logs.ts';
import type { AlertMetrics } from '../metrics.ts';
import type { Evaluator } from './evaluator.ts';

const PROGRESS_KEY = 'feed';
const STORE_PROGRESS_MS = 1_000;
const STORED_AT_ONCE = 500;
/** FEED is not exactly in the order of detection, nor are clocks the same. */
const MARGIN_MS = 60_000;

const Progress = z.object({
  /** Sequence in FEED up to which everything that alerts send is stored. */
  feed: z.int().min(0),
  /** Sequence in ALERTS from which on there are events that may have to be taken back. */
  alerts: z.int().min(0),
});
type Progress = z.infer<typeof Progress>;

export type EvaluateOptions = {
  readonly nats: Nats;
  readonly logger: Logger;
  readonly evaluator: Evaluator;
  readonly metrics: AlertMetrics;
  readonly replicas: number;
  readonly signal: AbortSignal;
};

/** Resolves when the signal aborts. Rejects with StreamRewoundError if FEED lost its end, and with errors that no retry mends. */
export async function evaluateFeed(options: EvaluateOptions): Promise<void> {
  const { evaluator, logger, metrics, nats, signal } = options;
  const bucket = await openKv(nats, PROGRESS_BUCKET, { replicas: options.replicas });
  const stored = await storedProgress(bucket);
  const { firstSequence, lastSequence } = await streamState(nats, FEED_STREAM);
  // Without progress, alerts begin now. Beyond the end, FEED was lost.
  const isKnown = stored !== undefined && stored.feed <= lastSequence;
  const from = isKnown ? stored.feed : lastSequence;
  if (stored !== undefined && !isKnown) logger.error({ stored }, 'FEED was lost; alerts begin now');
  if (isKnown && from + 1 < firstSequence) {
    logger.error({ from, firstSequence }, 'FEED no longer holds events that were not evaluated');
  }
  if (isKnown) await recollect(options, stored);
  await remember(options, from);

  let progress: Progress = { feed: from, alerts: stored?.alerts ?? 0 };
  let storedAtMs = 0;
  const store = async () => {
    const oldest = evaluator.open.oldest(Date.now());
    const alerts = oldest?.sequence ?? (await streamState(nats, ALERTS_STREAM)).lastSequence + 1;
    progress = { ...progress, alerts };
    await bucket.put(PROGRESS_KEY, JSON.stringify(progress));
    storedAtMs = Date.now();
  };
  await store();
  logger.info({ event: 'evaluating', ...progress, alerts: evaluator.size }, 'evaluating alerts');
  for await (const batch of tailBatches(nats, {
    ...{ stream: FEED_STREAM, fromSequence: from + 1, signal },
  })) {
    await evaluate(options, batch);
    progress = { ...progress, feed: batch.at(-1)?.sequence ?? progress.feed };
    metrics.open.set(evaluator.open.size);
    if (Date.now() - storedAtMs >= STORE_PROGRESS_MS) await store();
  }
}

/** The events in ALERTS that may have to be taken back. */
async function recollect({ evaluator, nats }: EvaluateOptions, { alerts }: Progress) {
  for await (const { data, sequence } of storedSince(nats, ALERTS_STREAM, {
    sequence: Math.max(alerts, 1),
  })) {
    const message = parseValue(AlertMessage, data);
    if (message !== undefined) evaluator.sent(message, sequence);
  }
}

/** Shows the rules the matches that they need to remember, and finds out what became of the events that were sent. */
async function remember({ evaluator, nats }: EvaluateOptions, through: number): Promise<void> {
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
    if (event.kind === 'match') evaluator.match(event, message.messageId);
    else evaluator.sequel(event);
  }
}

/** Resolves when everything that the alerts send about these events is stored. */
async function evaluate(options: EvaluateOptions, batch: readonly StreamMessage[]): Promise<void> {
  const { evaluator, metrics, nats, signal } = options;
  let storing: Promise<void>[] = [];
  for (const { data, messageId } of batch) {
    const event = decodeFeedEvent(data);
    // What takes an event back is stored after it.
    if (event.kind !== 'match' || storing.length > STORED_AT_ONCE) {
      await Promise.all(storing);
      storing = [];
    }
    const messages =
      event.kind === 'match' ? evaluator.match(event, messageId) : evaluator.sequel(event);
    metrics.evaluated.inc();
    for (const message of messages) {
      storing.push(
        publishEvent(nats, message, signal).then((sequence) => {
          evaluator.sent(message, sequence);
          metrics.events.labels(message.event.state).inc();
        }),
      );
    }
  }
  await Promise.all(storing);
}

async function storedProgress(bucket: Kv): Promise<Progress | undefined> {
  const entry = await bucket.get(PROGRESS_KEY);
  return entry === undefined ? undefined : parseValue(Progress, entry.value);
}
