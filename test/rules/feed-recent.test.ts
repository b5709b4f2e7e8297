/** Pages of the order feed: the events that a stream would send, after a cursor, a time, or the newest. */
import { expect, test } from 'vitest';
import { parseFeedQuery } from '../../api/feed/query.ts';
import { readRange } from '../../infra/nats/reader.ts';
import {
  type Api,
  hashes,
  matches,
  positionOf,
  publish,
  publishFinal,
  startFeeds,
} from '../support/feed-harness.ts';
import { forFile } from '../support/for-file.ts';
import { address, fill, match } from '../unit/feed-matches.ts';

const feeds = forFile(startFeeds);

/** The transactions of a page, and its other members. */
async function recent(
  { feed }: Api,
  from: bigint | Date | undefined,
  limit: number,
  query = {},
  { account = 'tests', signal = null as AbortSignal | null } = {},
) {
  const { filterOf, withFinal } = parseFeedQuery(query, undefined);
  const caller = { keyHash: `key of ${account}`, account, tier: 'pro' as const };
  const { events, ...page } = await feed.recent({
    ...{ from, limit, filter: filterOf([]), withFinal, caller, signal },
  });
  const txHashes = events.map((event) => {
    return /"tx_hash":"(0x\w+)"/.exec(event.frame('json').toString())?.[1];
  });
  return { txHashes, ...page, cursor: String(page.cursor) };
}

test('pages after a cursor have every match once, from the stream and from the ring', async () => {
  const { api, stream } = await feeds.over(700, { ringEventsMax: 64 });
  await publish(feeds.nats, stream, matches(701, 800));
  await expect.poll(() => api.feed.status().detail).toContain('sequence 800');
  const found: (string | undefined)[] = [];
  let cursor = positionOf(1);
  for (let hasMore = true; hasMore; ) {
    const page = await recent(api, BigInt(cursor), 90);
    expect(page.hasGap).toBe(false);
    found.push(...page.txHashes);
    ({ cursor, hasMore } = page);
  }
  expect(found).toEqual(hashes(2, 800));
  expect(cursor).toBe(positionOf(800));
  expect(await recent(api, undefined, 5)).toMatchObject({ txHashes: hashes(796, 800) });
});

test('a page since a time begins with the first message that was stored then', async () => {
  const { api, stream } = await feeds.over(3);
  const times: number[] = [];
  // Several can be stored within a millisecond.
  for (let last = 4; (times.at(-1) ?? 0) === (times[0] ?? 0); last += 1) {
    await publish(feeds.nats, stream, matches(last, last));
    const stored = await readRange(feeds.nats, stream, 1, last);
    times.splice(0, times.length, ...stored.map(({ timestampMs }) => timestampMs));
  }
  const time = times.at(-1) ?? 0;
  const last = times.length;
  await expect.poll(() => api.feed.status().detail).toContain(`sequence ${last}`);
  expect(await recent(api, new Date(time), last)).toEqual({
    txHashes: hashes(times.indexOf(time) + 1, last),
    ...{ cursor: positionOf(last), hasMore: false, hasGap: false },
  });
  const later = await recent(api, new Date(Date.now() + 60_000), 10);
  expect(later).toMatchObject({ txHashes: [], hasMore: false, hasGap: false });
  // Before the feed there may have been others.
  expect(await recent(api, new Date(0), 2)).toMatchObject({
    ...{ txHashes: hashes(1, 2), hasMore: true, hasGap: true },
  });
});

test('the outcome of a match passes the filter of the match and is not counted', async () => {
  const { api, stream } = await feeds.over(0);
  const made = [match(1), match(2, { taker: fill(7) }), match(3)];
  await publish(feeds.nats, stream, made);
  await publishFinal(feeds.nats, stream, made);
  await expect.poll(() => api.feed.status().detail).toContain('sequence 6');
  const query = { traders: address(7), finality: 'true' };
  const page = await recent(api, BigInt(positionOf(1)), 1, query);
  expect(page.txHashes).toEqual([...hashes(2, 2), ...hashes(2, 2)]);
  expect(page).toMatchObject({ hasMore: false, hasGap: false });
});

test('a page stops being read when its client has disconnected', async () => {
  const { api } = await feeds.over(700);
  const query = { traders: address(99) };
  for (const from of [BigInt(positionOf(1)), undefined]) {
    const left = new AbortController();
    const page = recent(api, from, 10, query, { signal: left.signal });
    // After the first of many parts.
    setImmediate(() => left.abort());
    await expect(page).rejects.toThrow('aborted');
  }
});

test('for one caller, two pages are read, some are queued and the others refused', async () => {
  const { api } = await feeds.over(10);
  const asked = Array.from({ length: 24 }, () => recent(api, undefined, 5));
  const other = recent(api, undefined, 5, {}, { account: 'other' });
  const refused = (await Promise.allSettled(asked)).filter(({ status }) => status === 'rejected');
  expect(refused).toHaveLength(2);
  expect(refused[0]).toMatchObject({ reason: { error: 'rate_limited', status: 429 } });
  expect((await other).txHashes).toEqual(hashes(6, 10));
  expect((await recent(api, undefined, 5)).txHashes).toEqual(hashes(6, 10));
});
