/**
 * Listeners of a soak, half of them on managed streams, with random filters for what is really traded. At the end, each
 * must have received exactly the matches of FEED after its start that pass its filter, in order, each once, and no
 * `gap`.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { generateKey, KEYS_BUCKET, storeKey } from '../../../api/auth/keys.ts';
import { type Nats, streamState } from '../../../infra/nats/connection.ts';
import { openKv } from '../../../infra/nats/kv.ts';
import { storedSince } from '../../../infra/nats/reader.ts';
import { decodeFeedEvent, FEED_STREAM } from '../../../ingest/contract.ts';
import type { Service } from '../../support/service.ts';
import { naivelyPasses } from '../../unit/feed-matches.ts';
import { FeedListener, type Seen } from './feed-listener.ts';
import { createStream, differenceOf } from './feed-run.ts';

/** Tier pro allows 100 open event streams; a cut one may still count for a moment. */
const LISTENERS_PER_ACCOUNT = 60;
/** Within a key's rate limit for one second. */
const OPEN_MS = 12;
const POLL_MS = 100;
/** Any duplicates would arrive within this time. */
const AFTER_MS = 1_000;

type Wanted = { readonly query: string; readonly listener: FeedListener };

export type Listened = {
  readonly matches: number;
  readonly delivered: number;
  readonly connections: number;
  readonly cuts: number;
  readonly differences: readonly string[];
};

export class SoakListeners {
  readonly #wanted: Wanted[] = [];
  /** Maps each transaction hash to a number, because 500 lists of hashes would not fit in memory. */
  readonly #numbers = new Map<string, number>();
  /** The FEED sequence after which matches count, and how many came before. */
  #after = 0;
  #counted = 0;
  #cuts = 0;

  /** Connects this many listeners; resolves when each has a cursor and so misses nothing from here on. */
  static async open(options: {
    readonly service: Service;
    readonly nats: Nats;
    readonly count: number;
    readonly traded: Traded;
    readonly random: () => number;
  }): Promise<SoakListeners> {
    const { service, nats, count, traded, random } = options;
    const opened = new SoakListeners();
    const ports = [Number(new URL(service.ready.url).port)];
    const numberOf = (hash: string) => opened.#numberOf(hash);
    let key = '';
    for (let n = 0; n < count; n += 1) {
      if (n % LISTENERS_PER_ACCOUNT === 0) key = await newKey(nats, `soak-${n}`);
      const isManaged = random() < 0.5;
      const query = randomQuery(traded, random, isManaged);
      const target = isManaged
        ? await createStream(service.ready.url, key, query)
        : `/v1/stream/orders?${query}${random() < 0.3 ? '&format=json' : ''}`;
      const listener = new FeedListener({ target, key, ports, random, numberOf });
      opened.#wanted.push({ query, listener });
      await delay(OPEN_MS);
    }
    for (const { listener } of opened.#wanted) {
      while (listener.lastEventId === '') await delay(OPEN_MS);
    }
    opened.#after = (await streamState(nats, FEED_STREAM)).lastSequence;
    return opened;
  }

  get delivered(): number {
    return this.#wanted.reduce((sum, { listener }) => sum + listener.seen.length, 0);
  }

  /** Drops the connection of one listener, which reconnects by itself. */
  cutOne(random: () => number): void {
    this.#wanted[Math.floor(random() * this.#wanted.length)]?.listener.cut();
    this.#cuts += 1;
  }

  /** Waits until all listeners have everything from FEED, then stops them and compares. */
  async end(nats: Nats, settleMsMax: number): Promise<Listened> {
    const { numbers, expected } = await this.#expected(nats);
    const until = performance.now() + settleMsMax;
    const isBehind = () =>
      this.#wanted.some(({ query, listener }) => {
        const last = expected.get(query)?.at(-1);
        return last !== undefined && listener.seen.at(-1) !== last;
      });
    while (isBehind() && performance.now() < until) await delay(POLL_MS);
    await delay(AFTER_MS);
    const listeners = this.#wanted.map(({ listener }) => listener);
    await Promise.all(listeners.map((listener) => listener.stop()));
    const early = new Set(numbers.slice(0, this.#counted));
    return {
      matches: numbers.length,
      delivered: this.delivered,
      connections: listeners.reduce((sum, { connections }) => sum + connections, 0),
      cuts: this.#cuts,
      differences: this.#wanted.flatMap(({ query, listener }, n) => {
        const isLate = (one: Seen) => one === 'gap' || !early.has(one);
        const seen = listener.seen.filter(isLate);
        const due = (expected.get(query) ?? []).filter(isLate);
        const difference = seen.includes('gap') ? 'got a gap' : differenceOf(seen, due);
        return difference === undefined ? [] : [`listener ${n} (${query}): ${difference}`];
      }),
    };
  }

  /** Numbers of all matches of FEED, and by query, of those that pass it. */
  async #expected(nats: Nats) {
    const expected = new Map<string, number[]>(this.#wanted.map(({ query }) => [query, []]));
    const numbers: number[] = [];
    this.#counted = 0;
    for await (const { sequence, data } of storedSince(nats, FEED_STREAM, { sequence: 1 })) {
      const event = decodeFeedEvent(data);
      if (event.kind !== 'match') continue;
      const number = this.#numberOf(event.txHash.slice(2));
      numbers.push(number);
      if (sequence <= this.#after) this.#counted = numbers.length;
      for (const [query, list] of expected) if (naivelyPasses(query, event)) list.push(number);
      // Sockets are read in between.
      if (numbers.length % 100 === 0) await delay(0);
    }
    return { numbers, expected };
  }

  #numberOf(hash: string): number {
    const known = this.#numbers.get(hash);
    if (known !== undefined) return known;
    this.#numbers.set(hash, this.#numbers.size);
    return this.#numbers.size - 1;
  }
}

/** A pro key of a new account. */
export async function newKey(nats: Nats, account: string): Promise<string> {
  const key = generateKey('pro');
  const created_at = new Date().toISOString();
  const bucket = await openKv(nats, KEYS_BUCKET);
  await storeKey(bucket, key, { label: 'soak', tier: 'pro', account, created_at });
  return key;
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
