import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { connectNats } from '../../infra/nats/connection.ts';
import { storedSince } from '../../infra/nats/reader.ts';
import { FEED_MATCH_SUBJECT, FEED_STREAM, feedMessageId } from '../../ingest/contract.ts';
import { storedMessages } from '../../ingest/ledger.ts';
import { checksums, sumsByTag } from '../support/checksums.ts';
import { FeedClient } from '../support/feed-client.ts';
import { random } from '../support/ledger-generator.ts';
import { SEED as TEST_SEED } from '../support/seed.ts';
import {
  type Devnet,
  freeze,
  projectedTo,
  rpc,
  type Service,
  startDevnet,
  startService,
  temporaryDirectory,
  until,
} from '../support/service.ts';

const SEED = TEST_SEED;
const KILLS_EACH = Number(process.env.CRASH_KILLS || 5);
const VICTIMS = ['projector', 'clickhouse', 'ingest'] as const;
const CUTS = 50;
const PAUSE_MS_MAX = 1_200;
/** A killed part comes back after its backoff (5 s at most); the starts take their part of it. */
const KILL_MS_MAX = 40_000;

describe(`kill −9 under load (TEST_SEED=${SEED})`, () => {
  const directory = temporaryDirectory();
  const dice = random(SEED);
  let devnet: Devnet;
  let service: Service;
  let client: FeedClient;
  /** The head when the service was ready: what came before is history, which FEED does not show. */
  let readyBlock: number;

  beforeAll(
    async () => {
      const data = `${directory.path}/devnet`;
      devnet = await startDevnet(data, { matches: 300, days: 2, rate: 25 });
      service = await startService(`${directory.path}/disturbed`, { env: devnet.env });
      readyBlock = Number(await rpc<string>(devnet.rpcUrl, 'eth_blockNumber', []));
      client = new FeedClient(service.ready.url, service.ready.key);
      const victims = Array.from({ length: KILLS_EACH }, () => VICTIMS).flat();
      let cutsLeft = CUTS;
      const cutting = (async () => {
        for (; cutsLeft > 0; cutsLeft--) {
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
      const block = await lastMatchBlock(devnet.rpcUrl);
      await projectedTo(service, block);
    },
    VICTIMS.length * KILLS_EACH * KILL_MS_MAX,
  );

  afterAll(async () => {
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
        // Metadata arrives when it arrives: only the last of it is waited for.
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
    const nats = await connectNats({ ...service.nats, name: 'crash test' });
    try {
      const ledger: { place: [number, number]; feedId: string }[] = [];
      const ids = new Set<string>();
      for await (const { range } of storedMessages(nats, { sequence: 1 })) {
        for (const event of range.blocks.flatMap(({ matches }) => matches)) {
          const id = `${event.txHash}:${event.logIndex}`;
          expect(ids.has(id)).toBe(false);
          ids.add(id);
          ledger.push({
            place: [event.blockNumber, event.logIndex],
            feedId: feedMessageId(event.txHash, event.fills.at(-1)?.orderHash ?? '', 0),
          });
        }
      }
      const places = ledger.map(({ place }) => place);
      expect(places).toEqual(places.toSorted(([a, i], [b, j]) => a - b || i - j));
      const feed: string[] = [];
      for await (const message of storedSince(nats, FEED_STREAM, { sequence: 1 })) {
        feed.push(message.messageId);
      }
      expect(new Set(feed).size).toBe(feed.length);
      const live = ledger
        .filter(({ place: [block] }) => block > readyBlock)
        .map((one) => one.feedId);
      expect(live.length).toBeGreaterThan(100);
      expect(live.filter((id) => !feed.includes(id))).toEqual([]);
    } finally {
      await nats.close();
    }
  });

  test(`a feed client that was cut ${CUTS} times has every match once, in order`, async () => {
    const nats = await connectNats({ ...service.nats, name: 'crash test' });
    try {
      const feed: string[] = [];
      for await (const message of storedSince(nats, FEED_STREAM, { sequence: 1 })) {
        // A void is no match; the client counts orders.
        if (message.subject !== FEED_MATCH_SUBJECT) continue;
        feed.push(message.messageId.split(':')[0] ?? '');
      }
      await until(async () => (client.events.at(-1)?.txHash === feed.at(-1) ? true : undefined));
      const received = client.events.map((event) => event.txHash);
      const first = feed.indexOf(received[0] ?? '');
      expect(received).toEqual(feed.slice(first));
      expect(client.gaps).toBe(0);
      expect(client.cuts).toBe(CUTS);
    } finally {
      await nats.close();
    }
  });
});

async function lastMatchBlock(rpcUrl: string): Promise<number> {
  const topic = '0x174b3811690657c217184f89418266767c87e4805d09680c39fc9c031c0cab7c';
  const filter = { fromBlock: '0x0', toBlock: 'latest', topics: [topic] };
  const logs = await rpc<{ blockNumber: string }[]>(rpcUrl, 'eth_getLogs', [filter]);
  return Number(logs.at(-1)?.blockNumber);
}
