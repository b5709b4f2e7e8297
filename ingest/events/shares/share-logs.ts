/**
 * The logs that tell how outcome shares move: the transfers of ConditionalTokens, which are the truth for balances, and the
 * events that name why they were made. The emitter decides which of them count, because test exchanges and foreign
 * contracts log the same ones. Signatures are those of the deployed contracts.
 */
import { decodeEventLog, encodePacked, type Hex, parseAbi, toEventSelector } from 'viem';
import { keccak256Hex } from '../../../infra/keccak.ts';
import type { Hash } from '../../contract.ts';
import { addressTopic, type ChainLog, DecodeError } from '../log.ts';

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

const SPLIT =
  'event PositionSplit(address indexed by, bytes32 indexed conditionId, uint256 amount)';
/** By emitter. Names of arguments are ours, so that equal ones have equal names. */
const NAMING = {
  conditionalTokens: parseAbi([
    'event PositionSplit(address indexed by, address collateral, bytes32 indexed parent, bytes32 indexed conditionId, uint256[] partition, uint256 amount)',
    'event PositionsMerge(address indexed by, address collateral, bytes32 indexed parent, bytes32 indexed conditionId, uint256[] partition, uint256 amount)',
    'event PayoutRedemption(address indexed by, address indexed collateral, bytes32 indexed parent, bytes32 conditionId, uint256[] indexSets, uint256 payout)',
  ]),
  negRiskAdapter: parseAbi([
    SPLIT,
    'event PositionsMerge(address indexed by, bytes32 indexed conditionId, uint256 amount)',
    'event PayoutRedemption(address indexed by, bytes32 indexed conditionId, uint256[] amounts, uint256 payout)',
    'event PositionsConverted(address indexed by, bytes32 indexed marketId, uint256 indexed indexSet, uint256 amount)',
  ]),
  adapter: parseAbi([
    SPLIT,
    'event PositionsMerged(address indexed by, bytes32 indexed conditionId, uint256 amount)',
    'event PositionsRedeemed(address indexed by, bytes32 indexed conditionId, uint256[] amounts, uint256 payout)',
    'event PositionsConverted(address indexed by, bytes32 indexed marketId, uint256 indexed indexSet, uint256 amount, uint256 out)',
  ]),
  redeemer: parseAbi([
    'event BinaryRedemption(address indexed by, bytes32 indexed conditionId, uint256 payout)',
    'event NegRiskRedemption(address indexed by, bytes32 indexed conditionId, uint256 payout)',
  ]),
} as const;

const KINDS = {
  PositionSplit: 'split',
  PositionsMerge: 'merge',
  PositionsMerged: 'merge',
  PayoutRedemption: 'redeem',
  PositionsRedeemed: 'redeem',
  BinaryRedemption: 'redeem',
  NegRiskRedemption: 'redeem',
  PositionsConverted: 'convert',
} as const;

/** topic0 of the events of an emitter. */
const topicsOf = (emitter: keyof typeof NAMING) =>
  new Set<string>(NAMING[emitter].map((event) => toEventSelector(event)));
const TOPICS = {
  conditionalTokens: topicsOf('conditionalTokens'),
  negRiskAdapter: topicsOf('negRiskAdapter'),
  adapter: topicsOf('adapter'),
  redeemer: topicsOf('redeemer'),
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
    ...Object.values(TOPICS).flatMap((own) => [...own]),
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
    TOPICS[emitter].has(topic) ||
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

function emitterOf(address: Hex, contracts: ShareContracts): keyof typeof NAMING | undefined {
  if (address === contracts.conditionalTokens) return 'conditionalTokens';
  if (address === contracts.negRiskAdapter) return 'negRiskAdapter';
  if (contracts.adapters.has(address)) return 'adapter';
  return contracts.redeemers.has(address) ? 'redeemer' : undefined;
}

function namedBy(
  log: ChainLog,
  contracts: ShareContracts,
): Named & { readonly condition?: Condition | undefined } {
  const { address, logIndex, topics, data } = log;
  const emitter = emitterOf(address, contracts) ?? 'conditionalTokens';
  const { eventName, args } = decoded(() =>
    decodeEventLog({ abi: NAMING[emitter], topics: topics as [Hex, ...Hex[]], data }),
  );
  const of = { kind: KINDS[eventName], logIndex, emitter: address, by: lowerCase(args.by) };
  if ('marketId' in args) {
    const { marketId, indexSet, amount } = args;
    const questions = questionsOf(contracts.negRiskAdapter, marketId);
    const questionOf = (conditionId: string) => questions.get(conditionId);
    return {
      ...of,
      isAbout: (conditionId) => questions.has(conditionId),
      payout: undefined,
      conversion: {
        ...{ marketId, indexSet, amount, questionOf },
        out: 'out' in args ? args.out : undefined,
        first: conditionOf(contracts.negRiskAdapter, marketId, 0),
      },
    };
  }
  return {
    ...of,
    isAbout: (conditionId) => conditionId === args.conditionId,
    payout: 'payout' in args ? args.payout : undefined,
    conversion: undefined,
    ...('parent' in args ? { condition: tokensOf(args, logIndex, contracts) } : {}),
  };
}

const NO_PARENT = `0x${'0'.repeat(64)}`;

/** Undefined for other shares than the exchanges trade: nested ones, or those of another collateral. */
function tokensOf(
  args: { readonly parent: Hash; readonly collateral: Hex; readonly conditionId: Hash },
  logIndex: number,
  of: ShareContracts,
): Condition | undefined {
  const collateral = lowerCase(args.collateral);
  const isOurs = collateral === of.collateral || collateral === of.negRiskCollateral;
  if (args.parent !== NO_PARENT || !isOurs) return undefined;
  return { logIndex, conditionId: args.conditionId, collateral, isPrepared: false };
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
function word({ data }: ChainLog, at: number): bigint {
  const digits = data.slice(2 + at * WORD, 2 + (at + 1) * WORD);
  if (digits.length < WORD) throw new DecodeError('bad_data', `no word ${at}`);
  return BigInt(`0x${digits}`);
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

function decoded<Value>(decode: () => Value): Value {
  try {
    return decode();
  } catch (error) {
    throw new DecodeError('bad_data', error instanceof Error ? error.message : 'not decodable');
  }
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

function lowerCase(address: Hex): Hex {
  return address.toLowerCase() as Hex;
}
