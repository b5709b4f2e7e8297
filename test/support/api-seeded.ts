/**
 * The application over a ClickHouse that holds the made-up exchange of api-expected.ts: what the
 * tests of analytics answers start from.
 */
import type { ClickHouseClient } from '@clickhouse/client';
import { ensureStreams } from '../../ingest/streams.ts';
import { addressOf, insertBookings, insertListings } from './api-bookings.ts';
import {
  ALL_FRAMES,
  EDGE_NOW,
  NOW,
  profileObject,
  RESOLVED_AT,
  rows,
  SEED,
  TRADERS,
} from './api-expected.ts';
import { balanceOf, tierOf } from './api-expected-v2.ts';
import {
  issueKey,
  startApi,
  startClickHouse,
  startNats,
  temporaryDirectory,
} from './api-harness.ts';

/** An api whose clock stands at NOW, one at EDGE_NOW, and a key of each tier. */
export async function startSeeded(start = startClickHouse) {
  console.log(`SEED=${SEED}`);
  const directory = await temporaryDirectory();
  const clickhouse = await start(`${directory.path}/clickhouse`);
  const nats = await startNats(`${directory.path}/nats`);
  await ensureStreams(nats.nats, 1);
  await insertListings(clickhouse.client, RESOLVED_AT);
  await insertProfiles(clickhouse.client);
  await insertBalances(clickhouse.client);
  for (let first = 0; first < rows.length; first += 1_000) {
    await insertBookings(clickhouse.client, rows.slice(first, first + 1_000), first + 1);
  }
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
      await nats.stop();
      await clickhouse.stop();
      await directory.remove();
    },
  };
}

export async function refreshBoards(client: ClickHouseClient) {
  const boards = Object.keys(ALL_FRAMES).map((frame) => `leaderboard_${frame.toLowerCase()}_mv`);
  // They are refreshed only here, because answers are compared that name the refresh.
  for (const view of [...boards, 'market_counts_mv', 'market_stats_mv']) {
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
