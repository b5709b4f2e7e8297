/**
 * What the contracts of protocol version 2 log besides transfers: the modules, one for each kind of market, mint and burn the
 * shares of the PositionManager. Signatures are those of the deployed contracts. Those of combos changed with the upgrade of
 * 2026-09-08, and both are read.
 */
import { type Hex, toEventSelector } from 'viem';
import type { Hash } from '../../contract.ts';
import type { ChainLog } from '../log.ts';
import { conditionsOfEvent, structuredId } from '../structured-ids.ts';
import { amount, data, list, type ReadWord, topic } from './words.ts';

/** In protocol version 2, shares of some markets become shares of others, and money is paid or taken. */
export type Restructured = {
  /** Paid to the trader, or by the trader if below 0, micro-USDC. */
  readonly cash: bigint;
};

/** What a log tells about a condition of protocol version 2. */
type StructuredCondition = {
  readonly logIndex: number;
  readonly conditionId: Hash;
  /** Of a combo, token ids in ascending order, decimal. */
  readonly legs?: readonly string[];
  /** The condition of ConditionalTokens that it continues. */
  readonly legacyConditionId?: Hash;
};

/** A neg-risk event says that results follow from others: either all others are No, or the last one, "Other", is Yes. */
type DerivedResults = {
  readonly logIndex: number;
  /** In their order. */
  readonly conditionIds: readonly Hash[];
  readonly payouts: readonly [bigint, bigint];
};

export type V2Logs = {
  readonly conditions: StructuredCondition[];
  readonly derived: DerivedResults[];
  /** Tokens of the PositionManager that are of no known module, one of each log. */
  readonly foreign: { readonly logIndex: number; readonly tokenId: string }[];
};

/** Which shares an event of a module is about, if it does not name a condition. */
export type V2Subject =
  /** Those of one outcome. */
  | { readonly positionId: ReadWord }
  /** Those of the markets of a neg-risk event. */
  | { readonly eventId: ReadWord; readonly paid?: (log: ChainLog) => bigint }
  /** Those of combos, if it does not name the positions: the transfers tell which. */
  | {
      readonly combos: true;
      readonly positionIds?: readonly ReadWord[];
      readonly paid?: (log: ChainLog) => bigint;
    };

const CONDITION = { conditionId: topic(2) };
const RESTRUCTURED = { kind: 'convert', combos: true } as const;
const COMPRESSED = { ...RESTRUCTURED, positionIds: [topic(2), topic(3)] };

/** Where an event of a module has what it says. Its first indexed argument is the caller. */
type ModuleNaming = {
  /** `migrate`: shares of a market leave ConditionalTokens and come back in the PositionManager. */
  readonly kind: 'split' | 'merge' | 'redeem' | 'convert' | 'migrate';
  readonly payout?: ReadWord;
} & ({ readonly conditionId: ReadWord } | V2Subject);

export const MODULE_NAMING: Readonly<Record<string, ModuleNaming>> = {
  'PositionsSplit(address,bytes31,address,address,uint256)': { kind: 'split', ...CONDITION },
  'PositionsMerged(address,bytes31,address,uint256)': { kind: 'merge', ...CONDITION },
  'PositionRedeemed(address,uint256,address,uint256,uint256)': {
    ...{ kind: 'redeem', positionId: topic(2), payout: data(1) },
  },
  'PositionMigrated(address,bytes31,uint256,uint256,uint256)': {
    ...{ kind: 'migrate', ...CONDITION },
  },
  'PositionConverted(address,bytes29,address,uint256,uint256)': {
    ...{ kind: 'convert', eventId: topic(2) },
  },
  'HorizontalSplit(address,bytes29,address,uint256)': {
    ...{ kind: 'convert', eventId: topic(2), paid: (log) => -amount(log, 0) },
  },
  'HorizontalMerge(address,bytes29,address,uint256)': {
    ...{ kind: 'convert', eventId: topic(2), paid: (log) => amount(log, 0) },
  },
  // Combos, before and after the upgrade of 2026-09-08.
  'Compressed(address,uint256,uint256,uint256,uint256,uint256)': {
    ...{ ...COMPRESSED, paid: (log) => amount(log, 2) },
  },
  'Compressed(address,uint256,uint256,address,uint256,uint256,uint256)': {
    ...{ ...COMPRESSED, paid: (log) => amount(log, 3) },
  },
  'Wrapped(address,uint256,uint256,uint256)': RESTRUCTURED,
  'Wrapped(address,uint256,uint256,address,uint256)': RESTRUCTURED,
  'Unwrapped(address,uint256,uint256,uint256)': RESTRUCTURED,
  'Unwrapped(address,uint256,uint256,address,uint256)': RESTRUCTURED,
  'Extracted(address,bytes31,bytes31,bytes31,uint256)': RESTRUCTURED,
  'Extracted(address,bytes31,bytes31,bytes31,address,address,uint256)': RESTRUCTURED,
  'Injected(address,bytes31,bytes31,bytes31,uint256)': RESTRUCTURED,
  'Injected(address,bytes31,bytes31,bytes31,address,uint256)': RESTRUCTURED,
  'ConvertedToYesBasket(address,bytes31,uint256)': RESTRUCTURED,
  'ConvertedToYesBasket(address,bytes31,address[],uint256)': RESTRUCTURED,
  'MergedFromYesBasket(address,bytes31,uint256)': RESTRUCTURED,
  'MergedFromYesBasket(address,bytes31,address,uint256)': RESTRUCTURED,
  'SplitOnCondition(address,bytes31,bytes31,bytes31,uint256)': RESTRUCTURED,
  'SplitOnCondition(address,bytes31,bytes31,bytes31,address,address,uint256)': RESTRUCTURED,
  'MergedOnCondition(address,bytes31,bytes31,bytes31,uint256)': RESTRUCTURED,
  'MergedOnCondition(address,bytes31,bytes31,bytes31,address,uint256)': RESTRUCTURED,
  'SplitOnEvent(address,bytes31,bytes29,address[],uint256)': RESTRUCTURED,
  'MergedOnEvent(address,bytes31,bytes29,address,uint256)': RESTRUCTURED,
  'ConvertedOnEvent(address,bytes31,bytes29,uint256,address[],uint256)': RESTRUCTURED,
};

const LEGS_PREPARED = toEventSelector('CombinatorialConditionPrepared(bytes31,uint256[])');
const MIGRATION_REGISTERED = toEventSelector('MigrationConditionRegistered(bytes31,bytes32)');
const REMAINING_ARE_NO = toEventSelector('RemainingConditionsDerivableAsNo(bytes29)');
const OTHER_IS_YES = toEventSelector('SyntheticConditionDerivableAsYes(bytes29,bytes31)');

/** Besides the events that name a kind of movement. */
export const V2_TOPICS: ReadonlySet<Hex> = new Set([
  ...[LEGS_PREPARED, MIGRATION_REGISTERED, REMAINING_ARE_NO, OTHER_IS_YES],
]);

export function isEmpty({ conditions, derived, foreign }: V2Logs): boolean {
  return conditions.length + derived.length + foreign.length === 0;
}

/** Transfers of the PositionManager, of one log. */
export function readV2Moves(moves: readonly V2Logs['foreign'][number][], into: V2Logs): void {
  // A batch may have many such tokens.
  const foreign = moves.find(({ tokenId }) => structuredId(tokenId) === undefined);
  if (foreign !== undefined) into.foreign.push(foreign);
}

/** A log with one of V2_TOPICS. Throws DecodeError. */
export function readV2Log(log: ChainLog, into: V2Logs): void {
  const event = topic(0)(log);
  if (event === LEGS_PREPARED || event === MIGRATION_REGISTERED)
    into.conditions.push(structuredBy(log, event));
  else into.derived.push(derivedBy(log, event));
}

function structuredBy(log: ChainLog, event: string): StructuredCondition {
  const { logIndex } = log;
  const conditionId = topic(1)(log) as Hash;
  return event === LEGS_PREPARED
    ? { logIndex, conditionId, legs: list(log, 0).map(String) }
    : { logIndex, conditionId, legacyConditionId: topic(2)(log) as Hash };
}

function derivedBy(log: ChainLog, event: string): DerivedResults {
  const { logIndex } = log;
  return event === OTHER_IS_YES
    ? { logIndex, conditionIds: [topic(2)(log) as Hash], payouts: [1n, 0n] }
    : { logIndex, conditionIds: conditionsOfEvent(topic(1)(log)), payouts: [0n, 1n] };
}
