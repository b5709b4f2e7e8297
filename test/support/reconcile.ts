/**
 * Compares the service's rows with the independent account of the chain (recompute.ts), trader by trader
 * and market by market, to the micro-unit.
 */
import { isDeepStrictEqual } from 'node:util';
import {
  marketCandles,
  marketHolders,
  marketTotals,
  marketTrades,
  markObject,
} from './market-account.ts';
import { type Chain, openPositions, recompute } from './recompute.ts';
import { type GammaMarket, gammaMarkets, type Service } from './service.ts';
import type { Token } from './share-moves.ts';

const SHOWN_MAX = 5;

export type Asked = Pick<Service, 'get' | 'query'>;

/** The chain recomputed, and the markets that its metadata API lists; `unlisted` has the tokens of others. */
export async function recomputed(
  rpcUrl: string,
  gammaUrl: string,
  unlisted: ReadonlyMap<string, Token> = new Map(),
  aliases: ReadonlyMap<string, string> = new Map(),
): Promise<{ readonly chain: Chain; readonly markets: readonly GammaMarket[] }> {
  const markets = await gammaMarkets(gammaUrl);
  const listed = new Map(
    markets.flatMap(({ conditionId, clobTokenIds }) =>
      (JSON.parse(clobTokenIds) as string[]).map((token, i) => [
        token,
        { condition: conditionId, outcome: (i === 0 ? 0 : 1) as 0 | 1 },
      ]),
    ),
  );
  const tokens = new Map([...listed, ...unlisted]);
  return { chain: await recompute(rpcUrl, tokens, aliases), markets };
}

/** Everything below: sums, positions, PnL by hour, marks, totals, candles, trades and holders. */
export async function allDifferences(service: Asked, chain: Chain): Promise<readonly string[]> {
  return [
    ...(await accountDifferences(service, chain)),
    ...(await positionDifferences(service, chain)),
    ...(await pnlDifferences(service, chain)),
    ...(await marketDifferences(service, chain)),
  ];
}

/** One sentence for each trader and market whose sums differ, at most SHOWN_MAX; empty when all agree. */
export async function accountDifferences(service: Asked, chain: Chain): Promise<readonly string[]> {
  const rows = await service.query<Record<string, string>>(
    `SELECT concat('0x', lower(hex(trader)), ' 0x', lower(hex(condition_id))) AS key,
       toString(sum(realised_pnl)) AS pnl, toString(sum(realised_cost)) AS cost,
       toString(sum(fee)) AS fee, toString(sum(maker_volume)) AS makerVolume,
       toString(sum(taker_volume)) AS takerVolume, toString(sum(fills)) AS fills,
       toString(sum(settlements)) AS settlements
     FROM trader_markets GROUP BY trader, condition_id`,
  );
  const served = new Map(rows.map(({ key, ...sums }) => [key, sums]));
  const differences = [...chain.accounts].flatMap(([key, account]) => {
    const expected = Object.entries(account).map(([name, value]) => `${name} ${value}`);
    const sums = served.get(key) ?? {};
    const found = Object.keys(account).map((name) => `${name} ${sums[name]}`);
    const wrong = expected.filter((text, i) => text !== found[i]);
    return wrong.length === 0 ? [] : [`${key}: ${found.join(', ')} where ${wrong.join(', ')}`];
  });
  const foreign = [...served.keys()].filter((key) => !chain.accounts.has(key ?? ''));
  return [...differences, ...foreign.map((key) => `${key}: not on the chain`)].slice(0, SHOWN_MAX);
}

type Position = {
  readonly market: { readonly condition_id: string };
  readonly mark: { readonly price: number; readonly time: string; readonly source: string };
  readonly [figure: string]: unknown;
};
type Points = {
  readonly points: readonly {
    readonly time: string;
    readonly realised_pnl: number;
    readonly unrealised_pnl: number;
    readonly pnl: number;
  }[];
};

/** One sentence for each open position whose shares, cost, mark or value differ, at most SHOWN_MAX. */
export async function positionDifferences(
  service: Asked,
  chain: Chain,
): Promise<readonly string[]> {
  const expected = new Map<string, string>();
  for (const [condition, market] of chain.markets) {
    for (const { trader, outcome, own, cost, fees, value, unrealised } of openPositions(market)) {
      const { price_1, price_2, time, source } = markObject(market);
      const price = outcome === 0 ? price_1 : price_2;
      const text = [outcome, own, cost, fees, value, unrealised, price, time, source].join(' ');
      expected.set(`${trader} ${condition}`, text);
    }
  }
  const served = new Map<string, string>();
  for (const trader of new Set([...chain.accounts.keys()].map((key) => key.split(' ')[0] ?? ''))) {
    const path = `/v2/traders/${trader}/positions?limit=100&sort_by=age`;
    for (const { mark, market, ...position } of await pages<Position>(service, path, 'positions')) {
      const names = ['outcome_index', 'shares', 'cost_basis', 'open_fees', 'value'];
      const figures = [...names, 'unrealised_pnl'].map((name) => position[name]);
      const text = [...figures, mark.price, mark.time, mark.source].join(' ');
      served.set(`${trader} ${market.condition_id}`, text);
    }
  }
  return [...new Set([...expected.keys(), ...served.keys()])]
    .filter((key) => served.get(key) !== expected.get(key))
    .map((key) => `${key}: ${served.get(key)} where ${expected.get(key)}`)
    .slice(0, SHOWN_MAX);
}

/** One sentence for each hourly point of a trader's PnL that differs, at most SHOWN_MAX. */
export async function pnlDifferences(service: Asked, chain: Chain): Promise<readonly string[]> {
  const differences: string[] = [];
  const from = (chain.pnlHours[0]?.end ?? 0) - 3_600;
  for (const trader of chain.pnlHours.at(-1)?.of.keys() ?? []) {
    const { points }: Points = await service.get(`/v2/traders/${trader}/pnl?from=${from}`);
    for (const [i, { pnl, realised_pnl, time, unrealised_pnl }] of points.entries()) {
      const until = i === points.length - 1 ? Infinity : Date.parse(time) / 1_000;
      const { of } = chain.pnlHours.findLast(({ end }) => end <= until) ?? {};
      const { realised, unrealised } = of?.get(trader) ?? { realised: 0n, unrealised: 0n };
      const text = [realised, unrealised, realised + unrealised].join(' ');
      const shown = [realised_pnl, unrealised_pnl, pnl].join(' ');
      if (shown !== text) differences.push(`${trader} at ${time}: ${shown} where ${text}`);
    }
  }
  return differences.slice(0, SHOWN_MAX);
}

type Trade = { readonly match_id: string; readonly outcome: string };
type Holder = {
  readonly profile: { readonly address: string };
  readonly outcome: string;
  readonly outcome_share: number;
};

/** One sentence for each market whose mark, totals, candles, trades or holders differ, at most SHOWN_MAX. */
export async function marketDifferences(service: Asked, chain: Chain): Promise<readonly string[]> {
  const differences: string[] = [];
  const traded = [...chain.markets].filter(([, { matches }]) => matches.length > 0);
  const to = Math.max(...traded.flatMap(([, { matches }]) => matches.map(({ time }) => time)));
  for (const [condition, market] of traded) {
    const path = `/v2/markets/${condition}`;
    const compare = (what: string, found: unknown, expected: unknown) => {
      if (isDeepStrictEqual(found, expected)) return;
      const [shown, wanted] = [found, expected].map((one) => JSON.stringify(one));
      differences.push(`${condition} ${what}: ${shown} where ${wanted}`);
    };
    const totals = marketTotals(market);
    const shown = await service.get<Record<string, unknown>>(path);
    const own = Object.fromEntries(Object.keys(totals).map((name) => [name, shown[name]]));
    compare('totals', own, totals);
    const ownEnd = Math.max(...market.matches.map(({ time }) => time));
    for (const [interval, width, count, end] of [
      // Nearly all minutes before and after are empty.
      ['1m', 60, 200, ownEnd],
      ['1h', 3_600, 1_400, to],
      ['1d', 86_400, 1_400, to],
    ] as const) {
      const from = end - count * width;
      const query = `interval=${interval}&from=${from}&to=${end}`;
      const { candles } = await service.get<{ candles: object[] }>(`${path}/candles?${query}`);
      compare(interval, candles, marketCandles(market, width, from, end));
    }
    const trades = await pages<Trade>(service, `${path}/trades?limit=1000`, 'trades');
    const ids = new Set(trades.map(({ match_id }) => match_id));
    compare('ids of trades', ids.size, trades.length);
    const bare = trades.map(({ match_id: _, outcome: __, ...trade }) => trade);
    compare('trades', bare, marketTrades(market));
    const holders = await pages<Holder>(service, `${path}/holders?limit=100`, 'holders');
    const found = holders.map(({ profile, outcome: _, outcome_share: __, ...holder }) => ({
      ...{ address: profile.address, ...holder },
    }));
    const realised = (trader: string) => chain.accounts.get(`${trader} ${condition}`)?.pnl ?? 0n;
    compare('holders', found, marketHolders(market, realised));
  }
  return differences.slice(0, SHOWN_MAX);
}

/** The items of all pages of a list. */
export async function pages<Item>(
  service: Asked,
  path: string,
  list: string,
): Promise<readonly Item[]> {
  const items: Item[] = [];
  for (let cursor = ''; ; ) {
    const page = await service.get<Record<string, unknown>>(
      cursor === '' ? path : `${path}&cursor=${cursor}`,
    );
    items.push(...(page[list] as Item[]));
    cursor = String(page.next_cursor);
    if (cursor === '') return items;
  }
}
