/**
 * The answers of the API as far as the page reads them; `/docs` describes every field. Amounts are
 * micro-units: text in v1, numbers in v2.
 */

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
