/** The files of the page, and the endpoints that exist for it. */
import { getAddress } from 'viem';
import { beforeAll, describe, expect, test } from 'vitest';
import { documentOf, pageOnce } from '../../apps/page.ts';
import { emptyBlock } from '../../ingest/ledger/ledger.ts';
import { addressOf } from '../support/api-bookings.ts';
import { NOW, TRADERS } from '../support/api-expected.ts';
import { get } from '../support/api-harness.ts';
import { startSeeded } from '../support/api-seeded.ts';
import { forFile } from '../support/for-file.ts';
import { blockHash } from '../support/ledger-generator.ts';
import { TestLedger } from '../support/publish-ledger.ts';

const COMPRESSED_BYTES_MAX = 250 * 1024;
const PATHS = [
  ...['/', '/market/1002', '/markets/1002', '/tape', '/manage/streams', '/manage/alerts'],
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

  test('has a service worker for all its paths, which is always revalidated', async () => {
    const first = await fetch(`${url}/push-worker.js`);
    expect(first.status).toBe(200);
    expect(first.headers.get('content-type')).toBe('text/javascript; charset=utf-8');
    expect(first.headers.get('cache-control')).toBe('no-cache');
    const headers = {
      'If-None-Match': first.headers.get('etag') ?? '',
      'Cache-Control': 'max-age=0',
    };
    expect((await fetch(`${url}/push-worker.js`, { headers })).status).toBe(304);
  });

  test('is below 250 KB in total, compressed', async () => {
    const page = await pageOnce();
    const document = await documentOf(page, {
      isPublic: true,
      pageKey: undefined,
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
    // Points of five hours; the last one has one.
    const stepped = (await get(`${url}${path}&step_hours=5`, seeded.key)).body;
    for (const [i, { pnl }] of body.lines.entries()) {
      const sums = Array.from({ length: 20 }, (_, point) =>
        pnl.slice(point * 5, point * 5 + 5).reduce((all: number, one: number) => all + one, 0),
      );
      expect(stepped.lines[i].pnl).toEqual(sums);
    }
  });

  test('rejects more than 100 addresses', async () => {
    const traders = Array.from({ length: 101 }, (_, i) => addressOf(i)).join();
    const path = `/v2/analytics/pnl_lines?traders=${traders}`;
    const { status, body } = await get(url + path, seeded.key);
    expect([status, body.issues?.[0]?.path]).toEqual([400, 'traders']);
  });
});

describe('GET /v2/status', () => {
  test('shows when each leaderboard was computed, and how fresh the analytics are', async () => {
    const ledger = await TestLedger.open(seeded.nats.nats);
    // Far older than the stored trades.
    await ledger.publish([emptyBlock({ number: 999, hash: blockHash(999), time: 1 })]);
    ledger.close();
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
    expect(body.projection.behind_seconds).toBe(0);
    const { age_seconds, ...chain } = body.chain;
    expect(chain).toEqual({
      age_seconds_max: 30,
      final_block: 999,
      movements_read: false,
      block_at: '1970-01-01T00:00:01.000Z',
    });
    expect(age_seconds).toBeGreaterThan(1e9);
    expect(body.coverage).toEqual({
      movements_from_block: null,
      balances: { equal: 0, less: 0, more: 0, newest_block: 0 },
      unexplained_movements: 0,
      refused: [],
    });
  });
});
