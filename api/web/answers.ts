/** The parts of API responses that the page reads. Amounts are micro-units: text in v1, numbers in v2. */

export type Profile = {
  readonly address: string;
  readonly name: string;
  readonly x_username: string;
  readonly profile_created_at: string;
};

export type Leaderboard = {
  readonly traders: readonly LeaderboardEntry[];
  readonly total_count: number;
};

export type LeaderboardEntry = {
  readonly profile: Profile & { readonly last_trade_at: string };
  readonly total_pnl: string;
  readonly total_volume: string;
  readonly roi: number;
  readonly win_rate: number;
  readonly rank: number;
  readonly markets_count: number;
  readonly wins_count: number;
};

/** `GET /v2/analytics/pnl_lines`: PnL of each hour, oldest first. */
export type PnlLines = {
  readonly first_hour: string;
  readonly lines: readonly { readonly address: string; readonly pnl: readonly number[] }[];
};

/** `GET /v2/status`. */
export type Status = {
  readonly feed: { readonly newest_at: string; readonly age_seconds: number };
  readonly chain: {
    readonly final_block: number;
    readonly block_at: string;
    readonly age_seconds: number;
  };
  readonly projection: { readonly behind_seconds: number };
  readonly boards: readonly {
    readonly time_frame: string;
    readonly refreshed_at: string;
    readonly age_seconds: number;
  }[];
};

export type Window = {
  readonly pnl: string;
  readonly volume: string;
  readonly roi: number;
  readonly win_rate: number;
  readonly markets_count: number;
  readonly wins_count: number;
  readonly maker_volume: string;
  readonly taker_volume: string;
};

/** `GET /v1/traders/:address`. */
export type Trader = {
  readonly profile: Profile & { readonly last_trade_at: string };
  readonly top_tags: readonly (Window & { readonly slug: string })[];
  readonly stats: Readonly<Record<string, Window>>;
};

/** `GET /v2/traders/:address`. */
export type TraderV2 = {
  readonly profile: Profile;
  readonly pusd_balance: number;
  readonly taker_tier: number;
  readonly taker_tier_name: string;
  readonly weighted_volume: number;
};

/** `GET /v2/traders/:address/hourly_stats`, newest first. */
export type Hourly = {
  readonly stats: readonly {
    readonly hour: string;
    readonly pnl: number;
    readonly fee: number;
    readonly market_count: number;
    readonly win_count: number;
    readonly maker_volume: number;
    readonly taker_volume: number;
  }[];
};

export type Market = {
  readonly id: number;
  readonly condition_id: string;
  readonly token_ids: readonly string[];
  readonly question: string;
  readonly slug: string;
  readonly start_date: string;
  readonly end_date: string;
  readonly neg_risk: boolean;
  readonly event_title: string;
  readonly group_item_title: string;
  readonly series_slug: string;
  readonly tags: readonly string[];
  readonly outcome_1: string;
  readonly outcome_2: string;
  readonly resolved_at: string;
  readonly winning_outcome: string;
  readonly result: number;
};

/** `GET /v2/traders/:address/markets`. */
export type History = {
  readonly history: readonly HistoryEntry[];
  readonly total_count: number;
};

export type HistoryEntry = {
  readonly pnl: number;
  readonly volume: number;
  readonly roi: number;
  readonly last_trade_at: string;
  readonly market: Market;
};

/** `GET /v1/traders/:address/markets/:id/orders`. */
export type Orders = {
  readonly orders: readonly {
    readonly time: string;
    readonly outcome: string;
    readonly side: 'BUY' | 'SELL';
    readonly price: string;
    readonly shares: string;
    readonly usdc: string;
    readonly is_taker: boolean;
    readonly fee: string;
    readonly order_hash: string;
  }[];
};

/** `GET /v2/markets/:id`. */
export type MarketDetail = {
  readonly market: Market;
  readonly total_volume: number;
  readonly total_pnl_distributed: number;
  readonly total_traders: number;
  readonly total_winners: number;
  readonly top_earners: readonly {
    readonly profile: Profile;
    readonly pnl: number;
    readonly volume: number;
    readonly roi: number;
    readonly rank: number;
  }[];
};

/** `GET /v2/markets/:id/prices`. */
export type Prices = {
  readonly interval_seconds: number;
  readonly prices: readonly {
    readonly time: string;
    readonly average: number;
    readonly last: number;
    readonly shares: number;
  }[];
};

/** An element of `GET /streams`. */
export type Stream = {
  readonly id: string;
  readonly name: string;
  readonly addresses: readonly string[];
  readonly tags: readonly string[];
  readonly series: readonly string[];
  readonly enabled: boolean;
  readonly active_sessions: number;
  readonly updated_at: string;
};

/** `GET /streams`. */
export type Streams = { readonly data: readonly Stream[]; readonly total_count: number };

/** `GET /v2/user/me`. */
export type Account = {
  readonly account: string;
  readonly tier: {
    readonly name: string;
    readonly max_sessions: number;
    readonly max_streams: number;
    readonly max_naked_streams: number;
    readonly max_filter_addrs: number;
    readonly max_filter_tags: number;
    readonly max_filter_series: number;
    readonly stream_seconds_per_day: number | null;
  };
};

export type Session = {
  readonly id: string;
  readonly stream_id: string | null;
  readonly started_at: string;
};

/** `GET /sessions`. */
export type Sessions = {
  readonly data: readonly Session[];
  readonly used_seconds_today: number;
};

/** `GET /sessions/history`, newest first. */
export type EndedSessions = {
  readonly data: readonly (Session & {
    readonly ended_at: string;
    readonly end: string;
    readonly events: number | null;
  })[];
};
