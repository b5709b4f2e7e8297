/**
 * What ingest knows of markets when it explains movements: which market each token belongs to, and what outcome 0 is worth.
 * It is learnt from the events of LEDGER in their order, so it depends only on the blocks before and survives a restart.
 *
 * A market takes about 760 bytes of memory, measured with 100,000.
 */
import type { Hex } from 'viem';
import type { Hash, LedgerEvent, LedgerMarket, Match, Resolution } from '../../contract.ts';
import { positionIds } from '../token-ids.ts';
import type { TokenPlace } from './movements.ts';

const ONE = 1_000_000n;

/** A market's tokens, price and payouts, as far as they are known. */
export type KnownMarket = {
  readonly conditionId: Hash;
  /** The collateral in the ids of its tokens, and these ids, whose derivation takes 0.1 ms; undefined if they are unknown. */
  readonly tokens:
    | { readonly collateral: Hex; readonly ids: readonly [string, string] }
    | undefined;
  /** Of outcome 0 in the newest match, micro-USDC per share, rounded down. */
  readonly price: bigint | undefined;
  readonly payouts: readonly [bigint, bigint] | undefined;
  /** See LedgerMarket; undefined without a fee. */
  readonly feeBips: number | undefined;
};

export class KnownMarkets {
  readonly #markets = new Map<string, KnownMarket>();
  /** Condition ids by token. */
  readonly #conditions = new Map<string, Hash>();

  constructor(markets: readonly KnownMarket[] = []) {
    for (const market of markets) {
      this.#markets.set(market.conditionId, market);
      this.#place(market);
    }
  }

  /** All markets. What is learnt later replaces them and does not change them. */
  all(): readonly KnownMarket[] {
    return [...this.#markets.values()];
  }

  find(conditionId: string): KnownMarket | undefined {
    return this.#markets.get(conditionId);
  }

  placeOf(tokenId: string): TokenPlace | undefined {
    const conditionId = this.#conditions.get(tokenId);
    if (conditionId === undefined) return undefined;
    const isFirst = this.find(conditionId)?.tokens?.ids[0] === tokenId;
    return { conditionId, outcomeIndex: isFirst ? 0 : 1 };
  }

  /** Learns from an event of LEDGER. Call it with all of them, in order. */
  learn(event: LedgerEvent): void {
    if (event.kind === 'market') this.#tokens(event);
    else if (event.kind === 'match') this.#matched(event);
    else if (event.kind === 'resolution') this.#resolved(event);
  }

  #tokens({ conditionId, collateral, ...fee }: LedgerMarket): void {
    const before = this.find(conditionId);
    for (const token of before?.tokens?.ids ?? []) this.#conditions.delete(token);
    const [zero, one] = positionIds(collateral, conditionId);
    const tokens = { collateral, ids: [`${zero}`, `${one}`] } as const;
    const feeBips = fee.feeBips ?? before?.feeBips;
    this.#place(this.#set(conditionId, { tokens, feeBips }));
  }

  #matched({ conditionId, fills }: Match): void {
    const taker = fills.at(-1);
    if (taker === undefined || taker.shares === 0n) return;
    const { shares, usdc, outcomeIndex } = taker;
    const price = ((outcomeIndex === 0 ? usdc : shares - usdc) * ONE) / shares;
    this.#set(conditionId, { price: price < 0n ? 0n : price > ONE ? ONE : price });
  }

  /** Only the first resolution counts. */
  #resolved({ conditionId, payouts }: Resolution): void {
    if (this.find(conditionId)?.payouts === undefined) this.#set(conditionId, { payouts });
  }

  #set(conditionId: Hash, change: Partial<KnownMarket>): KnownMarket {
    const market = { ...(this.find(conditionId) ?? UNKNOWN), ...change, conditionId };
    this.#markets.set(conditionId, market);
    return market;
  }

  #place({ conditionId, tokens }: KnownMarket): void {
    for (const token of tokens?.ids ?? []) this.#conditions.set(token, conditionId);
  }
}

const UNKNOWN = { tokens: undefined, price: undefined, payouts: undefined, feeBips: undefined };
