/**
 * The devnet's state at one moment: which markets are on the chain, who holds what, and the transactions that change
 * it: listings, resolutions with redemptions, deposits, matches, splits and merges. It decides and books, but sends
 * nothing. History and live trading share it, so both obey the same rules. It is stored only on the chain, from which
 * `recallWorld` reads it; the calendar says which markets can be there.
 */
import {
  decodeEventLog,
  decodeFunctionResult,
  encodeFunctionData,
  type Hex,
  slice,
  toEventSelector,
} from 'viem';
import {
  BINARY_MODULE,
  CONDITIONAL_TOKENS,
  conditionalTokensAbi,
  DEPLOYER,
  LOGGING_ADAPTER,
  loggingAdapterAbi,
  moduleAbi,
  NEG_RISK_MODULE,
  OPERATORS,
  ORACLE,
  POSITION_REDEEMER,
  PUSD,
  positionRedeemerAbi,
  pusdAbi,
} from './contracts.ts';
import { Holdings } from './holdings.ts';
import { Calendar, isV2, type Market, rememberTokenIds } from './markets.ts';
import { encodeMatch, type Match } from './orders.ts';
import { Random } from './random.ts';
import { type Rpc, Sender, type Transaction, viewCall } from './rpc.ts';
import { TOPICS, type Topic } from './topics.ts';
import { makeTraders, type Trader } from './traders.ts';
import { Trading } from './trading.ts';

export type WorldOptions = {
  readonly seed: number;
  /** Unix seconds of the first block. */
  readonly genesisTime: number;
  readonly traders: number;
};

export type PlannedMatch = { readonly match: Match; readonly transaction: Transaction };

/** Markets are listed this long before they open, so that their metadata is there in time. */
export const LIST_AHEAD_SECONDS = 60;
const OWNERS_PER_REDEMPTION = 60;
const MICRO = 1_000_000;
/** A wallet that has less than this share of its bankroll left deposits the difference. */
const DEPOSIT_BELOW = 0.3;
const PROPOSALS_MAX = 6;
/** Of the wallet's money, in thousandths. */
const SPLIT_PART_MAX = 5;
/** One USDC. */
const SPLIT_STEP = 1_000_000n;

export class World {
  readonly traders: readonly Trader[];
  readonly calendar: Calendar;
  readonly holdings = new Holdings();
  readonly listed = new Map<Hex, Market>();
  readonly resolved = new Set<Hex>();
  #unresolved: readonly Market[] = [];
  readonly #random: Random;
  readonly #trading: Trading;
  readonly #topicWeights = TOPICS.map((topic) => topic.weight);
  #matchCount = 0;

  /** `phase` is part of the random key: two phases of one seed decide differently. */
  constructor(options: WorldOptions, phase: string) {
    this.traders = makeTraders(options.seed, options.traders);
    this.calendar = new Calendar(options.seed, options.genesisTime);
    this.#random = new Random(`world:${options.seed}:${phase}`);
    this.#trading = new Trading(this.traders, this.holdings, this.#random);
  }

  /** Listed markets without a resolution. */
  get unresolved(): readonly Market[] {
    return this.#unresolved;
  }

  /** Takes over what is already on the chain. */
  recall(listed: readonly Market[], resolved: ReadonlySet<Hex>): void {
    for (const market of listed) this.listed.set(market.conditionId, market);
    for (const conditionId of resolved) this.resolved.add(conditionId);
    this.#unresolved = listed.filter((market) => !resolved.has(market.conditionId));
  }

  /** Lists the markets that are not listed yet. Those of protocol version 2 need no transaction. */
  list(markets: readonly Market[]): readonly Transaction[] {
    const fresh = markets.filter((market) => !this.listed.has(market.conditionId));
    for (const market of fresh) this.listed.set(market.conditionId, market);
    this.#unresolved = [...this.#unresolved, ...fresh];
    const older = fresh.filter((market) => !isV2(market));
    return older.map((market) => ({
      from: DEPLOYER,
      to: CONDITIONAL_TOKENS,
      data: encodeFunctionData({
        abi: conditionalTokensAbi,
        functionName: 'prepareCondition',
        args: [ORACLE, market.questionId, 2n],
      }),
    }));
  }

  /**
   * Lists all markets of protocol version 2 that are open at some time between these (unix seconds). The chain does not know
   * which of them are listed, so all are.
   */
  listV2(from: number, to: number): void {
    this.list(this.calendar.between(from, to).filter(isV2));
  }

  /** Resolves every listed market that is due by `time` (unix seconds), and pays its holders. */
  resolve(time: number): readonly Transaction[] {
    const due = this.#unresolved.filter((market) => market.resolveTime <= time);
    if (due.length === 0) return [];
    this.#unresolved = this.#unresolved.filter((market) => market.resolveTime > time);
    // The results of a combo's legs come before its payment.
    const reports = due.flatMap(report);
    const payments = due.flatMap((market) => {
      this.resolved.add(market.conditionId);
      this.#trading.close(market);
      const transactions = redemptions(market, this.holdings);
      this.holdings.redeem(market);
      return transactions;
    });
    return [...reports, ...payments];
  }

  /** One transaction that mints pUSD for every wallet that runs low, if there is any. */
  deposit(): readonly Transaction[] {
    const low = this.traders.filter(
      ({ address, habit }) =>
        this.holdings.cash(address) < BigInt(Math.floor(habit.bankroll * DEPOSIT_BELOW * MICRO)),
    );
    if (low.length === 0) return [];
    const values = low.map(({ address, habit }) => {
      const amount = BigInt(habit.bankroll * MICRO) - this.holdings.cash(address);
      this.holdings.deposit(address, amount);
      return amount;
    });
    const args = [low.map(({ address }) => address), values] as const;
    const data = encodeFunctionData({ abi: pusdAbi, functionName: 'mint', args });
    return [{ from: DEPLOYER, to: PUSD, data }];
  }

  /**
   * A holder of shares of an open market of ConditionalTokens merges its pairs, or splits money into some; undefined if the drawn one has
   * neither, or the market no holders. It draws from `random`, so that those of the matches stay the same.
   */
  splitOrMerge(random: Random, time: number): Transaction | undefined {
    const open = this.#unresolved.filter(
      (market) => market.startTime <= time && time < market.endTime && !isV2(market),
    );
    if (open.length === 0) return undefined;
    const market = random.pick(open);
    const owners = this.holdings.owners(market);
    if (owners.length === 0) return undefined;
    const owner = random.pick(owners);
    const zero = this.holdings.shares(market, 0, owner);
    const one = this.holdings.shares(market, 1, owner);
    const pairs = zero < one ? zero : one;
    const money = (this.holdings.cash(owner) * BigInt(1 + random.below(SPLIT_PART_MAX))) / 1_000n;
    const amount = pairs > 0n ? pairs : money - (money % SPLIT_STEP);
    if (amount === 0n) return undefined;
    this.holdings.split(market, owner, pairs > 0n ? -amount : amount);
    const functionName = pairs > 0n ? 'mergeFor' : 'splitFor';
    const args = [owner, market.conditionId, amount] as const;
    const data = encodeFunctionData({ abi: loggingAdapterAbi, functionName, args });
    return { from: DEPLOYER, to: LOGGING_ADAPTER, data };
  }

  /** A random topic, weighted by its share of the trading. */
  chooseTopic(): Topic {
    const topic = TOPICS[this.#random.weighted(this.#topicWeights)];
    if (topic === undefined) throw new RangeError('no topics');
    return topic;
  }

  /** A market of the topic that trades at `time` (unix seconds), preferably the first of an event. */
  chooseMarket(topic: Topic, time: number): Market | undefined {
    const open = this.calendar.open(topic, time);
    if (open.length === 0) return undefined;
    return open[Math.floor(open.length * this.#random.unit() ** 2.6)];
  }

  /** Books the next match in a market; undefined if no proposal works out. */
  match(market: Market, timeMs: number): PlannedMatch | undefined {
    for (let i = 0; i < PROPOSALS_MAX; i++) {
      const match = this.#trading.propose(market, timeMs);
      if (match === undefined) continue;
      const from = OPERATORS[this.#matchCount++ % OPERATORS.length] ?? OPERATORS[0];
      return { match, transaction: { from, to: market.exchange, data: encodeMatch(match) } };
    }
    return undefined;
  }
}

/** Redeems the shares of all owners. */
function redemptions(market: Market, holdings: Holdings): readonly Transaction[] {
  if (isV2(market)) return redemptionsV2(market, holdings);
  const owners = holdings.owners(market);
  const transactions: Transaction[] = [];
  for (let i = 0; i < owners.length; i += OWNERS_PER_REDEMPTION) {
    const args = [market.conditionId, owners.slice(i, i + OWNERS_PER_REDEMPTION)] as const;
    const data = encodeFunctionData({
      abi: conditionalTokensAbi,
      functionName: 'redeemPositions',
      args,
    });
    transactions.push({ from: DEPLOYER, to: CONDITIONAL_TOKENS, data });
  }
  return transactions;
}

function redemptionsV2(market: Market, holdings: Holdings): readonly Transaction[] {
  const held = ([0, 1] as const).flatMap((outcome) =>
    holdings.holders(market, outcome).map((owner) => ({ owner, id: market.tokenIds[outcome] })),
  );
  const transactions: Transaction[] = [];
  for (let i = 0; i < held.length; i += OWNERS_PER_REDEMPTION) {
    const some = held.slice(i, i + OWNERS_PER_REDEMPTION);
    const args = [some.map(({ owner }) => owner), some.map(({ id }) => id)] as const;
    const data = encodeFunctionData({ abi: positionRedeemerAbi, functionName: 'redeem', args });
    transactions.push({ from: DEPLOYER, to: POSITION_REDEEMER, data });
  }
  return transactions;
}

/** Combos have the results of their legs, and the losers of a neg-risk event of protocol version 2 that of the winner. */
function report(market: Market): readonly Transaction[] {
  const payouts = market.payouts.map(BigInt);
  if (isV2(market)) {
    const { negRisk } = market.event;
    if (market.legs !== undefined || (negRisk && market.payouts[0] === 0)) return [];
    const sum = payouts.reduce((a, b) => a + b);
    const result = payouts.map((payout) => (payout * BigInt(MICRO)) / sum);
    const args = [slice(market.conditionId, 0, 31), result] as const;
    const data = encodeFunctionData({ abi: moduleAbi, functionName: 'reportResult', args });
    return [{ from: DEPLOYER, to: moduleOf(market), data }];
  }
  const data = encodeFunctionData({
    abi: conditionalTokensAbi,
    functionName: 'reportPayouts',
    args: [market.questionId, payouts],
  });
  return [{ from: DEPLOYER, to: CONDITIONAL_TOKENS, data }];
}

function moduleOf({ event }: Market): Hex {
  return event.negRisk ? NEG_RISK_MODULE : BINARY_MODULE;
}

type ConditionEvent = 'ConditionPreparation' | 'ConditionResolution';
type LogEntry = {
  readonly topics: [Hex, ...Hex[]];
  readonly data: Hex;
  readonly blockTimestamp: Hex;
};

/** A killed run may have resolved markets without paying their holders. Older ones were paid. */
const UNPAID_MARKETS_MAX = 200;

/** A market is resolved within ten minutes after its end, and its holders are paid at once. */
const PAID_SECONDS = 3_600;

/** Reads the world at the chain's head. Nothing may be pending. */
export async function recallWorld(rpc: Rpc, options: WorldOptions): Promise<World> {
  const head = Number(await rpc.call<Hex>('eth_blockNumber'));
  const world = new World(options, `block ${head}`);
  const prepared = await conditionLogs(rpc, 'ConditionPreparation');
  const reported = await conditionLogs(rpc, 'ConditionResolution');
  const latest = await rpc.call<{ timestamp: Hex }>('eth_getBlockByNumber', 'latest', false);
  const now = Number(latest.timestamp);
  // Logs of old blocks may be gone, but a market that ended so long ago is paid.
  const recent = world.calendar.between(now - PAID_SECONDS, now + LIST_AHEAD_SECONDS);
  const found = findMarkets(world, prepared);
  // The contract forgets markets that were resolved long ago, but they were listed and traded.
  const older = recent.filter((market) => !isV2(market));
  const v2 = world.calendar.between(options.genesisTime + 1, now + LIST_AHEAD_SECONDS).filter(isV2);
  const known = [...found, ...(await readTokenIds(rpc, [...found, ...older])), ...v2];
  const listed = [...new Map(known.map((market) => [market.conditionId, market])).values()];
  const resolved = new Set(reported.map((log) => log.conditionId));
  const plain = listed.filter(({ legs }) => legs === undefined);
  for (const market of await readResolved(rpc, plain)) resolved.add(market.conditionId);
  for (const { conditionId, legs } of v2) {
    if (legs?.every(({ market }) => resolved.has(market.conditionId))) resolved.add(conditionId);
  }
  world.recall(listed, resolved);
  const wallets = world.traders.map((trader) => trader.address);
  await payForgotten(rpc, world, listed, wallets);
  await world.holdings.load(rpc, wallets, world.unresolved);
  return world;
}

/** Finds the markets of these conditions, each of which was open or about to open when it was prepared. */
function findMarkets(
  world: World,
  prepared: readonly { readonly conditionId: Hex; readonly time: number }[],
): readonly Market[] {
  const wanted = new Set(prepared.map((log) => log.conditionId));
  const found = new Map<Hex, Market>();
  for (const time of new Set(prepared.map((log) => log.time))) {
    // A block may be mined some seconds after its market was chosen.
    const from = time - LIST_AHEAD_SECONDS;
    for (const market of world.calendar.between(from, time + LIST_AHEAD_SECONDS)) {
      if (wanted.has(market.conditionId)) found.set(market.conditionId, market);
    }
  }
  return [...found.values()];
}

/** Those of the markets that are on the chain. */
async function readTokenIds(rpc: Rpc, markets: readonly Market[]): Promise<readonly Market[]> {
  const positionIds = { abi: conditionalTokensAbi, functionName: 'positionIds' } as const;
  const answers = await rpc.batch<Hex>(
    markets.map(({ conditionId }) =>
      viewCall(CONDITIONAL_TOKENS, encodeFunctionData({ ...positionIds, args: [conditionId] })),
    ),
  );
  return markets.filter(({ conditionId }, i) => {
    const ids = decodeFunctionResult({ ...positionIds, data: answers[i] ?? '0x' });
    if (ids[0] === 0n) return false;
    rememberTokenIds(conditionId, ids);
    return true;
  });
}

async function readResolved(rpc: Rpc, markets: readonly Market[]): Promise<readonly Market[]> {
  const denominator = { abi: conditionalTokensAbi, functionName: 'payoutDenominator' } as const;
  const result = { abi: moduleAbi, functionName: 'getResult' } as const;
  const answers = await rpc.batch<Hex>(
    markets.map((market) => {
      const { conditionId } = market;
      return isV2(market)
        ? viewCall(moduleOf(market), encodeFunctionData({ ...result, args: [BigInt(conditionId)] }))
        : viewCall(CONDITIONAL_TOKENS, encodeFunctionData({ ...denominator, args: [conditionId] }));
    }),
  );
  return markets.filter((_, i) => BigInt(answers[i] ?? '0x0') > 0n);
}

async function payForgotten(
  rpc: Rpc,
  world: World,
  listed: readonly Market[],
  wallets: readonly Hex[],
): Promise<void> {
  const recent = listed
    .filter((market) => world.resolved.has(market.conditionId))
    .sort((a, b) => b.resolveTime - a.resolveTime)
    .slice(0, UNPAID_MARKETS_MAX);
  await world.holdings.load(rpc, wallets, recent);
  const unpaid = recent.filter((market) => world.holdings.owners(market).length > 0);
  if (unpaid.length === 0) return;
  await new Sender(rpc).send(unpaid.flatMap((market) => redemptions(market, world.holdings)));
  await rpc.call('evm_mine');
}

async function conditionLogs(rpc: Rpc, eventName: ConditionEvent) {
  const item = conditionalTokensAbi.find((one) => one.type === 'event' && one.name === eventName);
  if (item?.type !== 'event') throw new TypeError(`no event ${eventName}`);
  const logs = await rpc.call<readonly LogEntry[]>('eth_getLogs', {
    address: CONDITIONAL_TOKENS,
    topics: [toEventSelector(item)],
    fromBlock: '0x0',
    toBlock: 'latest',
  });
  return logs.map(({ topics, data, blockTimestamp }) => {
    const { args } = decodeEventLog({ abi: conditionalTokensAbi, eventName, topics, data });
    return { conditionId: args.conditionId, time: Number(blockTimestamp) };
  });
}
