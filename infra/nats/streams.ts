// Streams as this project asks for them: created, or brought to the configuration that is wanted, and
// compared with what the server says it stores.
import { setTimeout as delay } from 'node:timers/promises';
import {
  DiscardPolicy,
  JetStreamApiError,
  RetentionPolicy,
  StorageType,
  type StreamConfig,
} from '@nats-io/jetstream';
import { nanos } from '@nats-io/transport-node';
import { answered, type Nats, NatsUnavailableError, StreamMissingError } from './connection.ts';

/** The server holds a stream that differs from the one asked for, or refuses the change. */
export class StreamConfigError extends Error {
  override readonly name = 'StreamConfigError';
}

/** A stream as this project asks for it; a field that is left out takes the stated default. */
export type StreamSpec = {
  readonly name: string;
  readonly subjects: readonly string[];
  /** 0, the default, keeps messages for ever. */
  readonly maxAgeMs?: number;
  /** -1, the default, sets no limit. */
  readonly maxBytes?: number;
  /** How long a message id is remembered; 120,000 by default, never above maxAgeMs. */
  readonly duplicateWindowMs?: number;
  /** 1 MiB by default. */
  readonly maxMessageBytes?: number;
  /** -1, the default, sets no limit. */
  readonly maxMessagesPerSubject?: number;
  /** 1 by default; 3 in a cluster. */
  readonly replicas?: number;
  /** Fields that only newer servers know. A server that ignores one is an error here. */
  readonly extra?: Partial<StreamConfig>;
};

const MESSAGE_BYTES_MAX = 1_048_576;
const DUPLICATE_WINDOW_MS = 120_000;
/** Servers of a cluster that are started together agree on a leader in 5 to 15 s. */
const LEADER_MS_MAX = 120_000;
const LEADER_RETRY_MS = { least: 100, most: 2_000 };

/**
 * Creates the stream, or brings an existing one to the given configuration.
 *
 * Servers before 2.11 drop fields they do not know without a word, so what they answer is
 * compared with what was asked. Throws StreamConfigError on a difference or a refused change,
 * NatsUnavailableError when no server can: a patient connection gives a cluster that has no leader
 * yet, or too few servers for the copies, LEADER_MS_MAX.
 */
export async function ensureStream(nats: Nats, spec: StreamSpec): Promise<void> {
  const giveUpAt = performance.now() + (nats.isPatient ? LEADER_MS_MAX : 0);
  for (let waitMs = LEADER_RETRY_MS.least; ; waitMs = Math.min(waitMs * 2, LEADER_RETRY_MS.most)) {
    try {
      return await bringTo(nats, spec);
    } catch (error) {
      if (!(error instanceof NatsUnavailableError) || performance.now() > giveUpAt) throw error;
      await delay(waitMs);
    }
  }
}

async function bringTo(nats: Nats, spec: StreamSpec): Promise<void> {
  const wanted = streamConfig(spec);
  const existing = await currentConfig(nats, spec.name);
  if (existing !== undefined && differences(wanted, existing).length === 0) return;
  const left = differences(wanted, await createOrUpdate(nats, wanted, existing === undefined));
  if (left.length > 0) {
    throw new StreamConfigError(
      `stream ${spec.name} differs from what was asked: ${left.join(', ')}`,
    );
  }
}

function streamConfig(spec: StreamSpec): Partial<StreamConfig> & { name: string } {
  const maxAgeMs = spec.maxAgeMs ?? 0;
  const windowMs = spec.duplicateWindowMs ?? DUPLICATE_WINDOW_MS;
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
    duplicate_window: nanos(maxAgeMs === 0 ? windowMs : Math.min(windowMs, maxAgeMs)),
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

async function createOrUpdate(
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
    throw new StreamConfigError(`stream ${wanted.name} was refused`, { cause: error });
  }
}

function differences(wanted: Partial<StreamConfig>, stored: StreamConfig): string[] {
  const answered = new Map<string, unknown>(Object.entries(stored));
  return Object.entries(wanted)
    .filter(([field, value]) => !contains(answered.get(field), value))
    .map(([field]) => field);
}

/** True when `stored` holds everything of `wanted`; a server may add defaults of its own. */
function contains(stored: unknown, wanted: unknown): boolean {
  if (wanted === undefined || stored === wanted) return true;
  // Servers leave false out of their answer.
  if (wanted === false) return stored === undefined;
  if (Array.isArray(wanted)) {
    return (
      Array.isArray(stored) &&
      stored.length === wanted.length &&
      wanted.every((value, index) => contains(stored[index], value))
    );
  }
  if (typeof wanted !== 'object' || wanted === null) return false;
  if (typeof stored !== 'object' || stored === null) return false;
  const answered = new Map<string, unknown>(Object.entries(stored));
  return Object.entries(wanted).every(([field, value]) => contains(answered.get(field), value));
}
