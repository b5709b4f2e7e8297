/** A resolution: ConditionResolution of a condition with two outcomes. */
import { decodeAbiParameters, type Hex, parseAbiParameters, toEventSelector } from 'viem';
import { boundedAmount, type ChainLog, DecodeError, decodeData, type EventKind } from './log.ts';

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
