/**
 * The logs that tell how outcome shares move: the transfers of ConditionalTokens and, in protocol version 2, of the
 * PositionManager, which are the truth for balances, and the events that name why they were made. The emitter decides which of them count, because test exchanges and foreign
 * contracts log the same ones. Signatures are those of the deployed contracts.
 */
import { encodePacked, type Hex, toEventSelector } from 'viem';
import { keccak256Hex } from '../../../infra/keccak.ts';
import type { Hash } from '../../contract.ts';
import { addressOf, addressTopic, boundedAmount, type ChainLog, DecodeError } from '../log.ts';
import { eventOf, structuredId } from '../structured-ids.ts';
import {
  isEmpty,
  MODULE_NAMING,
  type Restructured,
  readV2Log,
  readV2Moves,
  V2_TOPICS,
  type V2Logs,
  type V2Subject,
} from './v2-logs.ts';
import { data, list, type ReadWord, topic, word } from './words.ts';

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
  /** Protocol version 2; undefined where it is not deployed. */
  readonly v2?:
    | {
        /** Holds all shares. */
        readonly positionManager: Hex;
        /** They mint and burn shares, and pay for them: one for each kind of market. */
        readonly modules: ReadonlySet<string>;
      }
    | undefined;
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
  /** See v2-logs.ts for `migrate`. */
  readonly kind: 'split' | 'merge' | 'redeem' | 'convert' | 'migrate';
  readonly logIndex: number;
  readonly emitter: Hex;
  /** Who called the emitter: a trader or another contract. */
  readonly by: Hex;
  readonly isAbout: (conditionId: string, tokenId: string) => boolean;
  /** Of a redemption, micro-USDC. */
  readonly payout: bigint | undefined;
  readonly conversion: Conversion | undefined;
  readonly restructured?: Restructured | undefined;
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
  /** What only protocol version 2 has; undefined without such logs. */
  readonly v2?: V2Logs | undefined;
};

const TRANSFER_SINGLE = toEventSelector('TransferSingle(address,address,address,uint256,uint256)');
const TRANSFER_BATCH = toEventSelector(
  'TransferBatch(address,address,address,uint256[],uint256[])',
);

const CONDITION_PREPARATION = toEventSelector(
  'ConditionPreparation(bytes32,address,bytes32,uint256)',
);

const MARKET_PREPARED = toEventSelector('MarketPrepared(bytes32,address,uint256,bytes)');

type Emitter =
  | 'conditionalTokens'
  | 'negRiskAdapter'
  | 'adapter'
  | 'redeemer'
  | 'positionManager'
  | 'module';

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
  | V2Subject
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
    'Redemption(address,uint256,uint256)': {
      ...{ kind: 'redeem', positionId: topic(2), payout: data(0) },
    },
  },
  positionManager: {},
  module: MODULE_NAMING,
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
  positionManager: namingOf('positionManager'),
  module: namingOf('module'),
};

/** Besides the events that name a kind of movement. */
const OTHER_TOPICS: Readonly<Record<Emitter, ReadonlySet<string>>> = {
  conditionalTokens: new Set([TRANSFER_SINGLE, TRANSFER_BATCH, CONDITION_PREPARATION]),
  negRiskAdapter: new Set([MARKET_PREPARED]),
  adapter: new Set(),
  redeemer: new Set(),
  positionManager: new Set([TRANSFER_SINGLE, TRANSFER_BATCH]),
  module: V2_TOPICS,
};

/** topic0 of all logs that say how shares move. */
export function shareTopics({ v2 }: ShareContracts): readonly Hex[] {
  const topics = (Object.keys(BY_TOPIC) as Emitter[])
    .filter((emitter) => v2 !== undefined || emitter !== 'module')
    .flatMap((emitter) => [...OTHER_TOPICS[emitter], ...BY_TOPIC[emitter].keys()]);
  return [...new Set(topics)] as Hex[];
}

/** The contracts that log them. */
export function shareEmitters(contracts: ShareContracts): readonly string[] {
  const { conditionalTokens, negRiskAdapter, adapters, redeemers, v2 } = contracts;
  const ofV2 = v2 === undefined ? [] : [v2.positionManager, ...v2.modules];
  return [conditionalTokens, negRiskAdapter, ...adapters, ...redeemers, ...ofV2];
}

/** Whether this contract can log this event about shares. */
export function logsShares(address: Hex, topic: Hex, contracts: ShareContracts): boolean {
  const emitter = emitterOf(address, contracts);
  if (emitter === undefined) return false;
  return BY_TOPIC[emitter].has(topic) || OTHER_TOPICS[emitter].has(topic);
}

/**
 * Reads the logs of one transaction. Throws DecodeError if a transfer cannot be read. Of other events that cannot be read only
 * `refuse` is told: transfers alone decide balances, and what no event names is unexplained.
 */
export function readShareLogs(
  logs: readonly ChainLog[],
  contracts: ShareContracts,
  refuse: (log: ChainLog, error: DecodeError) => void,
): ShareLogs {
  const moves: Move[] = [];
  const named: Named[] = [];
  const conditions: Condition[] = [];
  const v2: V2Logs = { conditions: [], derived: [], foreign: [] };
  for (const log of logs) {
    const [topic] = log.topics;
    if (topic === undefined || !logsShares(log.address, topic, contracts)) continue;
    if (topic === TRANSFER_SINGLE || topic === TRANSFER_BATCH) {
      const own = transfersOf(log, topic);
      moves.push(...own);
      if (log.address === contracts.v2?.positionManager) readV2Moves(own, v2);
      continue;
    }
    try {
      if (V2_TOPICS.has(topic)) readV2Log(log, v2);
      else if (topic === CONDITION_PREPARATION) conditions.push(...preparedBy(log, contracts));
      else if (topic === MARKET_PREPARED) conditions.push(...withFee(log, contracts));
      else {
        const event = namedBy(log, contracts);
        named.push(event);
        if (event.condition !== undefined) conditions.push(event.condition);
        conditions.push(...givenUp(event, contracts));
      }
    } catch (error) {
      if (!(error instanceof DecodeError)) throw error;
      refuse(log, error);
    }
  }
  return { moves, named, conditions, ...(isEmpty(v2) ? {} : { v2 }) };
}

function transfersOf(log: ChainLog, topic: string): readonly Move[] {
  return topic === TRANSFER_SINGLE
    ? movesOf(log, [word(log, 0)], [word(log, 1)])
    : movesOf(log, list(log, 0), list(log, 1));
}

function emitterOf(address: Hex, contracts: ShareContracts): Emitter | undefined {
  if (address === contracts.conditionalTokens) return 'conditionalTokens';
  if (address === contracts.negRiskAdapter) return 'negRiskAdapter';
  if (contracts.adapters.has(address)) return 'adapter';
  if (address === contracts.v2?.positionManager) return 'positionManager';
  if (contracts.v2?.modules.has(address)) return 'module';
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
  if ('combos' in naming || 'eventId' in naming) {
    const event = 'eventId' in naming ? eventOf(naming.eventId(log)) : undefined;
    const ids =
      'combos' in naming ? naming.positionIds?.map((id) => decimalOf(id(log))) : undefined;
    return {
      ...of,
      isAbout: (conditionId, tokenId) =>
        (event === undefined || eventOf(conditionId) === event) &&
        (ids === undefined || ids.includes(tokenId)),
      ...{ payout: undefined, conversion: undefined },
      restructured: { cash: naming.paid?.(log) ?? 0n },
    };
  }
  // A position of no known module is about no market that we know, and others in the transaction are.
  const position = 'positionId' in naming ? decimalOf(naming.positionId(log)) : undefined;
  const own =
    'conditionId' in naming
      ? (naming.conditionId(log) as Hash)
      : structuredId(position ?? '0')?.conditionId;
  const { payout } = naming;
  const shares = 'shares' in naming ? naming.shares : undefined;
  return {
    ...of,
    isAbout: (conditionId, tokenId) =>
      conditionId === own && (position === undefined || position === tokenId),
    payout: payout && boundedAmount(BigInt(payout(log))),
    conversion: undefined,
    condition:
      shares &&
      own &&
      tokensOf(own, addressOf(shares.collateral(log)), shares.parent(log), { logIndex, contracts }),
  };
}

const decimalOf = (id: Hex) => BigInt(id).toString();

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
