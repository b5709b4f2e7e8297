/**
 * The connection to NATS: authentication, TLS, reconnecting, leaving a server that is cut off from its
 * cluster, and requests about streams with their errors. Only infra/nats imports the client library.
 * Nothing here logs: status changes go to the caller's `onStatus`.
 */
import { readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { checkServerIdentity, type PeerCertificate } from 'node:tls';
import {
  JetStreamApiCodes,
  JetStreamApiError,
  type JetStreamClient,
  type JetStreamManager,
  jetstream,
} from '@nats-io/jetstream';
import {
  type Authenticator,
  connect,
  credsAuthenticator,
  errors,
  type NatsConnection,
  type NodeConnectionOptions,
  type Status,
  tokenAuthenticator,
  usernamePasswordAuthenticator,
} from '@nats-io/transport-node';
import type { NatsConfig } from '../config.ts';
import { retry } from '../retry.ts';

/** Status changes of the library, without its periodic pings. */
export type NatsStatus = Exclude<Status, { type: 'ping' }>;

export type NatsStatusListener = (status: NatsStatus) => void;

/** A connection and its JetStream clients. */
export type Nats = {
  readonly connection: NatsConnection;
  readonly js: JetStreamClient;
  readonly jsm: JetStreamManager;
  readonly connected: boolean;
  /** Whether operations wait for a server instead of failing. */
  readonly isPatient: boolean;
  /** Adds a listener for status changes; call the returned function to remove it. */
  onStatus(listener: NatsStatusListener): () => void;
  close(): Promise<void>;
};

export type NatsOptions = {
  /** One or several comma-separated URLs: `nats://a:4222,nats://b:4222`. */
  readonly url: string;
  /** Shown in the server's connection list. */
  readonly name: string;
  readonly authenticator?: Authenticator;
  /** `{}` requires TLS with the system's root certificates. */
  readonly tls?: NodeConnectionOptions['tls'];
  readonly onStatus?: NatsStatusListener;
  /** Waits for the first server (default); otherwise fails. */
  readonly isPatient?: boolean;
  /** Called before each new attempt to reach a first server, at most 5 s apart. */
  readonly onWait?: (error: unknown) => void;
  /** Ends the wait for a first server: rejects with the signal's reason. */
  readonly signal?: AbortSignal;
};

/** Connection options from a process's configuration. Throws when the credentials file cannot be read. */
export function natsOptions(config: NatsConfig): Omit<NatsOptions, 'name'> {
  const { NATS_TLS_CA: caFile, NATS_TLS_CERT: certFile, NATS_TLS_KEY: keyFile } = config;
  const tls = {
    ...(caFile === undefined ? {} : { caFile }),
    ...(certFile === undefined ? {} : { certFile }),
    ...(keyFile === undefined ? {} : { keyFile }),
  };
  const authenticator = authenticatorOf(config);
  return {
    url: config.NATS_URL,
    ...(authenticator === undefined ? {} : { authenticator }),
    // A tls:// URL requires TLS with the system's root certificates.
    ...(Object.keys(tls).length > 0 || config.NATS_URL.startsWith('tls:') ? { tls } : {}),
  };
}

function authenticatorOf(config: NatsConfig): Authenticator | undefined {
  const { NATS_USER, NATS_PASSWORD, NATS_TOKEN, NATS_CREDS } = config;
  if (NATS_CREDS !== undefined) return credsAuthenticator(readFileSync(NATS_CREDS));
  if (NATS_TOKEN !== undefined) return tokenAuthenticator(NATS_TOKEN);
  if (NATS_USER === undefined) return undefined;
  return usernamePasswordAuthenticator(NATS_USER, NATS_PASSWORD);
}

/**
 * The server cannot answer now: no connection, no responders, no leader, or a timeout. A write may or may
 * not have happened. Retry later.
 */
export class NatsUnavailableError extends Error {
  override readonly name = 'NatsUnavailableError';
}

/** The server rejects the credentials, or one side does not trust the other's certificate. */
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
/** The server's default limit, for streams without their own. */
const MESSAGE_BYTES_MAX = 1_048_576;

/**
 * Connects, and reconnects for as long as the connection is not closed.
 *
 * Throws NatsRefusedError when the server rejects the credentials or TLS fails for lack of trust, and
 * NatsUnavailableError when no server can be reached and `isPatient` is false.
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
    ...(options.authenticator === undefined ? {} : { authenticator: options.authenticator }),
    ...(options.tls === undefined
      ? {}
      : { tls: { ...options.tls, ...{ checkServerIdentity: identityCheck(servers) } } }),
  };
  const { isPatient = true, onWait = () => undefined, signal } = options;
  // Not by the library, which would retry silently even where trust is missing.
  const connection = await retry(() => connectWith(wanted), {
    isRetryable: (error) => isPatient && error instanceof NatsUnavailableError,
    onRetry: onWait,
    ...(signal === undefined ? {} : { signal }),
  });
  const js = jetstream(connection);
  const jsm = await js.jetstreamManager(false);
  if (servers.length > 1) void leaveLonelyServers(connection, js.apiPrefix);
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
    isPatient,
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

/** The range of sequences that a stream holds. */
export type StreamState = {
  /** lastSequence + 1 when the stream is empty. */
  readonly firstSequence: number;
  readonly lastSequence: number;
  readonly messages: number;
  /** Size of the largest message that the stream accepts. */
  readonly messageBytesMax: number;
};

/** Longer than a new leader takes to read its log, or a deposed one to notice. */
const DOUBT_MS = 15_000;
const doubts = new WeakMap<Nats, Map<string, number>>();

/**
 * The state of a stream that is known to have held the sequence `known`. In a cluster, a leader that was
 * just cut off or just elected may briefly report an earlier end. Such an end is believed only after it
 * was reported for DOUBT_MS; until then this throws NatsUnavailableError.
 */
export async function streamState(nats: Nats, stream: string, known = 0): Promise<StreamState> {
  const info = await answered(nats, stream, () => nats.jsm.streams.info(stream));
  const { config, state: reported } = info;
  const state = {
    // A stream that never held a message reports 0 and 0; a purged one last + 1 and last.
    firstSequence: Math.max(reported.first_seq, 1),
    lastSequence: reported.last_seq,
    messages: reported.messages,
    messageBytesMax: config.max_msg_size > 0 ? config.max_msg_size : MESSAGE_BYTES_MAX,
  };
  if (known === 0) return state;
  const since = doubts.get(nats) ?? new Map<string, number>();
  if (state.lastSequence >= known || config.num_replicas === 1) {
    since.delete(stream);
    return state;
  }
  const now = performance.now();
  const doubtedAt = since.get(stream) ?? now;
  doubts.set(nats, since.set(stream, doubtedAt));
  if (now - doubtedAt >= DOUBT_MS) return state;
  throw new NatsUnavailableError(
    `${stream} seems to end at ${state.lastSequence}, before ${known}: retrying`,
  );
}

/**
 * Makes one request about a stream and maps its failure to this file's error classes. Throws
 * NatsUnavailableError at once while disconnected and when the connection breaks, instead of after the
 * library's timeout of 5 s.
 */
export async function answered<T>(nats: Nats, stream: string, call: () => Promise<T>): Promise<T> {
  if (!nats.connected) throw new NatsUnavailableError(`not connected; request about ${stream}`);
  const broken = Promise.withResolvers<never>();
  const removeListener = nats.onStatus(({ type }) => {
    if (type !== 'disconnect' && type !== 'close') return;
    broken.reject(new NatsUnavailableError(`the connection broke; request about ${stream}`));
  });
  try {
    return await Promise.race([call(), broken.promise]);
  } catch (error) {
    throw classified(error, stream);
  } finally {
    removeListener();
  }
}

/** A starting cluster knows fewer servers than the stream needs replicas. */
const NO_SUITABLE_PEERS = 10005;

/** Maps errors of the client library to this file's classes and returns all others unchanged. */
function classified(error: unknown, stream: string): unknown {
  if (error instanceof JetStreamApiError) {
    if (error.code === JetStreamApiCodes.StreamNotFound) {
      return new StreamMissingError(stream, { cause: error });
    }
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
    // A publish to a subject without responders: its own class is not exported.
    (error instanceof Error && error.cause instanceof errors.RequestError) ||
    error instanceof errors.ConnectionError ||
    error instanceof errors.ClosedConnectionError ||
    error instanceof errors.DrainingConnectionError;
  return unreachable
    ? new NatsUnavailableError(`no answer from NATS about ${stream}`, { cause: error })
    : error;
}

/** Whether a write was refused because another one came first. */
export function isOvertaken(error: unknown): boolean {
  return (
    error instanceof JetStreamApiError &&
    (error.code === JetStreamApiCodes.StreamWrongLastSequence ||
      error.code === JetStreamApiCodes.StreamWrongLastSequenceUnknown)
  );
}

async function connectWith(options: NodeConnectionOptions): Promise<NatsConnection> {
  // The library waits for ever for a server that requires a client certificate and gets none.
  const late = delay(CONNECT_MS_MAX, undefined, { ref: false }).then(() => {
    throw new NatsUnavailableError('NATS does not answer: does it require a client certificate?');
  });
  try {
    return await Promise.race([connect(options), late]);
  } catch (error) {
    if (error instanceof errors.AuthorizationError) {
      throw new NatsRefusedError('NATS rejected the credentials', { cause: error });
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
  }
}

/** Node checks this name when the library passes none, which is the case for addresses. */
const NO_NAME = 'localhost';

/**
 * Checks a server's certificate for its name. For a server that is reached by address, any address of
 * `urls` will do, because the library does not say which one it reached.
 */
function identityCheck(
  urls: readonly string[],
): (name: string, certificate: PeerCertificate) => Error | undefined {
  const addresses = urls
    .map((url) => new URL(url).hostname.replaceAll(/[[\]]/g, ''))
    .filter((host) => isIP(host) !== 0);
  return (name, certificate) => {
    const error = checkServerIdentity(name, certificate);
    if (error === undefined || name !== NO_NAME) return error;
    const isKnown = (address: string) => checkServerIdentity(address, certificate) === undefined;
    return addresses.some(isKnown) ? undefined : error;
  };
}

/** Whether TLS failed for a reason that retrying does not change: missing trust, or wrong files. */
function isTlsRefusal(error: unknown): error is Error {
  if (!(error instanceof Error)) return false;
  const code = 'code' in error ? String(error.code) : '';
  return /^(ERR_TLS|ERR_SSL|ERR_OSSL|CERT_|UNABLE_TO|SELF_SIGNED|DEPTH_ZERO)/.test(code);
}

const LEADER_CHECK_MS = 2_000;
const LEADER_ANSWER_MS_MAX = 1_500;
/** Takes longer than an election, which is no reason to leave. */
const LEADERLESS_CHECKS_MAX = 4;

/**
 * Leaves a server that is cut off from its cluster. Such a server keeps its connections and answers pings,
 * but JetStream on it has no leader and stores nothing, until the network is repaired.
 */
async function leaveLonelyServers(connection: NatsConnection, apiPrefix: string): Promise<void> {
  let failures = 0;
  while (!connection.isClosed()) {
    const pause = delay(LEADER_CHECK_MS, undefined, { ref: false });
    failures = (await hasLeader(connection, apiPrefix)) ? 0 : failures + 1;
    await pause;
    if (failures < LEADERLESS_CHECKS_MAX) continue;
    failures = 0;
    // Rejects only while it is reconnecting already.
    await connection.reconnect().catch(() => undefined);
  }
}

/** Whether JetStream answers on the server that this is connected to. */
export function jetStreamAnswers({ connection, js }: Nats): Promise<boolean> {
  return hasLeader(connection, js.apiPrefix);
}

async function hasLeader(connection: NatsConnection, apiPrefix: string): Promise<boolean> {
  try {
    const timeout = LEADER_ANSWER_MS_MAX;
    const answer = await connection.request(`${apiPrefix}.INFO`, '', { timeout });
    return !answer.string().includes('"error"');
  } catch {
    // No response, no responder or no connection.
    return false;
  }
}
