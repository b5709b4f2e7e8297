/** What the page is served from, and the endpoints that are there for it. */
import { getAddress } from 'viem';
import { beforeAll, describe, expect, test } from 'vitest';
import { createFinalMatches } from '../../api/service/finality.ts';
import { documentOf, pageOnce } from '../../apps/page.ts';
import type { Address, Hash, Match } from '../../ingest/contract.ts';
import { type Block, emptyBlock } from '../../ingest/ledger/ledger.ts';
import { addressOf } from '../support/api-bookings.ts';
import { NOW, TRADERS } from '../support/api-expected.ts';
import { get } from '../support/api-harness.ts';
import { startSeeded } from '../support/api-seeded.ts';
import { forFile } from '../support/for-file.ts';
import { blockHash } from '../support/ledger-generator.ts';
import { TestLedger } from '../support/publish-ledger.ts';

const COMPRESSED_BYTES_MAX = 250 * 1024;
const PATHS = [
  ...['/', '/market/1002', '/markets/1002', '/tape', '/manage/streams'],
  ...['trader', 'traders'].map((name) => `/${name}/${addressOf(1)}`),
];

const seeded = forFile(startSeeded);
let url: string;

beforeAll(async () => {
  url = seeded.api.url;
});

describe('the page', () => {
  test('is at each of its paths without a key, with an ETag', async () => {
    for (const path of PATHS) {
      const first = await fetch(url + path);
      expect([first.status, first.headers.get('content-type')], path).toEqual([
        200,
        'text/html; charset=utf-8',
      ]);
      const headers = {
        'If-None-Match': first.headers.get('etag') ?? '',
        'Cache-Control': 'max-age=0',
      };
      expect((await fetch(url + path, { headers })).status, path).toBe(304);
    }
    expect((await fetch(url, { method: 'POST' })).status).toBe(405);
  });

  test('may run only its own files and connect only to its own host', async () => {
    const response = await fetch(url);
    const policy = response.headers.get('content-security-policy') ?? '';
    expect(policy).toContain("default-src 'none'");
    for (const part of policy.split('; '))
      expect(part).toMatch(/^[a-z-]+( '(none|self)'| data:)+$/);
    const html = await response.text();
    const named = [...html.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, name]) => name ?? '');
    expect(named.length).toBeGreaterThan(3);
    for (const name of named) expect(name).toMatch(/^\/(assets\/|openapi\.json$)/);
    for (const name of named) expect((await fetch(url + name)).status, name).toBe(200);
  });

  test('has files that are cached forever under names that change with them', async () => {
    const { assets } = await pageOnce();
    for (const name of assets.keys()) {
      expect(name).toMatch(/-[0-9A-Z]{8}\.(js|css|svg|woff2)$/);
      const response = await fetch(`${url}/assets/${name}`);
      expect(response.headers.get('cache-control')).toBe('public, max-age=31536000, immutable');
    }
    const unknown = await get(`${url}/assets/none.js`, undefined);
    expect([unknown.status, unknown.body.error]).toEqual([404, 'not_found']);
  });

  test('is below 250 KB in total, compressed', async () => {
    const page = await pageOnce();
    const document = await documentOf(page, {
      isPublic: true,
      isSimulated: true,
      pictureOrigins: [],
    });
    const bytes = [document, ...page.assets.values()].map(
      (file) => (file.coded.gzip ?? file.plain).length,
    );
    expect(bytes.reduce((sum, one) => sum + one, 0)).toBeLessThan(COMPRESSED_BYTES_MAX);
  });
});

type Hours = { stats: { hour: string; pnl: number }[] };

describe('GET /v2/analytics/pnl_lines', () => {
  test('has the figures of hourly_stats for every trader, and 0 in between', async () => {
    const traders = Array.from({ length: TRADERS }, (_, i) => addressOf(i)).slice(0, 12);
    const hours = 96;
    const path = `/v2/analytics/pnl_lines?hours=${hours}&traders=${traders.join(',')}`;
    const { body } = await get(url + path, seeded.key);
    expect(body.lines.map((line: { address: string }) => line.address)).toEqual(
      traders.map((address) => getAddress(address)),
    );
    const firstMs = Date.parse(`${body.first_hour}Z`);
    expect(firstMs).toBe((Math.floor(NOW / 3_600) - hours + 1) * 3_600_000);
    let active = 0;
    for (const { address, pnl } of body.lines) {
      const from = firstMs / 1_000;
      const hourly = `/v2/traders/${address}/hourly_stats?from=${from}`;
      const { stats } = (await get(url + hourly, seeded.key)).body as Hours;
      const expected = new Array(hours).fill(0);
      for (const stat of stats) {
        expected[(Date.parse(`${stat.hour}Z`) - firstMs) / 3_600_000] = stat.pnl;
        active += 1;
      }
      expect(pnl).toEqual(expected);
    }
    expect(active).toBeGreaterThan(0);
  });

  test('rejects more than 100 addresses', async () => {
    const traders = Array.from({ length: 101 }, (_, i) => addressOf(i)).join();
    const path = `/v2/analytics/pnl_lines?traders=${traders}`;
    const { status, body } = await get(url + path, seeded.key);
    expect([status, body.issues?.[0]?.path]).toEqual([400, 'traders']);
  });
});

type Points = {
  interval_seconds: number;
  prices: { time: string; average: number; last: number; shares: number }[];
};

/** A quotient of positive numbers, rounded to nearest, halves up. */
function nearest(dividend: bigint, divisor: bigint): number {
  return Number((2n * dividend + divisor) / (2n * divisor));
}

describe('GET /v2/markets/{id}/prices', () => {
  const SQL = `SELECT toUnixTimestamp(block_time) AS at, outcome_index, toString(usdc) AS usdc,
      toString(bookings.shares) AS shares
    FROM bookings WHERE kind = 'fill' AND is_taker AND bookings.shares > 0 AND condition_id =
      (SELECT any(condition_id) FROM markets WHERE market_id = 1002)
    ORDER BY block_number, log_index`;
  type Fill = { at: number; outcome_index: number; usdc: string; shares: string };

  test.each([1, 7, 500])('has every taker fill in one of at most %i intervals', async (points) => {
    const result = await seeded.clickhouse.client.query({ query: SQL, format: 'JSONEachRow' });
    const fills = await result.json<Fill>();
    const path = `/v2/markets/1002/prices?points=${points}`;
    const { interval_seconds, prices } = (await get(url + path, seeded.key)).body as Points;
    expect(prices.length).toBeLessThanOrEqual(points);
    expect(fills.length).toBeGreaterThan(7);
    const startOf = (seconds: number) =>
      prices.findLast(({ time }) => Date.parse(time) <= seconds * 1_000)?.time;
    const expected = Map.groupBy(fills, ({ at }) => startOf(at));
    expect(prices.map(({ time }) => time)).toEqual([...expected.keys()]);
    for (const price of prices) {
      const own = expected.get(price.time) ?? [];
      const within = (fill: Fill) =>
        fill.at * 1_000 - Date.parse(price.time) < interval_seconds * 1_000;
      expect(own.every(within)).toBe(true);
      const value = (fill: Fill) =>
        fill.outcome_index === 0 ? BigInt(fill.usdc) : BigInt(fill.shares) - BigInt(fill.usdc);
      const sum = (of: (fill: Fill) => bigint) => own.reduce((all, fill) => all + of(fill), 0n);
      const shares = sum((fill) => BigInt(fill.shares));
      const last = own.at(-1) as Fill;
      expect(price).toEqual({
        time: price.time,
        average: nearest(sum(value) * 1_000_000n, shares),
        last: nearest(value(last) * 1_000_000n, BigInt(last.shares)),
        shares: Number(shares),
      });
    }
  });
});

describe('GET /v2/final_matches', () => {
  test('returns every final match after a cursor once', async () => {
    const ask = async (after: number) =>
      (await get(`${url}/v2/final_matches?after=${after}`, seeded.key)).body as {
        tx_hashes: string[];
        next: number;
        more: boolean;
      };
    const ledger = await TestLedger.open(seeded.nats.nats);
    await ledger.publish([blockOf(999, [])]);
    await expect.poll(async () => (await ask(0)).next, { timeout: 5_000 }).toBe(999);
    const start = (await get(`${url}/v2/final_matches`, seeded.key)).body.next as number;
    const published: string[] = [];
    const heard: string[] = [];
    let next = start;
    for (let round = 0; round < 6; round += 1) {
      for (let i = 0; i < 100; i += 1) {
        const block = 1_000 + round * 100 + i;
        const hashes = Array.from(
          { length: 7 },
          (_, match) => `0x${(block * 7 + match).toString(16).padStart(64, '0')}`,
        );
        published.push(...hashes);
        await ledger.publish([blockOf(block, hashes)]);
      }
      const answer = await ask(next);
      heard.push(...answer.tx_hashes);
      next = answer.next;
    }
    await expect
      .poll(
        async () => {
          const answer = await ask(next);
          heard.push(...answer.tx_hashes);
          next = answer.next;
          return heard.length;
        },
        { timeout: 20_000, interval: 300 },
      )
      .toBe(published.length);
    expect(heard).toEqual(published);

    const again: string[] = [];
    let more = true;
    for (let at = start; more; ) {
      const answer = await ask(at);
      again.push(...answer.tx_hashes);
      at = answer.next;
      more = answer.more;
    }
    expect(again).toEqual(published);
    ledger.close();
  });

  test('without a cursor starts at the newest block, even after a long time without requests', async () => {
    const start = async () => (await get(`${url}/v2/final_matches`, seeded.key)).body;
    const ledger = await TestLedger.open(seeded.nats.nats);
    const { next } = await start();
    await ledger.publish([blockOf(next + 1, [`0x${'7'.repeat(64)}`])]);
    ledger.close();
    const present = { tx_hashes: [], next: next + 1, more: false, restarted: false };
    await expect.poll(start, { timeout: 5_000 }).toEqual(present);
  });

  test('continues after a block that another process has read', async () => {
    const { nats } = seeded.nats;
    const [one, other] = [createFinalMatches(nats), createFinalMatches(nats)];
    const ledger = await TestLedger.open(nats);
    const { next } = await one();
    await ledger.publish([blockOf(next + 1, [`0x${'8'.repeat(64)}`])]);
    ledger.close();
    expect((await other()).next).toBe(next + 1);
    const present = { tx_hashes: [], next: next + 1, more: false, restarted: false };
    expect(await one(next + 1)).toEqual(present);
  });

  test('reports a cursor that LEDGER does not contain, and restarts at the present', async () => {
    const ask = async (after: number) =>
      (await get(`${url}/v2/final_matches?after=${after}`, seeded.key)).body;
    const { next } = await ask(999);
    const present = { tx_hashes: [], next: expect.any(Number), more: false, restarted: true };
    // Of another stream, of before the first block, and a sequence of version 0.1.
    for (const cursor of [next + 1_000_000, 5]) expect(await ask(cursor)).toEqual(present);
    expect((await ask(999)).restarted).toBe(false);
  });
});

/** One block with a match in each of these transactions. */
function blockOf(number: number, txHashes: readonly string[]): Block {
  const matches = txHashes.map(
    (txHash, logIndex): Match => ({
      ...{ kind: 'match', blockNumber: number, blockTime: 1, txHash: txHash as Hash, logIndex },
      ...{ exchange: addressOf(1) as Address, conditionId: `0x${'1'.repeat(64)}` },
      fills: [
        {
          ...{
            logIndex,
            orderHash: txHash as Hash,
            trader: addressOf(2) as Address,
            isTaker: true,
          },
          ...{ side: 'BUY', outcomeIndex: 0, tokenId: '1', shares: 1n, usdc: 1n, fee: 0n },
        },
      ],
    }),
  );
  return { ...emptyBlock({ number, hash: blockHash(number), time: 1 }), events: matches };
}

describe('GET /v2/status', () => {
  test('shows when each leaderboard was computed, and how fresh the analytics are', async () => {
    const { body } = await get(`${url}/v2/status`, seeded.key);
    expect(body.boards.map((board: { time_frame: string }) => board.time_frame)).toEqual([
      ...['1H', '4H', '1D', '3D', '7D', '30D'],
    ]);
    const [{ refreshed_at }] = (await seeded.clickhouse.client
      .query({
        query: 'SELECT max(refreshed_at) AS refreshed_at FROM leaderboard_30d',
        format: 'JSONEachRow',
      })
      .then((result) => result.json<{ refreshed_at: string }>())) as [{ refreshed_at: string }];
    expect(body.boards[5].refreshed_at).toBe(`${refreshed_at.replace(' ', 'T')}Z`);
    const [{ traded }] = (await seeded.clickhouse.client
      .query({
        query:
          "SELECT toUnixTimestamp(max(block_time)) AS traded FROM bookings WHERE kind = 'fill'",
        format: 'JSONEachRow',
      })
      .then((result) => result.json<{ traded: number }>())) as [{ traded: number }];
    expect(Date.parse(body.projection.newest_trade_at)).toBe(Number(traded) * 1_000);
    // The blocks of the test above are far older than the stored trades.
    expect(body.projection.behind_seconds).toBe(0);
    const { age_seconds, ...chain } = body.chain;
    expect(chain).toEqual({
      age_seconds_max: 30,
      final_block: (await createFinalMatches(seeded.nats.nats)()).next,
      block_at: '1970-01-01T00:00:01.000Z',
    });
    expect(age_seconds).toBeGreaterThan(1e9);
  });
});
