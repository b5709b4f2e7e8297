/**
 * The expected API responses for a market, from the independent account of the chain (recompute.ts). Written
 * from docs/pnl.md and the OpenAPI document alone.
 */
import { getAddress } from 'viem';
import type { ChainMarket, ChainMatch } from './books.ts';
import { nearest, roundedDown } from './prices.ts';
import { markOf, openPositions } from './recompute.ts';

/** Price of outcome 0. */
function priceOf({ outcome, usdc, shares }: ChainMatch): number {
  return nearest(outcome === 0 ? usdc : shares - usdc, shares);
}

/** The same, rounded down, like the stored extremes of a minute. */
function priceDown({ outcome, usdc, shares }: ChainMatch): number {
  return roundedDown(outcome === 0 ? usdc : shares - usdc, shares);
}

function sum(values: readonly bigint[]): number {
  return Number(values.reduce((total, value) => total + value, 0n));
}

function iso(seconds: number): string {
  return `${new Date(seconds * 1_000).toISOString().slice(0, 19)}Z`;
}

export function markObject(market: ChainMarket) {
  const { paid, whole, time, source } = markOf(market);
  if (whole === 0n) return { price_1: 0, price_2: 0, time: '', source };
  const first = nearest(paid, whole);
  return { price_1: first, price_2: 1_000_000 - first, time: iso(time), source };
}

/** Figures of the whole market, as its detail and the list of markets have them. */
export function marketTotals(market: ChainMarket) {
  const held = [...market.holdings.values()];
  return {
    mark: markObject(market),
    volume: sum(market.matches.map((match) => match.usdc)),
    matches: market.matches.length,
    open_interest: sum(held.map((holding) => holding.shares[0])),
  };
}

/** The figures in the list of markets for the 24 hours before it was computed. */
export function marketDay(market: ChainMarket, asOf: string) {
  const since = Math.floor((Date.parse(asOf) / 1_000 - 86_400) / 60) * 60;
  const priced = market.matches.filter((match) => match.shares > 0n);
  const before = priced.findLast((match) => match.time < since) ?? priced[0];
  const isOld = market.resolution !== undefined && market.resolution.time < since;
  const now = markObject(market).price_1;
  return {
    volume_24h: sum(priced.flatMap((match) => (match.time >= since ? [match.usdc] : []))),
    change_24h: before === undefined || isOld ? 0 : now - priceOf(before),
  };
}

/** Candles of `width` seconds, from that of `from` to that of `to`. */
export function marketCandles(market: ChainMarket, width: number, from: number, to: number) {
  const matches = market.matches.filter((match) => match.shares > 0n);
  const first = from - (from % width);
  let close = matches.findLast((match) => match.time < first);
  const candles = [];
  for (let start = first; start <= to; start += width) {
    const own = matches.filter((match) => match.time >= start && match.time < start + width);
    const isOver = market.resolution !== undefined && start > market.resolution.time;
    const [open = close] = own;
    if (open === undefined || (own.length === 0 && isOver)) continue;
    close = own.at(-1) ?? open;
    const ends = [priceOf(own.length === 0 ? close : open), priceOf(close)];
    const [low, high] =
      own.length === 0
        ? ends
        : [Math.min(...own.map(priceDown)), Math.max(...own.map(priceDown), ...ends)];
    candles.push({
      ...{ time: iso(start), open: ends[0], close: ends[1], high, low },
      volume: sum(own.map((match) => match.usdc)),
      shares: sum(own.map((match) => match.shares)),
      ...{ trades: own.length, is_empty: own.length === 0 },
    });
  }
  return candles;
}

/** Every match, newest first, without the id on the feed. */
export function marketTrades(market: ChainMarket) {
  return market.matches.toReversed().map((match) => ({
    ...{ time: iso(match.time), block_number: match.block, taker: getAddress(match.taker) },
    ...{ side: match.side, outcome_index: match.outcome },
    price: match.shares === 0n ? 0 : nearest(match.usdc, match.shares),
    ...{ shares: Number(match.shares), usdc: Number(match.usdc), fee: Number(match.fee) },
    ...{ tx_hash: match.txHash, order_hash: match.orderHash },
  }));
}

/** The holders of the market, most shares first; `realised` by address. */
export function marketHolders(market: ChainMarket, realised: (trader: string) => bigint) {
  return openPositions(market)
    .sort((a, b) => Number(b.own - a.own) || (a.trader < b.trader ? -1 : 1))
    .map(({ trader, outcome, own, cost, fees, value, unrealised }) => ({
      ...{ address: getAddress(trader), outcome_index: outcome, shares: Number(own) },
      average_price: nearest(cost, own),
      average_price_with_fees: nearest(cost + fees, own),
      ...{ cost_basis: Number(cost), open_fees: Number(fees), value: Number(value) },
      unrealised_pnl: Number(unrealised),
      realised_pnl: Number(realised(trader)),
    }));
}
