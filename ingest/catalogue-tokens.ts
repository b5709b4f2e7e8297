/**
 * Which market and outcome a token stands for. Derived from the condition id, as the contract does it,
 * and then compared with what the metadata says; metadata decides only where no derivation fits. The
 * chain's index sets rule the order of outcomes: a listing in the other order is turned round.
 */
import type { Logger } from 'pino';
import type { Hex } from 'viem';
import type { Chain } from './chains.ts';
import type { Hash, Listing } from './contract.ts';
import { positionIds } from './token-ids.ts';

/** About 500 bytes each; a pair costs 0.7 ms to derive again. */
const PAIRS_MAX = 50_000;
/** About 200 bytes each. */
const TOKENS_MAX = 200_000;
const MISMATCHES_MAX = 10_000;

export type TokenPair = readonly [string, string];
type Place = {
  readonly conditionId: Hash;
  readonly outcomeIndex: 0 | 1;
  /** The chain's own word, which metadata never overrides. */
  readonly isDerived: boolean;
};

export class TokenMap {
  readonly #collateralOf: ReadonlyMap<string, Hex>;
  /** Every collateral that position ids of this chain may contain. */
  readonly #collaterals: readonly Hex[];
  readonly #logger: Logger;
  readonly #pairs = new Map<string, TokenPair>();
  readonly #places = new Map<string, Place>();
  readonly #mismatched = new Set<string>();

  constructor(chain: Chain, logger: Logger) {
    this.#collateralOf = chain.exchanges;
    this.#collaterals = [...new Set([...chain.exchanges.values(), chain.collateral])];
    this.#logger = logger;
  }

  /** Which outcome of the condition the token is; undefined where nothing tells. */
  outcomeOf(conditionId: string, tokenId: string, exchange: string): 0 | 1 | undefined {
    const place = this.#places.get(tokenId);
    if (place?.conditionId === conditionId) return place.outcomeIndex;
    const own = this.#collateralOf.get(exchange);
    for (const collateral of own === undefined ? this.#collaterals : this.#ownFirst(own)) {
      const pair = this.#derived(conditionId, collateral);
      if (!pair.includes(tokenId)) continue;
      this.#place(conditionId as Hash, pair, true);
      return pair[0] === tokenId ? 0 : 1;
    }
    return undefined;
  }

  /** The market of a token that was seen in a listing or derived before. */
  conditionOf(tokenId: string): Hash | undefined {
    return this.#places.get(tokenId)?.conditionId;
  }

  /** The tokens of a condition that trades on the exchange. */
  pairOf(conditionId: string, exchange: string): TokenPair {
    const [first = '0x'] = this.#collaterals;
    return this.#derived(conditionId, this.#collateralOf.get(exchange) ?? first);
  }

  /** Markets whose metadata names other tokens than the chain derives, or in another order. */
  get mismatches(): number {
    return this.#mismatched.size;
  }

  /**
   * The listing as the chain orders its outcomes, its tokens now known. Where they are not those of
   * the condition, that is counted and logged, and the listing stays as it is.
   */
  listed(listing: Listing): Listing {
    const [first, second] = listing.tokenIds;
    const pair = this.#derivedPair(listing) ?? this.#fitting(listing);
    if (pair === undefined) {
      this.#mismatch(listing, 'metadata names other tokens than the chain derives');
      this.#place(listing.conditionId, listing.tokenIds, false);
      return listing;
    }
    this.#place(listing.conditionId, pair, true);
    if (pair[0] === first) return listing;
    this.#mismatch(listing, 'metadata lists the outcomes in the other order than the chain');
    const [one, other] = listing.outcomes;
    return { ...listing, tokenIds: [second, first], outcomes: [other, one] };
  }

  /** Remembers the tokens of a listing without checking them. */
  restore(listing: Listing): void {
    this.#place(listing.conditionId, listing.tokenIds, false);
  }

  /** The listing's tokens in the chain's order, where both were derived before. */
  #derivedPair({ conditionId, tokenIds: [first, second] }: Listing): TokenPair | undefined {
    const [one, other] = [this.#places.get(first), this.#places.get(second)];
    for (const place of [one, other]) {
      if (place?.conditionId !== conditionId || !place.isDerived) return undefined;
    }
    return one?.outcomeIndex === 0 ? [first, second] : [second, first];
  }

  #fitting({ conditionId, tokenIds, negRisk }: Listing): TokenPair | undefined {
    // The first collateral of a chain is that of ordinary markets: the likely one goes first.
    const [ordinary = '0x', ...others] = this.#collaterals;
    for (const collateral of negRisk ? [...others, ordinary] : this.#collaterals) {
      const pair = this.#derived(conditionId, collateral);
      if (pair.every((token) => tokenIds.includes(token))) return pair;
    }
    return undefined;
  }

  #ownFirst(own: Hex): readonly Hex[] {
    return [own, ...this.#collaterals.filter((other) => other !== own)];
  }

  #mismatch({ conditionId, marketId, tokenIds }: Listing, message: string): void {
    if (this.#mismatched.has(conditionId) || this.#mismatched.size >= MISMATCHES_MAX) return;
    this.#mismatched.add(conditionId);
    this.#logger.error({ conditionId, marketId, tokenIds }, message);
  }

  #place(conditionId: Hash, pair: TokenPair, isDerived: boolean): void {
    for (const [index, token] of pair.entries()) {
      if (!isDerived && this.#places.get(token)?.isDerived) continue;
      this.#places.delete(token);
      this.#places.set(token, { conditionId, outcomeIndex: index === 0 ? 0 : 1, isDerived });
    }
    forgetOldest(this.#places, TOKENS_MAX);
  }

  #derived(conditionId: string, collateral: Hex): TokenPair {
    const key = `${collateral}:${conditionId}`;
    const known = this.#pairs.get(key);
    if (known !== undefined) return known;
    const [first, second] = positionIds(collateral, conditionId as Hex);
    const pair = [first.toString(), second.toString()] as const;
    this.#pairs.set(key, pair);
    forgetOldest(this.#pairs, PAIRS_MAX);
    return pair;
  }
}

function forgetOldest(map: Map<string, unknown>, sizeMax: number): void {
  for (const key of map.keys()) {
    if (map.size <= sizeMax) return;
    map.delete(key);
  }
}
