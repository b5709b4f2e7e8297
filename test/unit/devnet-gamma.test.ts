/**
 * The devnet's metadata API over HTTP: Gamma's parameters, response shapes and errors. Without a chain: the
 * test lists and resolves the markets.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { structuredId } from '../../ingest/events/structured-ids.ts';
import { STRANGER } from '../../local/devnet/contracts.ts';
import { type Gamma, startGamma } from '../../local/devnet/gamma.ts';
import { isV2, type Market } from '../../local/devnet/markets.ts';
import { World } from '../../local/devnet/world.ts';

const NOW = 1_790_000_000;
const SEED = 5;

type MarketBody = {
  readonly outcomes: string;
  readonly clobTokenIds: string;
  readonly closed: boolean;
  readonly sportsMarketType?: string;
  readonly negRisk: boolean;
  readonly tags?: readonly unknown[];
  readonly events: readonly { readonly tags?: unknown }[];
};
type KeysetBody = {
  readonly markets: readonly { readonly id: string }[];
  readonly next_cursor?: string;
};
type EventBody = {
  readonly tags: readonly { readonly slug: string }[];
};

describe('the metadata API', () => {
  const world = new World({ seed: SEED, genesisTime: NOW - 86_400, traders: 60 }, 'test');
  let gamma: Gamma;

  beforeAll(async () => {
    world.list(world.calendar.between(NOW - 3_600, NOW));
    world.resolve(NOW);
    gamma = await startGamma({ world, seed: SEED, port: 0 });
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

  test('returns markets in the shape of Gamma', async () => {
    const { body } = await get<readonly MarketBody[]>(
      '/markets?closed=true&include_tag=true&limit=50',
    );
    const [market] = body;
    if (market === undefined) throw new RangeError('no closed market');
    expect(JSON.parse(market.outcomes)).toHaveLength(2);
    expect(JSON.parse(market.clobTokenIds)[0]).toMatch(/^\d{70,78}$/);
    expect(body.every(({ closed }) => closed)).toBe(true);
    expect(market.tags?.[0]).toMatchObject({ slug: expect.any(String) });
    expect(market.events[0]).toMatchObject({ slug: expect.any(String), title: expect.any(String) });
    expect(market.events[0]?.tags).toBeUndefined();
    expect((await get<readonly MarketBody[]>('/markets')).body[0]?.tags).toBeUndefined();
    const all = (await get<readonly MarketBody[]>('/markets?limit=500')).body;
    const types = new Set(all.map((one) => one.sportsMarketType));
    expect(types).toEqual(new Set(['moneyline', 'spreads', 'totals', undefined]));
    expect(new Set(all.map((one) => one.negRisk))).toEqual(new Set([true, false]));
  });

  test('returns markets of protocol version 2 with position ids, and no combos', async () => {
    const markets = [...world.listed.values()].filter(isV2);
    const [plain, combos] = [
      markets.filter(({ legs }) => legs === undefined),
      markets.filter(({ legs }) => legs !== undefined),
    ];
    expect(combos.length).toBeGreaterThan(0);
    const idsOf = (some: readonly Market[]) => some.map(({ tokenIds }) => tokenIds[0]).join();
    const { body } = await get<readonly unknown[]>(
      `/markets?limit=500&clob_token_ids=${idsOf(plain)},${idsOf(combos)}`,
    );
    expect(body.length).toBe(plain.length);
    for (const one of body) expect(one).toMatchObject({ version: 'v2' });
    const bodies = new Map(body.map((one) => [(one as { slug: string }).slug, one]));
    for (const { slug, conditionId, tokenIds } of plain) {
      const { positionIds } = bodies.get(slug) as { positionIds: string };
      expect(JSON.parse(positionIds)).toEqual(tokenIds.map(String));
      for (const [outcomeIndex, id] of tokenIds.entries()) {
        expect(structuredId(String(id))).toEqual({ conditionId, outcomeIndex });
      }
    }
  });

  test('pages through all markets, each once, and back', async () => {
    const ids: string[] = [];
    for (let cursor = ''; ; ) {
      const { body } = await get<KeysetBody>(`/markets/keyset?limit=40${cursor}`);
      ids.push(...body.markets.map((one) => one.id));
      if (body.next_cursor === undefined) break;
      cursor = `&after_cursor=${body.next_cursor}`;
    }
    expect(new Set(ids).size).toBe(ids.length);
    const listed = [...world.listed.values()].filter(({ legs }) => legs === undefined);
    expect(ids.length).toBe(listed.length);
    const { body } = await get<KeysetBody>('/markets/keyset?limit=500&order=id&ascending=false');
    expect(body.markets.map((one) => one.id)).toEqual(ids.toReversed().slice(0, 500));
  });

  test('finds events with their tags', async () => {
    const [market] = world.listed.values();
    const { body } = await get<readonly EventBody[]>(`/events?id=${market?.event.id}`);
    expect(body).toMatchObject([{ id: String(market?.event.id), slug: market?.event.slug }]);
    expect(body[0]?.tags.map((tag) => tag.slug)).toEqual(market?.event.topic.tags);
  });

  test('returns profiles, and explains bad requests', async () => {
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
    for (const [path, status] of [
      ['/markets?limit=0', 400],
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
