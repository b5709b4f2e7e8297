/**
 * Members of the interface, in its order. A later version may add members anywhere. That responses
 * have the order of their schemas is tested in rules/api-openapi.test.ts.
 */
import { describe, expect, test } from 'vitest';
import type { z } from 'zod';
import { OPEN_API } from '../../apps/reference/document.ts';

type Schema = z.core.JSONSchema.JSONSchema;

describe.each([
  ['LeaderboardV1', [], 'traders total_count'],
  [
    'LeaderboardV1',
    ['traders'],
    'profile total_pnl total_volume roi win_rate rank markets_count wins_count',
  ],
  ['ProfileV1', [], 'address name profile_image x_username profile_created_at last_trade_at'],
  [
    'MarketListingV1',
    [],
    'id question slug start_date end_date icon neg_risk event_slug series_slug tags outcome_1 ' +
      'outcome_2 group_item_title event_title event_icon resolved_at winning_outcome',
  ],
  ['TraderV1', [], 'profile top_tags stats'],
  ['TraderV1', ['stats'], 't_1h t_4h t_1d t_3d t_7d t_30d'],
  ['WindowV1', [], 'pnl volume roi win_rate markets_count wins_count maker_volume taker_volume'],
  ['TagV1', [], 'slug pnl volume roi win_rate markets_count maker_volume taker_volume wins_count'],
  ['TraderMarketsV1', [], 'history total_count'],
  ['TraderMarketsV1', ['history'], 'pnl volume roi last_trade_at market orders'],
  ['FillV1', [], 'time outcome side price shares usdc order_hash is_taker token_id fee'],
  ['TraderHoursV1', ['stats'], 'hour pnl market_count win_count taker_volume maker_volume volume'],
  [
    'MarketV1',
    [],
    'market total_volume total_pnl_distributed total_traders top_earners total_winners',
  ],
  ['MarketV1', ['top_earners'], 'profile pnl volume roi rank'],
  [
    'Trader',
    [],
    'profile pusd_balance taker_tier taker_tier_name top_tags weighted_volume last_trade_at',
  ],
  ['Trader', ['profile'], 'address name profile_created_at profile_image x_username'],
  ['Tag', [], 'maker_volume markets_count pnl roi slug taker_volume volume win_rate wins_count'],
  [
    'TraderHours',
    ['stats'],
    'cost_basis fee hour maker_volume market_count pnl taker_volume win_count',
  ],
  ['Fill', [], 'fee is_taker outcome shares side time usdc'],
  ['Streams', [], 'data total_count'],
  ['Stream', [], 'id name addresses tags series enabled active_sessions created_at updated_at'],
  ['LiveTransaction', [], 'makers market taker timestamp tx_hash'],
  ['LiveTransaction', ['taker'], 'fee order outcome shares side token_ids_index usdc user'],
  ['LiveTransaction', ['makers', 'order'], 'order_hash shares signature_type timestamp usdc'],
  ['LiveTransaction', ['taker', 'user'], 'address name'],
  [
    'LiveTransaction',
    ['market'],
    'condition_id event_slug group_item_title id neg_risk outcomes question series_slug slug ' +
      'sports_market_type start_date tags_slug token_ids',
  ],
  ['LabelledMatch', [], 'tx_hash timestamp market taker_order maker_orders'],
  ['LabelledMatch', ['maker_orders'], 'side usdc shares trader outcome fee token_id fee_rate_bps'],
] as const)('%s %j', (name, path, members) => {
  test('has the members of the interface, in its order', () => {
    const schema = path.reduce<Schema>(
      (outer, member) => objectOf(outer.properties?.[member]),
      objectOf(OPEN_API.components.schemas[name]),
    );
    const expected = members.split(' ');
    const own = Object.keys(schema.properties ?? {});
    expect(own.filter((member) => expected.includes(member))).toEqual(expected);
  });
});

/** The schema of an object or, of an array, that of its elements. */
function objectOf(schema: Schema | boolean | undefined): Schema {
  if (typeof schema !== 'object') return {};
  const name = schema.$ref?.split('/').pop();
  if (name !== undefined) return objectOf(OPEN_API.components.schemas[name]);
  return schema.items === undefined ? schema : objectOf(schema.items as Schema);
}
