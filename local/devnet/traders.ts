/**
 * The devnet's traders: wallets and their public profiles, drawn from the seed. A wallet's habit determines how often
 * it takes or makes, in which sizes and topics, and how often it is right about the outcome, so that leaderboards
 * have steady winners and losers. Wallets have no keys, because the exchange does not check signatures.
 */
import { type Hex, keccak256, toHex } from 'viem';
import { Random } from './random.ts';
import { TOPICS, type Topic } from './topics.ts';

type HabitName = 'market-maker' | 'whale' | 'sharp' | 'loser' | 'arbitrageur' | 'bot' | 'casual';

type Habit = {
  readonly name: HabitName;
  /** Share of the wallets. */
  readonly share: number;
  readonly takes: number;
  readonly makes: number;
  /** Size of a trade in whole USDC. */
  readonly sizeMin: number;
  readonly sizeMax: number;
  /** How often a bought outcome wins, at even odds. */
  readonly insight: number;
  /** Chance to sell instead of buying. */
  readonly sells: number;
  readonly bankroll: number;
  readonly topicsMax: number;
};

export type Trader = {
  readonly address: Hex;
  readonly signer: Hex;
  /** 0 EOA, 1 proxy wallet, 2 Safe, 3 deposit wallet. */
  readonly signatureType: 0 | 1 | 2 | 3;
  readonly habit: Habit;
  readonly topics: ReadonlySet<Topic>;
  /** The habit's insight, slightly varied. */
  readonly insight: number;
};

const HABITS: readonly Habit[] = [
  habit('market-maker', 0.1, 0.3, 14, [40, 1_500], 0.5, 0.4, 3_000_000, 99),
  habit('whale', 0.05, 1.5, 1, [2_000, 30_000], 0.57, 0.2, 2_000_000, 12),
  habit('sharp', 0.1, 2, 1, [100, 3_000], 0.68, 0.3, 200_000, 9),
  habit('loser', 0.2, 2, 0.6, [10, 900], 0.34, 0.25, 40_000, 9),
  habit('arbitrageur', 0.05, 2.5, 2, [50, 800], 0.5, 0.15, 300_000, 12),
  habit('bot', 0.12, 5, 2, [5, 250], 0.53, 0.45, 60_000, 7),
  habit('casual', 0.38, 0.9, 0.5, [1, 120], 0.49, 0.2, 5_000, 7),
];

const INSIGHT_SPREAD = 0.08;

/** Creates `count` wallets; the same seed and count yield the same wallets. */
export function makeTraders(seed: number, count: number): readonly Trader[] {
  const traders: Trader[] = [];
  let until = 0;
  for (const one of HABITS) {
    until += one.share;
    while (traders.length < Math.round(until * count)) {
      traders.push(makeTrader(seed, traders.length, one));
    }
  }
  return traders;
}

function makeTrader(seed: number, index: number, one: Habit): Trader {
  const random = new Random(`trader:${seed}:${index}`);
  const signer = accountOf(`signer:${seed}:${index}`);
  const signatureType = random.weighted([0.15, 0.3, 0.4, 0.15]) as 0 | 1 | 2 | 3;
  const address = signatureType === 0 ? signer : accountOf(`wallet:${seed}:${index}`);
  const insight = one.insight + random.between(-INSIGHT_SPREAD, INSIGHT_SPREAD);
  const topics = chooseTopics(one, random);
  return { address, signer, signatureType, habit: one, topics, insight };
}

function chooseTopics(one: Habit, random: Random): ReadonlySet<Topic> {
  if (one.topicsMax >= TOPICS.length) return new Set(TOPICS);
  // Bots trade the markets that last minutes; all others trade random topics.
  const pool =
    one.name === 'bot' ? TOPICS.filter((topic) => topic.shape.kind === 'up-or-down') : TOPICS;
  const topics = new Set<Topic>();
  const wanted = Math.min(pool.length, 1 + random.below(one.topicsMax));
  while (topics.size < wanted) topics.add(random.pick(pool));
  return topics;
}

function accountOf(text: string): Hex {
  return `0x${keccak256(toHex(`fillstream devnet ${text}`)).slice(26)}`;
}

function habit(
  name: HabitName,
  share: number,
  takes: number,
  makes: number,
  [sizeMin, sizeMax]: readonly [number, number],
  insight: number,
  sells: number,
  bankroll: number,
  topicsMax: number,
): Habit {
  return { name, share, takes, makes, sizeMin, sizeMax, insight, sells, bankroll, topicsMax };
}

const TIER_NAMES = ['Tier 0', 'Bronze', 'Silver', 'Gold', 'Platinum', 'Diamond', 'Obsidian'];
/** Weighted 30-day volume in whole USD at which each tier starts. */
const TIER_VOLUMES = [0, 2_000, 20_000, 200_000, 1_000_000, 4_000_000, 10_000_000];
const NO_PROFILE_CHANCE = 0.06;

const ADJECTIVES = ['Amber', 'Brisk', 'Candid', 'Dusky', 'Eager', 'Frosty', 'Gilded', 'Hushed'];
const ANIMALS = ['Badger', 'Crane', 'Dolphin', 'Egret', 'Falcon', 'Gecko', 'Heron', 'Ibex'];
const WORDS: Readonly<Record<HabitName, string>> = {
  'market-maker': 'quotes',
  whale: 'deepwater',
  sharp: 'edge',
  loser: 'diamond-hands',
  arbitrageur: 'bothsides',
  bot: 'ticker-bot',
  casual: 'sunday',
};

export type Profile = NonNullable<ReturnType<typeof profileOf>>;

/**
 * The profile of a wallet in Gamma's shape; undefined for the few that have none. As on the real service,
 * fields that a user never set are absent. So is the weighted volume, which the api then computes from the fills.
 */
export function profileOf(seed: number, trader: Trader, index: number) {
  const random = new Random(`profile:${seed}:${index}`);
  if (random.chance(NO_PROFILE_CHANCE)) return undefined;
  const { habit } = trader;
  const scale = Math.sqrt(habit.sizeMin * habit.sizeMax) * habit.takes;
  const weightedVolume = scale * random.between(20, 900);
  const takerTier = TIER_VOLUMES.filter((volume) => volume <= weightedVolume).length - 1;
  const name = `${WORDS[habit.name]}-${index}`;
  // Within 500 days from 2025-01-01.
  const createdAt = new Date(1_735_689_600_000 + random.below(500 * 86_400) * 1000).toISOString();
  return {
    createdAt,
    proxyWallet: trader.address,
    ...(random.chance(0.5) ? { profileImage: `https://images.example/devnet/${index}.png` } : {}),
    ...(random.chance(0.15) ? { bio: `${WORDS[habit.name]} on the devnet` } : {}),
    pseudonym: `${random.pick(ADJECTIVES)}-${random.pick(ANIMALS)}`,
    ...(random.chance(0.75) ? { name } : {}),
    ...(random.chance(0.25) ? { xUsername: name.replaceAll('-', '_') } : {}),
    takerTier,
    takerTierName: TIER_NAMES[takerTier] ?? 'Tier 0',
  };
}
