import { decodeFunctionResult, encodeFunctionData, type Hex } from 'viem';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { IngestConfig, readConfig } from '../../infra/config.ts';
import { chainOf } from '../../ingest/events/chains.ts';
import { isStructured, structuredTokens } from '../../ingest/events/structured-ids.ts';
import { positionIds } from '../../ingest/events/token-ids.ts';
import { conditionalTokensAbi, POSITION_MANAGER } from '../../local/devnet/contracts.ts';
import type { Account } from '../support/books.ts';
import { marketDay, marketTotals } from '../support/market-account.ts';
import { type Chain, openPositions } from '../support/recompute.ts';
import {
  accountDifferences,
  marketDifferences,
  pnlDifferences,
  positionDifferences,
  recomputed,
} from '../support/reconcile.ts';
import {
  type Devnet,
  freeze,
  type GammaMarket,
  projectedTo,
  rpc,
  type Service,
  start,
  startDevnet,
  startService,
  temporaryDirectory,
  until,
} from '../support/service.ts';

type Fill = { shares: string; usdc: string; fee: string; is_taker: boolean };
type Hour = {
  hour: string;
  pnl: string;
  maker_volume: string;
  taker_volume: string;
  volume: string;
  market_count: number;
};
type Market = {
  total_volume: string;
  total_pnl_distributed: string;
  total_traders: number;
  total_winners: number;
  top_earners: { profile: { address: string }; pnl: string; volume: string; roi: number }[];
};

type Listed = { market: { condition_id: string }; as_of: string };
type ListedPage = { as_of: string; markets: Omit<Listed, 'as_of'>[]; next_cursor: string };

const LIVE_MATCHES = 60;

describe('the service against an independent account of the chain', () => {
  const directory = temporaryDirectory();
  let devnet: Devnet;
  let service: Service;
  let chain: Chain;
  let markets: readonly GammaMarket[];

  beforeAll(async () => {
    const data = `${directory.path}/devnet`;
    devnet = await startDevnet(data, { matches: 700, days: 4, rate: 15 });
    const env = { ...devnet.env, MOVEMENTS: 'on' };
    service = await startService(`${directory.path}/service`, { env });
    const count = async () => {
      const [row] = await service.query<{ n: string }>(
        'SELECT toString(count()) AS n FROM bookings',
      );
      return Number(row?.n);
    };
    const history = await count();
    await until(async () => ((await count()) > history + LIVE_MATCHES * 2 ? true : undefined));
    devnet = await freeze(devnet, data);
    ({ chain, markets } = await recomputed(devnet.rpcUrl, devnet.env.GAMMA_URL ?? ''));
    await projectedTo(service, chain.lastFillBlock);
  });

  afterAll(async () => {
    await service?.up.stop();
    await devnet?.process.stop();
    directory.remove();
  });

  test('the devnet produced enough cases to compare', () => {
    const accounts = [...chain.accounts.values()];
    expect(accounts.length).toBeGreaterThan(500);
    expect(accounts.some((account) => account.pnl > 0n && account.fee > 0n)).toBe(true);
    expect(accounts.some((account) => account.settlements > 0)).toBe(true);
  });

  test('every trader and market: volumes, PnL, cost, fees and counts are equal to the micro-unit', async () => {
    expect(await accountDifferences(service, chain)).toEqual([]);
  });

  test('every open position: shares, cost, mark and value are equal to the micro-unit', async () => {
    expect([...chain.markets.values()].flatMap(openPositions).length).toBeGreaterThan(50);
    expect(await positionDifferences(service, chain)).toEqual([]);
  });

  test('every trader: each hour of the PnL is that of the chain at that time', async () => {
    expect(chain.pnlHours.length).toBeGreaterThan(24);
    expect(await pnlDifferences(service, chain)).toEqual([]);
  });

  test('every trader: the balance is that of the chain at its block', async () => {
    const traders = new Set([...chain.accounts.keys()].map((key) => key.split(' ')[0] ?? ''));
    const rows = await until(async () => {
      const found = await service.query<{ trader: string; balance: string; block: number }>(
        `SELECT concat('0x', lower(hex(trader))) AS trader, toString(balance) AS balance,
           toUInt32(block_number) AS block FROM balances FINAL`,
      );
      return found.length >= traders.size ? found : undefined;
    });
    const expected = rows.map(({ trader, block }) => {
      const history = chain.balances.get(trader)?.filter((one) => one.block <= block);
      return { trader, balance: String(history?.at(-1)?.balance), block };
    });
    expect(rows).toEqual(expected);
  });

  test('every trader and outcome: fills and movements add up to the balance on the chain', async () => {
    const sums = await service.query<{ trader: Hex; condition: Hex; zero: string; one: string }>(
      `SELECT concat('0x', lower(hex(trader))) AS trader, concat('0x', lower(hex(condition_id))) AS condition,
         toString(sum(balance_0)) AS zero, toString(sum(balance_1)) AS one
       FROM trader_markets GROUP BY trader, condition_id`,
    );
    const { conditionalTokens, collateral } = chainOf(
      readConfig(IngestConfig, { CHAIN: 'devnet' }),
    );
    for (const isV2 of [false, true]) {
      const asked = sums.flatMap(({ trader, condition, zero, one }) => {
        if (isStructured(condition) !== isV2) return [];
        const ids = isV2
          ? structuredTokens(condition).map(BigInt)
          : positionIds(collateral, condition);
        return [zero, one].map((held, outcome) => ({ trader, id: ids[outcome] ?? 0n, held }));
      });
      expect(asked.length).toBeGreaterThan(50);
      const args = [asked.map(({ trader }) => trader), asked.map(({ id }) => id)] as const;
      const batch = { abi: conditionalTokensAbi, functionName: 'balanceOfBatch' } as const;
      const to = isV2 ? POSITION_MANAGER : conditionalTokens;
      const call = { to, data: encodeFunctionData({ ...batch, args }), gas: '0x20000000' };
      const data = await rpc<Hex>(devnet.rpcUrl, 'eth_call', [call, 'latest']);
      const balances = decodeFunctionResult({ ...batch, data });
      expect(asked.map(({ held }) => BigInt(held))).toEqual(balances);
    }
    const [row] = await service.query<{ redeemed: string; opened: string }>(
      `SELECT toString(countIf(kind = 'movement')) AS redeemed, toString(countIf(kind = 'opening')) AS opened
       FROM bookings`,
    );
    expect(Number(row?.redeemed)).toBeGreaterThan(50);
    expect(Number(row?.opened)).toBe(0);
  });

  test('every trader: the hours of the API add up to the chain, hour by hour', async () => {
    const traders = new Set([...chain.hours.keys()].map((key) => key.split(' ')[0] ?? ''));
    for (const trader of traders) {
      const path = `/v1/traders/${trader}/hourly_stats?from=0`;
      const { stats } = await service.get<{ stats: Hour[] }>(path);
      const expected = [...chain.hours]
        .filter(([key]) => key.startsWith(trader))
        .map(([key, hour]) => ({
          hour: new Date(Number(key.split(' ')[1]) * 1_000)
            .toISOString()
            .slice(0, 19)
            .replace('T', ' '),
          pnl: String(hour.pnl),
          maker_volume: String(hour.makerVolume),
          taker_volume: String(hour.takerVolume),
          volume: String(hour.makerVolume + hour.takerVolume),
          market_count: hour.conditions.size,
        }))
        .toSorted((a, b) => (a.hour < b.hour ? 1 : -1));
      expect(stats.map(({ win_count: _, ...hour }: Hour & { win_count?: number }) => hour)).toEqual(
        expected,
      );
    }
  });

  test('every market: the API gives volume, traders, winners and earners of the chain', async () => {
    for (const { id, conditionId } of markets) {
      const accounts = [...chain.accounts]
        .filter(([key]) => key.endsWith(conditionId))
        .map(([key, account]): [string, Account] => [key.split(' ')[0] ?? '', account]);
      if (accounts.length === 0) continue;
      const market = await service.get<Market>(`/v1/markets/${id}`);
      const sum = (pick: (account: Account) => bigint) =>
        String(accounts.reduce((total, [, account]) => total + pick(account), 0n));
      const volume = (account: Account) => account.makerVolume + account.takerVolume;
      const winners = accounts.filter(([, account]) => account.pnl > 0n);
      expect(market).toMatchObject({
        total_volume: sum(volume),
        total_pnl_distributed: sum((account) => (account.pnl > 0n ? account.pnl : 0n)),
        total_traders: accounts.length,
        total_winners: winners.length,
      });
      const earners = winners
        .toSorted(
          ([a, one], [b, other]) =>
            Number(other.pnl - one.pnl) || Number(volume(other) - volume(one)) || (a < b ? -1 : 1),
        )
        .slice(0, 20);
      expect(
        market.top_earners.map(({ profile, pnl, volume }) => ({
          address: profile.address,
          pnl,
          volume,
        })),
      ).toEqual(
        earners.map(([address, account]) => ({
          address,
          pnl: String(account.pnl),
          volume: String(volume(account)),
        })),
      );
      for (const [i, [, account]] of earners.entries()) {
        const roi = account.cost === 0n ? 0 : (100 * Number(account.pnl)) / Number(account.cost);
        expect(market.top_earners[i]?.roi).toBeCloseTo(roi, 6);
      }
    }
  });

  test('every market: mark, totals, candles, trades and holders of the API are those of the chain', async () => {
    const traded = [...chain.markets].filter(([, market]) => market.matches.length > 0);
    expect(traded.some(([, market]) => market.resolution !== undefined)).toBe(true);
    expect(traded.some(([, market]) => market.holdings.size > 0)).toBe(true);
    expect(await marketDifferences(service, chain)).toEqual([]);
  });

  test('the list of markets has the figures of the chain', async () => {
    const asked = new Date().toISOString();
    const listed = await until(async () => {
      const entries: Listed[] = [];
      for (let cursor = ''; ; ) {
        const query = `status=all&sort_by=newest&limit=100${cursor && `&cursor=${cursor}`}`;
        const page = await service.get<ListedPage>(`/v2/markets?${query}`);
        if (page.as_of <= asked) return undefined;
        entries.push(...page.markets.map((entry) => ({ ...entry, as_of: page.as_of })));
        cursor = page.next_cursor;
        if (cursor === '') return entries;
      }
    });
    const found = new Map(listed.map((entry) => [entry.market.condition_id, entry]));
    const traded = [...chain.markets].filter(([, market]) => market.matches.length > 0);
    expect(found.size).toBe(traded.length);
    for (const [condition, market] of traded) {
      const entry = found.get(condition);
      const own = [...chain.accounts.keys()].filter((key) => key.endsWith(condition));
      expect(entry, condition).toMatchObject({
        ...{ ...marketTotals(market), ...marketDay(market, entry?.as_of ?? '') },
        traders: own.length,
      });
    }
  });

  test('the fills of a trader in a market, listed by the API, add up to their account', async () => {
    const ids = new Map(markets.map(({ id, conditionId }) => [conditionId, id]));
    const seen = new Set<string>();
    for (const [key, account] of chain.accounts) {
      const [trader = '', condition = ''] = key.split(' ');
      const id = ids.get(condition);
      // Combos have no id.
      if (seen.has(trader) || id === undefined) continue;
      seen.add(trader);
      const path = `/v1/traders/${trader}/markets/${id}/orders`;
      const { orders } = await service.get<{ orders: Fill[] }>(path);
      const total = (pick: (fill: Fill) => string | undefined) =>
        orders.reduce((sum, fill) => sum + BigInt(pick(fill) ?? 0), 0n);
      expect(orders).toHaveLength(account.fills);
      expect(total((fill) => fill.fee)).toBe(account.fee);
      expect(total((fill) => (fill.is_taker ? fill.usdc : undefined))).toBe(account.takerVolume);
      expect(total((fill) => (fill.is_taker ? undefined : fill.usdc))).toBe(account.makerVolume);
    }
  });

  test('after a rebuild, the sums and the positions are equal again', async () => {
    const rebuild = start('ops/rebuild.ts', ['--yes'], service.env);
    expect(await rebuild.exit, rebuild.errors()).toBe(0);
    expect(await accountDifferences(service, chain)).toEqual([]);
    expect(await positionDifferences(service, chain)).toEqual([]);
  });

  test('pUSD is conserved over traders, fee receiver and contracts', () => {
    const held = [...chain.balances.values()].map((history) => history.at(-1)?.balance ?? 0n);
    expect(held.reduce((sum, balance) => sum + balance, 0n)).toBe(chain.totalSupply);
    expect(held.every((balance) => balance >= 0n)).toBe(true);
  });
});
