/**
 * The devnet's topics: at least one for every leaderboard tag, each with its tags, series, rhythm, fee and share of
 * the trading. An event of a topic ends every `periodHours`, after it was open for `openHours`. The second half
 * generates the texts of events from fixed lists. They are invented and only look like real events.
 */
import type { Random } from './random.ts';

type Shape =
  | { readonly kind: 'game'; readonly drawPossible: boolean }
  | { readonly kind: 'up-or-down'; readonly coin: string }
  | { readonly kind: 'yes-no' }
  | { readonly kind: 'one-of-many' };

export type Topic = {
  readonly key: string;
  readonly shape: Shape;
  /** Slugs. */
  readonly tags: readonly string[];
  /** Slug of the series that its events belong to. */
  readonly series: string | undefined;
  readonly periodHours: number;
  readonly openHours: number;
  /** Taker fee rate in millionths of shares · p(1−p); 0 for categories without fees. */
  readonly feeRateMillionths: number;
  /** Share of the trading, relative to other topics. */
  readonly weight: number;
  /** Its markets are of protocol version 2, and combos of its games are traded. */
  readonly isV2?: true;
};

/** All topics, in a fixed order: a topic's index is part of its markets' ids. */
export const TOPICS: readonly Topic[] = [
  game('nba', ['sports', 'games', 'basketball', 'nba'], 4, 7),
  game('nhl', ['sports', 'games', 'hockey', 'nhl'], 5, 5),
  game('epl', ['sports', 'games', 'soccer', 'EPL'], 6, 8, true),
  game('atp', ['sports', 'games', 'tennis', 'atp'], 4, 6),
  { ...game('mlb', ['sports', 'games', 'baseball', 'mlb'], 8, 5), isV2: true },
  game('cs2', ['sports', 'esports', 'games', 'counter-strike-2'], 5, 4),
  game('dota2', ['sports', 'esports', 'games', 'dota-2'], 6, 4),
  game('lol', ['sports', 'esports', 'games', 'league-of-legends'], 5, 4),
  ...['bitcoin', 'ethereum', 'solana', 'xrp'].flatMap((coin) => [
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
  {
    ...topic('temperature', 'one-of-many', ['weather', 'daily-temperature'], 8, 40, 5),
    isV2: true,
  },
  topic('tweets', 'one-of-many', ['tweets-markets', 'pop-culture', 'elon-musk'], 24, 96, 5),
];

function game(
  key: string,
  tags: readonly string[],
  periodHours: number,
  weight: number,
  drawPossible = false,
): Topic {
  return {
    key,
    shape: { kind: 'game', drawPossible },
    tags,
    series: key === 'epl' ? 'premier-league' : key,
    periodHours,
    openHours: periodHours * 3,
    feeRateMillionths: 30_000,
    weight,
  };
}

function upOrDown(coin: string, minutes: number, rhythm: string, weight: number): Topic {
  const ticker = { bitcoin: 'btc', ethereum: 'eth', solana: 'sol' }[coin] ?? coin;
  const suffix = minutes < 60 ? `${minutes}m` : 'hourly';
  return {
    key: `${ticker}-${suffix}`,
    shape: { kind: 'up-or-down', coin },
    tags: ['crypto', 'up-or-down', 'recurring', 'crypto-prices', coin, rhythm],
    series: `${ticker}-up-or-down-${suffix}`,
    periodHours: minutes / 60,
    openHours: minutes / 60,
    feeRateMillionths: 70_000,
    weight,
  };
}

function topic(
  key: string,
  kind: 'yes-no' | 'one-of-many',
  tags: readonly string[],
  periodHours: number,
  openHours: number,
  weight: number,
): Topic {
  const rates: Readonly<Record<string, number>> = {
    geopolitics: 0,
    crypto: 70_000,
    economy: 50_000,
  };
  return {
    key,
    shape: { kind },
    tags,
    series: kind === 'one-of-many' ? `${key}-recurring` : undefined,
    periodHours,
    openHours,
    feeRateMillionths: rates[tags[0] ?? ''] ?? 40_000,
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

/** Fields of most questions. */
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
  Record<string, { readonly titles: readonly string[]; readonly items: readonly string[] }>
> = {
  'crypto-price': {
    titles: ['Bitcoin price before noon on', 'Bitcoin price after noon on'],
    items: ['<90k', '90-94k', '94-98k', '98-102k', '>102k'],
  },
  elections: {
    titles: ['Winner of the presidential election of'],
    items: ['A. Moreno', 'B. Okafor', 'C. Lindqvist', 'D. Haddad', 'Other'],
  },
  fed: {
    titles: ['Central bank decision on'],
    items: ['50+ bps decrease', '25 bps decrease', 'No change', '25+ bps increase'],
  },
  ai: {
    titles: ['Which company has the best AI model on'],
    items: ['Google', 'OpenAI', 'Anthropic', 'xAI', 'DeepSeek'],
  },
  temperature: {
    titles: ['New York', 'London', 'Paris'].map((city) => `Highest temperature in ${city} on`),
    items: ['41°F or below', '42-43°F', '44-45°F', '46-47°F', '48°F or higher'],
  },
  tweets: {
    titles: ['Number of posts until'],
    items: ['<180', '180-199', '200-219', '220-239', '240+'],
  },
};

/** Writes an event of a topic between two times (unix seconds). No other event that ends on that day has its slug. */
export function writeEvent(
  topic: Topic,
  startTime: number,
  endTime: number,
  random: Random,
): EventText {
  const shape = topic.shape;
  // Pairs, questions and cities are used in turn: random ones would occur twice on a day.
  const turn = Math.floor(endTime / (topic.periodHours * 3_600));
  switch (shape.kind) {
    case 'game':
      return writeGame(topic, shape.drawPossible, turn, endTime, random);
    case 'up-or-down':
      return writeUpOrDown(topic, shape.coin, startTime, endTime);
    case 'yes-no':
      return writeYesNo(topic, turn, endTime, random);
    case 'one-of-many':
      return writeOneOfMany(topic, turn, endTime, random);
    default:
      throw new TypeError(`unknown shape ${JSON.stringify(shape satisfies never)}`);
  }
}

function writeGame(
  topic: Topic,
  draw: boolean,
  turn: number,
  endTime: number,
  random: Random,
): EventText {
  const teams = TEAMS[topic.key] ?? [];
  // An offset of less than half of the teams, so that no pair meets again with the sides swapped.
  const further = 1 + (Math.floor(turn / teams.length) % Math.floor((teams.length - 1) / 2));
  const team = (at: number) => String(teams[at % teams.length]);
  const [a, b] = [team(turn), team(turn + further)] as const;
  const strength = random.between(0.25, 0.75);
  const title = `${a} vs. ${b}`;
  const slugStart = `${topic.key}-${slugOf(a)}-${slugOf(b)}-${dayOf(endTime)}`;
  if (draw) {
    const odds = [strength * 0.75, 0.25, (1 - strength) * 0.75] as const;
    const items = [`${a}`, `Draw (${title})`, `${b}`] as const;
    const questions = items.map((item, i) => ({
      question:
        i === 1
          ? `Will ${title} end in a draw?`
          : `Will ${item} beat ${i === 0 ? b : a} on ${dayOf(endTime)}?`,
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

function writeYesNo(topic: Topic, turn: number, endTime: number, random: Random): EventText {
  const start = inTurn(YES_NO_QUESTIONS[topic.key] ?? [], turn);
  const title = `${start} ${dayOf(endTime)}?`;
  const odds = random.between(0.12, 0.88);
  const slugStart = slugOf(`${start}-${dayOf(endTime)}`);
  const questions = [{ ...PLAIN, question: title, outcomes: YES_NO, odds }];
  return { title, slugStart, exclusive: false, questions };
}

function writeOneOfMany(topic: Topic, turn: number, endTime: number, random: Random): EventText {
  const choice = CHOICES[topic.key] ?? { titles: [topic.key], items: [] };
  const start = inTurn(choice.titles, turn);
  const weights = choice.items.map(() => random.between(0.2, 2) ** 2);
  const sum = weights.reduce((a, b) => a + b, 0);
  const title = `${start} ${dayOf(endTime)}?`;
  const slugStart = slugOf(`${start}-${dayOf(endTime)}`);
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

function inTurn(texts: readonly string[], turn: number): string {
  return String(texts[turn % texts.length]);
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
