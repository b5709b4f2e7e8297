// Written by generate.ts: do not edit.
export type Problem = {
  /** URN of the kind of problem */
  type: string;

  /** the kind of problem in words */
  title: string;

  /** HTTP status */
  status: number;

  /** what is wrong with this request */
  detail: string;

  /** path of the request */
  instance: string;

  /** stable code of the kind of problem */
  error:
    | 'invalid_request'
    | 'unauthorized'
    | 'tier_required'
    | 'quota_exceeded'
    | 'stream_disabled'
    | 'not_found'
    | 'method_not_allowed'
    | 'request_timeout'
    | 'payload_too_large'
    | 'unsupported_media_type'
    | 'rate_limited'
    | 'headers_too_large'
    | 'internal'
    | 'unavailable';

  /** the same as detail */
  message: string;

  /** the X-Request-Id header; quote it when you ask for help */
  request_id: string;

  /** one per bad parameter or member */
  issues?: {
    /** name of the parameter, or of the member of the body */
    path: string;

    /** the given value and the allowed ones */
    message: string;
  }[];

  /** the quota that is used up */
  quota?: {
    /** name of the quota */
    name: string;

    /** what the tier allows */
    limit: number;

    /** what the account uses */
    used: number;
  };
};

export type LiveTransaction = {
  makers: {
    /** fee, micro-USDC */
    fee: string;
    order: {
      /** EIP-712 hash of the order */
      order_hash: string;

      /** original capacity, micro-shares; 0 if calldata could not be read */
      shares: string;

      /** 0 EOA, 1 proxy wallet, 2 multi-signature safe, 3 deposit wallet (ERC-1271) */
      signature_type: number;

      /** when the order was signed; empty if the order does not say */
      timestamp: string;

      /** original notional, micro-USDC; 0 if calldata could not be read */
      usdc: string;
    };

    /** label of the outcome */
    outcome: string;

    /** filled shares, micro-shares */
    shares: string;

    /** side */
    side: 'BUY' | 'SELL';

    /** index in token_ids and outcomes of the market */
    token_ids_index: 0 | 1;

    /** filled notional, micro-USDC */
    usdc: string;
    user: {
      /** wallet */
      address: string;

      /** public name, empty if there is none */
      name: string;
    };
  }[];
  market: {
    /** condition id */
    condition_id: string;

    /** slug of the event */
    event_slug: string;

    /** title inside its group */
    group_item_title: string;

    /** market id; 0 while it is unknown */
    id: number;

    /** negative-risk market */
    neg_risk: boolean;

    /** labels of the outcomes */
    outcomes: [string, string];

    /** question */
    question: string;

    /** slug of the series */
    series_slug: string;

    /** slug of the market */
    slug: string;

    /** such as moneyline; empty for other markets */
    sports_market_type: string;

    /** when it opened */
    start_date: string;

    /** tags */
    tags_slug: string[];

    /** token ids of the outcomes */
    token_ids: [string, string];
  };

  /** id of the match, by which `void` and `restored` name it */
  match_id: string;
  taker: {
    /** fee, micro-USDC */
    fee: string;
    order: {
      /** EIP-712 hash of the order */
      order_hash: string;

      /** original capacity, micro-shares; 0 if calldata could not be read */
      shares: string;

      /** 0 EOA, 1 proxy wallet, 2 multi-signature safe, 3 deposit wallet (ERC-1271) */
      signature_type: number;

      /** when the order was signed; empty if the order does not say */
      timestamp: string;

      /** original notional, micro-USDC; 0 if calldata could not be read */
      usdc: string;
    };

    /** label of the outcome */
    outcome: string;

    /** filled shares, micro-shares */
    shares: string;

    /** side */
    side: 'BUY' | 'SELL';

    /** index in token_ids and outcomes of the market */
    token_ids_index: 0 | 1;

    /** filled notional, micro-USDC */
    usdc: string;
    user: {
      /** wallet */
      address: string;

      /** public name, empty if there is none */
      name: string;
    };
  };

  /** when the match was first seen */
  timestamp: string;

  /** hash of the transaction */
  tx_hash: string;
};

export type LabelledMatch = {
  /** hash of the transaction */
  tx_hash: string;

  /** id of the match, by which `void` and `restored` name it */
  match_id: string;

  /** when the match was first seen */
  timestamp: string;
  market: {
    /** market id; 0 while it is unknown */
    id: string;

    /** question */
    question: string;

    /** slug */
    slug: string;

    /** when it opened */
    start_date: string;

    /** when it closes */
    end_date: string;

    /** URL */
    icon: string;

    /** negative-risk market */
    neg_risk: boolean;

    /** slug of the event */
    event_slug: string;

    /** slug of the series */
    series_slug: string;

    /** tags */
    tags: string[];

    /** label of the first outcome */
    outcome_1: string;

    /** label of the second outcome */
    outcome_2: string;

    /** title inside its group */
    group_item_title: string;

    /** title of the event */
    event_title: string;

    /** URL */
    event_icon: string;

    /** empty while unresolved */
    resolved_at: string;

    /** empty while unresolved */
    winning_outcome: string;
  };
  taker_order: {
    /** side */
    side: 'BUY' | 'SELL';

    /** micro-USDC */
    usdc: string;

    /** micro-shares */
    shares: string;
    trader: {
      /** wallet */
      address: string;

      /** public name */
      name: string;

      /** social handle */
      x_username: string;

      /** URL */
      profile_image: string;

      /** when the profile was created */
      profile_created_at: string;
    };

    /** label of the outcome */
    outcome: string;

    /** micro-USDC */
    fee: string;

    /** token id of the outcome */
    token_id: string;

    /** basis points; orders of version 2 carry none */
    fee_rate_bps: string;
  };
  maker_orders: {
    /** side */
    side: 'BUY' | 'SELL';

    /** micro-USDC */
    usdc: string;

    /** micro-shares */
    shares: string;
    trader: {
      /** wallet */
      address: string;

      /** public name */
      name: string;

      /** social handle */
      x_username: string;

      /** URL */
      profile_image: string;

      /** when the profile was created */
      profile_created_at: string;
    };

    /** label of the outcome */
    outcome: string;

    /** micro-USDC */
    fee: string;

    /** token id of the outcome */
    token_id: string;

    /** basis points; orders of version 2 carry none */
    fee_rate_bps: string;
  }[];
};

/** transaction, time, market, order of the taker, orders of the makers */
export type CompactMatch = [
  string,
  string,
  [
    number,
    string,
    string,
    string,
    string,
    string,
    boolean,
    string,
    string,
    string[],
    string,
    string,
    string,
    string,
    string,
  ],
  [
    'BUY' | 'SELL',
    [string, string, string, string, string],
    string,
    string,
    string,
    string,
    string,
    string,
  ],
  [
    'BUY' | 'SELL',
    [string, string, string, string, string],
    string,
    string,
    string,
    string,
    string,
    string,
  ][],
];

export type Gap = {
  /** the cursor that was requested, or the last one delivered */
  requested: number;

  /** the cursor at which delivery continues */
  first_available: number;
};

export type Void = {
  /** hash of the transaction */
  tx_hash: string;

  /** id of the match, by which `void` and `restored` name it */
  match_id: string;

  /** when this was known, in the form of the stream */
  timestamp: string;

  /** why it did not settle; never_mined may still be followed by restored */
  reason: 'reverted' | 'replaced' | 'never_mined' | 'unmatched';
};

export type Restored = {
  /** hash of the transaction */
  tx_hash: string;

  /** id of the match, by which `void` and `restored` name it */
  match_id: string;

  /** when this was known, in the form of the stream */
  timestamp: string;
};

export type Final = {
  /** hash of the transaction */
  tx_hash: string;

  /** id of the match, by which `void` and `restored` name it */
  match_id: string;

  /** when this was known, in the form of the stream */
  timestamp: string;

  /** the final block */
  block_number: number;
};

export type End = {
  /** why the stream ends */
  reason:
    | 'client_left'
    | 'too_slow'
    | 'key_revoked'
    | 'stream_deleted'
    | 'stream_disabled'
    | 'quota_used_up'
    | 'shutdown'
    | 'fault'
    | 'process_lost';
};

export type ProfileV1 = {
  /** wallet address in lower case */
  address: string;

  /** display name, or empty */
  name: string;

  /** URL of an image, or empty */
  profile_image: string;

  /** account on X, or empty */
  x_username: string;

  /** when the profile was created, or empty, ISO 8601 UTC */
  profile_created_at: string;

  /** newest trade, ISO 8601 UTC */
  last_trade_at: string;
};

export type LeaderboardV1 = {
  traders: {
    profile: ProfileV1;

    /** realised PnL in the time frame, net of fees, micro-USDC */
    total_pnl: string;

    /** value of the trader's own fills, micro-USDC */
    total_volume: string;

    /** PnL divided by the cost of the closed shares, percent */
    roi: number;

    /** wins_count divided by markets_count, percent from 0 to 100 */
    win_rate: number;

    /** position on the leaderboard */
    rank: number;

    /** markets with a fill or a settlement in the time frame */
    markets_count: number;

    /** of these, markets with a realised PnL above 0 in the time frame */
    wins_count: number;
  }[];

  /** traders that match the query, on all pages */
  total_count: number;
};

export type SpacedProfileV1 = {
  /** wallet address in lower case */
  address: string;

  /** display name, or empty */
  name: string;

  /** URL of an image, or empty */
  profile_image: string;

  /** account on X, or empty */
  x_username: string;

  /** when the profile was created, or empty, UTC with a space in place of T */
  profile_created_at: string;

  /** newest trade, or empty, UTC with a space in place of T */
  last_trade_at: string;
};

export type TagV1 = {
  /** slug of the tag */
  slug: string;

  /** realised PnL, net of fees, micro-USDC */
  pnl: string;

  /** maker_volume + taker_volume, micro-USDC */
  volume: string;

  /** PnL divided by the cost of the closed shares, percent */
  roi: number;

  /** wins_count divided by markets_count, percent from 0 to 100 */
  win_rate: number;

  /** markets with a fill or a settlement in the window */
  markets_count: number;

  /** of these, markets with a realised PnL above 0 in the window */
  wins_count: number;

  /** value of fills as maker, micro-USDC */
  maker_volume: string;

  /** value of fills as taker, micro-USDC */
  taker_volume: string;
};

export type WindowV1 = {
  /** realised PnL, net of fees, micro-USDC */
  pnl: string;

  /** maker_volume + taker_volume, micro-USDC */
  volume: string;

  /** PnL divided by the cost of the closed shares, percent */
  roi: number;

  /** wins_count divided by markets_count, percent from 0 to 100 */
  win_rate: number;

  /** markets with a fill or a settlement in the window */
  markets_count: number;

  /** of these, markets with a realised PnL above 0 in the window */
  wins_count: number;

  /** value of fills as maker, micro-USDC */
  maker_volume: string;

  /** value of fills as taker, micro-USDC */
  taker_volume: string;
};

export type TraderV1 = {
  profile: SpacedProfileV1;
  top_tags: TagV1[];
  stats: {
    /** the last hour */
    t_1h: WindowV1;

    /** the last 4 hours */
    t_4h: WindowV1;

    /** the last day */
    t_1d: WindowV1;

    /** the last 3 days */
    t_3d: WindowV1;

    /** the last 7 days */
    t_7d: WindowV1;

    /** the last 30 days */
    t_30d: WindowV1;
  };
};

export type MarketListingV1 = {
  /** market id, an int64 as text; 0 without a listing */
  id: string;

  /** what is decided */
  question: string;

  /** name of the market in URLs */
  slug: string;

  /** when the market opened, or empty, ISO 8601 UTC */
  start_date: string;

  /** when the market closes or closed, or empty, ISO 8601 UTC */
  end_date: string;

  /** URL of the icon */
  icon: string;

  /** one of the exclusive markets of a negative-risk event */
  neg_risk: boolean;

  /** slug of the parent event */
  event_slug: string;

  /** slug of the series, or empty */
  series_slug: string;

  /** category tags */
  tags: string[];

  /** label of the first outcome */
  outcome_1: string;

  /** label of the second outcome */
  outcome_2: string;

  /** title inside an event group, or empty */
  group_item_title: string;

  /** title of the parent event */
  event_title: string;

  /** URL of the icon of the event */
  event_icon: string;

  /** when the market was resolved; empty if it is not, ISO 8601 UTC */
  resolved_at: string;

  /** label of the winning outcome, `50-50` if both are paid the same; empty while unresolved */
  winning_outcome: string;
};

export type FillV1 = {
  /** when it was executed, ISO 8601 UTC */
  time: string;

  /** label of the outcome traded */
  outcome: string;

  /** whether the trader bought or sold the outcome share */
  side: 'BUY' | 'SELL';

  /** execution price in micro-USDC a share, rounded down: 620000 is 0.62 */
  price: string;

  /** shares filled, micro-units */
  shares: string;

  /** value without the fee, micro-USDC */
  usdc: string;

  /** EIP-712 hash of the order; may be empty */
  order_hash: string;

  /** true for the taker of its match, false for a maker */
  is_taker: boolean;

  /** ERC-1155 id of the outcome share, decimal */
  token_id: string;

  /** fee, micro-USDC */
  fee: string;
};

export type TraderMarketsV1 = {
  history: {
    /** realised PnL in this market, net of fees, micro-USDC */
    pnl: string;

    /** value of the trader's own fills, micro-USDC */
    volume: string;

    /** PnL divided by the cost of the closed shares, percent */
    roi: number;

    /** newest trade of the trader in this market, ISO 8601 UTC */
    last_trade_at: string;
    market: MarketListingV1;

    /** fills, oldest first; only with include_orders=true */
    orders?: FillV1[];
  }[];

  /** markets that match the query, on all pages */
  total_count: number;
};

export type TraderOrdersV1 = { orders: FillV1[] };

export type TraderHoursV1 = {
  stats: {
    /** start of the hour, UTC */
    hour: string;

    /** realised PnL of the hour, net of fees, micro-USDC */
    pnl: string;

    /** markets with a fill or a settlement in the hour */
    market_count: number;

    /** markets settled in the hour whose PnL in the hour is above 0 */
    win_count: number;

    /** value of fills as taker, micro-USDC */
    taker_volume: string;

    /** value of fills as maker, micro-USDC */
    maker_volume: string;

    /** taker_volume + maker_volume, micro-USDC */
    volume: string;
  }[];
};

export type MarketV1 = {
  market: MarketListingV1;

  /** sum over all traders of their own fills, so both sides of a match count, micro-USDC */
  total_volume: string;

  /** sum of the PnLs above 0, micro-USDC */
  total_pnl_distributed: string;

  /** traders with a fill or a settlement in this market */
  total_traders: number;
  top_earners: {
    profile: ProfileV1;

    /** realised PnL in this market, micro-USDC */
    pnl: string;

    /** value of the trader's own fills, micro-USDC */
    volume: string;

    /** realised PnL divided by the cost of the closed shares, percent */
    roi: number;

    /** position among the earners */
    rank: number;
  }[];

  /** traders whose realised PnL in this market is above 0 */
  total_winners: number;
};

export type MarketTradersV1 = {
  market: MarketListingV1;

  /** traders of the market, on all pages */
  total_count: number;

  /** `cursor` of the next page; empty on the last page */
  next_cursor: string;
  traders: {
    profile: ProfileV1;

    /** realised PnL in this market, net of fees, micro-USDC */
    pnl: string;

    /** maker_volume + taker_volume, micro-USDC */
    volume: string;

    /** value of fills as maker, micro-USDC */
    maker_volume: string;

    /** value of fills as taker, micro-USDC */
    taker_volume: string;

    /** fees of all fills, micro-USDC */
    fee: string;

    /** PnL divided by the cost of the closed shares, percent */
    roi: number;

    /** newest trade in this market, ISO 8601 UTC */
    last_trade_at: string;

    /** fills, oldest first; empty with include_orders=false */
    orders: FillV1[];
  }[];
};

export type Profile = {
  /** wallet address with the checksum of ERC-55 */
  address: string;

  /** display name, or empty */
  name: string;

  /** when the profile was created, or empty, ISO 8601 UTC */
  profile_created_at: string;

  /** URL of an image, or empty */
  profile_image: string;

  /** account on X, or empty */
  x_username: string;
};

export type Leaderboard = {
  traders: {
    profile: Profile;

    /** newest trade, ISO 8601 UTC */
    last_trade_at: string;

    /** realised PnL in the time frame, net of fees, micro-USD */
    total_pnl: number;

    /** value of the trader's own fills, micro-USD */
    total_volume: number;

    /** PnL divided by the cost of the closed shares, percent */
    roi: number;

    /** wins_count divided by markets_count, percent from 0 to 100 */
    win_rate: number;

    /** position on the leaderboard */
    rank: number;

    /** markets with a fill or a settlement in the time frame */
    markets_count: number;

    /** of these, markets with a realised PnL above 0 in the time frame */
    wins_count: number;
  }[];

  /** `cursor` of the next page; empty on the last page, and for the demo tier */
  next_cursor: string;

  /** traders that match the query, on all pages */
  total_count: number;

  /** when the board was computed, the end of its time frame; empty of an empty board, ISO 8601 UTC */
  as_of: string;
};

export type TradersBody = {
  /** wallets of the traders; letter case and repetitions are ignored */
  addresses: string[];
};

export type Window = {
  /** value of fills as maker, micro-USD */
  maker_volume: number;

  /** markets with a fill or a settlement in the window */
  markets_count: number;

  /** realised PnL, net of fees, micro-USD */
  pnl: number;

  /** PnL divided by the cost of the closed shares, percent */
  roi: number;

  /** value of fills as taker, micro-USD */
  taker_volume: number;

  /** maker_volume + taker_volume, micro-USD */
  volume: number;

  /** wins_count divided by markets_count, percent from 0 to 100 */
  win_rate: number;

  /** of these, markets with a realised PnL above 0 in the window */
  wins_count: number;
};

export type Traders = {
  traders: {
    profile: Profile;

    /** pUSD of the wallet at the last synced block, micro-pUSD */
    pusd_balance: number;

    /** 0 Tier 0, 1 Bronze, 2 Silver, 3 Gold, 4 Platinum, 5 Diamond, 6 Obsidian */
    taker_tier: number;

    /** name of the tier; empty until it was synced */
    taker_tier_name: string;

    /** newest trade, or empty, ISO 8601 UTC */
    last_trade_at: string;

    /** the last hour to the last 30 days */
    windows: {
      t_1h: Window;
      t_4h: Window;
      t_1d: Window;
      t_3d: Window;
      t_7d: Window;
      t_30d: Window;
    };

    /** totals over all markets of the trader, as of `/v2/traders/:address/positions?status=all` */
    positions: {
      /** positions with shares */
      open_count: number;

      /** value, micro-USD */
      value: number;

      /** cost basis, micro-USD */
      cost_basis: number;

      /** fees of the shares held, micro-USD */
      open_fees: number;

      /** unrealised PnL, micro-USD */
      unrealised_pnl: number;

      /** realised PnL in these markets, net of fees, micro-USD */
      realised_pnl: number;

      /** positions that were settled or sold */
      closed_count: number;

      /** those of them with a realised PnL above 0 */
      closed_won_count: number;
    };
  }[];

  /** addresses of nobody known, as asked */
  unknown: string[];
};

export type Tag = {
  /** value of fills as maker, micro-USD */
  maker_volume: number;

  /** markets with a fill or a settlement in the window */
  markets_count: number;

  /** realised PnL, net of fees, micro-USD */
  pnl: number;

  /** PnL divided by the cost of the closed shares, percent */
  roi: number;

  /** slug of the tag */
  slug: string;

  /** value of fills as taker, micro-USD */
  taker_volume: number;

  /** maker_volume + taker_volume, micro-USD */
  volume: number;

  /** wins_count divided by markets_count, percent from 0 to 100 */
  win_rate: number;

  /** of these, markets with a realised PnL above 0 in the window */
  wins_count: number;
};

export type Trader = {
  profile: Profile;

  /** pUSD of the wallet at the last synced block, micro-pUSD */
  pusd_balance: number;

  /** 0 Tier 0, 1 Bronze, 2 Silver, 3 Gold, 4 Platinum, 5 Diamond, 6 Obsidian */
  taker_tier: number;

  /** name of the tier; empty until it was synced */
  taker_tier_name: string;
  top_tags: Tag[];

  /** USD, 30 days rolling: the figure of the public profile. Until that is synced, and with `tag` or `series`, the sum over the taker fills of usdc × (1 − price) × category weight */
  weighted_volume: number;

  /** newest trade, or empty, ISO 8601 UTC */
  last_trade_at: string;
};

export type MarketListing = {
  /** market id; 0 without a listing */
  id: number;

  /** id of the market on chain */
  condition_id: string;

  /** ERC-1155 ids of the two outcome shares, decimal. Without a listing: the ids that were traded, or empty text */
  token_ids: string[];

  /** what is decided */
  question: string;

  /** name of the market in URLs */
  slug: string;

  /** when the market opened, or empty, ISO 8601 UTC */
  start_date: string;

  /** when the market closes or closed, or empty, ISO 8601 UTC */
  end_date: string;

  /** URL of the icon */
  icon: string;

  /** one of the exclusive markets of a negative-risk event */
  neg_risk: boolean;

  /** slug of the parent event */
  event_slug: string;

  /** slug of the series, or empty */
  series_slug: string;

  /** category tags */
  tags: string[];

  /** label of the first outcome */
  outcome_1: string;

  /** label of the second outcome */
  outcome_2: string;

  /** title inside an event group, or empty */
  group_item_title: string;

  /** title of the parent event */
  event_title: string;

  /** URL of the icon of the event */
  event_icon: string;

  /** when the market was resolved; empty if it is not, ISO 8601 UTC */
  resolved_at: string;

  /** label of the winning outcome, `50-50` if both are paid the same; empty while unresolved */
  winning_outcome: string;

  /** -2 unresolved, -1 void (pays nothing), otherwise the payout of outcome 1, percent */
  result: number;
};

export type Fill = {
  /** fee, micro-USD */
  fee: number;

  /** true for the taker of its match, false for a maker */
  is_taker: boolean;

  /** label of the outcome traded */
  outcome: string;

  /** shares filled, micro-units */
  shares: number;

  /** whether the trader bought or sold the outcome share */
  side: 'BUY' | 'SELL';

  /** when it was executed, ISO 8601 UTC */
  time: string;

  /** value without the fee, micro-USD */
  usdc: number;
};

export type TraderMarkets = {
  history: {
    /** realised PnL in this market, net of fees, micro-USD */
    pnl: number;

    /** value of the trader's own fills, micro-USD */
    volume: number;

    /** PnL divided by the cost of the closed shares, percent */
    roi: number;

    /** newest trade of the trader in this market, ISO 8601 UTC */
    last_trade_at: string;
    market: MarketListing;

    /** fills, oldest first; only with include_orders=true */
    orders?: Fill[];
  }[];

  /** `cursor` of the next page; empty if the page is not full, which ends the list */
  next_cursor: string;

  /** markets that match the query, on all pages */
  total_count: number;
};

export type Mark = {
  /** price of the outcome, micro-USD a share, 0 to 1,000,000; 0 without a mark */
  price: number;

  /** when the match or the resolution was, or empty, ISO 8601 UTC */
  time: string;

  /** time since then, seconds */
  age_seconds: number;

  /** the newest final match of the market, its payout once it is resolved, or none */
  source: 'last_match' | 'resolution' | 'none';
};

export type TraderPositions = {
  positions: {
    market: MarketListing;

    /** open: shares are held; resolved: they were settled; sold: all were sold */
    status: 'open' | 'resolved' | 'sold';

    /** outcome held, or held last */
    outcome_index: number;

    /** label of that outcome */
    outcome: string;

    /** micro-shares held now */
    shares: number;

    /** cost of a share held, or held at the settlement, without fees, micro-USD, rounded down */
    average_price: number;

    /** the same with the fees of those shares */
    average_price_with_fees: number;

    /** paid for the shares held now, without fees, micro-USD */
    cost_basis: number;

    /** fees of the shares held now, micro-USD */
    open_fees: number;
    mark: Mark;

    /** value of the shares held now at the mark, micro-USD */
    value: number;

    /** value − cost_basis − open_fees, micro-USD */
    unrealised_pnl: number;

    /** unrealised_pnl divided by cost_basis, percent */
    unrealised_roi: number;

    /** realised PnL in this market, net of fees, micro-USD */
    realised_pnl: number;

    /** realised_pnl + unrealised_pnl, micro-USD */
    pnl: number;

    /** value divided by the value of all open positions of the trader, percent */
    portfolio_share: number;

    /** first trade of the trader in this market, ISO 8601 UTC */
    first_trade_at: string;

    /** newest trade of the trader in this market, ISO 8601 UTC */
    last_trade_at: string;

    /** when the shares were settled, or empty, ISO 8601 UTC */
    settled_at: string;

    /** micro-shares held at the settlement; 0 without one */
    settled_shares: number;

    /** their cost without fees, micro-USD */
    settled_cost: number;

    /** their fees, micro-USD */
    settled_fees: number;

    /** what the settlement paid, micro-USD */
    payout: number;
  }[];

  /** sums of all entries that match, on all pages */
  totals: {
    /** value, micro-USD */
    value: number;

    /** cost basis, micro-USD */
    cost_basis: number;

    /** fees of the shares held, micro-USD */
    open_fees: number;

    /** unrealised PnL, micro-USD */
    unrealised_pnl: number;

    /** realised PnL in these markets, net of fees, micro-USD */
    realised_pnl: number;

    /** positions that were settled or sold */
    closed_count: number;

    /** those of them with a realised PnL above 0 */
    closed_won_count: number;
  };

  /** `cursor` of the next page; empty on the last page */
  next_cursor: string;

  /** entries that match, on all pages */
  total_count: number;
};

export type TraderTrades = {
  trades: {
    /** fee, micro-USD */
    fee: number;

    /** true for the taker of its match, false for a maker */
    is_taker: boolean;

    /** label of the outcome traded */
    outcome: string;

    /** shares filled, micro-units */
    shares: number;

    /** whether the trader bought or sold the outcome share */
    side: 'BUY' | 'SELL';

    /** when it was executed, ISO 8601 UTC */
    time: string;

    /** value without the fee, micro-USD */
    usdc: number;

    /** number of the outcome traded, 0 or 1 */
    outcome_index: number;

    /** price of that outcome, micro-USD a share, rounded down */
    price: number;

    /** PnL that the fill realised, net of fees, micro-USD */
    realised_pnl: number;

    /** number of its block */
    block_number: number;

    /** index of its log in the block */
    log_index: number;

    /** index of the log that closes its match, equal for all fills of a match */
    match_log_index: number;

    /** transaction of the fill */
    tx_hash: string;

    /** EIP-712 hash of the order */
    order_hash: string;
    market: MarketListing;
  }[];

  /** `cursor` of the next page; empty on the last page */
  next_cursor: string;
};

export type TraderEquity = {
  points: {
    /** end of the interval; now for the one that runs, ISO 8601 UTC */
    time: string;

    /** realised PnL from the first trade until then, net of fees, micro-USD */
    realised_pnl: number;

    /** PnL of what was held then, at the marks of then, micro-USD */
    unrealised_pnl: number;

    /** realised_pnl + unrealised_pnl, micro-USD */
    equity: number;
  }[];
};

export type TraderOrders = { orders: Fill[] };

export type TraderHours = {
  stats: {
    /** what the shares had cost that were closed in the hour, micro-USD */
    cost_basis: number;

    /** fees of the fills of the hour, micro-USD */
    fee: number;

    /** start of the hour, UTC */
    hour: string;

    /** value of fills as maker, micro-USD */
    maker_volume: number;

    /** markets with a fill or a settlement in the hour */
    market_count: number;

    /** realised PnL of the hour, net of fees, micro-USD */
    pnl: number;

    /** value of fills as taker, micro-USD */
    taker_volume: number;

    /** markets settled in the hour whose PnL in the hour is above 0 */
    win_count: number;
  }[];
};

export type MarketMark = {
  /** price of the first outcome, rounded down, micro-USD a share, 0 to 1,000,000; null without a mark */
  price_1: number | null;

  /** price of the second outcome: 1,000,000 minus that; micro-USD a share, 0 to 1,000,000; null without a mark */
  price_2: number | null;

  /** of the match or the resolution, or empty, ISO 8601 UTC */
  time: string;

  /** the newest final match, the payout of a resolved market, or none */
  source: 'last_match' | 'resolution' | 'none';
};

export type Market = {
  market: MarketListing;
  mark: MarketMark;

  /** price of the first outcome over the matches of the last five minutes, weighted by shares, rounded down, micro-USD a share; null without a match */
  vwap_5m: number | null;

  /** value of all matches, each once with the fill of its taker, micro-USD */
  volume: number;

  /** number of matches */
  matches: number;

  /** micro-shares held of the first outcome, which equal those of the second */
  open_interest: number;

  /** sum over all traders of their own fills, so both sides of a match count, micro-USD */
  total_volume: number;

  /** sum of the PnLs above 0, micro-USD */
  total_pnl_distributed: number;

  /** traders with a fill or a settlement in this market */
  total_traders: number;
  top_earners: {
    profile: Profile;

    /** realised PnL in this market, micro-USD */
    pnl: number;

    /** value of the trader's own fills, micro-USD */
    volume: number;

    /** realised PnL divided by the cost of the closed shares, percent */
    roi: number;

    /** position among the earners */
    rank: number;
  }[];

  /** traders whose realised PnL in this market is above 0 */
  total_winners: number;
};

export type Markets = {
  /** when the list was computed, ISO 8601 UTC; empty before the first time */
  as_of: string;
  markets: {
    market: MarketListing;

    /** resolved, closed: past its end date without a resolution, or open */
    status: 'open' | 'closed' | 'resolved';
    mark: MarketMark;

    /** price of the first outcome now less the price 24 hours before, or the first one of a younger market, micro-USD */
    change_24h: number;

    /** value of the matches of the last 24 hours, each once, micro-USD */
    volume_24h: number;

    /** value of all matches, each once, micro-USD */
    volume: number;

    /** number of matches */
    matches: number;

    /** traders with a fill or a settlement */
    traders: number;

    /** micro-shares held of the first outcome, which equal those of the second */
    open_interest: number;

    /** first match, ISO 8601 UTC */
    first_match_at: string;
  }[];

  /** `cursor` of the next page; empty on the last page */
  next_cursor: string;
};

export type PnlLines = {
  /** start of the hour, UTC */
  first_hour: string;
  lines: {
    /** wallet address with the checksum of ERC-55 */
    address: string;

    /** realised PnL of each hour starting with first_hour, net of fees, micro-USD */
    pnl: number[];
  }[];
};

export type MarketPrices = {
  /** length of an interval, seconds */
  interval_seconds: number;
  prices: {
    /** start of the interval, ISO 8601 UTC */
    time: string;

    /** price of the interval, weighted by shares, rounded down, micro-USD a share, 0 to 1,000,000 */
    average: number;

    /** price of its last match, rounded down, micro-USD a share, 0 to 1,000,000 */
    last: number;

    /** shares traded, each match once, micro-shares */
    shares: number;
  }[];
};

export type MarketCandles = {
  candles: {
    /** start of the interval, ISO 8601 UTC */
    time: string;

    /** price of its first match, rounded down, micro-USD a share, 0 to 1,000,000 */
    open: number;

    /** highest price, rounded down, micro-USD a share, 0 to 1,000,000 */
    high: number;

    /** lowest price, rounded down, micro-USD a share, 0 to 1,000,000 */
    low: number;

    /** price of its last match, rounded down, micro-USD a share, 0 to 1,000,000 */
    close: number;

    /** value that the takers paid or received, micro-USD */
    volume: number;

    /** shares traded, each match once, micro-shares */
    shares: number;

    /** number of matches */
    trades: number;

    /** true: no match; all prices are the close before */
    is_empty: boolean;
  }[];
};

export type MarketTrades = {
  trades: {
    /** id of the match, as in the order feed */
    match_id: string;

    /** time of its block, ISO 8601 UTC */
    time: string;

    /** number of its block */
    block_number: number;

    /** wallet address with the checksum of ERC-55 */
    taker: string;

    /** whether the trader bought or sold the outcome share */
    side: 'BUY' | 'SELL';

    /** label of the outcome that the taker traded */
    outcome: string;

    /** number of that outcome, 0 or 1 */
    outcome_index: number;

    /** price of that outcome, rounded down, micro-USD a share */
    price: number;

    /** shares traded, micro-shares */
    shares: number;

    /** value without the fee, micro-USD */
    usdc: number;

    /** fee of the taker, micro-USD */
    fee: number;

    /** transaction of the match */
    tx_hash: string;

    /** EIP-712 hash of the order of the taker */
    order_hash: string;
  }[];

  /** `cursor` of the next page; empty on the last page */
  next_cursor: string;
};

export type MarketHolders = {
  mark: MarketMark;

  /** micro-shares held of the first outcome, which equal those of the second */
  open_interest: number;
  holders: {
    profile: Profile;

    /** number of the outcome held, 0 or 1 */
    outcome_index: number;

    /** label of that outcome */
    outcome: string;

    /** micro-shares held */
    shares: number;

    /** shares divided by all that are held of that outcome, percent from 0 to 100 */
    outcome_share: number;

    /** cost of a share held, without fees, micro-USD, rounded down */
    average_price: number;

    /** the same with the fees of those shares */
    average_price_with_fees: number;

    /** paid for the shares held, without fees, micro-USD */
    cost_basis: number;

    /** fees of the shares held, micro-USD */
    open_fees: number;

    /** value of the shares at the mark, micro-USD */
    value: number;

    /** value − cost_basis − open_fees, micro-USD */
    unrealised_pnl: number;

    /** realised PnL of the trader in this market, net of fees, micro-USD */
    realised_pnl: number;
  }[];

  /** `cursor` of the next page; empty on the last page */
  next_cursor: string;

  /** holders that match the query, on all pages */
  total_count: number;
};

export type BiggestTrades = {
  /** begin of those hours, ISO 8601 UTC */
  from: string;
  trades: {
    /** time of its block, ISO 8601 UTC */
    time: string;

    /** number of its block */
    block_number: number;
    taker: Profile;

    /** whether the trader bought or sold the outcome share */
    side: 'BUY' | 'SELL';

    /** label of the outcome that the taker traded */
    outcome: string;

    /** number of that outcome, 0 or 1 */
    outcome_index: number;

    /** price of that outcome, rounded down, micro-USD a share */
    price: number;

    /** shares traded, micro-shares */
    shares: number;

    /** value without the fee, micro-USD */
    usdc: number;

    /** fee of the taker, micro-USD */
    fee: number;

    /** transaction of the match */
    tx_hash: string;

    /** EIP-712 hash of the order of the taker */
    order_hash: string;
    market: MarketListing;
  }[];
};

export type Search = {
  markets: {
    market: MarketListing;

    /** value of all matches, each once, micro-USD */
    volume: number;
  }[];
  traders: {
    profile: Profile;

    /** newest trade, ISO 8601 UTC */
    last_trade_at: string;

    /** fills over all time */
    fills: number;
  }[];
};

export type ApiKey = {
  /** names the key; it grants nothing */
  id: string;

  /** the owner's name for it */
  label: string;

  /** what the key may do */
  tier: 'demo' | 'individual' | 'pro';

  /** only a valid key is accepted */
  status: 'valid' | 'expired' | 'revoked';

  /** whether this request was made with it */
  is_current: boolean;

  /** when it was issued, ISO 8601 UTC */
  created_at: string;

  /** when it expires; empty = never */
  expires_at: string;

  /** when it was revoked; empty if it was not */
  revoked_at: string;
};

export type Tier = {
  /** name of the tier */
  name: 'demo' | 'individual' | 'pro';

  /** requests per second of one key, which is also its burst */
  requests_per_second: number;

  /** the same of the account over all its keys */
  account_requests_per_second: number;

  /** valid API keys of an account */
  max_keys: number;

  /** open event streams of an account at a time */
  max_sessions: number;

  /** managed streams */
  max_streams: number;

  /** managed streams without any filter */
  max_naked_streams: number;

  /** addresses in a filter */
  max_filter_addrs: number;

  /** tags in a filter */
  max_filter_tags: number;

  /** series in a filter */
  max_filter_series: number;

  /** seconds of event streams per UTC day; null = no limit */
  stream_seconds_per_day: number | null;

  /** greatest `limit` of the leaderboard */
  leaderboard_limit: number;

  /** `include_orders` of a trader’s markets */
  include_orders: boolean;
};

export type Me = {
  /** owner of the key; limits count per account */
  account: string;
  key: ApiKey;
  tier: Tier;
};

export type Telemetry = {
  /** owner of the key; limits count per account */
  account: string;

  /** the UTC day */
  day: string;
  requests: {
    /** requests that were admitted */
    today: number;

    /** requests per second that the tier allows one key */
    per_second: number;
  };
  stream_seconds: {
    /** seconds of event streams */
    today: number;

    /** seconds per day of the tier; null = no limit */
    quota: number | null;

    /** seconds left today; null = no limit */
    left: number | null;
  };
  sessions: {
    /** event streams open now */
    open: number;

    /** event streams that may be open */
    quota: number;
  };
};

export type Keys = {
  keys: ApiKey[];

  /** keys in the list */
  total_count: number;
};

export type CreateKeyBody = {
  /** your name for the key */
  label?: string;

  /** when the key expires, ISO 8601 UTC; null = with the key of this request, or never */
  expires_at?: string | null;
};

export type CreateKey = {
  /** names the key; it grants nothing */
  id: string;

  /** the owner's name for it */
  label: string;

  /** what the key may do */
  tier: 'demo' | 'individual' | 'pro';

  /** only a valid key is accepted */
  status: 'valid' | 'expired' | 'revoked';

  /** whether this request was made with it */
  is_current: boolean;

  /** when it was issued, ISO 8601 UTC */
  created_at: string;

  /** when it expires; empty = never */
  expires_at: string;

  /** when it was revoked; empty if it was not */
  revoked_at: string;

  /** the key, shown once */
  key: string;
};

export type UpdateKeyBody = {
  /** your name for the key */
  label?: string;

  /** when the key expires, ISO 8601 UTC; null = with the key of this request, or never */
  expires_at?: string | null;
};

export type DeleteKey = {
  /** names the key; it grants nothing */
  id: string;
};

export type Tiers = { tiers: Tier[] };

export type Stream = {
  /** id of the stream */
  id: string;

  /** name of the stream, 1 to 64 characters */
  name: string;

  /** wallet addresses; delivers matches that involve any of them */
  addresses: string[];

  /** market tags; delivers matches in markets with any of them; `all` does not filter */
  tags: string[];

  /** series slugs; delivers matches in markets of any of them */
  series: string[];

  /** markets; delivers matches in any of them: condition ids */
  markets: string[];

  /** false: listeners are refused */
  enabled: boolean;

  /** connected listeners, over all processes of the service */
  active_sessions: number;

  /** when it was created, UTC with milliseconds */
  created_at: string;

  /** when its filters, name or state were last changed */
  updated_at: string;
};

export type Streams = {
  data: Stream[];

  /** number of entries in data */
  total_count: number;
};

export type CreateStreamBody = {
  /** wallet addresses; delivers matches that involve any of them */
  addresses?: string[];

  /** market tags; delivers matches in markets with any of them; `all` does not filter */
  tags?: string[];

  /** series slugs; delivers matches in markets of any of them */
  series?: string[];

  /** markets; delivers matches in any of them: ids, condition ids or slugs */
  markets?: string[];

  /** name of the stream, 1 to 64 characters */
  name: string;
};

export type DeleteStream = {
  /** id of the deleted stream */
  id: string;
};

export type UpdateSubscriptionBody = {
  /** wallet addresses; delivers matches that involve any of them */
  addresses?: string[];

  /** market tags; delivers matches in markets with any of them; `all` does not filter */
  tags?: string[];

  /** series slugs; delivers matches in markets of any of them */
  series?: string[];

  /** markets; delivers matches in any of them: ids, condition ids or slugs */
  markets?: string[];
};

export type UpdateStreamBody = {
  /** name of the stream, 1 to 64 characters */
  name?: string;

  /** false ends its listeners and refuses new ones */
  enabled?: boolean;
};

export type Sessions = {
  data: {
    /** id of the session */
    id: string;

    /** the managed stream; null: the order feed */
    stream_id: string | null;

    /** when it was opened, UTC with milliseconds */
    started_at: string;
  }[];

  /** number of entries in data */
  total_count: number;

  /** seconds of event streams on this UTC day, summed over all sessions */
  used_seconds_today: number;
};

export type EndedSessions = {
  data: {
    /** id of the session */
    id: string;

    /** the managed stream; null: the order feed */
    stream_id: string | null;

    /** when it was opened, UTC with milliseconds */
    started_at: string;

    /** when it ended */
    ended_at: string;

    /** why it ended */
    end:
      | 'client_left'
      | 'too_slow'
      | 'key_revoked'
      | 'stream_deleted'
      | 'stream_disabled'
      | 'quota_used_up'
      | 'shutdown'
      | 'fault'
      | 'process_lost';

    /** events delivered; null if unknown */
    events: number | null;
  }[];

  /** ended event streams that are kept */
  total_count: number;
};

export type Status = {
  feed: {
    /** when the newest event of the order feed was stored, or empty, ISO 8601 UTC */
    newest_at: string;

    /** age of that event, seconds; 0 if there is none */
    age_seconds: number;
  };
  chain: {
    /** number of the newest final block; 0 if there is none */
    final_block: number;

    /** its timestamp, or empty, ISO 8601 UTC */
    block_at: string;

    /** age of that block, seconds; 0 if there is none */
    age_seconds: number;

    /** above this age the service is not ready, seconds */
    age_seconds_max: number;
  };
  projection: {
    /** time of the newest trade in the analytics, or empty, ISO 8601 UTC */
    newest_trade_at: string;

    /** how far that is behind the newest final trade, seconds */
    behind_seconds: number;

    /** age of the newest block whose trades are all in the analytics, seconds; 0 if there is none */
    age_seconds: number;

    /** above this age the service is not ready, seconds */
    age_seconds_max: number;
  };
  processes: {
    /** ingest or projector, with its number */
    name: string;

    /** whether it works and is not behind */
    ready: boolean;

    /** why it is not ready, or empty */
    reason: string;
  }[];
  markets: {
    /** when the list of markets was last computed; empty while it has none, ISO 8601 UTC */
    refreshed_at: string;

    /** age of that, seconds; 0 if there is none */
    age_seconds: number;
  };
  boards: {
    /** time frame of the leaderboard */
    time_frame: '1H' | '4H' | '1D' | '3D' | '7D' | '30D';

    /** when it was last computed; empty while it has no trader, ISO 8601 UTC */
    refreshed_at: string;

    /** age of that, seconds; 0 if there is none */
    age_seconds: number;
  }[];
};

export type FinalMatches = {
  /** transactions with a final match after the cursor, in chain order: whole blocks, together at most 2048 unless one block has more; one with several matches is repeated */
  tx_hashes: string[];

  /** cursor for the next call: the last block delivered */
  next: number;

  /** whether there is more now */
  more: boolean;

  /** the cursor was unknown or has expired: the list starts again at the present */
  restarted: boolean;
};

export type RecentMatches = {
  /** what the stream sends with `format=json`, oldest first */
  events: (
    | { type: 'order'; cursor: string; data: LabelledMatch }
    | { type: 'void'; cursor: string; data: Void }
    | { type: 'restored'; cursor: string; data: Restored }
    | { type: 'final'; cursor: string; data: Final }
  )[];

  /** `from` of the next request: the place of the newest event that was looked at; empty while there is none */
  cursor: string;

  /** whether there are later events now: ask again with `cursor` */
  more: boolean;

  /** whether the feed no longer has what came after `from`, or a part of it */
  gap: boolean;
};

export type LeaderboardQueryV1 = {
  /** page size, 1–100 (default 50; demo tier: 20, its maximum); 1 to 100 */
  limit?: number | undefined;

  /** entries to skip (demo tier: 0); 0 to 100000000; default: 0 */
  offset?: number | undefined;

  /** cursor from the `Link` header or `next_cursor` of the previous page; not for the demo tier */
  cursor?: string | undefined;

  /** the time before the last refresh that is summed; default: 30D */
  time_frame?: '1H' | '4H' | '1D' | '3D' | '7D' | '30D' | undefined;

  /** sort order; ties are broken by PnL, volume, address; default: pnl */
  sort_by?: 'pnl' | 'roi' | 'win_rate' | 'market_count' | 'volume' | undefined;

  /** desc: from rank 1 down; asc: the reverse; default: desc */
  order?: 'asc' | 'desc' | undefined;

  /** only markets with this tag, in any letter case; `sports` excludes `esports`, `all`: no filter; default: all */
  tag?:
    | 'all'
    | 'sports'
    | 'crypto'
    | 'geopolitics'
    | 'politics'
    | 'finance'
    | 'esports'
    | 'pop-culture'
    | 'tech'
    | 'economy'
    | 'weather'
    | 'elections'
    | 'tweets-markets'
    | 'basketball'
    | 'hockey'
    | 'soccer'
    | 'tennis'
    | 'counter-strike-2'
    | 'dota-2'
    | 'league-of-legends'
    | '5M'
    | '15M'
    | undefined;

  /** only this market, by market id, condition id or slug */
  market?: string | undefined;

  /** only markets of this series */
  series?: string | undefined;

  /** minimum win rate, percent; 0 to 100 */
  min_win_rate?: number | undefined;

  /** maximum win rate, percent; 0 to 100 */
  max_win_rate?: number | undefined;

  /** minimum ROI, percent; -1000000000000 to 1000000000000 */
  min_roi?: number | undefined;

  /** maximum ROI, percent; -1000000000000 to 1000000000000 */
  max_roi?: number | undefined;

  /** only traders with a fill in this many hours before now, as of the last refresh; 1 to 1000000 */
  last_active_hours?: number | undefined;

  /** minimum markets in the time frame; 0 to 1000000000 */
  min_market_count?: number | undefined;

  /** maximum markets in the time frame; 0 to 1000000000 */
  max_market_count?: number | undefined;

  /** minimum PnL, whole USDC; -9000000000 to 9000000000 */
  min_pnl?: number | undefined;
};

export type TraderMarketsQueryV1 = {
  /** maximum entries per page; 1 to 100; default: 20 */
  limit?: number | undefined;

  /** entries to skip; 0 to 100000000; default: 0 */
  offset?: number | undefined;

  /** true: only unresolved markets; false: only resolved ones; omitted: both */
  is_active?: boolean | undefined;

  /** true: each entry contains its fills; tiers individual and pro; default: false */
  include_orders?: boolean | undefined;

  /** desc: newest trade first; asc: oldest first; default: desc */
  order?: 'asc' | 'desc' | undefined;

  /** cursor from the `Link` header or `next_cursor` of the previous page */
  cursor?: string | undefined;
};

export type TraderOrdersQueryV1 = {
  /** asc: oldest first; desc: newest first; default: asc */
  order?: 'asc' | 'desc' | undefined;

  /** maximum fills per page (default: all); 1 to 1000 */
  limit?: number | undefined;

  /** cursor from the `Link` header of the previous page */
  cursor?: string | undefined;
};

export type TraderHoursQueryV1 = {
  /** only markets with this tag; `all`: no filter; default: all */
  tag?: string | undefined;

  /** earliest start of an hour (default: 30 days before `to`) */
  from?: string | undefined;

  /** latest start of an hour (default: now) */
  to?: string | undefined;

  /** maximum hours per page; 1 to 100000; default: 100000 */
  limit?: number | undefined;

  /** desc: newest hour first; asc: oldest first; default: desc */
  order?: 'asc' | 'desc' | undefined;

  /** cursor from the `Link` header of the previous page */
  cursor?: string | undefined;
};

export type MarketTradersQueryV1 = {
  /** maximum traders per page; 1 to 1000; default: 100 */
  limit?: number | undefined;

  /** order of the addresses; default: asc */
  order?: 'asc' | 'desc' | undefined;

  /** cursor from the `Link` header or `next_cursor` of the previous page */
  cursor?: string | undefined;

  /** false: figures only, without the fills; default: true */
  include_orders?: boolean | undefined;
};

export type LeaderboardQuery = {
  /** page size, 1–100 (default 50; demo tier: 20, its maximum); 1 to 100 */
  limit?: number | undefined;

  /** entries to skip (demo tier: 0); 0 to 100000000; default: 0 */
  offset?: number | undefined;

  /** cursor from the `Link` header or `next_cursor` of the previous page; not for the demo tier */
  cursor?: string | undefined;

  /** the time before the last refresh that is summed; default: 30D */
  time_frame?: '1H' | '4H' | '1D' | '3D' | '7D' | '30D' | undefined;

  /** sort order; ties are broken by PnL, volume, address; default: pnl */
  sort_by?: 'pnl' | 'roi' | 'win_rate' | 'market_count' | 'volume' | undefined;

  /** desc: from rank 1 down; asc: the reverse; default: desc */
  order?: 'asc' | 'desc' | undefined;

  /** only markets with this tag, in any letter case; `sports` excludes `esports`, `all`: no filter; default: all */
  tag?:
    | 'all'
    | 'sports'
    | 'crypto'
    | 'geopolitics'
    | 'politics'
    | 'finance'
    | 'esports'
    | 'pop-culture'
    | 'tech'
    | 'economy'
    | 'weather'
    | 'elections'
    | 'tweets-markets'
    | 'basketball'
    | 'hockey'
    | 'soccer'
    | 'tennis'
    | 'counter-strike-2'
    | 'dota-2'
    | 'league-of-legends'
    | '5M'
    | '15M'
    | undefined;

  /** only this market, by market id, condition id or slug */
  market?: string | undefined;

  /** only markets of this series */
  series?: string | undefined;

  /** minimum win rate, percent; 0 to 100 */
  min_win_rate?: number | undefined;

  /** maximum win rate, percent; 0 to 100 */
  max_win_rate?: number | undefined;

  /** minimum ROI, percent; -1000000000000 to 1000000000000 */
  min_roi?: number | undefined;

  /** maximum ROI, percent; -1000000000000 to 1000000000000 */
  max_roi?: number | undefined;

  /** only traders with a fill in this many hours before now, as of the last refresh; 1 to 1000000 */
  last_active_hours?: number | undefined;

  /** minimum markets in the time frame; 0 to 1000000000 */
  min_market_count?: number | undefined;

  /** maximum markets in the time frame; 0 to 1000000000 */
  max_market_count?: number | undefined;

  /** minimum PnL, whole USDC; -9000000000 to 9000000000 */
  min_pnl?: number | undefined;
};

export type TraderQuery = {
  /** restricts top_tags and weighted_volume to markets with this tag; `all`: no filter; default: all */
  tag?: string | undefined;

  /** restricts top_tags and weighted_volume to markets of this series */
  series?: string | undefined;
};

export type TraderMarketsQuery = {
  /** maximum entries per page; 1 to 100; default: 20 */
  limit?: number | undefined;

  /** entries to skip; 0 to 100000000; default: 0 */
  offset?: number | undefined;

  /** true: only unresolved markets; false: only resolved ones; omitted: both */
  is_active?: boolean | undefined;

  /** true: each entry contains its fills; tiers individual and pro; default: false */
  include_orders?: boolean | undefined;

  /** desc: newest trade first; asc: oldest first; default: desc */
  order?: 'asc' | 'desc' | undefined;

  /** cursor from the `Link` header or `next_cursor` of the previous page */
  cursor?: string | undefined;
};

export type TraderPositionsQuery = {
  /** open: shares are held; resolved: the shares were settled by a resolution; all: sold ones, too; default: open */
  status?: 'open' | 'resolved' | 'all' | undefined;

  /** value; pnl: realised and unrealised PnL in the market; age: time since the first trade in it; last_trade: time of the newest one; default: value */
  sort_by?: 'value' | 'pnl' | 'age' | 'last_trade' | undefined;

  /** desc: greatest first; asc: least first; default: desc */
  order?: 'asc' | 'desc' | undefined;

  /** each of these words begins a word of the question, or of the titles or slugs of market and event; letter case and accents are ignored */
  q?: string | undefined;

  /** maximum entries per page; 1 to 100; default: 20 */
  limit?: number | undefined;

  /** cursor from the `Link` header or `next_cursor` of the previous page */
  cursor?: string | undefined;
};

export type TraderTradesQuery = {
  /** only this market: its id, condition id or slug */
  market?: string | undefined;

  /** only this side */
  side?: 'BUY' | 'SELL' | undefined;

  /** only fills of at least so many USDC; 0 to 1000000000000 */
  min_usdc?: number | undefined;

  /** only fills of at most so many USDC; 0 to 1000000000000 */
  max_usdc?: number | undefined;

  /** only fills at this time or later */
  from?: string | undefined;

  /** only fills at this time or earlier */
  to?: string | undefined;

  /** desc: newest first; asc: oldest first; default: desc */
  order?: 'asc' | 'desc' | undefined;

  /** maximum fills per page; 1 to 1000; default: 100 */
  limit?: number | undefined;

  /** cursor from the `Link` header or `next_cursor` of the previous page */
  cursor?: string | undefined;
};

export type TraderEquityQuery = {
  /** time between two points; default: 1h */
  interval?: '1h' | '1d' | undefined;

  /** a time in the interval of the first point (default: 7 days of hours or 30 days before `to`) */
  from?: string | undefined;

  /** a time in the interval of the last point (default: now) */
  to?: string | undefined;
};

export type TraderOrdersQuery = {
  /** asc: oldest first; desc: newest first; default: asc */
  order?: 'asc' | 'desc' | undefined;

  /** maximum fills per page (default: all); 1 to 1000 */
  limit?: number | undefined;

  /** cursor from the `Link` header of the previous page */
  cursor?: string | undefined;
};

export type TraderHoursQuery = {
  /** only markets with this tag; `all`: no filter; default: all */
  tag?: string | undefined;

  /** earliest start of an hour (default: 30 days before `to`) */
  from?: string | undefined;

  /** latest start of an hour (default: now) */
  to?: string | undefined;

  /** maximum hours per page; 1 to 100000; default: 100000 */
  limit?: number | undefined;

  /** desc: newest hour first; asc: oldest first; default: desc */
  order?: 'asc' | 'desc' | undefined;

  /** cursor from the `Link` header of the previous page */
  cursor?: string | undefined;

  /** only markets of this series */
  series?: string | undefined;
};

export type MarketsQuery = {
  /** each of these words begins a word of the question, or of the titles or slugs of market and event; letter case and accents are ignored */
  q?: string | undefined;

  /** only markets with this tag; `sports` excludes `esports`, `all`: no filter; default: all */
  tag?: string | undefined;

  /** only markets of this series */
  series?: string | undefined;

  /** only markets of the event with this slug */
  event?: string | undefined;

  /** resolved: has a resolution; closed: past its end date, unresolved; open: neither; default: open */
  status?: 'open' | 'closed' | 'resolved' | 'all' | undefined;

  /** newest: by first match; closing: the next end date first; default: volume_24h */
  sort_by?: 'volume_24h' | 'volume' | 'traders' | 'change_24h' | 'newest' | 'closing' | undefined;

  /** desc: greatest, newest, next to close first; asc: the reverse; default: desc */
  order?: 'asc' | 'desc' | undefined;

  /** maximum markets per page; 1 to 100; default: 50 */
  limit?: number | undefined;

  /** cursor from the `Link` header or `next_cursor` of the previous page */
  cursor?: string | undefined;
};

export type PnlLinesQuery = {
  /** comma-separated wallets; letter case is ignored (default: none) */
  traders?: string | undefined;

  /** number of hours, including the current one; 1 to 168; default: 24 */
  hours?: number | undefined;
};

export type MarketPricesQuery = {
  /** maximum number of intervals; 1 to 500; default: 500 */
  points?: number | undefined;
};

export type MarketCandlesQuery = {
  /** length of a candle; default: 1h */
  interval?: '1m' | '5m' | '15m' | '1h' | '6h' | '1d' | undefined;

  /** a time in the first candle (default: 300 candles until `to`) */
  from?: string | undefined;

  /** a time in the last candle (default: now, or 1500 candles after `from`) */
  to?: string | undefined;
};

export type MarketTradesQuery = {
  /** desc: newest first; asc: oldest first; default: desc */
  order?: 'asc' | 'desc' | undefined;

  /** maximum matches per page; 1 to 1000; default: 100 */
  limit?: number | undefined;

  /** cursor from the `Link` header or `next_cursor` of the previous page */
  cursor?: string | undefined;
};

export type MarketHoldersQuery = {
  /** only holders of this outcome: 0 is the first one; default: both */
  outcome?: '0' | '1' | 'both' | undefined;

  /** desc: most shares first; asc: fewest first; default: desc */
  order?: 'asc' | 'desc' | undefined;

  /** maximum holders per page; 1 to 100; default: 50 */
  limit?: number | undefined;

  /** cursor from the `Link` header or `next_cursor` of the previous page */
  cursor?: string | undefined;
};

export type BiggestTradesQuery = {
  /** matches of so many hours up to now; 1 to 24; default: 1 */
  hours?: number | undefined;

  /** maximum matches; 1 to 100; default: 20 */
  limit?: number | undefined;
};

export type SearchQuery = {
  /** words, a name, an id, the beginning of an address, or a URL */
  q: string;

  /** maximum number of markets, and of traders; 1 to 50; default: 10 */
  limit?: number | undefined;
};

export type EndedSessionsQuery = {
  /** maximum number of entries; 1 to 1000; default: 50 */
  limit?: number | undefined;
};

export type FinalMatchesQuery = {
  /** `next` of the previous response; absent: start now; 0 to 9007199254740991 */
  after?: number | undefined;
};

export type RecentMatchesQuery = {
  /** wallet addresses; only matches that involve one of them; separated by commas */
  traders?: string[] | undefined;

  /** tags of markets, in any letter case; separated by commas */
  tags?: string[] | undefined;

  /** series slugs, in any letter case; separated by commas */
  series?: string[] | undefined;

  /** at most 100 markets by id, condition id or slug; an unknown one is a 404; separated by commas */
  markets?: string[] | undefined;

  /** minimum value of the taker order, USDC */
  min_usdc?: number | undefined;

  /** maximum value of the taker order, USDC */
  max_usdc?: number | undefined;

  /** minimum shares of the taker order */
  min_shares?: number | undefined;

  /** maximum shares of the taker order */
  max_shares?: number | undefined;

  /** minimum execution price of the taker, 0 to 100; 0 to 100 */
  min_price?: number | undefined;

  /** maximum execution price of the taker, 0 to 100; 0 to 100 */
  max_price?: number | undefined;

  /** true: `event: final` when a delivered match is in a final block; default: false */
  finality?: boolean | undefined;

  /** start after the event with this cursor, or at a time; absent: the newest matches that pass */
  from?: string | undefined;

  /** maximum matches; what became of them does not count; 1 to 200; default: 50 */
  limit?: number | undefined;
};

/** What the order feed delivers; the default is everything. */
export type FeedQuery = {
  /** wallet addresses; only matches that involve one of them; separated by commas */
  traders?: string[] | undefined;

  /** tags of markets, in any letter case; separated by commas */
  tags?: string[] | undefined;

  /** series slugs, in any letter case; separated by commas */
  series?: string[] | undefined;

  /** at most 100 markets by id, condition id or slug; an unknown one is a 404; separated by commas */
  markets?: string[] | undefined;

  /** minimum value of the taker order, USDC */
  min_usdc?: number | undefined;

  /** maximum value of the taker order, USDC */
  max_usdc?: number | undefined;

  /** minimum shares of the taker order */
  min_shares?: number | undefined;

  /** maximum shares of the taker order */
  max_shares?: number | undefined;

  /** minimum execution price of the taker, 0 to 100; 0 to 100 */
  min_price?: number | undefined;

  /** maximum execution price of the taker, 0 to 100; 0 to 100 */
  max_price?: number | undefined;

  /** true: `event: final` when a delivered match is in a final block; default: false */
  finality?: boolean | undefined;

  /** start with so many of the newest matches that pass; a cursor takes precedence; 0 to 1000; default: 0 */
  last?: number | undefined;
};
/** What a managed stream delivers beside its matches. */
export type StreamQuery = {
  /** true: `event: final` when a delivered match is in a final block; default: false */
  finality?: boolean | undefined;

  /** start with so many of the newest matches that pass; a cursor takes precedence; 0 to 1000; default: 0 */
  last?: number | undefined;
};
