/**
 * A chain node for measuring latency: everything is answered by a real node behind it, but pending
 * transactions are pushed by the caller, as many and as fast as it likes. It exists because anvil and
 * the sender of 500 matches a second would need the processors that are to be measured.
 */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { type WebSocket, WebSocketServer } from 'ws';
import { rpc } from '../../support/service.ts';

const HEAD_MS = 1_000;
const MESSAGE_BYTES_MAX = 1_048_576;
const JSON_TYPE = { 'content-type': 'application/json' };

type Call = { readonly id: number; readonly method: string; readonly params: readonly unknown[] };
type Subscriber = { readonly socket: WebSocket; readonly id: string };

export class PushNode {
  readonly #target: string;
  readonly #server = createServer();
  readonly #subscribers = { heads: new Set<Subscriber>(), pending: new Set<Subscriber>() };
  readonly #sockets = new WebSocketServer({ noServer: true, maxPayload: MESSAGE_BYTES_MAX });
  readonly #timer: NodeJS.Timeout;
  #subscriptions = 0;
  #waiting: (() => void)[] = [];

  private constructor(target: string) {
    this.#target = target;
    this.#server.on('request', async (request, response) => {
      const body = await buffer(request);
      const answer = await fetch(target, { method: 'POST', headers: JSON_TYPE, body });
      response.writeHead(200, JSON_TYPE).end(Buffer.from(await answer.arrayBuffer()));
    });
    this.#server.on('upgrade', (request, pipe, head) => {
      this.#sockets.handleUpgrade(request, pipe, head, (socket) => this.#connect(socket));
    });
    this.#timer = setInterval(() => void this.#pushHead(), HEAD_MS);
  }

  static async open(target: string): Promise<PushNode> {
    const node = new PushNode(target);
    node.#server.listen(0, '127.0.0.1');
    await once(node.#server, 'listening');
    return node;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Resolves when somebody wants pending transactions. */
  subscribed(): Promise<void> {
    if (this.#subscribers.pending.size > 0) return Promise.resolve();
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  push(transaction: unknown): void {
    this.#send(this.#subscribers.pending, transaction);
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    for (const socket of this.#sockets.clients) socket.terminate();
    this.#server.close();
    this.#server.closeAllConnections();
    await once(this.#server, 'close');
  }

  #connect(socket: WebSocket): void {
    socket.on('error', () => undefined).on('close', () => this.#forget(socket));
    socket.on('message', async (data) => {
      const asked = JSON.parse(String(data)) as Call | Call[];
      const answers = await Promise.all([asked].flat().map((call) => this.#answer(call, socket)));
      socket.send(JSON.stringify(Array.isArray(asked) ? answers : answers[0]));
    });
  }

  async #answer({ id, method, params }: Call, socket: WebSocket) {
    if (method !== 'eth_subscribe') {
      return { jsonrpc: '2.0', id, result: await rpc(this.#target, method, params ?? []) };
    }
    const [kind, whole] = params;
    const subscribers =
      kind === 'newHeads'
        ? this.#subscribers.heads
        : kind === 'newPendingTransactions' && whole === true
          ? this.#subscribers.pending
          : undefined;
    if (subscribers === undefined) {
      return { jsonrpc: '2.0', id, error: { code: -32602, message: `no ${String(kind)} here` } };
    }
    this.#subscriptions += 1;
    const subscription = `0x${this.#subscriptions.toString(16)}`;
    subscribers.add({ socket, id: subscription });
    if (subscribers === this.#subscribers.pending) for (const wake of this.#waiting) wake();
    return { jsonrpc: '2.0', id, result: subscription };
  }

  async #pushHead(): Promise<void> {
    if (this.#subscribers.heads.size === 0) return;
    const head = await rpc(this.#target, 'eth_getBlockByNumber', ['latest', false]);
    this.#send(this.#subscribers.heads, head);
  }

  #send(subscribers: ReadonlySet<Subscriber>, result: unknown): void {
    for (const { socket, id } of subscribers) {
      const params = { subscription: id, result };
      socket.send(JSON.stringify({ jsonrpc: '2.0', method: 'eth_subscription', params }));
    }
  }

  #forget(socket: WebSocket): void {
    for (const subscribers of Object.values(this.#subscribers)) {
      for (const one of subscribers) if (one.socket === socket) subscribers.delete(one);
    }
  }
}
