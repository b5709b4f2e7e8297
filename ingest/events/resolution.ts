/**
 * A resolution: ConditionResolution of a condition with two outcomes, or, in protocol version 2, ConditionResolved of a module
 * and MigrationResolved. Results that follow from others have no such log (shares/v2-logs.ts).
 */
import { decodeAbiParameters, type Hex, parseAbiParameters, toEventSelector } from 'viem';
import { boundedAmount, type ChainLog, DecodeError, decodeData, type EventKind } from './log.ts';
import { isStructured } from './structured-ids.ts';

export const CONDITION_RESOLUTION = toEventSelector(
  'ConditionResolution(bytes32,address,bytes32,uint256,uint256[])',
);

const OUTCOME_SLOTS = parseAbiParameters('uint256 outcomeSlotCount');
/** Data of ConditionResolution with two payouts, in raw layout: an array is offset, length, items. */
const TWO_PAYOUTS = parseAbiParameters(
  'uint256 outcomeSlotCount, uint256 offset, uint256 length, uint256 first, uint256 second',
);
/** `0x` and the digits of a word. */
const WORD_LENGTH = 66;

type LoggedResolution = {
  readonly kind: 'resolution';
  readonly txHash: Hex;
  readonly logIndex: number;
  readonly conditionId: Hex;
  readonly payouts: [bigint, bigint];
};

export const RESOLUTION: EventKind<LoggedResolution> = {
  contract: 'conditionalTokens',
  topics: [CONDITION_RESOLUTION],
  reader: () => ({ read: decodeResolution }),
  store: async ({ kind, ...resolution }, { blockNumber, blockTime }) => ({
    kind,
    blockNumber,
    blockTime,
    ...resolution,
  }),
};

export const CONDITION_RESOLVED = toEventSelector('ConditionResolved(bytes31,uint256[])');
export const MIGRATION_RESOLVED = toEventSelector(
  'MigrationResolved(bytes31,bytes32,uint256,uint256,uint256,uint256)',
);
/** Data of ConditionResolved: offset, length, items. */
const TWO_RESULTS = parseAbiParameters(
  'uint256 offset, uint256 length, uint256 first, uint256 second',
);
/** Data of MigrationResolved: the payouts of ConditionalTokens, and the results. */
const MIGRATED_RESULTS = parseAbiParameters(
  'uint256 legacy0, uint256 legacy1, uint256 first, uint256 second',
);

export const MODULE_RESOLUTION: EventKind<LoggedResolution> = {
  ...RESOLUTION,
  contract: 'module',
  topics: [CONDITION_RESOLVED, MIGRATION_RESOLVED],
  reader: () => ({ read: decodeModuleResolution }),
};

function decodeModuleResolution(log: ChainLog): LoggedResolution {
  const { topics, data, transactionHash: txHash, logIndex } = log;
  const [event, conditionId = ''] = topics;
  if (!isStructured(conditionId)) throw new DecodeError('bad_topics', conditionId);
  const isList = event === CONDITION_RESOLVED;
  const words = decodeData(log, isList ? TWO_RESULTS : MIGRATED_RESULTS, 4);
  const [offset, length, first, second] = words;
  const payouts: [bigint, bigint] = [boundedAmount(first), boundedAmount(second)];
  if (first + second === 0n || (isList && (offset !== 32n || length !== 2n)))
    throw new DecodeError('bad_payouts', data);
  return { kind: 'resolution', txHash, logIndex, conditionId: conditionId as Hex, payouts };
}

function decodeResolution(log: ChainLog): LoggedResolution | undefined {
  const { topics, data, transactionHash: txHash, logIndex } = log;
  if (topics.length !== 4) throw new DecodeError('bad_topics', `${topics.length} topics`);
  const [slots] = data.length < WORD_LENGTH ? [0n] : decodeAbiParameters(OUTCOME_SLOTS, data);
  // The shared contract has conditions with more than two outcomes; the exchange trades none of them.
  if (slots !== 2n) return undefined;
  const [, offset, length, first, second] = decodeData(log, TWO_PAYOUTS, 5);
  const payouts: [bigint, bigint] = [boundedAmount(first), boundedAmount(second)];
  if (offset !== 64n || length !== 2n || first + second === 0n) {
    throw new DecodeError('bad_payouts', data);
  }
  return { kind: 'resolution', txHash, logIndex, conditionId: topics[1] as Hex, payouts };
}
