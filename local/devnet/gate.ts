/**
 * Gives all other programs access to the devnet's chain: JSON-RPC over HTTP and WebSocket on loopback, for reads and
 * signed transactions. On its own, anvil would serve web pages of every origin and even let them reset the chain;
 * here it is reachable only through its owner's Unix socket.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { createInterface } from 'node:readline';
import { buffer } from 'node:stream/consumers';
import { type WebSocket, WebSocketServer } from 'ws';
import { foreignRequest } from '../../infra/loopback.ts';
import { requestAnvil } from './rpc.ts';

const METHODS = [
  /^(?:eth_get|net_|web3_)\w+$/,
  /^eth_(?:accounts|blockNumber|call|chainId|estimateGas|feeHistory|gasPrice)$/,
  /^eth_(?:maxPriorityFeePerGas|sendRawTransaction|subscribe|syncing|unsubscribe)$/,
  /^txpool_(?:content|inspect|status)$/,
];
const WEBSOCKET_BYTES_MAX = 2 ** 20;
const REFUSED = { code: -32601, message: 'this method is reserved for the devnet itself' };

export type Gate = { readonly port: number; close(): void };

/** Listens on a port of 127.0.0.1 (0: any free one) for the anvil behind the socket. */
export async function openGate(socket: string, port: number): Promise<Gate> {
  const server = createServer((request, response) => {
    answer(socket, request, response).catch(() => response.destroy());
  });
  const clients = new WebSocketServer({ noServer: true, maxPayload: WEBSOCKET_BYTES_MAX });
  server.on('upgrade', (request, stream, head) => {
    if (foreignRequest(request.headers) !== undefined) {
      // Node has taken its own listener off the socket. Without one, a reset would end the process.
      stream.on('error', () => undefined);
      stream.end('HTTP/1.1 403 Forbidden\r\nConnection: close\r\n\r\n', () => stream.destroy());
    } else {
      clients.handleUpgrade(request, stream, head, (client) => relay(client, socket));
    }
  });
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    close() {
      server.close();
      server.closeAllConnections();
      for (const client of clients.clients) client.terminate();
    },
  };
}

async function answer(
  socket: string,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const foreign = foreignRequest(request.headers);
  if (foreign !== undefined) return void response.writeHead(403).end(foreign);
  const { refusal, text } = checked((await buffer(request)).toString());
  response.setHeader('Content-Type', 'application/json');
  response.end(refusal ?? (await requestAnvil(socket, text)));
}

/** Each client gets its own connection to anvil, for its subscriptions. */
function relay(client: WebSocket, socket: string): void {
  const anvil = connect(socket);
  // It passes on the errors of its input.
  const lines = createInterface({ input: anvil }).on('error', () => undefined);
  lines.on('line', (line) => {
    if (line !== '') client.send(line);
  });
  anvil.on('error', () => undefined).on('close', () => client.close());
  client.on('error', () => undefined).on('close', () => anvil.destroy());
  client.on('message', (data) => {
    const { refusal, text } = checked(String(data));
    if (refusal !== undefined) client.send(refusal);
    else anvil.write(text);
  });
}

/** The calls to pass on, serialised again so that anvil cannot parse them differently. */
function checked(given: string): { readonly text: string; readonly refusal?: string } {
  const parsed = parse(given);
  const calls = Array.isArray(parsed) ? parsed : [parsed];
  const text = JSON.stringify(parsed);
  if (calls.length > 0 && calls.every(isOpen)) return { text };
  const errors = calls.map((call) => ({ jsonrpc: '2.0', id: call?.id ?? null, error: REFUSED }));
  return { text, refusal: JSON.stringify(Array.isArray(parsed) ? errors : errors[0]) };
}

function isOpen(call: Call): boolean {
  return METHODS.some((one) => one.test(String(call?.method)));
}

function parse(text: string): Call | readonly Call[] {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

type Call = { readonly id?: unknown; readonly method?: unknown } | null;
