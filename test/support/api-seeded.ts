/**
 * The application over a ClickHouse that contains the made-up exchange of api-expected.ts: the
 * starting point for tests of analytics responses.
 */
import type { ClickHouseClient } from '@clickhouse/client';
import { addressOf, insertBookings, insertListings, MARKETS } from './api-bookings.ts';
import {
  ALL_FRAMES,
  balanceOf,
  EDGE_NOW,
  NOW,
  profileObject,
  RESOLVED_AT,
  rows,
  SEED,
  TRADERS,
  tierOf,
} from './api-expected.ts';
import { issueKey, type StartClickHouse, startApi, startStores } from './api-harness.ts';

/** An api with its clock fixed at NOW, one at EDGE_NOW, and a key of each tier. */
export async function startSeeded(start?: StartClickHouse) {
  console.log(`SEED=${SEED}`);
  const stores = await startStores(start);
  const { clickhouse, nats } = stores;
  await insertListings(clickhouse.client, RESOLVED_AT);
  await insertProfiles(clickhouse.client);
  await insertBalances(clickhouse.client);
  // Newest first, because no response may depend on the order of inserts.
  for (let end = rows.length; end > 0; end -= 1_000) {
    await insertBookings(clickhouse.client, rows.slice(Math.max(0, end - 1_000), end), end);
  }
  await insertMovements(clickhouse.client);
  await stopClock(clickhouse.client);
  await refreshBoards(clickhouse.client);
  const clickhouseUrl = clickhouse.url;
  // On a slow machine, a read takes longer than the service allows.
  const given = { clickhouseUrl, nats, queryMsMax: 60_000 };
  const api = await startApi({ ...given, now: () => NOW * 1000 });
  const edgeApi = await startApi({ ...given, now: () => EDGE_NOW * 1000 + 999 });
  return {
    clickhouse,
    nats,
    api,
    edgeApi,
    key: await issueKey(nats.bucket, 'pro'),
    individualKey: await issueKey(nats.bucket, 'individual'),
    demoKey: await issueKey(nats.bucket, 'demo'),
    async stop() {
      await api.stop();
      await edgeApi.stop();
      await stores.stop();
    },
  };
}

/** Some movements of two traders. They change no position, so only their own list shows them. */
async function insertMovements(client: ClickHouseClient) {
  const rows = [
    ...[3, 5].flatMap((market, at) => [
      { trader: 3, market, block: 3 * at, reason: 'split' },
      { trader: 3, market, block: 3 * at + 1, reason: 'transfer' },
      { trader: 3, market, block: 3 * at + 2, reason: 'merge' },
    ]),
    { trader: 5, market: 3, block: 9, reason: 'split' },
  ];
  for (const { trader, market, block, reason } of rows) {
    await client.command({
      query: `INSERT INTO movements (trader, block_number, kind, reason, block_time, condition_id, side, shares, usdc)
        VALUES (unhex('${addressOf(trader).slice(2)}'), ${block}, 'movement', '${reason}', ${NOW - 3_600 + block},
          unhex('${MARKETS[market]?.conditionId}'), 'BUY', 5000000, 2000000)`,
    });
  }
}

/** Makes the views that use the engine's clock use NOW instead; the rest of their text is unchanged. */
async function stopClock(client: ClickHouseClient) {
  for (const [view, change] of [
    ['leaderboard_window', 'CREATE OR REPLACE VIEW leaderboard_window AS'],
    ['market_stats_mv', 'ALTER TABLE market_stats_mv MODIFY QUERY'],
  ]) {
    const query = `SELECT as_select FROM system.tables WHERE database = currentDatabase() AND name = '${view}'`;
    const found = await client.query({ query, format: 'JSONEachRow' });
    const [{ as_select: select } = { as_select: '' }] = await found.json<{ as_select: string }>();
    const parts = select.split("now('UTC')");
    if (parts.length !== 2) throw new Error(`${view} does not read the clock once: ${select}`);
    await client.command({ query: `${change} ${parts.join(`toDateTime(${NOW}, 'UTC')`)}` });
  }
}

export async function refreshBoards(client: ClickHouseClient) {
  const boards = Object.keys(ALL_FRAMES).map((frame) => `leaderboard_${frame.toLowerCase()}_mv`);
  // They are refreshed only here, because some compared responses contain the time of the refresh.
  const lists = ['market_counts_mv', 'market_stats_mv', 'search_markets_mv', 'search_traders_mv'];
  for (const view of [...boards, ...lists]) {
    for (const action of ['START', 'WAIT', 'REFRESH', 'WAIT', 'STOP']) {
      await client.command({ query: `SYSTEM ${action} VIEW ${view}` });
    }
  }
}

async function insertProfiles(client: ClickHouseClient) {
  const traders = Array.from({ length: TRADERS }, (_, i) => i).filter((i) => i % 3 === 0);
  for (const observed_at of ['2026-01-01 00:00:01', '2026-01-01 00:00:02']) {
    await client.insert({
      table: 'traders',
      format: 'JSONEachRow',
      columns: [
        ...(['trader_hex', 'name', 'profile_image', 'x_username', 'profile_created_at'] as const),
        ...['taker_tier', 'taker_tier_name', 'weighted_volume_usd', 'has_weighted_volume'],
        'observed_at',
      ],
      values: traders.map((trader) => {
        const { address, name, ...profile } = profileObject(addressOf(trader));
        const tier = tierOf(trader);
        return {
          ...{ ...profile, trader_hex: address.slice(2) },
          ...{ name: observed_at.endsWith('1') ? 'Old name' : name, observed_at },
          ...{ taker_tier: tier?.tier ?? 0, taker_tier_name: '' },
          ...{ weighted_volume_usd: tier?.volume ?? 0, has_weighted_volume: tier !== undefined },
        };
      }),
    });
  }
}

async function insertBalances(client: ClickHouseClient) {
  const traders = Array.from({ length: TRADERS }, (_, i) => i).filter((i) => i % 4 === 0);
  for (const block of [2, 1]) {
    await client.insert({
      table: 'balances',
      format: 'JSONEachRow',
      columns: ['trader_hex', 'balance', 'block_number'],
      values: traders.map((trader) => ({
        trader_hex: addressOf(trader).slice(2),
        balance: String(block === 2 ? balanceOf(trader) : 5),
        block_number: block,
      })),
    });
  }
}
