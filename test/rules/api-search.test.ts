/** `GET /v2/search` over listings and profiles with known results. */
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { addressOf, insertBookings } from '../support/api-bookings.ts';
import { rows as bookings } from '../support/api-expected.ts';
import { get, issueKey, startApi, startStores } from '../support/api-harness.ts';
import { isLong } from '../support/seed.ts';

type Market = { readonly id: number; readonly question: string; readonly slug: string } & Partial<
  Record<'event' | 'title' | 'end', string>
>;
const condition = (id: number) => id.toString(16).padStart(64, 'c');

/** Uses all 78 digits that an id may have. */
const tokenOf = (id: number, outcome: number) =>
  (2n ** 256n - 1n - BigInt(2 * id + outcome)).toString();

/** From the greatest volume to the least. */
const MARKETS: readonly Market[] = [
  { id: 2001, question: 'Will it rain in Paris on May 1?', slug: 'rain-paris-may-1' },
  { id: 2002, question: 'Will it rain in London on May 1?', slug: 'rain-london-may-1' },
  { id: 2003, question: 'Élection: qui gagne à Montréal?', slug: 'mtl-2026', event: 'mayors-2026' },
  { id: 2004, question: 'Qui gagne à Québec?', slug: 'qc-2026', event: 'mayors-2026' },
  { id: 2005, question: 'Trumpet sales above 9000?', slug: 'trumpets-2008' },
  { id: 2006, question: 'Who visits whom?', slug: 'visit', title: 'Trump and Xi' },
  { id: 2007, question: 'Train or Bahn?', slug: 'train-bahn' },
  { id: 2008, question: 'Νίκη του Ολυμπιακός;', slug: 'olympiakos-wins' },
  { id: 2010, question: 'Monte Carlo rally?', slug: 'monte-carlo' },
];
/** From the most fills to the fewest. */
const TRADERS = [
  { address: addressOf(1), name: 'Blue Car', x_username: 'bluecar_7' },
  { address: addressOf(2), name: 'Car', x_username: '' },
  { address: addressOf(3), name: 'Carla', x_username: 'rainmaker' },
  { address: `0xdead${'5'.repeat(36)}`, name: '', x_username: '' },
  { address: addressOf(4), name: '', x_username: '' },
] as const;

let stage: Awaited<ReturnType<typeof startStage>>;

async function startStage() {
  const stores = await startStores();
  const { clickhouse, nats } = stores;
  const { client } = clickhouse;
  await list(MARKETS, '2026-01-01 00:00:01');
  await profile(TRADERS.slice(0, 3), '2026-01-01 00:00:01');
  const [pattern] = bookings.filter(({ kind, isTaker }) => kind === 'fill' && isTaker);
  if (pattern === undefined) throw new Error('no fill of a taker among the bookings');
  const fills = TRADERS.flatMap(({ address: trader }, at) =>
    Array.from({ length: 5 - at }, (_, log) => ({ ...pattern, trader, log: log + 10 * at })),
  );
  await insertBookings(client, fills, 1);
  await client.command({
    query: `INSERT INTO market_marks (condition_id, volume, matches)
      SELECT condition_id, 3000 - market_id, 1 FROM markets`,
  });
  await refresh();
  const api = await startApi({ clickhouseUrl: clickhouse.url, nats });
  const key = await issueKey(nats.bucket, 'pro');

  async function list(markets: readonly Market[], observed_at: string) {
    await client.insert({
      table: 'markets',
      format: 'JSONEachRow',
      columns: [
        ...(['condition_id_hex', 'market_id', 'question', 'slug', 'event_slug'] as const),
        ...['event_title', 'end_date', 'outcomes', 'token_ids', 'observed_at'],
      ],
      values: markets.map(({ id, question, slug, event = '', title = '', end = '' }) => ({
        ...{ condition_id_hex: condition(id), market_id: id, question, slug, observed_at },
        ...{ event_slug: event, event_title: title, end_date: end, outcomes: ['Yes', 'No'] },
        token_ids: [tokenOf(id, 0), tokenOf(id, 1)],
      })),
    });
  }
  async function profile(
    traders: readonly { address: string; name: string; x_username: string }[],
    observed_at: string,
  ) {
    await client.insert({
      table: 'traders',
      format: 'JSONEachRow',
      columns: ['trader_hex', 'name', 'x_username', 'observed_at'],
      values: traders.map(({ address, name, x_username }) => ({
        ...{ trader_hex: address.slice(2), name, x_username, observed_at },
      })),
    });
  }
  async function refresh() {
    for (const view of ['search_markets_mv', 'search_traders_mv', 'market_stats_mv']) {
      for (const action of ['WAIT', 'REFRESH', 'WAIT']) {
        await client.command({ query: `SYSTEM ${action} VIEW ${view}` });
      }
    }
  }
  return {
    ...{ list, profile, client },
    async refresh() {
      await refresh();
      api.expire();
    },
    async search(q: string, more = '') {
      const path = `/v2/search?q=${encodeURIComponent(q)}${more}`;
      const { body, status, text } = await get(api.url + path, key);
      expect(status, text).toBe(200);
      return {
        body,
        markets: body.markets.map(({ market }: { market: { id: number } }) => market.id),
        traders: body.traders.map(({ profile }: { profile: { address: string } }) =>
          TRADERS.findIndex(({ address }) => address === profile.address.toLowerCase()),
        ),
      };
    },
    /** All markets of the list with these words, page by page. */
    async listed(q: string, limit: number) {
      const ids: number[] = [];
      let cursor = '';
      do {
        const path = `/v2/markets?status=all&q=${q}&limit=${limit}${cursor && `&cursor=${cursor}`}`;
        const { body } = await get(api.url + path, key);
        ids.push(...body.markets.map(({ market }: { market: { id: number } }) => market.id));
        cursor = body.next_cursor;
      } while (cursor !== '');
      return ids;
    },
    trader: async (path: string) => (await get(`${api.url}/v2/traders/${path}`, key)).body,
    status: async (query: string) => (await get(`${api.url}/v2/search${query}`, key)).status,
    async stop() {
      await api.stop();
      await stores.stop();
    },
  };
}

beforeAll(async () => {
  stage = await startStage();
});

afterAll(() => stage?.stop());

describe('markets', () => {
  test.each([
    ['all words, in any order and case', 'PARIS rain', [2001]],
    ['equally relevant ones by volume', 'rain', [2001, 2002]],
    ['the last word as a beginning', 'rain lon', [2002]],
    ['words as typed before beginnings, whatever the volume', 'trump', [2006, 2005]],
    ['words without accents', 'election montreal', [2003]],
    ['words with accents', 'Élection à', [2003]],
    ['other scripts', 'ολυμπιακός', [2008]],
    ['words of the slug', 'mtl', [2003]],
    ['words of the event', 'mayors', [2003, 2004]],
    ['a number', '2004', [2004]],
    ['a number that is also a word', '2008', [2008, 2005]],
    ['a condition id', `0x${condition(2004)}`, [2004]],
    ['a slug', 'qc-2026', [2004]],
    ['a slug of one word, as a word', 'visit', [2006]],
    ['a URL with a slug of one word', '/market/visit', [2006]],
    ['a URL of a market', 'https://polymarket.com/event/mayors-2026/qc-2026?tid=1#x', [2004]],
    ['a URL of an event', 'polymarket.com/event/mayors-2026', [2003, 2004]],
    ['a URL of a market alone', 'https://polymarket.com/market/qc-2026', [2004]],
    ['a URL of the page', 'http://127.0.0.1:8080/market/2004?outcome=1', [2004]],
    ['a URL of the page with a condition id', `/market/0x${condition(2004)}`, [2004]],
    ['a URL for phones', 'm.polymarket.com/event/mayors-2026/qc-2026', [2004]],
    ['a URL with a language', 'https://polymarket.com/fr/event/mayors-2026/qc-2026', [2004]],
    ['a URL in a text', 'Look (https://polymarket.com/market/qc-2026), wow!', [2004]],
    ['a URL without a scheme in a text', 'see www.polymarket.com/event/mayors-2026.', [2003, 2004]],
    ['a URL of a listing', 'https://gamma-api.polymarket.com/markets?slug=qc-2026', [2004]],
    [
      'a URL of an event in the listings',
      'polymarket.com/events?x=1&slug=mayors-2026',
      [2003, 2004],
    ],
    ['a token', tokenOf(2004, 0), [2004]],
    ['the other token', tokenOf(2004, 1), [2004]],
    ['no token of a market', tokenOf(9999, 1), []],
    ['no number beyond tokens', '9'.repeat(78), []],
    ['nothing for an emoji', '😀', []],
    ['a letter too many', 'Londdon', [2002]],
    ['a letter too few', 'Lodon', [2002]],
    ['another letter', 'Lonton', [2002]],
    ['two letters exchanged', 'Lnodon', [2002]],
    ['not two typos in a word', 'Lontn', []],
    ['a typo in each of two words', 'riain Pariss', [2001]],
    ['no typo in a short word', 'xxi', []],
    ['nothing that is not there', 'rain berlin', []],
    ['nothing for punctuation', '?!', []],
  ])('%s', async (_, q, ids) => {
    expect((await stage.search(q)).markets).toEqual(ids);
  });

  test('with their volume, as many as the limit', async () => {
    const { body } = await stage.search('rain', '&limit=1');
    expect(body.markets).toMatchObject([
      { market: { id: 2001, slug: 'rain-paris-may-1' }, volume: 999 },
    ]);
  });

  test('open ones first, by volume, then the others, the last end first; with prices', async () => {
    const day = 86_400;
    const at = (days: number) => new Date((Math.floor(Date.now() / 1_000) + days * day) * 1_000);
    await stage.list(
      [
        { id: 2101, question: 'Comet 1?', slug: 'comet-1' },
        { id: 2102, question: 'Comet 2?', slug: 'comet-2', end: at(-9).toISOString() },
        { id: 2103, question: 'Comet 3?', slug: 'comet-3', end: at(9).toISOString() },
        { id: 2104, question: 'Comet 4?', slug: 'comet-4' },
      ],
      '2026-01-01 00:00:01',
    );
    await stage.client.command({
      query: `INSERT INTO market_marks (condition_id, volume, last)
        SELECT condition_id, 5000 - market_id, (2, 62, 100, now()) FROM markets WHERE market_id > 2100`,
    });
    await stage.client.insert({
      table: 'resolutions',
      columns: ['condition_id_hex', 'payout_0', 'payout_1', 'resolved_at', 'block_number'],
      values: [
        {
          ...{ condition_id_hex: condition(2101), payout_0: 1, payout_1: 0, block_number: 7 },
          resolved_at: Math.floor(at(-1).getTime() / 1_000),
        },
      ],
      format: 'JSONEachRow',
    });
    await stage.refresh();
    const { body, markets } = await stage.search('comet');
    expect(markets).toEqual([2103, 2104, 2101, 2102]);
    const prices = body.markets.map(({ mark }: { mark: { price_1: number } }) => mark.price_1);
    expect(prices).toEqual([620_000, 620_000, 1_000_000, 620_000]);
  });

  test('by any word with any typo', async () => {
    const words = MARKETS.flatMap(({ question }) => question.match(/\p{L}{4,}/gu) ?? []).map(
      (word) => [word, MARKETS.find(({ question }) => question.includes(word))?.id] as const,
    );
    const all = MARKETS.flatMap((market) => Object.values(market).join(' ').toLowerCase());
    const isTyped = (typed: string) =>
      all.some((text) => text.split(/[^\p{L}\p{N}]+/u).some((word) => word.startsWith(typed)));
    const letter = fc.constantFrom(...'aeinrstlou');
    const typo = fc.record({
      word: fc.constantFrom(...words),
      kind: fc.constantFrom('insert', 'delete', 'substitute', 'exchange'),
      at: fc.nat(3),
      letter,
    });
    await fc.assert(
      fc.asyncProperty(typo, async ({ word: [word, id], kind, at, letter }) => {
        const [left, right] = [word.slice(0, at), word.slice(at)];
        const [first = '', second = ''] = right;
        const typed = {
          insert: left + letter + right,
          delete: left + right.slice(1),
          substitute: left + letter + right.slice(1),
          exchange: left + second + first + right.slice(2),
        }[kind as 'insert'];
        // Typos are looked for only if no market has the word as typed.
        fc.pre(typed === word || !isTyped(typed.toLowerCase()));
        expect((await stage.search(typed)).markets, typed).toContain(id);
      }),
      { numRuns: isLong ? 100 : 15 },
    );
  });
});

describe('traders', () => {
  test.each([
    ['words of the name, the whole name first, then by fills', 'car', [1, 0, 2]],
    ['the name without its spaces', 'bluecar', [0]],
    ['the account on X', 'rainmaker', [2]],
    ['@account', '@bluecar_7', [0]],
    ['the beginning of an account or a name', '@rain', [2]],
    ['@name', '@car', [1, 2]],
    ['a URL of a profile', 'https://polymarket.com/@rainmaker', [2]],
    ['a URL of an address', `https://polymarket.com/profile/${TRADERS[3].address}`, [3]],
    ['a URL of the page', `/trader/${TRADERS[3].address}`, [3]],
    ['an address in any case', TRADERS[3].address.toUpperCase().replace('0X', '0x'), [3]],
    ['the beginning of an address', '0xdead5', [3]],
    ['a shortened address', '0xdead…5555', [3]],
    ['a shortened address with dots', '0xDEAD...5555', [3]],
    ['no shortened address with another end', '0xdead…5556', []],
    ['a URL of a profile in a text', 'see https://polymarket.com/@rainmaker?tab=activity!', [2]],
    ['a typo', 'rainmeker', [2]],
    ['a typo that no market has', 'karla', [2]],
    ['no typo of a word that a market has', 'carlo', []],
  ])('%s', async (_, q, found) => {
    expect((await stage.search(q)).traders).toEqual(found);
  });

  test('by a shortened address, even if many others begin like it', async () => {
    const { address } = TRADERS[2];
    const shortened = `${address.slice(0, 4)}…${address.slice(-4)}`;
    expect((await stage.search(shortened, '&limit=1')).traders).toEqual([2]);
  });

  test('by exact name or account in the path of a trader', async () => {
    const addressOf = async (name: string) => {
      const { profile, status } = await stage.trader(`@${encodeURIComponent(name)}`);
      return profile?.address.toLowerCase() ?? status;
    };
    expect(await addressOf('Blue car')).toBe(TRADERS[0].address);
    expect(await addressOf('rainmaker')).toBe(TRADERS[2].address);
    expect([await addressOf('blue'), await addressOf('!')]).toEqual([404, 404]);
  });

  test('with their fills and newest trade', async () => {
    const { body } = await stage.search('blue car');
    expect(body.traders).toMatchObject([{ profile: { name: 'Blue Car' }, fills: 5 }]);
    expect(body.traders[0].last_trade_at).toMatch(/^2026-/);
    const byAddress = await stage.search(TRADERS[0].address);
    expect(byAddress.body.traders).toEqual(body.traders);
  });
});

test('a market and a trader are found by their current names', async () => {
  const renamed = { id: 2009, question: 'Will Atlantis rise?', slug: 'atlantis' };
  await stage.list([renamed], '2026-01-01 00:00:01');
  await stage.list(
    [{ ...renamed, question: 'Will Lemuria rise?', slug: 'lemuria' }],
    '2026-01-02 00:00:00',
  );
  const unnamed = TRADERS[4];
  await stage.profile([{ ...unnamed, name: 'Poseidon' }], '2026-01-01 00:00:01');
  await stage.profile([{ ...unnamed, name: 'Neptune' }], '2026-01-02 00:00:00');
  await stage.refresh();
  expect((await stage.search('lemuria')).markets).toEqual([2009]);
  expect((await stage.search('atlantis')).markets).toEqual([]);
  expect((await stage.search('neptune')).traders).toEqual([4]);
  expect((await stage.search('poseidon')).traders).toEqual([]);
});

test('outdated hits leave no gap in a page', async () => {
  const many = Array.from({ length: 12 }, (_, at) => ({
    id: 3001 + at,
    question: 'Vulcan?',
    slug: `v-${at}`,
  }));
  await stage.list(many, '2026-01-01 00:00:01');
  await stage.list(
    many.slice(0, 9).map((one) => ({ ...one, question: 'Klingon?' })),
    '2026-01-02 00:00:00',
  );
  await stage.client.command({
    query: `INSERT INTO market_marks (condition_id, volume, matches)
      SELECT DISTINCT condition_id, 1, 1 FROM markets WHERE market_id BETWEEN 3001 AND 3012`,
  });
  await stage.refresh();
  for (const limit of [2, 3, 100]) {
    expect(await stage.listed('vulcan', limit)).toEqual([3010, 3011, 3012]);
    expect(await stage.listed('klingon', limit)).toEqual(many.slice(0, 9).map(({ id }) => id));
  }
  expect((await stage.search('vulcan', '&limit=3')).markets).toEqual([3012, 3011, 3010]);
  const all = (await stage.search('klingon', '&limit=9')).markets;
  expect(all.toSorted()).toEqual(many.slice(0, 9).map(({ id }) => id));
});

test('a frequent word finds the greatest volumes, with a rare one its market at any rank', async () => {
  const count = 25_000;
  await stage.client.command({
    query: `INSERT INTO markets (condition_id_hex, market_id, question, slug, outcomes, token_ids, observed_at)
      SELECT leftPad(hex(number), 64, 'd'), 10000 + number,
        multiIf(number = ${count - 1}, 'Galaxies quasar?', number BETWEEN 4990 AND 5009, 'Galaxies nebula?', 'Galaxies?'),
        'g', ['Yes', 'No'], [1, 2], '2026-01-01 00:00:01' FROM numbers(${count})`,
  });
  await stage.client.command({
    query: `INSERT INTO market_marks (condition_id, volume, matches)
      SELECT condition_id, 100000 - market_id, 1 FROM markets WHERE market_id >= 10000`,
  });
  await stage.refresh();
  const ids = [10_000, 10_001, 10_002];
  expect((await stage.search('galaxies', '&limit=3')).markets).toEqual(ids);
  expect((await stage.search('gala', '&limit=3')).markets).toEqual(ids);
  expect((await stage.search('galaxies quasar')).markets).toEqual([10_000 + count - 1]);
  // Ten are among the 5,000 with the greatest volume, ten are not.
  const nebulae = Array.from({ length: 20 }, (_, at) => 14_990 + at);
  for (const limit of [5, 8, 15, 20]) {
    const found = await stage.search('nebula', `&limit=${limit}`);
    expect(found.markets).toEqual(nebulae.slice(0, limit));
  }
});

test('refuses no query, an empty one and one that is too long', async () => {
  for (const query of ['', '?q=', '?q=%20', `?q=${'a'.repeat(301)}`, '?q=a&limit=0']) {
    expect(await stage.status(query), query).toBe(400);
  }
});
