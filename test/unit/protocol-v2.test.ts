/** Protocol version 2: ids, calls, results, combos, markets that continue others. The contracts: process/protocol-v2.test.ts. */
import fc from 'fast-check';
import {
  encodeAbiParameters,
  encodeEventTopics,
  encodeFunctionData,
  type Hex,
  parseAbi,
} from 'viem';
import { describe, expect, test } from 'vitest';
import { type Hash, type LedgerEvent, Listing, type Match } from '../../ingest/contract.ts';
import { decodeLogs } from '../../ingest/events/decode.ts';
import { type ChainLog, DecodeError } from '../../ingest/events/log.ts';
import {
  decodeMatchCall,
  MATCH_ORDERS_V3_ABI,
  makersOfCall,
} from '../../ingest/events/match-call.ts';
import { BlockMovements } from '../../ingest/events/shares/block-movements.ts';
import { comboParts, comboPayouts, PARTS } from '../../ingest/events/shares/combos.ts';
import { KnownMarkets } from '../../ingest/events/shares/known-markets.ts';
import { valuesOf } from '../../ingest/events/shares/restructuring.ts';
import {
  readShareLogs,
  type ShareContracts,
  type ShareLogs,
} from '../../ingest/events/shares/share-logs.ts';
import {
  conditionsOfEvent,
  structuredId,
  structuredTokens,
} from '../../ingest/events/structured-ids.ts';
import { positionIds } from '../../ingest/events/token-ids.ts';
import { comboListing } from '../../ingest/metadata/combo-listing.ts';
import { payoutOf, payoutsOf } from '../../projector/fold/position.ts';
import { OpenPositions } from '../../projector/fold/positions.ts';
import encoded from '../fixtures/shares-encoded.json' with { type: 'json' };
import { chainLog, POLYGON, runs, shareLogsOf } from './fixtures.ts';

const address = (n: number): Hex => `0x${n.toString(16).padStart(40, '0')}`;
const hash = (n: number): Hash => `0x${n.toString(16).padStart(64, '0')}`;
const [USDC, WRAPPED, CTF, MANAGER] = [address(1), address(2), address(3), address(4)];
const [BINARY, NEG_RISK, COMBINATORIAL] = [address(11), address(12), address(13)];
const [EXCHANGE, ROUTER, ALICE, BOB] = [address(5), address(6), address(101), address(102)];
const ZERO = address(0);
const CONTRACTS: ShareContracts = {
  ...{ conditionalTokens: CTF, collateral: USDC, negRiskCollateral: WRAPPED },
  ...{ negRiskAdapter: address(7), exchanges: new Set([EXCHANGE]), burn: address(8) },
  ...{ silentAdapters: new Set([ROUTER]), adapters: new Set(), redeemers: new Set() },
  others: new Set(),
  v2: { positionManager: MANAGER, modules: new Set([BINARY, NEG_RISK, COMBINATORIAL]) },
};
const M = 1_000_000n;

/** A condition of a module: of an event with this many conditions, with this number. */
function condition(module: number, base: number, arity = 1, index = 0): Hash {
  const digits = [
    [module, 2],
    [base, 32],
    [arity, 4],
    [0, 16],
    [137, 4],
    [index, 4],
    [0, 2],
  ] as const;
  return `0x${digits.map(([value, size]) => value.toString(16).padStart(size, '0')).join('')}`;
}
const yes = (id: Hash) => structuredTokens(id)[0];
const no = (id: Hash) => structuredTokens(id)[1];

describe('a structured id', () => {
  const p = '0x01c6acdcead0fa5899a040a9f8a0bdc90d000100000000000000000089000000';

  test('says its condition and outcome', () => {
    const zero = BigInt(p);
    expect(structuredId(`${zero}`)).toEqual({ conditionId: p, outcomeIndex: 0 });
    expect(structuredId(`${zero + 1n}`)).toEqual({ conditionId: p, outcomeIndex: 1 });
    expect(structuredTokens(p)).toEqual([`${zero}`, `${zero + 1n}`]);
  });

  test('no other outcome, no other module, and no zeros that are not zero', () => {
    const zero = BigInt(p);
    for (const other of [zero + 2n, zero | (4n << 248n), zero | (1n << 40n), zero | (1n << 103n)])
      expect(structuredId(`${other}`)).toBeUndefined();
    const [first] = positionIds(USDC, hash(1));
    expect(structuredId(`${first}`)).toBeUndefined();
  });

  test('the conditions of a neg-risk event, and "Other"', () => {
    const all = [0, 1, 2, 3].map((index) => condition(2, 9, 3, index));
    expect(conditionsOfEvent(condition(2, 9, 3, 2))).toEqual(all);
  });
});

describe('a call of version 3', () => {
  const order = (maker: Hex, side: 0 | 1, tokenId: string, offer: bigint, wanted: bigint) => ({
    ...{ salt: 1n, maker, signer: maker, tokenId: BigInt(tokenId) },
    ...{
      makerAmount: offer,
      takerAmount: wanted,
      side,
      signatureType: 3,
      timestamp: 1_780_000_000n,
    },
    ...{ metadata: hash(0), builder: hash(0), signature: '0x' as Hex },
  });
  const market = condition(1, 5);
  type Order = ReturnType<typeof order>;
  const call = (taker: Order, makers: Order[], fills: bigint[], takerFillAmount: bigint) =>
    encodeFunctionData({
      abi: MATCH_ORDERS_V3_ABI,
      functionName: 'matchOrders',
      args: [
        ...([taker, makers, fills, fills.map(() => 0n)] as const),
        { takerFillAmount, takerReceiveAmount: 0n, takerFeeAmount: 7n },
      ],
    });

  test('names its market by the tokens, and times in seconds', () => {
    const taker = order(ALICE, 0, yes(market), 6n * M, 10n * M);
    const maker = order(BOB, 1, yes(market), 10n * M, 6n * M);
    const input = call(taker, [maker], [10n * M], 6n * M);
    expect(input.slice(0, 10)).toBe('0x0fb25ba4');
    expect(makersOfCall(input)).toBe(1);
    const match = decodeMatchCall(input, EXCHANGE, POLYGON);
    expect(match).toMatchObject({
      conditionId: market,
      taker: { trader: ALICE, shares: 10n * M, usdc: 6n * M, fee: 7n },
      makers: [{ trader: BOB, shares: 10n * M, usdc: 6n * M }],
    });
    expect(match.taker.order).toMatchObject({ timestampMs: 1_780_000_000_000, signatureType: 3 });
  });

  test('can prepare a combo', () => {
    const combo = condition(3, 77, 0);
    const taker = order(ALICE, 0, yes(combo), 2n * M, 10n * M);
    const maker = order(BOB, 0, no(combo), 8n * M, 10n * M);
    const input = encodeFunctionData({
      abi: MATCH_ORDERS_V3_ABI,
      functionName: 'matchOrdersAndPrepareCombinatorial',
      args: [
        ...([taker, [maker], [8n * M], [0n]] as const),
        { takerFillAmount: 2n * M, takerReceiveAmount: 10n * M, takerFeeAmount: 0n },
        [BigInt(yes(market))],
      ],
    });
    expect(input.slice(0, 10)).toBe('0xe75cf6e5');
    expect(makersOfCall(input)).toBe(1);
    expect(decodeMatchCall(input, EXCHANGE, POLYGON).conditionId).toBe(combo);
  });

  test('a buyer whose shares are minted pays what its makers leave, not what it offers', () => {
    const taker = order(ALICE, 0, yes(market), 7n * M, 10n * M);
    const maker = order(BOB, 0, no(market), 4n * M, 10n * M);
    const input = call(taker, [maker], [4n * M], 7n * M);
    const { taker: filled } = decodeMatchCall(input, EXCHANGE, POLYGON);
    expect([filled.usdc, filled.shares]).toEqual([6n * M, 10n * M]);
  });

  test('a seller whose shares are merged gives what its makers take, not what it offers', () => {
    const taker = order(ALICE, 1, yes(market), 10n * M, 2n * M);
    const maker = order(BOB, 1, no(market), 8n * M, 5n * M);
    const input = call(taker, [maker], [8n * M], 10n * M);
    const { taker: filled } = decodeMatchCall(input, EXCHANGE, POLYGON);
    expect([filled.usdc, filled.shares]).toEqual([3n * M, 8n * M]);
  });

  test('of a token of no module is refused', () => {
    const taker = order(ALICE, 0, '5', 6n * M, 10n * M);
    const input = call(taker, [order(BOB, 1, '5', 10n * M, 6n * M)], [10n * M], 6n * M);
    expect(() => decodeMatchCall(input, EXCHANGE, POLYGON)).toThrow(DecodeError);
  });
});

const EVENTS = parseAbi([
  'event RolesUpdated(address indexed user, uint256 indexed roles)',
  'event ConditionResolved(bytes31 indexed conditionId, uint256[] result)',
  'event MigrationResolved(bytes31 indexed conditionId, bytes32 indexed legacyConditionId, uint256 legacyPayout0, uint256 legacyPayout1, uint256 result0, uint256 result1)',
  'event RemainingConditionsDerivableAsNo(bytes29 indexed eventId)',
  'event SyntheticConditionDerivableAsYes(bytes29 indexed eventId, bytes31 indexed conditionId)',
  'event CombinatorialConditionPrepared(bytes31 indexed conditionId, uint256[] legs)',
  'event MigrationConditionRegistered(bytes31 indexed conditionId, bytes32 indexed legacyConditionId)',
  'event PositionMigrated(address indexed from, bytes31 indexed conditionId, uint256 indexed positionId, uint256 outcomeIndex, uint256 amount)',
  'event HorizontalSplit(address indexed initiator, bytes29 indexed eventId, address indexed to, uint256 amount)',
  'event PositionRedeemed(address indexed initiator, uint256 indexed positionId, address indexed to, uint256 amount, uint256 payout)',
  'event PositionConverted(address indexed initiator, bytes29 indexed eventId, address indexed to, uint256 conditionIndex, uint256 amount)',
  'event Compressed(address indexed initiator, uint256 indexed oldId, uint256 indexed newId, address to, uint256 amount, uint256 newAmount, uint256 collateral)',
  'event TransferSingle(address indexed operator, address indexed from, address indexed to, uint256 id, uint256 value)',
  'event TransferBatch(address indexed operator, address indexed from, address indexed to, uint256[] ids, uint256[] values)',
]);
type EventName = (typeof EVENTS)[number]['name'];

function logOf(emitter: Hex, logIndex: number, eventName: EventName, args: object): ChainLog {
  const item = EVENTS.find(({ name }) => name === eventName);
  const plain = (item?.inputs ?? []).filter((input) => !('indexed' in input && input.indexed));
  return {
    ...{ address: emitter, logIndex, transactionHash: hash(1) },
    topics: encodeEventTopics({ abi: EVENTS, eventName, args } as never) as Hex[],
    data: encodeAbiParameters(plain, plain.map(({ name }) => args[name as never]) as never),
  };
}
const bytes31 = (id: Hash): Hex => id.slice(0, -2) as Hex;
const bytes29 = (id: Hash): Hex => id.slice(0, 60) as Hex;

const WATCHED = {
  exchanges: CONTRACTS.exchanges,
  conditionalTokens: CTF,
  modules: CONTRACTS.v2?.modules,
};

/** What one block with these logs of one transaction becomes. */
function block(state: BlockMovements, logs: readonly ChainLog[], matches: readonly Match[] = []) {
  const at = { blockNumber: 1, blockTime: 1 };
  const share: ChainLog[] = [];
  const other: ChainLog[] = [];
  for (const log of logs) {
    const isShare = ['ConditionResolved', 'MigrationResolved'].every(
      (name) => log.topics[0] !== encodeEventTopics({ abi: EVENTS, eventName: name as never })[0],
    );
    (isShare ? share : other).push(log);
  }
  const results = decodeLogs(other, WATCHED).events.flatMap((event) =>
    event.kind === 'resolution' ? [{ ...event, ...at }] : [],
  );
  const read: ShareLogs = shareLogsOf(share, CONTRACTS);
  return state.complete({
    ...at,
    events: [...matches.map((match) => ({ ...match, ...at })), ...results],
    shares: new Map([[hash(1), read]]),
  });
}
const started = () => new BlockMovements(CONTRACTS, new Map([[EXCHANGE, 'v3']]));
const resultsOf = (events: readonly LedgerEvent[]) =>
  events.flatMap((event) =>
    event.kind === 'resolution' ? [[event.conditionId, ...event.payouts]] : [],
  );
const movementsOf = (events: readonly LedgerEvent[]) =>
  events.flatMap((event) =>
    event.kind === 'movement'
      ? [[event.reason, event.trader, event.conditionId, ...event.change, event.usdc]]
      : [],
  );
const resolved = (id: Hash, result: readonly bigint[], logIndex = 0) =>
  logOf(id.startsWith('0x02') ? NEG_RISK : BINARY, logIndex, 'ConditionResolved', {
    ...{ conditionId: bytes31(id), result },
  });

describe('operators', () => {
  test('have the second of the roles', () => {
    const roles = [0n, 1n, 2n, 3n].map((of, at) =>
      logOf(EXCHANGE, at, 'RolesUpdated', { user: ALICE, roles: of }),
    );
    expect(
      decodeLogs(roles, WATCHED).events.map((event) => event.kind === 'operator' && event.allowed),
    ).toEqual([false, false, true, true]);
  });

  test('of the other contracts are an alarm: with a role, the bridge mints shares', () => {
    for (const contract of [MANAGER, BINARY]) {
      const log = logOf(contract, 0, 'RolesUpdated', { user: ALICE, roles: 2n });
      expect(decodeLogs([log], WATCHED).refused.map(({ error }) => error.message)).toEqual([
        `upgraded: ${contract}: roles of ${ALICE}`,
      ]);
    }
  });
});

describe('results', () => {
  test('the encoded result of a condition', () => {
    const [log] = encoded.logs.filter(({ event }) => event === 'ConditionResolved');
    if (log === undefined) throw new RangeError('no result');
    const { events } = decodeLogs([chainLog({ ...log, address: log.emitter })], {
      ...WATCHED,
      modules: new Set([log.emitter]),
    });
    expect(events).toMatchObject([
      { kind: 'resolution', conditionId: log.topics[1], payouts: [M, 0n] },
    ]);
  });

  test('a binary market pays any split of a million', () => {
    const id = condition(1, 1);
    expect(resultsOf(block(started(), [resolved(id, [300_001n, 699_999n])]))).toEqual([
      [id, 300_001n, 699_999n],
    ]);
  });

  test('of others than two outcomes, or of nothing, are refused', () => {
    for (const result of [[M], [M, 0n, 0n], [0n, 0n]])
      expect(
        decodeLogs([resolved(condition(1, 1), result)], WATCHED).refused.map(
          (one) => one.error.reason,
        ),
      ).toEqual([result.length === 2 ? 'bad_payouts' : 'bad_data']);
  });

  test('one Yes makes the others of its event and "Other" No, except those that have a result', () => {
    const [first, second, third, other] = [0, 1, 2, 3].map((n) => condition(2, 9, 3, n)) as [
      ...[Hash, Hash, Hash, Hash],
    ];
    const state = started();
    expect(resultsOf(block(state, [resolved(first, [0n, M])]))).toEqual([[first, 0n, M]]);
    const derived = logOf(NEG_RISK, 1, 'RemainingConditionsDerivableAsNo', {
      eventId: bytes29(first),
    });
    expect(resultsOf(block(state, [resolved(second, [M, 0n]), derived]))).toEqual([
      [second, M, 0n],
      [third, 0n, 1n],
      [other, 0n, 1n],
    ]);
    // A result that was derived can be reported later.
    expect(resultsOf(block(state, [resolved(third, [0n, M])]))).toEqual([]);
  });

  test('that follow from one log are numbered, and all of them settle', () => {
    const ids = Array.from({ length: 40 }, (_, n) => condition(2, 9, 39, n)) as [Hash, ...Hash[]];
    const derived = logOf(NEG_RISK, 1, 'RemainingConditionsDerivableAsNo', {
      eventId: bytes29(ids[0]),
    });
    const events = block(started(), [resolved(ids[0], [M, 0n]), derived]);
    const parts = events.map((event) => event.kind === 'resolution' && event.part);
    expect(parts).toEqual([undefined, undefined, ...ids.slice(2).map((_, n) => n + 1)]);
    const positions = new OpenPositions();
    const fill = { ...{ logIndex: 0, orderHash: hash(2), trader: ALICE, isTaker: true, fee: 0n } };
    for (const [n, conditionId] of ids.entries())
      positions.apply({
        ...{ kind: 'match', blockNumber: 0, blockTime: 0, txHash: hash(1), logIndex: n },
        ...{ exchange: EXCHANGE, conditionId },
        fills: [
          {
            ...{ ...fill, side: 'BUY', outcomeIndex: 0, tokenId: yes(conditionId) },
            ...{ shares: M, usdc: 1n },
          },
        ],
      });
    const settled = events.flatMap((event) => positions.apply(event));
    expect(settled.map(({ kind }) => kind)).toEqual(ids.map(() => 'settlement'));
  });

  test('all No makes "Other" Yes', () => {
    const [first, second, other] = [0, 1, 2].map((n) => condition(2, 9, 2, n)) as [
      Hash,
      Hash,
      Hash,
    ];
    const derived = logOf(NEG_RISK, 2, 'SyntheticConditionDerivableAsYes', {
      ...{ eventId: bytes29(first), conditionId: bytes31(other) },
    });
    const logs = [resolved(first, [0n, M]), resolved(second, [0n, M], 1), derived];
    expect(resultsOf(block(started(), logs))).toEqual([
      [first, 0n, M],
      [second, 0n, M],
      [other, 1n, 0n],
    ]);
  });
});

describe('a combo', () => {
  const [one, two] = [condition(1, 1), condition(1, 2)];
  const combo = condition(3, 50, 0);
  const prepared = (legs: readonly string[]) =>
    logOf(COMBINATORIAL, 0, 'CombinatorialConditionPrepared', {
      ...{ conditionId: bytes31(combo), legs: legs.map(BigInt) },
    });

  test('pays the product of its legs once all are known', () => {
    const state = started();
    expect(block(state, [prepared([yes(one), no(two)])])).toMatchObject([
      { kind: 'market', conditionId: combo, legs: [yes(one), no(two)] },
    ]);
    expect(resultsOf(block(state, [resolved(one, [500_000n, 500_000n])]))).toHaveLength(1);
    expect(resultsOf(block(state, [resolved(two, [500_000n, 500_000n])]))).toEqual([
      [two, 500_000n, 500_000n],
      [combo, 1n, 3n],
    ]);
  });

  test('pays nothing after the first losing leg, also if it is prepared later', () => {
    const state = started();
    block(state, [prepared([yes(one), no(two)])]);
    expect(resultsOf(block(state, [resolved(two, [M, 0n])]))).toEqual([
      [two, M, 0n],
      [combo, 0n, 1n],
    ]);
    expect(resultsOf(block(state, [resolved(one, [M, 0n])]))).toEqual([[one, M, 0n]]);
    const late = started();
    block(late, [resolved(two, [M, 0n])]);
    expect(resultsOf(block(late, [prepared([yes(one), no(two)])]))).toEqual([[combo, 0n, 1n]]);
  });

  test('pays what the module pays, whatever the legs and the amount', () => {
    const million = 1_000_000;
    const leg = fc.oneof(
      fc.constantFrom(0, million, million, million / 2),
      fc.integer({ min: 1, max: million }),
    );
    const amounts = fc.bigInt({ min: 1n, max: 10n ** 15n });
    fc.assert(
      fc.property(fc.array(leg, { minLength: 2, maxLength: 50 }), amounts, (paid, amount) => {
        const parts = comboParts(paid.map((one) => ({ paid: BigInt(one), total: M })));
        const payouts = payoutsOf(comboPayouts(parts ?? [0n, 0n]));
        let [down, up] = [10n ** 36n, 10n ** 36n];
        for (const one of paid.map(BigInt)) {
          down = (down * one) / M;
          up = (up * one) / M + ((up * one) % M === 0n ? 0n : 1n);
        }
        const rest = amount * up;
        const reduced = rest / PARTS + (rest % PARTS === 0n ? 0n : 1n);
        expect(payoutOf(amount, 0, payouts)).toBe((amount * down) / PARTS);
        expect(payoutOf(amount, 1, payouts)).toBe(paid.includes(0) ? amount : amount - reduced);
      }),
      { numRuns: runs(10_000), seed: 20_261_129 },
    );
  });
});

test('the listing of a combo names its legs, and ends with the last of them', () => {
  const [one, two] = [condition(1, 1), condition(1, 2)];
  const listing = {
    ...{
      kind: 'listing' as const,
      conditionId: one,
      marketId: '5',
      question: 'Rain?',
      slug: 'rain',
    },
    ...{ startDate: '', endDate: '2026-12-01T00:00:00Z', icon: 'https://i', negRisk: false },
    ...{ eventSlug: '', eventTitle: '', eventIcon: '', seriesSlug: '', tags: ['weather'] },
    ...{
      outcomes: ['Wet', 'Dry'] as [string, string],
      tokenIds: [yes(one), no(one)] as [string, string],
    },
    ...{ groupItemTitle: '', sportsMarketType: '' },
  };
  const combo = condition(3, 0xabcd, 0);
  const made = comboListing(combo, [
    { conditionId: one, outcomeIndex: 1, listing },
    { conditionId: two, outcomeIndex: 0, listing: undefined },
  ]);
  expect(Listing.parse(made)).toEqual(made);
  expect(made).toMatchObject({
    ...{ question: `Rain?: Dry + ${two}: Yes`, endDate: listing.endDate, outcomes: ['Yes', 'No'] },
    ...{ slug: 'combo-0000000000000000000000000000abcd', groupItemTitle: '2 legs' },
    ...{ tokenIds: [yes(combo), no(combo)], icon: 'https://i', marketId: '0' },
  });
});

test.each([
  // The examples of docs/pnl.md: what the legs pay, of a million; shares; what Yes and No pay.
  [[500_000n, 500_000n], 3_000_000n, 750_000n, 2_250_000n],
  [[333_333n, M], M, 333_333n, 666_667n],
])('a combo of legs that pay %s', (paid, shares, zero, one) => {
  const parts = comboParts(paid.map((of) => ({ paid: of, total: M }))) ?? [0n, 0n];
  const payouts = payoutsOf(comboPayouts(parts));
  expect([payoutOf(shares, 0, payouts), payoutOf(shares, 1, payouts)]).toEqual([zero, one]);
});

describe('shares that become shares of other markets', () => {
  test('have values that add up to what was paid', () => {
    const exchanged = fc.record({
      shares: fc.bigInt({ min: -(10n ** 12n), max: 10n ** 12n }).filter((shares) => shares !== 0n),
      price: fc.option(fc.bigInt({ min: 0n, max: M }), { nil: undefined }),
    });
    const all = fc.array(exchanged, { minLength: 1, maxLength: 20 });
    fc.assert(
      fc.property(all, fc.bigInt({ min: 0n, max: 10n ** 12n }), (given, amount) => {
        // Whoever gives nothing pays, and is not paid.
        const cash = given.every(({ shares }) => shares > 0n) ? -amount : amount;
        const values = valuesOf(cash, given);
        expect(values.reduce((sum, value) => sum + value, 0n)).toBe(cash);
        for (const [at, { shares }] of given.entries())
          expect(shares < 0n ? (values[at] ?? 0n) >= 0n : (values[at] ?? 0n) <= 0n).toBe(true);
      }),
      { numRuns: runs(10_000), seed: 20_261_129 },
    );
  });

  const [first, second, other] = [0, 1, 2].map((n) => condition(2, 9, 2, n)) as [Hash, Hash, Hash];
  const transfer = (logIndex: number, from: Hex, to: Hex, id: string, operator = NEG_RISK) =>
    logOf(MANAGER, logIndex, 'TransferSingle', {
      ...{ operator, from, to, id: BigInt(id), value: 9n * M },
    });

  test('money that becomes Yes of all markets of an event', () => {
    const minted = [first, second, other].map((id, n) => transfer(n, ZERO, ALICE, yes(id)));
    const event = logOf(NEG_RISK, 3, 'HorizontalSplit', {
      ...{ initiator: ROUTER, eventId: bytes29(first), to: ALICE, amount: 9n * M },
    });
    expect(movementsOf(block(started(), [...minted, event]))).toEqual(
      [first, second, other].map((id) => ['convert', ALICE, id, 9n * M, 0n, -3n * M]),
    );
  });

  test('No that becomes Yes of the others, called through the router', () => {
    const logs = [
      transfer(0, ALICE, NEG_RISK, no(second), ROUTER),
      transfer(1, ZERO, ALICE, yes(first)),
      transfer(2, ZERO, ALICE, yes(other)),
      transfer(3, NEG_RISK, ZERO, no(second)),
      logOf(NEG_RISK, 4, 'PositionConverted', {
        ...{ initiator: ROUTER, eventId: bytes29(first), to: ALICE, conditionIndex: 1n },
        amount: 9n * M,
      }),
    ];
    expect(movementsOf(block(started(), logs))).toEqual([
      ['convert', ALICE, second, 0n, -9n * M, 4_500_000n],
      ['convert', ALICE, first, 9n * M, 0n, -2_250_000n],
      ['convert', ALICE, other, 9n * M, 0n, -2_250_000n],
    ]);
  });

  test('redemptions of both outcomes, whose shares are taken first, are paid what each says', () => {
    const redeemed = (logIndex: number, positionId: string, payout: bigint) =>
      logOf(BINARY, logIndex, 'PositionRedeemed', {
        ...{ initiator: ROUTER, positionId: BigInt(positionId), to: ALICE, amount: 9n * M, payout },
      });
    const market = condition(1, 9);
    const logs = [
      transfer(0, ALICE, BINARY, yes(market), ROUTER),
      transfer(1, ALICE, BINARY, no(market), ROUTER),
      redeemed(2, no(market), 2n * M),
      redeemed(3, yes(market), 7n * M),
    ];
    expect(movementsOf(block(started(), logs))).toEqual([
      ['redeem', ALICE, market, -9n * M, 0n, 7n * M],
      ['redeem', ALICE, market, 0n, -9n * M, 2n * M],
    ]);
  });

  test('a redemption beside a combo that is taken apart is paid by its own event', () => {
    const [before, after, other] = [condition(3, 1, 0), condition(3, 2, 0), condition(3, 3, 0)];
    const logs = [
      transfer(0, ALICE, COMBINATORIAL, yes(other), ROUTER),
      transfer(1, ALICE, COMBINATORIAL, no(before), ROUTER),
      transfer(2, ZERO, ALICE, no(after), COMBINATORIAL),
      logOf(COMBINATORIAL, 3, 'Compressed', {
        ...{ initiator: ROUTER, oldId: BigInt(no(before)), newId: BigInt(no(after)), to: ALICE },
        ...{ amount: 9n * M, newAmount: 9n * M, collateral: 2n * M },
      }),
      logOf(COMBINATORIAL, 4, 'PositionRedeemed', {
        ...{ initiator: ROUTER, positionId: BigInt(yes(other)), to: ALICE },
        ...{ amount: 9n * M, payout: 5n * M },
      }),
    ];
    expect(movementsOf(block(started(), logs))).toContainEqual([
      ...['redeem', ALICE, other, -9n * M, 0n, 5n * M],
    ]);
  });

  test('an event that cannot be read leaves the transfers beside it', () => {
    const logs = [
      transfer(0, ALICE, NEG_RISK, no(first), ROUTER),
      logOf(NEG_RISK, 1, 'PositionRedeemed', {
        ...{ initiator: ROUTER, positionId: BigInt(no(first)), to: ALICE },
        ...{ amount: 9n * M, payout: 2n ** 60n },
      }),
    ];
    const refused: number[] = [];
    const read = readShareLogs(logs, CONTRACTS, ({ logIndex }) => refused.push(logIndex));
    expect(refused).toEqual([1]);
    expect(read).toMatchObject({ moves: [{ logIndex: 0 }], named: [] });
  });

  test('a combo that loses its resolved legs', () => {
    const [before, after] = [condition(3, 1, 0), condition(3, 2, 0)];
    const logs = [
      transfer(0, ALICE, COMBINATORIAL, no(before), ALICE),
      transfer(1, ZERO, ALICE, no(after), COMBINATORIAL),
      transfer(2, COMBINATORIAL, ZERO, no(before), COMBINATORIAL),
      logOf(COMBINATORIAL, 3, 'Compressed', {
        ...{ initiator: ALICE, oldId: BigInt(no(before)), newId: BigInt(no(after)), to: ALICE },
        ...{ amount: 9n * M, newAmount: 9n * M, collateral: 2n * M },
      }),
    ];
    expect(movementsOf(block(started(), logs))).toEqual([
      ['convert', ALICE, before, 0n, -9n * M, 4_500_000n],
      ['convert', ALICE, after, 0n, 9n * M, -2_500_000n],
    ]);
  });

  test('what no event names is unexplained', () => {
    expect(movementsOf(block(started(), [transfer(0, ALICE, NEG_RISK, no(first), ALICE)]))).toEqual(
      [['unexplained', ALICE, first, 0n, -9n * M, 0n]],
    );
  });

  test('shares that the bridge mints or burns, of which nothing is known, are unexplained', () => {
    const logs = [
      transfer(0, ZERO, ALICE, yes(first)),
      transfer(1, BOB, NEG_RISK, no(second), ROUTER),
      transfer(2, NEG_RISK, ZERO, no(second)),
    ];
    expect(movementsOf(block(started(), logs))).toEqual([
      ['unexplained', ALICE, first, 9n * M, 0n, 0n],
      ['unexplained', BOB, second, 0n, -9n * M, 0n],
    ]);
  });

  test('an exchange that is not known moves shares like an operator', () => {
    const other = address(999);
    const logs = [transfer(0, ALICE, BOB, yes(first), other)];
    expect(movementsOf(block(started(), logs))).toEqual([
      ['transfer', ALICE, first, -9n * M, 0n, 0n],
    ]);
    const found = shareLogsOf(
      Array.from({ length: 21 }, (_, n) => transfer(n, address(1_000 + n), BOB, yes(first), other)),
      CONTRACTS,
    );
    const at = { blockNumber: 1, blockTime: 1, events: [], shares: new Map([[hash(1), found]]) };
    expect(
      started()
        .alarms(at)
        .map(({ error }) => error.message),
    ).toEqual([`unknown_operator: ${other} moved shares of 21 owners`]);
  });

  test('a redemption of an unknown module leaves those beside it as they are', () => {
    const unknown = `${4n << 248n}`;
    const redeemed = (logIndex: number, positionId: bigint) =>
      logOf(NEG_RISK, logIndex, 'PositionRedeemed', {
        ...{ initiator: ROUTER, positionId, to: ALICE, amount: 9n * M, payout: 9n * M },
      });
    const logs = [
      transfer(0, BOB, NEG_RISK, unknown, ROUTER),
      redeemed(1, BigInt(unknown)),
      transfer(2, ALICE, NEG_RISK, yes(first), ROUTER),
      redeemed(3, BigInt(yes(first))),
    ];
    expect(movementsOf(block(started(), logs))).toEqual([
      ['redeem', ALICE, first, -9n * M, 0n, 9n * M],
    ]);
  });

  test('a token of no module is kept for an alarm', () => {
    const state = started();
    const logs = shareLogsOf([transfer(0, ALICE, BOB, `${4n << 248n}`, ALICE)], CONTRACTS);
    const found = { blockNumber: 1, blockTime: 1, events: [], shares: new Map([[hash(1), logs]]) };
    expect(state.complete(found)).toEqual([]);
    expect(state.alarms(found).map(({ error }) => error.reason)).toEqual(['foreign_token']);
  });
});

describe('a market that a condition of protocol version 2 continues', () => {
  const [old, next] = [hash(77), condition(1, 7)];
  const registered = logOf(BINARY, 0, 'MigrationConditionRegistered', {
    ...{ conditionId: bytes31(next), legacyConditionId: old },
  });
  const known = () => {
    const state = started();
    state.learn({
      ...{ kind: 'market', blockNumber: 0, blockTime: 0, txHash: hash(1), logIndex: 0 },
      ...{ conditionId: old, collateral: USDC },
    });
    block(state, [registered]);
    return state;
  };
  const [zero] = positionIds(USDC, old);

  test('keeps its id in matches', () => {
    const fill = (trader: Hex, isTaker: boolean) => ({
      ...{ logIndex: 0, orderHash: hash(2), trader, isTaker, outcomeIndex: 0 as const },
      ...{ side: isTaker ? ('BUY' as const) : ('SELL' as const), tokenId: yes(next) },
      ...{ shares: M, usdc: 1n, fee: 0n },
    });
    const match: Match = {
      ...{ kind: 'match', blockNumber: 1, blockTime: 1, txHash: hash(1), logIndex: 5 },
      ...{ exchange: EXCHANGE, conditionId: next, fills: [fill(BOB, false), fill(ALICE, true)] },
    };
    const moved = logOf(MANAGER, 1, 'TransferSingle', {
      ...{ operator: EXCHANGE, from: BOB, to: ALICE, id: BigInt(yes(next)), value: M },
    });
    expect(block(known(), [moved], [match])).toMatchObject([{ kind: 'match', conditionId: old }]);
  });

  const migrated = (id: bigint) => [
    logOf(CTF, 0, 'TransferBatch', {
      ...{ operator: BINARY, from: ALICE, to: BINARY, ids: [id], values: [M] },
    }),
    logOf(MANAGER, 1, 'TransferSingle', {
      ...{ operator: BINARY, from: ZERO, to: ALICE, id: BigInt(yes(next)), value: M },
    }),
    logOf(BINARY, 2, 'PositionMigrated', {
      ...{ from: ALICE, conditionId: bytes31(next), positionId: BigInt(yes(next)) },
      ...{ outcomeIndex: 0n, amount: M },
    }),
  ];

  test('keeps its holders when they exchange their shares', () => {
    expect(block(known(), migrated(zero))).toEqual([]);
  });

  test('of which nobody has said so, leaves both sides unexplained', () => {
    const state = started();
    state.learn({
      ...{ kind: 'market', blockNumber: 0, blockTime: 0, txHash: hash(1), logIndex: 0 },
      ...{ conditionId: old, collateral: USDC },
    });
    expect(movementsOf(block(state, migrated(zero)))).toEqual([
      ['unexplained', ALICE, old, -M, 0n, 0n],
      ['unexplained', ALICE, next, M, 0n, 0n],
    ]);
  });

  test('has one result, and never a derived one', () => {
    const state = known();
    const result = logOf(BINARY, 1, 'MigrationResolved', {
      ...{ conditionId: bytes31(next), legacyConditionId: old, legacyPayout0: 1n },
      ...{ legacyPayout1: 0n, result0: M, result1: 0n },
    });
    expect(resultsOf(block(state, [resolved(next, [M, 0n]), result]))).toEqual([[old, M, 0n]]);
    expect(resultsOf(block(state, [resolved(next, [M, 0n])]))).toEqual([]);
  });

  test('decides the combos that it is a leg of, if it has a result already', () => {
    const state = started();
    const combo = condition(3, 51, 0);
    const legs = [BigInt(yes(next))];
    block(state, [
      logOf(COMBINATORIAL, 0, 'CombinatorialConditionPrepared', {
        ...{ conditionId: bytes31(combo), legs },
      }),
    ]);
    state.learn({
      ...{ kind: 'resolution', blockNumber: 1, blockTime: 1, txHash: hash(1), logIndex: 1 },
      ...{ conditionId: old, payouts: [0n, 1n] },
    });
    expect(resultsOf(block(state, [registered]))).toEqual([[combo, 0n, 1n]]);
  });

  test('is the one of its first registration, also after a restart', () => {
    const state = known();
    const later = (conditionId: Hash, legacyConditionId: Hash) =>
      logOf(BINARY, 0, 'MigrationConditionRegistered', {
        ...{ conditionId: bytes31(conditionId), legacyConditionId },
      });
    const [other, second] = [hash(78), condition(1, 8)];
    block(state, [later(second, old)]);
    block(state, [later(next, other)]);
    for (const markets of [state.known, new KnownMarkets(state.known.all())]) {
      expect([markets.marketOf(next), markets.marketOf(second)]).toEqual([old, second]);
      expect(markets.tokensOf(old).positionManager).toEqual(structuredTokens(next));
    }
  });

  test('has tokens in both contracts', () => {
    expect(known().known.tokensOf(old)).toEqual({
      conditionalTokens: positionIds(USDC, old).map(String),
      positionManager: structuredTokens(next),
    });
  });
});
