/**
 * What ingest knows of markets when it explains movements: which market each token belongs to, and what outcome 0 is worth.
 * It is learnt from the events of LEDGER in their order, so it depends only on the blocks before and survives a restart.
 *
 * A market takes about 760 bytes of memory, measured with 100,000.
 */
import type { Hex } from 'viem';
import type { Hash, LedgerEvent, LedgerMarket, Match, Resolution } from '../../contract.ts';
import { isStructured, structuredId, structuredTokens } from '../structured-ids.ts';
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
  /** Of a combo: token ids, decimal. */
  readonly legs?: readonly string[] | undefined;
  /** The condition of protocol version 2 that continues this market. */
  readonly continuedBy?: Hash | undefined;
};

export class KnownMarkets {
  readonly #markets = new Map<string, KnownMarket>();
  /** Condition ids by token. */
  readonly #conditions = new Map<string, Hash>();
  /** By condition of protocol version 2, the market that it continues. */
  readonly #continued = new Map<string, Hash>();
  /** By market, the combos without a result that have it as a leg. */
  readonly #combos = new Map<string, Set<Hash>>();

  constructor(markets: readonly KnownMarket[] = []) {
    for (const market of markets) {
      this.#markets.set(market.conditionId, market);
      this.#place(market);
      if (market.continuedBy !== undefined)
        this.#continued.set(market.continuedBy, market.conditionId);
    }
    for (const { conditionId, legs, payouts } of markets)
      if (payouts === undefined) this.#combo(conditionId, legs);
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
    if (conditionId === undefined) return this.#structured(tokenId);
    const { tokens, continuedBy } = this.find(conditionId) ?? {};
    return { conditionId, outcomeIndex: tokens?.ids[0] === tokenId ? 0 : 1, continuedBy };
  }

  #structured(tokenId: string): TokenPlace | undefined {
    const id = structuredId(tokenId);
    if (id === undefined) return undefined;
    const { conditionId, outcomeIndex } = id;
    const continued = this.#continued.get(conditionId);
    return continued === undefined
      ? { conditionId, outcomeIndex }
      : { conditionId: continued, outcomeIndex, continuedBy: conditionId };
  }

  /** The market of a condition: another one if this condition of protocol version 2 continues it. */
  marketOf(conditionId: Hash): Hash {
    return this.#continued.get(conditionId) ?? conditionId;
  }

  /** Token ids of both outcomes, by the contract that holds them; undefined where it holds none, or they are unknown. */
  tokensOf(conditionId: string): {
    readonly conditionalTokens: readonly [string, string] | undefined;
    readonly positionManager: readonly [string, string] | undefined;
  } {
    const { tokens, continuedBy } = this.find(conditionId) ?? {};
    const structured = isStructured(conditionId) ? conditionId : continuedBy;
    return {
      conditionalTokens: tokens?.ids,
      positionManager: structured === undefined ? undefined : structuredTokens(structured),
    };
  }

  /** Combos without a result that have a leg in this market. */
  combosOf(conditionId: string): readonly Hash[] {
    return [...(this.#combos.get(conditionId) ?? [])];
  }

  /** Learns from an event of LEDGER. Call it with all of them, in order. */
  learn(event: LedgerEvent): void {
    if (event.kind === 'market') this.#tokens(event);
    else if (event.kind === 'match') this.#matched(event);
    else if (event.kind === 'resolution') this.#resolved(event);
  }

  #tokens({ conditionId, collateral, legs, legacyConditionId, ...fee }: LedgerMarket): void {
    const before = this.find(conditionId);
    if (legs !== undefined) {
      this.#set(conditionId, { legs });
      this.#combo(conditionId, legs);
    }
    if (legacyConditionId !== undefined && this.#canContinue(conditionId, legacyConditionId)) {
      this.#set(legacyConditionId, { continuedBy: conditionId });
      this.#continued.set(conditionId, legacyConditionId);
      for (const combo of this.combosOf(conditionId)) this.#combo(combo, this.find(combo)?.legs);
    }
    if (collateral === undefined) return;
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

  /** Only the first registration counts. */
  #canContinue(conditionId: Hash, legacyConditionId: Hash): boolean {
    return (
      !this.#continued.has(conditionId) && this.find(legacyConditionId)?.continuedBy === undefined
    );
  }

  /** Only the first resolution counts. */
  #resolved({ conditionId, payouts }: Resolution): void {
    const { payouts: known, legs = [] } = this.find(conditionId) ?? {};
    if (known !== undefined) return;
    this.#set(conditionId, { payouts });
    for (const leg of legs) this.#combos.get(this.#marketOfLeg(leg))?.delete(conditionId);
  }

  #marketOfLeg(tokenId: string): string {
    return this.placeOf(tokenId)?.conditionId ?? '';
  }

  #set(conditionId: Hash, change: Partial<KnownMarket>): KnownMarket {
    const market = { ...(this.find(conditionId) ?? UNKNOWN), ...change, conditionId };
    this.#markets.set(conditionId, market);
    return market;
  }

  #combo(conditionId: Hash, legs: readonly string[] = []): void {
    for (const leg of legs) {
      const market = this.#marketOfLeg(leg);
      this.#combos.set(market, (this.#combos.get(market) ?? new Set()).add(conditionId));
    }
  }

  #place({ conditionId, tokens }: KnownMarket): void {
    for (const token of tokens?.ids ?? []) this.#conditions.set(token, conditionId);
  }
}

const UNKNOWN = { tokens: undefined, price: undefined, payouts: undefined, feeBips: undefined };
