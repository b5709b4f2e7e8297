/** The API's responses that the page reads, by the names that they have here. */
import type * as Api from '../client/index.ts';

export type Leaderboard = Api.LeaderboardV1;
export type LeaderboardEntry = Leaderboard['traders'][number];
export type PnlLines = Api.PnlLines;
export type Status = Api.Status;
export type Trader = Api.TraderV1;
export type Window = Trader['stats'][keyof Trader['stats']];
export type TraderV2 = Api.Trader;
export type Hourly = Api.TraderHours;
export type History = Api.TraderMarkets;
export type HistoryEntry = History['history'][number];
export type Orders = Api.TraderOrdersV1;
export type MarketDetail = Api.Market;
export type Market = MarketDetail['market'];
export type Prices = Api.MarketPrices;
export type Streams = Api.Streams;
export type Stream = Api.Stream;
export type Account = Api.Me;
export type Sessions = Api.Sessions;
export type Session = Sessions['data'][number];
export type EndedSessions = Api.EndedSessions;
