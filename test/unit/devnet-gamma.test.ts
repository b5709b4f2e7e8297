/**
 * The devnet's metadata API over HTTP: Gamma's parameters, shapes and refusals. It needs no chain: the
 * world is told which markets are listed and resolved.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { STRANGER } from '../../infra/local/devnet/contracts.ts';
import { type Gamma, startGamma } from '../../infra/local/devnet/gamma.ts';
import { World } from '../../infra/local/devnet/world.ts';

const NOW = 1_790_000_000;
const SEED = 5;

type MarketBody = {
  readonly outcomes: string;
  readonly clobTokenIds: string;
  readonly outcomePrices: string;
  readonly closedTime: string;
  readonly sportsMarketType?: string;
  readonly negRisk: boolean;
  readonly tags?: readonly unknown[];
  readonly events: readonly { readonly tags?: unknown }[];
};
type KeysetBody = {
  readonly markets?: readonly { readonly id: string }[];
  readonly events?: readonly { readonly id: string }[];
  readonly next_cursor?: string;
};

describe('the metadata API', () => {
  const world = new World({ seed: SEED, genesisTime: NOW - 86_400, traders: 60 }, 'test');
  let gamma: Gamma;

  beforeAll(async () => {
    world.list(world.calendar.between(NOW - 3_600, NOW));
    world.resolve(NOW);
    gamma = await startGamma({ world, seed: SEED, port: 0, now: () => NOW * 1000 });
  });

  afterAll(() => gamma.close());

  test('finds markets by token and by condition, repeated or comma-separated', async () => {
    const [a, b] = [...world.listed.values()];
    const tokens = [a?.tokenIds[0], b?.tokenIds[1]];
    const repeated = await get(`/markets?${tokens.map((id) => `clob_token_ids=${id}`).join('&')}`);
    const listed = await get(`/markets?condition_ids=${a?.conditionId},${b?.conditionId}`);
    expect(repeated.body).toEqual(listed.body);
    expect(repeated.body).toHaveLength(2);
  });

  test('writes markets in the shape of Gamma', async () => {
    const { body } = await get<readonly MarketBody[]>(
      '/markets?closed=true&include_tag=true&limit=50',
    );
    const [market] = body;
    if (market === undefined) throw new RangeError('no closed market');
    expect(JSON.parse(market.outcomes)).toHaveLength(2);
    expect(JSON.parse(market.clobTokenIds)[0]).toMatch(/^\d{70,78}$/);
    expect(market.closedTime).toMatch(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\+00$/);
    expect(
      JSON.parse(market.outcomePrices)
        .map(Number)
        .reduce((x: number, y: number) => x + y),
    ).toBe(1);
    expect(market.tags?.[0]).toMatchObject({ slug: expect.any(String), label: expect.any(String) });
    expect(market.events[0]).toMatchObject({ slug: expect.any(String), title: expect.any(String) });
    expect(market.events[0]?.tags).toBeUndefined();
    expect((await get<readonly MarketBody[]>('/markets')).body[0]?.tags).toBeUndefined();
    const all = (await get<readonly MarketBody[]>('/markets?limit=500')).body;
    const types = new Set(all.map((one) => one.sportsMarketType));
    expect(types).toEqual(new Set(['moneyline', 'spreads', 'totals', undefined]));
    expect(new Set(all.map((one) => one.negRisk))).toEqual(new Set([true, false]));
  });

  test('walks keysets to the end, each market and event once', async () => {
    for (const what of ['markets', 'events'] as const) {
      const ids: string[] = [];
      for (let cursor = ''; ; ) {
        const { body } = await get<KeysetBody>(`/${what}/keyset?limit=40${cursor}`);
        ids.push(...(body[what] ?? []).map((one) => one.id));
        if (body.next_cursor === undefined) break;
        cursor = `&after_cursor=${body.next_cursor}`;
      }
      expect(new Set(ids).size).toBe(ids.length);
      if (what === 'markets') expect(ids.length).toBe(world.listed.size);
    }
  });

  test('knows profiles, tags and series, and says what is wrong', async () => {
    const addresses = world.traders.map((trader) => trader.address);
    const answers = await Promise.all(
      addresses.map((one) => get(`/public-profile?address=${one}`)),
    );
    const known = answers.filter(({ status }) => status === 200);
    expect(known.length).toBeGreaterThan(40);
    expect(known.length).toBeLessThan(addresses.length);
    expect(known[0]?.body).toMatchObject({
      takerTier: expect.any(Number),
      proxyWallet: expect.stringMatching(/^0x/),
    });
    const batch = await get(`/public-profiles?addresses=${addresses.join(',')}`);
    expect(batch.body).toHaveLength(known.length);
    expect((await get('/tags?limit=100')).body.length).toBeGreaterThan(21);
    expect((await get('/series?limit=100')).body.length).toBeGreaterThan(10);
    expect((await get('/health')).status).toBe(200);
    for (const [path, status] of [
      ['/markets?limit=0', 400],
      ['/markets?offset=2001', 400],
      ['/public-profile?address=abc', 400],
      [`/public-profile?address=${STRANGER}`, 404],
      ['/nothing', 404],
    ] as const) {
      expect(await get(path)).toMatchObject({ status, body: { error: expect.any(String) } });
    }
  });

  async function get<T = readonly unknown[]>(path: string) {
    const response = await fetch(`${gamma.url}${path}`);
    return { status: response.status, body: (await response.json()) as T };
  }
});
