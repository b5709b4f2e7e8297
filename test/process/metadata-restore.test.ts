/**
 * A restart with a lot of metadata: it is read back from METADATA in seconds, and nothing is requested or
 * published again. RESTORE_LISTINGS=100000 is the measurement in docs/decisions/0005-metadata.md.
 */

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { connectNats, type Nats } from '../../infra/nats/connection.ts';
import type { Listing, Match, Profile, Resolution } from '../../ingest/contract.ts';
import { Gamma, parseListing } from '../../ingest/metadata/gamma.ts';
import { Metadata } from '../../ingest/metadata/metadata.ts';
import { restoreMetadata } from '../../ingest/metadata/metadata-stream.ts';
import { ensureStreams } from '../../ingest/streams.ts';
import { startNatsServer } from '../../local/nats-server.ts';
import { publishMetadata } from '../support/ledger-generator.ts';
import { publishEvents } from '../support/publish-ledger.ts';
import {
  CHAIN,
  condition,
  EXCHANGE,
  type FakeGamma,
  silent,
  startFakeGamma,
  wallet,
} from '../unit/gamma-harness.ts';

const LISTINGS = Number(process.env.RESTORE_LISTINGS ?? 25_000);

describe('restore', () => {
  const directory = mkdtempSync(join(tmpdir(), 'restore-'));
  let server: Awaited<ReturnType<typeof startNatsServer>>;
  let nats: Nats;
  let fake: FakeGamma;
  const ended = new AbortController();

  beforeAll(async () => {
    fake = await startFakeGamma();
    server = await startNatsServer({ dataDir: directory });
    nats = await connectNats({ url: server.url, name: 'test' });
    await ensureStreams(nats, 1);
    const resolved = Array.from({ length: LISTINGS / 50 }, (_, i) => resolution((i + 1) * 50));
    await publishEvents(nats, resolved);
    await publishMetadata(nats, [
      ...Array.from({ length: LISTINGS }, (_, index) => listing(index + 1, 'old')),
      listing(1, 'newest'),
      profile(1),
    ]);
  });

  afterAll(async () => {
    ended.abort();
    await nats.close();
    await server.stop();
    await fake.close();
    rmSync(directory, { recursive: true, force: true });
  });

  function start() {
    const published: (Listing | Profile)[] = [];
    const { signal } = ended;
    const metadata = new Metadata({
      chain: CHAIN,
      gamma: new Gamma({ url: fake.url, logger: silent, signal }),
      logger: silent,
      signal,
      onChange: (event) => void published.push(event),
      times: { answerMs: 3_000 },
    });
    return { metadata, published };
  }

  test('restores the newest metadata without requests or publications', async () => {
    const { metadata, published } = start();
    const heapBefore = process.memoryUsage().rss;
    const begunAt = performance.now();
    await metadata.restore(nats);
    const seconds = (performance.now() - begunAt) / 1_000;
    const megabytes = (process.memoryUsage().rss - heapBefore) / 1e6;
    console.log(`${LISTINGS} listings: ${seconds.toFixed(2)} s, RSS +${megabytes.toFixed(0)} MB`);
    expect(metadata.feedMarket(condition(1), EXCHANGE).question).toBe('newest');
    const resolved = condition(Math.floor(LISTINGS / 50) * 50);
    expect(metadata.feedMarket(resolved, EXCHANGE)).toMatchObject({
      winningOutcome: 'Yes',
      resolvedAt: '2026-09-01T00:00:00Z',
    });
    expect(metadata.feedTrader(wallet(1)).name).toBe('anna');
    await metadata.learn([condition(LISTINGS)], [wallet(1)], 50);
    expect(metadata.waiting).toEqual({ listings: 0, profiles: 0 });
    expect(published).toEqual([]);
    expect(fake.requests).toEqual([]);
  });

  test('reads the newest first, and no more than its limit', async () => {
    const events: (Listing | Profile | Resolution)[] = [];
    const before = nats.connection.stats().inMsgs;
    await restoreMetadata(nats, silent, { listings: 10, profiles: 5 }, (event) => {
      if (event.kind === 'listing' || event.kind === 'profile') events.push(event);
    });
    expect(nats.connection.stats().inMsgs - before).toBeLessThan(LISTINGS / 2);
    const ids = [8, 7, 6, 5, 4, 3, 2, 1, 0].map((n) => condition(LISTINGS - n));
    expect(events.map((event) => (event.kind === 'listing' ? event.conditionId : ''))).toEqual([
      ...ids,
      condition(1),
      '',
    ]);
    expect(events.at(-2)).toMatchObject({ question: 'newest' });
  });

  test('requests what the previous process did not receive: markets and traders of recent matches', async () => {
    const unknown = LISTINGS + 1;
    fake.markets.set(condition(unknown), { conditionId: condition(unknown) });
    await publishEvents(nats, [match(unknown)]);
    const { metadata, published } = start();
    const blocks: number[] = [];
    await metadata.restore(nats, ({ number }) => blocks.push(number));
    expect(blocks).toContain(at(unknown).blockNumber);
    await metadata.answered();
    expect(published).toEqual([
      expect.objectContaining({ kind: 'listing', conditionId: condition(unknown) }),
    ]);
    const asked = fake.requests.filter(({ pathname }) => pathname === '/public-profile');
    expect(asked.map(({ search }) => search)).toEqual([`?address=${wallet(2)}`]);

    // A backfill ends without the texts if the service does not respond.
    fake.control.fault = () => ({ status: 502 });
    metadata.learnOf([match(unknown + 1)]);
    await metadata.answered();
    expect(metadata.waiting).toEqual({ listings: 1, profiles: 0 });
  });
});

function match(number: number): Match {
  const fill = {
    ...{ logIndex: 0, orderHash: condition(number), isTaker: true, side: 'BUY' as const },
    ...{ outcomeIndex: 0 as const, tokenId: '1', shares: 1n, usdc: 1n, fee: 0n },
  };
  const fills = [1, 2].map((trader) => ({ ...fill, trader: wallet(trader) }));
  return {
    kind: 'match',
    ...at(number),
    exchange: EXCHANGE,
    conditionId: condition(number),
    fills,
  };
}

function listing(number: number, question: string): Listing {
  return parseListing({
    id: String(number),
    conditionId: condition(number),
    question,
    slug: `will-market-number-${number}-be-resolved-before-the-end-of-the-year`,
    startDate: '2026-09-01T00:00:00Z',
    endDate: '2026-12-01T00:00:00Z',
    icon: `https://images.example/some-bucket/with-a-long-name/market-${number}.png`,
    events: [{ id: '1', slug: `event-${number % 100}`, title: 'An event with a title', icon: '' }],
    tags: ['politics', 'world', 'geopolitics', 'earn-4'].map((slug) => ({ slug })),
    outcomes: '["Yes", "No"]',
    clobTokenIds: JSON.stringify([token(number * 2), token(number * 2 + 1)]),
  });
}

/** As long as a real token id. */
function token(number: number): string {
  return `1${String(number).padStart(76, '0')}`;
}

const at = (number: number) => ({
  blockNumber: number,
  blockTime: Date.parse('2026-09-01') / 1_000,
  txHash: condition(number),
  logIndex: 0,
});

function resolution(number: number): Resolution {
  return { kind: 'resolution', ...at(number), conditionId: condition(number), payouts: [1n, 0n] };
}

function profile(number: number): Profile {
  return {
    ...{ kind: 'profile', address: wallet(number), name: 'anna', profileImage: '', xUsername: '' },
    ...{ createdAt: '', takerTier: 0, takerTierName: '', weightedVolumeUsd: null },
  };
}
