/** The constructed transactions of test/fixtures/shares-cases.json, and their logs as a node returns them. */
import {
  type AbiEvent,
  encodeAbiParameters,
  encodeEventTopics,
  type Hex,
  parseAbiItem,
} from 'viem';
import type { ChainLog } from '../../ingest/events/log.ts';
import fixture from '../fixtures/shares-cases.json' with { type: 'json' };

type Case = {
  readonly id: string;
  readonly what: string;
  readonly logs: readonly (readonly Value[])[];
  readonly expect: { readonly movements: readonly (readonly Value[])[] };
};

export const { names, ids } = fixture as {
  names: Record<string, Hex>;
  ids: Record<string, string>;
};
export const cases = fixture.cases as unknown as readonly Case[];
/** Whether a transaction is of protocol version 2. */
export const isOfV2 = ({ id }: Case): boolean => /^v[23]-/.test(id);
export const of = (name: string): Hex => names[name] as Hex;

const EVENTS: Record<string, string> = {
  TransferSingle:
    'address indexed operator, address indexed from, address indexed to, uint256 id, uint256 value',
  TransferBatch:
    'address indexed operator, address indexed from, address indexed to, uint256[] ids, uint256[] values',
  CTFPositionSplit:
    'address indexed stakeholder, address collateral, bytes32 indexed parent, bytes32 indexed conditionId, uint256[] partition, uint256 amount',
  CTFPositionsMerge:
    'address indexed stakeholder, address collateral, bytes32 indexed parent, bytes32 indexed conditionId, uint256[] partition, uint256 amount',
  CTFPayoutRedemption:
    'address indexed redeemer, address indexed collateral, bytes32 indexed parent, bytes32 conditionId, uint256[] indexSets, uint256 payout',
  PositionSplit: 'address indexed stakeholder, bytes32 indexed conditionId, uint256 amount',
  PositionsMerge: 'address indexed stakeholder, bytes32 indexed conditionId, uint256 amount',
  PayoutRedemption:
    'address indexed redeemer, bytes32 indexed conditionId, uint256[] amounts, uint256 payout',
  PositionsConverted:
    'address indexed stakeholder, bytes32 indexed marketId, uint256 indexed indexSet, uint256 amount',
  G2NPositionsConverted:
    'address indexed initiator, bytes32 indexed marketId, uint256 indexed indexSet, uint256 amount, uint256 amountOut',
  PositionsRedeemed:
    'address indexed initiator, bytes32 indexed conditionId, uint256[] amounts, uint256 payout',
  BinaryRedemption: 'address indexed from, bytes32 indexed conditionId, uint256 payout',
  PositionsSplit:
    'address indexed initiator, bytes31 indexed conditionId, address indexed yesTo, address noTo, uint256 amount',
  PositionsMerged:
    'address indexed initiator, bytes31 indexed conditionId, address indexed to, uint256 amount',
  PositionRedeemed:
    'address indexed initiator, uint256 indexed positionId, address indexed to, uint256 amount, uint256 payout',
  Redemption: 'address indexed from, uint256 indexed positionId, uint256 payout',
  FeeCharged: 'address indexed receiver, uint256 amount',
  OrderFilled:
    'bytes32 indexed orderHash, address indexed maker, address indexed taker, uint8 side, uint256 tokenId, uint256 makerAmountFilled, uint256 takerAmountFilled, uint256 fee, bytes32 builder, bytes32 metadata',
  OrdersMatched:
    'bytes32 indexed takerOrderHash, address indexed takerOrderMaker, uint8 side, uint256 tokenId, uint256 makerAmountFilled, uint256 takerAmountFilled',
};

export type Value = string | number | readonly Value[];

function encoded(type: string, value: Value): unknown {
  if (Array.isArray(value)) return value.map((one) => encoded(type.replace('[]', ''), one));
  const named = typeof value === 'string' ? (names[value] ?? ids[value]) : undefined;
  const plain = named ?? value;
  if (type === 'address') return plain === 0 ? of('ZERO') : plain;
  if (type === 'bytes31') return String(plain).slice(0, -2);
  if (type === 'bytes32')
    return `0x${BigInt(plain as string)
      .toString(16)
      .padStart(64, '0')}`;
  return BigInt(plain as string);
}

/** `logIndex` is its place in the transaction. */
export function logOf([emitter, event, ...args]: readonly Value[], logIndex: number): ChainLog {
  const own = EVENTS[`${emitter}${event}`] ?? EVENTS[`${event}`];
  const item = parseAbiItem(`event ${event}(${own})`) as AbiEvent;
  const values = item.inputs.map(({ type }, at) => encoded(type, args[at] as Value));
  const indexed = Object.fromEntries(
    item.inputs.flatMap((input, at) => (input.indexed ? [[input.name, values[at]]] : [])),
  );
  const plain = item.inputs
    .map((input, at) => ({ input, value: values[at] }))
    .filter(({ input }) => !input.indexed);
  return {
    address: of(String(emitter)),
    topics: encodeEventTopics({ abi: [item], args: indexed } as never) as Hex[],
    data: encodeAbiParameters(
      plain.map(({ input }) => input),
      plain.map(({ value }) => value),
    ),
    transactionHash: `0x${'1'.repeat(64)}`,
    logIndex,
  };
}
