/**
 * Key-value buckets: small shared state with compare-and-set, for example leases and managed streams. When a write
 * resolves, it is stored. A watch survives restarts of the server, reports the newest value of every key, and never an
 * older value after a newer one. It uses `tail`, because the library's watcher does not recover from a restart in time.
 * Watches do not report that a key expired.
 */
import { DiscardPolicy } from '@nats-io/jetstream';
import { Kvm } from '@nats-io/kv';
import { z } from 'zod';
import { answered, isOvertaken, type Nats, streamState } from './connection.ts';
import { type StreamMessage, storedSince, tail } from './reader.ts';
import { ensureStream } from './streams.ts';

export type KvOptions = {
  /** Lifetime of a key after its last write; 0, the default, means forever. */
  readonly ttlMs?: number;
  /** 1 by default; 3 in a cluster. */
  readonly replicas?: number;
};

type KvEntry = {
  readonly key: string;
  readonly value: Uint8Array;
  /** Grows with every write in the bucket, so it can be used as a fencing token. */
  readonly revision: number;
  readonly timestampMs: number;
};

export type KvEvent =
  | ({ readonly type: 'put' } & KvEntry)
  | { readonly type: 'delete'; readonly key: string; readonly revision: number }
  /** Sent once, after all values that the bucket held at this revision. */
  | { readonly type: 'initialised'; readonly revision: number };

/** The key already exists (create), or has another revision (update, delete). */
export class KvConflictError extends Error {
  override readonly name = 'KvConflictError';
  constructor(key: string, options?: ErrorOptions) {
    super(`another write of ${key} came first`, options);
  }
}

/** A write that rejects with NatsUnavailableError may or may not have happened. */
export type Kv = {
  /** Undefined when the key never existed, was deleted or expired. */
  get(key: string): Promise<KvEntry | undefined>;
  /** Resolves with the new revision. */
  put(key: string, value: Uint8Array | string): Promise<number>;
  /** Writes only if the key does not exist. Throws KvConflictError otherwise. */
  create(key: string, value: Uint8Array | string): Promise<number>;
  /** Writes only if the key still has this revision. Throws KvConflictError otherwise. */
  update(key: string, value: Uint8Array | string, revision: number): Promise<number>;
  /**
   * Writes only if nothing was written to the bucket after this revision, which must be > 0.
   * Throws KvConflictError otherwise.
   */
  putAfter(key: string, value: Uint8Array | string, bucketRevision: number): Promise<number>;
  /** The revision of the last write in the bucket; 0 if there was none. */
  revision(): Promise<number>;
  /**
   * With a revision, deletes only if the key still has it, and throws KvConflictError otherwise. The mark of the deletion
   * stays: without it, nats-server 2.10 restores the value when it recovers from a crash (nats-server issue 8505).
   */
  delete(key: string, revision?: number): Promise<void>;
  /**
   * Yields the current values, then 'initialised', then changes until the signal aborts. If a key changes several times
   * quickly, only the last change may be reported.
   */
  watch(signal: AbortSignal): AsyncIterable<KvEvent>;
};

/** Opens a bucket. Creates it, or updates its settings, if necessary. */
export async function openKv(nats: Nats, bucket: string, options: KvOptions = {}): Promise<Kv> {
  const stream = `KV_${bucket}`;
  await ensureStream(nats, {
    name: stream,
    subjects: [`$KV.${bucket}.>`],
    maxAgeMs: options.ttlMs ?? 0,
    maxMessageBytes: -1,
    maxMessagesPerSubject: 1,
    replicas: options.replicas ?? 1,
    extra: { discard: DiscardPolicy.New, allow_rollup_hdrs: true, deny_delete: true },
  });
  // Without direct gets, the leader responds; a replica may lag behind.
  const kv = await new Kvm(nats.js).open(bucket, { allow_direct: false });
  const write = async <T>(key: string, call: () => Promise<T>): Promise<T> => {
    assertKey(key);
    try {
      return await answered(nats, stream, call);
    } catch (error) {
      if (isOvertaken(error)) throw new KvConflictError(key, { cause: error });
      throw error;
    }
  };

  return {
    get: async (key) => {
      assertKey(key);
      const entry = await answered(nats, stream, () => kv.get(key));
      if (entry?.operation !== 'PUT') return undefined;
      const { value, revision, created } = entry;
      return { key, value, revision, timestampMs: created.getTime() };
    },
    put: (key, value) => write(key, () => kv.put(key, value)),
    create: (key, value) => write(key, () => kv.create(key, value)),
    update: (key, value, revision) => write(key, () => kv.update(key, value, revision)),
    putAfter: async (key, value, lastSequence) => {
      const publish = () =>
        nats.js.publish(`$KV.${bucket}.${key}`, value, { expect: { lastSequence } });
      return (await write(key, publish)).seq;
    },
    revision: async () => (await streamState(nats, stream)).lastSequence,
    delete: (key, revision) =>
      write(key, () => kv.delete(key, revision === undefined ? {} : { previousSeq: revision })),
    watch: (signal) => watch(nats, bucket, stream, signal),
  };
}

// Stricter than the server, which allows wildcards.
const KEY = /^[-/_=a-zA-Z0-9]+(\.[-/_=a-zA-Z0-9]+)*$/;

function assertKey(key: string): void {
  if (KEY.test(key)) return;
  throw new RangeError('a key consists of letters, digits, - / _ = and single dots');
}

/**
 * Reports the current values of a bucket and then its changes, until the signal aborts. Resolves after the current
 * values; `watching` resolves when the watch ends and rejects if it fails.
 */
export async function follow(
  bucket: Pick<Kv, 'watch'>,
  signal: AbortSignal,
  report: (event: KvEvent) => void,
): Promise<{ readonly watching: Promise<void> }> {
  const initialised = Promise.withResolvers<void>();
  async function reportAll(): Promise<void> {
    for await (const event of bucket.watch(signal)) {
      report(event);
      if (event.type === 'initialised') initialised.resolve();
    }
  }
  const watching = reportAll();
  watching.catch(initialised.reject);
  await initialised.promise;
  return { watching };
}

/** Parses a JSON value of a bucket; undefined if it does not match the schema. */
export function parseValue<Schema extends z.ZodType>(
  schema: Schema,
  value: Uint8Array,
): z.output<Schema> | undefined {
  try {
    return schema.parse(JSON.parse(new TextDecoder().decode(value)));
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof z.ZodError) return undefined;
    throw error;
  }
}

async function* watch(
  nats: Nats,
  bucket: string,
  stream: string,
  signal: AbortSignal,
): AsyncGenerator<KvEvent> {
  const prefix = `$KV.${bucket}.`;
  const { lastSequence } = await streamState(nats, stream);
  let revision = lastSequence;
  // The stream keeps the last message of each key.
  for await (const message of storedSince(nats, stream, { sequence: 1 })) {
    const event = toEvent(message, prefix);
    revision = Math.max(revision, event.revision);
    if (event.type === 'put' || event.revision > lastSequence) yield event;
  }
  yield { type: 'initialised', revision };
  for await (const message of tail(nats, { stream, fromSequence: revision + 1, signal })) {
    yield toEvent(message, prefix);
  }
}

function toEvent(
  message: StreamMessage,
  prefix: string,
): Exclude<KvEvent, { type: 'initialised' }> {
  const key = message.subject.slice(prefix.length);
  const revision = message.sequence;
  // DEL or PURGE; a put has no such header.
  if (message.header('KV-Operation') !== '') return { type: 'delete', key, revision };
  return { type: 'put', key, value: message.data, revision, timestampMs: message.timestampMs };
}
