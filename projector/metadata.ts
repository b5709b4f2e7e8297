/**
 * Rows of the metadata tables: markets, traders, balances, resolutions, refused events. All of them are
 * upserts of which the newest LEDGER sequence (or block) wins, so writing one again does no harm.
 */
import type { Balance, Hash, Listing, Profile, Refused, Resolution } from '../ingest/contract.ts';

/** A metadata event with the sequence that makes the newest one win. */
export type Fact = {
  readonly sequence: number;
  readonly event: Listing | Profile | Balance | Refused | Resolution;
};

/** Table, columns and values of one fact. */
export function factRow({ sequence, event }: Fact) {
  switch (event.kind) {
    case 'listing':
      return {
        table: 'markets',
        columns: MARKET_COLUMNS,
        values: [
          bare(event.conditionId),
          event.marketId,
          event.question,
          event.slug,
          event.startDate,
          event.endDate,
          event.icon,
          event.negRisk,
          event.eventSlug,
          event.eventTitle,
          event.eventIcon,
          event.seriesSlug,
          event.tags,
          event.outcomes,
          event.tokenIds,
          event.groupItemTitle,
          event.sportsMarketType,
          sequence,
        ],
      };
    case 'profile':
      return {
        table: 'traders',
        columns: TRADER_COLUMNS,
        values: [
          bare(event.address),
          event.name,
          event.profileImage,
          event.xUsername,
          event.createdAt,
          event.takerTier,
          event.takerTierName,
          event.weightedVolumeUsd ?? 0,
          event.weightedVolumeUsd !== null,
          sequence,
        ],
      };
    case 'balance':
      return {
        table: 'balances',
        columns: ['trader_hex', 'balance', 'block_number'],
        values: [bare(event.address), event.balance.toString(), event.blockNumber],
      };
    case 'resolution':
      return {
        table: 'resolutions',
        columns: RESOLUTION_COLUMNS,
        values: [
          bare(event.conditionId),
          event.payouts[0].toString(),
          event.payouts[1].toString(),
          event.blockTime,
          event.blockNumber,
          event.logIndex,
          sequence,
        ],
      };
    case 'refused':
      return {
        table: 'refused_events',
        columns: ['block_number', 'log_index', 'tx_hash_hex', 'reason', 'detail', 'sequence'],
        values: [
          event.blockNumber,
          event.logIndex,
          bare(event.txHash),
          event.reason,
          event.detail,
          sequence,
        ],
      };
  }
}

const MARKET_COLUMNS = [
  'condition_id_hex',
  'market_id',
  'question',
  'slug',
  'start_date',
  'end_date',
  'icon',
  'neg_risk',
  'event_slug',
  'event_title',
  'event_icon',
  'series_slug',
  'tags',
  'outcomes',
  'token_ids',
  'group_item_title',
  'sports_market_type',
  'sequence',
] as const;

const TRADER_COLUMNS = [
  'trader_hex',
  'name',
  'profile_image',
  'x_username',
  'profile_created_at',
  'taker_tier',
  'taker_tier_name',
  'weighted_volume_usd',
  'has_weighted_volume',
  'sequence',
] as const;

const RESOLUTION_COLUMNS = [
  'condition_id_hex',
  'payout_0',
  'payout_1',
  'resolved_at',
  'block_number',
  'log_index',
  'sequence',
] as const;

/** Hex without 0x, as the *_hex columns take it. */
function bare(hex: Hash | `0x${string}`): string {
  return hex.slice(2);
}
