/**
 * Tracks the matches that were shown before they were final, from the mempool or a new block. Only final blocks, read
 * in order, decide their outcome. If the nonce was used and the match is in none of these blocks, it was reverted or
 * replaced, and the receipt shows which. Timeouts use the chain's time, so neither a node that is down nor a wrong
 * clock can void a match.
 *
 * Invariant: every match that was shown early is in this table until it is final or void. The table is bounded. When
 * it is full, it drops a match that a block already contained, as unconfirmed; if there is none, the new match is not
 * shown early.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import type { Logger } from 'pino';
import { z } from 'zod';
import { upTo } from '../../infra/lru.ts';
import type { Nats } from '../../infra/nats/connection.ts';
import { readRange, type StreamMessage } from '../../infra/nats/reader.ts';
import { countMatches, type SentMatch } from '../chain/blocks.ts';
import {
  decodeFeedEvent,
  FEED_MATCH_SUBJECT,
  FEED_RESTORED_SUBJECT,
  FEED_STREAM,
  FEED_VOID_SUBJECT,
  type FeedEvent,
  type FeedFill,
  type FeedMatch,
  type FeedVoid,
  feedMessageId,
  feedSequelId,
  type VoidReason,
} from '../contract.ts';
import type { MatchedFill } from '../events/match-call.ts';
import { eventsOf, storedMessages } from '../ledger/ledger.ts';
import type { PendingMetrics } from '../metrics.ts';
import type { FeedWriter } from './feed.ts';
import type { MempoolNode } from './mempool.ts';

/** Enough for half an hour at 10 matches per second, or for the 20 s until finality at 500 per second. */
export const PENDING_MATCHES_MAX = 20_000;
/** Matches that were voided as never mined and may still be mined. */
const VOIDED_MATCHES_MAX = 10_000;
/** Consecutive final blocks without a receipt after which a match counts as replaced. */
const ABSENT_MIN = 2;
const JUDGE_MS = 500;

export type Shown = {
  readonly id: string;
  readonly txHash: string;
  readonly sender: string;
  readonly nonce: number;
  readonly detectedAtMs: number;
  /** Timestamp of the block that contained it; missing if it came from the mempool. */
  readonly minedTime?: number;
};

/** A shown match that is not final yet. */
type OpenMatch = Shown & {
  /** Number of heads that had begun to be read when it was shown. */
  readonly heads: number;
  /** Undefined while it is being published. */
  match: FeedMatch | undefined;
  /** The matches of its transaction in a final block, if that was read during publishing. */
  final: FinalMatches | undefined;
  /** Timestamp of its block, or of the first head that was read after it was shown. */
  sinceTime: number | undefined;
  mined: boolean;
  absent: number;
};

type FinalMatches = { readonly block: number; readonly matches: readonly SentMatch[] };

/** Message id of a match in a block. */
export function matchIdOf(match: Pick<SentMatch, 'txHash' | 'fills' | 'ordinal'>): string {
  const { txHash, fills, ordinal } = match;
  return feedMessageId(txHash, fills.at(-1)?.orderHash ?? '', ordinal);
}

/** Voided as never mined. If it is mined after all, `match` (if known) is compared with the final one. */
type Voided = { readonly event: FeedVoid; readonly match: FeedMatch | undefined };

export type BlockTime = { readonly number: number; readonly timestamp: number };

export type PendingOptions = {
  readonly feed: Pick<FeedWriter, 'publish'>;
  readonly node: Pick<MempoolNode, 'transactionCount' | 'receipt'>;
  /** A match that is not mined within this many seconds of chain time counts as never mined. */
  readonly secondsMax: number;
  readonly metrics: PendingMetrics;
  readonly logger: Logger;
};

export class PendingMatches {
  readonly #options: PendingOptions;
  /** By match id, oldest first. */
  readonly #open = new Map<string, OpenMatch>();
  /** One transaction may have several matches. */
  readonly #ofTransaction = new Map<string, ReadonlySet<OpenMatch>>();
  /** By match id. */
  readonly #voided = new LRUCache<string, Voided>(upTo(VOIDED_MATCHES_MAX));
  #heads = 0;
  #head = -1;
  #final: BlockTime | undefined;
  #judged = -1;

  constructor(options: PendingOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#open.size;
  }

  /** Makes room for one more match. Returns false if there is none; then the match must not be shown. */
  makeRoom(): boolean {
    if (this.#open.size < PENDING_MATCHES_MAX) return true;
    // During a catch-up, matches of new blocks wait a long time for their final block.
    for (const entry of this.#open.values()) {
      if (!entry.mined) continue;
      this.#end(entry, 'unconfirmed');
      return true;
    }
    return false;
  }

  /**
   * Call this before publishing a match. Pass `match` if an earlier process published it, and `wasFinal` if it was final
   * in a block that LEDGER lacks now, because its blocks are read again.
   */
  track(shown: Shown, match?: FeedMatch, wasFinal = false): void {
    this.#add({
      ...shown,
      heads: this.#heads,
      match,
      final: undefined,
      sinceTime: shown.minedTime,
      mined: shown.minedTime !== undefined || match?.pending === false || wasFinal,
      absent: 0,
    });
  }

  /** Call this after publishing; `match` is undefined if it had been shown before. */
  async published(id: string, match: FeedMatch | undefined): Promise<void> {
    const entry = this.#open.get(id);
    if (entry === undefined) return;
    if (match === undefined) return this.#end(entry);
    entry.match = match;
    if (entry.final !== undefined) await this.#settle(entry, match, entry.final);
  }

  /** Another process voided the match. If it did so as never mined, the match may still be mined. */
  voidedElsewhere(event: FeedVoid): void {
    const entry = this.#open.get(event.matchId);
    if (entry !== undefined) this.#end(entry);
    if (event.reason === 'never_mined') this.trackVoided(event, entry?.match);
  }

  /** Another process restored a match that had been voided. */
  restoredElsewhere(matchId: string): void {
    this.#voided.delete(matchId);
  }

  /** Remembers a match that was voided as never mined and may still be mined. */
  trackVoided(event: FeedVoid, match: FeedMatch | undefined): void {
    this.#voided.set(event.matchId, { event, match });
  }

  /** Call this before reading a head, and pass the result to `head`. */
  headBegins(): number {
    this.#heads += 1;
    return this.#heads;
  }

  /**
   * Call this after reading a block that is not final yet, with the transactions of its matches. A match's time limit
   * starts with the first new highest head whose reading began (`begun`) after the match was shown: an older time would
   * end the limit too early.
   */
  head({ number, timestamp }: BlockTime, txHashes: Iterable<string>, begun: number): void {
    const isNewest = number > this.#head;
    this.#head = Math.max(this.#head, number);
    for (const entry of isNewest ? this.#open.values() : []) {
      if (entry.heads < begun) entry.sinceTime ??= timestamp;
    }
    for (const txHash of txHashes) {
      for (const entry of this.#inTransaction(txHash)) {
        if (entry.mined) continue;
        entry.mined = true;
        observe(this.#options.metrics.toMined, entry.detectedAtMs);
      }
    }
  }

  /** Whether the match was or is being published and is neither final nor void. */
  has(id: string): boolean {
    return this.#open.has(id);
  }

  /** Publishes that the open matches in a final block are final. Call this in block order. */
  async final(block: BlockTime, matches: readonly SentMatch[]): Promise<void> {
    const byTransaction = Map.groupBy(matches, ({ txHash }) => txHash as string);
    for (const [txHash, found] of byTransaction) {
      const inBlock = { block: block.number, matches: found };
      for (const entry of this.#inTransaction(txHash)) {
        if (entry.match !== undefined) await this.#settle(entry, entry.match, inBlock);
        else entry.final = inBlock;
      }
    }
    for (const match of matches) {
      const voided = this.#voided.get(matchIdOf(match));
      if (voided !== undefined) await this.#restore(voided, match);
    }
    this.#final = { number: block.number, timestamp: block.timestamp };
  }

  /** Checks the open matches after each new final block until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        await this.judge();
      } catch (error) {
        if (signal.aborted) return;
        this.#options.logger.warn({ err: error }, 'pending matches could not be checked, retrying');
      }
      await delay(JUDGE_MS, undefined, { signal }).catch(() => undefined);
    }
  }

  /** Voids the matches that the newest final block rules out. Rejects if the node does not respond. */
  async judge(): Promise<void> {
    const block = this.#final;
    if (block === undefined || block.number === this.#judged) return;
    const { node, secondsMax } = this.#options;
    const due = [...this.#open.values()].filter(
      ({ match, sinceTime }) =>
        match !== undefined && sinceTime !== undefined && sinceTime <= block.timestamp,
    );
    const senders = [...new Set(due.map(({ sender }) => sender))];
    const counts = await Promise.all(
      senders.map((sender) => node.transactionCount(sender, block.number)),
    );
    const used = new Map(senders.map((sender, i) => [sender, counts[i] ?? 0]));
    await Promise.all(
      due.map(async (entry) => {
        const { sender, nonce, sinceTime = block.timestamp } = entry;
        if ((used.get(sender) ?? 0) > nonce) await this.#judgeUsed(entry, block);
        else if (block.timestamp - sinceTime > secondsMax) await this.#void(entry, 'never_mined');
      }),
    );
    this.#judged = block.number;
  }

  /** The nonce was used up to that block, and the match is in none of the blocks so far. */
  async #judgeUsed(entry: OpenMatch, block: BlockTime): Promise<void> {
    const receipt = await this.#options.node.receipt(entry.txHash);
    if (receipt === undefined) {
      entry.absent += 1;
      if (entry.absent >= ABSENT_MIN) await this.#void(entry, 'replaced');
      return;
    }
    entry.absent = 0;
    if (receipt.blockNumber > block.number) return;
    await this.#void(entry, receipt.status === 0 ? 'reverted' : 'unmatched');
  }

  async #settle(entry: OpenMatch, match: FeedMatch, { block, matches }: FinalMatches) {
    const same = matches.find((found) => matchIdOf(found) === entry.id);
    this.#compare(entry.txHash, match, same ?? matches[0]);
    if (same === undefined) return this.#void(entry, 'unmatched');
    if (match.pending) observe(this.#options.metrics.toFinal, entry.detectedAtMs);
    this.#end(entry, 'final');
    await this.#options.feed.publish({
      kind: 'final',
      blockNumber: block,
      ...about(entry.id, match),
    });
  }

  #compare(txHash: string, match: FeedMatch, final: SentMatch | undefined): void {
    if (final === undefined) return;
    const found = differences(match, final.fills);
    if (found.length === 0) return;
    const { metrics, logger } = this.#options;
    for (const { field } of found) metrics.differences.inc({ field });
    logger.error(
      { txHash, differences: found },
      'a final match differs from the pending one that was shown',
    );
  }

  async #void(entry: OpenMatch, reason: VoidReason): Promise<void> {
    // A final block may have settled it during the request.
    if (entry.match === undefined || this.#open.get(entry.id) !== entry) return;
    this.#end(entry, reason);
    const { feed, logger } = this.#options;
    const event: FeedVoid = { kind: 'void', reason, ...about(entry.id, entry.match) };
    if (reason === 'never_mined') this.trackVoided(event, entry.match);
    logger.info({ matchId: entry.id, reason }, 'a match that was shown did not settle');
    await feed.publish(event);
  }

  async #restore({ event, match }: Voided, found: SentMatch): Promise<void> {
    this.#voided.delete(event.matchId);
    if (match !== undefined) this.#compare(event.txHash, match, found);
    this.#options.metrics.restored.inc();
    const { reason: _reason, ...about } = event;
    await this.#options.feed.publish({ ...about, kind: 'restored', detectedAtMs: Date.now() });
  }

  #inTransaction(txHash: string): ReadonlySet<OpenMatch> {
    return this.#ofTransaction.get(txHash) ?? new Set();
  }

  #add(entry: OpenMatch): void {
    const { id, txHash } = entry;
    this.#open.set(id, entry);
    this.#ofTransaction.set(txHash, new Set([...this.#inTransaction(txHash), entry]));
    this.#options.metrics.open.set(this.#open.size);
  }

  #end(entry: OpenMatch, outcome?: VoidReason | 'final' | 'unconfirmed'): void {
    const { metrics } = this.#options;
    const { id, txHash } = entry;
    this.#open.delete(id);
    const others = [...this.#inTransaction(txHash)].filter((other) => other !== entry);
    if (others.length === 0) this.#ofTransaction.delete(txHash);
    else this.#ofTransaction.set(txHash, new Set(others));
    metrics.open.set(this.#open.size);
    if (outcome !== undefined) metrics.ended.inc({ outcome });
  }
}

/** The fields of a match that its sequels repeat, which include all that filters use. */
function about(matchId: string, match: FeedMatch) {
  const traders = [match.taker, ...match.makers].map(({ trader }) => trader.address);
  return {
    matchId,
    txHash: match.txHash,
    conditionId: match.conditionId,
    detectedAtMs: Date.now(),
    traders: [...new Set(traders)],
    tags: match.market.tags,
    seriesSlug: match.market.seriesSlug,
    usdc: match.taker.usdc,
    shares: match.taker.shares,
  };
}

/** Ignores negative times, which occur when the clock was set back. */
function observe(histogram: { observe(seconds: number): void }, sinceMs: number): void {
  const seconds = (Date.now() - sinceMs) / 1_000;
  if (seconds >= 0) histogram.observe(seconds);
}

export type Difference = {
  readonly field: string;
  /** `taker`, or the maker's index in the calldata. */
  readonly of: 'taker' | number;
  readonly shown: string;
  readonly final: string;
};

/**
 * The differences between a match as shown from calldata and its final logs; `fills` are the final ones in log order,
 * the taker last. A difference means that the contract has a rule that our decoder lacks, such as a refund. The logs
 * are right, and LEDGER is built from logs only.
 */
export function differences(
  shown: FeedMatch,
  fills: readonly MatchedFill[],
): readonly Difference[] {
  const taker = fills.at(-1);
  const makers = fills.slice(0, -1);
  const found: Difference[] = taker === undefined ? [] : differencesOf('taker', shown.taker, taker);
  if (makers.length !== shown.makers.length) {
    const counts = { shown: String(shown.makers.length), final: String(makers.length) };
    return [...found, { field: 'makers', of: 'taker', ...counts }];
  }
  for (const [i, maker] of makers.entries()) {
    const shownMaker = shown.makers[i];
    if (shownMaker !== undefined) found.push(...differencesOf(i, shownMaker, maker));
  }
  return found;
}

function differencesOf(of: Difference['of'], shown: FeedFill, final: MatchedFill): Difference[] {
  const fields = [
    ['order_hash', shown.orderHash, final.orderHash],
    ['trader', shown.trader.address, final.trader],
    ['side', shown.side, final.side],
    ['token_id', shown.tokenId, final.tokenId],
    ['shares', shown.shares.toString(), final.shares.toString()],
    ['usdc', shown.usdc.toString(), final.usdc.toString()],
    ['fee', shown.fee.toString(), final.fee.toString()],
  ] as const;
  return fields
    .filter(([, before, after]) => before !== after)
    .map(([field, before, after]) => ({ field, of, shown: before, final: after }));
}

const READ_MESSAGES = 10_000;
/** LEDGER stores a match after FEED does; the servers' clocks may differ. */
const CLOCK_MS = 10_000;

/**
 * After a restart, reads FEED since a time into the writer's memory and the table of pending matches, so that no void
 * is lost with the process. A match that was shown and is neither voided nor in LEDGER is still open. A match that was
 * voided as never mined and not restored may still be mined; all of those that FEED still holds are read. Resolves as
 * `FeedWriter.restore` does.
 */
export async function restoreFeed(
  nats: Nats,
  sinceMs: number,
  feed: FeedWriter,
  pending: PendingMatches,
): Promise<boolean> {
  const shown = new Map<string, ShownMessage>();
  const isComplete = await feed.restore(nats, sinceMs, (message) => {
    if (message.subject !== FEED_MATCH_SUBJECT) return false;
    const event = decoded(message);
    if (event?.kind !== 'match' || event.sent === undefined) return false;
    const { sent } = event;
    shown.set(message.messageId, { match: event, sent, storedAtMs: message.timestampMs });
    const [oldest] = shown.keys();
    if (shown.size > PENDING_MATCHES_MAX && oldest !== undefined) shown.delete(oldest);
    return true;
  });
  const restored = new Set<string>();
  for (const event of await sequels(nats, FEED_RESTORED_SUBJECT)) {
    if (event.kind === 'restored') restored.add(event.matchId);
  }
  for (const event of await sequels(nats, FEED_VOID_SUBJECT)) {
    if (event.kind !== 'void') continue;
    const match = shown.get(event.matchId)?.match;
    shown.delete(event.matchId);
    // The match may be older than the messages read here; neither it nor its void may be shown again.
    feed.remember(event.matchId);
    if (event.reason !== 'never_mined' || restored.has(event.matchId)) continue;
    pending.trackVoided(event, match);
  }
  for (const [id, blockNumber] of await finalSince(nats, shown)) {
    const found = shown.get(id);
    if (found === undefined) continue;
    shown.delete(id);
    // The process ended between the block in LEDGER and this message.
    await feed.publish({ kind: 'final', blockNumber, ...about(id, found.match) });
  }
  for (const [id, { match, sent }] of shown) {
    trackShown(pending, id, match, sent, feed.has(feedSequelId('final', id)));
  }
  return isComplete;
}

/**
 * Takes over matches that another ingest stores in FEED while this one runs, because the other one may stop before
 * they are final or void. Ignores matches whose end was already published. Call this in stream order.
 */
export function followOther(
  message: StreamMessage,
  feed: FeedWriter,
  pending: PendingMatches,
): void {
  const { messageId: id, timestampMs } = message;
  const event = decoded(message);
  feed.remember(id, event?.kind === 'match' && event.sent !== undefined ? timestampMs : 0);
  if (event?.kind === 'void') pending.voidedElsewhere(event);
  if (event?.kind === 'restored') pending.restoredElsewhere(event.matchId);
  if (event?.kind !== 'match' || event.sent === undefined || pending.has(id)) return;
  const isOver = feed.has(feedSequelId('final', id)) || feed.has(feedSequelId('void', id));
  if (!isOver && pending.makeRoom()) trackShown(pending, id, event, event.sent);
}

function trackShown(
  pending: PendingMatches,
  id: string,
  match: FeedMatch,
  sent: Sent,
  wasFinal = false,
): void {
  const { txHash, detectedAtMs } = match;
  pending.track({ id, txHash, detectedAtMs, ...sent }, match, wasFinal);
}

type Sent = NonNullable<FeedMatch['sent']>;

/** A match that FEED showed before it was final. */
type ShownMessage = {
  readonly match: FeedMatch;
  readonly sent: Sent;
  readonly storedAtMs: number;
};

/** The newest void or restored messages that FEED still holds. */
async function sequels(nats: Nats, subject: string): Promise<readonly FeedEvent[]> {
  const events: FeedEvent[] = [];
  for (let next = 1; ; ) {
    const messages = await readRange(nats, FEED_STREAM, next, READ_MESSAGES, subject);
    for (const message of messages) {
      const event = decoded(message);
      if (event !== undefined) events.push(event);
    }
    events.splice(0, events.length - VOIDED_MATCHES_MAX);
    const last = messages.at(-1);
    if (last === undefined) return events;
    next = last.sequence + 1;
  }
}

/** Ids and blocks of the matches in transactions of `shown` that LEDGER has stored since the oldest of them. */
async function finalSince(
  nats: Nats,
  shown: ReadonlyMap<string, ShownMessage>,
): Promise<readonly (readonly [id: string, block: number])[]> {
  const [oldest] = shown.values();
  if (oldest === undefined) return [];
  const found: [string, number][] = [];
  const ordinalOf = countMatches();
  const wanted = new Set([...shown.values()].map(({ match }) => match.txHash));
  for await (const { range } of storedMessages(nats, { timeMs: oldest.storedAtMs - CLOCK_MS })) {
    for (const match of eventsOf('matches', range.blocks)) {
      // A catch-up stores far more matches than memory holds.
      if (!wanted.has(match.txHash)) continue;
      const id = matchIdOf({ ...match, ordinal: ordinalOf(match) });
      found.push([id, match.blockNumber]);
    }
  }
  return found;
}

/** Undefined if the message is not a FEED event. */
export function decoded(message: StreamMessage): FeedEvent | undefined {
  try {
    return decodeFeedEvent(message.data);
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof z.ZodError) return undefined;
    throw error;
  }
}
