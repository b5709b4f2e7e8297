/**
 * One WebSocket connection to the chain node and the subscriptions on it. It is never repaired: when
 * it fails, whoever opened it opens another. Written on the platform's WebSocket because what
 * decides here is the code of a refused subscription, a bound on every wait, and that a push that is
 * no JSON costs one push and not the connection.
 */
import { z } from 'zod';

const ANSWER_MS_MAX = 10_000;

/** The node answered the call with an error: it understood, and will not. */
export class RpcRefusedError extends Error {
  /** JSON-RPC error code. */
  readonly code: number;

  constructor(method: string, code: number, message: string) {
    super(`${method}: ${message} (${code})`);
    this.code = code;
  }
}

/** The connection could not be made, was lost, or did not answer in time. */
export class SocketLostError extends Error {}

const Answer = z.object({
  id: z.int(),
  result: z.unknown().optional(),
  error: z.object({ code: z.number(), message: z.string() }).optional(),
});
const Push = z.object({
  method: z.literal('eth_subscription'),
  params: z.object({ subscription: z.string(), result: z.unknown() }),
});

export type NodeSocket = {
  /**
   * Resolves with the way to end the subscription; pushes may come before.
   * Rejects with RpcRefusedError when the node refuses it, with SocketLostError otherwise.
   */
  subscribe(params: readonly unknown[], onPush: (result: unknown) => void): Promise<() => void>;
  /** Resolves when the connection is over. */
  readonly over: Promise<void>;
  close(): void;
};

/** Connects. Rejects with SocketLostError. `onMalformed` hears of each push that is none. */
export async function openSocket(url: string, onMalformed: () => void): Promise<NodeSocket> {
  const socket = new WebSocket(url);
  const opened = Promise.withResolvers<void>();
  const over = Promise.withResolvers<void>();
  const waiting = new Map<number, PromiseWithResolvers<unknown>>();
  const subscriptions = new Map<string, (result: unknown) => void>();
  let nextId = 1;

  const end = () => {
    const lost = new SocketLostError('the connection to the chain node is over');
    opened.reject(lost);
    for (const { reject } of waiting.values()) reject(lost);
    waiting.clear();
    subscriptions.clear();
    over.resolve();
  };
  socket.addEventListener('open', () => opened.resolve());
  socket.addEventListener('error', end);
  socket.addEventListener('close', end);
  socket.addEventListener('message', ({ data }) => {
    const message = parse(data);
    const push = Push.safeParse(message);
    if (push.success) {
      const { subscription, result } = push.data.params;
      // Pushes of a subscription that was ended still come for a moment.
      return subscriptions.get(subscription)?.(result);
    }
    const answer = Answer.safeParse(message);
    if (answer.success) waiting.get(answer.data.id)?.resolve(answer.data);
    else onMalformed();
  });

  async function call(method: string, params: readonly unknown[]): Promise<unknown> {
    const id = nextId++;
    const answer = Promise.withResolvers<unknown>();
    waiting.set(id, answer);
    const timer = setTimeout(
      () => answer.reject(new SocketLostError(`${method}: no answer`)),
      ANSWER_MS_MAX,
    );
    try {
      if (socket.readyState !== WebSocket.OPEN) throw new SocketLostError('not connected');
      socket.send(JSON.stringify({ jsonrpc: '2.0', id, method, params }));
      const { error, result } = Answer.parse(await answer.promise);
      if (error !== undefined) throw new RpcRefusedError(method, error.code, error.message);
      return result;
    } finally {
      clearTimeout(timer);
      waiting.delete(id);
    }
  }

  const timer = setTimeout(end, ANSWER_MS_MAX);
  try {
    await opened.promise;
  } catch (error) {
    socket.close();
    throw error;
  } finally {
    clearTimeout(timer);
  }
  return {
    async subscribe(params, onPush) {
      const id = z.string().safeParse(await call('eth_subscribe', params));
      if (!id.success) throw new SocketLostError('eth_subscribe: no subscription id');
      subscriptions.set(id.data, onPush);
      return () => {
        subscriptions.delete(id.data);
        call('eth_unsubscribe', [id.data]).catch(() => undefined);
      };
    },
    over: over.promise,
    close() {
      end();
      socket.close();
    },
  };
}

/** Undefined where it is no JSON text. */
function parse(data: unknown): unknown {
  if (typeof data !== 'string') return undefined;
  try {
    return JSON.parse(data);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}
