/**
 * Wallets of a still devnet that move shares in every way that its contracts allow, in markets of their own: ordinary ones and
 * those of the neg-risk adapter. Every way has its turn; wallets, markets and amounts are random. A wallet first splits what it
 * lacks, so no transaction reverts. It counts the rows that the service should have, and the shares that each wallet should hold.
 */
import {
  decodeFunctionResult,
  encodeAbiParameters,
  encodeFunctionData,
  encodePacked,
  type Hex,
  keccak256,
  numberToHex,
  pad,
  parseAbi,
  parseAbiParameters,
} from 'viem';
import type { MOVEMENT_REASONS } from '../../ingest/contract.ts';
import { positionIds } from '../../ingest/events/token-ids.ts';
import {
  CONDITIONAL_TOKENS,
  conditionalTokensAbi,
  DEPLOYER,
  EXCHANGE,
  exchangeAbi,
  LOGGING_ADAPTER,
  NEG_RISK_ADAPTER,
  OPERATORS,
  ORACLE,
  PUSD,
  pusdAbi,
  REDEEMER,
  SILENT_ADAPTER,
  WRAPPED_COLLATERAL,
  WRAPPED_EXCHANGE,
} from '../../local/devnet/contracts.ts';
import { BUY, type Order, type OutcomeIndex, SELL, type Side } from '../../local/devnet/orders.ts';
import { Random } from '../../local/devnet/random.ts';
import type { StillDevnet } from './chain-harness.ts';

export type Question = {
  readonly conditionId: Hex;
  readonly questionId: Hex;
  readonly tokenIds: readonly [bigint, bigint];
  readonly market: NegRiskMarket | undefined;
};
type NegRiskMarket = {
  readonly marketId: Hex;
  readonly feeBips: number;
  readonly questions: readonly Question[];
};
type Kind = 'ordinary' | 'negRisk';
/** The contract that a wallet calls: the one that holds the shares, or an adapter. */
type Way = 'direct' | 'silent' | 'logging';
type Rows = Partial<Record<(typeof MOVEMENT_REASONS)[number], number>>;

const adapterAbi = parseAbi([
  'function splitPosition(bytes32 conditionId, uint256 amount)',
  'function mergePositions(bytes32 conditionId, uint256 amount)',
  'function convertPositions(bytes32 marketId, uint256 indexSet, uint256 amount)',
  'function redeemPositions(bytes32 conditionId)',
]);
const negRiskAbi = parseAbi([
  'function prepareMarket(uint16 fee, bytes data)',
  'function prepareQuestion(bytes32 marketId, bytes data)',
  'function reportOutcome(bytes32 questionId, bool outcome)',
  'function redeemPositions(bytes32 conditionId, uint256[] amounts)',
]);
const redeemerAbi = parseAbi(['function redeem(address[] owners, bytes32[] conditionIds)']);

const M = 1_000_000n;
const WALLETS = 6;
const MONEY = 100_000n * M;
const OUTCOMES = [0, 1] as const;
const NO = 1;
const NO_WORD: Hex = `0x${'00'.repeat(32)}`;
/** Markets of the adapter: their questions, and the fee of conversions. */
const NEG_RISK = [
  { questions: 3, feeBips: 0 },
  { questions: 4, feeBips: 150 },
] as const;
const KINDS: readonly Kind[] = ['ordinary', 'negRisk'];
const WAYS: readonly Way[] = ['direct', 'silent', 'logging'];

/** What a wallet got for its fills and movements, less what it paid. */
export const CASH = `multiIf(
  kind = 'fill', if(side = 'BUY', -usdc, usdc) - fee,
  kind = 'movement' AND reason IN ('merge', 'redeem'), usdc,
  kind = 'movement' AND reason = 'split', -usdc,
  kind = 'movement' AND reason = 'convert', if(side = 'BUY', -usdc, usdc), 0)`;

export class MovingWallets {
  readonly #devnet: StillDevnet;
  readonly #random: Random;
  readonly #wallets: Hex[] = [];
  readonly #held = new Map<string, bigint>();
  readonly #open: Record<Kind, Question[]> = { ordinary: [], negRisk: [] };
  readonly #resolved: Record<Kind, Question[]> = { ordinary: [], negRisk: [] };
  #count = 0;
  /** Wallets that ever had money, and how much was given to them. */
  readonly given = new Map<Hex, bigint>();
  readonly questions: Question[] = [];
  readonly rows: Rows = {};

  private constructor(devnet: StillDevnet, seed: number) {
    this.#devnet = devnet;
    this.#random = new Random(`moving wallets:${seed}`);
  }

  static async open(devnet: StillDevnet, seed: number): Promise<MovingWallets> {
    const made = new MovingWallets(devnet, seed);
    for (let i = 0; i < WALLETS; i++) await made.#newWallet();
    for (let i = 0; i < 2; i++) await made.#prepare();
    for (const one of NEG_RISK) await made.#prepareNegRisk(one);
    await devnet.mine(1);
    return made;
  }

  /** All balances that are not zero. */
  held(): readonly { readonly owner: Hex; readonly id: bigint; readonly shares: bigint }[] {
    return [...this.#held].flatMap(([key, shares]) => {
      const [owner, id = ''] = key.split(':') as [Hex, string];
      return shares === 0n ? [] : [{ owner, id: BigInt(id), shares }];
    });
  }

  /** All ways, each of which makes one movement or one batch of them. */
  readonly ways: readonly (() => Promise<void>)[] = [
    ...KINDS.flatMap((kind) => [
      ...WAYS.map((way) => () => this.#split(way, this.#wallet(), this.#question(kind))),
      ...WAYS.map((way) => () => this.#merge(way, this.#wallet(), this.#question(kind))),
      ...WAYS.map((way) => () => this.#redeem(way, kind)),
      () => this.#redeemForAll(kind),
      () => this.#mint(this.#question(kind)),
      () => this.#swap(this.#question(kind)),
      () => this.#mergeMatch(this.#question(kind)),
    ]),
    ...WAYS.flatMap((way) =>
      NEG_RISK.flatMap(({ feeBips }) => [
        () => this.#convert(way, feeBips, 'some'),
        () => this.#convert(way, feeBips, 'all'),
      ]),
    ),
    () => this.#send(),
    () => this.#sendBatch(),
    () => this.#moveAll(),
  ];

  /** Resolves an ordinary market and a question of each neg-risk market, and prepares new ones in place of those that ended. */
  async resolveSome(): Promise<void> {
    const [ordinary] = this.#open.ordinary;
    if (ordinary !== undefined) {
      const payouts = this.#random.pick([
        [1n, 0n],
        [0n, 1n],
        [1n, 1n],
      ] as const);
      const args = [ordinary.questionId, payouts] as const;
      const data = encodeFunctionData({
        abi: conditionalTokensAbi,
        functionName: 'reportPayouts',
        args,
      });
      await this.#devnet.send(ORACLE, CONDITIONAL_TOKENS, data);
      this.#close(ordinary);
      await this.#prepare();
    }
    for (const market of new Set(this.#open.negRisk.map((one) => one.market))) {
      if (market === undefined) continue;
      const open = this.#open.negRisk.filter((one) => one.market === market);
      // The last one wins, unless another one does before.
      const isOver = open.length === 1 || this.#random.chance(0.3);
      const winner = isOver ? this.#random.pick(open) : undefined;
      const answered = isOver ? open : [this.#random.pick(open)];
      for (const question of answered) {
        const args = [question.questionId, question === winner] as const;
        const data = encodeFunctionData({ abi: negRiskAbi, functionName: 'reportOutcome', args });
        await this.#devnet.send(DEPLOYER, NEG_RISK_ADAPTER, data);
        this.#close(question);
      }
      const { feeBips, questions } = market;
      if (isOver) await this.#prepareNegRisk({ feeBips, questions: questions.length });
    }
  }

  async #split(way: Way, wallet: Hex, question: Question, amount = this.#amount()): Promise<void> {
    const args = [question.conditionId, amount] as const;
    const data = encodeFunctionData({ abi: adapterAbi, functionName: 'splitPosition', args });
    await this.#devnet.send(wallet, contractOf(way, question), data);
    for (const outcome of OUTCOMES) this.#add(wallet, question, outcome, amount);
    this.#rows('split', 2);
  }

  async #merge(way: Way, wallet: Hex, question: Question): Promise<void> {
    const amount = this.#amount();
    for (const outcome of OUTCOMES) await this.#need(wallet, question, outcome, amount);
    const args = [question.conditionId, amount] as const;
    const data = encodeFunctionData({ abi: adapterAbi, functionName: 'mergePositions', args });
    await this.#devnet.send(wallet, contractOf(way, question), data);
    for (const outcome of OUTCOMES) this.#add(wallet, question, outcome, -amount);
    this.#rows('merge', 2);
  }

  /** A wallet redeems all that it has of a market that was resolved at some time before. */
  async #redeem(way: Way, kind: Kind): Promise<void> {
    const found = this.#resolved[kind].flatMap((question) =>
      this.#wallets.flatMap((wallet) => (this.#has(wallet, question) ? { wallet, question } : [])),
    );
    if (found.length === 0) return;
    const { wallet, question } = this.#random.pick(found);
    const { conditionId } = question;
    const amounts = OUTCOMES.map((outcome) => this.#of(wallet, question, outcome));
    if (way !== 'direct') {
      const args = [conditionId] as const;
      const data = encodeFunctionData({ abi: adapterAbi, functionName: 'redeemPositions', args });
      await this.#devnet.send(wallet, contractOf(way, question), data);
    } else if (kind === 'negRisk') {
      const args = [conditionId, amounts] as const;
      const data = encodeFunctionData({ abi: negRiskAbi, functionName: 'redeemPositions', args });
      await this.#devnet.send(wallet, NEG_RISK_ADAPTER, data);
    } else {
      const args = [conditionId, [wallet]] as const;
      const data = encodeFunctionData({
        abi: conditionalTokensAbi,
        functionName: 'redeemPositions',
        args,
      });
      await this.#devnet.send(wallet, CONDITIONAL_TOKENS, data);
    }
    this.#redeemed(wallet, question);
  }

  /** Also calls for wallets that have nothing, of which the redeemer logs an event. */
  async #redeemForAll(kind: Kind): Promise<void> {
    if (this.#resolved[kind].length === 0) return;
    const questions = [this.#resolved[kind].at(-1), this.#random.pick(this.#resolved[kind])];
    // One wallet is late.
    const wallets = this.#wallets.slice(1);
    const pairs = [...new Set(questions)].flatMap((question) =>
      question === undefined ? [] : wallets.map((wallet) => ({ wallet, question })),
    );
    const args = [
      pairs.map(({ wallet }) => wallet),
      pairs.map(({ question }) => question.conditionId),
    ] as const;
    const data = encodeFunctionData({ abi: redeemerAbi, functionName: 'redeem', args });
    await this.#devnet.send(DEPLOYER, REDEEMER, data);
    for (const { wallet, question } of pairs) this.#redeemed(wallet, question);
  }

  #redeemed(wallet: Hex, question: Question): void {
    for (const outcome of OUTCOMES) {
      const shares = this.#of(wallet, question, outcome);
      if (shares > 0n) this.#rows('redeem', 1);
      this.#add(wallet, question, outcome, -shares);
    }
  }

  async #convert(way: Way, feeBips: number, which: 'some' | 'all'): Promise<void> {
    const [wallet, amount] = [this.#wallet(), this.#amount()];
    const open = this.#open.negRisk.flatMap((one) =>
      one.market?.feeBips === feeBips ? one.market : [],
    );
    const { marketId, questions } = this.#random.pick(open);
    const first = this.#random.below(questions.length);
    const size = which === 'all' ? questions.length : 1 + this.#random.below(questions.length - 1);
    const isConverted = (at: number) => (at - first + questions.length) % questions.length < size;
    const out = amount - (amount * BigInt(feeBips)) / 10_000n;
    let set = 0n;
    for (const [at, question] of questions.entries()) {
      if (!isConverted(at)) continue;
      set |= 1n << BigInt(at);
      await this.#need(wallet, question, NO, amount);
      this.#add(wallet, question, NO, -amount);
    }
    for (const [at, question] of questions.entries())
      if (!isConverted(at)) this.#add(wallet, question, 0, out);
    const args = [marketId, set, amount] as const;
    const data = encodeFunctionData({ abi: adapterAbi, functionName: 'convertPositions', args });
    const [contract] = questions.map((question) => contractOf(way, question));
    await this.#devnet.send(wallet, contract ?? NEG_RISK_ADAPTER, data);
    this.#rows('convert', questions.length);
  }

  async #send(): Promise<void> {
    const [from, to] = this.#two();
    const question = this.#question(this.#random.pick(KINDS));
    const [outcome, amount] = [this.#random.pick(OUTCOMES), this.#amount()];
    await this.#need(from, question, outcome, amount);
    const args = [from, to, question.tokenIds[outcome], amount, '0x'] as const;
    const data = encodeFunctionData({
      abi: conditionalTokensAbi,
      functionName: 'safeTransferFrom',
      args,
    });
    await this.#devnet.send(from, CONDITIONAL_TOKENS, data);
    this.#moved(from, to, question, outcome, amount);
  }

  /** One log with shares of three markets, and nothing of another one. */
  async #sendBatch(): Promise<void> {
    const [from, to] = this.#two();
    const questions = [...new Set(KINDS.flatMap((kind) => this.#open[kind].slice(0, 2)))];
    const legs = questions.map((question, at) => {
      return { question, outcome: this.#random.pick(OUTCOMES), amount: at === 1 ? 0n : M };
    });
    for (const { question, outcome, amount } of legs)
      await this.#need(from, question, outcome, amount);
    await this.#sendLegs(from, to, legs);
  }

  /** A wallet is given up for a new one. */
  async #moveAll(): Promise<void> {
    const from = this.#wallet();
    const to = await this.#newWallet();
    this.#wallets.splice(this.#wallets.indexOf(from), 1);
    const legs = this.questions.flatMap((question) =>
      OUTCOMES.flatMap((outcome) => {
        const amount = this.#of(from, question, outcome);
        return amount === 0n ? [] : [{ question, outcome, amount }];
      }),
    );
    if (legs.length > 0) await this.#sendLegs(from, to, legs);
  }

  async #sendLegs(
    from: Hex,
    to: Hex,
    legs: readonly { question: Question; outcome: OutcomeIndex; amount: bigint }[],
  ): Promise<void> {
    const ids = legs.map(({ question, outcome }) => question.tokenIds[outcome]);
    const args = [from, to, ids, legs.map(({ amount }) => amount), '0x'] as const;
    const data = encodeFunctionData({
      abi: conditionalTokensAbi,
      functionName: 'safeBatchTransferFrom',
      args,
    });
    await this.#devnet.send(from, CONDITIONAL_TOKENS, data);
    for (const { question, outcome, amount } of legs)
      this.#moved(from, to, question, outcome, amount);
  }

  #moved(from: Hex, to: Hex, question: Question, outcome: OutcomeIndex, amount: bigint): void {
    if (amount === 0n) return;
    this.#add(from, question, outcome, -amount);
    this.#add(to, question, outcome, amount);
    this.#rows('transfer', 2);
  }

  /** Two buyers of different outcomes. */
  async #mint(question: Question): Promise<void> {
    const [[taker, maker], amount, price] = [this.#two(), this.#amount(), this.#price()];
    const outcome = this.#random.pick(OUTCOMES);
    const mine = this.#order(taker, BUY, question, outcome, amount, price);
    const other = opposite(outcome);
    const makers = this.#order(maker, BUY, question, other, amount, 1_000n - price);
    await this.#match(question, mine, makers, mine.makerAmount);
    this.#add(taker, question, outcome, amount);
    this.#add(maker, question, other, amount);
  }

  async #swap(question: Question): Promise<void> {
    const [[taker, maker], amount, price] = [this.#two(), this.#amount(), this.#price()];
    const outcome = this.#random.pick(OUTCOMES);
    await this.#need(maker, question, outcome, amount);
    const mine = this.#order(taker, BUY, question, outcome, amount, price);
    const makers = this.#order(maker, SELL, question, outcome, amount, price);
    await this.#match(question, mine, makers, mine.makerAmount);
    this.#add(taker, question, outcome, amount);
    this.#add(maker, question, outcome, -amount);
  }

  /** Two sellers of different outcomes. The taker offers more than is sold, and gets the rest back. */
  async #mergeMatch(question: Question): Promise<void> {
    const [[taker, maker], amount, price] = [this.#two(), this.#amount(), this.#price()];
    const outcome = this.#random.pick(OUTCOMES);
    const other = opposite(outcome);
    const offered = amount + 1_000n;
    await this.#need(taker, question, outcome, offered);
    await this.#need(maker, question, other, amount);
    const mine = this.#order(taker, SELL, question, outcome, offered, 1n);
    const makers = this.#order(maker, SELL, question, other, amount, price);
    await this.#match(question, mine, makers, offered);
    this.#add(taker, question, outcome, -amount);
    this.#add(maker, question, other, -amount);
    this.#rows('refund', 1);
  }

  async #match(question: Question, taker: Order, maker: Order, fill: bigint): Promise<void> {
    const fee = BigInt(this.#random.below(50));
    const { conditionId, market } = question;
    const makers = [[maker], fill, [maker.makerAmount], fee, [0n]] as const;
    const args = [conditionId, taker, ...makers] as const;
    const data = encodeFunctionData({ abi: exchangeAbi, functionName: 'matchOrders', args });
    const exchange = market === undefined ? EXCHANGE : WRAPPED_EXCHANGE;
    await this.#devnet.send(OPERATORS[0], exchange, data);
  }

  /** `price` in thousandths, of which amounts are multiples. */
  #order(
    maker: Hex,
    side: Side,
    { tokenIds }: Question,
    outcome: OutcomeIndex,
    shares: bigint,
    price: bigint,
  ): Order {
    const usdc = (shares * price) / 1_000n;
    return {
      ...{ salt: BigInt(++this.#count), maker, signer: maker, tokenId: tokenIds[outcome], side },
      makerAmount: side === BUY ? usdc : shares,
      takerAmount: side === BUY ? shares : usdc,
      ...{ signatureType: 0, timestamp: 0n, metadata: NO_WORD, builder: NO_WORD, signature: '0x' },
    };
  }

  async #need(wallet: Hex, question: Question, outcome: OutcomeIndex, amount: bigint) {
    const missing = amount - this.#of(wallet, question, outcome);
    if (missing > 0n) await this.#split('direct', wallet, question, missing);
  }

  async #prepare(): Promise<void> {
    const questionId = numberToHex(++this.#count, { size: 32 });
    const args = [ORACLE, questionId, 2n] as const;
    const data = encodeFunctionData({
      abi: conditionalTokensAbi,
      functionName: 'prepareCondition',
      args,
    });
    await this.#devnet.send(DEPLOYER, CONDITIONAL_TOKENS, data);
    this.#opened('ordinary', questionOf(ORACLE, questionId, PUSD, undefined));
  }

  async #prepareNegRisk(of: { readonly questions: number; readonly feeBips: number }) {
    const data = numberToHex(++this.#count, { size: 32 });
    const types = parseAbiParameters('address, uint16, bytes');
    const hash = keccak256(encodeAbiParameters(types, [DEPLOYER, of.feeBips, data]));
    const marketId: Hex = `${hash.slice(0, -2) as Hex}00`;
    const prepare = { abi: negRiskAbi, functionName: 'prepareMarket' } as const;
    const args = [of.feeBips, data] as const;
    await this.#devnet.send(DEPLOYER, NEG_RISK_ADAPTER, encodeFunctionData({ ...prepare, args }));
    const questions: Question[] = [];
    const market = { marketId, feeBips: of.feeBips, questions };
    for (let index = 0; index < of.questions; index++) {
      const ask = { abi: negRiskAbi, functionName: 'prepareQuestion' } as const;
      const asked = encodeFunctionData({ ...ask, args: [marketId, '0x'] });
      await this.#devnet.send(DEPLOYER, NEG_RISK_ADAPTER, asked);
      const id: Hex = `${marketId.slice(0, -2) as Hex}${index.toString(16).padStart(2, '0')}`;
      questions.push(questionOf(NEG_RISK_ADAPTER, id, WRAPPED_COLLATERAL, market));
    }
    for (const question of questions) this.#opened('negRisk', question);
  }

  async #newWallet(): Promise<Hex> {
    const wallet = pad(numberToHex(0xabc000 + this.given.size), { size: 20 });
    const args = [[wallet], [MONEY]] as const;
    const data = encodeFunctionData({ abi: pusdAbi, functionName: 'mint', args });
    await this.#devnet.send(DEPLOYER, PUSD, data);
    this.given.set(wallet, MONEY);
    this.#wallets.push(wallet);
    return wallet;
  }

  #opened(kind: Kind, question: Question): void {
    this.#open[kind].push(question);
    this.questions.push(question);
  }

  #close(question: Question): void {
    const kind = question.market === undefined ? 'ordinary' : 'negRisk';
    this.#open[kind] = this.#open[kind].filter((one) => one !== question);
    this.#resolved[kind].push(question);
  }

  #rows(reason: keyof Rows, count: number): void {
    this.rows[reason] = (this.rows[reason] ?? 0) + count;
  }

  #add(wallet: Hex, { tokenIds }: Question, outcome: OutcomeIndex, change: bigint): void {
    const key = `${wallet}:${tokenIds[outcome]}`;
    this.#held.set(key, (this.#held.get(key) ?? 0n) + change);
  }

  #of(wallet: Hex, { tokenIds }: Question, outcome: OutcomeIndex): bigint {
    return this.#held.get(`${wallet}:${tokenIds[outcome]}`) ?? 0n;
  }

  #has(wallet: Hex, question: Question): boolean {
    return OUTCOMES.some((outcome) => this.#of(wallet, question, outcome) > 0n);
  }

  #wallet(): Hex {
    return this.#random.pick(this.#wallets);
  }

  #two(): readonly [Hex, Hex] {
    const first = this.#wallet();
    return [first, this.#random.pick(this.#wallets.filter((one) => one !== first))];
  }

  #question(kind: Kind): Question {
    return this.#random.pick(this.#open[kind]);
  }

  /** Micro-shares, in thousands. */
  #amount(): bigint {
    return BigInt(1 + this.#random.below(9_999)) * 1_000n;
  }

  #price(): bigint {
    return BigInt(50 + this.#random.below(900));
  }
}

/** The ids of an ordinary market. */
export function conditionIdOf(questionId: Hex): Question {
  return questionOf(ORACLE, questionId, PUSD, undefined);
}

/** Shares on the chain. */
export async function balancesOf(
  devnet: StillDevnet,
  asked: readonly { readonly owner: Hex; readonly id: bigint }[],
): Promise<readonly bigint[]> {
  const args = [asked.map(({ owner }) => owner), asked.map(({ id }) => id)] as const;
  const batch = { abi: conditionalTokensAbi, functionName: 'balanceOfBatch' } as const;
  const data = encodeFunctionData({ ...batch, args });
  const call = { to: CONDITIONAL_TOKENS, data, gas: '0x20000000' };
  return decodeFunctionResult({ ...batch, data: await devnet.call('eth_call', call, 'latest') });
}

/** pUSD on the chain. */
export async function moneyOf(devnet: StillDevnet, owner: Hex): Promise<bigint> {
  const of = { abi: pusdAbi, functionName: 'balanceOf' } as const;
  const data = encodeFunctionData({ ...of, args: [owner] });
  const result = await devnet.call<Hex>('eth_call', { to: PUSD, data }, 'latest');
  return decodeFunctionResult({ ...of, data: result });
}

function opposite(outcome: OutcomeIndex): OutcomeIndex {
  return outcome === 0 ? 1 : 0;
}

function contractOf(way: Way, { market }: Question): Hex {
  if (way === 'silent') return SILENT_ADAPTER;
  if (way === 'logging') return LOGGING_ADAPTER;
  return market === undefined ? CONDITIONAL_TOKENS : NEG_RISK_ADAPTER;
}

function questionOf(
  oracle: Hex,
  questionId: Hex,
  collateral: Hex,
  market: NegRiskMarket | undefined,
): Question {
  const packed = encodePacked(['address', 'bytes32', 'uint256'], [oracle, questionId, 2n]);
  const conditionId = keccak256(packed);
  return { conditionId, questionId, tokenIds: positionIds(collateral, conditionId), market };
}
