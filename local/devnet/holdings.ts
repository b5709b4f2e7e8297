/**
 * Balances on the devnet: pUSD per wallet, shares per market and outcome. The chain is authoritative. This copy is read
 * from it at startup and updated with every match that is sent, so that we never send an order that the chain would
 * reject.
 */
import { decodeFunctionResult, encodeFunctionData, type Hex } from 'viem';
import {
  CONDITIONAL_TOKENS,
  conditionalTokensAbi,
  FEE_RECEIVER,
  POSITION_MANAGER,
  PUSD,
  pusdAbi,
} from './contracts.ts';
import { isV2, type Market } from './markets.ts';
import { BUY, type Match, type OutcomeIndex, settle } from './orders.ts';
import { type Rpc, viewCall } from './rpc.ts';

type Shares = readonly [Map<Hex, bigint>, Map<Hex, bigint>];

/** A match needs more than a wallet has. */
class InsufficientHoldingsError extends Error {
  override readonly name = 'InsufficientHoldingsError';
}

/** Balances per eth_call: 10 markets of 150 wallets with two outcomes. */
const MARKETS_PER_CALL = 10;

export class Holdings {
  readonly #cash = new Map<Hex, bigint>();
  readonly #shares = new Map<Hex, Shares>();

  /** pUSD of a wallet in micro-USDC. */
  cash(owner: Hex): bigint {
    return this.#cash.get(owner) ?? 0n;
  }

  /** Shares of a wallet in micro-shares. */
  shares(market: Market, outcome: OutcomeIndex, owner: Hex): bigint {
    return this.#shares.get(market.conditionId)?.[outcome].get(owner) ?? 0n;
  }

  /** Wallets that hold shares of a market. */
  owners(market: Market): readonly Hex[] {
    const shares = this.#shares.get(market.conditionId);
    if (shares === undefined) return [];
    return [...new Set([...shares[0].keys(), ...shares[1].keys()])];
  }

  /** Wallets that hold shares of an outcome. */
  holders(market: Market, outcome: OutcomeIndex): readonly Hex[] {
    return [...(this.#shares.get(market.conditionId)?.[outcome].keys() ?? [])];
  }

  deposit(owner: Hex, amount: bigint): void {
    this.#addCash(owner, amount);
  }

  /** Whether every wallet of a match can pay what it gives, including its fee. No wallet may occur twice. */
  affords(match: Match): boolean {
    return settle(match).every(({ order, making, fee }) => {
      if (order.side === BUY) return this.cash(order.maker) >= making + fee;
      const outcome = match.market.tokenIds[0] === order.tokenId ? 0 : 1;
      return this.shares(match.market, outcome, order.maker) >= making;
    });
  }

  /** Books a match. Throws InsufficientHoldingsError unless `affords` allows it. */
  apply(match: Match): void {
    if (!this.affords(match)) throw new InsufficientHoldingsError(match.market.slug);
    const executions = settle(match);
    for (const { order, making } of executions) {
      if (order.side === BUY) this.#addCash(order.maker, -making);
      else this.#addShares(match.market, order.tokenId, order.maker, -making);
    }
    for (const { order, taking, fee, refund } of executions) {
      if (order.side === BUY) {
        this.#addShares(match.market, order.tokenId, order.maker, taking);
        this.#addCash(order.maker, refund - fee);
      } else {
        this.#addCash(order.maker, taking - fee);
        this.#addShares(match.market, order.tokenId, order.maker, refund);
      }
      this.#addCash(FEE_RECEIVER, fee);
    }
  }

  /** Books a split of money into pairs of shares, or a merge if the amount is below 0. */
  split(market: Market, owner: Hex, amount: bigint): void {
    this.#addCash(owner, -amount);
    for (const tokenId of market.tokenIds) this.#addShares(market, tokenId, owner, amount);
  }

  /** Pays out a resolved market and drops its shares. Rounds down per outcome, like the contract. */
  redeem(market: Market): void {
    const shares = this.#shares.get(market.conditionId);
    if (shares === undefined) return;
    const denominator = BigInt(market.payouts[0] + market.payouts[1]);
    for (const outcome of [0, 1] as const) {
      for (const [owner, held] of shares[outcome]) {
        this.#addCash(owner, (held * BigInt(market.payouts[outcome])) / denominator);
      }
    }
    this.#shares.delete(market.conditionId);
  }

  /** Replaces everything with the balances at the chain's head. */
  async load(rpc: Rpc, owners: readonly Hex[], markets: readonly Market[]): Promise<void> {
    this.#cash.clear();
    this.#shares.clear();
    const wallets = [...owners, FEE_RECEIVER] as const;
    const balances = await rpc.batch<Hex>(
      wallets.map((owner) => {
        const args = [owner] as const;
        const data = encodeFunctionData({ abi: pusdAbi, functionName: 'balanceOf', args });
        return viewCall(PUSD, data);
      }),
    );
    for (const [i, owner] of wallets.entries()) this.#cash.set(owner, BigInt(balances[i] ?? '0x'));
    const [v2, older] = [markets.filter(isV2), markets.filter((market) => !isV2(market))];
    for (const [contract, all] of [
      [CONDITIONAL_TOKENS, older],
      [POSITION_MANAGER, v2],
    ] as const) {
      for (let i = 0; i < all.length; i += MARKETS_PER_CALL) {
        await this.#loadShares(rpc, contract, owners, all.slice(i, i + MARKETS_PER_CALL));
      }
    }
  }

  async #loadShares(
    rpc: Rpc,
    contract: Hex,
    owners: readonly Hex[],
    markets: readonly Market[],
  ): Promise<void> {
    const balances = markets.flatMap((market) =>
      owners.flatMap((owner) => market.tokenIds.map((id) => ({ market, owner, id }))),
    );
    const balanceOf = { abi: conditionalTokensAbi, functionName: 'balanceOfBatch' } as const;
    const args = [balances.map(({ owner }) => owner), balances.map(({ id }) => id)] as const;
    const call = viewCall(contract, encodeFunctionData({ ...balanceOf, args }));
    const [data = '0x'] = await rpc.batch<Hex>([call]);
    const held = decodeFunctionResult({ ...balanceOf, data });
    for (const [i, { market, owner, id }] of balances.entries()) {
      const amount = held[i] ?? 0n;
      if (amount > 0n) this.#addShares(market, id, owner, amount);
    }
  }

  #addCash(owner: Hex, amount: bigint): void {
    if (amount === 0n) return;
    const total = this.cash(owner) + amount;
    if (total < 0n) throw new InsufficientHoldingsError(`${owner} is ${-total} micro-USDC short`);
    this.#cash.set(owner, total);
  }

  #addShares(market: Market, tokenId: bigint, owner: Hex, amount: bigint): void {
    if (amount === 0n) return;
    const shares = this.#shares.get(market.conditionId) ?? ([new Map(), new Map()] as const);
    this.#shares.set(market.conditionId, shares);
    const byOwner = shares[market.tokenIds[0] === tokenId ? 0 : 1];
    const total = (byOwner.get(owner) ?? 0n) + amount;
    if (total < 0n) throw new InsufficientHoldingsError(`${owner} is ${-total} micro-shares short`);
    if (total === 0n) byOwner.delete(owner);
    else byOwner.set(owner, total);
  }
}
