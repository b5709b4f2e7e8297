// Whoever has many bookings has sums that the store made: the same as those that are made here.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { addressOf } from './api-bookings.ts';
import { EDGE_NOW, EDGE_TRADER, NOW, ODD_TRADER, TRADERS, WHALE } from './api-expected.ts';
import { get, startApi } from './api-harness.ts';
import { startSeeded } from './api-seeded.ts';

let seeded: Awaited<ReturnType<typeof startSeeded>>;
let inStore: Awaited<ReturnType<typeof startApi>>;
let edgeInStore: Awaited<ReturnType<typeof startApi>>;

beforeAll(async () => {
  seeded = await startSeeded();
  const options = { clickhouseUrl: seeded.clickhouse.url, nats: seeded.nats, bookingsMax: 0 };
  inStore = await startApi({ ...options, now: () => NOW * 1000 });
  edgeInStore = await startApi({ ...options, now: () => EDGE_NOW * 1000 + 999 });
});

afterAll(async () => {
  await inStore.stop();
  await edgeInStore.stop();
  await seeded.stop();
});

const traders = [
  ...Array.from({ length: TRADERS }, (_, i) => addressOf(i)),
  ...[WHALE, EDGE_TRADER, ODD_TRADER, addressOf(999)],
];

describe.each([
  '/v1/traders/:address',
  '/v2/traders/:address',
  '/v2/traders/:address?tag=sports',
  '/v2/traders/:address?tag=crypto&series=nobody',
])('%s', (path) => {
  // The second time the trader is known to have many.
  test.each(['first', 'second'])('is the same of all traders, the %s time', async () => {
    for (const trader of traders) {
      const own = path.replace(':address', trader);
      const here = await get(seeded.api.url + own, seeded.key);
      const there = await get(inStore.url + own, seeded.key);
      expect({ own, status: there.status, ...there.body }).toEqual({
        ...{ own, status: here.status },
        ...{ ...here.body, request_id: there.body.request_id, instance: there.body.instance },
      });
    }
  });
});

test('windows that end at a second are the same', async () => {
  for (const version of ['v1', 'v2']) {
    const own = `/${version}/traders/${EDGE_TRADER}`;
    const here = await get(seeded.edgeApi.url + own, seeded.key);
    const there = await get(edgeInStore.url + own, seeded.key);
    expect([there.status, there.body]).toEqual([200, here.body]);
  }
});
