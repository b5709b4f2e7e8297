/**
 * The managed streams of all accounts. Every process watches the bucket, so a lookup is a read of a
 * map and a change holds everywhere as soon as the bucket tells of it; what the map lacks is asked
 * of the bucket once. Writes are compare-and-set: two changes of one stream never mix.
 */
import { createHash, randomUUID } from 'node:crypto';
import type { Logger } from 'pino';
import type { Nats } from '../../infra/nats/connection.ts';
import { type Kv, KvConflictError, openKv } from '../../infra/nats/kv.ts';
import { STREAMS_BUCKET } from '../../infra/streams.ts';
import type { Caller } from '../auth/keys.ts';
import { TIERS } from '../auth/tiers.ts';
import { Problem, quotaExceeded } from '../errors.ts';
import { type PlacesOptions, settlePlace, takePlace } from './places.ts';
import { isNaked, longList, type NewStream, StreamRecord } from './stream.ts';

/** Told of each change; undefined = the stream is gone. */
export type OnChange = (id: string, record: StreamRecord | undefined) => void;

type Known = { readonly revision: number; readonly record: StreamRecord | undefined };
type Stored = { readonly revision: number; readonly record: StreamRecord };

const STREAM_KEY = 'stream.';
const PLACES_KEY = 'places.';
const ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

export class StreamStore {
  /** Settles when the bucket is no longer watched; rejects where that was not asked for. */
  watching: Promise<void> = Promise.resolve();
  readonly #bucket: Kv;
  readonly #logger: Logger;
  readonly #now: () => number;
  readonly #onChange: OnChange;
  readonly #known = new Map<string, Known>();
  readonly #stop = new AbortController();

  private constructor(bucket: Kv, options: StreamStoreOptions) {
    this.#bucket = bucket;
    this.#logger = options.logger;
    this.#now = options.now ?? Date.now;
    this.#onChange = options.onChange;
  }

  /** Watches the bucket; resolves once every stream is known. */
  static async open(options: StreamStoreOptions): Promise<StreamStore> {
    const { nats, replicas = 1 } = options;
    const store = new StreamStore(await openKv(nats, STREAMS_BUCKET, { replicas }), options);
    const initialised = Promise.withResolvers<void>();
    store.watching = store.#follow(initialised.resolve);
    store.watching.catch(initialised.reject);
    await initialised.promise;
    return store;
  }

  /** The streams of an account, oldest first. */
  list(account: string): StreamRecord[] {
    const records = [...this.#known.values()].flatMap(({ record }) => record ?? []);
    return records
      .filter((record) => record.account === account)
      .sort((a, b) => compare(a.createdAt, b.createdAt) || compare(a.id, b.id));
  }

  /** The stream as this process knows it now; undefined where there is none. */
  known(id: string): StreamRecord | undefined {
    return this.#known.get(id)?.record;
  }

  /**
   * A stream of this account. Throws Problem 404 where the account has none of this id, also where
   * another account has. Rejects with NatsUnavailableError.
   */
  async find(caller: Caller, id: string): Promise<StreamRecord> {
    if (!ID.test(id)) throw notFound(id);
    // Made by another process a moment ago, perhaps.
    const record = this.#known.has(id) ? this.known(id) : (await this.#fetch(id))?.record;
    if (record?.account !== caller.account) throw notFound(id);
    return record;
  }

  /** Throws Problem 403 where a quota of the tier is used up. Rejects as `find`. */
  async create(caller: Caller, wanted: NewStream): Promise<StreamRecord> {
    const now = new Date(this.#now()).toISOString();
    const record: StreamRecord = {
      id: randomUUID(),
      account: caller.account,
      name: wanted.name,
      addresses: wanted.addresses ?? [],
      tags: wanted.tags ?? [],
      series: wanted.series ?? [],
      enabled: true,
      createdAt: now,
      updatedAt: now,
    };
    refuseLongLists(caller, record);
    await takePlace(this.#places(caller), record.id, isNaked(record));
    const revision = await this.#bucket.create(STREAM_KEY + record.id, JSON.stringify(record));
    this.#learn(record.id, revision, record);
    return record;
  }

  /**
   * Replaces what `change` says of a stream, and moves `updatedAt`. Throws Problem 404, and 403
   * where a quota is used up. Rejects as `find`.
   */
  async update(
    caller: Caller,
    id: string,
    change: Partial<Omit<StreamRecord, 'id' | 'account' | 'createdAt' | 'updatedAt'>>,
  ): Promise<StreamRecord> {
    for (;;) {
      const stored = await this.#own(caller, id);
      const record = { ...stored.record, ...change, updatedAt: this.#after(stored.record) };
      refuseLongLists(caller, record);
      const places = this.#places(caller);
      if (isNaked(record) && !isNaked(stored.record)) await takePlace(places, id, true);
      try {
        const key = STREAM_KEY + id;
        const revision = await this.#bucket.update(key, JSON.stringify(record), stored.revision);
        this.#learn(id, revision, record);
      } catch (error) {
        if (error instanceof KvConflictError) continue;
        throw error;
      }
      if (isNaked(record) !== isNaked(stored.record)) await settlePlace(places, id);
      return record;
    }
  }

  /** Throws Problem 404. Rejects as `find`. */
  async delete(caller: Caller, id: string): Promise<void> {
    for (;;) {
      const { revision } = await this.#own(caller, id);
      try {
        await this.#bucket.delete(STREAM_KEY + id, revision);
        break;
      } catch (error) {
        if (!(error instanceof KvConflictError)) throw error;
      }
    }
    // The watch brings the revision; nobody may listen to it here until then either.
    this.#learn(id, (this.#known.get(id)?.revision ?? 0) + 1, undefined);
    await settlePlace(this.#places(caller), id);
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.watching;
  }

  /** As the bucket has it, for a compare-and-set. */
  async #own(caller: Caller, id: string): Promise<Stored> {
    const stored = ID.test(id) ? await this.#fetch(id) : undefined;
    if (stored?.record.account !== caller.account) throw notFound(id);
    return stored;
  }

  async #fetch(id: string): Promise<Stored | undefined> {
    const entry = await this.#bucket.get(STREAM_KEY + id);
    const record = entry === undefined ? undefined : this.#parse(id, entry.value);
    if (entry === undefined || record === undefined) return undefined;
    this.#learn(id, entry.revision, record);
    return { revision: entry.revision, record };
  }

  #places({ account, tier }: Caller): PlacesOptions {
    return {
      bucket: this.#bucket,
      key: PLACES_KEY + createHash('sha256').update(account).digest('hex').slice(0, 32),
      tier,
      nowMs: this.#now(),
      stored: async (id) => (await this.#fetch(id))?.record,
    };
  }

  /** Later than the last change, also within one millisecond. */
  #after({ updatedAt }: StreamRecord): string {
    return new Date(Math.max(this.#now(), Date.parse(updatedAt) + 1)).toISOString();
  }

  async #follow(initialised: () => void): Promise<void> {
    for await (const event of this.#bucket.watch(this.#stop.signal)) {
      if (event.type === 'initialised') initialised();
      else if (event.key.startsWith(STREAM_KEY)) {
        const id = event.key.slice(STREAM_KEY.length);
        const record = event.type === 'put' ? this.#parse(id, event.value) : undefined;
        this.#learn(id, event.revision, record);
      }
    }
  }

  #learn(id: string, revision: number, record: StreamRecord | undefined): void {
    if (revision <= (this.#known.get(id)?.revision ?? 0)) return;
    this.#known.set(id, { revision, record });
    this.#onChange(id, record);
  }

  #parse(id: string, value: Uint8Array): StreamRecord | undefined {
    try {
      return StreamRecord.parse(JSON.parse(String(Buffer.from(value))));
    } catch (error) {
      // Nobody can listen to it: the operator sees it in the log.
      this.#logger.error({ err: error, id }, 'unreadable record in the bucket of streams');
      return undefined;
    }
  }
}

export type StreamStoreOptions = {
  readonly nats: Nats;
  readonly logger: Logger;
  readonly onChange: OnChange;
  readonly replicas?: number;
  /** Milliseconds since the epoch. */
  readonly now?: () => number;
};

function refuseLongLists(caller: Caller, record: StreamRecord): void {
  const long = longList(record, TIERS[caller.tier]);
  if (long !== undefined) throw quotaExceeded(long.name, caller.tier, long.limit, long.used);
}

function notFound(id: string): Problem {
  const detail = `this account has no stream ${ID.test(id) ? id : 'of this id'}`;
  return new Problem({ status: 404, error: 'not_found', detail });
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
