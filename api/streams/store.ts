/**
 * The managed streams of all accounts. Every process watches the bucket, so a lookup reads a map, and a
 * change applies everywhere as soon as the watch delivers it. Ids that are missing from the map are looked
 * up in the bucket. Writes are compare-and-set, so concurrent changes of a stream never mix.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import { type Nats, NatsUnavailableError } from '../../infra/nats/connection.ts';
import {
  follow,
  type Kv,
  KvConflictError,
  type KvEvent,
  openKv,
  parseValue,
} from '../../infra/nats/kv.ts';
import { Records } from '../auth/records.ts';
import { TIERS } from '../auth/tiers.ts';
import type { Caller } from '../http/caller.ts';
import { type Repeatable, requireSameBody } from '../http/endpoint.ts';
import { Problem, quotaExceeded } from '../http/errors.ts';
import {
  isNaked,
  longList,
  type Meta,
  type NewStream,
  StreamRecord,
  type Subscription,
} from './stream.ts';

const STREAMS_BUCKET = 'streams';

/** Called on each change; undefined = the stream was deleted. */
export type OnChange = (id: string, record: StreamRecord | undefined) => void;

type Stored = { readonly revision: number; readonly record: StreamRecord };

const STREAM_KEY = 'stream.';
/** Maximum time for the watch to deliver a write. */
const WATCH_MS_MAX = 2_000;
const ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

export class StreamStore {
  /** Settles when the bucket is no longer watched; rejects if `close` was not called. */
  watching: Promise<void> = Promise.resolve();
  readonly #bucket: Kv;
  readonly #logger: Logger;
  readonly #now: () => number;
  readonly #onChange: OnChange;
  readonly #known = new Records<StreamRecord>();
  #isInitialised = false;
  /** The watch has delivered every write up to this revision of the bucket. */
  #seen = 0;
  /** Resolves when the watch delivers the next write. */
  #changed = Promise.withResolvers<void>();
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
    const bucket = await openKv(nats, STREAMS_BUCKET, { replicas });
    // Older servers do not check an expected revision of 0.
    if ((await bucket.revision()) === 0) await bucket.put('opened', '');
    const store = new StreamStore(bucket, options);
    const signal = store.#stop.signal;
    store.watching = (await follow(bucket, signal, (event) => store.#receive(event))).watching;
    return store;
  }

  /** The streams of an account, oldest first. */
  list(account: string): StreamRecord[] {
    const records = [...this.#known.ofAccount(account).values()].map(({ record }) => record);
    return records.sort(
      (a, b) => a.createdAt.localeCompare(b.createdAt) || a.id.localeCompare(b.id),
    );
  }

  /** The stream as this process knows it; undefined if there is none. */
  known(id: string): StreamRecord | undefined {
    return this.#known.get(id)?.record;
  }

  /**
   * A stream of this account. Throws Problem 404 if the account has no stream with this id, even if
   * another account has one. Rejects with NatsUnavailableError.
   */
  async find(caller: Caller, id: string): Promise<StreamRecord> {
    if (!ID.test(id)) throw notFound(id);
    // Another process may have just created it.
    const { record } = this.#known.get(id) ?? (await this.#fetch(id)) ?? {};
    if (record?.account !== caller.account) throw notFound(id);
    return record;
  }

  /**
   * Creates a stream, or returns the one that this repeatable request created before. Throws Problem 403 if
   * a quota of the tier is used up, and 400 if the repeated body differs. Rejects like `find`.
   */
  async create(
    caller: Caller,
    wanted: Resolved<NewStream>,
    repeatable: Repeatable | null,
  ): Promise<StreamRecord> {
    const now = new Date(this.#now()).toISOString();
    const record: StreamRecord = {
      id: repeatable === null ? randomUUID() : uuidOf(repeatable.seed),
      account: caller.account,
      name: wanted.name,
      addresses: wanted.addresses ?? [],
      tags: wanted.tags ?? [],
      series: wanted.series ?? [],
      markets: wanted.markets ?? [],
      enabled: true,
      createdAt: now,
      updatedAt: now,
      ...(repeatable !== null && { bodyHash: repeatable.bodyHash }),
    };
    refuseLongLists(caller, record);
    for (;;) {
      const former = repeatable === null ? undefined : await this.#fetch(record.id);
      if (former !== undefined) {
        requireSameBody(record.bodyHash, former.record.bodyHash);
        return former.record;
      }
      if (await this.#write(caller, record)) return record;
    }
  }

  /**
   * Replaces the given members of a stream and updates `updatedAt`. Throws Problem 404, or 403 if a quota
   * is used up. Rejects like `find`.
   */
  async update(
    caller: Caller,
    id: string,
    change: Resolved<Subscription> & Meta,
  ): Promise<StreamRecord> {
    for (;;) {
      const stored = await this.#own(caller, id);
      const updatedAt = this.#after(stored.record);
      const record = StreamRecord.parse({ ...stored.record, ...change, updatedAt });
      // Only new lists: the others may come from a higher tier.
      const { addresses = [], tags = [], series = [] } = change;
      refuseLongLists(caller, { addresses, tags, series });
      if (await this.#write(caller, record, stored)) return record;
    }
  }

  /** Throws Problem 404. Rejects like `find`. */
  async delete(caller: Caller, id: string): Promise<void> {
    for (;;) {
      const { revision } = await this.#own(caller, id);
      try {
        await this.#bucket.delete(STREAM_KEY + id, revision);
        // End the stream here at once. The watch delivers the actual revision later.
        this.#learn(id, revision + 1, undefined);
        return;
      } catch (error) {
        if (!(error instanceof KvConflictError)) throw error;
      }
    }
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.watching;
  }

  /** Reads the stream from the bucket, for a compare-and-set. */
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

  /**
   * Tries once to store a record. Returns false if another write came first, after the watch has delivered
   * it. A stream that adds to a quota is stored only if the whole bucket is unchanged since the streams were
   * counted, so the quota is exact across all processes.
   */
  async #write(caller: Caller, record: StreamRecord, stored?: Stored): Promise<boolean> {
    const seen = this.#seen;
    const [key, value] = [STREAM_KEY + record.id, JSON.stringify(record)];
    const counts = stored === undefined || (isNaked(record) && !isNaked(stored.record));
    const problem = counts ? this.#overQuota(caller, record) : undefined;
    // Another process may have just deleted streams that still count here.
    if (problem !== undefined && (await this.#bucket.revision()) <= seen) throw problem;
    try {
      if (problem === undefined) {
        const revision = counts
          ? await this.#bucket.putAfter(key, value, seen)
          : await this.#bucket.update(key, value, stored.revision);
        this.#learn(record.id, revision, record);
        return true;
      }
    } catch (error) {
      if (!(error instanceof KvConflictError)) throw error;
    }
    await this.#changedSince(seen);
    return false;
  }

  #overQuota({ account, tier }: Caller, record: StreamRecord): Problem | undefined {
    const { streamsMax, nakedStreamsMax } = TIERS[tier];
    const others = this.list(account).filter(({ id }) => id !== record.id);
    const isNew = this.known(record.id) === undefined;
    if (isNew && others.length >= streamsMax) {
      return quotaExceeded('max_streams', tier, streamsMax, others.length);
    }
    const naked = others.filter(isNaked).length;
    if (!isNaked(record) || naked < nakedStreamsMax) return undefined;
    return quotaExceeded('max_naked_streams', tier, nakedStreamsMax, naked);
  }

  /** Resolves when the watch has delivered a write after the given revision. */
  async #changedSince(revision: number): Promise<void> {
    const deadline = delay(WATCH_MS_MAX, 'late' as const, { ref: false });
    while (this.#seen <= revision) {
      if ((await Promise.race([this.#changed.promise, deadline])) === 'late') {
        throw new NatsUnavailableError('the watch of the streams is behind');
      }
    }
  }

  /** A time after the last change, even within the same millisecond. */
  #after({ updatedAt }: StreamRecord): string {
    return new Date(Math.max(this.#now(), Date.parse(updatedAt) + 1)).toISOString();
  }

  #receive(event: KvEvent): void {
    if (event.type !== 'initialised' && event.key.startsWith(STREAM_KEY)) {
      const id = event.key.slice(STREAM_KEY.length);
      const record = event.type === 'put' ? this.#parse(id, event.value) : undefined;
      this.#learn(id, event.revision, record);
      // The revision of a stream that was deleted here is needed until the watch delivers the deletion.
      if (event.type === 'delete') this.#known.forget(id);
    }
    // The initial values do not arrive in the order of their revisions.
    if (event.type === 'initialised') this.#isInitialised = true;
    if (!this.#isInitialised) return;
    this.#seen = Math.max(this.#seen, event.revision);
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }

  #learn(id: string, revision: number, record: StreamRecord | undefined): void {
    // What the watch has delivered and is unknown was deleted.
    if (revision <= (this.#known.get(id)?.revision ?? this.#seen)) return;
    this.#known.set(id, revision, record);
    this.#onChange(id, record);
  }

  #parse(id: string, value: Uint8Array): StreamRecord | undefined {
    const record = parseValue(StreamRecord, value);
    // For clients, an unreadable stream does not exist.
    if (record === undefined) this.#logger.error({ id }, 'unreadable record in the streams bucket');
    return record;
  }
}

/** A body with condition ids in place of the client's market keys. */
export type Resolved<Body> = Omit<Body, 'markets'> & { readonly markets?: string[] };

export type StreamStoreOptions = {
  readonly nats: Nats;
  readonly logger: Logger;
  readonly onChange: OnChange;
  readonly replicas?: number;
  /** Milliseconds since the epoch. */
  readonly now?: () => number;
};

function refuseLongLists(caller: Caller, lists: Parameters<typeof longList>[0]): void {
  const long = longList(lists, TIERS[caller.tier]);
  if (long !== undefined) throw quotaExceeded(long.name, caller.tier, long.limit, long.used);
}

/** A version 8 UUID from the first 16 bytes of a seed. */
function uuidOf(seed: Buffer): string {
  const bytes = Buffer.from(seed.subarray(0, 16));
  bytes.writeUInt8(0x80 | (bytes.readUInt8(6) & 0x0f), 6);
  bytes.writeUInt8(0x80 | (bytes.readUInt8(8) & 0x3f), 8);
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}

function notFound(id: string): Problem {
  const detail = `this account has no stream ${ID.test(id) ? id : 'with this id'}`;
  return new Problem({ error: 'not_found', detail });
}
