/**
 * The live side of ingest: pending matches of known operators and matches of new blocks, shown in FEED
 * as soon as they are seen. It never touches LEDGER, and it may miss anything: the final blocks offer
 * every match to FEED once more.
 */

import type { Logger } from 'pino';
import type { Hex } from 'viem';
import { type BlockFacts, factsOf, type LocatedMatch, readBlock } from './blocks.ts';
import type { Catalogue } from './catalogue.ts';
import type { Chain } from './chains.ts';
import { feedMessageId } from './contract.ts';
import { type CalledFill, decodeMatchCall } from './decode-call.ts';
import { DecodeError } from './decode-error.ts';
import { MATCH_ORDERS_SELECTOR } from './exchange-abi.ts';
import type { FeedWriter, ShownFill } from './feed.ts';
import type { Operators } from './operators.ts';
import type { Rpc, Transaction } from './rpc.ts';

/** Blocks behind the head that are still read for the feed; older ones come when they are final. */
const HEADS_BEHIND_MAX = 4;

export type LiveOptions = {
  readonly rpc: Rpc;
  readonly chain: Chain;
  readonly catalogue: Catalogue;
  readonly feed: FeedWriter;
  readonly operators: Operators;
  readonly logger: Logger;
};

export class Live {
  readonly #options: LiveOptions;
  #head = 0;
  #heads: Promise<void> = Promise.resolve();
  /** Pending calls that were not shown, by reason; `not_operator` are strangers' calls. */
  readonly refused = new Map<string, number>();

  constructor(options: LiveOptions) {
    this.#options = options;
  }

  /** Shows a pending transaction if it is an operator's match. Never rejects on its content. */
  async pending(transaction: Transaction): Promise<void> {
    const { chain, catalogue, feed, operators } = this.#options;
    const exchange = transaction.to ?? '';
    if (!chain.exchanges.has(exchange)) return;
    if (!transaction.input.startsWith(MATCH_ORDERS_SELECTOR)) return;
    const detectedAtMs = Date.now();
    try {
      if (!operators.has(transaction.from)) return this.#refuse('not_operator');
      const call = decodeMatchCall(transaction.input as Hex, exchange as Hex, chain.id);
      const locate = (fill: CalledFill): ShownFill => {
        const token = fill.tokenId.toString();
        const outcomeIndex = catalogue.outcomeOf(call.conditionId, token, exchange);
        if (outcomeIndex === undefined) throw new DecodeError('unknown_token', token);
        return { ...fill, outcomeIndex };
      };
      await feed.show({
        id: feedMessageId(transaction.hash, call.taker.orderHash, 0),
        txHash: transaction.hash,
        exchange,
        conditionId: call.conditionId,
        pending: true,
        detectedAtMs,
        taker: locate(call.taker),
        makers: call.makers.map(locate),
      });
    } catch (error) {
      if (!(error instanceof DecodeError)) throw error;
      this.#refuse(error.reason);
    }
  }

  /** Reads the blocks up to a new head and shows what the mempool missed; one at a time. */
  head(number: number): void {
    this.#heads = this.#heads.then(() => this.#readHeads(number));
  }

  /** Shows the matches of a block that were not shown before, and learns who sent them. */
  async show({ block, matches, operators }: BlockFacts, shownFrom: number): Promise<void> {
    for (const { operator, allowed } of operators) {
      await this.#options.operators.set(operator, allowed);
    }
    for (const match of matches) {
      if (match.sender !== '') await this.#options.operators.set(match.sender, true);
      if (block.number >= shownFrom) await this.#showMatch(match, block.timestamp);
    }
  }

  async #readHeads(number: number): Promise<void> {
    const { rpc, chain, catalogue, logger } = this.#options;
    const from = Math.max(this.#head + 1, number - HEADS_BEHIND_MAX);
    for (let next = from; next <= number; next++) {
      try {
        const raw = await readBlock(rpc, chain, next);
        if (raw === undefined) continue;
        const facts = await factsOf(raw, chain, catalogue);
        await Promise.all(facts.matches.map((one) => this.#showMatch(one, facts.block.timestamp)));
      } catch (error) {
        logger.warn({ err: error, block: next }, 'head not read; its matches come when final');
      }
    }
    this.#head = Math.max(this.#head, number);
  }

  async #showMatch(match: LocatedMatch, blockTime: number): Promise<void> {
    const taker = match.fills.at(-1);
    if (taker === undefined) return;
    await this.#options.feed.show({
      id: feedMessageId(match.txHash, taker.orderHash, match.ordinal),
      txHash: match.txHash,
      exchange: match.exchange,
      conditionId: match.conditionId,
      pending: false,
      detectedAtMs: blockTime * 1_000,
      taker,
      makers: match.fills.slice(0, -1),
    });
  }

  #refuse(reason: string): void {
    this.refused.set(reason, (this.refused.get(reason) ?? 0) + 1);
  }
}
