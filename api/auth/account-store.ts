/**
 * Records that accounts own, such as managed streams. Every process watches the bucket, so a lookup reads a map, and a
 * change applies everywhere as soon as the watch delivers it. Ids that are missing from the map are looked
 * up in the bucket. Writes are compare-and-set, so concurrent changes of a record never mix.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { z } from 'zod';
import { type Nats, NatsUnavailableError } from '../../infra/nats/connection.ts';
import {
  follow,
  type Kv,
  KvConflictError,
  type KvEvent,
  openKv,
  parseValue,
} from '../../infra/nats/kv.ts';
import type { Caller } from '../http/caller.ts';
import { type Repeatable, requireSameBody } from '../http/endpoint.ts';
import { Problem } from '../http/errors.ts';
import { Records } from './records.ts';

type Owned = {
  readonly id: string;
  readonly account: string;
  readonly createdAt: string;
  readonly updatedAt: string;
  /** Hash of the body that created the record with an Idempotency-Key. */
  readonly bodyHash?: string | undefined;
};

/** The members that the store sets. */
type StoreSet = 'id' | 'account' | 'createdAt' | 'updatedAt' | 'bodyHash';

export type AccountStoreOptions<Value extends Owned> = {
  readonly nats: Nats;
  readonly logger: Logger;
  readonly replicas?: number | undefined;
  /** Milliseconds since the epoch. */
  readonly now?: (() => number) | undefined;
  readonly bucket: string;
  /** What a record is called in errors and, before a dot, in keys: `stream`. */
  readonly noun: string;
  readonly schema: z.ZodType<Value>;
  /** Called on each change; undefined = the record was deleted. */
  readonly onChange?: (id: string, record: Value | undefined) => void;
  /** The quota that the record would exceed, given the account's other records. */
  readonly overQuota: (
    caller: Caller,
    record: Value,
    state: { readonly others: readonly Value[]; readonly isNew: boolean },
  ) => Problem | undefined;
  /** Whether a change can exceed a quota; a new record always can. */
  readonly addsToQuota?: (record: Value, former: Value) => boolean;
};

type Stored<Value> = { readonly revision: number; readonly record: Value };

/** Maximum time for the watch to deliver a write. */
const WATCH_MS_MAX = 2_000;
const ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

export class AccountStore<Value extends Owned> {
  /** Settles when the bucket is no longer watched; rejects if `close` was not called. */
  watching: Promise<void> = Promise.resolve();
  readonly #bucket: Kv;
  readonly #options: AccountStoreOptions<Value>;
  readonly #now: () => number;
  readonly #known = new Records<Value>();
  #isInitialised = false;
  /** The watch has delivered every write up to this revision of the bucket. */
  #seen = 0;
  /** Resolves when the watch delivers the next write. */
  #changed = Promise.withResolvers<void>();
  readonly #stop = new AbortController();

  private constructor(bucket: Kv, options: AccountStoreOptions<Value>) {
    this.#bucket = bucket;
    this.#options = options;
    this.#now = options.now ?? Date.now;
  }

  /** Watches the bucket; resolves once every record is known. */
  static async open<Value extends Owned>(
    options: AccountStoreOptions<Value>,
  ): Promise<AccountStore<Value>> {
    const { nats, replicas = 1 } = options;
    const bucket = await openKv(nats, options.bucket, { replicas });
    // Older servers do not check an expected revision of 0.
    if ((await bucket.revision()) === 0) await bucket.put('opened', '');
    const store = new AccountStore(bucket, options);
    const signal = store.#stop.signal;
    store.watching = (await follow(bucket, signal, (event) => store.#receive(event))).watching;
    return store;
  }

  /** The records of an account, oldest first. */
  list(account: string): Value[] {
    const records = [...this.#known.ofAccount(account).values()].map(({ record }) => record);
    return records.sort(
      (a, b) => a.createdAt.localeCompare(b.createdAt) || a.id.localeCompare(b.id),
    );
  }

  /** All records that this process knows, in no order. */
  all(): readonly Value[] {
    return this.#known.all();
  }

  /** The record as this process knows it; undefined if there is none. */
  known(id: string): Value | undefined {
    return this.#known.get(id)?.record;
  }

  /**
   * A record of this account. Throws Problem 404 if the account has none with this id, even if
   * another account has one. Rejects with NatsUnavailableError.
   */
  async find(caller: Caller, id: string): Promise<Value> {
    if (!ID.test(id)) throw this.#notFound(id);
    // Another process may have just created it.
    const { record } = this.#known.get(id) ?? (await this.#fetch(id)) ?? {};
    if (record?.account !== caller.account) throw this.#notFound(id);
    return record;
  }

  /**
   * Creates a record, or returns the one that this repeatable request created before. Throws Problem 403 if
   * a quota of the tier is used up, and 400 if the repeated body differs. Rejects like `find`.
   */
  async create(
    caller: Caller,
    wanted: Omit<Value, StoreSet>,
    repeatable: Repeatable | null,
  ): Promise<Value> {
    const now = new Date(this.#now()).toISOString();
    const record = this.#options.schema.parse({
      ...wanted,
      id: repeatable === null ? randomUUID() : uuidOf(repeatable.seed),
      account: caller.account,
      createdAt: now,
      updatedAt: now,
      ...(repeatable !== null && { bodyHash: repeatable.bodyHash }),
    });
    for (;;) {
      const former = repeatable === null ? undefined : await this.#fetch(record.id);
      if (former !== undefined) {
        requireSameBody(record.bodyHash, former.record.bodyHash);
        return former.record;
      }
      if (await this.#writeCounted(caller, record)) return record;
    }
  }

  /**
   * Replaces members of a record and updates `updatedAt`. Throws Problem 404, or 403 if a quota
   * is used up. Rejects like `find`.
   */
  async update(
    caller: Caller,
    id: string,
    change: Partial<Omit<Value, StoreSet>> | ((record: Value) => Partial<Omit<Value, StoreSet>>),
  ): Promise<Value> {
    for (;;) {
      const stored = await this.#own(caller, id);
      const changed = typeof change === 'function' ? change(stored.record) : change;
      const updatedAt = this.#after(stored.record);
      const record = this.#options.schema.parse({ ...stored.record, ...changed, updatedAt });
      const counts = this.#options.addsToQuota?.(record, stored.record) === true;
      if (counts ? await this.#writeCounted(caller, record) : await this.#write(record, stored)) {
        return record;
      }
    }
  }

  /** Throws Problem 404. Rejects like `find`. */
  async delete(caller: Caller, id: string): Promise<void> {
    for (;;) {
      const { revision } = await this.#own(caller, id);
      try {
        await this.#bucket.delete(this.#keyOf(id), revision);
        // The watch delivers the actual revision later.
        this.#learn(id, revision + 1, undefined);
        return;
      } catch (error) {
        if (!(error instanceof KvConflictError)) throw error;
      }
    }
  }

  /** Changes a record for the service itself. Undefined if it was deleted. Rejects with NatsUnavailableError. */
  async change(id: string, change: (record: Value) => Value): Promise<Value | undefined> {
    for (;;) {
      const stored = await this.#fetch(id);
      if (stored === undefined) return undefined;
      const changed = change(stored.record);
      if (changed === stored.record) return changed;
      const record = { ...changed, updatedAt: this.#after(stored.record) };
      if (await this.#write(record, stored)) return record;
    }
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.watching;
  }

  #keyOf(id: string): string {
    return `${this.#options.noun}.${id}`;
  }

  /** Reads the record from the bucket, for a compare-and-set. */
  async #own(caller: Caller, id: string): Promise<Stored<Value>> {
    const stored = ID.test(id) ? await this.#fetch(id) : undefined;
    if (stored?.record.account !== caller.account) throw this.#notFound(id);
    return stored;
  }

  async #fetch(id: string): Promise<Stored<Value> | undefined> {
    const entry = await this.#bucket.get(this.#keyOf(id));
    const record = entry === undefined ? undefined : this.#parse(id, entry.value);
    if (entry === undefined || record === undefined) return undefined;
    this.#learn(id, entry.revision, record);
    return { revision: entry.revision, record };
  }

  /** Tries once to replace a record. Returns false if another write came first, after the watch has delivered it. */
  async #write(record: Value, stored: Stored<Value>): Promise<boolean> {
    const seen = this.#seen;
    try {
      const [key, value] = [this.#keyOf(record.id), JSON.stringify(record)];
      this.#learn(record.id, await this.#bucket.update(key, value, stored.revision), record);
      return true;
    } catch (error) {
      if (!(error instanceof KvConflictError)) throw error;
    }
    await this.#changedSince(seen);
    return false;
  }

  /**
   * The same for a record that adds to a quota. It is stored only if the whole bucket is unchanged since the records were
   * counted, so the quota is exact across all processes.
   */
  async #writeCounted(caller: Caller, record: Value): Promise<boolean> {
    const seen = this.#seen;
    const others = this.list(caller.account).filter(({ id }) => id !== record.id);
    const isNew = this.known(record.id) === undefined;
    const problem = this.#options.overQuota(caller, record, { others, isNew });
    // Another process may have just deleted records that still count here.
    if (problem !== undefined && (await this.#bucket.revision()) <= seen) throw problem;
    try {
      if (problem === undefined) {
        const [key, value] = [this.#keyOf(record.id), JSON.stringify(record)];
        this.#learn(record.id, await this.#bucket.putAfter(key, value, seen), record);
        return true;
      }
    } catch (error) {
      if (!(error instanceof KvConflictError)) throw error;
    }
    await this.#changedSince(seen);
    return false;
  }

  /** Resolves when the watch has delivered a write after the given revision. */
  async #changedSince(revision: number): Promise<void> {
    const deadline = delay(WATCH_MS_MAX, 'late' as const, { ref: false });
    while (this.#seen <= revision) {
      if ((await Promise.race([this.#changed.promise, deadline])) === 'late') {
        throw new NatsUnavailableError(`the watch of the ${this.#options.noun}s is behind`);
      }
    }
  }

  /** A time after the last change, even within the same millisecond. */
  #after({ updatedAt }: Value): string {
    return new Date(Math.max(this.#now(), Date.parse(updatedAt) + 1)).toISOString();
  }

  #receive(event: KvEvent): void {
    const prefix = this.#keyOf('');
    if (event.type !== 'initialised' && event.key.startsWith(prefix)) {
      const id = event.key.slice(prefix.length);
      const record = event.type === 'put' ? this.#parse(id, event.value) : undefined;
      this.#learn(id, event.revision, record);
      // The revision of a record that was deleted here is needed until the watch delivers the deletion.
      if (event.type === 'delete') this.#known.forget(id);
    }
    // The initial values do not arrive in the order of their revisions.
    if (event.type === 'initialised') this.#isInitialised = true;
    if (!this.#isInitialised) return;
    this.#seen = Math.max(this.#seen, event.revision);
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }

  #learn(id: string, revision: number, record: Value | undefined): void {
    // What the watch has delivered and is unknown was deleted.
    if (revision <= (this.#known.get(id)?.revision ?? this.#seen)) return;
    this.#known.set(id, revision, record);
    this.#options.onChange?.(id, record);
  }

  #parse(id: string, value: Uint8Array): Value | undefined {
    const { bucket, logger, schema } = this.#options;
    const record = parseValue(schema, value);
    // For clients, an unreadable record does not exist.
    if (record === undefined) logger.error({ id }, `unreadable record in the ${bucket} bucket`);
    return record;
  }

  #notFound(id: string): Problem {
    const { noun } = this.#options;
    const detail = `this account has no ${noun} ${ID.test(id) ? id : 'with this id'}`;
    return new Problem({ error: 'not_found', detail });
  }
}

/** A version 8 UUID from the first 16 bytes of a seed. */
function uuidOf(seed: Buffer): string {
  const bytes = Buffer.from(seed.subarray(0, 16));
  bytes.writeUInt8(0x80 | (bytes.readUInt8(6) & 0x0f), 6);
  bytes.writeUInt8(0x80 | (bytes.readUInt8(8) & 0x3f), 8);
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}
