/**
 * Markets of the generated exchange (exchange.ts): their kinds, prices and listings. A market is a function of the seed,
 * its kind, its slot (one of the markets of this kind that are open at the same time) and its period, so the same seed
 * gives the same markets in every time window.
 */

import type { Hash, Listing } from '../../../ingest/contract.ts';
import { Random } from '../../../local/devnet/random.ts';

const MINUTE = 60;
const HOUR = 3_600;
const DAY = 86_400;

export type Kind = {
  readonly name: string;
  /** Seconds from the first trade to the end of trading. */
  readonly duration: number;
  /** Number of markets that are open at the same time on the real exchange. */
  readonly open: number;
  /** Share of all fills. */
  readonly flow: number;
  /** The probability of a trade grows with this power of the elapsed fraction of the period. */
  readonly late: number;
  /** Maximum seconds from the end to the resolution. */
  readonly resolving: number;
  /** Taker fee: this many millionths of shares · p(1−p). */
  readonly feeRate: number;
  /** Each market gets one of these, chosen by its slot. */
  readonly tags: readonly (readonly string[])[];
};

const COINS = ['bitcoin', 'ethereum', 'solana', 'xrp'];

function upOrDown(name: string, tag: string, minutes: number, flow: number): Kind {
  const tags = COINS.map((coin) => ['crypto', 'up-or-down', 'recurring', coin, tag]);
  const rest = { open: COINS.length, late: 0, resolving: 2 * MINUTE, feeRate: 70_000, tags };
  return { name, duration: minutes * MINUTE, flow, ...rest };
}

/** About 100,000 markets a month. */
export const KINDS: readonly Kind[] = [
  upOrDown('5m', '5M', 5, 0.36),
  upOrDown('15m', '15M', 15, 0.14),
  upOrDown('hourly', '1H', 60, 0.08),
  {
    ...{ name: 'sports', duration: DAY, open: 1_100, flow: 0.22, late: 3, resolving: 2 * HOUR },
    feeRate: 30_000,
    tags: ['basketball', 'hockey', 'soccer', 'tennis'].map((game) => ['sports', 'games', game]),
  },
  {
    ...{ name: 'esports', duration: DAY, open: 300, flow: 0.04, late: 3, resolving: HOUR },
    feeRate: 30_000,
    tags: ['counter-strike-2', 'dota-2', 'league-of-legends'].map((game) => [
      ...['sports', 'esports', 'games', game],
    ]),
  },
  {
    ...{ name: 'daily', duration: 2 * DAY, open: 400, flow: 0.03, late: 1, resolving: 6 * HOUR },
    feeRate: 40_000,
    tags: [['weather', 'daily-temperature'], ['tweets-markets', 'pop-culture'], ['mentions']],
  },
  {
    ...{ name: 'weekly', duration: 7 * DAY, open: 600, flow: 0.05, late: 0, resolving: 6 * HOUR },
    feeRate: 40_000,
    tags: [['finance', 'business'], ['tech'], ['pop-culture', 'culture'], ['economy'], ['crypto']],
  },
  {
    ...{ name: 'politics', duration: 120 * DAY, open: 800, flow: 0.08, late: 0, resolving: DAY },
    feeRate: 40_000,
    tags: [['politics', 'elections'], ['politics'], ['geopolitics']],
  },
];

/** A kind with at most this many open markets keeps all of them on a smaller exchange, but in fewer periods. */
const FEW = 10;
const GOLDEN = (Math.sqrt(5) - 1) / 2;

/** How many slots of a kind exist on an exchange of `size` (1 = the real one), and in what share of the periods. */
export function seriesOf({ open }: Kind, size: number) {
  const isFew = open <= FEW;
  const series = isFew ? open : Math.max(1, Math.round(open * size));
  return { series, isFew, existing: Math.min(1, (open * size) / series) };
}

export type Market = {
  /** Also the id of its listing. */
  readonly number: number;
  readonly kind: Kind;
  readonly conditionId: Hash;
  readonly tokenIds: readonly [string, string];
  /** Seconds since the epoch. */
  readonly start: number;
  readonly end: number;
  readonly resolvedAt: number;
  readonly payouts: () => [bigint, bigint];
  /** Market makers that quote it. */
  readonly makers: readonly number[];
  /** Micro-shares of each trader: of outcome 0, or of outcome 1 if below 0. */
  readonly held: Map<number, number>;
  /** The most recent traders that are not market makers, in any order. */
  readonly recent: number[];
  /** The price of outcome 0. Times must not decrease between calls. */
  readonly priceAt: (time: number) => number;
};

/** Less than the time of any data: a period before 1970 would give the market a negative number. */
const SHIFT_MAX = 1_750_000_000;

/** The market in a slot at a time; undefined if there is none. */
export function periodAt(kind: Kind, place: number, time: number, size: number) {
  const { series, existing, isFew } = seriesOf(kind, size);
  // If many markets of a kind are open at the same time, their ends are spread out.
  const shift = isFew ? 0 : (place * GOLDEN * kind.duration) % SHIFT_MAX;
  const period = Math.floor((time - shift) / kind.duration);
  const index = period * series + place;
  if (existing < 1 && (index * GOLDEN) % 1 >= existing) return undefined;
  return {
    number: index * KINDS.length + KINDS.indexOf(kind),
    start: period * kind.duration + shift,
  };
}

/** Opens a market; `makers` picks its market makers. */
export function openMarket(
  seed: number,
  kind: Kind,
  { number, start }: { readonly number: number; readonly start: number },
  makers: (random: Random) => readonly number[],
): Market {
  const random = new Random(`${seed} market ${number}`);
  const end = Math.floor(start + kind.duration);
  const isCrypto = kind.late === 0 && kind.duration <= HOUR;
  // The sign of a Brownian motion at the end decides the outcome. The price is the probability of that, so it is a martingale.
  const bias = isCrypto ? 0 : gauss(random) - 0.4;
  let [motion, phase] = [0, 0];
  const priceAt = (time: number) => {
    const at = Math.min((time - start) / kind.duration, 0.999_999);
    motion += gauss(random) * Math.sqrt(Math.max(at - phase, 0));
    phase = Math.max(at, phase);
    return normal((bias + motion) / Math.sqrt(1 - phase));
  };
  return {
    ...{ number, kind, start, end, priceAt, makers: makers(random) },
    conditionId: random.hex(32),
    tokenIds: [BigInt(random.hex(32)).toString(), BigInt(random.hex(32)).toString()],
    resolvedAt: end + 30 + random.below(kind.resolving),
    payouts: () => {
      if (!isCrypto && random.chance(0.003)) return [1n, 1n];
      return bias + motion + gauss(random) * Math.sqrt(1 - phase) > 0 ? [1n, 0n] : [0n, 1n];
    },
    held: new Map(),
    recent: [],
  };
}

/** Draws from the standard normal distribution. */
export function gauss(random: Random): number {
  return Math.sqrt(-2 * Math.log(random.unit() + 1e-12)) * Math.cos(2 * Math.PI * random.unit());
}

/** The standard normal distribution function, to 7 digits (Abramowitz and Stegun, 26.2.17). */
function normal(x: number): number {
  const t = 1 / (1 + 0.231_641_9 * Math.abs(x));
  const sum = 1.330_274_429 * t - 1.821_255_978;
  const series = t * (0.319_381_53 + t * (-0.356_563_782 + t * (1.781_477_937 + t * sum)));
  const tail = (series * Math.exp((-x * x) / 2)) / Math.sqrt(2 * Math.PI);
  return x > 0 ? 1 - tail : tail;
}

const NAMES = (
  'Amber Basin Cedar Delta Ember Falcon Granite Harbor Indigo Juniper Kestrel Lantern Meadow Nimbus Orchid ' +
  'Pioneer Quartz River Summit Timber Umbra Valley Willow Yonder Zephyr Anchor Birch Comet Dune Echo Fjord'
).split(' ');
const ENDS = 'ton ville field port burg haven wick ford mont dale'.split(' ');

const iso = (time: number) => `${new Date(time * 1_000).toISOString().slice(0, 19)}Z`;

/** The names are invented and only look like those of real markets. */
export function listingOf({ number, kind, conditionId, tokenIds, start, end }: Market): Listing {
  const random = new Random(`listing ${number}`);
  const name = () => `${random.pick(NAMES)}${random.pick(ENDS)}`;
  const place = Math.floor(number / KINDS.length);
  const tags = kind.tags[place % kind.tags.length] ?? [];
  const [day, time] = [iso(end).slice(0, 10), iso(start).slice(11, 16)];
  const isUpOrDown = tags.includes('up-or-down');
  const isGame = tags.includes('games');
  const one = name();
  // Nobody plays against themselves.
  let other = name();
  while (other === one) other = name();
  const coin = tags.at(-2) ?? '';
  const title = isUpOrDown
    ? `${coin} up or down, ${day} ${time} UTC, ${kind.name}`
    : isGame
      ? `${one} vs. ${other}, ${day}`
      : `Will ${one} agree with ${other} about ${tags[0]} ${number} by ${day}?`;
  const slug = `${title.toLowerCase().replaceAll(/[^a-z0-9]+/g, '-')}-${number}`;
  return {
    ...{ kind: 'listing', conditionId, marketId: String(number), question: title, slug },
    ...{ startDate: iso(Math.floor(start)), endDate: iso(end), icon: '', negRisk: false },
    ...{ eventSlug: slug, eventTitle: title, eventIcon: '' },
    seriesSlug: isUpOrDown ? `${coin}-up-or-down-${kind.name}` : isGame ? (tags.at(-1) ?? '') : '',
    tags: [...tags],
    outcomes: isUpOrDown ? ['Up', 'Down'] : isGame ? [one, other] : ['Yes', 'No'],
    tokenIds: [...tokenIds],
    ...{ groupItemTitle: '', sportsMarketType: isGame ? 'moneyline' : '' },
  };
}
