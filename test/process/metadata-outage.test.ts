/**
 * Metadata during an outage of the metadata API with trades in new markets, over real HTTP: known markets
 * keep working, new ones are empty with correct token ids, and afterwards every market and profile is
 * published once. All intervals are shortened by the same factor: an hour takes a second.
 */
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Listing, Profile } from '../../ingest/contract.ts';
import { Gamma } from '../../ingest/metadata/gamma.ts';
import { Metadata, type MetadataTimes } from '../../ingest/metadata/metadata.ts';
import {
  CHAIN,
  condition,
  derived,
  EXCHANGE,
  type FakeGamma,
  NEG_RISK_EXCHANGE,
  recorder,
  silent,
  startFakeGamma,
  wallet,
} from '../unit/gamma-harness.ts';

const TIMES: MetadataTimes = {
  marketStaleMs: 200,
  profileStaleMs: 1_000,
  marketMissingMs: 20,
  profileMissingMs: 200,
  newMarketsMs: 20,
  sweepMs: 5,
  activeMs: 10_000,
  tokenMs: 300,
  answerMs: 1_000,
};

const POLL = { timeout: 15_000 };

let fake: FakeGamma;
let ended: AbortController;
let published: (Listing | Profile)[];

beforeEach(async () => {
  fake = await startFakeGamma();
  ended = new AbortController();
  published = [];
});

afterEach(async () => {
  ended.abort();
  await fake.close();
});

function start(times: Partial<MetadataTimes> = {}) {
  const { signal } = ended;
  const gamma = new Gamma({
    ...{ url: fake.url, logger: silent, signal },
    ...{ requestMsMax: 5_000, backoffMinMs: 5, backoffMaxMs: 30 },
  });
  const onChange = (event: Listing | Profile) => void published.push(event);
  const { logger, lines } = recorder();
  const options = { chain: CHAIN, gamma, logger, signal, onChange };
  const metadata = new Metadata({ ...options, times: { ...TIMES, ...times } });
  return { metadata, gamma, logged: () => lines.map(({ msg }) => msg) };
}

const listings = () => published.filter((event) => event.kind === 'listing');
const down = () => ({ status: 503 });
const questionOf = (metadata: Metadata, number: number) =>
  metadata.feedMarket(condition(number), EXCHANGE).question;

describe('the metadata API down', () => {
  test('delays no fill, and afterwards everything is published once', async () => {
    const { metadata, gamma } = start({ marketStaleMs: 60_000 });
    fake.list({ conditionId: condition(1), tags: ['a'], question: 'before' });
    await metadata.learn([condition(1)], [wallet(1)], 1_000);
    expect(questionOf(metadata, 1)).toBe('before');

    fake.control.fault = down;
    const asked = fake.requests.length;
    const begunAt = performance.now();
    for (let number = 2; number <= 400; number++) {
      fake.list({ conditionId: condition(number), tags: ['new'], question: `q${number}` });
      fake.profiles.set(wallet(number), { proxyWallet: wallet(number), name: `n${number}` });
      await metadata.learn([condition(number)], [wallet(number)], 0);
      const [token] = derived(condition(number));
      expect(metadata.outcomeOf(condition(number), token, EXCHANGE)).toBe(0);
    }
    const unknown = metadata.feedMarket(condition(2), EXCHANGE);
    expect(unknown).toMatchObject({ marketId: '0', question: '', tokenIds: derived(condition(2)) });
    expect(questionOf(metadata, 1)).toBe('before');
    await expect.poll(() => gamma.downMs).toBeGreaterThan(100);
    expect(metadata.waiting.listings).toBe(399);
    // One request at a time, with a pause after each (30 ms after the first few), so an outage does not cause a storm
    // of requests.
    const requestsMax = 10 + (performance.now() - begunAt) / 30;
    expect(fake.requests.length - asked).toBeLessThan(requestsMax);

    fake.control.fault = () => undefined;
    await expect.poll(() => listings().length, POLL).toBe(400);
    await expect.poll(() => published.length, POLL).toBe(799);
    expect(questionOf(metadata, 400)).toBe('q400');
    expect(metadata.waiting).toEqual({ listings: 0, profiles: 0 });
    expect(gamma.downMs).toBe(0);
  });

  test('a market that the service learns of later is published without being traded again', async () => {
    const { metadata } = start();
    void metadata.run();
    await metadata.learn([condition(7)], [], 1_000);
    expect(questionOf(metadata, 7)).toBe('');
    fake.list({ conditionId: condition(7), tags: ['late'], question: 'late', closed: true });
    await expect.poll(() => listings().map((one) => one.question), POLL).toEqual(['late']);
  });

  test('new and changed markets are found by polling, each change published once', async () => {
    const { metadata } = start();
    for (let number = 1; number <= 250; number++) {
      fake.list({ conditionId: condition(number), tags: ['a'] });
    }
    void metadata.run();
    await expect.poll(() => listings().length, POLL).toBe(250);
    fake.list({ conditionId: condition(251), tags: ['a'] });
    await expect.poll(() => listings().length, POLL).toBe(251);
    await metadata.learn([condition(3)], [], 0);
    expect(questionOf(metadata, 3)).not.toBe('');
    fake.list({ conditionId: condition(3), tags: ['a', 'b'], closed: true });
    await expect.poll(() => listings().length, POLL).toBe(252);
    expect(listings().at(-1)).toMatchObject({ conditionId: condition(3), tags: ['a', 'b'] });
  });
});

describe('a token without a known market', () => {
  const tokenIds = ['77', '78'] as const;

  test('makes LEDGER wait until its metadata arrives', async () => {
    const { metadata, logged } = start({ tokenMs: 3_000 });
    const asked = Promise.all([metadata.conditionOfToken('78'), metadata.conditionOfToken('78')]);
    setTimeout(() => fake.list({ conditionId: condition(8), tags: ['a'], tokenIds }), 200);
    expect(await asked).toEqual([condition(8), condition(8)]);
    expect(metadata.outcomeOf(condition(8), '78', NEG_RISK_EXCHANGE)).toBe(1);
    expect(listings()).toHaveLength(1);
    expect(logged()).toEqual(['metadata has other tokens for this market than the chain']);
  });

  test('is requested in the background for a block that is not final, which does not wait', async () => {
    const { metadata } = start({ tokenMs: 3_000 });
    expect(metadata.conditionOfKnownToken('78')).toBeUndefined();
    fake.list({ conditionId: condition(8), tags: ['a'], tokenIds });
    await expect.poll(() => metadata.conditionOfKnownToken('78'), POLL).toBe(condition(8));
  });

  test('is abandoned after a limited time, at once the next time, and reported when it appears', async () => {
    const { metadata, logged } = start();
    const begunAt = performance.now();
    expect(await metadata.conditionOfToken('78')).toBeUndefined();
    expect(performance.now() - begunAt).toBeGreaterThan(290);
    const { length } = fake.requests;
    expect(await metadata.conditionOfToken('78')).toBeUndefined();
    expect(fake.requests).toHaveLength(length);
    expect(logged()).toEqual([
      'the market of a token is unknown: its matches are stored as refused events',
    ]);
    fake.list({ conditionId: condition(8), tags: ['a'], tokenIds, closed: true });
    void metadata.run();
    const late =
      'the market of refused matches is now known: read LEDGER again from their block to add them';
    await expect.poll(logged, POLL).toContain(late);
    expect(await metadata.conditionOfToken('78')).toBe(condition(8));
  });

  test('is not abandoned because ingest stops', async () => {
    const { metadata } = start({ tokenMs: 60_000 });
    const waiting = metadata.conditionOfToken('78');
    await expect.poll(() => fake.requests.length).toBeGreaterThan(0);
    ended.abort();
    await expect(waiting).rejects.toThrow();
  });

  test('an outage delays LEDGER once, not once per token, and its end is noticed', async () => {
    const { metadata } = start();
    fake.control.fault = down;
    const begunAt = performance.now();
    for (let i = 0; i < 50; i++) expect(await metadata.conditionOfToken(`${i}`)).toBeUndefined();
    // 50 waits of 300 ms would be 15 s.
    expect(performance.now() - begunAt).toBeLessThan(5_000);
    fake.control.fault = () => undefined;
    fake.list({ conditionId: condition(8), tags: ['a'], tokenIds });
    await expect.poll(() => metadata.conditionOfToken('78'), POLL).toBe(condition(8));
  });
});
