import fc from 'fast-check';
import { type Hex, pad } from 'viem';
import { describe, expect, test } from 'vitest';
import { IngestConfig, readConfig } from '../../infra/config.ts';
import { AMOUNT_MAX } from '../../ingest/contract.ts';
import { chainOf } from '../../ingest/events/chains.ts';
import {
  canLog,
  decodeLogs,
  finalLogFilter,
  WATCHED_TOPICS,
  watchedContracts,
} from '../../ingest/events/decode.ts';
import { type ChainLog, DecodeError, type RefusalReason } from '../../ingest/events/log.ts';
import { decodeOrderFilled } from '../../ingest/events/match.ts';
import ctf from '../fixtures/ctf-and-negrisk-logs.json' with { type: 'json' };
import single from '../fixtures/single-orderfilled-logs.json' with { type: 'json' };
import { atlas, CONDITIONAL_TOKENS, chainLog, EXCHANGE, WATCHED } from './fixtures.ts';

const CHAIN = chainOf(readConfig(IngestConfig, { CHAIN: 'polygon', RPC_URL: 'http://node' }));
const atlasLogs = atlas.logs.filter((log) => log.address === EXCHANGE);
const [makerFilled, takerFilled, ordersMatched] = atlasLogs as [ChainLog, ChainLog, ChainLog];
const matchesOf = (logs: readonly ChainLog[]) =>
  decodeLogs(logs, WATCHED).events.filter((event) => event.kind === 'match');
const reasons = (logs: readonly ChainLog[]): RefusalReason[] =>
  decodeLogs(logs, WATCHED).refused.map(({ error }) => error.reason);

describe('the topics of the V2 events', () => {
  test('are those of the deployed contracts', () => {
    expect(WATCHED_TOPICS).toEqual([
      // OrderFilled, OrdersMatched, ConditionResolution, NewOperator, RemovedOperator, RolesUpdated, and of modules
      // ConditionResolved, MigrationResolved
      '0xd543adfd945773f1a62f74f0ee55a5e3b9b1a28262980ba90b1a89f2ea84d8ee',
      '0x174b3811690657c217184f89418266767c87e4805d09680c39fc9c031c0cab7c',
      '0xb44d84d3289691f71497564b85d4233648d9dbae8cbdbb4329f301c3a0185894',
      '0xf1e04d73c4304b5ff164f9d10c7473e2a1593b740674a6107975e2a7001c1e5c',
      '0xf7262ed0443cc211121ceb1a80d69004f319245615a7488f951f1437fd91642c',
      '0x715ad5ce61fc9595c7b415289d59cf203f23a94fa06f04af7e489a0a76e1fe26',
      '0xe560c1a2847d4cf2e66de11fe592605556989449f38cc3ab96e2e287daa68caa',
      '0xf87100968b0fe70751acf87590ffac515231c5b999cba36e6820c7d312dcc8af',
    ]);
  });

  test('an exchange may log FeeCharged, which adds nothing', () => {
    const topic = '0x55bb3cade9d43b798a4fe5ffdd05024b2d7870df53920673bfc7e68047cd0ab1';
    expect(reasons([{ ...makerFilled, topics: [topic] }])).toEqual([]);
  });
});

test('a module that is not known is refused, and one that is removed', () => {
  const manager = '0x006f54f7f9a22e0000cc2ab60031000000ae9fef';
  const [known, unknown] = ['0x1000008dd9001b968442c1000017eae6e0da00ba', `0x${'4'.repeat(40)}`];
  const added = '0xa7839c29a2c3fc5208115d9be22d20b2a981203a3428218dd76c76d690254499';
  const removed = '0x854cff40228579f66eb3dd26b84ef9d8bb9f43b2a6a03495f29fae9b2827d987';
  expect(finalLogFilter(CHAIN).topics).toEqual(expect.arrayContaining([added, removed]));
  const messages = (topic: Hex, module: string) =>
    decodeLogs(
      [{ ...makerFilled, address: manager, topics: [topic, pad('0x4'), pad(module as Hex)] }],
      watchedContracts(CHAIN),
    ).refused.map(({ error }) => error.message);
  expect(messages(added, known ?? '')).toEqual([]);
  expect(messages(added, unknown ?? '')).toEqual([`upgraded: ${manager}: module ${unknown}`]);
  expect(messages(removed, known ?? '')).toEqual([`upgraded: ${manager}: module ${known}`]);
});

test('an upgrade of a contract is refused, so that somebody looks at it', () => {
  const topic = '0xbc7cd75a20ee27fd9adebab32041f755214dbc6bffa90cc0225b39da2e5c2d3b';
  const upgraded = finalLogFilter(CHAIN).topics.filter((one) => one.startsWith(topic));
  expect(upgraded).toHaveLength(1);
  const adapter = '0xd91e80cf2e7be2e162c6513ced06f1dd0da35296';
  for (const address of [EXCHANGE, adapter] as const) {
    const { refused } = decodeLogs([{ ...makerFilled, address, topics: upgraded }], WATCHED);
    expect(refused.map(({ error }) => error.message)).toEqual([`upgraded: ${address}`]);
    expect(canLog(address, upgraded[0] ?? '0x', CHAIN)).toBe(false);
  }
});

describe('decodeOrderFilled', () => {
  test('reads any amount and token exactly, and rejects impossible amounts', () => {
    const word = (value: bigint) => value.toString(16).padStart(64, '0');
    const anyAmount = fc.oneof(
      fc.bigInt({ min: 0n, max: 2n ** 54n }),
      fc.nat(255).map((bits) => 2n ** BigInt(bits) - 1n),
    );
    fc.assert(
      fc.property(anyAmount, anyAmount, (amount, tokenId) => {
        const words = [0n, tokenId, amount, 1n, 0n, 0n, 0n].map(word).join('');
        const log: ChainLog = { ...makerFilled, data: `0x${words}` };
        if (amount > AMOUNT_MAX) expect(() => decodeOrderFilled(log)).toThrow(DecodeError);
        else
          expect(decodeOrderFilled(log)).toMatchObject({
            tokenId: `${tokenId}`,
            usdc: amount,
            shares: 1n,
          });
      }),
    );
  });

  test('decodes the real logs: owner, role, side, price terms and fee', () => {
    const fills = single.logs.map((log) => decodeOrderFilled(chainLog(log)));
    expect(
      fills.map(({ trader, isTaker, side, shares, usdc, fee }) => {
        return { trader, isTaker, side, shares, usdc, fee };
      }),
    ).toEqual([
      {
        trader: '0x2f633efb75256a2f2445110c8978684ab8936643',
        isTaker: true,
        side: 'BUY',
        shares: 261_000_000n,
        usdc: 234_660_000n,
        fee: 1_184_080n,
      },
      {
        trader: '0x2f633efb75256a2f2445110c8978684ab8936643',
        isTaker: true,
        side: 'SELL',
        shares: 260_430_000n,
        usdc: 247_483_630n,
        fee: 492_110n,
      },
      {
        trader: '0xa253d75c2dfb2c6650291d5e8d54076d2fb40181',
        isTaker: false,
        side: 'SELL',
        shares: 4_180_000n,
        usdc: 3_929_200n,
        fee: 0n,
      },
      {
        trader: '0xf418d3a1a941292f9c8707d62a14980c5beb95a3',
        isTaker: true,
        side: 'BUY',
        shares: 50_000_000n,
        usdc: 37_500_000n,
        fee: 656_250n,
      },
    ]);
  });
});

describe('decodeLogs', () => {
  test('finds one match in the real receipt and does not count OrdersMatched as a fill', () => {
    const matches = matchesOf(atlasLogs);
    expect(reasons(atlasLogs)).toEqual([]);
    expect(matches).toHaveLength(1);
    expect(matches[0]?.fills.map((fill) => fill.isTaker)).toEqual([false, true]);
    expect(matches[0]?.logIndex).toBe(ordersMatched.logIndex);
  });

  test('keeps two identical matches of one transaction', () => {
    const again = atlasLogs.map((log) => ({ ...log, logIndex: log.logIndex + 10 }));
    expect(matchesOf([...atlasLogs, ...again])).toHaveLength(2);
  });

  test('reads the real resolution of two outcomes, and ignores other events of that contract', () => {
    const { events, refused } = decodeLogs(
      Object.values(ctf.logs)
        .filter((log) => log.address === CONDITIONAL_TOKENS)
        .map(chainLog),
      WATCHED,
    );
    expect(refused).toEqual([]);
    const resolutions = events.filter((event) => event.kind === 'resolution');
    expect(resolutions.map(({ conditionId, payouts }) => ({ conditionId, payouts }))).toEqual([
      {
        conditionId: '0xda4bfca4a2f26cce689ac3e2b89cc60a17fb0b994ee79f61ec8beb65f6886236',
        payouts: [1n, 0n],
      },
    ]);
  });

  test('rejects V1 topics, other contracts, bad topics, bad data and orphans, each with its reason', () => {
    const v1 = `0xd0a08e8c${'0'.repeat(56)}` as const;
    const cut = takerFilled.data.slice(0, -2) as `0x${string}`;
    expect(reasons([{ ...takerFilled, topics: [v1] }])).toEqual(['unknown_topic']);
    expect(
      reasons([{ ...takerFilled, address: '0xc011a7e12a19f7b1f670d46f03b03f3342e82dfb' }]),
    ).toEqual(['not_watched']);
    expect(reasons([{ ...takerFilled, data: cut }])).toEqual(['bad_data']);
    expect(reasons([{ ...takerFilled, topics: takerFilled.topics.slice(0, 3) }])).toEqual([
      'bad_topics',
    ]);
    expect(reasons([takerFilled])).toEqual(['orphan_fill']);
    expect(reasons([makerFilled, ordersMatched])).toEqual(['taker_mismatch', 'orphan_fill']);
    expect(reasons([{ ...takerFilled, data: `0x${'f'.repeat(448)}` }])).toEqual(['bad_side']);
  });

  test('rejects an amount above 2^53 − 1 micro-units', () => {
    const words = takerFilled.data.slice(2).match(/.{64}/g) ?? [];
    words[2] = (2n ** 53n).toString(16).padStart(64, '0');
    expect(reasons([{ ...takerFilled, data: `0x${words.join('')}` }])).toEqual([
      'amount_too_large',
    ]);
  });

  test('survives any data and any topics', () => {
    const hex = (max: number) =>
      fc
        .uint8Array({ maxLength: max })
        .map((bytes) => `0x${Buffer.from(bytes).toString('hex')}` as const);
    const topics = fc.array(fc.oneof(fc.constantFrom(...WATCHED_TOPICS), hex(32)), {
      maxLength: 4,
    });
    fc.assert(
      fc.property(topics, hex(300), fc.boolean(), (given, data, isTokens) => {
        const address = isTokens ? CONDITIONAL_TOKENS : EXCHANGE;
        decodeLogs([{ ...takerFilled, address, topics: given, data }], WATCHED);
      }),
    );
  });
});
