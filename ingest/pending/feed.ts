/**
 * Writes FEED: every match once, when it is first seen, and its outcome: final, void, or restored after a void. A
 * match has the same id in the mempool and in blocks, and whichever shows it first wins. The ids are kept in memory
 * and read back from the stream after a restart.
 */
import { LRUCache } from 'lru-cache';
import { upTo } from '../../infra/lru.ts';
import { type Nats, streamState } from '../../infra/nats/connection.ts';
import { firstMessageAtOrAfter, type StreamMessage, storedSince } from '../../infra/nats/reader.ts';
import type { StreamWriter } from '../../infra/nats/writer.ts';
import {
  type AboutMatch,
  type Address,
  encodeFeedEvent,
  FEED_FINAL_SUBJECT,
  FEED_MATCH_SUBJECT,
  FEED_RESTORED_SUBJECT,
  FEED_STREAM,
  FEED_VOID_SUBJECT,
  type FeedFill,
  type FeedMatch,
  type FeedSequel,
  feedSequelId,
  type Hash,
} from '../contract.ts';
import type { CalledFill, MatchedFill } from '../events/match-call.ts';
import type { Metadata } from '../metadata/metadata.ts';

/** Ids of matches and of their sequels. */
const IDS_MAX = 400_000;
/** A match is shown at most this long before or after the time of its block. */
const FORGOTTEN_SLACK_MS = 60_000;
const SEQUEL_SUBJECTS = {
  void: FEED_VOID_SUBJECT,
  restored: FEED_RESTORED_SUBJECT,
  final: FEED_FINAL_SUBJECT,
} as const;
/** A match waits this long for unknown metadata, then is shown without it. */
const METADATA_MS = 250;
/** After such a timeout, no match waits for this long, so an unavailable metadata API delays few matches. */
const METADATA_PAUSE_MS = 2_000;

/** A fill to be shown; `order` is null if the calldata is unknown. */
export type ShownFill = MatchedFill & {
  readonly outcomeIndex: 0 | 1;
  readonly order: CalledFill['order'] | null;
};

export type ShownMatch = {
  readonly id: string;
  readonly txHash: string;
  readonly exchange: string;
  readonly conditionId: Hash;
  readonly detectedAtMs: number;
  readonly pending: boolean;
  /** Null for a match of a final block. */
  readonly sent: FeedMatch['sent'] | null;
  readonly taker: ShownFill;
  readonly makers: readonly ShownFill[];
};

export class FeedWriter {
  readonly #writer: Pick<StreamWriter, 'append' | 'flush'>;
  readonly #metadata: Pick<Metadata, 'learn' | 'feedMarket' | 'feedTrader'>;
  readonly #idsMax: number;
  /** With the time of a match that was shown before it was final, else 0. */
  readonly #ids: LRUCache<string, number>;
  /** Times of matches that were shown before they were final and whose ids were dropped. */
  readonly #forgotten: { readonly fromMs: number; toMs: number }[] = [];
  #impatientUntilMs = Number.NEGATIVE_INFINITY;

  constructor(
    writer: Pick<StreamWriter, 'append' | 'flush'>,
    metadata: Pick<Metadata, 'learn' | 'feedMarket' | 'feedTrader'>,
    idsMax = IDS_MAX,
  ) {
    this.#writer = writer;
    this.#metadata = metadata;
    this.#idsMax = idsMax;
    this.#ids = new LRUCache({
      ...upTo(idsMax),
      dispose: (shownAtMs, _id, reason) => {
        if (reason === 'evict' && shownAtMs > 0) this.#forget(shownAtMs, shownAtMs);
      },
    });
  }

  /**
   * Loads the ids of messages stored since a time, so that nothing is shown twice after a restart, and calls `visit`
   * with each message. `visit` returns whether the message is a match that may not have been final. Resolves with true
   * if all ids since that time are remembered: FEED has removed none of them, and there was room.
   */
  async restore(
    nats: Nats,
    sinceMs: number,
    visit: (message: StreamMessage) => boolean,
  ): Promise<boolean> {
    const first = await firstMessageAtOrAfter(nats, FEED_STREAM, sinceMs);
    if (first === undefined) return false;
    const { sequence } = first;
    const { firstSequence } = await streamState(nats, FEED_STREAM);
    let read = 0;
    for await (const message of storedSince(nats, FEED_STREAM, { sequence })) {
      const isEarly = visit(message);
      this.remember(message.messageId, isEarly ? message.timestampMs : 0);
      read += 1;
    }
    // FEED removes its oldest messages first.
    const isHeld = sequence === 1 || sequence > firstSequence;
    return isHeld && read <= this.#idsMax;
  }

  /** True if a message with this id was published before. */
  has(id: string): boolean {
    return this.#ids.has(id);
  }

  /** `shownAtMs`: when a match was shown, if it may not have been final yet. */
  remember(id: string, shownAtMs = 0): void {
    this.#ids.set(id, shownAtMs);
  }

  /**
   * Publishes the match and resolves with it when it is stored. Resolves with undefined if it was shown before, or if
   * its block is final and from a time whose ids were dropped, because LEDGER was far behind the head.
   */
  async show(match: ShownMatch): Promise<FeedMatch | undefined> {
    const isFinal = match.sent === null;
    if (this.#ids.has(match.id) || (isFinal && this.#forgot(match.detectedAtMs))) return undefined;
    this.remember(match.id, isFinal ? 0 : match.detectedAtMs);
    await this.#learn(match);
    const message: FeedMatch = {
      kind: 'match',
      txHash: match.txHash as Hash,
      conditionId: match.conditionId as Hash,
      detectedAtMs: match.detectedAtMs,
      pending: match.pending,
      ...(match.sent === null ? {} : { sent: match.sent }),
      market: this.#metadata.feedMarket(match.conditionId, match.exchange),
      taker: this.#fill(match.taker),
      makers: match.makers.map((fill) => this.#fill(fill)),
    };
    await this.#writer.append({
      id: match.id,
      subject: FEED_MATCH_SUBJECT,
      data: encodeFeedEvent(message),
    });
    return message;
  }

  /** The fields of a sequel, for a match whose message is not in memory; tags and series are the current ones. */
  about(match: Omit<ShownMatch, 'pending' | 'sent'>): AboutMatch {
    const { tags, seriesSlug } = this.#metadata.feedMarket(match.conditionId, match.exchange);
    return {
      matchId: match.id,
      txHash: match.txHash as Hash,
      conditionId: match.conditionId as Hash,
      detectedAtMs: Date.now(),
      traders: [...new Set([match.taker, ...match.makers].map(({ trader }) => trader as Address))],
      tags,
      seriesSlug,
      usdc: match.taker.usdc,
      shares: match.taker.shares,
    };
  }

  /** Resolves when everything published so far is stored. */
  async flush(): Promise<void> {
    await this.#writer.flush();
  }

  /** Publishes a sequel, once per match and kind. */
  async publish(sequel: FeedSequel): Promise<void> {
    const id = feedSequelId(sequel.kind, sequel.matchId);
    if (this.#ids.has(id)) return;
    this.remember(id);
    const subject = SEQUEL_SUBJECTS[sequel.kind];
    await this.#writer.append({ id, subject, data: encodeFeedEvent(sequel) });
  }

  /** Waits briefly for unknown metadata, unless the last wait timed out. */
  async #learn({ conditionId, taker, makers }: ShownMatch): Promise<void> {
    const traders = new Set([taker, ...makers].map((fill) => fill.trader));
    const startedAt = performance.now();
    const waitMs = startedAt < this.#impatientUntilMs ? 0 : METADATA_MS;
    await this.#metadata.learn([conditionId], traders, waitMs);
    const endedAt = performance.now();
    // Timers may fire a millisecond early.
    if (waitMs > 0 && endedAt - startedAt >= waitMs - 1) {
      this.#impatientUntilMs = endedAt + METADATA_PAUSE_MS;
    }
  }

  #forget(fromMs: number, toMs: number): void {
    const last = this.#forgotten.at(-1);
    // Ids are dropped in the order in which they were shown. A pause, for instance an outage, stays between two ranges.
    if (last !== undefined && fromMs - last.toMs <= FORGOTTEN_SLACK_MS) {
      last.toMs = Math.max(last.toMs, toMs);
    } else this.#forgotten.push({ fromMs, toMs });
  }

  #forgot(timeMs: number): boolean {
    return this.#forgotten.some(
      ({ fromMs, toMs }) =>
        timeMs >= fromMs - FORGOTTEN_SLACK_MS && timeMs <= toMs + FORGOTTEN_SLACK_MS,
    );
  }

  #fill(fill: ShownFill): FeedFill {
    return {
      orderHash: fill.orderHash,
      side: fill.side,
      outcomeIndex: fill.outcomeIndex,
      tokenId: fill.tokenId,
      shares: fill.shares,
      usdc: fill.usdc,
      fee: fill.fee,
      trader: this.#metadata.feedTrader(fill.trader),
      order: fill.order,
    };
  }
}
