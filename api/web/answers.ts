/** The API's responses that the page reads, by the names that they have here. */
import type * as Api from '../client/index.ts';

export type Leaderboard = Api.V1AnalyticsLeaderboard;
export type LeaderboardEntry = Leaderboard['traders'][number];
export type PnlLines = Api.V2AnalyticsPnlLines;
export type Status = Api.V2Status;
export type Trader = Api.V1TradersAddress;
export type Window = Trader['stats'][keyof Trader['stats']];
export type TraderV2 = Api.V2TradersAddress;
export type Hourly = Api.V2TradersAddressHourlyStats;
export type History = Api.V2TradersAddressMarkets;
export type HistoryEntry = History['history'][number];
export type Orders = Api.V1TradersAddressMarketsIdOrders;
export type MarketDetail = Api.V2MarketsId;
export type Market = MarketDetail['market'];
export type Prices = Api.V2MarketsIdPrices;
export type Streams = Api.Streams;
export type Stream = Api.Stream;
export type Account = Api.V2UserMe;
export type Sessions = Api.Sessions;
export type Session = Sessions['data'][number];
export type EndedSessions = Api.SessionsHistory;
