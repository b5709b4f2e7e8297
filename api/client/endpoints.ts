// Written by generate.ts: do not edit.
import type { CallOptions, Http, List } from './http.ts';
import type {
  ApiKey,
  BiggestTrades,
  BiggestTradesQuery,
  CreateKey,
  CreateKeyBody,
  CreateStreamBody,
  DeleteKey,
  DeleteStream,
  EndedSessions,
  EndedSessionsQuery,
  FinalMatches,
  FinalMatchesQuery,
  Keys,
  Leaderboard,
  LeaderboardQuery,
  LeaderboardQueryV1,
  LeaderboardV1,
  Market,
  MarketCandles,
  MarketCandlesQuery,
  MarketHolders,
  MarketHoldersQuery,
  MarketPrices,
  MarketPricesQuery,
  Markets,
  MarketsQuery,
  MarketTradersQueryV1,
  MarketTradersV1,
  MarketTrades,
  MarketTradesQuery,
  MarketV1,
  Me,
  PnlLines,
  PnlLinesQuery,
  RecentMatches,
  RecentMatchesQuery,
  Search,
  SearchQuery,
  Sessions,
  Status,
  Stream,
  Streams,
  Telemetry,
  Tiers,
  Trader,
  TraderEquity,
  TraderEquityQuery,
  TraderHours,
  TraderHoursQuery,
  TraderHoursQueryV1,
  TraderHoursV1,
  TraderMarkets,
  TraderMarketsQuery,
  TraderMarketsQueryV1,
  TraderMarketsV1,
  TraderOrders,
  TraderOrdersQuery,
  TraderOrdersQueryV1,
  TraderOrdersV1,
  TraderPositions,
  TraderPositionsQuery,
  TraderQuery,
  Traders,
  TradersBody,
  TraderTrades,
  TraderTradesQuery,
  TraderV1,
  UpdateKeyBody,
  UpdateStreamBody,
  UpdateSubscriptionBody,
} from './types.ts';

export class Endpoints {
  protected readonly http: Http;

  constructor(http: Http) {
    this.http = http;
  }

  /**
   * `GET /v2/analytics/leaderboard`: Traders by PnL, ROI, win rate or markets, or by volume; amounts as numbers.
   *
   * A board is computed again five seconds after it was computed, or four times as long as that took: while it takes less than a second, no board is older than 10 seconds; and none waits longer than 10 seconds (1H, 4H), a minute (1D) or 5 minutes. Figures are as of the last refresh, profiles with `last_trade_at` at most 5 seconds old. Pages of one refresh do not overlap; who moves in a refresh between two pages can be repeated or omitted. `rank` counts from the top in either order. With `market` or `series`, a board is summed from the bookings for the request and shared with others for up to 10 seconds. `as_of` (v2) says when the board was computed, and `Age` how many seconds ago. Responses have an ETag.
   */
  leaderboard(
    query: LeaderboardQuery = {},
    options?: CallOptions,
  ): List<Leaderboard, Leaderboard['traders'][number]> {
    return this.http.list('/v2/analytics/leaderboard', 'traders', query, options);
  }

  /**
   * `POST /v2/traders/batch`: Profile, balance, tier, windows and position totals of up to 100 traders.
   *
   * In the order of the addresses. Windows end now and are exact to the second. Tags and weighted volume are only in `/v2/traders/:address`: they need each market of a trader. An address without trades and without a public profile is in `unknown`. Nothing is stored: an `Idempotency-Key` has no effect.
   */
  traders(body: TradersBody, options?: CallOptions): Promise<Traders> {
    return this.http.call('POST', '/v2/traders/batch', { body }, options);
  }

  /**
   * `GET /v2/traders/:address`: One trader: profile, balance, tier, weighted volume, top tags.
   *
   * Up to 5 tags of the last 30 days are ranked by PnL, then volume. In weighted_volume, the weight of a market is the least weight of the categories among its tags, or 1.7 without one.
   */
  trader(address: string, query: TraderQuery = {}, options?: CallOptions): Promise<Trader> {
    return this.http.call('GET', `/v2/traders/${segment(address)}`, { query }, options);
  }

  /**
   * `GET /v2/traders/:address/markets`: Markets of one trader, amounts as numbers, with results.
   *
   * Newest trade first, ties by condition id; `order=asc` is the exact reverse. A market that is traded between two pages moves to the front: newest first, it can be omitted and nothing is repeated; oldest first, it is repeated and nothing is omitted. The history of an unknown address is empty. A market without a listing has the id 0 and empty texts.
   */
  traderMarkets(
    address: string,
    query: TraderMarketsQuery = {},
    options?: CallOptions,
  ): List<TraderMarkets, TraderMarkets['history'][number]> {
    return this.http.list(`/v2/traders/${segment(address)}/markets`, 'history', query, options);
  }

  /**
   * `GET /v2/traders/:address/positions`: Positions of one trader, at average price and mark.
   *
   * What is held, what it cost and what it is worth at the mark of its market: its newest final match, or its payout once it is resolved. `value` and `pnl` change with every match, so an entry that moves between two pages can be repeated or omitted; `limit=100` gets 100 at once. By `age`, entries do not move, and by `last_trade` only when they are traded; with `status=open` a position that is closed meanwhile leaves the list and one that is opened joins it; nothing is repeated. Ties are broken by condition id. `totals` are of all pages. Shares that came or went without a fill of the version 2 exchange are not seen. The list of an unknown address is empty.
   */
  traderPositions(
    address: string,
    query: TraderPositionsQuery = {},
    options?: CallOptions,
  ): List<TraderPositions, TraderPositions['positions'][number]> {
    return this.http.list(`/v2/traders/${segment(address)}/positions`, 'positions', query, options);
  }

  /**
   * `GET /v2/traders/:address/trades`: Fills of one trader over all markets.
   *
   * Every final fill, newest first unless `order=asc`. The order never changes: pages repeat and omit nothing while trades arrive. Settlements are no trades: they are in `/v2/traders/:address/positions?status=resolved`. The list of an unknown address is empty.
   */
  traderTrades(
    address: string,
    query: TraderTradesQuery = {},
    options?: CallOptions,
  ): List<TraderTrades, TraderTrades['trades'][number]> {
    return this.http.list(`/v2/traders/${segment(address)}/trades`, 'trades', query, options);
  }

  /**
   * `GET /v2/traders/:address/equity`: Realised and unrealised PnL of one trader over time.
   *
   * Points at the ends of hours or days (UTC) from `from` to `to`, oldest first, at most 744; more are a 400. A point counts the blocks before its time and values what was held at the last match of each market before it; a resolution realises what it pays. So equity changes between two points by realised PnL + change of unrealised PnL, exactly. Only the last point changes, until its interval has passed and its blocks are final. Deposits and withdrawals are not part of it. A trader without fills has points of 0.
   */
  traderEquity(
    address: string,
    query: TraderEquityQuery = {},
    options?: CallOptions,
  ): Promise<TraderEquity> {
    return this.http.call('GET', `/v2/traders/${segment(address)}/equity`, { query }, options);
  }

  /**
   * `GET /v2/traders/:address/markets/:id/orders`: Fills of one trader in one market, amounts as numbers.
   *
   * Every fill, oldest first unless `order=desc`. The list of an address without fills there is empty.
   */
  traderOrders(
    address: string,
    id: number | string,
    query: TraderOrdersQuery = {},
    options?: CallOptions,
  ): List<TraderOrders, TraderOrders['orders'][number]> {
    return this.http.list(
      `/v2/traders/${segment(address)}/markets/${segment(id)}/orders`,
      'orders',
      query,
      options,
    );
  }

  /**
   * `GET /v2/traders/:address/hourly_stats`: Hourly sums of one trader, with cost basis and fees.
   *
   * Newest hour first unless `order=asc`; hours without activity are left out.
   */
  traderHours(
    address: string,
    query: TraderHoursQuery = {},
    options?: CallOptions,
  ): List<TraderHours, TraderHours['stats'][number]> {
    return this.http.list(`/v2/traders/${segment(address)}/hourly_stats`, 'stats', query, options);
  }

  /**
   * `GET /v2/markets/:id`: One market with its price, totals and top earners, amounts as numbers.
   *
   * Totals over all traders, and up to 20 traders with the greatest PnL above 0, ranked by PnL, then volume, then address. A condition id also finds a market without a listing; a slug that was used again means the newest market. `/v1/market_data` has every trader.
   */
  market(id: string, options?: CallOptions): Promise<Market> {
    return this.http.call('GET', `/v2/markets/${segment(id)}`, {}, options);
  }

  /**
   * `GET /v2/markets`: Markets by volume, traders, change, age or end.
   *
   * Every market with a match. Prices, figures, status and resolutions are those of the last refresh, `as_of`, 5 to 30 seconds after the one before; texts are at most five seconds old. The 24 hours begin at a whole minute. Ties are broken by condition id. The pages of one refresh fit together; a market that moves in a refresh between two pages can be repeated or omitted.
   */
  markets(
    query: MarketsQuery = {},
    options?: CallOptions,
  ): List<Markets, Markets['markets'][number]> {
    return this.http.list('/v2/markets', 'markets', query, options);
  }

  /**
   * `GET /v2/analytics/pnl_lines`: PnL by hour of several traders.
   *
   * The hours up to the current one, oldest first, of each trader in the order of `traders`.
   */
  pnlLines(query: PnlLinesQuery = {}, options?: CallOptions): Promise<PnlLines> {
    return this.http.call('GET', '/v2/analytics/pnl_lines', { query }, options);
  }

  /**
   * `GET /v2/markets/:id/prices`: Price line of one market from its fills.
   *
   * Prices of the first outcome; the second costs 1 minus that. Intervals without a match are omitted.
   */
  marketPrices(
    id: string,
    query: MarketPricesQuery = {},
    options?: CallOptions,
  ): Promise<MarketPrices> {
    return this.http.call('GET', `/v2/markets/${segment(id)}/prices`, { query }, options);
  }

  /**
   * `GET /v2/markets/:id/candles`: Candles of one market.
   *
   * Prices of the first outcome, oldest first; the second costs 1,000,000 minus that. Intervals begin at multiples of their length, UTC: a day at midnight. They begin with the first match and end now, or with the resolution of the market; one without a match has the close before and `is_empty`. At most 1500 candles. The last one changes until it has passed and its blocks are final.
   */
  marketCandles(
    id: string,
    query: MarketCandlesQuery = {},
    options?: CallOptions,
  ): Promise<MarketCandles> {
    return this.http.call('GET', `/v2/markets/${segment(id)}/candles`, { query }, options);
  }

  /**
   * `GET /v2/markets/:id/trades`: Matches of one market.
   *
   * Every final match, newest first unless `order=asc`, each once with the fill of its taker. The order never changes: pages repeat and omit nothing while trades arrive.
   */
  marketTrades(
    id: string,
    query: MarketTradesQuery = {},
    options?: CallOptions,
  ): List<MarketTrades, MarketTrades['trades'][number]> {
    return this.http.list(`/v2/markets/${segment(id)}/trades`, 'trades', query, options);
  }

  /**
   * `GET /v2/markets/:id/holders`: Who holds the outcomes of one market.
   *
   * Most shares first, ties by address. A trader holds net shares of one outcome. A resolution settles all positions, so a resolved market has no holders. Trades move holders: one whose shares change between two pages can be repeated or omitted; `limit=100` gets 100 at once.
   */
  marketHolders(
    id: string,
    query: MarketHoldersQuery = {},
    options?: CallOptions,
  ): List<MarketHolders, MarketHolders['holders'][number]> {
    return this.http.list(`/v2/markets/${segment(id)}/holders`, 'holders', query, options);
  }

  /**
   * `GET /v2/biggest_trades`: The largest matches of the last hours.
   *
   * Final matches of all markets by value without the fee, the largest first, each once with the fill of its taker; of equal ones the newest first.
   */
  biggestTrades(query: BiggestTradesQuery = {}, options?: CallOptions): Promise<BiggestTrades> {
    return this.http.call('GET', '/v2/biggest_trades', { query }, options);
  }

  /**
   * `GET /v2/search`: Markets and traders by what a user types or pastes.
   *
   * Finds markets by words of the question, the titles and the slugs of market and event, by id, condition id, and URL (of polymarket.com or of the page), and traders by name, account on X (also `@account`), and the beginning of the address. All words must be found, the last one also as a beginning; a word of four letters or more may have one typo (a character too many, too few or another one, or two neighbours exchanged). Letter case, accents and punctuation do not matter. What is named exactly comes first, then what has all words as typed, then with the last word as a beginning, then with typos; equal ones by volume (markets) or number of fills (traders). What has the form of a URL of a market, a condition id, a slug of several words, an address or the beginning of one, and is one, is the only kind of result. Where more than 1,000 have all words and enough of them are not among the 20,000 of the greatest volume (or the most fills), 1,000 others are considered. Volumes, and which markets there are, are usually less than ten seconds old, at most a minute; so are the fills that traders are ordered by, and which traders are found by name.
   */
  search(query: SearchQuery, options?: CallOptions): Promise<Search> {
    return this.http.call('GET', '/v2/search', { query }, options);
  }

  /**
   * `GET /v2/user/me`: The account of the key, and what it may do.
   *
   * The account, the key of this request, and its tier's limits.
   */
  me(options?: CallOptions): Promise<Me> {
    return this.http.call('GET', '/v2/user/me', {}, options);
  }

  /**
   * `GET /v2/user/telemetry`: What the account used today.
   *
   * Counts of this UTC day over all keys of the account and all api processes; requests to other processes appear after about a second. Counts start again at midnight UTC.
   */
  telemetry(options?: CallOptions): Promise<Telemetry> {
    return this.http.call('GET', '/v2/user/telemetry', {}, options);
  }

  /**
   * `GET /v2/user/keys`: The API keys of the account.
   *
   * Every key of the account with its id, newest first; never a key itself.
   */
  keys(options?: CallOptions): Promise<Keys> {
    return this.http.call('GET', '/v2/user/keys', {}, options);
  }

  /**
   * `POST /v2/user/keys`: Create an API key.
   *
   * A key of the same account and tier as the key of this request. `key` is shown in this response, and in its repetition with the same `Idempotency-Key`, only: store it. It expires no later than the key of this request.
   */
  createKey(body: CreateKeyBody, options?: CallOptions): Promise<CreateKey> {
    return this.http.call('POST', '/v2/user/keys', { body }, options);
  }

  /**
   * `PATCH /v2/user/keys/:id`: Change the label or the expiry of an API key.
   *
   * Omitted members stay as they are. A revoked key cannot be changed.
   */
  updateKey(id: string, body: UpdateKeyBody, options?: CallOptions): Promise<ApiKey> {
    return this.http.call('PATCH', `/v2/user/keys/${segment(id)}`, { body }, options);
  }

  /**
   * `DELETE /v2/user/keys/:id`: Revoke an API key.
   *
   * Ends the key for good, and its open streams within a second, in every process. The key of this request can be revoked, too. A revoked key stays in the list; revoking it again is a 404.
   */
  deleteKey(id: string, options?: CallOptions): Promise<DeleteKey> {
    return this.http.call('DELETE', `/v2/user/keys/${segment(id)}`, {}, options);
  }

  /**
   * `GET /v2/tiers`: The tiers and their limits.
   *
   * What each tier may do.
   */
  tiers(options?: CallOptions): Promise<Tiers> {
    return this.http.call('GET', '/v2/tiers', {}, options);
  }

  /**
   * `GET /streams`: List the streams of this account.
   *
   * Oldest first.
   */
  streams(options?: CallOptions): Promise<Streams> {
    return this.http.call('GET', '/streams', {}, options);
  }

  /**
   * `POST /streams`: Create a stream with stored filters.
   *
   * A match is delivered if it fits every non-empty list, by any entry of it. Slugs are
   * lower-cased and duplicates removed; of markets, the condition ids are kept. The quotas `max_streams`, `max_naked_streams` (streams
   * without any filter), `max_filter_addrs`, `max_filter_tags` and `max_filter_series` depend on the tier.
   */
  createStream(body: CreateStreamBody, options?: CallOptions): Promise<Stream> {
    return this.http.call('POST', '/streams', { body }, options);
  }

  /**
   * `DELETE /streams/:id`: Delete a stream.
   *
   * The responses of its listeners end normally.
   */
  deleteStream(id: string, options?: CallOptions): Promise<DeleteStream> {
    return this.http.call('DELETE', `/streams/${segment(id)}`, {}, options);
  }

  /**
   * `PUT /streams/:id/subscription`: Replace the filters of a stream.
   *
   * Listeners stay connected and get what fits the new filters from then on, within a second
   * in every process. An omitted list is kept, an empty one is cleared.
   */
  updateSubscription(
    id: string,
    body: UpdateSubscriptionBody,
    options?: CallOptions,
  ): Promise<Stream> {
    return this.http.call('PUT', `/streams/${segment(id)}/subscription`, { body }, options);
  }

  /**
   * `GET /streams/:id/meta`: Get a stream without listening to it.
   *
   * The same object as in the list.
   */
  streamMeta(id: string, options?: CallOptions): Promise<Stream> {
    return this.http.call('GET', `/streams/${segment(id)}/meta`, {}, options);
  }

  /**
   * `PUT /streams/:id/meta`: Rename, enable or disable a stream.
   *
   * Omitted members are kept. Disabling a stream ends its listeners; until it is enabled
   * again, listening is refused with 403 `stream_disabled`.
   */
  updateStream(id: string, body: UpdateStreamBody, options?: CallOptions): Promise<Stream> {
    return this.http.call('PUT', `/streams/${segment(id)}/meta`, { body }, options);
  }

  /**
   * `GET /sessions`: List the open event streams of this account.
   *
   * Managed streams and the order feed, in all processes; oldest first.
   */
  sessions(options?: CallOptions): Promise<Sessions> {
    return this.http.call('GET', '/sessions', {}, options);
  }

  /**
   * `GET /sessions/history`: List the ended event streams of this account.
   *
   * Newest first; the last 1000 are kept, for 30 days.
   */
  endedSessions(query: EndedSessionsQuery = {}, options?: CallOptions): Promise<EndedSessions> {
    return this.http.call('GET', '/sessions/history', { query }, options);
  }

  /**
   * `GET /v2/status`: Age of the feed, blocks, analytics and leaderboards.
   *
   * Read at most once a second, for all clients. `/readyz` is 503 while an age is above its maximum or a process is not ready.
   */
  status(options?: CallOptions): Promise<Status> {
    return this.http.call('GET', '/v2/status', {}, options);
  }

  /**
   * `GET /v2/final_matches`: Transactions whose matches became final.
   *
   * Without `after`, the list is empty and `next` is the current cursor. A match of the order feed is final when its transaction is in this list, seconds after it was delivered.
   */
  finalMatches(query: FinalMatchesQuery = {}, options?: CallOptions): Promise<FinalMatches> {
    return this.http.call('GET', '/v2/final_matches', { query }, options);
  }

  /**
   * `GET /v2/recent_matches`: Matches of the order feed, without a stream.
   *
   * The events that `/v1/stream/orders` would send from there on, up to now: matches when they are first seen, pending ones included, and what became of them. It covers the 72 hours of the feed; a request looks at no more than 16,384 of its messages and says in `more` whether there are others. Unknown parameters are refused.
   */
  recentMatches(query: RecentMatchesQuery = {}, options?: CallOptions): Promise<RecentMatches> {
    return this.http.call('GET', '/v2/recent_matches', { query }, options);
  }
}

export class EndpointsV1 {
  protected readonly http: Http;

  constructor(http: Http) {
    this.http = http;
  }

  /**
   * `GET /v1/analytics/leaderboard`: Traders by PnL, ROI, win rate or markets, or by volume.
   *
   * A board is computed again five seconds after it was computed, or four times as long as that took: while it takes less than a second, no board is older than 10 seconds; and none waits longer than 10 seconds (1H, 4H), a minute (1D) or 5 minutes. Figures are as of the last refresh, profiles with `last_trade_at` at most 5 seconds old. Pages of one refresh do not overlap; who moves in a refresh between two pages can be repeated or omitted. `rank` counts from the top in either order. With `market` or `series`, a board is summed from the bookings for the request and shared with others for up to 10 seconds. `as_of` (v2) says when the board was computed, and `Age` how many seconds ago. Responses have an ETag.
   */
  leaderboard(
    query: LeaderboardQueryV1 = {},
    options?: CallOptions,
  ): List<LeaderboardV1, LeaderboardV1['traders'][number]> {
    return this.http.list('/v1/analytics/leaderboard', 'traders', query, options);
  }

  /**
   * `GET /v1/traders/:address`: One trader: profile, tags, six windows.
   *
   * Windows end now and are exact to the second. `top_tags` are up to 20 tags of the last 30 days, ranked by PnL, then volume.
   */
  trader(address: string, options?: CallOptions): Promise<TraderV1> {
    return this.http.call('GET', `/v1/traders/${segment(address)}`, {}, options);
  }

  /**
   * `GET /v1/traders/:address/markets`: Markets of one trader.
   *
   * Newest trade first, ties by condition id; `order=asc` is the exact reverse. A market that is traded between two pages moves to the front: newest first, it can be omitted and nothing is repeated; oldest first, it is repeated and nothing is omitted. The history of an unknown address is empty. A market without a listing has the id 0 and empty texts.
   */
  traderMarkets(
    address: string,
    query: TraderMarketsQueryV1 = {},
    options?: CallOptions,
  ): List<TraderMarketsV1, TraderMarketsV1['history'][number]> {
    return this.http.list(`/v1/traders/${segment(address)}/markets`, 'history', query, options);
  }

  /**
   * `GET /v1/traders/:address/markets/:id/orders`: Fills of one trader in one market.
   *
   * Every fill, oldest first unless `order=desc`. The list of an address without fills there is empty.
   */
  traderOrders(
    address: string,
    id: number | string,
    query: TraderOrdersQueryV1 = {},
    options?: CallOptions,
  ): List<TraderOrdersV1, TraderOrdersV1['orders'][number]> {
    return this.http.list(
      `/v1/traders/${segment(address)}/markets/${segment(id)}/orders`,
      'orders',
      query,
      options,
    );
  }

  /**
   * `GET /v1/traders/:address/hourly_stats`: Hourly sums of one trader.
   *
   * Newest hour first unless `order=asc`; hours without activity are left out.
   */
  traderHours(
    address: string,
    query: TraderHoursQueryV1 = {},
    options?: CallOptions,
  ): List<TraderHoursV1, TraderHoursV1['stats'][number]> {
    return this.http.list(`/v1/traders/${segment(address)}/hourly_stats`, 'stats', query, options);
  }

  /**
   * `GET /v1/markets/:id`: One market with its totals and top earners.
   *
   * Totals over all traders, and up to 20 traders with the greatest PnL above 0, ranked by PnL, then volume, then address. A condition id also finds a market without a listing; a slug that was used again means the newest market. `/v1/market_data` has every trader.
   */
  market(id: string, options?: CallOptions): Promise<MarketV1> {
    return this.http.call('GET', `/v1/markets/${segment(id)}`, {}, options);
  }

  /**
   * `GET /v1/market_data/:id_or_slug`: Every trader of one market with figures and fills.
   *
   * For the tiers individual and pro. Ordered by address, so new trades do not shift pages; `/v1/markets/:id` has the top earners. A long page is streamed.
   */
  marketTraders(
    idOrSlug: string,
    query: MarketTradersQueryV1 = {},
    options?: CallOptions,
  ): List<MarketTradersV1, MarketTradersV1['traders'][number]> {
    return this.http.list(`/v1/market_data/${segment(idOrSlug)}`, 'traders', query, options);
  }
}

const segment = encodeURIComponent;
