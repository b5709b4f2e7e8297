/**
 * The HTTP server under the application. It limits every resource that a client can hold: the size and
 * number of headers, the time to send the headers and the whole request, idle time, and connections per
 * address. Trusted proxies have no connection limit, because all their clients share their address.
 */
import { randomUUID } from 'node:crypto';
import { createServer, type RequestListener, type Server, STATUS_CODES } from 'node:http';
import { BlockList, isIPv4, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { originHeaders } from './cors.ts';
import { methodNotAllowed, Problem, problemJson } from './errors.ts';
import { networkOf } from './network.ts';

const HEAD_BYTES_MAX = 16 * 1_024;
const HEADERS_MAX = 100;
/** From the connection or the previous response to the end of the request's headers. */
const HEAD_MS_MAX = 10_000;
const REQUEST_MS_MAX = 20_000;
const KEEP_ALIVE_MS = 60_000;
/** Time without a byte sent or received, for example because the client does not read. Heartbeats are sent every 30 s. */
const IDLE_MS_MAX = 120_000;
const CHECK_MS = 1_000;

export type ServerLimits = {
  /** Open connections per address. */
  readonly connectionsPerAddressMax: number;
  /** Addresses or networks (CIDR) of proxies without a connection limit. */
  readonly trustedProxies: readonly string[];
  /** Origins of pages that may read the answers. */
  readonly corsOrigins?: readonly string[];
  /** For tests; default: the constants above. */
  readonly headMsMax?: number;
  readonly requestMsMax?: number;
  readonly idleMsMax?: number;
};

export type LimitedServer = {
  readonly server: Server;
  readonly caps: { readonly refused: number };
};

/** Creates the server; the caller starts listening. */
export function createLimitedServer(
  listener: RequestListener,
  limits: ServerLimits,
): LimitedServer {
  const server = createServer(
    {
      maxHeaderSize: HEAD_BYTES_MAX,
      headersTimeout: limits.headMsMax ?? HEAD_MS_MAX,
      requestTimeout: limits.requestMsMax ?? REQUEST_MS_MAX,
      keepAliveTimeout: KEEP_ALIVE_MS,
      connectionsCheckingInterval: Math.min(CHECK_MS, limits.headMsMax ?? CHECK_MS),
    },
    listener,
  );
  server.maxHeadersCount = HEADERS_MAX;
  server.setTimeout(limits.idleMsMax ?? IDLE_MS_MAX);
  const { corsOrigins = [] } = limits;
  server.on('clientError', (error: Invalid, socket) => rejectInvalid(error, socket, corsOrigins));
  // This is not a proxy. Without a listener, Node would close the connection without a response.
  server.on('connect', (_request, socket) => reject(socket, methodNotAllowed('CONNECT', METHODS)));
  const caps = { refused: 0 };
  capConnections(server, limits, caps);
  return { server, caps };
}

/** Throws if an entry is neither an address nor a network. */
function addressList(entries: readonly string[]): BlockList {
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
    const client = networkOf(address);
    const count = (open.get(client) ?? 0) + 1;
    if (count > limits.connectionsPerAddressMax) {
      caps.refused += 1;
      socket.destroy();
      return;
    }
    open.set(client, count);
    socket.once('close', () => {
      const left = (open.get(client) ?? 1) - 1;
      if (left === 0) open.delete(client);
      else open.set(client, left);
    });
  });
}

const METHODS = 'GET, HEAD, POST, PUT, PATCH, DELETE';

/** A request line that is well formed, so that only its method is unknown. */
const REQUEST_LINE = /^[A-Z]{1,32} \S+ HTTP\/1\.[01]\r?\n/;

type Invalid = NodeJS.ErrnoException & { readonly rawPacket?: Buffer };

/** Responds to a malformed request or an unknown method, without echoing any of the request. */
function rejectInvalid(error: Invalid, socket: Duplex, corsOrigins: readonly string[]): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const request = error.rawPacket?.toString('latin1') ?? '';
  const isUnknownMethod = error.code === 'HPE_INVALID_METHOD' && REQUEST_LINE.test(request);
  const problem = isUnknownMethod ? methodNotAllowed('this method', METHODS) : invalid(error.code);
  reject(socket, problem, originHeaders(corsOrigins, request));
}

function invalid(code = ''): Problem {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return new Problem({
        error: 'headers_too_large',
        detail: 'the request line and headers exceed 16 KiB',
      });
    case 'HPE_INVALID_URL':
      return new Problem({
        error: 'invalid_request',
        detail: 'the URL has characters that must be percent-encoded',
      });
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new Problem({ error: 'request_timeout', detail: 'the request was not sent in time' });
    default:
      return new Problem({ error: 'invalid_request', detail: 'the request is not HTTP/1.1' });
  }
}

function reject(
  socket: Duplex,
  problem: Problem,
  headers: Readonly<Record<string, string>> = {},
): void {
  // Node has taken its own listener off a socket of CONNECT. Without one, a reset would end the process.
  socket.on('error', () => undefined);
  const id = randomUUID();
  const body = problemJson(problem, '', id);
  const head = [
    `HTTP/1.1 ${problem.status} ${STATUS_CODES[problem.status]}`,
    ...Object.entries({ ...problem.headers, ...headers }).map(
      ([name, value]) => `${name}: ${value}`,
    ),
    'Content-Type: application/problem+json',
    `X-Request-Id: ${id}`,
    `Content-Length: ${Buffer.byteLength(body)}`,
    'Connection: close',
  ];
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`);
  // A client that keeps sending would hold a half-open connection forever.
  if (socket instanceof Socket) socket.destroySoon();
}
