/**
 * Matches that were shown while pending, until final blocks say what became of them. Judged by final
 * blocks only, after the blocks were read in order: a nonce that is used up by then without the match
 * in those blocks means reverted or replaced, and the receipt says which. Time is the chain's: a node
 * that is down, or a clock that is wrong, voids nothing. Invariant: every shown pending match is in
 * this table, or was seen in a block; the table is bounded, and what does not fit is not shown early.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { LocatedMatch } from './blocks.ts';
import { type FeedMatch, type FeedVoid, feedMessageId, type VoidReason } from './contract.ts';
import type { FeedWriter } from './feed.ts';
import type { LiveMetrics } from './live-metrics.ts';
import type { MempoolNode } from './mempool-node.ts';
import { type Difference, differences } from './pending-compare.ts';

/** At 10 matches a second half an hour of them; at 500 the 20 s that they need to be final. */
export const PENDING_MATCHES_MAX = 20_000;
/** Voided as never mined, and waited for in case they are mined after all. */
export const VOIDED_MATCHES_MAX = 10_000;
/** Final blocks in a row whose node knows no receipt before a match counts as replaced. */
const ABSENT_MIN = 2;
const JUDGE_MS = 500;

export type Shown = {
  readonly id: string;
  readonly txHash: string;
  readonly sender: string;
  readonly nonce: number;
  readonly detectedAtMs: number;
};

type Entry = Shown & {
  /** Undefined while it is being published. */
  match: FeedMatch | undefined;
  /** What final blocks held of its transaction meanwhile. */
  final: readonly LocatedMatch[];
  /** Timestamp of the head when it was shown; undefined while no head is known. */
  sinceTime: number | undefined;
  mined: boolean;
  absent: number;
};

/** Voided as never mined; `match` where it is known, to be compared. */
type Voided = { readonly told: FeedVoid; readonly match: FeedMatch | undefined };

export type FinalBlock = { readonly number: number; readonly timestamp: number };

export type PendingOptions = {
  readonly feed: Pick<FeedWriter, 'tell'>;
  readonly node: Pick<MempoolNode, 'transactionCount' | 'receipt'>;
  /** How long the chain may go on without a match before it counts as never mined. */
  readonly secondsMax: number;
  readonly metrics: LiveMetrics;
  readonly logger: Logger;
};

export class PendingMatches {
  readonly #options: PendingOptions;
  /** By transaction: a call that an operator sends to an exchange is one match. Oldest first. */
  readonly #open = new Map<string, Entry>();
  readonly #voided = new Map<string, Voided>();
  #headTime: number | undefined;
  #final: FinalBlock | undefined;
  #judged = -1;

  constructor(options: PendingOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#open.size;
  }

  /** Makes room for one more. False when nothing can be given up: the match must not be shown. */
  makeRoom(): boolean {
    if (this.#open.size < PENDING_MATCHES_MAX) return true;
    // While old blocks are caught up with, matches in new blocks wait long to be final here.
    for (const entry of this.#open.values()) {
      if (!entry.mined) continue;
      this.#end(entry, 'unconfirmed');
      return true;
    }
    return false;
  }

  /** Before a match is published. */
  track(shown: Shown): void {
    this.#open.set(shown.txHash, newEntry(shown, this.#headTime));
    this.#options.metrics.open.set(this.#open.size);
  }

  /** After it was published; undefined: it was not, as a block had shown it before. */
  async published(txHash: string, match: FeedMatch | undefined): Promise<void> {
    const entry = this.#open.get(txHash);
    if (entry === undefined) return;
    if (match === undefined) {
      this.#open.delete(txHash);
      this.#options.metrics.open.set(this.#open.size);
      return;
    }
    entry.match = match;
    if (entry.final.length > 0) await this.#settle(entry, match, entry.final);
  }

  /** Takes up a match that an earlier process showed. */
  takeUp(shown: Shown, match: FeedMatch): void {
    this.#open.set(shown.txHash, { ...newEntry(shown, undefined), match });
    this.#options.metrics.open.set(this.#open.size);
  }

  /** Takes up a match that an earlier process voided as never mined. */
  takeUpVoided(told: FeedVoid, match: FeedMatch | undefined): void {
    this.#voided.set(told.txHash, { told, match });
    const [oldest] = this.#voided.keys();
    if (this.#voided.size > VOIDED_MATCHES_MAX && oldest !== undefined) {
      this.#voided.delete(oldest);
    }
  }

  /** A block that is not final yet was read: timestamp in seconds, and transactions with matches. */
  head(timestamp: number, txHashes: Iterable<string>): void {
    this.#headTime = Math.max(this.#headTime ?? 0, timestamp);
    for (const entry of this.#open.values()) {
      if (entry.sinceTime !== undefined) continue;
      entry.sinceTime = this.#headTime;
    }
    for (const txHash of txHashes) {
      const entry = this.#open.get(txHash);
      if (entry === undefined || entry.mined) continue;
      entry.mined = true;
      observe(this.#options.metrics.toMined, entry.detectedAtMs);
    }
  }

  /** A final block was read; blocks come in order. */
  async final(block: FinalBlock, matches: readonly LocatedMatch[]): Promise<void> {
    const byTransaction = Map.groupBy(matches, ({ txHash }) => txHash as string);
    for (const [txHash, found] of byTransaction) {
      const entry = this.#open.get(txHash);
      if (entry?.match !== undefined) await this.#settle(entry, entry.match, found);
      else if (entry !== undefined) entry.final = found;
      const voided = this.#voided.get(txHash);
      if (voided !== undefined) await this.#restore(voided, found);
    }
    this.#final = { number: block.number, timestamp: block.timestamp };
  }

  /** Judges by each new final block until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        await this.judge();
      } catch (error) {
        if (signal.aborted) return;
        this.#options.logger.warn({ err: error }, 'pending matches not checked, trying again');
      }
      await delay(JUDGE_MS, undefined, { signal }).catch(() => undefined);
    }
  }

  /** Looks, by the newest final block, for what will not happen. Rejects when the node does not answer. */
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

  /** The nonce was used up to that block, and the match was in none of these blocks. */
  async #judgeUsed(entry: Entry, block: FinalBlock): Promise<void> {
    const receipt = await this.#options.node.receipt(entry.txHash);
    // A final block may have settled it meanwhile.
    if (this.#open.get(entry.txHash) !== entry) return;
    if (receipt === undefined) {
      entry.absent += 1;
      if (entry.absent >= ABSENT_MIN) await this.#void(entry, 'replaced');
      return;
    }
    entry.absent = 0;
    if (receipt.blockNumber > block.number) return;
    await this.#void(entry, receipt.status === 0 ? 'reverted' : 'unmatched');
  }

  async #settle(entry: Entry, match: FeedMatch, found: readonly LocatedMatch[]): Promise<void> {
    const same = found.find((one) => idOf(one) === entry.id);
    this.#compare(entry.txHash, match, same ?? found[0]);
    if (same === undefined) return this.#void(entry, 'unmatched');
    observe(this.#options.metrics.toFinal, entry.detectedAtMs);
    this.#end(entry, 'final');
  }

  #compare(txHash: string, match: FeedMatch, final: LocatedMatch | undefined): void {
    if (final === undefined) return;
    const found: readonly Difference[] = differences(match, final.fills);
    if (found.length === 0) return;
    const { metrics, logger } = this.#options;
    for (const { field } of found) metrics.differences.inc({ field });
    logger.error(
      { txHash, differences: found },
      'a match is not what its calldata foretold; the final one counts',
    );
  }

  async #void(entry: Entry, reason: VoidReason): Promise<void> {
    if (entry.match === undefined) return;
    this.#end(entry, reason);
    const { feed, logger } = this.#options;
    const told: FeedVoid = { kind: 'void', reason, ...about(entry, entry.match) };
    if (reason === 'never_mined') this.takeUpVoided(told, entry.match);
    logger.info({ matchId: entry.id, reason }, 'a match that was shown did not happen');
    await feed.tell(told);
  }

  async #restore({ told, match }: Voided, found: readonly LocatedMatch[]): Promise<void> {
    this.#voided.delete(told.txHash);
    const same = found.find((one) => idOf(one) === told.matchId);
    if (same === undefined) return;
    if (match !== undefined) this.#compare(told.txHash, match, same);
    this.#options.metrics.restored.inc();
    const { reason: _reason, ...about } = told;
    await this.#options.feed.tell({ ...about, kind: 'restored', detectedAtMs: Date.now() });
  }

  #end(entry: Entry, outcome: VoidReason | 'final' | 'unconfirmed'): void {
    const { metrics } = this.#options;
    this.#open.delete(entry.txHash);
    metrics.open.set(this.#open.size);
    metrics.ended.inc({ outcome });
  }
}

function newEntry(shown: Shown, sinceTime: number | undefined): Entry {
  return { ...shown, match: undefined, final: [], sinceTime, mined: false, absent: 0 };
}

function idOf(match: LocatedMatch): string {
  return feedMessageId(match.txHash, match.fills.at(-1)?.orderHash ?? '', match.ordinal);
}

/** What a void or restored message carries of its match: all that filters look at. */
function about(entry: Entry, match: FeedMatch) {
  const traders = [match.taker, ...match.makers].map(({ trader }) => trader.address);
  return {
    matchId: entry.id,
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

/** A clock that was set back meanwhile would give a negative time, which says nothing. */
function observe(histogram: { observe(seconds: number): void }, sinceMs: number): void {
  const seconds = (Date.now() - sinceMs) / 1_000;
  if (seconds >= 0) histogram.observe(seconds);
}
