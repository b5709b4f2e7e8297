/**
 * A chain node with the habits of other software: a proxy in front of anvil that answers
 * subscriptions as its mode says. HTTP calls pass through unless their method is refused. Its
 * WebSocket side knows text frames only, which is all that a client of JSON-RPC sends.
 */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';

export type Habits = {
  /**
   * What pending subscriptions do. `bodies`: as geth. `ignores_bodies`: pushes hashes whatever is
   * asked. `hashes`: refuses bodies, has hashes. `alchemy`: its own method only. `mute`: takes any
   * and pushes nothing. `none`: refuses all.
   */
  pending: 'bodies' | 'ignores_bodies' | 'hashes' | 'alchemy' | 'mute' | 'none';
  /** False: no WebSocket at all. */
  sockets: boolean;
  /** Each push comes twice, the second time after the next one, with broken ones in between. */
  disorderly: boolean;
  /** HTTP methods that are answered with −32601. */
  refused: ReadonlySet<string>;
};

type Call = { readonly id: number; readonly method: string; readonly params?: readonly unknown[] };
type Body = { readonly hash: string; readonly to: string | null };

const GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';

export async function startFakeNode(upstream: string, habits: Habits) {
  const pipes = new Set<Duplex>();
  const subscribed: string[] = [];
  const server = createServer((request, response) => {
    void proxy(upstream, habits, request, response).catch(() => response.destroy());
  });
  server.on('upgrade', (request: IncomingMessage, pipe: Duplex) => {
    pipe.on('error', () => undefined);
    if (!habits.sockets) return void pipe.destroy();
    pipes.add(pipe);
    pipe.once('close', () => pipes.delete(pipe));
    serveSocket(upstream, habits, request, pipe, (params) => subscribed.push(params));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    webSocketUrl: `ws://127.0.0.1:${port}`,
    /** First parameter of each subscription that was asked for. */
    subscribed,
    /** Cuts every open WebSocket. */
    cut() {
      for (const pipe of pipes) pipe.destroy();
    },
    close() {
      for (const pipe of pipes) pipe.destroy();
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
  request: IncomingMessage,
  pipe: Duplex,
  onSubscribe: (name: string) => void,
): void {
  const key = createHash('sha1').update(`${request.headers['sec-websocket-key']}${GUID}`);
  pipe.write(
    `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n` +
      `Sec-WebSocket-Accept: ${key.digest('base64')}\r\n\r\n`,
  );
  const sockets = new Set<WebSocket>();
  pipe.once('close', () => {
    for (const socket of sockets) socket.close();
  });
  let held: string | undefined;
  const push = (subscription: string, result: unknown) => {
    const params = { subscription, result };
    const text = JSON.stringify({ jsonrpc: '2.0', method: 'eth_subscription', params });
    sendText(pipe, text);
    if (!habits.disorderly) return;
    sendText(pipe, text.slice(0, text.length / 2));
    if (held !== undefined) sendText(pipe, held);
    held = text;
  };
  let subscriptions = 0;
  const onCall = (call: Call) => {
    if (call.method !== 'eth_subscribe') {
      return sendText(pipe, JSON.stringify({ jsonrpc: '2.0', id: call.id, result: true }));
    }
    const [name, detail] = call.params ?? [];
    onSubscribe(String(name));
    const source = sourceOf(String(name), detail, habits);
    if ('code' in source) {
      return sendText(pipe, JSON.stringify({ jsonrpc: '2.0', id: call.id, error: source }));
    }
    const subscription = `0x${++subscriptions}`;
    const socket = new WebSocket(upstream.replace(/^http/, 'ws'));
    sockets.add(socket);
    socket.addEventListener('message', ({ data }) => {
      const message = JSON.parse(String(data)) as { id?: number; params?: { result: unknown } };
      if (message.id === 1) {
        sendText(pipe, JSON.stringify({ jsonrpc: '2.0', id: call.id, result: subscription }));
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
  readFrames(pipe, (text) => onCall(JSON.parse(text) as Call));
}

/** What is asked of anvil for a subscription, and what becomes of its pushes; or the refusal. */
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

function sendText(pipe: Duplex, text: string): void {
  const data = Buffer.from(text);
  const head = Buffer.alloc(10);
  head[0] = 0x81;
  head[1] = 127;
  head.writeBigUInt64BE(BigInt(data.length), 2);
  pipe.write(Buffer.concat([head, data]));
}

/** Masked text frames of less than 64 KiB; a close frame ends the pipe. */
function readFrames(pipe: Duplex, onText: (text: string) => void): void {
  let rest = Buffer.alloc(0);
  pipe.on('data', (chunk: Buffer) => {
    rest = Buffer.concat([rest, chunk]);
    while (rest.length >= 6) {
      const short = (rest[1] ?? 0) & 127;
      const start = short === 126 ? 4 : 2;
      const length = short === 126 ? rest.readUInt16BE(2) : short;
      if (rest.length < start + 4 + length) return;
      const mask = rest.subarray(start, start + 4);
      const data = rest.subarray(start + 4, start + 4 + length).map((byte, i) => {
        return byte ^ (mask[i % 4] ?? 0);
      });
      const opcode = (rest[0] ?? 0) & 15;
      rest = rest.subarray(start + 4 + length);
      if (opcode === 8) return void pipe.end();
      if (opcode === 1) onText(Buffer.from(data).toString());
    }
  });
}
