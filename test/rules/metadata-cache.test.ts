// Listings, profiles and balances are read once for all requests, and show a change within five seconds.
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { ClientRequest } from 'node:http';
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import type { Call } from '../../api/analytics/call.ts';
import { readMarketsV2 } from '../../api/analytics/market-object.ts';
import { createMetadata } from '../../api/analytics/metadata-cache.ts';
import { QUERY_MS_MAX } from '../../api/analytics/query.ts';
import { createSelect, type Select } from '../../infra/clickhouse.ts';
import {
  addressOf,
  conditionOf,
  insertListings,
  insertResolution,
  MARKETS,
} from '../support/api-bookings.ts';
import { get, issueKey, startApi } from '../support/api-harness.ts';
import { temporaryDirectory, until } from '../support/service.ts';
import { DATABASE, startClickHouse, startNats } from '../support/stack.ts';

let directory: ReturnType<typeof temporaryDirectory>;
let clickhouse: Awaited<ReturnType<typeof startClickHouse>>;
let select: Select;
let statements = 0;

beforeAll(async () => {
  directory = temporaryDirectory();
  clickhouse = await startClickHouse(`${directory.path}/clickhouse`);
  await insertListings(clickhouse.client, 1_700_000_000);
  const own = createSelect({ url: clickhouse.url, database: DATABASE, name: 'test' });
  select = (statement) => {
    statements += 1;
    return own(statement);
  };
});

afterAll(async () => {
  await clickhouse?.stop();
  await directory?.remove();
});

const createOwn = () => createMetadata({ select, queryMsMax: QUERY_MS_MAX });

/** Until the end of the test, no entry is old enough to be checked again. */
function stopClock(): void {
  vi.useFakeTimers({ toFake: ['performance'] });
  onTestFinished(() => void vi.useRealTimers());
}

/** The number of statements during `work`. */
async function statementsOf(work: () => Promise<unknown>): Promise<number> {
  const before = statements;
  await work();
  return statements - before;
}

async function insertMarket(market: number, slug: string, observedMs: number): Promise<void> {
  await clickhouse.client.insert({
    table: 'markets',
    format: 'JSONEachRow',
    columns: ['condition_id_hex', 'market_id', 'slug', 'observed_at'],
    values: [
      {
        ...{ condition_id_hex: conditionOf(market), market_id: String(1_000 + market), slug },
        observed_at: String(1_700_000_000_000 + observedMs),
      },
    ],
  });
}

const conditions = MARKETS.map(({ conditionId }) => `0x${conditionId}`);

describe('keys', () => {
  test('are loaded in one statement, and only those that are missing', async () => {
    stopClock();
    const metadata = createOwn();
    // The first call also reads what was stored recently.
    expect(await statementsOf(() => metadata.listings(conditions.slice(0, 4)))).toBe(2);
    expect(await statementsOf(() => metadata.listings(conditions.slice(0, 4)))).toBe(0);
    expect(await statementsOf(() => metadata.listings(conditions))).toBe(1);
    expect([...(await metadata.listings(conditions)).keys()].sort()).toEqual(
      [...conditions].sort(),
    );
    expect(await statementsOf(() => metadata.listings([]))).toBe(0);
  });

  test('that are requested at the same time are loaded once', async () => {
    stopClock();
    const metadata = createOwn();
    const calls = () =>
      Promise.all(Array.from({ length: 20 }, () => metadata.listings(conditions)));
    expect(await statementsOf(calls)).toBe(2);
    const named = () =>
      Promise.all(Array.from({ length: 20 }, () => metadata.listing({ kind: 'id', id: '1001' })));
    expect(await statementsOf(named)).toBe(1);
  });

  test('of many markets are looked up together, also where there is none', async () => {
    stopClock();
    const metadata = createOwn();
    await insertMarket(74, 'together', 100);
    await insertMarket(75, 'with-another', 100);
    const slugs = ['together', 'missing-1', 'with-another', 'missing-2'];
    const ids: (string | undefined)[] = [];
    const named = async () => {
      const found = slugs.map((slug) => metadata.listing({ kind: 'slug', slug }));
      ids.push(...(await Promise.all(found)).map((one) => one?.id));
    };
    // The slugs, the recently stored rows, and the listings.
    expect(await statementsOf(named)).toBe(3);
    expect(ids).toEqual(['1074', undefined, '1075', undefined]);
  });

  test('of markets without a row are not cached', async () => {
    const metadata = createOwn();
    const condition = `0x${conditionOf(70)}`;
    expect(await metadata.listing({ kind: 'slug', slug: 'not-yet' })).toBeUndefined();
    expect(await metadata.listing({ kind: 'id', id: '1070' })).toBeUndefined();
    expect(await metadata.listings([condition])).toEqual(new Map());
    await insertMarket(70, 'not-yet', 100);
    expect((await metadata.listing({ kind: 'slug', slug: 'not-yet' }))?.id).toBe('1070');
    expect((await metadata.listing({ kind: 'id', id: '1070' }))?.id).toBe('1070');
    expect((await metadata.listings([condition])).size).toBe(1);
  });

  test('of traders without a profile are read again once one is stored', async () => {
    stopClock();
    const metadata = createOwn();
    const address = addressOf(1);
    expect(await metadata.profiles([address])).toEqual(new Map());
    expect(await statementsOf(() => metadata.profiles([address]))).toBe(0);
    vi.useRealTimers();
    await clickhouse.client.insert({
      table: 'traders',
      format: 'JSONEachRow',
      columns: ['trader_hex', 'name', 'observed_at'],
      values: [{ trader_hex: address.slice(2), name: 'Ada', observed_at: '1700000000000' }],
    });
    const name = async () => (await metadata.profiles([address])).get(address)?.name;
    await until(async () => ((await name()) === 'Ada' ? true : undefined));
  });

  test('of balances are cached until a newer balance is stored', async () => {
    stopClock();
    const metadata = createOwn();
    const address = addressOf(2);
    const store = (balance: string, block_number: number) =>
      clickhouse.client.insert({
        table: 'balances',
        format: 'JSONEachRow',
        columns: ['trader_hex', 'balance', 'block_number'],
        values: [{ trader_hex: address.slice(2), balance, block_number }],
      });
    await store('7', 1);
    expect(await metadata.balances([address])).toEqual(new Map([[address, 7n]]));
    expect(await statementsOf(() => metadata.balances([address]))).toBe(0);
    vi.useRealTimers();
    await store('8', 2);
    const balance = async () => (await metadata.balances([address])).get(address);
    await until(async () => ((await balance()) === 8n ? true : undefined));
  });

  test('show a change after a while, by number, slug and condition id', async () => {
    const metadata = createOwn();
    const condition = `0x${conditionOf(71)}`;
    await insertMarket(71, 'first', 101);
    const slugs = async () => [
      (await metadata.listing({ kind: 'id', id: '1071' }))?.slug,
      (await metadata.listings([condition])).get(condition)?.slug,
      (await metadata.listing({ kind: 'slug', slug: 'first' }))?.slug,
      (await metadata.listing({ kind: 'slug', slug: 'second' }))?.slug,
    ];
    expect(await slugs()).toEqual(['first', 'first', 'first', undefined]);
    await insertMarket(71, 'second', 102);
    const changed = ['second', 'second', undefined, 'second'];
    await until(async () => (String(await slugs()) === String(changed) ? true : undefined));
  });

  test('of a slug that another market takes over refer to the newest', async () => {
    await insertMarket(72, 'taken', 103);
    await insertMarket(73, 'taken', 104);
    expect((await createOwn().listing({ kind: 'slug', slug: 'taken' }))?.id).toBe('1073');
  });

  test('are loaded again after a load that failed', async () => {
    let isBroken = true;
    const broken: Select = (statement) =>
      select(isBroken ? { ...statement, sql: 'SELECT' } : statement);
    const metadata = createMetadata({ select: broken, queryMsMax: QUERY_MS_MAX });
    await expect(metadata.listings(conditions)).rejects.toMatchObject({ code: '62' });
    isBroken = false;
    expect((await metadata.listings(conditions)).size).toBe(conditions.length);
  });
});

test('lists of any length reach a server in parameters that it accepts', async () => {
  const lengths: number[] = [];
  const note = (message: unknown) => {
    const { path } = (message as { readonly request: ClientRequest }).request;
    lengths.push(...path.split('&').map((parameter) => parameter.length));
  };
  subscribe('http.client.request.start', note);
  onTestFinished(() => void unsubscribe('http.client.request.start', note));
  const metadata = createOwn();
  const call = { select, queryMsMax: QUERY_MS_MAX, signal: null, metadata } as unknown as Call;
  const many = Array.from({ length: 1_500 }, (_, at) => `0x${conditionOf(1_000 + at)}`);
  const marketOf = await readMarketsV2(call, [...many, ...conditions]);
  expect(conditions.map((id) => String(marketOf(id).market.id))).toEqual(
    MARKETS.map(({ id }) => id),
  );
  const addresses = Array.from({ length: 3_000 }, (_, at) => addressOf(1_000 + at));
  await metadata.profiles(addresses);
  // http_max_field_value_size
  expect(Math.max(...lengths)).toBeLessThan(131_072);
});

test('a resolution shows in the next computed response', async () => {
  const nats = await startNats(`${directory.path}/nats`);
  const api = await startApi({ clickhouseUrl: clickhouse.url, nats });
  try {
    const key = await issueKey(nats.bucket, 'pro');
    const market = () => get(`${api.url}/v2/markets/1001`, key);
    expect((await market()).body.market).toMatchObject({ winning_outcome: '', result: -2 });
    const resolution = { market: 1, payouts: [1, 0], at: 1_700_000_000 } as const;
    await insertResolution(clickhouse.client, resolution);
    api.expire();
    expect((await market()).body.market).toMatchObject({ winning_outcome: 'Yes', result: 100 });
  } finally {
    await api.stop();
    await nats.stop();
  }
});
