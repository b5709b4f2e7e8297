/**
 * Listeners of a soak, with random filters for what is really traded. What they should have received is read from FEED.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { type Nats, streamState } from '../../../infra/nats/connection.ts';
import { storedSince } from '../../../infra/nats/reader.ts';
import { decodeFeedEvent, FEED_STREAM } from '../../../ingest/contract.ts';
import type { Service } from '../../support/service.ts';
import { naivelyPasses } from '../../unit/feed-matches.ts';
import { Listeners } from './listeners.ts';

/** Connects this many listeners. */
export async function openSoakListeners(options: {
  readonly service: Service;
  readonly nats: Nats;
  readonly count: number;
  readonly traded: Traded;
  readonly random: () => number;
}) {
  const { service, nats, traded, random } = options;
  // Each transaction hash has a number, because 500 lists of hashes would not fit in memory.
  const numbers = new Map<string, number>();
  const numberOf = (hash: string) => {
    const number = numbers.get(hash) ?? numbers.size;
    numbers.set(hash, number);
    return number;
  };
  const listeners = await Listeners.open({
    ...options,
    ports: [Number(new URL(service.ready.url).port)],
    numberOf,
    queryOf: (isManaged) => randomQuery(traded, random, isManaged),
  });
  const { lastSequence } = await streamState(nats, FEED_STREAM);
  return {
    listeners,
    /** Compares what all received with the matches of FEED that came after their start. */
    async end(after: Nats) {
      const expected = new Map<string, number[]>([...listeners.queries].map((one) => [one, []]));
      const early = new Set<unknown>();
      let matches = 0;
      for await (const { sequence, data } of storedSince(after, FEED_STREAM, { sequence: 1 })) {
        const event = decodeFeedEvent(data);
        if (event.kind !== 'match') continue;
        const number = numberOf(event.txHash.slice(2));
        if (sequence <= lastSequence) early.add(number);
        for (const [query, list] of expected) if (naivelyPasses(query, event)) list.push(number);
        matches += 1;
        // Sockets are read in between.
        if (matches % 100 === 0) await delay(0);
      }
      return await listeners.end(expected, (one) => !early.has(one));
    },
  };
}

export type Traded = {
  readonly traders: readonly string[];
  readonly tags: readonly string[];
  readonly series: readonly string[];
  readonly markets: readonly string[];
};

/** Traders and markets seen so far. */
export async function tradedNames(service: Service): Promise<Traded> {
  const column = async (sql: string) =>
    (await service.query<{ name: string }>(sql)).map(({ name }) => name);
  return {
    traders: await column(
      "SELECT DISTINCT concat('0x', lower(hex(trader))) AS name FROM bookings ORDER BY name",
    ),
    tags: await column('SELECT DISTINCT arrayJoin(tags) AS name FROM markets ORDER BY name'),
    series: await column(
      "SELECT DISTINCT series_slug AS name FROM markets WHERE series_slug != '' ORDER BY name",
    ),
    markets: await column('SELECT DISTINCT toString(market_id) AS name FROM markets ORDER BY name'),
  };
}

/** Without bounds for managed streams, which do not support them. */
function randomQuery(traded: Traded, random: () => number, isManaged: boolean): string {
  const pick = (names: readonly string[]) => names[Math.floor(random() * names.length)] ?? '';
  const some = (names: readonly string[], most: number) =>
    [...new Set(Array.from({ length: 1 + Math.floor(random() * most) }, () => pick(names)))].join();
  const bounds = isManaged ? '' : `&min_usdc=${Math.floor(random() * 50)}&max_price=80`;
  switch (Math.floor(random() * 5)) {
    case 0:
      return `traders=${some(traded.traders, 4)}`;
    case 1:
      return `traders=${some(traded.traders, 10)}&tags=${some(traded.tags, 3)}${bounds}`;
    case 2:
      return `tags=${pick(traded.tags)}${bounds}`;
    case 3:
      return `series=${some(traded.series, 3)}${bounds}`;
    default:
      return isManaged
        ? `series=${some(traded.series, 2)}&tags=${some(traded.tags, 3)}`
        : `min_usdc=${100 + Math.floor(random() * 400)}&max_price=${20 + Math.floor(random() * 60)}`;
  }
}
