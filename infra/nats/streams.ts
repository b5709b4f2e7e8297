/** Creates and updates streams, and checks that the server accepted the requested configuration. */
import {
  DiscardPolicy,
  JetStreamApiError,
  RetentionPolicy,
  StorageType,
  type StreamConfig,
} from '@nats-io/jetstream';
import { nanos } from '@nats-io/transport-node';
import { retry } from '../retry.ts';
import { answered, type Nats, NatsUnavailableError, StreamMissingError } from './connection.ts';

/** The server's stream differs from the requested one, or the server rejected the change. */
export class StreamConfigError extends Error {
  override readonly name = 'StreamConfigError';
}

/** A requested stream; omitted fields take the stated default. */
export type StreamSpec = {
  readonly name: string;
  readonly subjects: readonly string[];
  /** 0, the default, keeps messages forever. */
  readonly maxAgeMs?: number;
  /** -1, the default, sets no limit. */
  readonly maxBytes?: number;
  /** 1 MiB by default. */
  readonly maxMessageBytes?: number;
  /** -1, the default, sets no limit. */
  readonly maxMessagesPerSubject?: number;
  /** 1 by default; 3 in a cluster. */
  readonly replicas?: number;
  /** Other fields. If the server is too old to support one, StreamConfigError is thrown. */
  readonly extra?: Partial<StreamConfig>;
};

const MESSAGE_BYTES_MAX = 1_048_576;
const DUPLICATE_WINDOW_MS = 120_000;
/** A cluster whose servers start at the same time elects a leader within 5 to 15 s. */
const LEADER_MS_MAX = 120_000;

/**
 * Creates the stream, or updates an existing one to this configuration, but never to fewer replicas. Servers before
 * 2.11 silently drop unknown fields, so the response is compared with the request. Throws StreamConfigError if they differ
 * or the change is rejected, and NatsUnavailableError if no server can do it. A patient connection retries for
 * LEADER_MS_MAX first, because a starting cluster may have no leader yet, or too few servers for the replicas.
 */
export async function ensureStream(nats: Nats, spec: StreamSpec): Promise<void> {
  await patiently(nats, () => createOrUpdate(nats, spec));
}

/** Creates the stream unless it exists, with any configuration. Throws like `ensureStream`. */
export async function createStream(nats: Nats, spec: StreamSpec): Promise<void> {
  await patiently(nats, async () => {
    if ((await currentConfig(nats, spec.name)) === undefined) await create(nats, spec);
  });
}

async function patiently(nats: Nats, attempt: () => Promise<void>): Promise<void> {
  await retry(attempt, {
    isRetryable: (error) => nats.isPatient && error instanceof NatsUnavailableError,
    giveUpAfterMs: LEADER_MS_MAX,
  });
}

async function createOrUpdate(nats: Nats, spec: StreamSpec): Promise<void> {
  const existing = (await currentConfig(nats, spec.name)) ?? (await create(nats, spec));
  if (existing === undefined) return;
  // A command that was started without NATS_REPLICAS must not remove copies.
  const replicas = Math.max(spec.replicas ?? 1, existing.num_replicas);
  const wanted = streamConfig({ ...spec, replicas });
  if (differences(wanted, existing).length === 0) return;
  requireSame(wanted, await send(nats, wanted, false));
}

/** Creates the stream. If another process was faster, returns the configuration that it gave the stream. */
async function create(nats: Nats, spec: StreamSpec): Promise<StreamConfig | undefined> {
  const wanted = streamConfig(spec);
  let created: StreamConfig;
  try {
    created = await send(nats, wanted, true);
  } catch (error) {
    const existing =
      error instanceof StreamConfigError ? await currentConfig(nats, spec.name) : undefined;
    if (existing === undefined) throw error;
    return existing;
  }
  requireSame(wanted, created);
  return undefined;
}

function requireSame(wanted: ReturnType<typeof streamConfig>, stored: StreamConfig): void {
  const left = differences(wanted, stored);
  if (left.length === 0) return;
  throw new StreamConfigError(
    `stream ${wanted.name} differs from the requested one: ${left.join(', ')}`,
  );
}

function streamConfig(spec: StreamSpec): Partial<StreamConfig> & { name: string } {
  const maxAgeMs = spec.maxAgeMs ?? 0;
  return {
    name: spec.name,
    subjects: [...spec.subjects],
    storage: StorageType.File,
    retention: RetentionPolicy.Limits,
    discard: DiscardPolicy.Old,
    max_age: nanos(maxAgeMs),
    max_bytes: spec.maxBytes ?? -1,
    max_msg_size: spec.maxMessageBytes ?? MESSAGE_BYTES_MAX,
    max_msgs_per_subject: spec.maxMessagesPerSubject ?? -1,
    duplicate_window: nanos(
      maxAgeMs === 0 ? DUPLICATE_WINDOW_MS : Math.min(DUPLICATE_WINDOW_MS, maxAgeMs),
    ),
    allow_direct: true,
    num_replicas: spec.replicas ?? 1,
    ...spec.extra,
  };
}

async function currentConfig(nats: Nats, stream: string): Promise<StreamConfig | undefined> {
  try {
    return (await answered(nats, stream, () => nats.jsm.streams.info(stream))).config;
  } catch (error) {
    if (error instanceof StreamMissingError) return undefined;
    throw error;
  }
}

async function send(
  nats: Nats,
  wanted: Partial<StreamConfig> & { name: string },
  isNew: boolean,
): Promise<StreamConfig> {
  const { streams } = nats.jsm;
  try {
    const info = await answered(nats, wanted.name, () =>
      isNew ? streams.add(wanted) : streams.update(wanted.name, wanted),
    );
    return info.config;
  } catch (error) {
    if (!(error instanceof JetStreamApiError)) throw error;
    throw new StreamConfigError(`stream ${wanted.name} was rejected`, { cause: error });
  }
}

/** Fields of `wanted` that are missing from `stored` or have another value there. */
function differences(wanted: object, stored: object): string[] {
  const values = new Map<string, unknown>(Object.entries(stored));
  return Object.entries(wanted)
    .filter(([field, value]) => !contains(values.get(field), value))
    .map(([field]) => field);
}

/** Whether `stored` contains everything of `wanted`; a server may add defaults. */
function contains(stored: unknown, wanted: unknown): boolean {
  if (wanted === undefined || stored === wanted) return true;
  // Servers omit false from their response.
  if (wanted === false) return stored === undefined;
  if (typeof wanted !== 'object' || wanted === null) return false;
  if (typeof stored !== 'object' || stored === null) return false;
  if (Array.isArray(wanted) && wanted.length !== Object.keys(stored).length) return false;
  return differences(wanted, stored).length === 0;
}

const DELETES_AT_ONCE = 64;

/** Deletes messages, highest sequence first, several at a time. After an interruption it can be repeated. */
export async function removeMessages(
  nats: Nats,
  stream: string,
  sequences: readonly number[],
): Promise<void> {
  const descending = sequences.toSorted((a, b) => b - a);
  for (let i = 0; i < descending.length; i += DELETES_AT_ONCE) {
    const some = descending.slice(i, i + DELETES_AT_ONCE);
    await Promise.all(
      some.map((sequence) =>
        answered(nats, stream, () => nats.jsm.streams.deleteMessage(stream, sequence, false)),
      ),
    );
  }
}

/** Deletes all messages up to this sequence. */
export async function removeUpTo(nats: Nats, stream: string, sequence: number): Promise<void> {
  await answered(nats, stream, () => nats.jsm.streams.purge(stream, { seq: sequence + 1 }));
}
