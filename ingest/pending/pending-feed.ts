/**
 * Publishes matches to FEED as soon as they are seen: pending calls of known operators, and matches of new blocks. It
 * never writes to LEDGER. It may miss matches, because every match of a final block is offered to FEED again. Its queue
 * is bounded: when metadata or JetStream is slow, pending calls beyond a limit are skipped and shown from their blocks.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Hex } from 'viem';
import { type FeedFacts, factsOf, ordersOf, readBlock, type SentMatch } from '../chain/blocks.ts';
import type { Rpc, Transaction } from '../chain/rpc.ts';
import { type FeedMatch, type Fill, feedMessageId, type Hash } from '../contract.ts';
import type { Chain } from '../events/chains.ts';
import { DecodeError } from '../events/log.ts';
import {
  type CalledFill,
  type CalledMatch,
  decodeMatchCall,
  isMatchCall,
} from '../events/match-call.ts';
import type { Metadata } from '../metadata/metadata.ts';
import type { PendingMetrics } from '../metrics.ts';
import type { FeedWriter, ShownFill, ShownMatch } from './feed.ts';
import type { MempoolSource } from './mempool.ts';
import type { Operators } from './operators.ts';
import { type BlockTime, matchIdOf, type PendingMatches } from './pending.ts';

/** Heads farther behind than this are not read for the feed; their matches are shown once final. */
const HEADS_BEHIND_MAX = 4;
/** Most pending calls that wait for metadata or for FEED; 2 KB each, so 2 MB. */
export const PENDING_WAITING_MAX = 1_000;

const HEAD_TRIES_MAX = 5;
const HEAD_RETRY_MS = 200;

/** The node announced a head but does not return it. */
class HeadMissingError extends Error {}

export type PendingFeedOptions = {
  readonly rpc: Rpc;
  readonly chain: Chain;
  readonly metadata: Metadata;
  /** The market of a condition: another one if a condition of protocol version 2 continues it. */
  readonly marketOf: (conditionId: Hash) => Hash;
  readonly feed: FeedWriter;
  readonly operators: Operators;
  readonly pending: PendingMatches;
  readonly metrics: PendingMetrics;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  /** Newest block of LEDGER at startup, −1 if it is empty. Heads up to it are not shown. */
  readonly heldBlock: number;
  /** Called for each new head with matches that the mempool missed. */
  readonly onMissed: () => void;
};

export class PendingFeed {
  readonly #options: PendingFeedOptions;
  #head = 0;
  /** Newest final block that was read, by this process or an earlier one. */
  #final: number;
  #wanted = 0;
  #reading: Promise<void> | undefined;
  #waiting = 0;
  /** By id, the matches that wait for metadata or for FEED to store them. */
  readonly #showing = new Map<string, Promise<FeedMatch | undefined>>();

  constructor(options: PendingFeedOptions) {
    this.#options = options;
    this.#final = options.heldBlock;
  }

  /** Publishes a pending transaction if it is an operator's match. Never rejects because of its content. */
  async pending(transaction: Transaction, source: MempoolSource): Promise<void> {
    const { chain, operators, pending } = this.#options;
    const exchange = transaction.to ?? '';
    if (!chain.exchanges.has(exchange)) return;
    if (!isMatchCall(transaction.input)) return;
    if (!operators.has(exchange, transaction.from)) return this.#refuse('not_operator');
    if (this.#waiting >= PENDING_WAITING_MAX) return this.#refuse('busy');
    let match: ShownMatch;
    try {
      match = this.#predicted(transaction, exchange);
    } catch (error) {
      if (!(error instanceof DecodeError)) throw error;
      return this.#refuse(error.reason);
    }
    if (this.#options.feed.has(match.id)) return;
    if (!pending.makeRoom()) return this.#refuse('table_full');
    this.#waiting += 1;
    try {
      await this.#showPending(match, transaction, source);
    } finally {
      this.#waiting -= 1;
    }
  }

  /** Reads the blocks up to a new head, one at a time, and publishes matches that the mempool missed. */
  head(number: number): void {
    this.#wanted = Math.max(this.#wanted, number);
    this.#reading ??= this.#readHeads().finally(() => {
      this.#reading = undefined;
    });
  }

  /** Processes a final block: operators, the outcome of pending matches, and matches that were not shown yet. */
  async final(facts: FeedFacts, shownFrom: number): Promise<void> {
    const { chain, feed, operators, pending, metrics, signal } = this.#options;
    const { block, matches } = facts;
    this.#final = block.number;
    const senders = matches
      .filter(({ sender }) => sender !== '')
      .map(({ exchange, sender }) => ({ exchange, address: sender }));
    await operators.learn(block.number, facts.operators, senders, signal);
    await pending.final(block, matches);
    if (block.number < shownFrom) return;
    for (const match of matches) {
      const id = matchIdOf(match);
      // FEED must store a match before LEDGER stores its block.
      await this.#showing.get(id);
      if (pending.has(id)) continue;
      const shown = shownInBlock(match, block.timestamp, chain.id, null);
      if ((await feed.show(shown)) !== undefined) metrics.shown.inc({ source: 'block' });
      await feed.publish({ kind: 'final', blockNumber: block.number, ...feed.about(shown) });
    }
    // Again, for matches that a late push or another ingest published since the first call.
    await pending.final(block, matches);
    // LEDGER must not pass a block before FEED has stored its matches.
    if (matches.length > 0) await feed.flush();
  }

  /** The match that a call produces once it is mined. Throws DecodeError. */
  #predicted({ hash, from, nonce, input }: Transaction, exchange: string): ShownMatch {
    const { chain, metadata } = this.#options;
    const call: CalledMatch = decodeMatchCall(input, exchange as Hex, chain.id);
    const locate = (fill: CalledFill): ShownFill => {
      const outcomeIndex = metadata.outcomeOf(call.conditionId, fill.tokenId, exchange);
      if (outcomeIndex === undefined) throw new DecodeError('unknown_token', fill.tokenId);
      return { ...fill, outcomeIndex };
    };
    return {
      id: feedMessageId(hash, call.taker.orderHash, 0),
      txHash: hash,
      exchange,
      conditionId: call.conditionId,
      detectedAtMs: Date.now(),
      pending: true,
      sent: { sender: from, nonce },
      taker: locate(call.taker),
      makers: call.makers.map(locate),
    };
  }

  async #showPending(
    match: ShownMatch,
    { from, nonce }: Transaction,
    source: MempoolSource,
  ): Promise<void> {
    const { pending, metrics } = this.#options;
    const { id, txHash, detectedAtMs } = match;
    const startedAt = performance.now();
    pending.track({ id, txHash, detectedAtMs, sender: from, nonce });
    const message = await this.#show(match);
    if (message !== undefined) {
      metrics.shown.inc({ source });
      metrics.toFeed.observe((performance.now() - startedAt) / 1_000);
    }
    await pending.published(id, message);
  }

  /** Reads heads until the newest announced one. Never rejects because of a node's response. */
  async #readHeads(): Promise<void> {
    const { logger, signal } = this.#options;
    while (this.#head < this.#wanted && !signal.aborted) {
      const next = Math.max(this.#head + 1, this.#wanted - HEADS_BEHIND_MAX);
      try {
        await this.#readHead(next);
      } catch (error) {
        logger.warn(
          { err: error, block: next },
          'could not read a new block; its matches are shown once final',
        );
        // The announced number may have been wrong.
        this.#wanted = this.#head;
        return;
      }
      this.#head = next;
      this.#options.metrics.head.set(next);
    }
  }

  async #readHead(number: number): Promise<void> {
    const { rpc, chain, metadata, pending, signal, onMissed } = this.#options;
    const begun = pending.headBegins();
    let raw = await readBlock(rpc, chain, number);
    // The endpoint may lag behind the one that announced the head.
    for (let tries = 1; raw === undefined && tries < HEAD_TRIES_MAX; tries += 1) {
      await delay(HEAD_RETRY_MS, undefined, { signal });
      raw = await readBlock(rpc, chain, number);
    }
    if (raw === undefined) throw new HeadMissingError(`the node has no block ${number}`);
    const { block, matches } = await factsOf(raw, chain, {
      outcomeOf: (...token) => metadata.outcomeOf(...token),
      // Heads do not wait for the metadata API; unknown tokens are resolved when the block is final.
      conditionOfToken: async (tokenId) => metadata.conditionOfKnownToken(tokenId),
    });
    const nonces = new Map(raw.block.transactions.map(({ hash, nonce }) => [hash, nonce]));
    const shown = await Promise.all(
      matches.map((match) => this.#showMined(match, block, nonces.get(match.txHash))),
    );
    if (shown.includes(true)) onMissed();
    pending.head(
      block,
      matches.map(({ txHash }) => txHash),
      begun,
    );
  }

  /** Publishes a match of a block that may still be replaced. Resolves with true if this was the first to show it. */
  async #showMined(
    match: SentMatch,
    block: BlockTime,
    nonce: number | undefined,
  ): Promise<boolean> {
    const { feed, chain, metrics, pending } = this.#options;
    const { sender, txHash } = match;
    const id = matchIdOf(match);
    if (nonce === undefined || feed.has(id) || block.number <= this.#final) return false;
    // A match that cannot be tracked is shown when it is final.
    if (!pending.makeRoom()) return false;
    const { timestamp: minedTime } = block;
    const sent = { sender: sender as Hex, nonce };
    const mined = shownInBlock(match, minedTime, chain.id, sent);
    const { detectedAtMs } = mined;
    pending.track({ id, txHash, detectedAtMs, minedTime, ...sent });
    const message = await this.#show(mined);
    if (message !== undefined) metrics.shown.inc({ source: 'block' });
    await pending.published(id, message);
    return message !== undefined;
  }

  async #show(match: ShownMatch): Promise<FeedMatch | undefined> {
    const conditionId = this.#options.marketOf(match.conditionId);
    const showing = this.#options.feed.show({ ...match, conditionId });
    this.#showing.set(match.id, showing);
    try {
      return await showing;
    } finally {
      this.#showing.delete(match.id);
    }
  }

  #refuse(reason: string): void {
    this.#options.metrics.refused.inc({ reason });
  }
}

/** A match of a block as it is shown; `sent` is null if the block is final. */
function shownInBlock(
  match: SentMatch,
  blockTime: number,
  chainId: number,
  sent: ShownMatch['sent'],
): ShownMatch {
  const taker = match.fills.at(-1);
  if (taker === undefined) throw new RangeError(`match ${match.txHash} has no fills`);
  const orders = ordersOf(match, chainId);
  const withOrder = (fill: Fill): ShownFill => ({
    ...fill,
    order: orders.get(fill.orderHash) ?? null,
  });
  return {
    id: matchIdOf(match),
    txHash: match.txHash,
    exchange: match.exchange,
    conditionId: match.conditionId,
    detectedAtMs: blockTime * 1_000,
    pending: false,
    sent,
    taker: withOrder(taker),
    makers: match.fills.slice(0, -1).map(withOrder),
  };
}
