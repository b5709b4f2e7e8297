/**
 * What the api remembers of markets and traders: a response shows a resolution as soon as the store has
 * it, and a new listing or profile within five seconds; while NATS is away nothing is remembered.
 */

import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createMemories, followFacts } from '../../api/analytics/memory.ts';
import { warmUp } from '../../api/analytics/warm.ts';
import { connectReader } from '../../infra/clickhouse-reader.ts';
import { startNatsServer } from '../../infra/local/nats-server.ts';
import type { Nats } from '../../infra/nats/connection.ts';
import { connectNats } from '../../infra/nats/connection.ts';
import { OrderedPublisher } from '../../infra/nats/publisher.ts';
import { type Address, type Hash, LEDGER_STREAM, type LedgerEvent } from '../../ingest/contract.ts';
import type { MetadataEvent } from '../../ingest/contract-metadata.ts';
import { publishEvent } from '../../ingest/ledger-writer.ts';
import { type Parts, startParts } from '../e2e/parts.ts';
import { until } from '../e2e/service.ts';
import {
  conditionId,
  listingOf,
  publishMetadata,
  traderAddress,
} from '../support/ledger-generator.ts';
import { insertListings, MARKETS } from './api-bookings.ts';
import { DATABASE, silent, startClickHouse, startNats, temporaryDirectory } from './api-harness.ts';

let directory: Awaited<ReturnType<typeof temporaryDirectory>>;

beforeAll(async () => {
  directory = await temporaryDirectory();
});

afterAll(async () => {
  await directory?.remove();
});

async function publish(nats: Nats, ...events: (LedgerEvent | MetadataEvent)[]): Promise<void> {
  const ledger = new OrderedPublisher(nats, { stream: LEDGER_STREAM });
  for (const event of events) {
    const isMetadata = 'address' in event || event.kind === 'listing';
    await (isMetadata ? publishMetadata(nats, [event]) : publishEvent(ledger, event));
  }
  await ledger.flush();
  ledger.close();
}

type Market = {
  condition_id: string;
  question: string;
  slug: string;
  tags: string[];
  winning_outcome: string;
};

describe('an answer shows what the store has', () => {
  let parts: Parts;
  let nats: Nats;

  beforeAll(async () => {
    parts = await startParts(`${directory.path}/parts`, ['projector', 'api']);
    nats = await connectNats({ url: parts.env.NATS_URL, name: 'test' });
  });

  afterAll(async () => {
    await nats?.close();
    await parts?.stop();
  });

  const market = (key: string) =>
    parts.get<{ market: Market }>(`/v2/markets/${key}`).then(
      (answer) => answer.market,
      () => undefined,
    );
  const shown = (key: string, is: (market: Market) => boolean) =>
    until(async () => {
      const found = await market(key);
      return found !== undefined && is(found) ? found : undefined;
    });

  test('of a market that is listed anew, by number, slug and condition', async () => {
    const first = { ...listingOf(1), slug: 'first-slug', question: 'first?', tags: ['crypto'] };
    const id = first.marketId;
    await publish(nats, first);
    await shown(id, ({ question }) => question === 'first?');
    await shown('first-slug', ({ tags }) => tags.includes('crypto'));
    await shown(first.conditionId, ({ question }) => question === 'first?');

    await publish(nats, { ...first, slug: 'second-slug', question: 'second?', tags: ['sports'] });
    await shown(id, ({ question, tags }) => question === 'second?' && tags.includes('sports'));
    await shown('second-slug', ({ question }) => question === 'second?');
    await shown(first.conditionId, ({ slug }) => slug === 'second-slug');
    expect(await market('first-slug')).toBeUndefined();
  });

  test('of a slug that another market takes over', async () => {
    await publish(nats, { ...listingOf(2), slug: 'taken' });
    await shown('taken', ({ condition_id }) => condition_id === conditionId(2));
    await publish(nats, { ...listingOf(3), slug: 'taken' });
    await shown('taken', ({ condition_id }) => condition_id === conditionId(3));
  });

  test('of a market that is resolved', async () => {
    const listing = listingOf(4);
    await publish(nats, listing);
    const found = await shown(listing.marketId, () => true);
    expect(found.winning_outcome).toBe('');
    await publish(nats, {
      ...{ kind: 'resolution', blockNumber: 7, blockTime: 1_700_000_000, logIndex: 3 },
      txHash: `0x${'7'.repeat(64)}` as Hash,
      conditionId: listing.conditionId,
      payouts: [1n, 0n],
    });
    await shown(listing.marketId, (now) => now.winning_outcome === listing.outcomes[0]);
  });

  test('of a profile, which may come after the first question for it', async () => {
    const address = traderAddress(9) as Address;
    const name = () =>
      parts.get<{ profile: { name: string } }>(`/v2/traders/${address}`).then(
        ({ profile }) => profile.name,
        () => undefined,
      );
    expect(await name()).toBeUndefined();
    const profile = (text: string): MetadataEvent => ({
      ...{ kind: 'profile', address, name: text, profileImage: '', xUsername: '', createdAt: '' },
      ...{ takerTier: 0, takerTierName: '', weightedVolumeUsd: null },
    });
    for (const text of ['Ada', 'Bea']) {
      await publish(nats, profile(text));
      await until(async () => ((await name()) === text ? true : undefined));
    }
  });
});

test('the newest markets are remembered before anyone asks for them', async () => {
  const clickhouse = await startClickHouse(`${directory.path}/warm`);
  const reader = connectReader({ url: clickhouse.url, database: DATABASE, name: 'test' });
  try {
    await insertListings(clickhouse.client, 1_700_000_000);
    const memories = createMemories(() => true);
    const call = { clickhouse: reader, memories, queryMsMax: 5_000, signal: null };
    await warmUp(call, MARKETS.length - 1);
    const conditions = MARKETS.map((market) => `0x${market.conditionId}`);
    const unknown: string[] = [];
    const note = async (missing: readonly string[]) => {
      unknown.push(...missing);
      return new Map();
    };
    const listings = await memories.listings.read(conditions, note);
    const resolutions = await memories.resolutions.read([...listings.keys()], note);
    expect(listings.size).toBe(MARKETS.length - 1);
    expect(unknown).toHaveLength(1);
    expect(resolutions.size).toBeGreaterThan(0);
    for (const { condition_id, id, slug } of listings.values()) {
      const names = await memories.names.read([`id:${id}`, `slug:${slug}`], note);
      expect(names.get(`id:${id}`)?.conditionId).toBe(condition_id);
      const named = names.get(`slug:${slug}`)?.conditionId ?? '';
      expect(listings.get(named)?.slug).toBe(slug);
      for (const other of listings.values()) {
        if (other.slug !== slug) continue;
        expect(listings.get(named)?.sequence).toBeGreaterThanOrEqual(other.sequence);
      }
    }
    expect(unknown).toHaveLength(1);
  } finally {
    reader.close();
    await clickhouse.stop();
  }
});

test('nothing is remembered while NATS is away, and again when it is back', async () => {
  const clickhouse = await startClickHouse(`${directory.path}/clickhouse`);
  const nats = await startNats(`${directory.path}/nats`);
  const reader = connectReader({ url: clickhouse.url, database: DATABASE, name: 'test' });
  const { memories, close } = followFacts({ nats: nats.nats, clickhouse: reader, logger: silent });
  let { server } = nats;
  try {
    let reads = 0;
    const read = () =>
      memories.listings.read(['0x01'], async () => {
        reads += 1;
        return new Map();
      });
    /** Whether two questions, one after the other, were one read. */
    const isRemembered = async () => {
      await read();
      const before = reads;
      await read();
      return reads === before;
    };
    const turns = (on: boolean) =>
      until(async () => ((await isRemembered()) === on ? true : undefined));
    await turns(true);
    await server.stop();
    await turns(false);
    server = await startNatsServer({ dataDir: `${directory.path}/nats`, port: server.port });
    await turns(true);
  } finally {
    await close();
    reader.close();
    await nats.nats.close();
    await server.stop();
    await clickhouse.stop();
  }
});
