/**
 * The service against an independent account of a chain whose wallets split, merge, send, redeem and trade, in both protocols.
 * Each figure that movements touch is compared to the micro-unit. MOVES sets the size.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { isStructured } from '../../ingest/events/structured-ids.ts';
import { chainFacts } from '../release/faults/chain-facts.ts';
import { sizes } from '../release/faults/run.ts';
import { type StillDevnet, startStillDevnet } from '../support/chain-harness.ts';
import { MovingWallets } from '../support/moving-wallets.ts';
import type { Chain } from '../support/recompute.ts';
import {
  accountDifferences,
  marketDifferences,
  pnlDifferences,
  positionDifferences,
  recomputed,
} from '../support/reconcile.ts';
import {
  balanceComparison,
  boardComparison,
  type Comparison,
  hourComparison,
  movementComparison,
  windowComparison,
} from '../support/reconcile-shares.ts';
import { SEED } from '../support/seed.ts';
import { gammaMarkets, settled, start, temporaryDirectory, until } from '../support/service.ts';
import { sendTraffic, type TrafficMarket } from '../support/share-traffic.ts';
import { type Parts, startParts } from '../support/stack.ts';
import { V2Wallets } from '../support/v2-wallets.ts';

const { moves: MOVES } = sizes({ moves: [300, 8_000] });
const MARKETS = 10;
/** How often wallets that use all contracts see markets resolved, whatever the size. */
const RESOLUTIONS = 12;

describe('the service against an independent account of shares that move', () => {
  const directory = temporaryDirectory();
  let devnet: StillDevnet;
  let parts: Parts;
  const processes: ReturnType<typeof start>[] = [];
  let service: Parts & { post<T>(path: string, body: object): Promise<T> };
  let chain: Chain;
  let figures = 0;

  const expectNone = async (comparison: Promise<Comparison>) => {
    const { figures: compared, differences } = await comparison;
    figures += compared;
    expect(differences.slice(0, 8)).toEqual([]);
    expect(compared).toBeGreaterThan(0);
  };

  beforeAll(async () => {
    console.info(`TEST_SEED=${SEED}`);
    devnet = await startStillDevnet(`${directory.path}/devnet`, 300);
    parts = await startParts(`${directory.path}/parts`, []);
    const env = { ...devnet.env, ...parts.env, LOG_LEVEL: 'warn' };
    processes.push(start('ingest/main.ts', [], env), start('projector/main.ts', [], env));
    const wallets = await MovingWallets.open(devnet, SEED);
    const next = await V2Wallets.open(devnet, SEED);
    for (let n = 0; n < MOVES / 2; n++) {
      await wallets.ways[n % wallets.ways.length]?.();
      await next.ways[n % next.ways.length]?.();
      if (n % 7 < 4) await devnet.mine(1);
      if (n % Math.ceil(MOVES / 2 / RESOLUTIONS) !== 0) continue;
      await wallets.resolveSome();
      await next.resolveSome();
    }
    await devnet.mine(1);
    await sendTraffic(devnet, { seed: SEED, moves: MOVES, markets: await marketsOf(devnet) });
    const tokens = wallets.questions.flatMap(({ conditionId: condition, tokenIds }) =>
      ([0, 1] as const).map((outcome) => [`${tokenIds[outcome]}`, { condition, outcome }] as const),
    );
    const all = new Map([...tokens, ...next.tokens()]);
    const aliases = new Map(next.continued());
    ({ chain } = await recomputed(devnet.url, devnet.env.GAMMA_URL, all, aliases));
    await settled(parts, await devnet.number('finalized'));
    // Blocks that are mined quickly have times ahead of the clock.
    const last = Math.max(...chain.bookings.map(({ time }) => time));
    await until(async () => Date.now() / 1_000 > last + 1 || undefined);
    const api = start('api/main.ts', [], env);
    processes.push(api);
    const { port } = await api.event('listening');
    const url = `http://127.0.0.1:${port}`;
    const headers = { 'X-Service-Key': parts.key, 'content-type': 'application/json' };
    const ask = async <T>(path: string, init: RequestInit): Promise<T> => {
      const response = await fetch(url + path, { ...init, headers });
      if (response.status !== 200) throw new Error(`${path}: ${await response.text()}`);
      return (await response.json()) as T;
    };
    service = {
      ...parts,
      get: (path) => ask(path, {}),
      post: (path, body) => ask(path, { method: 'POST', body: JSON.stringify(body) }),
    };
  });

  afterAll(async () => {
    console.info(`compared ${figures} figures of movements`);
    await Promise.all(processes.map((one) => one.stop()));
    await parts?.stop();
    await devnet?.close();
    directory.remove();
  });

  test('the traffic has all kinds of movements, of wallets that trade, in markets that resolve', () => {
    const counts = Object.fromEntries(
      [...Map.groupBy(chain.movements, ({ reason }) => reason)].map(([reason, all]) => [
        reason,
        all.length,
      ]),
    );
    console.info(
      JSON.stringify(counts),
      [...chain.markets.values()].flatMap((m) => m.matches).length,
    );
    for (const reason of [
      'split',
      'merge',
      'redeem',
      'transfer',
      'refund',
      'unexplained',
      'convert',
    ])
      expect(counts[reason], reason).toBeGreaterThan(0);
    const traded = new Set(chain.bookings.map((one) => one.kind === 'fill' && one.trader));
    expect(chain.movements.some(({ trader, pnl }) => traded.has(trader) && pnl !== 0n)).toBe(true);
    expect(chain.movements.every(({ opened }) => opened[0] === 0n && opened[1] === 0n)).toBe(true);
  });

  test('balances of both outcomes', () => expectNone(balanceComparison(service, chain)));

  test('realised PnL, cost, fees, volumes and counts of every trader and market', async () => {
    figures += chain.accounts.size * 7;
    expect(await accountDifferences(service, chain)).toEqual([]);
  });

  test('every open position with its cost, fees, mark and value', async () => {
    expect(await positionDifferences(service, chain)).toEqual([]);
  });

  test('every movement of every wallet', () => expectNone(movementComparison(service, chain)));

  test('every hour of every trader', () => expectNone(hourComparison(service, chain)));

  test('PnL of every trader at the end of every hour', async () => {
    expect(await pnlDifferences(service, chain)).toEqual([]);
  });

  test('the markets of the traffic, and their holders', async () => {
    const split = chain.movements.filter(({ reason }) => reason === 'split');
    const own = new Set(split.map(({ condition }) => condition));
    const markets = new Map([...chain.markets].filter(([condition]) => own.has(condition)));
    expect(await marketDifferences(service, { ...chain, markets })).toEqual([]);
  });

  test('windows, win counts and totals of every trader', () =>
    expectNone(windowComparison(service, chain)));

  test('leaderboards', () => expectNone(boardComparison(service, chain)));
});

/** Open markets of ConditionalTokens with matches. */
async function marketsOf(devnet: StillDevnet): Promise<readonly TrafficMarket[]> {
  const facts = await chainFacts(devnet.url, 0, await devnet.number('latest'));
  const resolved = new Set(
    facts.flatMap((fact) => (fact.kind === 'resolution' ? [fact.conditionId] : [])),
  );
  const exchanges = new Map(
    facts.flatMap((fact) =>
      fact.kind === 'match' ? fact.fills.map(({ tokenId }) => [tokenId, fact.exchange]) : [],
    ),
  );
  const listed = await gammaMarkets(devnet.env.GAMMA_URL);
  return listed
    .filter(({ conditionId }) => !resolved.has(conditionId) && !isStructured(conditionId))
    .flatMap(({ conditionId, clobTokenIds }) => {
      const [first = '0', second = '0'] = JSON.parse(clobTokenIds) as string[];
      const exchange = exchanges.get(first) ?? exchanges.get(second);
      if (exchange === undefined) return [];
      const tokens = [BigInt(first), BigInt(second)] as const;
      return [
        { condition: conditionId as `0x${string}`, tokens, exchange: exchange as `0x${string}` },
      ];
    })
    .slice(-MARKETS);
}
