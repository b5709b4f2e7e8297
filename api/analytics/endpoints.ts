/** All analytics endpoints, in the order of the documentation. */
import type { Endpoint } from '../http/endpoint.ts';
import { traderAuditV2 } from './audit.ts';
import { tradersBatch } from './batch.ts';
import { biggestTradesV2 } from './biggest-trades.ts';
import type { Call } from './call.ts';
import { candlesV2 } from './candles.ts';
import { holdersV2 } from './holders.ts';
import { hourlyV1, hourlyV2 } from './hourly.ts';
import { leaderboardV1, leaderboardV2 } from './leaderboard.ts';
import { marketDetailV1, marketDetailV2 } from './market.ts';
import { marketData } from './market-data.ts';
import { marketTradesV2 } from './market-trades.ts';
import { marketsV2 } from './markets.ts';
import { traderMovementsV2 } from './movements.ts';
import { ordersV1, ordersV2 } from './orders.ts';
import { pnlLines } from './pnl-lines.ts';
import { positionEventsV2 } from './position-events.ts';
import { positionsV2 } from './positions.ts';
import { search } from './search.ts';
import { traderV1, traderV2 } from './trader.ts';
import { traderMarketsV1, traderMarketsV2 } from './trader-markets.ts';
import { traderPnlV2 } from './trader-pnl.ts';
import { traderTradesV2 } from './trader-trades.ts';

export const ANALYTICS_ENDPOINTS: readonly Endpoint<Call>[] = [
  leaderboardV1,
  traderV1,
  traderMarketsV1,
  ordersV1,
  hourlyV1,
  marketDetailV1,
  marketData,
  leaderboardV2,
  // Must precede `/v2/traders/:address`, which would match `batch`.
  tradersBatch,
  traderV2,
  traderMarketsV2,
  positionsV2,
  positionEventsV2,
  traderTradesV2,
  traderMovementsV2,
  traderAuditV2,
  traderPnlV2,
  ordersV2,
  hourlyV2,
  marketDetailV2,
  marketsV2,
  pnlLines,
  candlesV2,
  marketTradesV2,
  holdersV2,
  biggestTradesV2,
  search,
];
