/** Real logs of Polygon that move shares or name why, and encoded ones of events of which no public log is known. */
import {
  encodeAbiParameters,
  encodeEventTopics,
  encodePacked,
  type Hex,
  keccak256,
  parseAbi,
  parseAbiParameters,
} from 'viem';
import { describe, expect, test } from 'vitest';
import { MATCH } from '../../ingest/events/match.ts';
import { movementsOf, type TokenPlace } from '../../ingest/events/shares/movements.ts';
import type { ShareContracts } from '../../ingest/events/shares/share-logs.ts';
import { structuredId } from '../../ingest/events/structured-ids.ts';
import ctf from '../fixtures/ctf-and-negrisk-logs.json' with { type: 'json' };
import encoded from '../fixtures/shares-encoded.json' with { type: 'json' };
import real from '../fixtures/shares-real-logs.json' with { type: 'json' };
import { atlas, CONDITIONAL_TOKENS, chainLog, EXCHANGE, shareLogsOf, WATCHED } from './fixtures.ts';

const MODULE = '0x1000008dd9001b968442c1000017eae6e0da00ba';
const SILENT_ADAPTER = '0xada100874d00e3331d00f2007a9c336a65009718';
const CONTRACTS: ShareContracts = {
  conditionalTokens: CONDITIONAL_TOKENS,
  collateral: '0x2791bca1f2de4661ed88a30c99a7a9449aa84174',
  negRiskCollateral: '0x3a3bd7bb9528e159577f7c2e685cc81a765002e2',
  negRiskAdapter: '0xd91e80cf2e7be2e162c6513ced06f1dd0da35296',
  exchanges: WATCHED.exchanges,
  silentAdapters: new Set([SILENT_ADAPTER, '0xada200001000ef00d07553cee7006808f895c6f1']),
  adapters: new Set([
    '0xada100db00ca00073811820692005400218fce1f',
    '0xada2005600dec949baf300f4c6120000bdb6eaab',
  ]),
  redeemers: new Set(['0xa1200000d0002264c9a1698e001292d00e1b00af']),
  burn: '0xa5ef39c3d3e10d0b270233af41cac69796b12966',
  others: new Set(),
  v2: {
    positionManager: '0x006f54f7f9a22e0000cc2ab60031000000ae9fef',
    modules: new Set([MODULE, '0x200000900045e3b6259600682756002200028933']),
  },
};

type Decoded = Readonly<Record<string, string | readonly string[]>>;
type Log = Parameters<typeof chainLog>[0];

const KINDS: Readonly<Record<string, string>> = {
  PositionSplit: 'split',
  PositionsMerge: 'merge',
  PositionsMerged: 'merge',
  PayoutRedemption: 'redeem',
  PositionsRedeemed: 'redeem',
  BinaryRedemption: 'redeem',
  NegRiskRedemption: 'redeem',
  PositionsConverted: 'convert',
  PositionsSplit: 'split',
  PositionRedeemed: 'redeem',
  Redemption: 'redeem',
  PositionMigrated: 'migrate',
};

const known: (readonly [string, Log, Decoded])[] = [
  ...real.logs.map(({ id, log, decoded }) => [id, log, decoded as Decoded] as const),
  ...Object.entries(real['decodings_of_ctf-and-negrisk-logs.json']).flatMap(([name, one]) =>
    typeof one === 'string'
      ? []
      : [[name, ctf.logs[name as keyof typeof ctf.logs], one.decoded as Decoded] as const],
  ),
  ...encoded.logs.map((log) => {
    const decoded = { ...log.decoded, event: log.event } as unknown as Decoded;
    return [`encoded ${log.event}`, { ...log, address: log.emitter }, decoded] as const;
  }),
];
const named = known.filter(([, , { event }]) => KINDS[String(event)] !== undefined);
const moving = known.filter(([, , { event }]) => String(event).startsWith('Transfer'));
/** Of Protocol V2 and of the first exchange, or of no use here. */
const foreign = known.filter((one) => !named.includes(one) && !moving.includes(one));

const structured = ({ positionId }: Decoded) => structuredId(String(positionId))?.conditionId;

describe('an event that names movements', () => {
  test.each(named)('%s', (_, log, decoded) => {
    const [event, ...more] = shareLogsOf([chainLog(log)], CONTRACTS).named;
    expect(more).toEqual([]);
    const by = decoded.stakeholder ?? decoded.redeemer ?? decoded.initiator ?? decoded.from;
    expect(event).toMatchObject({ kind: KINDS[String(decoded.event)], by });
    expect(event?.payout?.toString()).toBe(decoded.payout);
    const condition = decoded.positionId ? structured(decoded) : decoded.conditionId;
    const { marketId, indexSet, amount } = event?.conversion ?? {};
    if (decoded.marketId === undefined) {
      const id = String(decoded.positionId);
      expect(event?.isAbout(String(condition).padEnd(66, '0'), id)).toBe(true);
      expect(event?.isAbout(`0x${'0'.repeat(64)}`, id)).toBe(false);
    } else
      expect([marketId, `${indexSet}`, `${amount}`]).toEqual([
        ...[decoded.marketId, decoded.indexSet, decoded.amount],
      ]);
  });
});

test('a conversion names the markets whose shares are given up, from the questions of its event', () => {
  const [, log] =
    named.find(
      ([, one, { event }]) =>
        event === 'PositionsConverted' && one.address === CONTRACTS.negRiskAdapter,
    ) ?? [];
  const {
    named: [event],
    conditions,
  } = shareLogsOf([chainLog(log as Log)], CONTRACTS);
  const { indexSet = 0n, questionOf } = event?.conversion ?? {};
  expect(indexSet).toBeGreaterThan(0n);
  const set = conditions.reduce(
    (bits, { conditionId }) => bits | (1n << BigInt(questionOf?.(conditionId) ?? 0)),
    0n,
  );
  expect(set).toBe(indexSet);
  for (const one of conditions)
    expect(one).toMatchObject({ collateral: CONTRACTS.negRiskCollateral, isPrepared: false });
});

describe('a transfer', () => {
  test.each(moving.filter(([, , { event }]) => event !== 'Transfer'))('%s', (_, log, decoded) => {
    const { operator, from, to } = decoded;
    const ids = [decoded.id ?? decoded.ids].flat();
    const values = [decoded.value ?? decoded.values].flat();
    const expected = ids.flatMap((tokenId, at) =>
      values[at] === '0' ? [] : [{ operator, from, to, tokenId, shares: BigInt(values[at] ?? 0) }],
    );
    const { moves } = shareLogsOf([chainLog(log)], CONTRACTS);
    expect(moves.map(({ logIndex, ...move }) => move)).toEqual(expected);
  });
});

test('logs of other contracts and events are ignored', () => {
  const isV2 = ([, , { event }]: (typeof known)[number]) =>
    event === 'RemainingConditionsDerivableAsNo';
  const logs = foreign.filter((one) => !isV2(one)).map(([, log]) => log);
  expect(logs.length).toBeGreaterThan(2);
  expect(shareLogsOf(logs.map(chainLog), CONTRACTS)).toEqual({
    moves: [],
    named: [],
    conditions: [],
  });
  const [, log] = named[0] ?? [];
  const elsewhere = { ...(log as Log), address: EXCHANGE };
  expect(shareLogsOf([chainLog(elsewhere)], CONTRACTS).named).toEqual([]);
});

test('a market of the neg-risk adapter is known with its fee, if it has one', () => {
  const prepared = (feeBips: bigint) => {
    const abi = parseAbi([
      'event MarketPrepared(bytes32 indexed, address indexed, uint256, bytes)',
    ]);
    const marketId = `0x${'ab'.repeat(31)}00` as const;
    const log = {
      ...{ address: CONTRACTS.negRiskAdapter, logIndex: 3, data: '0x' as Hex, topics: [] as Hex[] },
    };
    const [topic] = encodeEventTopics({ abi });
    const data = encodeAbiParameters(parseAbiParameters('uint256, bytes'), [feeBips, '0x1234']);
    const topics = [topic as Hex, marketId, `0x${'0'.repeat(64)}` as const];
    return shareLogsOf(
      [{ ...chainLog(real.logs[0]?.log as Log), ...log, topics, data }],
      CONTRACTS,
    );
  };
  const packed = encodePacked(
    ['address', 'bytes32', 'uint256'],
    [CONTRACTS.negRiskAdapter, `0x${'ab'.repeat(31)}00`, 2n],
  );
  expect(prepared(150n).conditions).toEqual([
    {
      ...{ logIndex: 3, conditionId: keccak256(packed), collateral: CONTRACTS.negRiskCollateral },
      ...{ isPrepared: true, feeBips: 150 },
    },
  ]);
  expect(prepared(0n).conditions).toEqual([]);
});

describe('a real mint match', () => {
  const exchangeLogs = atlas.logs.filter(({ address }) => address === EXCHANGE);
  const reader = MATCH.reader();
  const fills = exchangeLogs.flatMap((log) =>
    MATCH.topics.includes(log.topics[0] as Hex) ? (reader.read(log)?.fills ?? []) : [],
  );
  const shares = shareLogsOf(atlas.logs, CONTRACTS);
  const conditionId = `0x${'c'.repeat(64)}` as const;
  const tokens = [...new Set(fills.map(({ tokenId }) => tokenId))];
  const placeOf = (tokenId: string): TokenPlace => ({
    conditionId,
    outcomeIndex: tokens.indexOf(tokenId) === 0 ? 0 : 1,
  });

  test('has no movement', () => {
    expect(fills).toHaveLength(2);
    expect(shares.moves.length).toBeGreaterThan(2);
    expect(movementsOf(shares, fills, CONTRACTS, placeOf)).toEqual([]);
  });

  test('shows what a fill and the transfers do not have in common', () => {
    const [maker, taker] = fills;
    const unfilled = movementsOf(shares, maker ? [maker] : [], CONTRACTS, placeOf);
    expect(unfilled).toMatchObject([
      { kind: 'unexplained', trader: taker?.trader, counterparty: EXCHANGE },
    ]);
    const unmoved = movementsOf(
      { moves: [], named: [], conditions: [] },
      fills,
      CONTRACTS,
      placeOf,
    );
    expect(unmoved.map(({ kind, counterparty }) => [kind, counterparty])).toEqual([
      ['unexplained', ''],
      ['unexplained', ''],
    ]);
  });
});
