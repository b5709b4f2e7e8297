/**
 * Sums over a set of markets: what windows and tags are made of (specification 2.6, 2.7, 2.9), in
 * the types of both versions.
 */
import { z } from 'zod';
import { amount, amountText, count, percentage, share, text } from './fields.ts';
import { percent, safeInteger } from './wire.ts';

export type Sums = {
  /** '' for all markets. */
  readonly tag: string;
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

/** Zeros where there was no booking. */
export function windowV1(sums: Sums | undefined): z.input<typeof WindowV1> {
  const { pnl, cost, makerVolume, takerVolume, markets, wins } = sums ?? NOTHING;
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

export function tagV2(sums: Sums): z.input<typeof TagV2> {
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

/** The tags by PnL, then volume, then slug, so that equal inputs give equal lists. */
export function topTags<Some extends Sums>(all: readonly Some[], tagsMax: number): readonly Some[] {
  return all
    .filter((sums) => sums.tag !== '')
    .sort(
      (a, b) =>
        compare(b.pnl, a.pnl) ||
        compare(b.makerVolume + b.takerVolume, a.makerVolume + a.takerVolume) ||
        compare(a.tag, b.tag),
    )
    .slice(0, tagsMax);
}

const NOTHING: Sums = {
  ...{ tag: '', pnl: 0n, cost: 0n, makerVolume: 0n, takerVolume: 0n, markets: 0, wins: 0 },
};

function compare<Value extends bigint | string>(a: Value, b: Value): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
