/**
 * The words of the devnet's events: titles, questions, outcomes and opening odds, drawn from fixed
 * lists. Invented; any likeness to a real event is in the form only.
 */
import type { Random } from './random.ts';
import type { Topic } from './topics.ts';

type Question = {
  readonly question: string;
  readonly slugEnd: string;
  readonly outcomes: readonly [string, string];
  /** Probability of outcome 0 at the opening, 0.03 to 0.97. */
  readonly odds: number;
  readonly groupItemTitle: string;
  readonly sportsMarketType: string | undefined;
};

type EventText = {
  readonly title: string;
  readonly slugStart: string;
  /** Exactly one of the questions resolves to its outcome 0. */
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

/** The words of one event of a topic that ends at `endTime` (unix seconds). */
export function writeEvent(topic: Topic, startTime: number, endTime: number, random: Random) {
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
  const bare = { groupItemTitle: '' };
  const questions: readonly Question[] = [
    {
      ...bare,
      question: title,
      slugEnd: '',
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
  const question: Question = {
    question: `${name} Up or Down - ${dayOf(startTime)}, ${window}`,
    slugEnd: '',
    outcomes: ['Up', 'Down'],
    odds: 0.5,
    groupItemTitle: '',
    sportsMarketType: undefined,
  };
  const slugStart = `${topic.key.replace(/-(\w+)$/, '-updown-$1')}-${startTime}`;
  return { title: question.question, slugStart, exclusive: false, questions: [question] };
}

function writeYesNo(topic: Topic, endTime: number, random: Random): EventText {
  const start = random.pick(YES_NO_QUESTIONS[topic.key] ?? []);
  const title = `${start} ${dayOf(endTime)}?`;
  const odds = random.between(0.12, 0.88);
  const question: Question = {
    question: title,
    slugEnd: '',
    outcomes: YES_NO,
    odds,
    groupItemTitle: '',
    sportsMarketType: undefined,
  };
  return {
    title,
    slugStart: slugOf(`${start}-${dayOf(endTime)}`),
    exclusive: false,
    questions: [question],
  };
}

function writeOneOfMany(topic: Topic, endTime: number, random: Random): EventText {
  const choice = CHOICES[topic.key] ?? { title: topic.key, items: [] };
  const weights = choice.items.map(() => random.between(0.2, 2) ** 2);
  const sum = weights.reduce((a, b) => a + b, 0);
  const title = `${choice.title} ${dayOf(endTime)}?`;
  const questions = choice.items.map((item, i) => ({
    question: `${title.slice(0, -1)}: ${item}?`,
    slugEnd: slugOf(item),
    outcomes: YES_NO,
    odds: Math.max(ODDS_MIN, Math.min(0.9, (weights[i] ?? 0) / sum)),
    groupItemTitle: item,
    sportsMarketType: undefined,
  }));
  return {
    title,
    slugStart: slugOf(`${choice.title}-${dayOf(endTime)}`),
    exclusive: true,
    questions,
  };
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
