/** A trader's recent figures: representation of the sums of a window and of tags, and the weighted volume. */
import { z } from 'zod';
import { percent, safeInteger } from './format.ts';
import { countedTags } from './market-tags.ts';
import { amount, amountText, count, ROI, share, text } from './schemas.ts';

/*
 * Weighted volume: the sum over a trader's taker fills of `usdc · (1 − price)` times the weight of the market's
 * category, without bonuses. It determines the taker tier. The figure of the public profile takes precedence,
 * because bonuses are not public. A market has many tags but one weight: the lowest weight among its category tags,
 * or 1.7 ("other") without one. So a market tagged both politics and geopolitics counts 0.
 */

/** Weight in tenths of each tag that names a category, from the exchange's published table. */
const WEIGHT_TENTHS: Readonly<Record<string, number>> = {
  geopolitics: 0,
  sports: 10,
  politics: 13,
  finance: 13,
  mentions: 13,
  'tweets-markets': 13,
  tech: 13,
  economy: 17,
  economics: 17,
  culture: 17,
  'pop-culture': 17,
  weather: 17,
  crypto: 23,
};
const OTHER_TENTHS = 17;

/** Weighted volume in dollars; exact until the final division. */
export function weightedUsd(
  all: readonly { readonly tags: readonly string[]; readonly unweighted: bigint }[],
): number {
  const microTenths = all.reduce(
    (sum, { tags, unweighted }) => sum + unweighted * BigInt(weightTenths(tags)),
    0n,
  );
  return Number(microTenths) / 10_000_000;
}

/** Weight in tenths of a market with these tags. */
function weightTenths(tags: readonly string[]): number {
  const weights = tags.flatMap((tag) =>
    Object.hasOwn(WEIGHT_TENTHS, tag) ? WEIGHT_TENTHS[tag] : [],
  ) as number[];
  return weights.length === 0 ? OTHER_TENTHS : Math.min(...weights);
}

/** Sums over a set of markets. */
export type Sums = {
  readonly pnl: bigint;
  readonly cost: bigint;
  readonly makerVolume: bigint;
  readonly takerVolume: bigint;
  readonly markets: number;
  readonly wins: number;
};

const WIN_RATE = share('wins_count divided by markets_count');
const MARKETS = count('markets with a fill or a settlement in the window');
const WINS = count('of these, markets with a realised PnL above 0 in the window');
const PNL = 'realised PnL, net of fees';
const SLUG = text('slug of the tag', 'sports');

export const WindowV1 = z
  .object({
    pnl: amountText(`${PNL}, micro-USDC`),
    volume: amountText('maker_volume + taker_volume, micro-USDC'),
    roi: ROI,
    win_rate: WIN_RATE,
    markets_count: MARKETS,
    wins_count: WINS,
    maker_volume: amountText('value of fills as maker, micro-USDC'),
    taker_volume: amountText('value of fills as taker, micro-USDC'),
  })
  .meta({ id: 'WindowV1' });

const { wins_count, ...tagMembers } = WindowV1.shape;
/** In the order of the interface, which differs from that of a window. */
export const TagV1 = z.object({ slug: SLUG, ...tagMembers, wins_count }).meta({ id: 'TagV1' });

export function windowV1(sums: Sums): z.input<typeof WindowV1> {
  const { pnl, cost, makerVolume, takerVolume, markets, wins } = sums;
  return {
    pnl: pnl.toString(),
    volume: (makerVolume + takerVolume).toString(),
    roi: percent(pnl, cost),
    win_rate: percent(BigInt(wins), BigInt(markets)),
    markets_count: markets,
    wins_count: wins,
    maker_volume: makerVolume.toString(),
    taker_volume: takerVolume.toString(),
  };
}

export function tagV1(sums: Sums & { readonly tag: string }): z.input<typeof TagV1> {
  const { wins_count, ...members } = windowV1(sums);
  return { slug: sums.tag, ...members, wins_count };
}

export const TagV2 = z
  .object({
    maker_volume: amount('value of fills as maker, micro-USD'),
    markets_count: MARKETS,
    pnl: amount(`${PNL}, micro-USD`),
    roi: ROI,
    slug: SLUG,
    taker_volume: amount('value of fills as taker, micro-USD'),
    volume: amount('maker_volume + taker_volume, micro-USD'),
    win_rate: WIN_RATE,
    wins_count: WINS,
  })
  .meta({ id: 'Tag' });

export function tagV2(sums: Sums & { readonly tag: string }): z.input<typeof TagV2> {
  return {
    maker_volume: safeInteger(sums.makerVolume),
    markets_count: sums.markets,
    pnl: safeInteger(sums.pnl),
    roi: percent(sums.pnl, sums.cost),
    slug: sums.tag,
    taker_volume: safeInteger(sums.takerVolume),
    volume: safeInteger(sums.makerVolume + sums.takerVolume),
    win_rate: percent(BigInt(sums.wins), BigInt(sums.markets)),
    wins_count: sums.wins,
  };
}

export const WindowV2 = TagV2.omit({ slug: true }).meta({ id: 'Window' });

export function windowV2(sums: Sums): z.input<typeof WindowV2> {
  const { slug, ...window } = tagV2({ ...sums, tag: '' });
  return window;
}

/** Adds up the sums. */
export function total(all: readonly Sums[]): Sums {
  return all.reduce(plus, NOTHING);
}

/** The tags by PnL, then volume, then slug, so that equal inputs give equal lists. */
export function topTags(
  all: readonly (Sums & { readonly tags: readonly string[] })[],
  tagsMax: number,
): readonly (Sums & { readonly tag: string })[] {
  const byTag = new Map<string, Sums>();
  for (const sums of all) {
    for (const tag of countedTags(sums.tags)) {
      byTag.set(tag, plus(byTag.get(tag) ?? NOTHING, sums));
    }
  }
  return [...byTag]
    .map(([tag, sums]) => ({ tag, ...sums }))
    .sort(
      (a, b) =>
        compare(b.pnl, a.pnl) ||
        compare(b.makerVolume + b.takerVolume, a.makerVolume + a.takerVolume) ||
        compare(a.tag, b.tag),
    )
    .slice(0, tagsMax);
}

const NOTHING: Sums = { pnl: 0n, cost: 0n, makerVolume: 0n, takerVolume: 0n, markets: 0, wins: 0 };

function plus(a: Sums, b: Sums): Sums {
  return {
    pnl: a.pnl + b.pnl,
    cost: a.cost + b.cost,
    makerVolume: a.makerVolume + b.makerVolume,
    takerVolume: a.takerVolume + b.takerVolume,
    markets: a.markets + b.markets,
    wins: a.wins + b.wins,
  };
}

function compare<Value extends bigint | string>(a: Value, b: Value): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
