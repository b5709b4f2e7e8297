/**
 * Wallets of a still devnet that use protocol version 2 in every way that its contracts allow: they trade on the exchange of
 * version 3, split, merge, redeem and convert through the router, take combos apart, and exchange shares of older markets. Every way
 * has its turn; wallets, markets and amounts are random. What a wallet lacks it splits first, so no transaction reverts.
 */
import {
  decodeFunctionResult,
  encodeFunctionData,
  type Hex,
  numberToHex,
  pad,
  parseAbi,
} from 'viem';
import { conditionsOfEvent, structuredId } from '../../ingest/events/structured-ids.ts';
import {
  BINARY_MODULE,
  COMBINATORIAL_MODULE,
  CONDITIONAL_TOKENS,
  conditionalTokensAbi,
  DEPLOYER,
  EXCHANGE_V3,
  exchangeV3Abi,
  NEG_RISK_MODULE,
  OPERATORS,
  ORACLE,
  POSITION_MANAGER,
  POSITION_REDEEMER,
  PUSD,
  pusdAbi,
  ROUTER,
} from '../../local/devnet/contracts.ts';
import { BUY, type Order, SELL, type Side } from '../../local/devnet/orders.ts';
import { BINARY, NEG_RISK, positionId } from '../../local/devnet/position-ids.ts';
import { Random } from '../../local/devnet/random.ts';
import type { StillDevnet } from './chain-harness.ts';
import { conditionIdOf } from './moving-wallets.ts';

const managerAbi = parseAbi([
  'function balanceOf(address owner, uint256 id) view returns (uint256)',
  'function balanceOfBatch(address[] owners, uint256[] ids) view returns (uint256[])',
  'function transferFrom(address from, address to, uint256 id, uint256 amount)',
]);
export const moduleAbi = parseAbi([
  'function reportResult(bytes31 conditionId, uint256[] result)',
  'function registerMigration(bytes31 conditionId, bytes32 legacyConditionId)',
  'function migratePositions(bytes31 conditionId, uint256[] outcomes, uint256[] amounts)',
  'function resolveMigration(bytes31 conditionId, uint256 payout0, uint256 payout1)',
  'function prepareCondition(uint256[] legs) returns (uint256)',
  'function getLegs(uint256 id) view returns (uint256[])',
  'function payoutOf(uint256[] legs, uint256 outcome, uint256 amount) view returns (uint256)',
]);
const routerAbi = parseAbi([
  'function split(bytes31 conditionId, uint256 amount)',
  'function merge(bytes31 conditionId, uint256 amount)',
  'function redeem(uint256 positionId, uint256 amount)',
  'function horizontalSplit(bytes29 eventId, uint256 amount)',
  'function horizontalMerge(bytes29 eventId, uint256 amount)',
  'function convert(bytes29 eventId, uint256 number, uint256 amount)',
  'function compress(uint256 positionId, uint256 amount)',
  'function extract(uint256 positionId, uint256 at, uint256 amount)',
  'function wrap(uint256 underlyingId, uint256 amount)',
  'function unwrap(uint256 positionId, uint256 amount)',
]);
const redeemerAbi = parseAbi(['function redeem(address[] owners, uint256[] positionIds)']);

const M = 1_000_000n;
const WALLETS = 5;
const MONEY = 1_000_000n * M;
const EVENT_SIZE = 3;
const NO_WORD: Hex = pad('0x0', { size: 32 });

/** A market of ConditionalTokens, and the condition that continues it once it is registered. */
type Legacy = {
  readonly conditionId: Hex;
  readonly questionId: Hex;
  readonly tokens: readonly [bigint, bigint];
  next: bigint | undefined;
};

export class V2Wallets {
  readonly #devnet: StillDevnet;
  readonly #random: Random;
  #count = 0;
  readonly wallets: Hex[] = [];
  /** Open conditions, with an outcome of their own to be resolved. */
  #binary: bigint[] = [];
  #events: bigint[] = [];
  #legacy: Legacy[] = [];
  readonly #combos: bigint[] = [];
  /** All token ids of the PositionManager that may be held. */
  readonly ids = new Set<bigint>();
  readonly #allLegacy: Legacy[] = [];
  readonly given = new Map<Hex, bigint>();

  private constructor(devnet: StillDevnet, seed: number) {
    this.#devnet = devnet;
    this.#random = new Random(`v2 wallets:${seed}`);
  }

  static async open(devnet: StillDevnet, seed: number): Promise<V2Wallets> {
    const made = new V2Wallets(devnet, seed);
    for (let i = 0; i < WALLETS; i++)
      made.wallets.push(pad(numberToHex(0xdef000 + i), { size: 20 }));
    // The manager has to pay for shares of older markets before these are resolved.
    const owners = [...made.wallets, POSITION_MANAGER as Hex];
    await made.#send(DEPLOYER, PUSD, pusdAbi, 'mint', [owners, owners.map(() => MONEY)]);
    for (const owner of made.wallets) made.given.set(owner, MONEY);
    for (let i = 0; i < 3; i++) made.#newBinary();
    for (let i = 0; i < 2; i++) made.#newEvent();
    await made.#newLegacy();
    await devnet.mine(1);
    return made;
  }

  /** Markets of ConditionalTokens. */
  legacyMarkets(): readonly Pick<Legacy, 'conditionId' | 'tokens'>[] {
    return this.#allLegacy;
  }

  /** Conditions that continue such a market, with that one's. */
  continued(): readonly (readonly [Hex, Hex])[] {
    return this.#allLegacy.flatMap(({ conditionId, next }) =>
      next === undefined ? [] : [[hex(next), conditionId] as const],
    );
  }

  /** The market and outcome of every token. */
  tokens(): readonly (readonly [string, { readonly condition: Hex; readonly outcome: 0 | 1 }])[] {
    const older = new Map(this.continued());
    const outcomeOf = (bit: bigint) => (bit === 0n ? (0 as const) : (1 as const));
    return [
      ...[...this.ids].map((id) => {
        const own = hex(id & ~1n);
        const place = { condition: older.get(own) ?? own, outcome: outcomeOf(id & 1n) };
        return [`${id}`, place] as const;
      }),
      ...this.#allLegacy.flatMap(({ conditionId: condition, tokens }) =>
        tokens.map((id, at) => [`${id}`, { condition, outcome: outcomeOf(BigInt(at)) }] as const),
      ),
    ];
  }

  /** All ways, each of which is in blocks of its own. */
  readonly ways: readonly (() => Promise<void>)[] = [
    () => this.#router('split', this.#condition(), true),
    () => this.#merge(),
    () => this.#mint(this.#condition()),
    () => this.#swap(this.#condition()),
    () => this.#mergeMatch(this.#condition()),
    () => this.#newCombo('match'),
    () => this.#newCombo('prepare'),
    () => this.#mint(this.#combo()),
    () => this.#swap(this.#combo()),
    () => this.#mergeMatch(this.#combo()),
    () => this.#router('horizontalSplit', this.#random.pick(this.#events), true),
    () => this.#horizontalMerge(),
    () => this.#convert(),
    () => this.#transfer(),
    () => this.#redeem(),
    () => this.#redeemForAll(),
    () => this.#compress(),
    () => this.#extract(),
    () => this.#wrap(),
    () => this.#unwrap(),
    () => this.#legacySplit(),
    () => this.#migrate(),
  ];

  /** Resolves a market of each kind and makes new ones. */
  async resolveSome(): Promise<void> {
    const random = this.#random;
    const [binary] = this.#binary;
    if (binary !== undefined) {
      const first = random.pick([0n, M, M / 2n, BigInt(random.below(1_000_000))]);
      await this.#report(BINARY_MODULE, binary, first);
      this.#binary = this.#binary.slice(1);
      this.#newBinary();
    }
    const [event] = this.#events;
    if (event !== undefined) {
      const winner = random.below(EVENT_SIZE + 1);
      for (let n = 0; n < EVENT_SIZE; n++) {
        // After the winner all others follow.
        if (n > winner && random.chance(0.5)) break;
        const condition = BigInt(conditionsOfEvent(hex(event))[n] ?? 0);
        await this.#report(NEG_RISK_MODULE, condition, n === winner ? M : 0n);
      }
      this.#events = this.#events.slice(1);
      this.#newEvent();
    }
    const legacy = this.#legacy.find(({ next }) => next !== undefined);
    if (legacy?.next !== undefined) {
      const payouts = random.pick([
        [1n, 0n],
        [0n, 1n],
        [1n, 1n],
      ] as const);
      const report = [legacy.questionId, payouts] as const;
      await this.#send(ORACLE, CONDITIONAL_TOKENS, conditionalTokensAbi, 'reportPayouts', report);
      await this.#devnet.mine(1);
      const args = [short(legacy.next), ...payouts] as const;
      await this.#send(DEPLOYER, BINARY_MODULE, moduleAbi, 'resolveMigration', args);
      this.#legacy = this.#legacy.filter((one) => one !== legacy);
      await this.#newLegacy();
    }
    await this.#devnet.mine(1);
  }

  #wallet(): Hex {
    return this.#random.pick(this.wallets);
  }

  #two(): readonly [Hex, Hex] {
    const first = this.#wallet();
    return [first, this.#random.pick(this.wallets.filter((one) => one !== first))];
  }

  #amount(): bigint {
    return BigInt(1 + this.#random.below(9_999)) * 1_000n;
  }

  #condition(): bigint {
    const ofEvents = this.#events.flatMap((event) => conditionsOfEvent(hex(event)).map(BigInt));
    const continued = this.#legacy.flatMap(({ next }) => next ?? []);
    return this.#random.pick([...this.#binary, ...ofEvents, ...continued]);
  }

  #combo(): bigint {
    return this.#combos.length === 0 ? this.#condition() : this.#random.pick(this.#combos);
  }

  #newBinary(): bigint {
    const id = positionId(BINARY, word(++this.#count), 1);
    this.#binary.push(id);
    this.#know(id);
    return id;
  }

  #newEvent(): void {
    const id = positionId(NEG_RISK, word(++this.#count), EVENT_SIZE);
    this.#events.push(id);
    for (const condition of conditionsOfEvent(hex(id))) this.#know(BigInt(condition));
  }

  async #newLegacy(): Promise<void> {
    const questionId = numberToHex(0xabc_0000 + ++this.#count, { size: 32 });
    const args = [ORACLE, questionId, 2n] as const;
    await this.#send(DEPLOYER, CONDITIONAL_TOKENS, conditionalTokensAbi, 'prepareCondition', args);
    const { conditionId, tokenIds } = conditionIdOf(questionId);
    const legacy = { conditionId, questionId, tokens: tokenIds, next: undefined };
    this.#legacy.push(legacy);
    this.#allLegacy.push(legacy);
  }

  #know(condition: bigint): void {
    this.ids.add(condition).add(condition + 1n);
  }

  async #newCombo(how: 'match' | 'prepare'): Promise<void> {
    const conditions = new Set<bigint>();
    const size = 2 + this.#random.below(3);
    while (conditions.size < size) conditions.add(this.#condition());
    const legs = [...conditions]
      .map((id) => id + BigInt(this.#random.below(2)))
      .sort((a, b) => (a < b ? -1 : 1));
    const prepare = { abi: moduleAbi, functionName: 'prepareCondition', args: [legs] } as const;
    const id = await this.#view(COMBINATORIAL_MODULE, prepare);
    const combo = decodeFunctionResult({ ...prepare, data: id });
    if (how === 'prepare')
      await this.#send(DEPLOYER, COMBINATORIAL_MODULE, moduleAbi, 'prepareCondition', [legs]);
    await this.#devnet.mine(1);
    this.#combos.push(combo);
    this.#know(combo);
    // Its parts, of which wallets get shares.
    for (const leg of legs) await this.#knowPart([leg]);
    for (const [at, leg] of legs.entries()) {
      await this.#knowPart(legs.filter((one) => one !== leg));
      await this.#knowPart(legs.map((one, n) => (n === at ? one ^ 1n : one)));
    }
    if (how === 'match') await this.#mint(combo, legs);
  }

  async #knowPart(legs: readonly bigint[]): Promise<void> {
    const prepare = { abi: moduleAbi, functionName: 'prepareCondition', args: [legs] } as const;
    const data = await this.#view(COMBINATORIAL_MODULE, prepare);
    this.#know(decodeFunctionResult({ ...prepare, data }));
  }

  async #need(wallet: Hex, id: bigint, amount: bigint): Promise<void> {
    const held = await this.#held(wallet, id);
    if (held >= amount) return;
    await this.#send(wallet, ROUTER, routerAbi, 'split', [short(id), amount - held]);
    await this.#devnet.mine(1);
  }

  async #router(name: 'split' | 'horizontalSplit', id: bigint, mine: boolean): Promise<void> {
    const of = name === 'split' ? short(id) : eventOf(id);
    await this.#send(this.#wallet(), ROUTER, routerAbi, name, [of, this.#amount()]);
    if (mine) await this.#devnet.mine(1);
  }

  async #merge(): Promise<void> {
    const [wallet, id, amount] = [this.#wallet(), this.#condition(), this.#amount()];
    await this.#need(wallet, id, amount);
    await this.#need(wallet, id + 1n, amount);
    await this.#act(wallet, 'merge', [short(id), amount]);
  }

  async #horizontalMerge(): Promise<void> {
    const [wallet, event, amount] = [
      this.#wallet(),
      this.#random.pick(this.#events),
      this.#amount(),
    ];
    for (const id of conditionsOfEvent(hex(event))) await this.#need(wallet, BigInt(id), amount);
    await this.#act(wallet, 'horizontalMerge', [eventOf(event), amount]);
  }

  async #convert(): Promise<void> {
    const [wallet, event, amount] = [
      this.#wallet(),
      this.#random.pick(this.#events),
      this.#amount(),
    ];
    const number = this.#random.below(EVENT_SIZE + 1);
    const id = BigInt(conditionsOfEvent(hex(event))[number] ?? 0);
    await this.#need(wallet, id + 1n, amount);
    await this.#act(wallet, 'convert', [eventOf(event), BigInt(number), amount]);
  }

  async #transfer(): Promise<void> {
    const [[from, to], id, amount] = [this.#two(), this.#combo(), this.#amount()];
    const token = id + BigInt(this.#random.below(2));
    await this.#need(from, token, amount);
    await this.#send(from, POSITION_MANAGER, managerAbi, 'transferFrom', [from, to, token, amount]);
    await this.#devnet.mine(1);
  }

  /** Shares of which the payout is known. */
  async #redeemable(): Promise<{ wallet: Hex; id: bigint; held: bigint } | undefined> {
    const wallet = this.#wallet();
    const ids = [...this.ids];
    const held = await balancesIn(
      this.#devnet,
      POSITION_MANAGER,
      ids.map((id) => ({ owner: wallet, id })),
    );
    const open = new Set([...this.#binary, ...this.#legacy.flatMap(({ next }) => next ?? [])]);
    for (const event of this.#events)
      for (const id of conditionsOfEvent(hex(event))) open.add(BigInt(id));
    const found = ids.flatMap((id, at) => {
      const condition = id & ~1n;
      const isCombo = condition >> 248n === 3n;
      return !isCombo && !open.has(condition) && (held[at] ?? 0n) > 0n
        ? [{ wallet, id, held: held[at] ?? 0n }]
        : [];
    });
    return found.length === 0 ? undefined : this.#random.pick(found);
  }

  async #redeem(): Promise<void> {
    const found = await this.#redeemable();
    if (found !== undefined) await this.#act(found.wallet, 'redeem', [found.id, found.held]);
  }

  /** Also calls for a wallet that has nothing, of which the redeemer logs an event. */
  async #redeemForAll(): Promise<void> {
    const found = await this.#redeemable();
    if (found === undefined) return;
    const args = [this.wallets, this.wallets.map(() => found.id)] as const;
    await this.#send(DEPLOYER, POSITION_REDEEMER, redeemerAbi, 'redeem', args);
    await this.#devnet.mine(1);
  }

  /** Resolved legs leave a combo, if it has any. */
  async #compress(): Promise<void> {
    const [combo, wallet, amount] = [this.#combo(), this.#wallet(), this.#amount()];
    if (combo >> 248n !== 3n) return;
    const legs = await this.#legs(combo);
    const rest = legs.filter((leg) => this.#isOpen(leg));
    if (rest.length === legs.length) return;
    if (rest.length > 0) await this.#knowPart(rest);
    const id = combo + BigInt(this.#random.below(2));
    await this.#need(wallet, id, amount);
    await this.#act(wallet, 'compress', [id, amount]);
  }

  async #extract(): Promise<void> {
    const [combo, wallet, amount] = [this.#combo(), this.#wallet(), this.#amount()];
    if (combo >> 248n !== 3n) return;
    const { length } = await this.#legs(combo);
    await this.#need(wallet, combo + 1n, amount);
    await this.#act(wallet, 'extract', [combo + 1n, BigInt(this.#random.below(length)), amount]);
  }

  async #wrap(): Promise<void> {
    const id = this.#condition() + BigInt(this.#random.below(2));
    const [wallet, amount] = [this.#wallet(), this.#amount()];
    await this.#need(wallet, id, amount);
    await this.#knowPart([id]);
    await this.#act(wallet, 'wrap', [id, amount]);
  }

  async #unwrap(): Promise<void> {
    const id = this.#condition() + BigInt(this.#random.below(2));
    const [wallet, amount] = [this.#wallet(), this.#amount()];
    await this.#need(wallet, id, amount);
    await this.#knowPart([id]);
    await this.#act(wallet, 'wrap', [id, amount]);
    const prepare = { abi: moduleAbi, functionName: 'prepareCondition', args: [[id]] } as const;
    const combo = decodeFunctionResult({
      ...prepare,
      data: await this.#view(COMBINATORIAL_MODULE, prepare),
    });
    await this.#act(wallet, 'unwrap', [combo, amount]);
  }

  async #legacySplit(): Promise<void> {
    const [wallet, amount] = [this.#wallet(), this.#amount()];
    const { conditionId } = this.#random.pick(this.#legacy);
    const args = [conditionId, amount] as const;
    await this.#send(wallet, CONDITIONAL_TOKENS, conditionalTokensAbi, 'splitPosition', args);
    await this.#devnet.mine(1);
  }

  /** A market is continued, or a wallet exchanges its shares of one that was. */
  async #migrate(): Promise<void> {
    const legacy = this.#random.pick(this.#legacy);
    if (legacy.next === undefined) {
      legacy.next = positionId(BINARY, word(++this.#count), 1);
      this.#know(legacy.next);
      const args = [short(legacy.next), legacy.conditionId] as const;
      await this.#send(DEPLOYER, BINARY_MODULE, moduleAbi, 'registerMigration', args);
      await this.#devnet.mine(1);
    }
    const [wallet, amount] = [this.#wallet(), this.#amount()];
    const split = [legacy.conditionId, amount] as const;
    await this.#send(wallet, CONDITIONAL_TOKENS, conditionalTokensAbi, 'splitPosition', split);
    await this.#devnet.mine(1);
    const outcomes = this.#random.pick([[0n], [1n], [0n, 1n]]);
    const args = [short(legacy.next), outcomes, outcomes.map(() => amount)] as const;
    await this.#send(wallet, BINARY_MODULE, moduleAbi, 'migratePositions', args);
    await this.#devnet.mine(1);
  }

  async #mint(id: bigint, legs?: readonly bigint[]): Promise<void> {
    const [[taker, maker], amount, price] = [this.#two(), this.#amount(), this.#price()];
    const token = id + BigInt(this.#random.below(2));
    const mine = this.#order(taker, BUY, token, amount, price + 5n);
    const other = this.#order(maker, BUY, token ^ 1n, amount, 1_000n - price);
    await this.#match(mine, other, { fill: mine.makerAmount, receive: amount }, legs);
  }

  async #swap(id: bigint): Promise<void> {
    const [[taker, maker], amount, price] = [this.#two(), this.#amount(), this.#price()];
    const token = id + BigInt(this.#random.below(2));
    const isSale = this.#random.chance(0.5);
    await this.#need(isSale ? taker : maker, token, amount);
    const mine = this.#order(taker, isSale ? SELL : BUY, token, amount, price);
    const other = this.#order(maker, isSale ? BUY : SELL, token, amount, price);
    const receive = isSale ? (amount * price) / 1_000n : amount;
    await this.#match(mine, other, { fill: mine.makerAmount, receive });
  }

  async #mergeMatch(id: bigint): Promise<void> {
    const [[taker, maker], amount, price] = [this.#two(), this.#amount(), this.#price()];
    const token = id + BigInt(this.#random.below(2));
    await this.#need(taker, token, amount);
    await this.#need(maker, token ^ 1n, amount);
    const mine = this.#order(taker, SELL, token, amount, price);
    const other = this.#order(maker, SELL, token ^ 1n, amount, 1_000n - price);
    const receive = amount - (amount * (1_000n - price)) / 1_000n;
    // The taker may offer more than its makers take.
    await this.#match(mine, other, { fill: amount + BigInt(this.#random.below(3)) * M, receive });
  }

  #order(maker: Hex, side: Side, tokenId: bigint, shares: bigint, price: bigint): Order {
    return orderV3(BigInt(++this.#count), maker, side, tokenId, shares, price);
  }

  async #match(
    taker: Order,
    maker: Order,
    { fill, receive }: { readonly fill: bigint; readonly receive: bigint },
    legs?: readonly bigint[],
  ): Promise<void> {
    const takerFeeAmount = BigInt(this.#random.below(50));
    const fees = [BigInt(this.#random.below(20))];
    const amounts = { takerFillAmount: fill, takerReceiveAmount: receive, takerFeeAmount };
    const args = [taker, [maker], [maker.makerAmount], fees, amounts] as const;
    const data =
      legs === undefined
        ? encodeFunctionData({ abi: exchangeV3Abi, functionName: 'matchOrders', args })
        : encodeFunctionData({
            abi: exchangeV3Abi,
            functionName: 'matchOrdersAndPrepareCombinatorial',
            args: [...args, legs],
          });
    await this.#devnet.send(OPERATORS[0], EXCHANGE_V3, data);
    await this.#devnet.mine(1);
  }

  /** Whether the market of a leg has no result yet. */
  #isOpen(leg: bigint): boolean {
    const condition = leg & ~1n;
    const ofEvents = this.#events.flatMap((event) => conditionsOfEvent(hex(event)).map(BigInt));
    const continued = this.#legacy.flatMap(({ next }) => next ?? []);
    return [...this.#binary, ...ofEvents, ...continued].includes(condition);
  }

  async #legs(combo: bigint): Promise<readonly bigint[]> {
    const get = { abi: moduleAbi, functionName: 'getLegs', args: [combo] } as const;
    return decodeFunctionResult({ ...get, data: await this.#view(COMBINATORIAL_MODULE, get) });
  }

  async #held(owner: Hex, id: bigint): Promise<bigint> {
    const of = { abi: managerAbi, functionName: 'balanceOf', args: [owner, id] } as const;
    return decodeFunctionResult({ ...of, data: await this.#view(POSITION_MANAGER, of) });
  }

  #view(to: Hex, call: Parameters<typeof encodeFunctionData>[0]): Promise<Hex> {
    const data = encodeFunctionData(call);
    return this.#devnet.call('eth_call', { to, data, gas: '0x20000000' }, 'latest');
  }

  async #report(module: Hex, condition: bigint, first: bigint): Promise<void> {
    const args = [short(condition), [first, M - first]] as const;
    await this.#send(DEPLOYER, module, moduleAbi, 'reportResult', args);
  }

  async #act(wallet: Hex, name: string, args: readonly unknown[]): Promise<void> {
    await this.#send(wallet, ROUTER, routerAbi, name, args);
    await this.#devnet.mine(1);
  }

  async #send(
    from: Hex,
    to: Hex,
    abi: readonly unknown[],
    functionName: string,
    args: readonly unknown[],
  ): Promise<void> {
    await this.#devnet.send(from, to, encodeFunctionData({ abi, functionName, args } as never));
  }

  #price(): bigint {
    return BigInt(50 + this.#random.below(900));
  }
}

/** `price` in thousandths, of which the shares are a multiple. */
export function orderV3(
  salt: bigint,
  maker: Hex,
  side: Side,
  tokenId: bigint,
  shares: bigint,
  price: bigint,
): Order {
  const usdc = (shares * price) / 1_000n;
  return {
    ...{ salt, maker, signer: maker, tokenId, side, signatureType: 3, timestamp: 1_790_000_000n },
    makerAmount: side === BUY ? usdc : shares,
    takerAmount: side === BUY ? shares : usdc,
    ...{ metadata: NO_WORD, builder: NO_WORD, signature: '0x' },
  };
}

/** Shares on the chain, in one of the contracts that hold them. */
export async function balancesIn(
  devnet: StillDevnet,
  contract: Hex,
  asked: readonly { readonly owner: Hex; readonly id: bigint }[],
): Promise<readonly bigint[]> {
  const args = [asked.map(({ owner }) => owner), asked.map(({ id }) => id)] as const;
  const batch = { abi: managerAbi, functionName: 'balanceOfBatch' } as const;
  const data = encodeFunctionData({ ...batch, args });
  const call = { to: contract, data, gas: '0x20000000' };
  return decodeFunctionResult({ ...batch, data: await devnet.call('eth_call', call, 'latest') });
}

const hex = (id: bigint): Hex => numberToHex(id, { size: 32 });
const short = (id: bigint): Hex =>
  (structuredId(`${id}`)?.conditionId.slice(0, -2) ?? hex(id).slice(0, -2)) as Hex;
const eventOf = (id: bigint): Hex => hex(id).slice(0, 60) as Hex;
const word = (value: number): Hex => numberToHex(value, { size: 32 });
