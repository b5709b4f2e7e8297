/**
 * Sums over a set of markets: what windows and tags are made of (specification 2.6, 2.7, 2.9), in
 * the types of both versions.
 */
import { z } from 'zod';
import { percent, safeInteger } from './format.ts';
import { countedTags } from './market-tags.ts';
import { amount, amountText, count, percentage, share, text } from './schemas.ts';

/** Of some markets. */
export type Sums = {
  readonly pnl: bigint;
  readonly cost: bigint;
  readonly makerVolume: bigint;
  readonly takerVolume: bigint;
  readonly markets: number;
  readonly wins: number;
};

const ROI = percentage('PnL over what the closed shares had cost');
const WIN_RATE = share('wins_count over markets_count');
const MARKETS = count('markets with a fill or a settlement in the time');
const WINS = count('of these, markets with a realised PnL above 0 in the time');
const PNL = 'realised PnL, net of fees';
const SLUG = text('slug of the tag', 'sports');

export const WindowV1 = z.object({
  pnl: amountText(`${PNL}, micro-USDC`),
  volume: amountText('maker_volume + taker_volume, micro-USDC'),
  roi: ROI,
  win_rate: WIN_RATE,
  markets_count: MARKETS,
  wins_count: WINS,
  maker_volume: amountText('value of fills as maker, micro-USDC'),
  taker_volume: amountText('value of fills as taker, micro-USDC'),
});

export const TagV1 = z.object({ slug: SLUG, ...WindowV1.shape });

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

export const TagV2 = z.object({
  maker_volume: amount('value of fills as maker, micro-USD'),
  markets_count: MARKETS,
  pnl: amount(`${PNL}, micro-USD`),
  roi: ROI,
  slug: SLUG,
  taker_volume: amount('value of fills as taker, micro-USD'),
  volume: amount('maker_volume + taker_volume, micro-USD'),
  win_rate: WIN_RATE,
  wins_count: WINS,
});

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

/** Sums of markets that have the same tags. */
export type TaggedSums = Sums & { readonly tags: readonly string[] };

/** What all of them come to. */
export function total(all: readonly Sums[]): Sums {
  return all.reduce(plus, NOTHING);
}

/** The tags by PnL, then volume, then slug, so that equal inputs give equal lists. */
export function topTags(
  all: readonly TaggedSums[],
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

const NOTHING: Sums = {
  ...{ pnl: 0n, cost: 0n, makerVolume: 0n, takerVolume: 0n, markets: 0, wins: 0 },
};

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
