import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { connectNats, type Nats } from '../../infra/nats/connection.ts';
import { storedSince } from '../../infra/nats/reader.ts';
import { FEED_MATCH_SUBJECT, FEED_STREAM } from '../../ingest/contract.ts';
import { blockNumber, type Fact } from '../release/faults/chain-facts.ts';
import { compare } from '../release/faults/compare.ts';
import { storedFacts } from '../support/chain-facts.ts';
import { checksums, sumsByTag } from '../support/checksums.ts';
import { FeedClient } from '../support/feed-client.ts';
import { generator, SEED } from '../support/seed.ts';
import {
  type Devnet,
  freeze,
  projectedTo,
  type Service,
  startDevnet,
  startService,
  temporaryDirectory,
  until,
} from '../support/service.ts';

const KILLS_EACH = Number(process.env.CRASH_KILLS || 5);
const VICTIMS = ['projector', 'clickhouse', 'ingest'] as const;
const CUTS = 50;
const PAUSE_MS_MAX = 1_200;
/** A killed part is restarted after its backoff (at most 5 s), which includes its startup time. */
const KILL_MS_MAX = 40_000;

describe(`kill −9 under load (TEST_SEED=${SEED})`, () => {
  const directory = temporaryDirectory();
  const dice = generator(SEED);
  let devnet: Devnet;
  let service: Service;
  let client: FeedClient;
  let nats: Nats;
  let facts: readonly Fact[];
  /** The head when the service was ready. Earlier blocks are history, which FEED does not show. */
  let liveAfter: number;

  beforeAll(
    async () => {
      const data = `${directory.path}/devnet`;
      devnet = await startDevnet(data, { matches: 300, days: 2, rate: 25 });
      service = await startService(`${directory.path}/disturbed`, { env: devnet.env });
      liveAfter = await blockNumber(devnet.rpcUrl, 'latest');
      client = new FeedClient(service.ready.url, service.ready.key);
      const victims = Array.from({ length: KILLS_EACH }, () => VICTIMS).flat();
      const cutting = (async () => {
        for (let cut = 0; cut < CUTS; cut++) {
          await delay(dice() * PAUSE_MS_MAX);
          client.cut();
        }
      })();
      for (const victim of victims.toSorted(() => dice() - 0.5)) {
        await delay(dice() * PAUSE_MS_MAX);
        const pid = service.pidOf(victim);
        process.kill(pid, 'SIGKILL');
        await until(async () => (service.pidOf(victim) === pid ? undefined : true));
      }
      await cutting;
      devnet = await freeze(devnet, data);
      facts = await storedFacts(devnet.rpcUrl, await blockNumber(devnet.rpcUrl, 'latest'));
      await projectedTo(service, facts.findLast(({ kind }) => kind === 'match')?.block ?? 0);
      nats = await connectNats({ ...service.nats, name: 'crash test' });
    },
    VICTIMS.length * KILLS_EACH * KILL_MS_MAX,
  );

  afterAll(async () => {
    await nats?.close();
    await client?.stop();
    await service?.up.stop();
    await devnet?.process.stop();
    directory.remove();
  });

  test('all counts and sums equal those of an undisturbed run over the same chain', async () => {
    const undisturbed = await startService(`${directory.path}/undisturbed`, { env: devnet.env });
    try {
      const expected = await until(async () => {
        const [one, other] = [await checksums(undisturbed.query), await checksums(service.query)];
        // Metadata arrives later, so wait only for the last of it.
        return JSON.stringify(one.markets) === JSON.stringify(other.markets) ? one : undefined;
      });
      expect(await checksums(service.query)).toEqual(expected);
    } finally {
      await undisturbed.up.stop();
    }
  });

  test('per tag, trader×hour, trader×market and market×trader rows add up to the raw rows', async () => {
    await service.query('SYSTEM RELOAD DICTIONARY market_dictionary');
    const { raw, ...tables } = await sumsByTag(service.query);
    expect(raw.length).toBeGreaterThan(20);
    for (const [table, sums] of Object.entries(tables)) expect(sums, table).toEqual(raw);
  });

  test('LEDGER holds every match of the chain once, in chain order; FEED holds the live ones once', async () => {
    const { rpcUrl } = devnet;
    const comparison = await compare({ nats, rpcUrl, facts, liveAfter });
    expect(comparison.differences).toEqual([]);
    expect(comparison.liveMatches).toBeGreaterThan(100);
  });

  test(`a feed client that was cut ${CUTS} times has every match once, in order`, async () => {
    const feed: string[] = [];
    for await (const message of storedSince(nats, FEED_STREAM, { sequence: 1 })) {
      // A void is not a match; the client counts orders.
      if (message.subject !== FEED_MATCH_SUBJECT) continue;
      feed.push(message.messageId.split(':')[0] ?? '');
    }
    await until(async () => (client.events.at(-1)?.txHash === feed.at(-1) ? true : undefined));
    const received = client.events.map((event) => event.txHash);
    const first = feed.indexOf(received[0] ?? '');
    expect(received).toEqual(feed.slice(first));
    expect(client.gaps).toBe(0);
  });
});
