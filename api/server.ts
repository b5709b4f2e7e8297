/**
 * The HTTP server under the application, with a bound on everything that a client can hold: bytes and
 * fields of a head, the time for a head and for a whole request, idle time, and connections of one
 * address. Requests that break them are answered with a problem and closed. Proxies that are trusted
 * have no cap: behind them every client has the proxy's address.
 */
import {
  createServer,
  IncomingMessage,
  type RequestListener,
  type Server,
  ServerResponse,
  STATUS_CODES,
} from 'node:http';
import { BlockList, isIPv4, type Socket } from 'node:net';
import type { Express } from 'express';

const HEAD_BYTES_MAX = 16 * 1_024;
const FIELDS_MAX = 100;
/** From the connection, or the answer before, to the end of a head. */
const HEAD_MS_MAX = 10_000;
const REQUEST_MS_MAX = 20_000;
const KEEP_ALIVE_MS = 60_000;
/** Nothing is sent or taken: a client that does not read its answer. Heartbeats come every 30 s. */
const IDLE_MS_MAX = 120_000;
const CHECK_MS = 1_000;

export type ServerLimits = {
  /** Open connections of one address. */
  readonly connectionsPerAddressMax: number;
  /** Addresses or networks (CIDR) of proxies, whose connections are not capped. */
  readonly trustedProxies: readonly string[];
  /** For tests; see the constants above. */
  readonly headMsMax?: number;
  readonly requestMsMax?: number;
  readonly idleMsMax?: number;
};

/** An express application, or any function. */
type Listener = RequestListener & Partial<Pick<Express, 'request' | 'response'>>;

export type LimitedServer = {
  readonly server: Server;
  readonly caps: { readonly refused: number };
};

/** Creates the server; the caller listens. An application is bound to this server. */
export function createLimitedServer(listener: Listener, limits: ServerLimits): LimitedServer {
  const server = createServer(
    {
      maxHeaderSize: HEAD_BYTES_MAX,
      headersTimeout: limits.headMsMax ?? HEAD_MS_MAX,
      requestTimeout: limits.requestMsMax ?? REQUEST_MS_MAX,
      keepAliveTimeout: KEEP_ALIVE_MS,
      connectionsCheckingInterval: Math.min(CHECK_MS, limits.headMsMax ?? CHECK_MS),
      ...expressOwn(listener),
    },
    listener,
  );
  server.maxHeadersCount = FIELDS_MAX;
  server.setTimeout(limits.idleMsMax ?? IDLE_MS_MAX);
  server.on('clientError', refuse);
  const caps = { refused: 0 };
  capConnections(server, limits, caps);
  return { server, caps };
}

/**
 * Classes whose requests and responses are an express application's own from the start. Express would
 * else change the prototype of each, after which V8 knows nothing of its shape: a sixth of the time of
 * a short request (ADR 14).
 */
function expressOwn(application: Listener) {
  const { request, response } = application;
  if (request === undefined || response === undefined) return {};
  class OwnRequest extends IncomingMessage {}
  class OwnResponse extends ServerResponse {}
  application.request = Object.setPrototypeOf(OwnRequest.prototype, request);
  application.response = Object.setPrototypeOf(OwnResponse.prototype, response);
  return { IncomingMessage: OwnRequest, ServerResponse: OwnResponse };
}

/** Addresses and networks as a list that can be asked. Throws on one that is neither. */
export function addressList(entries: readonly string[]): BlockList {
  const list = new BlockList();
  for (const entry of entries) {
    const [address = '', bits] = entry.split('/');
    const family = isIPv4(address) ? 'ipv4' : 'ipv6';
    if (bits === undefined) list.addAddress(address, family);
    else list.addSubnet(address, Number(bits), family);
  }
  return list;
}

function capConnections(server: Server, limits: ServerLimits, caps: { refused: number }): void {
  const trusted = addressList(limits.trustedProxies);
  const open = new Map<string, number>();
  server.on('connection', (socket: Socket) => {
    const address = socket.remoteAddress ?? '';
    if (trusted.check(address, isIPv4(address) ? 'ipv4' : 'ipv6')) return;
    const count = (open.get(address) ?? 0) + 1;
    if (count > limits.connectionsPerAddressMax) {
      caps.refused += 1;
      socket.destroy();
      return;
    }
    open.set(address, count);
    socket.once('close', () => {
      const left = (open.get(address) ?? 1) - 1;
      if (left === 0) open.delete(address);
      else open.set(address, left);
    });
  });
}

const STATUSES: Readonly<Record<string, number>> = {
  HPE_HEADER_OVERFLOW: 431,
  ERR_HTTP_REQUEST_TIMEOUT: 408,
};

/** Answers what is no HTTP request in as few words as possible: nothing of it is repeated. */
function refuse(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const status = STATUSES[error.code ?? ''] ?? 400;
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nConnection: close\r\n\r\n`);
  // Not left half open: a client that goes on sending would hold it for ever.
  socket.destroySoon();
}
