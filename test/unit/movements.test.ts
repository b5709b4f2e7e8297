/** Movements of the constructed transactions of test/fixtures/shares-cases.json. */
import {
  type AbiEvent,
  encodeAbiParameters,
  encodeEventTopics,
  type Hex,
  parseAbiItem,
} from 'viem';
import { describe, expect, test } from 'vitest';
import type { ChainLog } from '../../ingest/events/log.ts';
import { MATCH } from '../../ingest/events/match.ts';
import { movementsOf, type TokenPlace } from '../../ingest/events/shares/movements.ts';
import { readShareLogs, type ShareContracts } from '../../ingest/events/shares/share-logs.ts';
import { positionIds } from '../../ingest/events/token-ids.ts';
import cases from '../fixtures/shares-cases.json' with { type: 'json' };

const { names, ids } = cases as { names: Record<string, Hex>; ids: Record<string, string> };
const of = (name: string): Hex => names[name] as Hex;
const CONTRACTS: ShareContracts = {
  conditionalTokens: of('CTF'),
  collateral: of('USDCE'),
  negRiskCollateral: of('WCOL'),
  negRiskAdapter: of('NRA'),
  exchanges: new Set([of('X'), of('XN'), of('X3')]),
  silentAdapters: new Set([of('G1'), of('G1N')]),
  adapters: new Set([of('G2'), of('G2N')]),
  redeemers: new Set([of('AR2'), of('AR3')]),
  burn: of('BURN'),
  others: new Set([of('WCOL'), of('VAULT')]),
};
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
  FeeCharged: 'address indexed receiver, uint256 amount',
  OrderFilled:
    'bytes32 indexed orderHash, address indexed maker, address indexed taker, uint8 side, uint256 tokenId, uint256 makerAmountFilled, uint256 takerAmountFilled, uint256 fee, bytes32 builder, bytes32 metadata',
  OrdersMatched:
    'bytes32 indexed takerOrderHash, address indexed takerOrderMaker, uint8 side, uint256 tokenId, uint256 makerAmountFilled, uint256 takerAmountFilled',
};

type Value = string | number | readonly Value[];

function encoded(type: string, value: Value): unknown {
  if (Array.isArray(value)) return value.map((one) => encoded(type.replace('[]', ''), one));
  const named = typeof value === 'string' ? (names[value] ?? ids[value]) : undefined;
  const plain = named ?? value;
  if (type === 'address') return plain === 0 ? of('ZERO') : plain;
  if (type === 'bytes32')
    return `0x${BigInt(plain as string)
      .toString(16)
      .padStart(64, '0')}`;
  return BigInt(plain as string);
}

function logOf([emitter, event, ...args]: readonly Value[], logIndex: number): ChainLog {
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

const PLACES = new Map<string, TokenPlace>();
for (const [condition, [first, second]] of Object.entries({
  C0: ['Y', 'N'],
  C1: ['Y0', 'N0'],
  C2: ['Y1', 'N1'],
  C3: ['Y2', 'N2'],
  C4: ['Y3', 'N3'],
} as Record<string, [string, string]>)) {
  for (const [index, id] of [first, second].entries()) {
    PLACES.set(BigInt(ids[id] ?? 0).toString(), {
      conditionId: of(condition),
      outcomeIndex: index as 0 | 1,
    });
  }
}

test('the ids of the fixture are those of its conditions', () => {
  expect(positionIds(of('USDCE'), of('C0'))).toEqual([BigInt(ids.Y ?? 0), BigInt(ids.N ?? 0)]);
  expect(positionIds(of('WCOL'), of('C4'))).toEqual([BigInt(ids.Y3 ?? 0), BigInt(ids.N3 ?? 0)]);
});

describe('the movements of a transaction', () => {
  for (const { id, what, logs: rows, expect: expected } of cases.cases.filter(
    ({ id }) => !/^v[23]-/.test(id),
  )) {
    test(`${id}: ${what}`, () => {
      const logs = (rows as Value[][]).map(logOf);
      const reader = MATCH.reader();
      const matches = logs
        .filter(
          ({ address, topics }) =>
            CONTRACTS.exchanges.has(address) && MATCH.topics.includes(topics[0] as Hex),
        )
        .flatMap((log) => reader.read(log) ?? []);
      const fills = matches.flatMap((match) => match.fills);
      const found = movementsOf(readShareLogs(logs, CONTRACTS), fills, CONTRACTS, (token) =>
        PLACES.get(token),
      );
      const shown = found.map(({ kind, trader, conditionId, change, counterparty }) => [
        kind,
        trader,
        conditionId,
        Number(change[0]),
        Number(change[1]),
        ...(counterparty === '' ? [] : [counterparty]),
      ]);
      const wanted = (expected.movements as Value[][]).map((row) =>
        row.map((value) => (typeof value === 'string' && value in names ? names[value] : value)),
      );
      const sorted = (all: unknown[][]) => all.map((one) => JSON.stringify(one)).sort();
      expect(sorted(shown)).toEqual(sorted(wanted as unknown[][]));
    });
  }
});
