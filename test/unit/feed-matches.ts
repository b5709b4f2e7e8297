/**
 * Generates matches for tests of the order feed from a number and a seeded generator, so that a failure can be
 * reproduced with the seed that a test prints.
 */
import type { FeedFill, FeedMatch } from '../../ingest/contract.ts';

const TAGS = ['sports', 'Crypto', '5M', 'politics', 'eSports'];
const SERIES = ['', 'btc-hourly', 'NFL'];

/** Address number n, 0x000…n. */
export function address(n: number): `0x${string}` {
  return `0x${n.toString(16).padStart(40, '0')}`;
}

/** Hash number n, 0x000…n. */
export function hash(n: number): `0x${string}` {
  return `0x${n.toString(16).padStart(64, '0')}`;
}

export function fill(n: number, over: Partial<FeedFill> = {}): FeedFill {
  return {
    orderHash: hash(1_000_000 + n),
    side: 'BUY',
    outcomeIndex: 0,
    tokenId: '71321045679252212594626385532706912750332728571942532289631379312455583992563',
    shares: 10_000_000n,
    usdc: 4_500_000n,
    fee: 0n,
    trader: {
      address: address(n),
      name: `trader-${n}`,
      profileImage: '',
      xUsername: '',
      createdAt: '2025-01-02T03:04:05Z',
    },
    order: null,
    ...over,
  };
}

export function market(over: Partial<FeedMatch['market']> = {}): FeedMatch['market'] {
  return {
    marketId: '512345',
    question: 'Will “it” rain\nin Zürich? 雨',
    slug: 'will-it-rain',
    startDate: '2025-10-01T00:00:00Z',
    endDate: '2025-12-31T12:00:00Z',
    icon: 'https://images.example/icon.png',
    negRisk: false,
    eventSlug: 'rain',
    eventTitle: 'Rain',
    eventIcon: 'https://images.example/event.png',
    seriesSlug: 'weather-daily',
    tags: ['weather', '5M'],
    outcomes: ['Yes', 'No'],
    tokenIds: ['1', '2'],
    groupItemTitle: '',
    sportsMarketType: '',
    resolvedAt: '',
    winningOutcome: '',
    ...over,
  };
}

export function match(n: number, over: Partial<FeedMatch> = {}): FeedMatch {
  return {
    kind: 'match',
    txHash: hash(n),
    conditionId: hash(2_000_000),
    detectedAtMs: 1_760_000_000_000 + n,
    pending: true,
    market: market(),
    taker: fill(1),
    makers: [fill(2, { side: 'SELL', outcomeIndex: 1 })],
    ...over,
  };
}

/** Match number n with traders 1 … 12, tags, series and amounts drawn from the generator. */
export function randomMatch(n: number, random: () => number): FeedMatch {
  const below = (count: number) => Math.floor(random() * count);
  const amounts = () => {
    const shares = 1 + below(50_000_000);
    return { shares: BigInt(shares), usdc: BigInt(below(shares + 1)) };
  };
  return match(n, {
    market: market({
      tags: TAGS.filter(() => random() < 0.4),
      seriesSlug: SERIES[below(SERIES.length)] ?? '',
    }),
    taker: fill(1 + below(12), amounts()),
    makers: Array.from({ length: 1 + below(3) }, () => fill(1 + below(12), amounts())),
  });
}

/**
 * Whether a match passes a query string, implemented naively for amounts below 10^8 micro-units and bounds with at most
 * four decimals, whose products are exact as numbers.
 */
export function naivelyPasses(query: string, match: FeedMatch): boolean {
  const given = new URLSearchParams(query);
  const list = (name: string) => (given.get(name) ?? '').toLowerCase().split(',').filter(Boolean);
  const participants = [match.taker, ...match.makers].map(({ trader }) => trader.address);
  const carried = match.market.tags.map((tag) => tag.toLowerCase());
  const isTraditional = (tag: string) => tag !== 'sports' || !carried.includes('esports');
  const tags = carried.filter(isTraditional);
  const series = match.market.seriesSlug.toLowerCase();
  const anyOf = (wanted: string[], had: string[]) =>
    wanted.length === 0 || wanted.some((one) => had.includes(one));
  const inBounds = (name: string, value: number, unit: number, below = value) => {
    const bound = (which: string) => Math.round(Number(given.get(`${which}_${name}`)) * 1e4) * unit;
    return (
      (!given.has(`min_${name}`) || value * 1e4 >= bound('min') || below * 1e4 > bound('min')) &&
      (!given.has(`max_${name}`) || value * 1e4 <= bound('max'))
    );
  };
  const usdc = Number(match.taker.usdc);
  const shares = Number(match.taker.shares);
  return (
    anyOf(list('traders'), participants) &&
    (list('tags').includes('all') || anyOf(list('tags'), tags)) &&
    anyOf(list('series'), [series]) &&
    inBounds('usdc', usdc, 1e6) &&
    inBounds('shares', shares, 1e6) &&
    inBounds('price', usdc * 100, shares, (usdc + 1) * 100)
  );
}
