/**
 * The connection to NATS: authentication, TLS, reconnecting, leaving a server that is cut off from its cluster, and
 * requests about streams with their errors. Only infra/nats imports the client library. This file never logs; status
 * changes go to those who called `onStatus`.
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
import { ExpectedError } from '../expected.ts';
import { retry } from '../retry.ts';

/** Status changes of the library, without its periodic pings. */
type NatsStatus = Exclude<Status, { type: 'ping' }>;

type NatsStatusListener = (status: NatsStatus) => void;

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
  /** True, the default, waits for a server to become available; false fails. */
  readonly isPatient?: boolean;
  /** Called before each new attempt to make the first connection, at most 5 s apart. */
  readonly onWait?: (error: unknown) => void;
  /** Aborting ends the wait for the first connection, and rejects with the signal's reason. */
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

/** "nats-server 2.9.10 is old: …"; undefined for a newer one. It works, but some failures are handled worse. */
export function oldServerNotice({ connection }: Nats): string | undefined {
  const version = connection.info?.version ?? '';
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const [majorMin, minorMin] = SERVER_VERSION_MIN;
  if (major > majorMin || (major === majorMin && minor >= minorMin)) return undefined;
  return `nats-server ${version} is old: it hangs after a full disk until it is restarted; use 2.10 or newer`;
}

function authenticatorOf(config: NatsConfig): Authenticator | undefined {
  const { NATS_USER, NATS_PASSWORD, NATS_TOKEN, NATS_CREDS } = config;
  if (NATS_CREDS !== undefined) return credsAuthenticator(readFileSync(NATS_CREDS));
  if (NATS_TOKEN !== undefined) return tokenAuthenticator(NATS_TOKEN);
  if (NATS_USER === undefined) return undefined;
  return usernamePasswordAuthenticator(NATS_USER, NATS_PASSWORD);
}

/**
 * The server cannot respond now: no connection, no responders, no leader, or a timeout. A write may or may not have
 * happened. Retry later.
 */
export class NatsUnavailableError extends ExpectedError {
  override readonly name = 'NatsUnavailableError';
}

/** The server rejects the credentials, or one side does not trust the other's certificate. */
export class NatsRefusedError extends ExpectedError {
  override readonly name = 'NatsRefusedError';
}

/** The stream does not exist. */
export class StreamMissingError extends ExpectedError {
  override readonly name = 'StreamMissingError';
  constructor(stream: string, options?: ErrorOptions) {
    super(`stream ${stream} does not exist`, options);
  }
}

const RECONNECT_WAIT_MS = 200;
const PING_INTERVAL_MS = 2_000;
const PINGS_OUT_MAX = 2;
const CONNECT_MS_MAX = 10_000;
/** Older servers hang after a failed write, and their clusters can lose acknowledged messages (ADR 0009). */
const SERVER_VERSION_MIN = [2, 10] as const;
/** The server's default limit, for streams without their own. */
const MESSAGE_BYTES_MAX = 1_048_576;

/**
 * Connects, and reconnects until the connection is closed. Throws NatsRefusedError if the server rejects the
 * credentials or one side does not trust the other's certificate, and NatsUnavailableError if no server is reachable
 * and `isPatient` is false.
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
  // The library's own retry is not used: it is silent and retries even TLS errors.
  const connection = await retry(() => connectWith(wanted), {
    isRetryable: (error) => isPatient && error instanceof NatsUnavailableError,
    onRetry: onWait,
    ...(signal === undefined ? {} : { signal }),
  });
  const js = jetstream(connection);
  const jsm = await js.jetstreamManager(false);
  if (servers.length > 1) void leaveLonelyServers(connection, js.apiPrefix);
  const listeners = new Set<NatsStatusListener>();
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

/** Longer than a new leader needs to read its log, or one that was cut off to notice (nats-server checks every 10 s). */
const DOUBT_MS = 30_000;
const doubts = new WeakMap<Nats, Map<string, number>>();

/**
 * The state of a stream that is known to have held the sequence `known`. In a cluster, a leader that was just cut off
 * or just elected may briefly report an earlier end. Until it has reported that for DOUBT_MS, this throws
 * NatsUnavailableError, and also whenever a server that is cut off reports it, which has no leader.
 */
export async function streamState(nats: Nats, stream: string, known = 0): Promise<StreamState> {
  const info = await answered(nats, stream, () => nats.jsm.streams.info(stream));
  const { config, state: reported } = info;
  const state = {
    // A stream that never held a message reports 0 and 0; a purged one reports last + 1 and last.
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
  const unclear = `${stream} seems to end at ${state.lastSequence}, before ${known}: retrying`;
  if (!info.cluster?.leader) throw new NatsUnavailableError(unclear);
  const now = performance.now();
  const doubtedAt = since.get(stream) ?? now;
  doubts.set(nats, since.set(stream, doubtedAt));
  if (now - doubtedAt >= DOUBT_MS) return state;
  throw new NatsUnavailableError(unclear);
}

/**
 * Makes one request about a stream and maps errors to this file's classes. While disconnected, or when the connection
 * breaks, throws NatsUnavailableError at once instead of after the library's timeout of 5 s.
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

/** JetStream's error while a starting cluster has fewer servers than the stream needs replicas. */
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
    ? new NatsUnavailableError(`no response from NATS about ${stream}`, { cause: error })
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
  // The library waits forever for a server that requires a client certificate and gets none.
  const late = delay(CONNECT_MS_MAX, undefined, { ref: false }).then(() => {
    throw new NatsUnavailableError('NATS does not respond: does it require a client certificate?');
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

/** The name that Node checks if the library passes none, as it does for IP addresses. */
const NO_NAME = 'localhost';

/**
 * Checks that a server's certificate matches its name. For a server given by IP address, a match with any address of
 * `urls` is enough, because the library does not reveal which one it connected to.
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

/** Whether TLS failed in a way that a retry cannot fix: missing trust, or wrong files. */
function isTlsRefusal(error: unknown): error is Error {
  if (!(error instanceof Error)) return false;
  const code = 'code' in error ? String(error.code) : '';
  return /^(ERR_TLS|ERR_SSL|ERR_OSSL|CERT_|UNABLE_TO|SELF_SIGNED|DEPTH_ZERO)/.test(code);
}

const LEADER_CHECK_MS = 2_000;
const LEADER_ANSWER_MS_MAX = 1_500;
/** Longer than an election takes, because an election is no reason to leave. */
const LEADERLESS_CHECKS_MAX = 4;

/**
 * Leaves a server that is cut off from its cluster. Such a server keeps its connections and answers pings, but until
 * the network is repaired, its JetStream has no leader and stores nothing.
 */
async function leaveLonelyServers(connection: NatsConnection, apiPrefix: string): Promise<void> {
  let failures = 0;
  while (!connection.isClosed()) {
    const pause = delay(LEADER_CHECK_MS, undefined, { ref: false });
    failures = (await hasLeader(connection, apiPrefix)) ? 0 : failures + 1;
    await pause;
    if (failures < LEADERLESS_CHECKS_MAX) continue;
    // The client's first choice can be the server it leaves. So `failures` stays, and the next failed check leaves again.
    await changeServer(connection);
  }
}

/** Resolves on the next server, so that no check of the one before counts against it. */
async function changeServer(connection: NatsConnection): Promise<void> {
  const statuses = connection.status();
  // Rejects only if the connection is being closed, which ends the statuses.
  await connection.reconnect().catch(() => undefined);
  for await (const { type } of statuses) if (type === 'reconnect') return;
}

/** Whether JetStream works on the server that this connection uses. */
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
