/** What happened, in a line that people read on a phone. */

import { type MarketData, marketData, type TraderData } from '../../../api/analytics/match-data.ts';
import type { FeedFill, FeedMatch } from '../../../ingest/contract.ts';

const MONEY = new Intl.NumberFormat('en-US', {
  minimumFractionDigits: 2,
  maximumFractionDigits: 2,
});
const TITLE_CHARACTERS_MAX = 120;

/** `deepwater-20`, or the beginning and end of the address. */
export function traderName({ address, name }: TraderData): string {
  return name === '' ? `${address.slice(0, 6)}…${address.slice(-4)}` : name;
}

export function marketTitle(match: FeedMatch): string {
  return titleOf(marketData(match));
}

export function titleOf({ condition_id, question }: MarketData): string {
  if (question === '') return `market ${condition_id.slice(0, 10)}…`;
  return question.length > TITLE_CHARACTERS_MAX
    ? `${question.slice(0, TITLE_CHARACTERS_MAX - 1)}…`
    : question;
}

/** `27,714.00 USDC`, rounded to cents. */
export function usdc(micro: bigint): string {
  return `${MONEY.format(Number(micro) / 1e6)} USDC`;
}

/** `85.0¢`, from micro-USDC a share, rounded to a tenth. */
export function cents(price: number): string {
  return `${(price / 1e4).toFixed(1)}¢`;
}

/** Micro-USDC a share, rounded down; 0 for a fill of no shares. */
export function priceOf({ shares, usdc }: Pick<FeedFill, 'shares' | 'usdc'>): number {
  return shares === 0n ? 0 : Number((usdc * 1_000_000n) / shares);
}

/** `deepwater-20 bought Yes of “…”: 27,714.00 USDC at 85.0¢` */
export function fillText(match: FeedMatch, fill: FeedFill): string {
  const verb = fill.side === 'BUY' ? 'bought' : 'sold';
  const outcome = match.market.outcomes[fill.outcomeIndex];
  const what = `${traderName(fill.trader)} ${verb} ${outcome} of “${marketTitle(match)}”`;
  return `${what}: ${usdc(fill.usdc)} at ${cents(priceOf(fill))}`;
}
