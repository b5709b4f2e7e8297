/**
 * Holds the service's rows against the independent account of the chain (recompute.ts), trader by trader
 * and market by market, to the micro-unit.
 */
import { type Chain, recompute } from './recompute.ts';
import { type GammaMarket, gammaMarkets, type Service } from './service.ts';

const SHOWN_MAX = 5;

/** The chain recomputed, and the markets that its metadata API lists. */
export async function recomputed(
  rpcUrl: string,
  gammaUrl: string,
): Promise<{ readonly chain: Chain; readonly markets: readonly GammaMarket[] }> {
  const markets = await gammaMarkets(gammaUrl);
  const tokens = new Map(
    markets.flatMap(({ conditionId, clobTokenIds }) =>
      (JSON.parse(clobTokenIds) as string[]).map((token, i) => [
        token,
        { condition: conditionId, outcome: (i === 0 ? 0 : 1) as 0 | 1 },
      ]),
    ),
  );
  return { chain: await recompute(rpcUrl, tokens), markets };
}

/** One sentence for each trader and market whose sums differ, at most SHOWN_MAX; empty when all agree. */
export async function accountDifferences(
  service: Pick<Service, 'query'>,
  chain: Chain,
): Promise<readonly string[]> {
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
