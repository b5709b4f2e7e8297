/**
 * Public profiles of the devnet's wallets in Gamma's shape, drawn from the seed. As on the real service,
 * fields that a user never set are absent, and some wallets have no profile at all.
 */
import type { Hex } from 'viem';
import { Random } from './random.ts';
import type { HabitName, Trader } from './traders.ts';

const TIER_NAMES = ['Tier 0', 'Bronze', 'Silver', 'Gold', 'Platinum', 'Diamond', 'Obsidian'];
/** Weighted volume of 30 days in whole USD from which on a tier holds (facts of the exchange). */
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

export type Profile = {
  readonly createdAt: string;
  readonly proxyWallet: Hex;
  readonly profileImage?: string;
  readonly displayUsernamePublic: boolean;
  readonly bio?: string;
  readonly pseudonym?: string;
  readonly name?: string;
  readonly users: readonly unknown[];
  readonly xUsername?: string;
  readonly verifiedBadge: boolean;
  readonly takerTier: number;
  readonly takerTierName: string;
  readonly weightedVolume: number;
};

/** The profile of a wallet, or nothing for the few that have none. */
export function profileOf(seed: number, trader: Trader, index: number): Profile | undefined {
  const random = new Random(`profile:${seed}:${index}`);
  if (random.chance(NO_PROFILE_CHANCE)) return undefined;
  const { habit } = trader;
  const scale = Math.sqrt(habit.sizeMin * habit.sizeMax) * habit.takes;
  const weightedVolume = Math.round(scale * random.between(20, 900) * 1e6) / 1e6;
  const takerTier = TIER_VOLUMES.filter((volume) => volume <= weightedVolume).length - 1;
  const name = `${WORDS[habit.name]}-${index}`;
  // 2025-01-01 and some 500 days on.
  const createdAt = new Date(1_735_689_600_000 + random.below(500 * 86_400) * 1000).toISOString();
  return {
    createdAt,
    proxyWallet: trader.address,
    ...(random.chance(0.5) ? { profileImage: `https://images.example/devnet/${index}.png` } : {}),
    displayUsernamePublic: true,
    ...(random.chance(0.15) ? { bio: `${WORDS[habit.name]} on the devnet` } : {}),
    pseudonym: `${random.pick(ADJECTIVES)}-${random.pick(ANIMALS)}`,
    ...(random.chance(0.75) ? { name } : {}),
    users: [{ id: String(index + 1), creator: false, mod: false, communityMod: false }],
    ...(random.chance(0.25) ? { xUsername: name.replaceAll('-', '_') } : {}),
    verifiedBadge: random.chance(0.05),
    takerTier,
    takerTierName: TIER_NAMES[takerTier] ?? 'Tier 0',
    weightedVolume,
  };
}
