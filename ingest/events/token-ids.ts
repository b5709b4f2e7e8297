/**
 * The market and outcome of a token. The two ERC-1155 token ids of a binary market are derived from its condition id as
 * in the ConditionalTokens contract (CTHelpers.getCollectionId and getPositionId; tested against real markets and the
 * contract's own steps). Metadata is checked against the derived ids and used only if none match. The chain's index
 * sets define the order of outcomes.
 */
import { LRUCache } from 'lru-cache';
import type { Logger } from 'pino';
import { encodePacked, type Hex } from 'viem';
import { keccak256Hex } from '../../infra/keccak.ts';
import { upTo } from '../../infra/lru.ts';
import type { Hash, Listing } from '../contract.ts';
import type { Chain } from './chains.ts';
import { isStructured, structuredId, structuredTokens } from './structured-ids.ts';

/** Prime of the alt_bn128 base field. */
const P = 21888242871839275222246405745257275088696311157297823662689037894645226208583n;
const CURVE_B = 3n;

/** About 500 bytes each. */
const PAIRS_MAX = 50_000;
/** About 200 bytes each. */
const TOKENS_MAX = 200_000;
/** About 300 bytes each. */
const DERIVED_MAX = 5_000;
const MISMATCHES_LOGGED_MAX = 10_000;

/**
 * Token ids of outcome 0 and outcome 1 (index sets 1 and 2) of a top-level condition; takes about 0.1 ms.
 * `collateral` is the token inside position ids, not the one that traders pay with.
 */
export function positionIds(collateral: Hex, conditionId: Hex): readonly [bigint, bigint] {
  const key = `${collateral}${conditionId}`;
  const known = derived.get(key);
  if (known !== undefined) return known;
  const ids = [1n, 2n].map((indexSet) => positionId(collateral, conditionId, indexSet));
  const [zero = 0n, one = 0n] = ids;
  derived.set(key, [zero, one]);
  return [zero, one];
}

/** Several parts of ingest derive those of a new market. */
const derived = new LRUCache<string, readonly [bigint, bigint]>(upTo(DERIVED_MAX));

function positionId(collateral: Hex, conditionId: Hex, indexSet: bigint): bigint {
  const collectionId = collectionIdOf(conditionId, indexSet);
  return hashed(encodePacked(['address', 'uint256'], [collateral, collectionId]));
}

/**
 * The contract searches for the next point (x, y) of the curve and chooses the root y whose lowest bit equals the
 * seed's highest. So only the existence of a root matters, not its value.
 */
function collectionIdOf(conditionId: Hex, indexSet: bigint): bigint {
  const seed = hashed(encodePacked(['bytes32', 'uint256'], [conditionId, indexSet]));
  const odd = seed >> 255n !== 0n;
  // The seed may exceed P: the contract's addmod reduces it at the first step.
  let x = seed;
  do {
    x = (x + 1n) % P;
  } while (!isSquare((x * x * x + CURVE_B) % P));
  return odd ? x ^ (1n << 254n) : x;
}

/** Whether `value`, below P, has a square root modulo P: since P is prime, whether its Jacobi symbol is not −1. */
function isSquare(value: bigint): boolean {
  let [top, bottom, symbol] = [value, P, 1];
  while (top !== 0n) {
    while ((top & 1n) === 0n) {
      top >>= 1n;
      const octant = bottom & 7n;
      if (octant === 3n || octant === 5n) symbol = -symbol;
    }
    // Quadratic reciprocity.
    if ((top & bottom & 3n) === 3n) symbol = -symbol;
    [top, bottom] = [bottom % top, top];
  }
  return symbol === 1;
}

function hashed(packed: Hex): bigint {
  return BigInt(keccak256Hex(Buffer.from(packed.slice(2), 'hex')));
}

export type TokenPair = readonly [string, string];
type Place = {
  readonly conditionId: Hash;
  readonly outcomeIndex: 0 | 1;
  /** Derived from the condition id, so metadata never overrides it. */
  readonly isDerived: boolean;
};

export class TokenMap {
  readonly #collateralOf: ReadonlyMap<string, Hex>;
  /** Every collateral that position ids on this chain may contain. */
  readonly #collaterals: readonly Hex[];
  readonly #logger: Logger;
  readonly #pairs = new LRUCache<string, TokenPair>(upTo(PAIRS_MAX));
  readonly #places = new LRUCache<string, Place>(upTo(TOKENS_MAX));
  /** Conditions whose mismatch was logged. */
  readonly #mismatched = new LRUCache<string, true>({ max: MISMATCHES_LOGGED_MAX });

  constructor(chain: Chain, logger: Logger) {
    this.#collateralOf = new Map(
      [...chain.exchanges].flatMap(([exchange, ids]) => (ids === 'v3' ? [] : [[exchange, ids]])),
    );
    this.#collaterals = [...new Set([...this.#collateralOf.values(), chain.collateral])];
    this.#logger = logger;
  }

  /** The outcome index of a token in a condition; undefined if unknown. */
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

  /** The market of a token, if it was seen in a listing or derived before. */
  conditionOf(tokenId: string): Hash | undefined {
    return this.#places.get(tokenId)?.conditionId ?? structuredId(tokenId)?.conditionId;
  }

  /** The tokens of a condition that trades on the exchange. */
  pairOf(conditionId: string, exchange: string): TokenPair {
    const [first = '0x'] = this.#collaterals;
    return this.#derived(conditionId, this.#collateralOf.get(exchange) ?? first);
  }

  /**
   * Remembers the tokens of a listing and returns it with the outcomes in the chain's order. If the tokens do not
   * belong to the condition, logs an error and returns the listing unchanged.
   */
  listed(listing: Listing): Listing {
    const [first, second] = listing.tokenIds;
    const pair = this.#fitting(listing);
    if (pair === undefined) {
      this.#mismatch(listing, 'metadata has other tokens for this market than the chain');
      this.#place(listing.conditionId, listing.tokenIds, false);
      return listing;
    }
    this.#place(listing.conditionId, pair, true);
    if (pair[0] === first) return listing;
    this.#mismatch(listing, 'metadata lists the outcomes in the opposite order to the chain');
    const [one, other] = listing.outcomes;
    return { ...listing, tokenIds: [second, first], outcomes: [other, one] };
  }

  /** Remembers the tokens of a listing without checking them. */
  restore(listing: Listing): void {
    this.#place(listing.conditionId, listing.tokenIds, false);
  }

  /** The listing's tokens in the chain's order; undefined if they do not belong to the condition. */
  #fitting({ conditionId, tokenIds }: Listing): TokenPair | undefined {
    return this.#collaterals
      .map((collateral) => this.#derived(conditionId, collateral))
      .find((pair) => pair.every((token) => tokenIds.includes(token)));
  }

  #ownFirst(own: Hex): readonly Hex[] {
    return [own, ...this.#collaterals.filter((other) => other !== own)];
  }

  #mismatch({ conditionId, marketId, tokenIds }: Listing, message: string): void {
    if (this.#mismatched.has(conditionId)) return;
    this.#mismatched.set(conditionId, true);
    this.#logger.error({ conditionId, marketId, tokenIds }, message);
  }

  #place(conditionId: Hash, pair: TokenPair, isDerived: boolean): void {
    for (const [index, token] of pair.entries()) {
      if (!isDerived && this.#places.get(token)?.isDerived) continue;
      this.#places.set(token, { conditionId, outcomeIndex: index === 0 ? 0 : 1, isDerived });
    }
  }

  #derived(conditionId: string, collateral: Hex): TokenPair {
    if (isStructured(conditionId)) return structuredTokens(conditionId);
    const key = `${collateral}:${conditionId}`;
    const known = this.#pairs.get(key);
    if (known !== undefined) return known;
    const [first, second] = positionIds(collateral, conditionId as Hex);
    const pair = [first.toString(), second.toString()] as const;
    this.#pairs.set(key, pair);
    return pair;
  }
}
