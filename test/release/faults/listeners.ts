/**
 * Listeners of a fault run with random filters, some on managed streams. In the end, each must have received exactly
 * the matches that pass its filter, in order, each once, and no `gap`.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { generateKey, KEYS_BUCKET, storeKey } from '../../../api/auth/keys.ts';
import type { Nats } from '../../../infra/nats/connection.ts';
import { openKv } from '../../../infra/nats/kv.ts';
import { FeedListener, type ListenerOptions, type Seen } from '../../support/feed-client.ts';

/** A listener of any kind: on a bare socket, in a program that uses the client, or a command. */
export type RunListener = Pick<
  FeedListener,
  'seen' | 'lastEventId' | 'connections' | 'refusals' | 'cut' | 'stop'
>;

export type OpenOptions = Omit<ListenerOptions, 'target' | 'key'> & {
  readonly nats: Nats;
  readonly count: number;
  /** The query of a filter; without bounds for a managed stream, which does not support them. */
  readonly queryOf: (isManaged: boolean) => string;
  /** Default: a FeedListener. */
  readonly listen?: (options: ListenerOptions) => Promise<RunListener>;
};

/** Tier pro allows 100 open event streams; a disconnected one may still count for a moment. */
const LISTENERS_PER_ACCOUNT = 60;
/** Within a key's rate limit for one second. */
const OPEN_MS = 12;
const POLL_MS = 100;
/** Without any event for this long after the last match: time to reconnect, replay and receive a heartbeat. */
const SETTLE_MS_MAX = 120_000;
/** Any duplicates would arrive within this time. */
const AFTER_MS = 1_000;

export class Listeners {
  readonly #all: { readonly query: string; readonly listener: RunListener }[] = [];
  cuts = 0;

  /** Resolves when each has a cursor and so misses nothing from here on. */
  static async open(options: OpenOptions): Promise<Listeners> {
    const { nats, count, queryOf, ports, random } = options;
    const { listen = async (given: ListenerOptions) => new FeedListener(given) } = options;
    const opened = new Listeners();
    let key = '';
    for (let n = 0; n < count; n += 1) {
      if (n % LISTENERS_PER_ACCOUNT === 0) key = await newKey(nats, `run-${n}`);
      const isManaged = random() < 0.4;
      const query = queryOf(isManaged);
      const target = isManaged
        ? await createStream(`http://127.0.0.1:${ports[0]}`, key, query)
        : `/v1/stream/orders?${query}${random() < 0.3 ? '&format=json' : ''}`;
      opened.#all.push({ query, listener: await listen({ ...options, target, key }) });
      await delay(OPEN_MS);
    }
    for (const { listener } of opened.#all)
      while (listener.lastEventId === '') await delay(OPEN_MS);
    return opened;
  }

  get queries(): ReadonlySet<string> {
    return new Set(this.#all.map(({ query }) => query));
  }

  get received(): number {
    return this.#all.reduce((sum, { listener }) => sum + listener.seen.length, 0);
  }

  /** Drops the connections of random listeners, which reconnect by themselves, each about every `meanSeconds`. */
  async cutWhile(isGoing: () => boolean, meanSeconds: number, random: () => number): Promise<void> {
    while (isGoing()) {
      await delay((-Math.log(1 - random()) * meanSeconds * 1_000) / this.#all.length);
      this.#all[Math.floor(random() * this.#all.length)]?.listener.cut();
      this.cuts += 1;
    }
  }

  /**
   * Waits until all have everything, stops them and compares. `expected` has the matches by query; those that do not
   * count are ignored.
   */
  async end(expected: ReadonlyMap<string, readonly number[]>, counts = (_: Seen) => true) {
    const dueOf = (query: string) => (expected.get(query) ?? []).filter(counts);
    const isBehind = () =>
      this.#all.some(({ query, listener }) => {
        const last = expected.get(query)?.at(-1);
        return last !== undefined && listener.seen.at(-1) !== last;
      });
    let [last, lastAtMs] = [this.received, performance.now()];
    while (isBehind() && performance.now() - lastAtMs < SETTLE_MS_MAX) {
      await delay(POLL_MS);
      if (this.received !== last) [last, lastAtMs] = [this.received, performance.now()];
    }
    await delay(AFTER_MS);
    const listeners = this.#all.map(({ listener }) => listener);
    await Promise.all(listeners.map((listener) => listener.stop()));
    const refusals: Record<number, number> = {};
    for (const [status, count] of listeners.flatMap((one) => [...one.refusals])) {
      refusals[status] = (refusals[status] ?? 0) + count;
    }
    return {
      delivered: this.received,
      connections: listeners.reduce((sum, { connections }) => sum + connections, 0),
      cuts: this.cuts,
      refusals,
      differences: this.#all.flatMap(({ query, listener }, n) => {
        const difference = differenceOf(listener.seen.filter(counts), dueOf(query));
        return difference === undefined ? [] : [`listener ${n} (${query}): ${difference}`];
      }),
    };
  }
}

/** A pro key of a new account. */
export async function newKey(nats: Nats, account: string): Promise<string> {
  const key = generateKey('pro');
  const created_at = new Date().toISOString();
  const bucket = await openKv(nats, KEYS_BUCKET);
  await storeKey(bucket, key, { label: 'faults', tier: 'pro', account, created_at });
  return key;
}

/** Creates a managed stream with the filters of an order feed query; returns its path. */
async function createStream(url: string, key: string, query: string): Promise<string> {
  const given = new URLSearchParams(query);
  const list = (name: string) => (given.get(name) ?? '').split(',').filter(Boolean);
  const response = await fetch(`${url}/streams`, {
    method: 'POST',
    headers: { 'X-Service-Key': key, 'Content-Type': 'application/json' },
    body: JSON.stringify({
      name: 'faults',
      addresses: list('traders'),
      tags: list('tags'),
      series: list('series'),
    }),
  });
  const body = await response.json();
  if (response.status !== 201) throw new Error(`no stream: ${JSON.stringify(body)}`);
  return `/streams/${(body as { id: string }).id}`;
}

/** Describes how the received events differ from the expected ones; undefined if they are the same. */
export function differenceOf(
  seen: readonly Seen[],
  expected: readonly number[],
): string | undefined {
  const wrong = seen.findIndex((one, i) => one !== expected[i]);
  if (wrong !== -1) return `got ${seen[wrong]} where ${expected[wrong]} was due`;
  const missing = expected.length - seen.length;
  return missing === 0 ? undefined : `ends before ${expected[seen.length]}, ${missing} are missing`;
}
