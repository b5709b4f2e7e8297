/** The API's responses that the page reads. Types alone: nothing of the API becomes part of the bundle. */
import type { z } from 'zod';
import type { hourlyV2 } from '../analytics/hourly.ts';
import type { leaderboardV1 } from '../analytics/leaderboard.ts';
import type { marketDetailV2 } from '../analytics/market.ts';
import type { ordersV1 } from '../analytics/orders.ts';
import type { pnlLines } from '../analytics/pnl-lines.ts';
import type { pricesV2 } from '../analytics/prices.ts';
import type { traderV1, traderV2 } from '../analytics/trader.ts';
import type { traderMarketsV2 } from '../analytics/trader-markets.ts';
import type { me } from '../auth/account.ts';
import type { status } from '../status.ts';
import type { listEndedSessions, listSessions, listStreams } from '../streams/endpoints.ts';

type ResponseOf<Endpoint extends { readonly answer: z.ZodType }> = z.output<Endpoint['answer']>;

export type Leaderboard = ResponseOf<typeof leaderboardV1>;
export type LeaderboardEntry = Leaderboard['traders'][number];
export type PnlLines = ResponseOf<typeof pnlLines>;
export type Status = ResponseOf<typeof status>;
export type Trader = ResponseOf<typeof traderV1>;
export type Window = Trader['stats'][keyof Trader['stats']];
export type TraderV2 = ResponseOf<typeof traderV2>;
export type Hourly = ResponseOf<typeof hourlyV2>;
export type History = ResponseOf<typeof traderMarketsV2>;
export type HistoryEntry = History['history'][number];
export type Orders = ResponseOf<typeof ordersV1>;
export type MarketDetail = ResponseOf<typeof marketDetailV2>;
export type Market = MarketDetail['market'];
export type Prices = ResponseOf<typeof pricesV2>;
export type Streams = ResponseOf<typeof listStreams>;
export type Stream = Streams['data'][number];
export type Account = ResponseOf<typeof me>;
export type Sessions = ResponseOf<typeof listSessions>;
export type Session = Sessions['data'][number];
export type EndedSessions = ResponseOf<typeof listEndedSessions>;
