/**
 * The fair price of a market at a moment, as a pure function: it starts at the event's odds, wanders on
 * a sum of sines with phases from the market's key, and ends near the outcome that will win. A start
 * of the devnet therefore finds every price where an earlier run left it.
 */
import type { Market } from './markets.ts';
import { Random } from './random.ts';

/** Prices are in thousandths of a USDC: the exchange's finest tick. */
export const PRICE_UNIT = 1000;
const PRICE_MIN = 8;

type Wave = { readonly cycles: number; readonly phase: number; readonly height: number };

const WAVES_PER_MARKET = 7;
const waves = new WeakMap<Market, readonly Wave[]>();

/** Fair price of outcome 0 in thousandths, 8 to 992, a multiple of the market's tick. */
export function fairPrice(market: Market, time: number): number {
  const span = market.endTime - market.startTime;
  const x = Math.min(1, Math.max(0, (time - market.startTime) / span));
  const start = Math.log(market.odds / (1 - market.odds));
  const noise = wavesOf(market).reduce(
    (sum, wave) => sum + wave.height * Math.sin(2 * Math.PI * (wave.cycles * x) + wave.phase),
    0,
  );
  const pull = (market.payouts[0] - market.payouts[1]) * 4.2 * x ** 3;
  const logit = start * (1 - x) + pull + noise * (1 - 0.75 * x);
  const price = Math.round(PRICE_UNIT / (1 + Math.exp(-logit)));
  const onTick = Math.round(price / market.tick) * market.tick;
  const least = Math.max(PRICE_MIN, market.tick);
  return Math.min(PRICE_UNIT - least, Math.max(least, onTick));
}

function wavesOf(market: Market): readonly Wave[] {
  const known = waves.get(market);
  if (known !== undefined) return known;
  const random = new Random(`waves:${market.key}`);
  const made = Array.from({ length: WAVES_PER_MARKET }, (_, i) => ({
    cycles: random.between(0.6, 1.4) * 2 ** i,
    phase: random.between(0, 2 * Math.PI),
    height: random.between(0.5, 1.2) / (i + 1.5),
  }));
  waves.set(market, made);
  return made;
}
