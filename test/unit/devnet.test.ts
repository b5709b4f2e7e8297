/**
 * The pure parts of the devnet: the calendar, prices and wallets that a seed generates. That the same seed generates the
 * same chain: process/devnet.test.ts. That the contracts are those of Polymarket V2: process/devnet-exchange.test.ts.
 */
import fc from 'fast-check';
import { toEventSelector } from 'viem';
import { describe, expect, test } from 'vitest';
import { IngestConfig, readConfig } from '../../infra/config.ts';
import { chainOf } from '../../ingest/events/chains.ts';
import { finalLogFilter } from '../../ingest/events/decode.ts';
import { MODULE_NAMING } from '../../ingest/events/shares/v2-logs.ts';
import artifacts from '../../local/devnet/artifacts.json' with { type: 'json' };
import {
  BINARY_MODULE,
  CHAIN_ID,
  COMBINATORIAL_MODULE,
  CONDITIONAL_TOKENS,
  DEPLOYER,
  EXCHANGE,
  EXCHANGE_V3,
  LOGGING_ADAPTER,
  NEG_RISK_ADAPTER,
  NEG_RISK_EXCHANGE,
  NEG_RISK_MODULE,
  POSITION_MANAGER,
  POSITION_REDEEMER,
  PUSD,
  REDEEMER,
  ROUTER,
  SILENT_ADAPTER,
  VAULT,
  WRAPPED_COLLATERAL,
  WRAPPED_EXCHANGE,
} from '../../local/devnet/contracts.ts';
import { blocksMax, planHistory } from '../../local/devnet/history.ts';
import { Calendar, fairPrice } from '../../local/devnet/markets.ts';
import { BUY, type Match, settle } from '../../local/devnet/orders.ts';
import { TOPICS } from '../../local/devnet/topics.ts';
import { makeTraders } from '../../local/devnet/traders.ts';
import { takerFee } from '../../local/devnet/trading.ts';
import { World } from '../../local/devnet/world.ts';
import { runs } from './fixtures.ts';

/** The leaderboard's `tag` values, without `all`. */
const LEADERBOARD_TAGS = [
  ...['sports', 'crypto', 'geopolitics', 'politics', 'finance', 'esports', 'pop-culture', 'tech'],
  ...['economy', 'weather', 'elections', 'tweets-markets', 'basketball', 'hockey', 'soccer'],
  ...['tennis', 'counter-strike-2', 'dota-2', 'league-of-legends', '5M', '15M'],
];

const NOW = 1_790_000_000;

describe('the contracts', () => {
  test('are where ingest expects them on the devnet', () => {
    const chain = chainOf(readConfig(IngestConfig, { CHAIN: 'devnet' }));
    expect(chain.id).toBe(CHAIN_ID);
    const [collateral, wrapped] = [PUSD.toLowerCase(), WRAPPED_COLLATERAL.toLowerCase()];
    expect([...chain.exchanges]).toEqual([
      [EXCHANGE.toLowerCase(), collateral],
      [NEG_RISK_EXCHANGE.toLowerCase(), collateral],
      [WRAPPED_EXCHANGE.toLowerCase(), wrapped],
      [EXCHANGE_V3.toLowerCase(), 'v3'],
    ]);
    expect(chain.conditionalTokens).toBe(CONDITIONAL_TOKENS.toLowerCase());
    expect(chain.collateral).toBe(collateral);
    expect(chain.shares).toMatchObject({
      collateral,
      negRiskCollateral: wrapped,
      negRiskAdapter: NEG_RISK_ADAPTER.toLowerCase(),
      silentAdapters: new Set([SILENT_ADAPTER.toLowerCase(), ROUTER.toLowerCase()]),
      adapters: new Set([LOGGING_ADAPTER.toLowerCase()]),
      redeemers: new Set([REDEEMER.toLowerCase(), POSITION_REDEEMER.toLowerCase()]),
      others: new Set([wrapped, VAULT.toLowerCase(), DEPLOYER.toLowerCase()]),
      v2: {
        positionManager: POSITION_MANAGER.toLowerCase(),
        modules: new Set(
          [BINARY_MODULE, NEG_RISK_MODULE, COMBINATORIAL_MODULE].map((one) => one.toLowerCase()),
        ),
      },
    });
  });
});

/** Of combos: events before an upgrade, and those of operations that the devnet does not have. */
const NOT_HERE = Object.keys(MODULE_NAMING).filter((event) =>
  /^(Compressed|Wrapped|Unwrapped|Extracted|Injected|ConvertedTo|MergedFrom|SplitOn|MergedOn|ConvertedOn)/.test(
    event,
  ),
);

test('the compiled contracts have the event topics that ingest reads', () => {
  const compiled = Object.values(artifacts)
    .flatMap(({ abi }) => abi as { type: string; name?: string }[])
    .filter((item) => item.type === 'event')
    .map((item) => toEventSelector(item as never));
  const { topics } = finalLogFilter(chainOf(readConfig(IngestConfig, { CHAIN: 'devnet' })));
  const others = new Set(
    ['Upgraded(address)', 'ModuleRemoved(uint256,address)', ...NOT_HERE].map((one) =>
      toEventSelector(one),
    ),
  );
  expect(compiled).toEqual(expect.arrayContaining(topics.filter((one) => !others.has(one))));
});

describe('Calendar', () => {
  const calendar = new Calendar(7, NOW - 30 * 86_400);

  test('has an open market for every leaderboard tag at any time', () => {
    fc.assert(
      fc.property(fc.integer({ min: NOW - 30 * 86_400, max: NOW + 30 * 86_400 }), (time) => {
        const open = TOPICS.filter((topic) => calendar.open(topic, time).length > 0);
        const tags = new Set(open.flatMap((topic) => topic.tags));
        expect(LEADERBOARD_TAGS.filter((tag) => !tags.has(tag))).toEqual([]);
      }),
      { numRuns: 20 },
    );
  });

  test('gives every market and every event an id and a slug of its own', () => {
    const markets = calendar.between(NOW - runs(5) * 86_400, NOW);
    for (const name of ['id', 'conditionId', 'slug'] as const) {
      expect(new Set(markets.map((market) => market[name])).size).toBe(markets.length);
    }
    const events = new Map(markets.map(({ event }) => [event.id, event.slug]));
    expect(new Set(events.values()).size).toBe(events.size);
  });

  test('lets exactly one market of an exclusive event win', () => {
    const events = Map.groupBy(calendar.between(NOW - 86_400, NOW), (market) => market.event.id);
    for (const markets of events.values()) {
      if (!markets[0]?.event.negRisk) continue;
      expect(markets.filter((market) => market.payouts[0] === 1)).toHaveLength(1);
    }
  });

  test('has combos of two and three games, which pay the product of what their legs pay', () => {
    const combos = calendar
      .between(NOW - 30 * 86_400, NOW)
      .filter((market) => market.legs !== undefined);
    expect(new Set(combos.map(({ legs }) => legs?.length))).toEqual(new Set([2, 3]));
    for (const { legs = [], payouts, startTime, endTime, resolveTime } of combos) {
      const paid = legs.map(({ market, outcome }) => market.payouts[outcome] / sum(market.payouts));
      expect(payouts[0] / sum(payouts)).toBe(paid.reduce((product, one) => product * one, 1));
      expect(new Set(legs.map(({ market }) => market.event.id)).size).toBe(legs.length);
      expect(startTime).toBeLessThan(endTime);
      for (const { market } of legs) {
        expect(market.startTime).toBeLessThanOrEqual(startTime);
        expect(market.endTime).toBeGreaterThanOrEqual(endTime);
        expect(market.resolveTime).toBeLessThanOrEqual(resolveTime);
      }
    }
  });

  test('aligns five-minute windows to the clock', () => {
    const topic = TOPICS.find((one) => one.key === 'btc-5m');
    const [market] = topic === undefined ? [] : calendar.open(topic, NOW);
    expect(market?.endTime).toBe(Math.ceil((NOW + 1) / 300) * 300);
    expect(market?.event.topic.series).toBe('btc-up-or-down-5m');
  });
});

const sum = ([a, b]: readonly [number, number]) => a + b;

describe('fairPrice', () => {
  test('stays inside the exchange’s range and on the tick', () => {
    const markets = new Calendar(3, NOW).between(NOW - 3_600, NOW);
    for (const market of markets) {
      for (const part of [0, 0.2, 0.5, 0.9, 1]) {
        const time = market.startTime + part * (market.endTime - market.startTime);
        const price = fairPrice(market, Math.floor(time));
        expect(price).toBeGreaterThanOrEqual(8);
        expect(price).toBeLessThanOrEqual(992);
        expect(price % market.tick).toBe(0);
      }
    }
  });
});

describe('prices', () => {
  const ended = new Calendar(11, NOW).between(NOW - 14 * 86_400, NOW - 11 * 86_400);
  const won = ended.filter((market) => market.payouts[0] !== market.payouts[1]);
  /** Prices of outcome 0 at these parts of a market's life. */
  const pricesAt = (parts: readonly number[]) =>
    won.map((market) =>
      parts.map((part) => {
        const time = market.startTime + part * (market.endTime - market.startTime);
        return fairPrice(market, Math.floor(time)) / 1_000;
      }),
    );

  test.each([0.25, 0.5, 0.9])(
    "equal the probability of the outcome, at %d of the market's life",
    (part) => {
      const prices = pricesAt([part]).map(([price = 0], i) => ({
        price,
        wins: won[i]?.payouts[0],
      }));
      for (let low = 0; low < 1; low += 0.2) {
        const some = prices.filter(({ price }) => price >= low && price < low + 0.2);
        expect(some.length).toBeGreaterThan(40);
        const expected = mean(some.map(({ price }) => price));
        const error = Math.sqrt((expected * (1 - expected)) / some.length);
        const wins = mean(some.map((one) => one.wins ?? 0));
        expect(Math.abs(wins - expected), `${low}: ${wins}, not ${expected}`).toBeLessThan(
          4 * error + 0.01,
        );
      }
    },
  );

  test('have no trend at any level', () => {
    const moves = pricesAt([0.3, 0.6]).map(([from = 0, to = 0]) => ({ from, move: to - from }));
    for (let low = 0; low < 1; low += 0.25) {
      const some = moves.filter(({ from }) => from >= low && from < low + 0.25);
      const average = mean(some.map(({ move }) => move));
      const deviation = Math.sqrt(mean(some.map(({ move }) => (move - average) ** 2)));
      expect(Math.abs(average)).toBeLessThan((4 * deviation) / Math.sqrt(some.length) + 0.005);
    }
  });
});

describe('the volume', () => {
  const RATE = 5;
  const genesisTime = NOW - 30 * 86_400;
  const world = new World({ seed: 1, genesisTime, traders: 150 }, 'history');
  const span = { startTime: genesisTime + 1, endTime: NOW, matches: 1_000 };

  test('rises to that of live trading by the end of the history, without larger matches', () => {
    const blocks = [...planHistory(world, { seed: 1, ...span, matchesPerSecond: RATE })];
    const rates = [5, 60, 600].map((seconds) => {
      const last = blocks.filter(({ time }) => time > NOW - seconds);
      return last.flatMap(({ matches }) => matches).length / seconds;
    });
    expect(rates).toEqual(rates.toSorted((a, b) => b - a));
    expect(rates[0]).toBeGreaterThan(RATE / 2);
    expect(rates[0]).toBeLessThan(RATE * 2);
    const largest = new Map(world.traders.map(({ address, habit }) => [address, habit.sizeMax]));
    // The makers of a purchase may be a few ticks above its price.
    const isLarge = (match: Match) =>
      takerUsdc(match) > 1.3 * (largest.get(match.takerOrder.maker) ?? 0);
    expect(blocks.flatMap(({ matches }) => matches).filter(isLarge)).toHaveLength(0);
    const live = Array.from({ length: 1_500 }, (_, i) => {
      const market = world.chooseMarket(world.chooseTopic(), NOW);
      return market && world.match(market, NOW * 1_000 + i)?.match;
    }).filter((match) => match !== undefined);
    expect(live.length).toBeGreaterThan(1_400);
    expect(live.filter(isLarge)).toHaveLength(0);
  });
});

describe('the history', () => {
  const genesisTime = NOW - 30 * 86_400;
  const world = new World({ seed: 7, genesisTime, traders: 150 }, 'history');
  const span = { startTime: genesisTime + 1, endTime: NOW, matches: 6_000, matchesPerSecond: 2 };
  const blocks = [...planHistory(world, { seed: 7, ...span })];

  test('has no more blocks than anvil keeps for it', () => {
    for (const matches of [1, 100, 1_000]) {
      const small = new World({ seed: 5, genesisTime, traders: 150 }, 'history');
      const count = [...planHistory(small, { seed: 5, ...span, matches })].length;
      // The contracts have a block of their own.
      expect(count + 1).toBeLessThanOrEqual(blocksMax(matches));
    }
  });

  test('has a daily rhythm', () => {
    const matchesBetween = (from: number, to: number) =>
      blocks.reduce((sum, { time, matches }) => {
        const hour = (time % 86_400) / 3_600;
        return sum + (time < NOW - 86_400 && hour >= from && hour < to ? matches.length : 0);
      }, 0);
    expect(matchesBetween(16, 22) / matchesBetween(4, 10)).toBeGreaterThan(2);
  });

  test('lets about a fifth of what was bought at 20 cents win', () => {
    const bought = blocks.flatMap(({ matches }) =>
      matches.flatMap((match) =>
        settle(match).flatMap(({ order, making, taking }) => {
          const price = Number(making) / Number(taking);
          if (order.side !== BUY || price < 0.15 || price > 0.25) return [];
          const { tokenIds, payouts } = match.market;
          return [{ price, wins: payouts[tokenIds.indexOf(order.tokenId)] ?? 0 }];
        }),
      ),
    );
    expect(bought.length).toBeGreaterThan(500);
    const wins = mean(bought.map((one) => one.wins));
    // The buyers know a little more than the price.
    expect(Math.abs(wins - mean(bought.map(({ price }) => price)))).toBeLessThan(0.05);
  });
});

describe('makeTraders', () => {
  test('returns distinct wallets of every type', () => {
    const traders = makeTraders(1, 150);
    expect(new Set(traders.map((one) => one.address)).size).toBe(150);
    expect(new Set(traders.map((one) => one.signatureType))).toEqual(new Set([0, 1, 2, 3]));
  });

  test('leaves no topic without takers and makers', () => {
    const traders = makeTraders(1, 40);
    for (const topic of TOPICS) {
      expect(traders.filter((one) => one.topics.has(topic)).length).toBeGreaterThan(1);
    }
  });
});

describe('takerFee', () => {
  test('is shares · rate · p(1−p), truncated to 5 decimals of a USDC', () => {
    // 100 shares at 0.40 and 7 %: 100 · 0.07 · 0.24 = 1.68.
    expect(takerFee(70_000n, 40_000_000n, 100_000_000n)).toBe(1_680_000n);
    // 1.23 shares at 0.3333… and 3 %: 0.0082 exactly is cut after the fifth decimal.
    expect(takerFee(30_000n, 410_001n, 1_230_000n) % 10n).toBe(0n);
    expect(takerFee(0n, 1n, 2n)).toBe(0n);
  });
});

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

function takerUsdc(match: Match): number {
  const taker = settle(match).at(-1);
  if (taker === undefined) throw new RangeError('a match has a taker');
  return Number(taker.order.side === BUY ? taker.making : taker.taking) / 1e6;
}
