/**
 * What the devnet's markets are about: for every leaderboard tag at least one topic, with its tags,
 * series, rhythm, fee and share of the trading. A new event of a topic ends every `periodHours`, after
 * having been open for `openHours`. The texts of events are in questions.ts.
 */

export type Tag = { readonly id: string; readonly label: string; readonly slug: string };
export type Series = { readonly id: string; readonly slug: string; readonly title: string };

type Shape =
  | { readonly kind: 'game'; readonly league: string; readonly drawPossible: boolean }
  | { readonly kind: 'up-or-down'; readonly coin: string; readonly minutes: number }
  | { readonly kind: 'yes-no' }
  | { readonly kind: 'one-of-many' };

export type Topic = {
  readonly key: string;
  readonly shape: Shape;
  readonly tags: readonly Tag[];
  readonly series: Series | undefined;
  readonly periodHours: number;
  readonly openHours: number;
  /** Taker fee rate in millionths of shares · p(1−p); 0 where a category is free of fees. */
  readonly feeRateMillionths: number;
  readonly feeType: string;
  /** Share of the trading, relative to the other topics. */
  readonly weight: number;
};

const LABELS = {
  sports: 'Sports',
  games: 'Games',
  basketball: 'Basketball',
  nba: 'NBA',
  hockey: 'Hockey',
  nhl: 'NHL',
  soccer: 'Soccer',
  EPL: 'EPL',
  tennis: 'Tennis',
  atp: 'ATP',
  baseball: 'baseball',
  mlb: 'MLB',
  esports: 'Esports',
  'counter-strike-2': 'Counter Strike 2',
  'dota-2': 'Dota 2',
  'league-of-legends': 'League of Legends',
  crypto: 'Crypto',
  'crypto-prices': 'Crypto Prices',
  'up-or-down': 'Up or Down',
  recurring: 'Recurring',
  bitcoin: 'Bitcoin',
  ethereum: 'Ethereum',
  solana: 'Solana',
  xrp: 'XRP',
  '5M': '5M',
  '15M': '15M',
  '1H': '1H',
  geopolitics: 'Geopolitics',
  world: 'World',
  politics: 'Politics',
  'us-politics': 'US Politics',
  elections: 'Elections',
  finance: 'Finance',
  stocks: 'Stocks',
  economy: 'Economy',
  fed: 'Fed',
  tech: 'Tech',
  ai: 'AI',
  'pop-culture': 'Culture',
  movies: 'Movies',
  weather: 'Weather',
  'daily-temperature': 'Daily Temperature',
  'tweets-markets': 'Tweet Markets',
  'elon-musk': 'Elon Musk',
} as const;

type TagSlug = keyof typeof LABELS;
const TAG_SLUGS = Object.keys(LABELS) as readonly TagSlug[];
const TAG_ID_FIRST = 100_001;
const SERIES_ID_FIRST = 10_001;

/** Every tag that occurs. */
export const TAGS: readonly Tag[] = TAG_SLUGS.map(tag);

/** Every topic, in a fixed order: a topic's place is part of its markets' ids. */
export const TOPICS: readonly Topic[] = [
  game('nba', 'NBA', ['sports', 'games', 'basketball', 'nba'], 4, 7),
  game('nhl', 'NHL', ['sports', 'games', 'hockey', 'nhl'], 5, 5),
  game('epl', 'EPL', ['sports', 'games', 'soccer', 'EPL'], 6, 8, true),
  game('atp', 'ATP', ['sports', 'games', 'tennis', 'atp'], 4, 6),
  game('mlb', 'MLB', ['sports', 'games', 'baseball', 'mlb'], 8, 3),
  game('cs2', 'Counter-Strike', ['sports', 'esports', 'games', 'counter-strike-2'], 5, 4),
  game('dota2', 'Dota 2', ['sports', 'esports', 'games', 'dota-2'], 6, 4),
  game('lol', 'LoL', ['sports', 'esports', 'games', 'league-of-legends'], 5, 4),
  ...(['bitcoin', 'ethereum', 'solana', 'xrp'] as const).flatMap((coin) => [
    upOrDown(coin, 5, '5M', coin === 'bitcoin' ? 6 : 2),
    upOrDown(coin, 15, '15M', coin === 'bitcoin' ? 5 : 1.5),
  ]),
  upOrDown('bitcoin', 60, '1H', 3),
  topic('crypto-price', 'one-of-many', ['crypto', 'crypto-prices', 'bitcoin'], 12, 48, 5),
  topic('geopolitics', 'yes-no', ['geopolitics', 'world'], 30, 240, 6),
  topic('politics', 'yes-no', ['politics', 'us-politics'], 24, 200, 7),
  topic('elections', 'one-of-many', ['politics', 'elections', 'world'], 48, 240, 6),
  topic('stocks', 'yes-no', ['finance', 'stocks'], 12, 60, 5),
  topic('fed', 'one-of-many', ['economy', 'finance', 'fed'], 48, 200, 5),
  topic('ai', 'one-of-many', ['tech', 'ai'], 36, 180, 5),
  topic('movies', 'yes-no', ['pop-culture', 'movies'], 18, 120, 5),
  topic('temperature', 'one-of-many', ['weather', 'daily-temperature'], 8, 40, 5),
  topic('tweets', 'one-of-many', ['tweets-markets', 'pop-culture', 'elon-musk'], 24, 96, 5),
];

function tag(slug: TagSlug): Tag {
  return { id: String(TAG_ID_FIRST + TAG_SLUGS.indexOf(slug)), label: LABELS[slug], slug };
}

function seriesOf(slug: string, title: string): Series {
  // A stable small number from the slug; the devnet's few series do not collide (unit test).
  const sum = [...slug].reduce((hash, letter) => (hash * 31 + letter.charCodeAt(0)) % 89_989, 7);
  return { id: String(SERIES_ID_FIRST + sum), slug, title };
}

function game(
  key: string,
  league: string,
  tags: readonly TagSlug[],
  periodHours: number,
  weight: number,
  drawPossible = false,
): Topic {
  return {
    key,
    shape: { kind: 'game', league, drawPossible },
    tags: tags.map(tag),
    series: seriesOf(key === 'epl' ? 'premier-league' : key, league),
    periodHours,
    openHours: periodHours * 3,
    feeRateMillionths: 30_000,
    feeType: 'sports_fees_v2',
    weight,
  };
}

function upOrDown(coin: TagSlug, minutes: number, rhythm: TagSlug, weight: number): Topic {
  const ticker = { bitcoin: 'btc', ethereum: 'eth', solana: 'sol' }[coin as string] ?? coin;
  const suffix = minutes < 60 ? `${minutes}m` : 'hourly';
  return {
    key: `${ticker}-${suffix}`,
    shape: { kind: 'up-or-down', coin, minutes },
    tags: ['crypto', 'up-or-down', 'recurring', 'crypto-prices', coin, rhythm].map((slug) =>
      tag(slug as TagSlug),
    ),
    series: seriesOf(`${ticker}-up-or-down-${suffix}`, `${LABELS[coin]} Up or Down ${suffix}`),
    periodHours: minutes / 60,
    openHours: minutes / 60,
    feeRateMillionths: 70_000,
    feeType: 'crypto_fees_v2',
    weight,
  };
}

function topic(
  key: string,
  kind: 'yes-no' | 'one-of-many',
  tags: readonly TagSlug[],
  periodHours: number,
  openHours: number,
  weight: number,
): Topic {
  const category = tags[0] ?? 'world';
  const free = category === 'geopolitics';
  const rate = category === 'crypto' ? 70_000 : category === 'economy' ? 50_000 : 40_000;
  return {
    key,
    shape: { kind },
    tags: tags.map(tag),
    series: kind === 'one-of-many' ? seriesOf(`${key}-recurring`, LABELS[category]) : undefined,
    periodHours,
    openHours,
    feeRateMillionths: free ? 0 : rate,
    feeType: `${category.replaceAll('-', '_')}_fees`,
    weight,
  };
}
