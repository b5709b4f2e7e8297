/** The tools: what each is for, its arguments, and the endpoints that it calls. */
import { z } from 'zod';
import { tradersBatch } from '../../api/analytics/batch.ts';
import { candlesV2 } from '../../api/analytics/candles.ts';
import { holdersV2 } from '../../api/analytics/holders.ts';
import { leaderboardV2 } from '../../api/analytics/leaderboard.ts';
import { marketDetailV2 } from '../../api/analytics/market.ts';
import { marketTradesV2 } from '../../api/analytics/market-trades.ts';
import { marketsV2 } from '../../api/analytics/markets.ts';
import { positionsV2 } from '../../api/analytics/positions.ts';
import { search } from '../../api/analytics/search.ts';
import { traderV2 } from '../../api/analytics/trader.ts';
import { traderTradesV2 } from '../../api/analytics/trader-trades.ts';
import { recentMatches } from '../../api/feed/recent.ts';
import { status } from '../../api/service/status.ts';
import { PARAMETERS } from '../client/parameters.ts';
import { toolInput } from './input.ts';
import { type Tool, ToolError, tool } from './tool.ts';

const LISTED_MAX = 20;

const trader = z.string().min(1).max(100).describe('address, exact name or @account');
const market = z.string().min(1).max(200).describe('id, condition id or slug');
const word = z.string().min(1).max(100);
const tag = word.optional().describe('crypto, politics …');
const size = z.number().min(0).optional();
const price = z.number().min(0).max(1).optional();
const instant = z.string().max(40).optional().describe('ISO 8601');
const cursor = z.string().max(200).optional();

function limit(most: number, usual: number) {
  return z.int().min(1).max(most).default(usual);
}

function list(entry: z.ZodString) {
  return z.array(entry).max(LISTED_MAX).optional();
}

const { leaderboard, marketCandles, markets, traderPositions, traderTrades } = PARAMETERS;

export const TOOLS: readonly Tool[] = [
  tool({
    name: 'leaderboard',
    title: 'Leaderboard',
    description:
      'The best traders of a time frame, by realised PnL, ROI, win rate, number of markets or volume, over all markets or those of a tag, or in one market.',
    input: toolInput({
      time_frame: z.enum(leaderboard.time_frame.enum).default('7D'),
      sort_by: z.enum(leaderboard.sort_by.enum).default('pnl'),
      order: z.enum(leaderboard.order.enum).default('desc').describe('asc: the worst first'),
      tag,
      market: market.optional(),
      min_market_count: z.int().min(0).optional().describe('minimum markets in the time frame'),
      min_pnl: z.int().optional(),
      limit: limit(100, 10),
      cursor,
    }),
    run: (given, { call }) => call(leaderboardV2, given),
  }),
  tool({
    name: 'trader',
    title: 'Trader',
    description:
      'One trader: name, balance, fee tier, PnL, ROI and volume of six time windows from one hour to 30 days, totals of all positions, best tags of 30 days. To compare traders, call it for each.',
    input: toolInput({ trader }),
    async run(given, { call, addressOf }) {
      const address = await addressOf(given.trader);
      const [profile, batch] = await Promise.all([
        call(traderV2, { address }),
        call(tradersBatch, { addresses: [address] }),
      ]);
      const [known] = batch.traders as readonly object[];
      return { ...profile, ...known };
    },
  }),
  tool({
    name: 'positions',
    title: 'Positions of a trader',
    description:
      'What a trader holds, or held until a market was resolved: shares, average price, value, realised and unrealised PnL of each market, and the totals.',
    input: toolInput({
      trader,
      status: z.enum(traderPositions.status.enum).default('open'),
      sort_by: z.enum(traderPositions.sort_by.enum).default('value'),
      order: z.enum(traderPositions.order.enum).default('desc'),
      limit: limit(50, 10),
      cursor,
    }),
    run: async ({ trader, ...query }, { call, addressOf }) =>
      call(positionsV2, { address: await addressOf(trader), ...query }),
  }),
  tool({
    name: 'trades',
    title: 'Trades of a trader or a market',
    description:
      'Final trades, newest first: the fills of a trader, in all markets or one, or without `trader` every match of `market` with the fill of its taker. The other filters need a trader.',
    input: toolInput({
      trader: trader.optional(),
      market: market.optional(),
      side: z.enum(traderTrades.side.enum).optional(),
      min_usdc: size.describe('minimum size of a fill'),
      from: instant,
      to: instant,
      limit: limit(100, 20),
      cursor,
    }),
    async run({ trader, market, limit, cursor, ...filters }, { call, addressOf }) {
      const page = { limit, cursor };
      if (trader !== undefined) {
        const address = await addressOf(trader);
        return await call(traderTradesV2, { address, market, ...filters, ...page });
      }
      if (market === undefined) throw new ToolError('trades needs a trader, a market or both');
      const [filter] = Object.entries(filters).filter(([, value]) => value !== undefined);
      if (filter !== undefined) throw new ToolError(`${filter[0]} works only with a trader`);
      return await call(marketTradesV2, { id: market, ...page });
    },
  }),
  tool({
    name: 'search',
    title: 'Search',
    description:
      'Finds markets and traders by words, part of a name, id, beginning of an address, or URL.',
    input: toolInput({ q: z.string().min(1).max(300), limit: limit(20, 5) }),
    run: (given, { call }) => call(search, given),
  }),
  tool({
    name: 'markets',
    title: 'List of markets',
    description:
      'Markets by volume, number of traders, change of price, age or end date, with price, volume and open interest.',
    input: toolInput({
      q: z.string().min(1).max(200).optional().describe('words of the question'),
      tag,
      status: z.enum(markets.status.enum).default('open'),
      sort_by: z.enum(markets.sort_by.enum).default('volume_24h'),
      limit: limit(50, 10),
      cursor,
    }),
    run: (given, { call }) => call(marketsV2, given),
  }),
  tool({
    name: 'market',
    title: 'Market',
    description:
      'One market: question, outcomes, price, resolution, volume, traders, top earners; optionally its prices over time and its largest holders.',
    input: toolInput({
      market,
      candles: z
        .enum(marketCandles.interval.enum)
        .optional()
        .describe('add prices and volume by this interval, by default the last 300'),
      from: instant.describe('time of the first candle, ISO 8601'),
      to: instant.describe('time of the last candle, ISO 8601'),
      holders: z.int().min(1).max(100).optional().describe('add so many holders'),
    }),
    async run({ market: id, candles: interval, from, to, holders: limit }, { call }) {
      if (interval === undefined && (from ?? to) !== undefined) {
        throw new ToolError('from and to need candles, which is the interval');
      }
      const [about, candles, held] = await Promise.all([
        call(marketDetailV2, { id }),
        interval === undefined ? {} : call(candlesV2, { id, interval, from, to }),
        limit === undefined ? undefined : call(holdersV2, { id, limit }),
      ]);
      return { ...about, ...candles, holders: held?.holders };
    },
  }),
  tool({
    name: 'recent_matches',
    title: 'Recent matches of the whole feed',
    description:
      'The live feed, oldest first: matches when they are first seen, the newest, or up to 72 hours old with `from`. A `void` event retracts a match; with `finality`, `final` says that it is final. If `more`, continue with `from` = `cursor`; `gap` means that the feed no longer has all of them. `trades` has older ones.',
    input: toolInput({
      traders: list(trader).describe('any participant counts'),
      tags: list(word),
      series: list(word).describe('slugs'),
      markets: list(market),
      min_usdc: size.describe('of the order of the taker, as all bounds'),
      max_usdc: size,
      min_shares: size,
      max_shares: size,
      min_price: price,
      max_price: price,
      finality: z.boolean().default(false),
      from: z.string().max(40).optional().describe('ISO 8601, or a `cursor`'),
      limit: limit(100, 20),
    }),
    async run({ traders, min_price, max_price, ...query }, { call, addressOf }) {
      const given = {
        ...{ ...query, traders: traders && (await Promise.all(traders.map(addressOf))) },
        ...{ min_price: cents(min_price), max_price: cents(max_price) },
      };
      // The API rejects an empty list.
      const filters = Object.entries(given).filter(([, one]) => String(one) !== '');
      return await call(recentMatches, Object.fromEntries(filters));
    },
  }),
  tool({
    name: 'status',
    title: 'Status',
    description: 'How fresh the data is: blocks, ages and delays.',
    input: toolInput({}),
    run: (_, { call }) => call(status),
  }),
];

/** The feed takes prices from 0 to 100. */
function cents(price: number | undefined): number | undefined {
  // A multiplication by 100 would make 28.999999999999996 of 0.29.
  return price === undefined ? undefined : Math.round(price * 1e6) / 1e4;
}
