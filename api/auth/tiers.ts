/**
 * The tiers and every limit that depends on them (docs/api.md, "Tiers and quotas"). null means no limit.
 */
import type { Tier } from '../http/caller.ts';

export type TierLimits = {
  /** Requests per second of one key; also the burst size. */
  readonly requestsPerSecond: number;
  /** Requests per second of one account over all its keys; also the burst size. */
  readonly accountRequestsPerSecond: number;
  /** Valid API keys of one account; the operator may issue more. */
  readonly keysMax: number;
  /** Concurrently open event streams of one account. */
  readonly sessionsMax: number;
  readonly streamsMax: number;
  /** Managed streams without any filter. */
  readonly nakedStreamsMax: number;
  readonly filterAddressesMax: number;
  readonly filterTagsMax: number;
  readonly filterSeriesMax: number;
  /** Seconds of open event streams of one account per UTC day; null = no limit. */
  readonly streamSecondsPerDayMax: number | null;
  readonly leaderboardLimitMax: number;
  readonly leaderboardLimitDefault: number;
  /** null = any offset. */
  readonly leaderboardOffsetMax: number | null;
  /** `include_orders` of a trader's markets. */
  readonly includeOrders: boolean;
  /** `/v1/market_data`. */
  readonly marketData: boolean;
};

export const TIERS: Readonly<Record<Tier, TierLimits>> = {
  demo: {
    requestsPerSecond: 5,
    accountRequestsPerSecond: 10,
    keysMax: 2,
    sessionsMax: 2,
    streamsMax: 2,
    nakedStreamsMax: 0,
    filterAddressesMax: 10,
    filterTagsMax: 5,
    filterSeriesMax: 5,
    streamSecondsPerDayMax: 10_800,
    leaderboardLimitMax: 20,
    leaderboardLimitDefault: 20,
    leaderboardOffsetMax: 0,
    includeOrders: false,
    marketData: false,
  },
  individual: {
    requestsPerSecond: 20,
    accountRequestsPerSecond: 40,
    keysMax: 10,
    sessionsMax: 10,
    streamsMax: 20,
    nakedStreamsMax: 2,
    filterAddressesMax: 200,
    filterTagsMax: 20,
    filterSeriesMax: 20,
    streamSecondsPerDayMax: null,
    leaderboardLimitMax: 100,
    leaderboardLimitDefault: 50,
    leaderboardOffsetMax: null,
    includeOrders: true,
    marketData: true,
  },
  pro: {
    requestsPerSecond: 100,
    accountRequestsPerSecond: 200,
    keysMax: 50,
    sessionsMax: 100,
    streamsMax: 200,
    nakedStreamsMax: 20,
    filterAddressesMax: 5_000,
    filterTagsMax: 100,
    filterSeriesMax: 100,
    streamSecondsPerDayMax: null,
    leaderboardLimitMax: 100,
    leaderboardLimitDefault: 50,
    leaderboardOffsetMax: null,
    includeOrders: true,
    marketData: true,
  },
};

/** Requests per second of one remote address without a valid key. */
export const ANONYMOUS_REQUESTS_PER_SECOND = 20;
