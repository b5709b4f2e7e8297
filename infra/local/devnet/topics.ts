/**
 * The devnet's topics: at least one for every leaderboard tag, each with its tags, series, rhythm, fee and
 * share of the trading. An event of a topic ends every `periodHours`, after it was open for `openHours`. The
 * second half writes the words of events, drawn from fixed lists. They are invented; any likeness to a real
 * event is one of form only.
 */
import type { Random } from './random.ts';

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
  /** Taker fee rate in millionths of shares · p(1−p); 0 for categories without fees. */
  readonly feeRateMillionths: number;
  readonly feeType: string;
  /** Share of the trading, relative to other topics. */
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

/** All topics, in a fixed order: a topic's index is part of its markets' ids. */
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
  // A small stable number from the slug. A unit test checks that the devnet's series do not collide.
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

type Question = {
  readonly question: string;
  readonly slugEnd: string;
  readonly outcomes: readonly [string, string];
  /** Probability of outcome 0 at the opening, 0.03 to 0.97. */
  readonly odds: number;
  readonly groupItemTitle: string;
  readonly sportsMarketType: string | undefined;
};

/** What most questions have in common. */
const PLAIN = { slugEnd: '', groupItemTitle: '', sportsMarketType: undefined } as const;

type EventText = {
  readonly title: string;
  readonly slugStart: string;
  /** Whether exactly one of the questions resolves to its outcome 0. */
  readonly exclusive: boolean;
  readonly questions: readonly Question[];
};

const YES_NO = ['Yes', 'No'] as const;
const ODDS_MIN = 0.03;

const TEAMS: Readonly<Record<string, readonly string[]>> = {
  nba: ['Bulls', 'Celtics', 'Heat', 'Knicks', 'Lakers', 'Nuggets', 'Suns', 'Warriors'],
  nhl: ['Bruins', 'Flames', 'Kings', 'Oilers', 'Rangers', 'Sharks', 'Stars', 'Wild'],
  epl: ['Arsenal', 'Brighton', 'Chelsea', 'Everton', 'Fulham', 'Leeds', 'Liverpool', 'Wolves'],
  atp: ['Almeida', 'Berg', 'Castellano', 'Dumont', 'Eriksen', 'Fischer', 'Horvat', 'Ivanov'],
  mlb: ['Brewers', 'Cubs', 'Dodgers', 'Giants', 'Mets', 'Padres', 'Royals', 'Yankees'],
  cs2: ['Aurora', 'Falcons', 'FaZe', 'G2', 'MOUZ', 'NAVI', 'Spirit', 'Vitality'],
  dota2: ['BetBoom', 'Gaimin', 'Liquid', 'OG', 'PARIVISION', 'Secret', 'Tidebound', 'Tundra'],
  lol: ['Bilibili', 'Fnatic', 'Gen.G', 'Hanwha', 'KT Rolster', 'T1', 'Top Esports', 'Weibo'],
};

const YES_NO_QUESTIONS: Readonly<Record<string, readonly string[]>> = {
  geopolitics: [
    'Ceasefire in the northern corridor by',
    'Border crossing reopened by',
    'Summit of the two presidents held before',
    'Naval blockade lifted by',
    'Prisoner exchange announced by',
  ],
  politics: [
    'Budget bill signed by',
    'Cabinet member out before',
    'Senate vote on the tariff act by',
    'Government shutdown before',
    'Supreme Court ruling on the case by',
  ],
  stocks: [
    'S&P 500 closes green on',
    'NVDA closes above its open on',
    'Gold closes higher on',
    'Tesla closes up on',
    'Nasdaq 100 up on',
  ],
  movies: [
    'Film of the week above $60M opening by',
    'Album of the month tops the chart on',
    'Season finale announced by',
    'Surprise single released before',
    'Awards show host confirmed by',
  ],
};

const CHOICES: Readonly<
  Record<string, { readonly title: string; readonly items: readonly string[] }>
> = {
  'crypto-price': {
    title: 'Bitcoin price on',
    items: ['<90k', '90-94k', '94-98k', '98-102k', '>102k'],
  },
  elections: {
    title: 'Winner of the presidential election of',
    items: ['A. Moreno', 'B. Okafor', 'C. Lindqvist', 'D. Haddad', 'Other'],
  },
  fed: {
    title: 'Central bank decision on',
    items: ['50+ bps decrease', '25 bps decrease', 'No change', '25+ bps increase'],
  },
  ai: {
    title: 'Which company has the best AI model on',
    items: ['Google', 'OpenAI', 'Anthropic', 'xAI', 'DeepSeek'],
  },
  temperature: {
    title: 'Highest temperature in New York on',
    items: ['41°F or below', '42-43°F', '44-45°F', '46-47°F', '48°F or higher'],
  },
  tweets: {
    title: 'Number of posts until',
    items: ['<180', '180-199', '200-219', '220-239', '240+'],
  },
};

/** Writes an event of a topic between two times (unix seconds). */
export function writeEvent(
  topic: Topic,
  startTime: number,
  endTime: number,
  random: Random,
): EventText {
  const shape = topic.shape;
  switch (shape.kind) {
    case 'game':
      return writeGame(topic, shape.drawPossible, endTime, random);
    case 'up-or-down':
      return writeUpOrDown(topic, shape.coin, startTime, endTime);
    case 'yes-no':
      return writeYesNo(topic, endTime, random);
    case 'one-of-many':
      return writeOneOfMany(topic, endTime, random);
    default:
      throw new TypeError(`unknown shape ${JSON.stringify(shape satisfies never)}`);
  }
}

function writeGame(topic: Topic, draw: boolean, endTime: number, random: Random): EventText {
  const teams = TEAMS[topic.key] ?? [];
  const home = random.below(teams.length);
  const away = (home + 1 + random.below(teams.length - 1)) % teams.length;
  const [a, b] = [String(teams[home]), String(teams[away])];
  const strength = random.between(0.25, 0.75);
  const title = `${a} vs. ${b}`;
  const slugStart = `${topic.key}-${slugOf(a)}-${slugOf(b)}-${dayOf(endTime)}`;
  if (draw) {
    const odds = [strength * 0.75, 0.25, (1 - strength) * 0.75] as const;
    const items = [`${a}`, `Draw (${title})`, `${b}`] as const;
    const questions = items.map((item, i) => ({
      question: i === 1 ? `Will ${title} end in a draw?` : `Will ${item} win on ${dayOf(endTime)}?`,
      slugEnd: i === 1 ? 'draw' : slugOf(item),
      outcomes: YES_NO,
      odds: odds[i] ?? ODDS_MIN,
      groupItemTitle: item,
      sportsMarketType: 'moneyline',
    }));
    return { title, slugStart, exclusive: true, questions };
  }
  const line = random.below(9) + 0.5;
  const total = { nba: 220, nhl: 5, mlb: 8 }[topic.key] ?? 2;
  const questions: readonly Question[] = [
    {
      ...PLAIN,
      question: title,
      outcomes: [a, b],
      odds: strength,
      sportsMarketType: 'moneyline',
    },
    {
      question: `Spread: ${a} (-${line})`,
      slugEnd: `spread-home-${slugNumber(line)}`,
      outcomes: [a, b],
      odds: Math.max(0.1, strength - 0.12),
      groupItemTitle: `Spread -${line}`,
      sportsMarketType: 'spreads',
    },
    {
      question: `${title}: O/U ${total + line}`,
      slugEnd: `total-${slugNumber(total + line)}`,
      outcomes: ['Over', 'Under'],
      odds: 0.5,
      groupItemTitle: `O/U ${total + line}`,
      sportsMarketType: 'totals',
    },
  ];
  return { title, slugStart, exclusive: false, questions };
}

function writeUpOrDown(topic: Topic, coin: string, startTime: number, endTime: number): EventText {
  const name = coin === 'xrp' ? 'XRP' : coin.charAt(0).toUpperCase() + coin.slice(1);
  const window = `${clockOf(startTime)}-${clockOf(endTime)} UTC`;
  const title = `${name} Up or Down - ${dayOf(startTime)}, ${window}`;
  const slugStart = `${topic.key.replace(/-(\w+)$/, '-updown-$1')}-${startTime}`;
  const questions = [{ ...PLAIN, question: title, outcomes: ['Up', 'Down'] as const, odds: 0.5 }];
  return { title, slugStart, exclusive: false, questions };
}

function writeYesNo(topic: Topic, endTime: number, random: Random): EventText {
  const start = random.pick(YES_NO_QUESTIONS[topic.key] ?? []);
  const title = `${start} ${dayOf(endTime)}?`;
  const odds = random.between(0.12, 0.88);
  const slugStart = slugOf(`${start}-${dayOf(endTime)}`);
  const questions = [{ ...PLAIN, question: title, outcomes: YES_NO, odds }];
  return { title, slugStart, exclusive: false, questions };
}

function writeOneOfMany(topic: Topic, endTime: number, random: Random): EventText {
  const choice = CHOICES[topic.key] ?? { title: topic.key, items: [] };
  const weights = choice.items.map(() => random.between(0.2, 2) ** 2);
  const sum = weights.reduce((a, b) => a + b, 0);
  const title = `${choice.title} ${dayOf(endTime)}?`;
  const slugStart = slugOf(`${choice.title}-${dayOf(endTime)}`);
  const questions = choice.items.map((item, i) => ({
    ...PLAIN,
    question: `${title.slice(0, -1)}: ${item}?`,
    slugEnd: slugOf(item),
    outcomes: YES_NO,
    odds: Math.max(ODDS_MIN, Math.min(0.9, (weights[i] ?? 0) / sum)),
    groupItemTitle: item,
  }));
  return { title, slugStart, exclusive: true, questions };
}

/** 4.5 is `4pt5` in slugs. */
function slugNumber(value: number): string {
  return String(value).replace('.', 'pt');
}

function slugOf(text: string): string {
  return text
    .toLowerCase()
    .replaceAll('<', 'below-')
    .replaceAll('>', 'above-')
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-|-$/g, '');
}

function dayOf(time: number): string {
  return new Date(time * 1000).toISOString().slice(0, 10);
}

function clockOf(time: number): string {
  return new Date(time * 1000).toISOString().slice(11, 16);
}
