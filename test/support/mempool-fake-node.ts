/**
 * A chain node that behaves like other software: a proxy in front of anvil that handles
 * subscriptions according to its mode. HTTP calls pass through unless their method is refused.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { type WebSocket as Peer, WebSocketServer } from 'ws';

export type Habits = {
  /**
   * Behaviour of pending subscriptions. `bodies`: like geth. `ignores_bodies`: always pushes
   * hashes. `hashes`: refuses bodies, supports hashes. `alchemy`: only its own method. `mute`:
   * accepts all and pushes nothing. `none`: refuses all.
   */
  pending: 'bodies' | 'ignores_bodies' | 'hashes' | 'alchemy' | 'mute' | 'none';
  /** False: no WebSocket at all. */
  sockets: boolean;
  /** Sends each push twice, the second time after the next one, with broken ones in between. */
  disorderly: boolean;
  /** HTTP methods that return the error −32601. */
  refused: ReadonlySet<string>;
};

const MESSAGE_BYTES_MAX = 1_048_576;

type Call = { readonly id: number; readonly method: string; readonly params?: readonly unknown[] };
type Body = { readonly hash: string; readonly to: string | null };

export async function startFakeNode(upstream: string, habits: Habits) {
  const sockets = new WebSocketServer({ noServer: true, maxPayload: MESSAGE_BYTES_MAX });
  const subscribed: string[] = [];
  const server = createServer((request, response) => {
    void proxy(upstream, habits, request, response).catch(() => response.destroy());
  });
  server.on('upgrade', (request: IncomingMessage, pipe: Duplex, head: Buffer) => {
    if (!habits.sockets) return void pipe.destroy();
    sockets.handleUpgrade(request, pipe, head, (peer) =>
      serveSocket(upstream, habits, peer, (params) => subscribed.push(params)),
    );
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    webSocketUrl: `ws://127.0.0.1:${port}`,
    /** First parameter of each requested subscription. */
    subscribed,
    /** Cuts every open WebSocket. */
    cut() {
      for (const peer of sockets.clients) peer.terminate();
    },
    close() {
      for (const peer of sockets.clients) peer.terminate();
      server.closeAllConnections();
      server.close();
    },
  };
}

async function proxy(
  upstream: string,
  { refused }: Habits,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const body: unknown = JSON.parse(Buffer.concat(chunks).toString());
  const answer = async (call: Call) => {
    if (refused.has(call.method)) return { jsonrpc: '2.0', id: call.id, error: NOT_FOUND };
    const answered = await fetch(upstream, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(call),
    });
    return answered.json() as unknown;
  };
  const answers = Array.isArray(body)
    ? await Promise.all((body as Call[]).map(answer))
    : await answer(body as Call);
  response.setHeader('content-type', 'application/json').end(JSON.stringify(answers));
}

const NOT_FOUND = { code: -32601, message: 'the method does not exist' };
const BAD_PARAMS = { code: -32602, message: 'invalid params' };

function serveSocket(
  upstream: string,
  habits: Habits,
  peer: Peer,
  onSubscribe: (name: string) => void,
): void {
  peer.on('error', () => undefined);
  const sockets = new Set<WebSocket>();
  peer.once('close', () => {
    for (const socket of sockets) socket.close();
  });
  let held: string | undefined;
  const push = (subscription: string, result: unknown) => {
    const params = { subscription, result };
    const text = JSON.stringify({ jsonrpc: '2.0', method: 'eth_subscription', params });
    peer.send(text);
    if (!habits.disorderly) return;
    peer.send(text.slice(0, text.length / 2));
    if (held !== undefined) peer.send(held);
    held = text;
  };
  let subscriptions = 0;
  const onCall = (call: Call) => {
    if (call.method !== 'eth_subscribe') {
      return peer.send(JSON.stringify({ jsonrpc: '2.0', id: call.id, result: true }));
    }
    const [name, detail] = call.params ?? [];
    onSubscribe(String(name));
    const source = sourceOf(String(name), detail, habits);
    if ('code' in source) {
      return peer.send(JSON.stringify({ jsonrpc: '2.0', id: call.id, error: source }));
    }
    const subscription = `0x${++subscriptions}`;
    const socket = new WebSocket(upstream.replace(/^http/, 'ws'));
    sockets.add(socket);
    socket.addEventListener('message', ({ data }) => {
      const message = JSON.parse(String(data)) as { id?: number; params?: { result: unknown } };
      if (message.id === 1) {
        peer.send(JSON.stringify({ jsonrpc: '2.0', id: call.id, result: subscription }));
      } else {
        const result = source.change(message.params?.result);
        if (result !== undefined) push(subscription, result);
      }
    });
    socket.addEventListener('open', () => {
      const body = { jsonrpc: '2.0', id: 1, method: 'eth_subscribe', params: source.params };
      socket.send(JSON.stringify(body));
    });
  };
  peer.on('message', (data) => onCall(JSON.parse(String(data)) as Call));
}

/** The request to anvil for a subscription and the conversion of its pushes, or the refusal. */
function sourceOf(name: string, detail: unknown, { pending }: Habits) {
  if (name === 'newHeads') return { params: ['newHeads'], change: (one: unknown) => one };
  const bodies = ['newPendingTransactions', true];
  const isAlchemy = name === 'alchemy_pendingTransactions';
  const toAddress = isAlchemy ? (detail as { toAddress: string[] }).toAddress : [];
  const wanted = new Set(toAddress.map((address) => address.toLowerCase()));
  const hash = (one: unknown) => (one as Body).hash;
  if (pending === 'mute') return { params: bodies, change: () => undefined };
  if (pending === 'alchemy' && isAlchemy) {
    const change = (one: unknown) =>
      wanted.has((one as Body).to?.toLowerCase() ?? '') ? one : undefined;
    return { params: bodies, change };
  }
  if (isAlchemy) return BAD_PARAMS;
  if (pending === 'bodies' && detail === true) {
    return { params: bodies, change: (one: unknown) => one };
  }
  if (pending === 'ignores_bodies') return { params: bodies, change: hash };
  if (pending === 'hashes' && detail === undefined) return { params: bodies, change: hash };
  return pending === 'none' ? NOT_FOUND : BAD_PARAMS;
}
