/**
 * What ingest knows of markets when it explains movements: which market each token belongs to, and what outcome 0 is worth.
 * It is learnt from the events of LEDGER in their order, so it depends only on the blocks before and survives a restart.
 *
 * A market takes about 400 bytes.
 */
import type { Hex } from 'viem';
import type { Hash, KnownMarket, LedgerEvent, Match, Resolution } from '../../contract.ts';
import { positionIds } from '../token-ids.ts';
import type { TokenPlace } from './movements.ts';

const ONE = 1_000_000n;

type Known = {
  readonly conditionId: Hash;
  collateral: Hex | undefined;
  /** Price of outcome 0 in the newest match. */
  price: bigint | undefined;
  payouts: readonly [bigint, bigint] | undefined;
};

export class KnownMarkets {
  readonly #markets = new Map<string, Known>();
  readonly #places = new Map<string, TokenPlace>();

  placeOf(tokenId: string): TokenPlace | undefined {
    return this.#places.get(tokenId);
  }

  /** The collateral in the ids of a market's tokens; undefined if they are unknown. */
  collateralOf(conditionId: string): Hex | undefined {
    return this.#markets.get(conditionId)?.collateral;
  }

  /** The payouts of a resolved market. */
  payoutsOf(conditionId: string): readonly [bigint, bigint] | undefined {
    return this.#markets.get(conditionId)?.payouts;
  }

  /** Price of outcome 0 in the newest match, micro-USDC per share, rounded down. */
  priceOf(conditionId: string): bigint | undefined {
    return this.#markets.get(conditionId)?.price;
  }

  /** Learns from an event of LEDGER. Call it with all of them, in order. */
  learn(event: LedgerEvent): void {
    if (event.kind === 'market') this.#known(event);
    else if (event.kind === 'match') this.#matched(event);
    else if (event.kind === 'resolution') this.#resolved(event);
  }

  #known({ conditionId, collateral }: KnownMarket): void {
    const market = this.#market(conditionId);
    if (market.collateral !== undefined)
      for (const token of positionIds(market.collateral, conditionId))
        this.#places.delete(token.toString());
    market.collateral = collateral;
    for (const [index, token] of positionIds(collateral, conditionId).entries())
      this.#places.set(token.toString(), { conditionId, outcomeIndex: index === 0 ? 0 : 1 });
  }

  #matched({ conditionId, fills }: Match): void {
    const taker = fills.at(-1);
    if (taker === undefined || taker.shares === 0n) return;
    const { shares, usdc, outcomeIndex } = taker;
    const price = ((outcomeIndex === 0 ? usdc : shares - usdc) * ONE) / shares;
    this.#market(conditionId).price = price < 0n ? 0n : price > ONE ? ONE : price;
  }

  /** Only the first resolution counts. */
  #resolved({ conditionId, payouts }: Resolution): void {
    this.#market(conditionId).payouts ??= payouts;
  }

  #market(conditionId: Hash): Known {
    let market = this.#markets.get(conditionId);
    if (market === undefined) {
      market = { conditionId, collateral: undefined, price: undefined, payouts: undefined };
      this.#markets.set(conditionId, market);
    }
    return market;
  }
}
