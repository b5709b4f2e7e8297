/**
 * The chain node of the mempool side: requests over HTTP, bodies of pushed hashes, the pool by polling,
 * and a WebSocket connection with subscriptions.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import { numberToHex } from 'viem';
import { z } from 'zod';
import { parsed, Quantity } from './rpc.ts';
import { RpcPool } from './rpc-pool.ts';

const WAITING_MAX = 10_000;
const KNOWN_MAX = 100_000;
const BATCH_HASHES_MAX = 100;
const CONCURRENT_MAX = 4;
/** Two blocks of Polygon. */
const AGE_MS_MAX = 4_000;
/** Pause before hashes without a body are requested again. */
const AGAIN_MS = 100;

const POLL_MS = 250;
/** The pause is at least this many times the duration of the poll. */
const REST_FACTOR = 2;
const FAILED_MS = 2_000;

const ANSWER_MS_MAX = 10_000;

/** Bodies are not checked here: a pool has thousands, nearly all known from the poll before. */
const PoolContent = z.object({ pending: z.record(z.string(), z.record(z.string(), z.unknown())) });
const Receipt = z.object({ status: Quantity, blockNumber: Quantity });
export type Receipt = z.infer<typeof Receipt>;

export type MempoolNode = {
  /** Number of the newest block. */
  head(): Promise<number>;
  /** As the node returned it, undefined for a hash that it does not know; in the order of the hashes. */
  transactions(hashes: readonly string[]): Promise<readonly (object | undefined)[]>;
  /** Every transaction that could be mined next, by hash, as the node returned it. */
  pool(): Promise<ReadonlyMap<string, object>>;
  /** Number of transactions of the sender that were mined up to the end of a block. */
  transactionCount(sender: string, blockNumber: number): Promise<number>;
  /** Undefined if the transaction is in no block. */
  receipt(hash: string): Promise<Receipt | undefined>;
};

/**
 * The requests of the mempool side over HTTP, in a pool of its own: they do not wait behind a catch-up.
 * Every method rejects with RpcError when all endpoints failed. Nothing is retried over time: the caller
 * repeats its request, or the blocks bring the match.
 */
export function connectMempoolNode(urls: string): MempoolNode {
  const pool = new RpcPool(urls.split(','));
  const request = <T>(method: string, params: readonly unknown[], schema: z.ZodType<T>) =>
    pool.call({ method, params }, (answer) => parsed(schema, answer));
  return {
    head: () => request('eth_blockNumber', [], Quantity),
    transactions(hashes) {
      return Promise.all(
        hashes.map(async (hash) => {
          const schema = z.looseObject({}).nullable();
          return (await request('eth_getTransactionByHash', [hash], schema)) ?? undefined;
        }),
      );
    },
    async pool() {
      const { pending } = await request('txpool_content', [], PoolContent);
      const bodies = Object.values(pending).flatMap((one): readonly unknown[] =>
        Object.values(one),
      );
      const hasHash = (body: unknown): body is { readonly hash: unknown } =>
        typeof body === 'object' && body !== null && 'hash' in body;
      return new Map(bodies.filter(hasHash).map((body) => [String(body.hash), body]));
    },
    transactionCount(sender, blockNumber) {
      return request('eth_getTransactionCount', [sender, numberToHex(blockNumber)], Quantity);
    },
    async receipt(hash) {
      return (await request('eth_getTransactionReceipt', [hash], Receipt.nullable())) ?? undefined;
    },
  };
}

export type HashLookupOptions = {
  readonly node: Pick<MempoolNode, 'transactions'>;
  readonly onBody: (body: object) => void;
  /** Called for hashes that are given up, with the reason. */
  readonly onDropped: (reason: 'too_many' | 'too_old', count: number) => void;
  /** Called when a request fails; its hashes are requested again. */
  readonly onFailure: (error: unknown) => void;
};

type Waiting = { readonly hash: string; readonly sinceMs: number };

/**
 * Bodies for a node that pushes hashes only: looked up in batches, a few at a time. Bounded in number
 * and in age: a hash that waits too long is dropped, because the block brings its match anyway. A node
 * may push a hash before it can return its body, so a missing body is requested again while it is young.
 */
export class HashLookups {
  readonly #options: HashLookupOptions;
  #waiting: Waiting[] = [];
  readonly #known = new LRUCache<string, true>({ max: KNOWN_MAX });
  #running = 0;
  #scheduled = false;

  constructor(options: HashLookupOptions) {
    this.#options = options;
  }

  /** Requests the body of a pushed hash, unless the hash was pushed before. */
  add(hash: string): void {
    if (this.#known.has(hash)) return;
    this.#known.set(hash, true);
    // The newest hash is the most likely to be still pending, but older ones are nearer to their answer.
    if (this.#waiting.length >= WAITING_MAX) this.#options.onDropped('too_many', 1);
    else {
      this.#waiting.push({ hash, sinceMs: performance.now() });
      this.#schedule();
    }
  }

  #schedule(): void {
    if (this.#scheduled || this.#running >= CONCURRENT_MAX || this.#waiting.length === 0) return;
    this.#scheduled = true;
    // Hashes of the same tick share a batch; waiting longer would add latency.
    setImmediate(() => {
      this.#scheduled = false;
      const batch = this.#take();
      if (batch.length > 0) {
        this.#running += 1;
        void this.#lookUp(batch).finally(() => {
          this.#running -= 1;
          this.#schedule();
        });
      }
      this.#schedule();
    });
  }

  #take(): readonly Waiting[] {
    const oldest = performance.now() - AGE_MS_MAX;
    const old = this.#waiting.filter(({ sinceMs }) => sinceMs < oldest).length;
    if (old > 0) {
      this.#waiting = this.#waiting.filter(({ sinceMs }) => sinceMs >= oldest);
      this.#options.onDropped('too_old', old);
    }
    return this.#waiting.splice(0, BATCH_HASHES_MAX);
  }

  async #lookUp(batch: readonly Waiting[]): Promise<void> {
    let again = batch;
    try {
      const bodies = await this.#options.node.transactions(batch.map(({ hash }) => hash));
      again = batch.filter((_, i) => bodies[i] === undefined);
      for (const body of bodies) if (body !== undefined) this.#options.onBody(body);
    } catch (error) {
      this.#options.onFailure(error);
    }
    if (again.length === 0) return;
    await delay(AGAIN_MS);
    const room = Math.max(0, WAITING_MAX - this.#waiting.length);
    if (again.length > room) this.#options.onDropped('too_many', again.length - room);
    this.#waiting.push(...again.slice(0, room));
  }
}

/**
 * Polls the whole pool, for a node that pushes no pending transactions, and passes on what the previous
 * poll did not hold. The pause grows with the duration of a poll. Ends when the signal aborts and never
 * rejects.
 */
export async function pollPool(options: {
  readonly node: Pick<MempoolNode, 'pool'>;
  readonly signal: AbortSignal;
  readonly onBody: (body: object) => void;
  /** Called when the pool could not be read; polling continues. */
  readonly onFailure: (error: unknown) => void;
}): Promise<void> {
  const { node, signal, onBody, onFailure } = options;
  let known: ReadonlyMap<string, object> = new Map();
  while (!signal.aborted) {
    const startedAt = performance.now();
    let waitMs = FAILED_MS;
    try {
      const pool = await node.pool();
      if (signal.aborted) return;
      for (const [hash, body] of pool) if (!known.has(hash)) onBody(body);
      known = pool;
      waitMs = Math.max(POLL_MS, (performance.now() - startedAt) * REST_FACTOR);
    } catch (error) {
      if (signal.aborted) return;
      onFailure(error);
    }
    await delay(waitMs, undefined, { signal }).catch(() => undefined);
  }
}

/** The node answered the call with a JSON-RPC error. */
export class RpcRefusedError extends Error {
  /** JSON-RPC error code. */
  readonly code: number;

  constructor(method: string, code: number, message: string) {
    super(`${method}: ${message} (${code})`);
    this.code = code;
  }
}

/** The connection failed, was lost, or did not answer in time. */
export class SocketLostError extends Error {}

const SocketAnswer = z.object({
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
   * Resolves with a function that ends the subscription; pushes may arrive before that.
   * Rejects with RpcRefusedError when the node refuses it, with SocketLostError otherwise.
   */
  subscribe(params: readonly unknown[], onPush: (result: unknown) => void): Promise<() => void>;
  /** Resolves when the connection ends. */
  readonly over: Promise<void>;
  close(): void;
};

/**
 * Opens one WebSocket connection; rejects with SocketLostError. It is never repaired: when it fails, the
 * caller opens another. `onMalformed` is called for each message that is not JSON-RPC. This uses the
 * platform's WebSocket because it needs the code of a refused subscription and a limit on every wait, and
 * a malformed push must cost one push and not the connection.
 */
export async function openSocket(url: string, onMalformed: () => void): Promise<NodeSocket> {
  const socket = new WebSocket(url);
  const opened = Promise.withResolvers<void>();
  const over = Promise.withResolvers<void>();
  const waiting = new Map<number, PromiseWithResolvers<unknown>>();
  const subscriptions = new Map<string, (result: unknown) => void>();
  let nextId = 1;

  const end = () => {
    const lost = new SocketLostError('the connection to the chain node ended');
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
      // Pushes of an ended subscription may still arrive.
      return subscriptions.get(subscription)?.(result);
    }
    const answer = SocketAnswer.safeParse(message);
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
      const { error, result } = SocketAnswer.parse(await answer.promise);
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

/** Undefined if it is not JSON. */
function parse(data: unknown): unknown {
  if (typeof data !== 'string') return undefined;
  try {
    return JSON.parse(data);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}
