// The connection to NATS JetStream and what a process must know before it reads or writes:
// streams exist exactly as asked, and an absent server has one error class. Publishing, tailing,
// finite reads and key-value buckets build on this file (nats-publisher.ts, nats-tail.ts,
// nats-read.ts, nats-kv.ts); nothing else in the repository imports the client library.
// It deliberately does not log: status changes go to the caller's onStatus.
import { readFileSync } from 'node:fs';
import {
  DiscardPolicy,
  JetStreamApiError,
  type JetStreamClient,
  type JetStreamManager,
  jetstream,
  RetentionPolicy,
  StorageType,
  type StreamConfig,
} from '@nats-io/jetstream';
import {
  connect,
  credsAuthenticator,
  errors,
  type NatsConnection,
  type NodeConnectionOptions,
  nanos,
  type Status,
} from '@nats-io/transport-node';
import type { Config } from './config.ts';
import { leaveLonelyServers } from './nats-quorum.ts';

/** What the connection reports: library states without its periodic pings. */
export type NatsStatus = Exclude<Status, { type: 'ping' }>;

export type NatsStatusListener = (status: NatsStatus) => void;

/** One connection, its JetStream clients, and whether the server can be reached right now. */
export type Nats = {
  readonly connection: NatsConnection;
  readonly js: JetStreamClient;
  readonly jsm: JetStreamManager;
  readonly connected: boolean;
  /** Adds a listener for status changes; call the returned function to remove it. */
  onStatus(listener: NatsStatusListener): () => void;
  close(): Promise<void>;
};

export type NatsOptions = {
  /** One url or several, separated by commas: `nats://a:4222,nats://b:4222`. */
  readonly url: string;
  /** Shown in the server's connection list. */
  readonly name: string;
  readonly user?: string;
  readonly password?: string;
  /** Token authentication; excludes user and password. */
  readonly token?: string;
  /** Path of a credentials file (JWT and seed), as `nsc` writes it. */
  readonly credentialsFile?: string;
  /** Paths or PEM text, as node's TLS takes them; `{}` asks for TLS with the system's roots. */
  readonly tls?: NodeConnectionOptions['tls'];
  readonly onStatus?: NatsStatusListener;
  /** Waits for the first server, the default; a command would rather fail. */
  readonly isPatient?: boolean;
};

/** Where NATS is and how to be let in, as every process reads it from its configuration. */
export function natsOptions(config: Config): Omit<NatsOptions, 'name'> {
  const { NATS_USER, NATS_PASSWORD, NATS_TOKEN, NATS_CREDS } = config;
  const { NATS_TLS_CA: caFile, NATS_TLS_CERT: certFile, NATS_TLS_KEY: keyFile } = config;
  const tls = {
    ...(caFile === undefined ? {} : { caFile }),
    ...(certFile === undefined ? {} : { certFile }),
    ...(keyFile === undefined ? {} : { keyFile }),
  };
  return {
    url: config.NATS_URL,
    ...(NATS_USER === undefined ? {} : { user: NATS_USER }),
    ...(NATS_PASSWORD === undefined ? {} : { password: NATS_PASSWORD }),
    ...(NATS_TOKEN === undefined ? {} : { token: NATS_TOKEN }),
    ...(NATS_CREDS === undefined ? {} : { credentialsFile: NATS_CREDS }),
    // A tls:// URL asks for TLS with the system's roots.
    ...(Object.keys(tls).length > 0 || config.NATS_URL.startsWith('tls:') ? { tls } : {}),
  };
}

/** The server cannot answer now: no connection, no responders, no leader, or a timeout.
 *  Whether a write happened is unknown. Retrying later is right. */
export class NatsUnavailableError extends Error {
  override readonly name = 'NatsUnavailableError';
}

/** The server does not accept the credentials. */
export class NatsRefusedError extends Error {
  override readonly name = 'NatsRefusedError';
}

/** The stream does not exist. */
export class StreamMissingError extends Error {
  override readonly name = 'StreamMissingError';
  constructor(stream: string, options?: ErrorOptions) {
    super(`stream ${stream} does not exist`, options);
  }
}

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

const RECONNECT_WAIT_MS = 200;
const PING_INTERVAL_MS = 2_000;
const PINGS_OUT_MAX = 2;
const MESSAGE_BYTES_MAX = 1_048_576;
const DUPLICATE_WINDOW_MS = 120_000;

/**
 * Connects and stays connected: waits for the first server and never gives up after it.
 *
 * Throws NatsRefusedError when the server refuses the credentials, NatsUnavailableError when there
 * is none and it must not wait; otherwise only wrong options reject.
 */
export async function connectNats(options: NatsOptions): Promise<Nats> {
  const connection = await connectWith({
    servers: options.url.split(',').map((url) => url.trim()),
    name: options.name,
    maxReconnectAttempts: -1,
    reconnectTimeWait: RECONNECT_WAIT_MS,
    pingInterval: PING_INTERVAL_MS,
    maxPingOut: PINGS_OUT_MAX,
    waitOnFirstConnect: options.isPatient ?? true,
    ...(options.user === undefined ? {} : { user: options.user }),
    ...(options.password === undefined ? {} : { pass: options.password }),
    ...(options.token === undefined ? {} : { token: options.token }),
    ...(options.credentialsFile === undefined
      ? {}
      : { authenticator: credsAuthenticator(readFileSync(options.credentialsFile)) }),
    ...(options.tls === undefined ? {} : { tls: options.tls }),
  });
  const js = jetstream(connection);
  const jsm = await js.jetstreamManager(false);
  if (options.url.includes(',')) leaveLonelyServers(connection, js.apiPrefix);
  const listeners = new Set<NatsStatusListener>();
  if (options.onStatus !== undefined) listeners.add(options.onStatus);
  let connected = true;

  async function watch(): Promise<void> {
    for await (const status of connection.status()) {
      if (status.type === 'ping') continue;
      if (status.type === 'disconnect' || status.type === 'close') connected = false;
      if (status.type === 'reconnect') connected = true;
      for (const listener of listeners) listener(status);
    }
    connected = false;
  }
  void watch();

  return {
    connection,
    js,
    jsm,
    get connected() {
      return connected && !connection.isClosed();
    },
    onStatus(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    close: () => connection.close(),
  };
}

/**
 * Creates the stream, or brings an existing one to the given configuration.
 *
 * Servers before 2.11 drop fields they do not know without a word, so what they answer is
 * compared with what was asked. Throws StreamConfigError on a difference or a refused change,
 * NatsUnavailableError when no server answers.
 */
export async function ensureStream(nats: Nats, spec: StreamSpec): Promise<void> {
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

/** The range of sequences that a stream holds; firstSequence is lastSequence + 1 when empty. */
export async function streamState(
  nats: Nats,
  stream: string,
): Promise<{ firstSequence: number; lastSequence: number; messages: number }> {
  const { state } = await answered(nats, stream, () => nats.jsm.streams.info(stream));
  return stateOf(state);
}

function stateOf(state: { first_seq: number; last_seq: number; messages: number }) {
  return {
    // A stream that never held a message reports 0 and 0; a purged one last + 1 and last.
    firstSequence: Math.max(state.first_seq, 1),
    lastSequence: state.last_seq,
    messages: state.messages,
  };
}

/** Longer than a cluster takes for a new leader that has read its log, or for one to notice that it is none. */
const DOUBT_MS = 15_000;
const doubts = new WeakMap<Nats, Map<string, number>>();

/**
 * As streamState, for a reader that knows the stream to have held `sequence`. Where a stream has
 * several copies, a leader that was just cut off or just elected may answer for a moment with an
 * earlier end. So one that seems to end before `sequence` is believed only after it has said so for
 * DOUBT_MS; until then this throws NatsUnavailableError.
 */
export async function streamStateBeyond(
  nats: Nats,
  stream: string,
  sequence: number,
): Promise<{ firstSequence: number; lastSequence: number; messages: number }> {
  const { config, state } = await answered(nats, stream, () => nats.jsm.streams.info(stream));
  const since = doubts.get(nats) ?? new Map<string, number>();
  if (state.last_seq >= sequence || config.num_replicas === 1) {
    since.delete(stream);
    return stateOf(state);
  }
  const now = performance.now();
  const doubtedAt = since.get(stream) ?? now;
  doubts.set(nats, since.set(stream, doubtedAt));
  if (now - doubtedAt >= DOUBT_MS) return stateOf(state);
  throw new NatsUnavailableError(
    `${stream} seems to end at ${state.last_seq}, before ${sequence}: asking again`,
  );
}

/**
 * Makes one request about a stream and gives its failure one of this file's classes.
 *
 * Throws NatsUnavailableError at once while disconnected, and when the connection breaks before
 * the answer: the library would wait for its timeout of 5 s.
 */
export async function answered<T>(nats: Nats, stream: string, call: () => Promise<T>): Promise<T> {
  if (!nats.connected) throw new NatsUnavailableError(`not connected; asked about ${stream}`);
  const broken = Promise.withResolvers<never>();
  const removeListener = nats.onStatus(({ type }) => {
    if (type !== 'disconnect' && type !== 'close') return;
    broken.reject(new NatsUnavailableError(`the connection broke; asked about ${stream}`));
  });
  try {
    return await Promise.race([call(), broken.promise]);
  } catch (error) {
    throw classified(error, stream);
  } finally {
    removeListener();
  }
}

const STREAM_NOT_FOUND = 10059;

/** Maps an error of the client library to this file's classes; any other stays itself. */
function classified(error: unknown, stream: string): unknown {
  if (error instanceof JetStreamApiError) {
    if (error.code === STREAM_NOT_FOUND) return new StreamMissingError(stream, { cause: error });
    // 5xx: no leader, no quorum, starting up, out of resources.
    if (error.status >= 500) {
      return new NatsUnavailableError(`JetStream cannot serve ${stream} now`, { cause: error });
    }
    return error;
  }
  const unreachable =
    error instanceof errors.TimeoutError ||
    error instanceof errors.NoRespondersError ||
    error instanceof errors.RequestError ||
    // A publish for whose subject nobody answers: its own class is not exported.
    (error instanceof Error && error.cause instanceof errors.RequestError) ||
    error instanceof errors.ConnectionError ||
    error instanceof errors.ClosedConnectionError ||
    error instanceof errors.DrainingConnectionError;
  return unreachable
    ? new NatsUnavailableError(`no answer from NATS about ${stream}`, { cause: error })
    : error;
}

async function connectWith(options: NodeConnectionOptions): Promise<NatsConnection> {
  try {
    return await connect(options);
  } catch (error) {
    if (error instanceof errors.AuthorizationError) {
      throw new NatsRefusedError('NATS refused the credentials', { cause: error });
    }
    if (error instanceof errors.ConnectionError) {
      throw new NatsUnavailableError('no NATS server can be reached at NATS_URL', { cause: error });
    }
    throw error;
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
