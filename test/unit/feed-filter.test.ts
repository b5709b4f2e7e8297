// Filters of the order feed: compares the query, the predicate and the index with naive implementations.
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { encodeMatch } from '../../api/feed/encode.ts';
import { FilterIndex, factsOf, filterOf, filtersNothing, matches } from '../../api/feed/filter.ts';
import { parseFeedQuery } from '../../api/feed/query.ts';
import { Problem } from '../../api/http/errors.ts';
import type { LabelledMatch } from '../../apps/client/index.ts';
import { passes as passesInPage, unionOf } from '../../apps/web/feed-filter.ts';
import golden from '../fixtures/market-2182202.json' with { type: 'json' };
import prices from '../fixtures/prices.json' with { type: 'json' };
import { generator, SEED as TEST_SEED } from '../support/seed.ts';
import { address, fill, market, match, naivelyPasses, randomMatch } from './feed-matches.ts';

type FeedQuery = ReturnType<typeof parse>;

function parse(query: string) {
  const given = parseFeedQuery(Object.fromEntries(new URLSearchParams(query)), undefined);
  return { ...given, filter: given.filterOf([]) };
}

function passes(query: string, taker: { usdc: bigint; shares: bigint }): boolean {
  return matches(parse(query).filter, factsOf(match(1, { taker: fill(1, taker) })));
}

function issuesOf(query: string, header?: string): readonly string[] {
  try {
    parseFeedQuery(Object.fromEntries(new URLSearchParams(query)), header);
  } catch (error) {
    if (error instanceof Problem) return (error.issues ?? []).map(({ path }) => path);
    throw error;
  }
  return [];
}

const tags = fc.subarray(['SPORTS', 'esports', 'crypto', '5m', 'politics', 'absent', 'ALL']);
const series = fc.subarray(['btc-HOURLY', 'nfl', 'absent']);
const traders = fc.subarray(Array.from({ length: 14 }, (_, n) => address(n)));
const decimal = (max: number) =>
  fc
    .integer({ min: 0, max: max * 10_000 })
    .map((tenThousandths) => String(tenThousandths / 10_000));
const bounds = (name: string, max: number) =>
  fc
    .tuple(fc.option(decimal(max)), fc.option(decimal(max)))
    .filter(([min, max]) => min === null || max === null || Number(min) <= Number(max))
    .map(([min, max]) => [
      ...(min === null ? [] : [`min_${name}=${min}`]),
      ...(max === null ? [] : [`max_${name}=${max}`]),
    ]);
const query = fc
  .tuple(
    fc.tuple(traders, tags, series).map(([some, slugs, names]) =>
      Object.entries({ traders: some, tags: slugs, series: names })
        .filter(([, list]) => list.length > 0)
        .map(([name, list]) => `${name}=${list.join(',')}`),
    ),
    bounds('usdc', 50),
    bounds('shares', 50),
    bounds('price', 100),
  )
  .map((parts) => parts.flat().join('&'));

describe('matches', () => {
  test('agrees with the naive predicate', () => {
    const seed = TEST_SEED;
    console.info(`seed ${seed}`);
    const random = generator(seed);
    const stored = Array.from({ length: 60 }, (_, n) => randomMatch(n, random));
    fc.assert(
      fc.property(query, (text) => {
        const { filter } = parse(text);
        for (const one of stored) {
          expect(matches(filter, factsOf(one))).toBe(naivelyPasses(text, one));
        }
      }),
      { seed, numRuns: 300 },
    );
  });

  test('includes the exact bounds', () => {
    const third = { usdc: 3_333_333n, shares: 10_000_000n };
    expect(passes('min_price=33.33333', third)).toBe(true);
    expect(passes('max_price=33.33333', third)).toBe(true);
    expect(passes('min_price=33.33333999999999', third)).toBe(true);
    expect(passes('min_price=33.33334', third)).toBe(false);
    expect(passes('max_price=33.333329999999999999999999999999', third)).toBe(false);
    expect(passes('min_usdc=3.333333&max_usdc=3.333333', third)).toBe(true);
    expect(passes('min_usdc=3.3333330001', third)).toBe(false);
    expect(passes('max_usdc=3.3333329999', third)).toBe(false);
    expect(passes('max_usdc=3.3333339999', third)).toBe(true);
    expect(passes('min_shares=10&max_shares=1e1', third)).toBe(true);
  });

  test.each(prices.legs)('finds $shares shares for $usdc at $price cents', ({ price, ...leg }) => {
    const taker = { usdc: BigInt(leg.usdc), shares: BigInt(leg.shares) };
    expect(passes(`min_price=${price}&max_price=${price}`, taker)).toBe(true);
    expect(passes(`min_price=${price + 0.1}`, taker)).toBe(false);
    expect(passes(`max_price=${price - 0.1}`, taker)).toBe(false);
  });

  test('finds every buy of a real market that spent whole micro-USDC, at its tick', () => {
    const buys = golden.traders.flatMap(({ fills }) =>
      fills
        .filter(([, , side, , , , isTaker]) => isTaker && side === 'BUY')
        .map(([, , , shares, usdc]) => ({
          usdc: BigInt(String(usdc)),
          shares: BigInt(String(shares)),
        })),
    );
    // Other buys took several prices.
    const atTick = buys.flatMap((buy) => {
      const cents = (buy.usdc * 100n + buy.shares - 1n) / buy.shares;
      return (cents * buy.shares) / 100n === buy.usdc ? [{ buy, cents }] : [];
    });
    expect([buys.length, atTick.length]).toEqual([707, 626]);
    for (const { buy, cents } of atTick) {
      expect(passes(`min_price=${cents}&max_price=${cents}`, buy)).toBe(true);
    }
  });

  test('is exact for the largest amounts', () => {
    const largest = { usdc: 9_007_199_254_740_990n, shares: 9_007_199_254_740_991n };
    // 100 − 1.1·10^-14: between bounds with 13 and 14 nines after the decimal point.
    expect(passes('max_price=99.99999999999999', largest)).toBe(true);
    expect(passes('max_price=99.9999999999999', largest)).toBe(false);
    expect(passes('min_price=100', largest)).toBe(false);
    expect(passes('min_usdc=9007199254.740991', largest)).toBe(false);
  });

  test('treats the price of a fill without shares as infinite', () => {
    expect(passes('min_price=100', { usdc: 1n, shares: 0n })).toBe(true);
    expect(passes('max_price=100', { usdc: 1n, shares: 0n })).toBe(false);
  });

  test('finds a trader among the makers, and slugs in any letter case', () => {
    const one = factsOf(match(1, { market: market({ tags: ['5M'], seriesSlug: 'NFL' }) }));
    expect(matches(parse(`traders=${address(2)}`).filter, one)).toBe(true);
    expect(matches(parse('tags=5m&series=nfl').filter, one)).toBe(true);
    expect(matches(parse('tags=15M').filter, one)).toBe(false);
  });
});

describe('the filters of the page', () => {
  const random = generator(TEST_SEED);
  const shown = Array.from({ length: 60 }, (_, n) => {
    const one = randomMatch(n, random);
    return { one, labelled: JSON.parse(encodeMatch(one, 'json', String(n))) as LabelledMatch };
  });
  const given = (text: string) => Object.fromEntries(new URLSearchParams(text));

  test('pass what the server passes', () => {
    fc.assert(
      fc.property(query, (text) => {
        for (const { one, labelled } of shown) {
          expect(passesInPage(given(text), labelled)).toBe(naivelyPasses(text, one));
        }
      }),
    );
  });

  test('find a market by id, condition id and slug', () => {
    const [{ labelled }] = shown as [(typeof shown)[number]];
    const { condition_id, id, slug } = labelled.market;
    for (const markets of [id, condition_id, `absent, ${slug.toUpperCase()}`]) {
      expect(passesInPage({ markets }, labelled)).toBe(true);
    }
    expect(passesInPage({ markets: 'absent' }, labelled)).toBe(false);
  });

  test('have a union that passes what any of them passes, and is a filter of the API', () => {
    fc.assert(
      fc.property(fc.array(query, { minLength: 1, maxLength: 4 }), (several) => {
        const union = unionOf(several.map(given));
        const text = new URLSearchParams(union).toString();
        for (const { one } of shown) {
          const isWanted = several.some((each) => naivelyPasses(each, one));
          if (isWanted) expect(matches(parse(text).filter, factsOf(one))).toBe(true);
        }
      }),
    );
  });

  test('of one tab is that of the stream, and of several what they have in common', () => {
    expect(unionOf([{ tags: 'crypto', min_usdc: '5' }])).toEqual({ tags: 'crypto', min_usdc: '5' });
    expect(
      unionOf([
        { markets: '2', min_usdc: '5' },
        { markets: '1', min_usdc: '5', tags: 'a' },
      ]),
    ).toEqual({ markets: '1,2', min_usdc: '5' });
    expect(unionOf([{ markets: '2' }, {}])).toEqual({});
  });
});

describe('filtersNothing', () => {
  test('is true only if no parameter filters', () => {
    expect(filtersNothing(filterOf({}))).toBe(true);
    expect(filtersNothing(parse('tags=all&format=json').filter)).toBe(true);
    for (const query of [
      ...[`traders=${address(1)}`, 'tags=crypto', 'series=nfl', 'min_usdc=0', 'max_usdc=0'],
      ...['min_shares=0', 'max_shares=0', 'min_price=0', 'max_price=0'],
    ]) {
      expect(filtersNothing(parse(query).filter)).toBe(false);
    }
  });
});

describe('FilterIndex', () => {
  test('finds every member that matches, and none that was removed', () => {
    const seed = TEST_SEED;
    console.info(`seed ${seed}`);
    const random = generator(seed);
    fc.assert(
      fc.property(fc.array(query, { maxLength: 12 }), fc.nat(11), (texts, removed) => {
        const index = new FilterIndex<FeedQuery>();
        const members = texts.map(parse);
        for (const member of members) index.add(member);
        const gone = members[removed];
        if (gone !== undefined) index.delete(gone);
        for (let n = 0; n < 10; n += 1) {
          const facts = factsOf(randomMatch(n, random));
          const found = new Set<FeedQuery>();
          index.forEachCandidate(facts, (member) => found.add(member));
          const wanted = members.filter((one) => one !== gone && matches(one.filter, facts));
          expect([...found].filter(({ filter }) => matches(filter, facts)).length).toBe(
            wanted.length,
          );
          expect(gone === undefined || !found.has(gone)).toBe(true);
        }
      }),
      { seed, numRuns: 200 },
    );
  });
});

describe('parseFeedQuery', () => {
  test('joins repeated lists and drops empty items; without parameters, everything passes', () => {
    const { filter, format, requested } = parse('');
    expect([filtersNothing(filter), format, requested]).toEqual([true, 'compact', 0n]);
    const { filterOf: repeated } = parseFeedQuery({ tags: ['a, B,', 'b'] }, undefined);
    expect(repeated([])).toEqual(filterOf({ tags: ['a', 'b'] }));
  });

  test.each([
    ['traders=0x12,1x13', ['traders.0', 'traders.1']],
    ['min_usdc=&max_usdc=NaN&min_shares=Infinity', ['min_usdc', 'max_usdc', 'min_shares']],
    ['min_usdc=1,5', ['min_usdc']],
    ['min_usdc=.', ['min_usdc']],
    ['min_usdc=1e99', ['min_usdc']],
    ['min_price=-0.1&max_price=100.0000001', ['min_price', 'max_price']],
    ['min_shares=2&max_shares=1.999', ['min_shares']],
    ['format=', ['format']],
    ['format=JSON', ['format']],
    ['lastEventId=x', ['lastEventId']],
    ['traders=&tags=,%20,&series=', ['traders', 'tags', 'series']],
    ['trader=0x12&constructor=1', ['trader', 'constructor']],
  ])('rejects %s', (text, paths) => {
    expect(issuesOf(text)).toEqual(paths);
  });

  test('prefers the header over the parameter', () => {
    expect(parseFeedQuery({ lastEventId: '7' }, '8').requested).toBe(8n);
    expect(parseFeedQuery({ lastEventId: '7' }, '').requested).toBe(7n);
    expect(issuesOf('lastEventId=7', 'x')).toEqual(['Last-Event-ID']);
  });
});
