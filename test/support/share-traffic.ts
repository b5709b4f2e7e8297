/**
 * Random traffic of shares on a devnet: its traders and wallets that have never traded split, merge, send, redeem and trade
 * with each other, while the devnet trades too and some of the markets resolve. Some transactions fail, as on any chain.
 */
import {
  decodeFunctionResult,
  encodeFunctionData,
  type Hex,
  numberToHex,
  pad,
  parseAbi,
} from 'viem';
import {
  CONDITIONAL_TOKENS,
  conditionalTokensAbi,
  DEPLOYER,
  EXCHANGE,
  exchangeAbi,
  OPERATORS,
  ORACLE,
  PUSD,
  pusdAbi,
} from '../../local/devnet/contracts.ts';
import type { Order } from '../../local/devnet/orders.ts';
import { chainLogs } from '../release/faults/chain-facts.ts';
import type { StillDevnet } from './chain-harness.ts';
import { generator } from './seed.ts';

const SHARES = parseAbi([
  'function splitPosition(bytes32 conditionId, uint256 amount)',
  'function mergePositions(bytes32 conditionId, uint256 amount)',
  'function safeTransferFrom(address from, address to, uint256 id, uint256 amount, bytes data)',
  'function redeemPositions(bytes32 conditionId, address[] owners)',
]);
const MONEY = parseAbi(['function approve(address spender, uint256 value) returns (bool)']);
const PREPARED = '0xab3760c3bd2bb38b5bcf54dc79802ed67338b4cf29f3054ded67ed24661e4177';
const M = 1_000_000n;
/** Wallets without keys that have never traded. */
const FRESH = Array.from({ length: 8 }, (_, i) => pad(numberToHex(0xfe5000 + i), { size: 20 }));
const TRADERS = 14;
const BLOCK_MAX = 9;
/** The devnet's own matches fail more often the longer it has not read what its traders have. */
const RELOAD_BLOCKS = 4;
const PAYOUTS = [
  [1n, 0n],
  [0n, 1n],
  [1n, 1n],
  [1n, 3n],
] as const;

export type TrafficMarket = {
  readonly condition: Hex;
  readonly tokens: readonly [bigint, bigint];
  /** Where it trades. */
  readonly exchange: Hex;
};

export type Traffic = {
  readonly seed: number;
  /** Transactions that move shares. */
  readonly moves: number;
  readonly markets: readonly TrafficMarket[];
};

/** Sends all transactions, and mines until the last is final. */
export async function sendTraffic(devnet: StillDevnet, traffic: Traffic): Promise<void> {
  const run = new Run(devnet, traffic);
  await run.fund();
  for (let [moved, block] = [0, 0]; moved < traffic.moves; block++) {
    if (block % RELOAD_BLOCKS === 0) await devnet.reload();
    await run.refresh();
    for (let count = run.below(BLOCK_MAX); count >= 0 && moved < traffic.moves; count--) {
      if (run.below(4) === 0) await devnet.trade();
      else moved += await run.step();
    }
    await devnet.mine(1);
    // Half of the markets, spread over the whole run.
    if (moved * traffic.markets.length > traffic.moves * 2 * (run.resolved + 1))
      await run.resolve();
  }
  await devnet.mine(80);
}

class Run {
  readonly #devnet: StillDevnet;
  readonly #markets: readonly TrafficMarket[];
  readonly #wallets: readonly Hex[];
  readonly #random: () => number;
  readonly #held = new Map<string, bigint>();
  readonly #questions = new Map<string, Hex>();
  readonly #isResolved = new Set<Hex>();
  #salt = 1n << 200n;
  #sent = 0;

  constructor(devnet: StillDevnet, { seed, markets }: Traffic) {
    this.#devnet = devnet;
    this.#markets = markets;
    this.#wallets = [...FRESH, ...devnet.traders.slice(0, TRADERS)];
    this.#random = generator(seed);
  }

  get resolved(): number {
    return this.#isResolved.size;
  }

  /** A whole number from 0 to `end` − 1. */
  below(end: number): number {
    return Math.floor(this.#random() * end);
  }

  async fund(): Promise<void> {
    for await (const log of chainLogs(
      this.#devnet.url,
      { topics: [PREPARED] },
      0,
      await this.#devnet.number('latest'),
    ))
      this.#questions.set(log.topics[1] ?? '', (log.topics[3] ?? '0x') as Hex);
    const args = [FRESH, FRESH.map(() => 5_000n * M)] as const;
    const mint = encodeFunctionData({ abi: pusdAbi, functionName: 'mint', args });
    await this.#devnet.send(DEPLOYER, PUSD, mint);
    for (const wallet of this.#wallets) {
      const approve = { functionName: 'approve', args: [CONDITIONAL_TOKENS, 2n ** 200n] } as const;
      await this.#devnet.send(wallet, PUSD, encodeFunctionData({ abi: MONEY, ...approve }));
    }
    await this.#devnet.mine(1);
  }

  /** Reads all balances. Nothing may be pending. */
  async refresh(): Promise<void> {
    const owners = [...this.#wallets, EXCHANGE] as const;
    const keys = this.#markets.flatMap(({ tokens }) =>
      owners.flatMap((wallet) => tokens.map((token) => ({ wallet, token }))),
    );
    const of = { abi: conditionalTokensAbi, functionName: 'balanceOfBatch' } as const;
    const args = [keys.map(({ wallet }) => wallet), keys.map(({ token }) => token)] as const;
    const call = { to: CONDITIONAL_TOKENS, data: encodeFunctionData({ ...of, args }) };
    const data = await this.#devnet.call<Hex>('eth_call', { ...call, gas: '0x20000000' }, 'latest');
    const held = decodeFunctionResult({ ...of, data });
    for (const [i, { wallet, token }] of keys.entries())
      this.#held.set(`${wallet} ${token}`, held[i] ?? 0n);
  }

  /** Resolves the next market. */
  async resolve(): Promise<void> {
    const market = this.#markets[this.resolved];
    if (market === undefined) return;
    this.#isResolved.add(market.condition);
    const question = this.#questions.get(market.condition) ?? '0x';
    const args = [question, this.#pick(PAYOUTS)] as const;
    const report = { abi: conditionalTokensAbi, functionName: 'reportPayouts', args } as const;
    await this.#devnet.send(ORACLE, CONDITIONAL_TOKENS, encodeFunctionData(report));
  }

  /** Sends one random transaction; returns how many movements it tries. */
  async step(): Promise<number> {
    const [wallet, market] = [this.#pick(this.#wallets), this.#pick(this.#markets)];
    const other = this.#pick(this.#wallets.filter((one) => one !== wallet));
    const outcome = this.#pick([0, 1] as const);
    const most = this.#of(wallet, market.tokens[outcome]);
    const pairs = min(most, this.#of(wallet, market.tokens[outcome === 0 ? 1 : 0]));
    const what = this.below(100);
    if (this.#isResolved.has(market.condition) && what < 30) {
      const args = [market.condition, [wallet, other]] as const;
      const redeem = { abi: SHARES, functionName: 'redeemPositions', args } as const;
      await this.#call(DEPLOYER, encodeFunctionData(redeem));
      return 1;
    }
    if (what < 20 && pairs > 0n) {
      const args = [market.condition, this.#partOf(pairs)] as const;
      const merge = { abi: SHARES, functionName: 'mergePositions', args } as const;
      await this.#call(wallet, encodeFunctionData(merge));
      return 1;
    }
    if (what < 60 && most > 0n) {
      await this.#send(wallet, this.#receiver(other, wallet), market, outcome, this.#partOf(most));
      return 1;
    }
    if (what < 70) {
      const args = [market.condition, this.#amount()] as const;
      const split = { abi: SHARES, functionName: 'splitPosition', args } as const;
      await this.#call(wallet, encodeFunctionData(split));
      return 1;
    }
    const lost = this.#of(EXCHANGE, market.tokens[outcome]);
    if (what < 80 && lost > 0n) {
      await this.#send(EXCHANGE, wallet, market, outcome, this.#partOf(lost));
      return 1;
    }
    await this.#trade(market, wallet, other, outcome);
    return 0;
  }

  /** Mostly the other wallet. What is sent to the exchange by mistake may come back. */
  #receiver(other: Hex, own: Hex): Hex {
    this.#sent += 1;
    if (this.#sent % 20 === 10) return EXCHANGE;
    return this.below(40) === 0 ? own : other;
  }

  /** A match of two wallets that buys, mints or merges; a merge may leave the taker with shares that the log counts as sold. */
  async #trade(market: TrafficMarket, taker: Hex, maker: Hex, outcome: 0 | 1): Promise<void> {
    const [own, opposite] = [market.tokens[outcome], market.tokens[outcome === 0 ? 1 : 0]];
    const price = BigInt(20 + this.below(960));
    const [takerHas, makerHas, makerHasOther] = [
      this.#of(taker, own),
      this.#of(maker, own),
      this.#of(maker, opposite),
    ];
    const fee = (usdc: bigint) => (this.below(3) === 0 ? usdc / 50n : 0n);
    if (takerHas > 0n && makerHasOther > 0n) {
      const shares = this.#partOf(min(takerHas, makerHasOther));
      const back = shares > 10n && this.below(2) === 0 ? shares / 10n : 0n;
      const sold = shares - back;
      const usdc = (sold * price) / 1_000n;
      await this.#match(
        market,
        this.#order(taker, own, 1, shares, usdc),
        this.#order(maker, opposite, 1, sold, sold - usdc),
        [shares, sold, fee(usdc)],
      );
      return;
    }
    const shares = makerHas > 0n ? this.#partOf(makerHas) : this.#amount();
    const usdc = (shares * price) / 1_000n;
    const isMint = makerHas === 0n;
    const making = isMint ? shares - usdc : shares;
    await this.#match(
      market,
      this.#order(taker, own, 0, usdc, shares),
      isMint
        ? this.#order(maker, opposite, 0, making, shares)
        : this.#order(maker, own, 1, making, usdc),
      [usdc, making, fee(usdc)],
    );
  }

  async #match(
    { condition, exchange }: TrafficMarket,
    taker: Order,
    maker: Order,
    [takes, makes, fee]: readonly [bigint, bigint, bigint],
  ): Promise<void> {
    const args = [condition, taker, [maker], takes, [makes], fee, [0n]] as const;
    const data = encodeFunctionData({ abi: exchangeAbi, functionName: 'matchOrders', args });
    await this.#devnet.send(OPERATORS[0], exchange, data);
  }

  #order(
    maker: Hex,
    tokenId: bigint,
    side: 0 | 1,
    makerAmount: bigint,
    takerAmount: bigint,
  ): Order {
    this.#salt += 1n;
    const none = `0x${'0'.repeat(64)}` as const;
    return {
      ...{ salt: this.#salt, maker, signer: maker, tokenId, makerAmount, takerAmount, side },
      ...{ signatureType: 0, timestamp: 0n, metadata: none, builder: none, signature: '0x' },
    };
  }

  async #send(
    from: Hex,
    to: Hex,
    { tokens }: TrafficMarket,
    outcome: 0 | 1,
    amount: bigint,
  ): Promise<void> {
    const args = [from, to, tokens[outcome], amount, '0x'] as const;
    const send = { abi: SHARES, functionName: 'safeTransferFrom', args } as const;
    await this.#call(from, encodeFunctionData(send));
  }

  async #call(from: Hex, data: Hex): Promise<void> {
    await this.#devnet.send(from, CONDITIONAL_TOKENS, data);
  }

  #of(wallet: Hex, token: bigint): bigint {
    return this.#held.get(`${wallet} ${token}`) ?? 0n;
  }

  /** From next to nothing to all of it. */
  #partOf(most: bigint): bigint {
    const kind = this.below(6);
    if (kind === 0) return most;
    if (kind === 1) return min(most, BigInt(1 + this.below(5)));
    const part = (most * BigInt(1 + this.below(999))) / 1_000n;
    return part === 0n ? most : part;
  }

  #amount(): bigint {
    return BigInt(1 + this.below(7_000_000));
  }

  #pick<T>(all: readonly T[]): T {
    return all[this.below(all.length)] as T;
  }
}

function min(a: bigint, b: bigint): bigint {
  return a < b ? a : b;
}
