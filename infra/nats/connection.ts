// The connection to NATS JetStream and what a process must know before it reads or writes:
// where it is, how to be let in, and one error class for an absent server. Streams, publishing, tailing,
// finite reads and key-value buckets build on this file (streams.ts, publisher.ts,
// reader.ts, read.ts, kv.ts); nothing else in the repository imports the client library.
// It deliberately does not log: status changes go to the caller's onStatus.
import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import {
  JetStreamApiError,
  type JetStreamClient,
  type JetStreamManager,
  jetstream,
} from '@nats-io/jetstream';
import {
  connect,
  credsAuthenticator,
  errors,
  type NatsConnection,
  type NodeConnectionOptions,
  type Status,
} from '@nats-io/transport-node';
import type { NatsConfig } from '../config.ts';
import { leaveLonelyServers } from './quorum.ts';
import { identityCheck, isTlsRefusal } from './tls.ts';

/** What the connection reports: library states without its periodic pings. */
export type NatsStatus = Exclude<Status, { type: 'ping' }>;

export type NatsStatusListener = (status: NatsStatus) => void;

/** One connection, its JetStream clients, and whether the server can be reached right now. */
export type Nats = {
  readonly connection: NatsConnection;
  readonly js: JetStreamClient;
  readonly jsm: JetStreamManager;
  readonly connected: boolean;
  /** Whether its user would rather wait for a server than fail. */
  readonly isPatient: boolean;
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
  /** Called when no server is there at the start, and every 10 s as long as that is so. */
  readonly onWait?: (error: NatsUnavailableError) => void;
};

/** Where NATS is and how to be let in, as every process reads it from its configuration. */
export function natsOptions(config: NatsConfig): Omit<NatsOptions, 'name'> {
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

/** The server does not accept the credentials, or one does not trust the other's certificate. */
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

const RECONNECT_WAIT_MS = 200;
const PING_INTERVAL_MS = 2_000;
const PINGS_OUT_MAX = 2;
const CONNECT_MS_MAX = 10_000;
const TOLD_EVERY_MS = 10_000;

/**
 * Connects and stays connected: waits for the first server and never gives up after it.
 *
 * Throws NatsRefusedError when the server refuses the credentials or TLS fails for want of trust,
 * NatsUnavailableError when there is no server and it must not wait; else only wrong options reject.
 */
export async function connectNats(options: NatsOptions): Promise<Nats> {
  const servers = options.url.split(',').map((url) => url.trim());
  const wanted = {
    servers,
    name: options.name,
    maxReconnectAttempts: -1,
    reconnectTimeWait: RECONNECT_WAIT_MS,
    pingInterval: PING_INTERVAL_MS,
    maxPingOut: PINGS_OUT_MAX,
    ...(options.user === undefined ? {} : { user: options.user }),
    ...(options.password === undefined ? {} : { pass: options.password }),
    ...(options.token === undefined ? {} : { token: options.token }),
    ...(options.credentialsFile === undefined
      ? {}
      : { authenticator: credsAuthenticator(readFileSync(options.credentialsFile)) }),
    ...(options.tls === undefined
      ? {}
      : { tls: { ...options.tls, ...{ checkServerIdentity: identityCheck(servers) } } }),
  };
  const connection = await firstConnection(wanted, options);
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
    isPatient: options.isPatient ?? true,
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
/** A cluster that is starting knows too few servers for the copies asked for. */
const NO_SUITABLE_PEERS = 10005;

/** Maps an error of the client library to this file's classes; any other stays itself. */
function classified(error: unknown, stream: string): unknown {
  if (error instanceof JetStreamApiError) {
    if (error.code === STREAM_NOT_FOUND) return new StreamMissingError(stream, { cause: error });
    // 5xx: no leader, no quorum, starting up, out of resources.
    if (error.status >= 500 || error.code === NO_SUITABLE_PEERS) {
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

/** Waits here and not in the library, which would wait without a word for who does not trust it. */
async function firstConnection(
  wanted: NodeConnectionOptions,
  { isPatient = true, onWait = () => undefined }: NatsOptions,
): Promise<NatsConnection> {
  for (let toldAt = Number.NEGATIVE_INFINITY; ; await delay(RECONNECT_WAIT_MS)) {
    try {
      return await connectWith(wanted);
    } catch (error) {
      if (!isPatient || !(error instanceof NatsUnavailableError)) throw error;
      if (performance.now() - toldAt < TOLD_EVERY_MS) continue;
      toldAt = performance.now();
      onWait(error);
    }
  }
}

async function connectWith(options: NodeConnectionOptions): Promise<NatsConnection> {
  const limit = new AbortController();
  // A server that wants a client certificate and gets none leaves the library waiting for ever.
  const late = delay(CONNECT_MS_MAX, undefined, { signal: limit.signal }).then(() => {
    throw new NatsUnavailableError('NATS does not answer: does it want a client certificate?');
  });
  try {
    return await Promise.race([connect(options), late]);
  } catch (error) {
    if (error instanceof errors.AuthorizationError) {
      throw new NatsRefusedError('NATS refused the credentials', { cause: error });
    }
    const cause = error instanceof Error ? (error.cause ?? error) : error;
    if (isTlsRefusal(cause)) {
      throw new NatsRefusedError(`TLS with NATS fails: ${cause.message}`, { cause: error });
    }
    if (error instanceof errors.ConnectionError || error instanceof errors.TimeoutError) {
      throw new NatsUnavailableError(
        `no NATS server can be reached at NATS_URL (${[options.servers].flat().join(', ')})`,
        { cause: error },
      );
    }
    throw error;
  } finally {
    late.catch(() => undefined);
    limit.abort();
  }
}
