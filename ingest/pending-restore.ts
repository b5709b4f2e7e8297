/**
 * Restores, after a restart, the matches that FEED showed before they were final, so that no void is
 * lost with the process. Shown, and neither voided nor in LEDGER: still open. Voided as never mined and
 * not restored: may still be mined, as far back as FEED reaches.
 */
import { z } from 'zod';
import type { Nats } from '../infra/nats/connection.ts';
import { readRange } from '../infra/nats/read.ts';
import type { TailMessage } from '../infra/nats/reader.ts';
import {
  decodeFeedEvent,
  FEED_MATCH_SUBJECT,
  FEED_RESTORED_SUBJECT,
  FEED_STREAM,
  FEED_VOID_SUBJECT,
  type FeedEvent,
  type FeedMatch,
  feedMessageId,
} from './contract-feed.ts';
import type { FeedWriter } from './feed.ts';
import { storedMessages } from './ledger.ts';
import { PENDING_MATCHES_MAX, type PendingMatches, VOIDED_MATCHES_MAX } from './pending.ts';

const READ_MESSAGES = 10_000;
/** LEDGER stores a match after FEED does; the servers' clocks may differ. */
const CLOCK_MS = 10_000;

/** Reads FEED since a time into the writer's memory and the table of pending matches. */
export async function restoreFeed(
  nats: Nats,
  sinceMs: number,
  feed: FeedWriter,
  pending: PendingMatches,
): Promise<void> {
  const shown = new Map<string, { readonly match: FeedMatch; readonly storedAtMs: number }>();
  await feed.restore(nats, sinceMs, (message) => {
    if (message.subject !== FEED_MATCH_SUBJECT) return;
    const event = decoded(message);
    if (event?.kind !== 'match' || event.sent === undefined) return;
    shown.set(message.messageId, { match: event, storedAtMs: message.timestampMs });
    const [oldest] = shown.keys();
    if (shown.size > PENDING_MATCHES_MAX && oldest !== undefined) shown.delete(oldest);
  });
  const restored = new Set<string>();
  for await (const event of sequels(nats, FEED_RESTORED_SUBJECT)) {
    if (event.kind === 'restored') restored.add(event.matchId);
  }
  for await (const event of sequels(nats, FEED_VOID_SUBJECT)) {
    if (event.kind !== 'void') continue;
    const match = shown.get(event.matchId)?.match;
    shown.delete(event.matchId);
    // The match may be older than the messages read here; neither it nor its void may be shown again.
    feed.remember(event.matchId);
    if (event.reason !== 'never_mined' || restored.has(event.matchId)) continue;
    pending.takeUpVoided(event, match);
  }
  for (const id of await finalSince(nats, shown)) shown.delete(id);
  for (const [id, { match }] of shown) takeUp(pending, id, match);
}

function takeUp(pending: PendingMatches, id: string, match: FeedMatch): void {
  const { txHash, detectedAtMs, sent } = match;
  if (sent !== undefined) pending.takeUp({ id, txHash, detectedAtMs, ...sent }, match);
}

/** The newest void or restored messages that FEED still holds. */
async function* sequels(nats: Nats, subject: string) {
  const events: FeedEvent[] = [];
  for (let next = 1; ; ) {
    const messages = await readRange(nats, FEED_STREAM, next, READ_MESSAGES, subject);
    for (const message of messages) {
      const event = decoded(message);
      if (event !== undefined) events.push(event);
    }
    events.splice(0, events.length - VOIDED_MATCHES_MAX);
    const last = messages.at(-1);
    if (last === undefined) break;
    next = last.sequence + 1;
  }
  yield* events;
}

/** Ids of matches that LEDGER got since the oldest of these was shown. */
async function finalSince(
  nats: Nats,
  shown: ReadonlyMap<string, { readonly storedAtMs: number }>,
): Promise<readonly string[]> {
  const [oldest] = shown.values();
  if (oldest === undefined) return [];
  const ids: string[] = [];
  const ordinals = new Map<string, number>();
  for await (const { range } of storedMessages(nats, { timeMs: oldest.storedAtMs - CLOCK_MS })) {
    for (const { txHash, fills } of range.blocks.flatMap(({ matches }) => matches)) {
      const takerOrder = fills.at(-1)?.orderHash ?? '';
      const key = `${txHash}:${takerOrder}`;
      const ordinal = ordinals.get(key) ?? 0;
      ordinals.set(key, ordinal + 1);
      ids.push(feedMessageId(txHash, takerOrder, ordinal));
    }
  }
  return ids;
}

/** Undefined if the message is not a FEED event. */
function decoded(message: TailMessage): FeedEvent | undefined {
  try {
    return decodeFeedEvent(message.data);
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof z.ZodError) return undefined;
    throw error;
  }
}
