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

export type ShareLogs = {
  /** In log order. */
  readonly moves: readonly Move[];
  readonly named: readonly Named[];
};

const TRANSFER_SINGLE = toEventSelector('TransferSingle(address,address,address,uint256,uint256)');
const TRANSFER_BATCH = toEventSelector(
  'TransferBatch(address,address,address,uint256[],uint256[])',
);

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

/** Reads the logs of one transaction. Throws DecodeError. */
export function readShareLogs(logs: readonly ChainLog[], contracts: ShareContracts): ShareLogs {
  const moves: Move[] = [];
  const named: Named[] = [];
  for (const log of logs) {
    const emitter = emitterOf(log.address, contracts);
    const [topic = ''] = log.topics;
    if (emitter === undefined) continue;
    if (TOPICS[emitter].has(topic)) named.push(namedBy(log, emitter, contracts));
    else if (emitter !== 'conditionalTokens') continue;
    else if (topic === TRANSFER_SINGLE) moves.push(...movesOf(log, [word(log, 0)], [word(log, 1)]));
    else if (topic === TRANSFER_BATCH) moves.push(...movesOf(log, list(log, 0), list(log, 1)));
  }
  return { moves, named };
}

function emitterOf(address: Hex, contracts: ShareContracts): keyof typeof NAMING | undefined {
  if (address === contracts.conditionalTokens) return 'conditionalTokens';
  if (address === contracts.negRiskAdapter) return 'negRiskAdapter';
  if (contracts.adapters.has(address)) return 'adapter';
  return contracts.redeemers.has(address) ? 'redeemer' : undefined;
}

function namedBy(log: ChainLog, emitter: keyof typeof NAMING, of: ShareContracts): Named {
  const { address, logIndex, topics, data } = log;
  const { eventName, args } = decoded(() =>
    decodeEventLog({ abi: NAMING[emitter], topics: topics as [Hex, ...Hex[]], data }),
  );
  const about =
    'marketId' in args ? conditionsOf(of.negRiskAdapter, args.marketId) : args.conditionId;
  return {
    ...{ kind: KINDS[eventName], logIndex, emitter: address, by: args.by.toLowerCase() as Hex },
    isAbout: (conditionId) =>
      typeof about === 'string' ? about === conditionId : about.has(conditionId),
    payout: 'payout' in args ? args.payout : undefined,
    conversion:
      'marketId' in args
        ? { marketId: args.marketId, indexSet: args.indexSet, amount: args.amount }
        : undefined,
  };
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

/** The conditions of all questions that a market of the neg-risk adapter can have. */
function conditionsOf(negRiskAdapter: Hex, marketId: Hash): ReadonlySet<string> {
  return new Set(
    Array.from({ length: QUESTIONS_MAX }, (_, question) =>
      conditionOf(negRiskAdapter, marketId, question),
    ),
  );
}

/** The condition of a question of the neg-risk adapter, which is its oracle. */
function conditionOf(negRiskAdapter: Hex, marketId: Hash, question: number): Hash {
  const questionId: Hash = `0x${marketId.slice(2, -2)}${question.toString(16).padStart(2, '0')}`;
  const packed = encodePacked(['address', 'bytes32', 'uint256'], [negRiskAdapter, questionId, 2n]);
  return keccak256Hex(Buffer.from(packed.slice(2), 'hex')) as Hash;
}
