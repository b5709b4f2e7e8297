/**
 * A seeded ledger that ends now, with cases that queries often get wrong: several matches of a market in one second and
 * over two blocks, equal labels, matches without shares or above 1 USDC a share, matches around a resolution, a category
 * that was not traded for a week, a market without holders, one without a listing, and one that only settles.
 */
import type { Address, Fill, Hash, Listing, Match, Resolution } from '../../ingest/contract.ts';
import { conditionId, traderAddress } from './ledger-generator.ts';
import { generator } from './seed.ts';

const DAY = 86_400;
const HOUR = 3_600;
const TRADERS = 70;
/** Traders from here on are new in the last days. */
const OLD_TRADERS = 55;
const NEW_DAYS = 6;
type Pair = readonly [taker: Address, maker: Address];
const STEADY: Pair = [traderAddress(900), traderAddress(901)];
const ONCE: Pair = [traderAddress(902), traderAddress(903)];

type Plan = {
  readonly tags: readonly string[];
  readonly series?: string;
  readonly type?: string;
  readonly labels?: readonly [string, string];
  /** Its matches are this old. */
  readonly days: readonly [oldest: number, newest: number];
  readonly bursts: number;
  /** It is resolved this many days ago. */
  readonly resolved?: readonly [days: number, payouts: Payouts];
  readonly isUnlisted?: true;
  /** Nobody trades it around its resolution. */
  readonly isQuiet?: true;
};

type Payouts = readonly [bigint, bigint];
const FIRST: Payouts = [1n, 0n];
const SECOND: Payouts = [0n, 1n];
const SPLIT: Payouts = [1n, 1n];

const PLANS: readonly Plan[] = [
  { tags: ['politics', 'elections'], series: 'weekly', days: [20, 0], bursts: 60 },
  { tags: ['crypto', '5M'], series: 'btc-5m', days: [2, 0], bursts: 30 },
  { tags: ['crypto', '5M'], series: 'eth-5m', days: [2, 0], bursts: 20 },
  { tags: ['sports', 'esports', 'dota-2'], type: 'spreads', days: [16, 0], bursts: 20 },
  { tags: ['geopolitics', 'politics'], days: [16, 0], bursts: 20 },
  { tags: ['politics'], days: [3, 0], bursts: 20 },
  { tags: ['economy'], days: [12, 3], bursts: 8, resolved: [2.5, SPLIT] },
  // The busiest one, and no longer open.
  { tags: ['sports'], days: [3, 0.3], bursts: 90, resolved: [0.25, SECOND] },
  { tags: ['weather'], days: [5, 0], bursts: 10 },
  { tags: ['culture'], days: [13, 8.5], bursts: 10 },
  {
    tags: ['tech'],
    series: 'monthly',
    type: 'moneyline',
    days: [12, 9],
    bursts: 6,
    resolved: [2, FIRST],
    isQuiet: true,
  },
  { tags: [], days: [10, 0], bursts: 10 },
  { tags: ['crypto'], days: [10, 0], bursts: 10, isUnlisted: true },
  ...[FIRST, SECOND].flatMap((payouts) =>
    [0.2, 1.5, 3.3, 4.4, 6.4, 9, 20, 29, 33].map(
      (resolved, index): Plan => ({
        tags: ['sports', index % 2 === 0 ? 'tennis' : 'soccer'],
        type: index % 3 === 0 ? 'totals' : 'moneyline',
        labels: index % 2 === 0 ? ['Cerundolo', 'Cerundolo'] : ['Yes', 'No'],
        days: [resolved + 3, resolved + 0.01],
        bursts: 5,
        resolved: [resolved, payouts],
      }),
    ),
  ),
];
/** Traded back and forth, so that nobody holds it. */
const FLAT = PLANS.length;
/** Its two traders realise the same PnL every day. */
const STEADY_MARKET = PLANS.length + 1;
/** Its traders trade on one day, and it settles on another. */
const SETTLED_LATER = PLANS.length + 2;
/** No match has shares. */
const EMPTY = PLANS.length + 3;
const MADE: readonly Plan[] = [
  { tags: ['finance'], days: [1, 1], bursts: 0 },
  { tags: ['politics'], days: [14, 0], bursts: 0 },
  { tags: ['culture'], days: [3, 3], bursts: 0 },
  { tags: ['mentions'], days: [1, 1], bursts: 0 },
];

export const LISTINGS: readonly Listing[] = [...PLANS, ...MADE].flatMap((plan, market) =>
  plan.isUnlisted ? [] : [listingOf(plan, market)],
);

function listingOf(plan: Plan, market: number): Listing {
  const text = { startDate: '', endDate: '', icon: '', eventIcon: '', groupItemTitle: '' };
  return {
    ...{ ...text, kind: 'listing', conditionId: conditionId(market), negRisk: false },
    ...{ marketId: `${1_000 + market}`, question: `Question ${market}?`, slug: `market-${market}` },
    ...{ eventSlug: `event-${market}`, eventTitle: `Event ${market}` },
    ...{ seriesSlug: plan.series ?? '', tags: [...plan.tags], sportsMarketType: plan.type ?? '' },
    outcomes: [...(plan.labels ?? ['Yes', 'No'])],
    tokenIds: [`${tokenOf(market, 0)}`, `${tokenOf(market, 1)}`],
  };
}

function tokenOf(market: number, outcome: 0 | 1): number {
  return 1_000_000 + market * 2 + outcome;
}

type Order = {
  readonly trader: Address;
  readonly side: 'BUY' | 'SELL';
  readonly outcome: 0 | 1;
  readonly shares: bigint;
  readonly usdc: bigint;
};
/** Makers first, the taker last. */
type Deal = { readonly time: number; readonly market: number; readonly orders: readonly Order[] };
type Payout = {
  readonly time: number;
  readonly market: number;
  readonly payouts: Payouts;
};

/** Events in chain order. No age is near the end of a window, so that seconds may pass before the examples run. */
export function awkwardLedger(seed: number, now: number): readonly (Match | Resolution)[] {
  const dice = generator(seed);
  const below = (limit: number) => Math.floor(dice() * limit);
  const events: (Deal | Payout)[] = [];

  const traderAt = (time: number) =>
    traderAddress(below(now - time < NEW_DAYS * DAY ? TRADERS : OLD_TRADERS));
  const deal = (time: number, market: number, cents: number, trader = traderAt(time)): Deal => {
    const pick = () => traderAt(time);
    const side = dice() < 0.6 ? 'BUY' : 'SELL';
    const outcome = dice() < 0.6 ? 0 : 1;
    const own = outcome === 0 ? cents : 100 - cents;
    // A match without shares, and one above 1 USDC a share.
    const odd = dice();
    if (odd < 0.04) {
      const [maker, taker] = [pick(), { trader, side, outcome, shares: 0n, usdc: 1n }] as const;
      return { time, market, orders: [{ ...taker, trader: maker, side: opposite(side) }, taker] };
    }
    const excess = odd < 0.055 ? 5n : 0n;
    const usdcOf = (shares: bigint, price: number) => (shares * BigInt(price)) / 100n;
    const makers = Array.from({ length: 1 + below(3) }, (): Order => {
      // Whole shares more often than not, so that prices are whole cents.
      const whole = BigInt(1 + below(200)) * 1_000_000n;
      const shares = dice() < 0.6 ? whole : whole + BigInt(below(1_000_000));
      // It sells what the taker buys, or buys the other outcome, and the reverse.
      if (dice() < 0.5)
        return { trader: pick(), side: opposite(side), outcome, shares, usdc: usdcOf(shares, own) };
      const other = outcome === 0 ? 1 : 0;
      return { trader: pick(), side, outcome: other, shares, usdc: usdcOf(shares, 100 - own) };
    });
    const shares = makers.reduce((all, maker) => all + maker.shares, 0n);
    const usdc = excess > 0n ? shares + excess : usdcOf(shares, own);
    return { time, market, orders: [...makers, { trader, side, outcome, shares, usdc }] };
  };

  for (const [market, plan] of PLANS.entries()) {
    const [oldest, newest] = plan.days;
    for (let burst = 0; burst < plan.bursts; burst++) {
      const age = (newest + (oldest - newest) * dice() ** 2) * DAY;
      let cents = 5 + below(91);
      let offset = 0;
      // Two takers, so that some trade several times in a row.
      const pair = [traderAt(now - age), traderAt(now - age)];
      for (let i = 3 + below(8); i > 0; i--) {
        events.push(deal(now - away(age - offset), market, cents, pair[below(2)]));
        cents = Math.min(98, Math.max(2, cents + below(25) - 12));
        // Half of the matches share the second of the one before.
        if (dice() < 0.5) offset += [1, 2, 4, 5, 55, 60, 240, 600][below(8)] ?? 0;
      }
    }
    if (plan.resolved === undefined) continue;
    const [days, payouts] = plan.resolved;
    const time = now - Math.floor(days * DAY);
    // Around the last hour and the minute before it, and in the second of the resolution on both sides.
    for (const before of plan.isQuiet
      ? []
      : [3_722, 3_661, 3_660, 3_601, 3_600, 3_599, 900, 900, 30, 1, 0]) {
      events.push(deal(time - before, market, 5 + below(91)));
    }
    events.push({ time, market, payouts });
    if (!plan.isQuiet) events.push(deal(time, market, 5 + below(91)));
  }

  const swap = (
    time: number,
    market: number,
    side: Order['side'],
    usdc: bigint,
    { between = STEADY, shares = 1_000_000n } = {},
  ): Deal => {
    const order = { outcome: 0, shares, usdc } as const;
    const [trader, maker] = between;
    const orders = [
      { ...order, trader: maker, side: opposite(side) },
      { ...order, trader, side },
    ];
    return { time, market, orders };
  };
  events.push(swap(now - 5 * HOUR, FLAT, 'BUY', 400_000n));
  events.push(swap(now - 4 * HOUR, FLAT, 'SELL', 500_000n));
  events.push(swap(now - 5 * HOUR, EMPTY, 'BUY', 7n, { shares: 0n }));
  events.push(swap(now - 3 * DAY, SETTLED_LATER, 'BUY', 300_000n, { between: ONCE }));
  events.push({ time: now - 2 * HOUR, market: SETTLED_LATER, payouts: FIRST });
  for (let day = 0; day < 16; day++) {
    const time = now - day * DAY - 1_500;
    events.push(swap(time, STEADY_MARKET, 'BUY', 500_000n));
    events.push(swap(time + 1, STEADY_MARKET, 'SELL', 600_000n));
  }
  return inBlocks(
    events.sort((a, b) => a.time - b.time),
    dice,
  );
}

/** Not within ten minutes before the end of a window, and a little after it. */
function away(age: number): number {
  const whole = Math.max(Math.floor(age), 700);
  const edge = [HOUR, DAY, 7 * DAY, 30 * DAY].find((one) => whole > one - 600 && whole < one + 120);
  return edge === undefined ? whole : edge + 120;
}

function opposite(side: Order['side']): Order['side'] {
  return side === 'BUY' ? 'SELL' : 'BUY';
}

/** A second has one block or more. */
function inBlocks(events: readonly (Deal | Payout)[], dice: () => number) {
  const hex = (value: number) => `0x${value.toString(16).padStart(64, '0')}` as Hash;
  let blockNumber = 1;
  let logIndex = 0;
  let last = events[0]?.time;
  return events.map((event, index): Match | Resolution => {
    if (event.time !== last || dice() < 0.3) {
      blockNumber += 1;
      logIndex = 0;
    }
    last = event.time;
    const fills = 'orders' in event ? event.orders : [];
    const first = logIndex;
    logIndex += fills.length + 1;
    const at = { blockNumber, blockTime: event.time, txHash: hex(index) };
    const place = { ...at, logIndex: logIndex - 1, conditionId: conditionId(event.market) };
    if ('payouts' in event) return { kind: 'resolution', ...place, payouts: [...event.payouts] };
    return {
      ...{ kind: 'match', ...place, exchange: `0x${'e1'.repeat(20)}` as Address },
      fills: fills.map(({ outcome, ...order }, leg): Fill => {
        const isTaker = leg === fills.length - 1;
        const rate = event.market < PLANS.length && (isTaker || order.side === 'BUY') ? 100n : 0n;
        return {
          ...{ ...order, isTaker, outcomeIndex: outcome, logIndex: first + leg },
          orderHash: hex(index * 8 + leg),
          tokenId: `${tokenOf(event.market, outcome)}`,
          fee: rate === 0n ? 0n : order.usdc / rate,
        };
      }),
    };
  });
}
