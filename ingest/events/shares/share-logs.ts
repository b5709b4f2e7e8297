/**
 * The logs that tell how outcome shares move: the transfers of ConditionalTokens, which are the truth for balances, and the
 * events that name why they were made. The emitter decides which of them count, because test exchanges and foreign
 * contracts log the same ones. Signatures are those of the deployed contracts.
 */
import { encodePacked, type Hex, toEventSelector } from 'viem';
import { keccak256Hex } from '../../../infra/keccak.ts';
import type { Hash } from '../../contract.ts';
import { addressOf, addressTopic, type ChainLog, DecodeError } from '../log.ts';

/** The contracts that hold and move shares without being a trader; addresses in lower case. */
export type ShareContracts = {
  readonly conditionalTokens: Hex;
  readonly negRiskAdapter: Hex;
  /** The token in the ids of shares. */
  readonly collateral: Hex;
  /** The same for conditions whose oracle is the neg-risk adapter. */
  readonly negRiskCollateral: Hex;
  readonly exchanges: ReadonlySet<string>;
  /** Adapters without events of their own. The exchanges mint and merge here; users may, too. */
  readonly silentAdapters: ReadonlySet<string>;
  readonly adapters: ReadonlySet<string>;
  /** They redeem for traders, some forty in a transaction. */
  readonly redeemers: ReadonlySet<string>;
  /** Keeps converted shares for ever. */
  readonly burn: Hex;
  /** The vault that takes the fees of conversions, fee modules, wrapped collateral. */
  readonly others: ReadonlySet<string>;
};

/** A change of two balances. Not: a transfer of nothing, or to oneself. */
export type Move = {
  readonly logIndex: number;
  readonly operator: Hex;
  readonly from: Hex;
  readonly to: Hex;
  /** Decimal. */
  readonly tokenId: string;
  readonly shares: bigint;
};

export type Conversion = {
  readonly marketId: Hash;
  /** Bit i: No of question i was given up. */
  readonly indexSet: bigint;
  /** Of each No, micro-shares. */
  readonly amount: bigint;
  /** Of each Yes, micro-shares, if the event says so: `amount` less the fee. */
  readonly out: bigint | undefined;
  /** The condition of question 0, with which the fee of the market is known. */
  readonly first: Hash;
  /** The number of the question that this condition decides. */
  readonly questionOf: (conditionId: string) => number | undefined;
};

/** An event that says why shares of some conditions were moved. */
export type Named = {
  readonly kind: 'split' | 'merge' | 'redeem' | 'convert';
  readonly logIndex: number;
  readonly emitter: Hex;
  /** Who called the emitter: a trader or another contract. */
  readonly by: Hex;
  readonly isAbout: (conditionId: string) => boolean;
  /** Of a redemption, micro-USDC. */
  readonly payout: bigint | undefined;
  readonly conversion: Conversion | undefined;
};

/** What a log tells about the tokens of a condition: it was prepared, or shares with this collateral exist. */
export type Condition = {
  readonly logIndex: number;
  readonly conditionId: Hash;
  readonly collateral: Hex;
  readonly isPrepared: boolean;
  /** Of conversions, in 10,000ths, with question 0 of a market that has one. */
  readonly feeBips?: number | undefined;
};

export type ShareLogs = {
  /** In log order. */
  readonly moves: readonly Move[];
  readonly named: readonly Named[];
  readonly conditions: readonly Condition[];
};

const TRANSFER_SINGLE = toEventSelector('TransferSingle(address,address,address,uint256,uint256)');
const TRANSFER_BATCH = toEventSelector(
  'TransferBatch(address,address,address,uint256[],uint256[])',
);

const CONDITION_PREPARATION = toEventSelector(
  'ConditionPreparation(bytes32,address,bytes32,uint256)',
);

const MARKET_PREPARED = toEventSelector('MarketPrepared(bytes32,address,uint256,bytes)');

type Emitter = 'conditionalTokens' | 'negRiskAdapter' | 'adapter' | 'redeemer';

/** Reads a word of a log: one of its topics, or one of its data. Throws DecodeError. */
type ReadWord = (log: ChainLog) => Hex;
const topic =
  (at: number): ReadWord =>
  ({ topics }) => {
    const found = topics[at];
    if (found === undefined) throw new DecodeError('bad_topics', `no topic ${at}`);
    return found;
  };
const data =
  (at: number): ReadWord =>
  (log) =>
    `0x${digits(log, at)}`;

/** Where an event has what it says. Its first indexed argument is the caller. */
type Naming = {
  readonly kind: Named['kind'];
  readonly payout?: ReadWord;
} & (
  | {
      readonly conditionId: ReadWord;
      /** Of ConditionalTokens. */
      readonly shares?: { readonly collateral: ReadWord; readonly parent: ReadWord };
    }
  /** Of a conversion. */
  | {
      readonly marketId: ReadWord;
      readonly indexSet: ReadWord;
      readonly amount: ReadWord;
      readonly out?: ReadWord;
    }
);
const CONDITION = { conditionId: topic(2) };
const OF_TOKENS = { conditionId: topic(3), shares: { collateral: data(0), parent: topic(2) } };
const CONVERSION = { marketId: topic(2), indexSet: topic(3), amount: data(0) };

/** By emitter and event. They are read without a decoder, because there is one in nearly every match. */
const NAMING: Readonly<Record<Emitter, Readonly<Record<string, Naming>>>> = {
  conditionalTokens: {
    'PositionSplit(address,address,bytes32,bytes32,uint256[],uint256)': {
      ...{ kind: 'split', ...OF_TOKENS },
    },
    'PositionsMerge(address,address,bytes32,bytes32,uint256[],uint256)': {
      ...{ kind: 'merge', ...OF_TOKENS },
    },
    'PayoutRedemption(address,address,bytes32,bytes32,uint256[],uint256)': {
      ...{ kind: 'redeem', conditionId: data(0), payout: data(2) },
      shares: { collateral: topic(2), parent: topic(3) },
    },
  },
  negRiskAdapter: {
    'PositionSplit(address,bytes32,uint256)': { kind: 'split', ...CONDITION },
    'PositionsMerge(address,bytes32,uint256)': { kind: 'merge', ...CONDITION },
    'PayoutRedemption(address,bytes32,uint256[],uint256)': {
      ...{ kind: 'redeem', ...CONDITION, payout: data(1) },
    },
    'PositionsConverted(address,bytes32,uint256,uint256)': { kind: 'convert', ...CONVERSION },
  },
  adapter: {
    'PositionSplit(address,bytes32,uint256)': { kind: 'split', ...CONDITION },
    'PositionsMerged(address,bytes32,uint256)': { kind: 'merge', ...CONDITION },
    'PositionsRedeemed(address,bytes32,uint256[],uint256)': {
      ...{ kind: 'redeem', ...CONDITION, payout: data(1) },
    },
    'PositionsConverted(address,bytes32,uint256,uint256,uint256)': {
      ...{ kind: 'convert', ...CONVERSION, out: data(1) },
    },
  },
  redeemer: {
    'BinaryRedemption(address,bytes32,uint256)': {
      ...{ kind: 'redeem', ...CONDITION, payout: data(0) },
    },
    'NegRiskRedemption(address,bytes32,uint256)': {
      ...{ kind: 'redeem', ...CONDITION, payout: data(0) },
    },
  },
};

/** By topic0. */
const namingOf = (emitter: Emitter) =>
  new Map<string, Naming>(
    Object.entries(NAMING[emitter]).map(([event, naming]) => [toEventSelector(event), naming]),
  );
const BY_TOPIC = {
  conditionalTokens: namingOf('conditionalTokens'),
  negRiskAdapter: namingOf('negRiskAdapter'),
  adapter: namingOf('adapter'),
  redeemer: namingOf('redeemer'),
};

/** Besides the events that name a kind of movement. */
const BY_CONDITIONAL_TOKENS = new Set<string>([
  TRANSFER_SINGLE,
  TRANSFER_BATCH,
  CONDITION_PREPARATION,
]);

/** topic0 of all logs that say how shares move. */
export const SHARE_TOPICS: readonly Hex[] = [
  ...new Set([
    ...BY_CONDITIONAL_TOKENS,
    MARKET_PREPARED,
    ...Object.values(BY_TOPIC).flatMap((own) => [...own.keys()]),
  ]),
] as Hex[];

/** The contracts that log them. */
export function shareEmitters(contracts: ShareContracts): readonly string[] {
  const { conditionalTokens, negRiskAdapter, adapters, redeemers } = contracts;
  return [conditionalTokens, negRiskAdapter, ...adapters, ...redeemers];
}

/** Whether this contract can log this event about shares. */
export function logsShares(address: Hex, topic: Hex, contracts: ShareContracts): boolean {
  const emitter = emitterOf(address, contracts);
  if (emitter === undefined) return false;
  return (
    BY_TOPIC[emitter].has(topic) ||
    (emitter === 'conditionalTokens' && BY_CONDITIONAL_TOKENS.has(topic)) ||
    (emitter === 'negRiskAdapter' && topic === MARKET_PREPARED)
  );
}

/** Reads the logs of one transaction. Throws DecodeError. */
export function readShareLogs(logs: readonly ChainLog[], contracts: ShareContracts): ShareLogs {
  const moves: Move[] = [];
  const named: Named[] = [];
  const conditions: Condition[] = [];
  for (const log of logs) {
    const [topic] = log.topics;
    if (topic === undefined || !logsShares(log.address, topic, contracts)) continue;
    if (topic === TRANSFER_SINGLE) moves.push(...movesOf(log, [word(log, 0)], [word(log, 1)]));
    else if (topic === TRANSFER_BATCH) moves.push(...movesOf(log, list(log, 0), list(log, 1)));
    else if (topic === CONDITION_PREPARATION) conditions.push(...preparedBy(log, contracts));
    else if (topic === MARKET_PREPARED) conditions.push(...withFee(log, contracts));
    else {
      const event = namedBy(log, contracts);
      named.push(event);
      if (event.condition !== undefined) conditions.push(event.condition);
      conditions.push(...givenUp(event, contracts));
    }
  }
  return { moves, named, conditions };
}

function emitterOf(address: Hex, contracts: ShareContracts): Emitter | undefined {
  if (address === contracts.conditionalTokens) return 'conditionalTokens';
  if (address === contracts.negRiskAdapter) return 'negRiskAdapter';
  if (contracts.adapters.has(address)) return 'adapter';
  return contracts.redeemers.has(address) ? 'redeemer' : undefined;
}

function namedBy(
  log: ChainLog,
  contracts: ShareContracts,
): Named & { readonly condition?: Condition | undefined } {
  const { address, logIndex, topics } = log;
  const emitter = emitterOf(address, contracts) ?? 'conditionalTokens';
  const naming = BY_TOPIC[emitter].get(topics[0] ?? '');
  if (naming === undefined) throw new DecodeError('bad_topics', `${topics[0]} names nothing`);
  const { kind } = naming;
  const of = { kind, logIndex, emitter: address, by: addressTopic(log, 1) };
  if ('marketId' in naming) {
    const marketId = naming.marketId(log);
    const questions = questionsOf(contracts.negRiskAdapter, marketId);
    return {
      ...of,
      isAbout: (conditionId) => questions.has(conditionId),
      payout: undefined,
      conversion: {
        ...{ marketId, indexSet: BigInt(naming.indexSet(log)), amount: BigInt(naming.amount(log)) },
        questionOf: (conditionId) => questions.get(conditionId),
        out: naming.out && BigInt(naming.out(log)),
        first: conditionOf(contracts.negRiskAdapter, marketId, 0),
      },
    };
  }
  const own = naming.conditionId(log);
  const { payout, shares } = naming;
  return {
    ...of,
    isAbout: (conditionId) => conditionId === own,
    payout: payout && BigInt(payout(log)),
    conversion: undefined,
    condition:
      shares &&
      tokensOf(own, addressOf(shares.collateral(log)), shares.parent(log), { logIndex, contracts }),
  };
}

const NO_PARENT = `0x${'0'.repeat(64)}`;

/** Undefined for other shares than the exchanges trade: nested ones, or those of another collateral. */
function tokensOf(
  conditionId: Hash,
  collateral: Hex,
  parent: Hash,
  { logIndex, contracts }: { readonly logIndex: number; readonly contracts: ShareContracts },
): Condition | undefined {
  const isOurs = collateral === contracts.collateral || collateral === contracts.negRiskCollateral;
  if (parent !== NO_PARENT || !isOurs) return undefined;
  return { logIndex, conditionId, collateral, isPrepared: false };
}

/** The markets whose shares are given up in a conversion. Those of the others are minted, which ConditionalTokens logs. */
function givenUp(
  { conversion, emitter, logIndex }: Named,
  of: ShareContracts,
): readonly Condition[] {
  if (conversion === undefined || emitter !== of.negRiskAdapter) return [];
  const { marketId, indexSet } = conversion;
  const collateral = of.negRiskCollateral;
  return Array.from({ length: QUESTIONS_MAX }, (_, question) => question)
    .filter((question) => ((indexSet >> BigInt(question)) & 1n) === 1n)
    .map((question) => ({
      ...{ logIndex, conditionId: conditionOf(of.negRiskAdapter, marketId, question), collateral },
      isPrepared: false,
    }));
}

/** A preparation with two outcomes. Others are not traded. */
function preparedBy(log: ChainLog, of: ShareContracts): readonly Condition[] {
  const { logIndex, topics } = log;
  const [, conditionId] = topics;
  if (conditionId === undefined || word(log, 0) !== 2n) return [];
  const collateral =
    addressTopic(log, 2) === of.negRiskAdapter ? of.negRiskCollateral : of.collateral;
  return [{ logIndex, conditionId: conditionId as Hash, collateral, isPrepared: true }];
}

/** The last byte of a market's id is 0, so question 0 has the same id. Most markets have no fee. */
function withFee(log: ChainLog, of: ShareContracts): readonly Condition[] {
  const { logIndex, topics } = log;
  const [, marketId] = topics;
  const feeBips = Number(word(log, 0));
  if (marketId === undefined || feeBips === 0) return [];
  const conditionId = conditionOf(of.negRiskAdapter, marketId as Hash, 0);
  const collateral = of.negRiskCollateral;
  return [{ logIndex, conditionId, collateral, isPrepared: true, feeBips }];
}

function movesOf(
  log: ChainLog,
  ids: readonly bigint[],
  values: readonly bigint[],
): readonly Move[] {
  if (ids.length !== values.length)
    throw new DecodeError('bad_data', 'as many ids as values expected');
  const { logIndex } = log;
  const [operator, from, to] = [addressTopic(log, 1), addressTopic(log, 2), addressTopic(log, 3)];
  return ids.flatMap((id, at) => {
    const shares = values[at] ?? 0n;
    return shares === 0n || from === to
      ? []
      : [{ logIndex, operator, from, to, tokenId: id.toString(), shares }];
  });
}

const WORD = 64;

/** A word of the data. Nearly all logs are transfers, so they are read without a decoder. */
function word(log: ChainLog, at: number): bigint {
  return BigInt(`0x${digits(log, at)}`);
}

function digits({ data }: ChainLog, at: number): string {
  const found = data.slice(2 + at * WORD, 2 + (at + 1) * WORD);
  if (found.length < WORD) throw new DecodeError('bad_data', `no word ${at}`);
  return found.toLowerCase();
}

/** A list whose offset is in this word. */
function list(log: ChainLog, at: number): readonly bigint[] {
  const start = Number(word(log, at)) / 32;
  if (!Number.isInteger(start) || start > log.data.length)
    throw new DecodeError('bad_data', 'offset');
  const length = Number(word(log, start));
  if (length > log.data.length) throw new DecodeError('bad_data', `a list of ${length}`);
  return Array.from({ length }, (_, i) => word(log, start + 1 + i));
}

/** The number of a question is the last byte of its id. */
const QUESTIONS_MAX = 256;

/** The numbers of all questions that a market of the neg-risk adapter can have, by condition. */
function questionsOf(negRiskAdapter: Hex, marketId: Hash): ReadonlyMap<string, number> {
  return new Map(
    Array.from({ length: QUESTIONS_MAX }, (_, question) => [
      conditionOf(negRiskAdapter, marketId, question),
      question,
    ]),
  );
}

/** The condition of a question of the neg-risk adapter, which is its oracle. */
function conditionOf(negRiskAdapter: Hex, marketId: Hash, question: number): Hash {
  const questionId: Hash = `0x${marketId.slice(2, -2)}${question.toString(16).padStart(2, '0')}`;
  const packed = encodePacked(['address', 'bytes32', 'uint256'], [negRiskAdapter, questionId, 2n]);
  return keccak256Hex(Buffer.from(packed.slice(2), 'hex')) as Hash;
}
