/**
 * New heads and pending transactions of the chain node. They are pushed over WebSocket while there is a
 * connection, and polled over HTTP if there is none or it is silent. A failed connection is replaced by
 * one to the next endpoint, which starts with the best source again. Pushes need not be complete, in
 * order or unique: final blocks fill the gaps.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import type { Logger } from 'pino';
import { numberToHex } from 'viem';
import { z } from 'zod';
import { parsed, Quantity, Transaction } from './rpc.ts';
import { RpcError, RpcPool } from './rpc-pool.ts';

/** A connection is replaced after this long without a new head; blocks come every two seconds. */
const SILENCE_MS_MAX = 30_000;
const RECONNECT_MS = 500;
/** Lifetime of a connection after the node refused pending transactions on it. */
const REFUSED_MS = 15_000;
/** Heads are polled after this long without a pushed one. */
const HEAD_QUIET_MS = 5_000;
const HEAD_POLL_MS = 1_000;
/** In `auto`, the pool is polled after this long without a connection. */
const DISCONNECTED_MS_MAX = 5_000;
/** In `auto`, a source is abandoned when this many heads had unseen matches and it pushed nothing. */
const MUTE_HEADS_MAX = 10;
/**
 * Transient errors (EIP-1474): internal, resource unavailable, limit exceeded; some providers use HTTP's
 * 429 as a code. Every other code means that the node does not support the call.
 */
const TRANSIENT_CODES: ReadonlySet<number> = new Set([-32603, -32002, -32005, 429]);

/**
 * `full`: bodies pushed by the node (bor, geth, anvil). `alchemy`: bodies of calls to the exchanges.
 * `hashes`: hashes pushed, bodies looked up. `txpool`: the pool by polling.
 */
export type MempoolSource = 'full' | 'alchemy' | 'hashes' | 'txpool';
export type MempoolSetting = 'auto' | MempoolSource | 'off';

/** From best to worst. If none is usable, the source is `off`, and matches are first seen in blocks. */
const LADDER: readonly MempoolSource[] = ['full', 'alchemy', 'hashes', 'txpool'];

export function firstSource(setting: MempoolSetting): MempoolSource | 'off' {
  return setting === 'auto' ? 'full' : setting;
}

/** The source to try after an unusable one. A configured source is never abandoned. */
export function nextSource(setting: MempoolSetting, failed: MempoolSource): MempoolSource | 'off' {
  if (setting !== 'auto') return failed;
  return LADDER[LADDER.indexOf(failed) + 1] ?? 'off';
}

/** Parameters of the subscription. */
export function subscriptionOf(
  source: Exclude<MempoolSource, 'txpool'>,
  exchanges: readonly string[],
): readonly unknown[] {
  switch (source) {
    case 'full':
      return ['newPendingTransactions', true];
    case 'alchemy':
      return ['alchemy_pendingTransactions', { toAddress: exchanges, hashesOnly: false }];
    case 'hashes':
      return ['newPendingTransactions'];
  }
}

/** The kind of a push, by its shape, because nodes ignore unknown parameters. */
export function shapeOf(push: unknown): 'hash' | 'body' | 'other' {
  if (typeof push === 'string') return /^0x[0-9a-fA-F]{64}$/.test(push) ? 'hash' : 'other';
  return typeof push === 'object' && push !== null && 'hash' in push ? 'body' : 'other';
}

/** True if the error means that the node does not support the call; false if it is only busy. */
export function refuses(error: unknown): boolean {
  const isAnswer =
    error instanceof RpcRefusedError || (error instanceof RpcError && error.class === 'refused');
  return isAnswer && !TRANSIENT_CODES.has(error.code);
}

const Head = z.object({ number: z.string().regex(/^0x[0-9a-f]{1,13}$/) });

export type SubscriptionOptions = {
  /** WebSocket endpoints, used in turn when a connection fails. */
  readonly urls: readonly string[];
  readonly node: MempoolNode;
  readonly setting: MempoolSetting;
  /** Only calls to these addresses are passed on; lower case. */
  readonly exchanges: ReadonlySet<string>;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  readonly onHead: (number: number) => void;
  readonly onPending: (transaction: Transaction, source: MempoolSource) => void;
  /** Called when the source of pending transactions changes. */
  readonly onSource: (source: MempoolSource | 'off') => void;
  /** Called for pushes that are not passed on, with the reason. */
  readonly onDropped: (reason: 'malformed' | 'too_many' | 'too_old', count: number) => void;
};

export class Subscription {
  readonly #options: SubscriptionOptions;
  readonly #lookups: HashLookups;
  #source: MempoolSource | 'off' = 'off';
  /** Switches from the current source to the next one; set in `auto` only. */
  #giveUp: () => void = () => undefined;
  #polling: AbortController | undefined;
  #headAtMs = performance.now();
  #missed = 0;

  constructor(options: SubscriptionOptions) {
    this.#options = options;
    const { logger, node, onDropped } = options;
    this.#lookups = new HashLookups({
      node,
      onBody: (body) => this.#take(body, 'hashes'),
      onDropped,
      onFailure: (error) => logger.warn({ err: error }, 'pending transactions not looked up'),
    });
  }

  /** The current source of pending transactions. */
  get source(): MempoolSource | 'off' {
    return this.#source;
  }

  /** Stays subscribed until the signal aborts. */
  async run(): Promise<void> {
    if (this.#options.setting === 'txpool') this.#startPolling();
    await Promise.all([this.#connect(), this.#pollHeads()]);
    this.#polling?.abort();
  }

  /** Call this for each head with matches that were not pushed; a silent source is abandoned. */
  missed(): void {
    this.#missed += 1;
    if (this.#missed < MUTE_HEADS_MAX) return;
    this.#missed = 0;
    this.#giveUp();
  }

  async #connect(): Promise<void> {
    const { urls, setting, logger, signal, onDropped } = this.#options;
    let connectedAtMs = performance.now();
    for (let attempt = 0; !signal.aborted; attempt += 1) {
      const url = urls[attempt % urls.length] ?? '';
      // The path of a URL may contain a key.
      const endpoint = new URL(url).host;
      try {
        const socket = await openSocket(url, () => onDropped('malformed', 1));
        await this.#serve(socket);
        connectedAtMs = performance.now();
        if (!signal.aborted)
          logger.warn({ endpoint }, 'chain subscription lost, trying the next endpoint');
      } catch (error) {
        if (!(error instanceof SocketLostError)) throw error;
        logger.warn(
          { err: error, endpoint },
          'cannot subscribe to the chain, trying the next endpoint',
        );
      }
      const isDisconnected = performance.now() - connectedAtMs > DISCONNECTED_MS_MAX;
      if (setting === 'auto' && isDisconnected && !signal.aborted) this.#startPolling();
      await delay(RECONNECT_MS, undefined, { signal }).catch(() => undefined);
    }
  }

  /** Uses one connection until it ends, becomes silent, or the signal aborts. */
  async #serve(socket: NodeSocket): Promise<void> {
    const { setting, signal } = this.#options;
    let timer = setTimeout(socket.close, SILENCE_MS_MAX);
    signal.addEventListener('abort', socket.close, { once: true });
    if (signal.aborted) socket.close();
    try {
      await this.#subscribeHeads(socket, () => {
        clearTimeout(timer);
        timer = setTimeout(socket.close, SILENCE_MS_MAX);
      });
      let source = firstSource(setting);
      while (source !== 'off' && (await this.#use(source, socket)) === 'unusable') {
        const next = nextSource(setting, source);
        this.#options.logger.info({ source, next }, 'no pending transactions from this source');
        source = next;
      }
      await socket.over;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', socket.close);
      socket.close();
      if (this.#source !== 'txpool') this.#changeTo('off');
    }
  }

  async #subscribeHeads(socket: NodeSocket, heard: () => void): Promise<void> {
    const { logger, onHead, onDropped } = this.#options;
    try {
      await socket.subscribe(['newHeads'], (result) => {
        const head = Head.safeParse(result);
        if (!head.success) return onDropped('malformed', 1);
        heard();
        this.#headAtMs = performance.now();
        onHead(Number(head.data.number));
      });
    } catch (error) {
      if (!(error instanceof RpcRefusedError)) throw error;
      logger.warn({ err: error }, 'the node pushes no heads, polling them');
    }
  }

  /** Uses a source until the connection ends or the source turns out to be unusable. */
  async #use(source: MempoolSource, socket: NodeSocket): Promise<'over' | 'unusable'> {
    const { setting, exchanges, logger } = this.#options;
    if (source === 'txpool') {
      this.#startPolling();
      await socket.over;
      return 'over';
    }
    const unusable = Promise.withResolvers<void>();
    try {
      const params = subscriptionOf(source, [...exchanges]);
      const end = await socket.subscribe(params, (push) => {
        this.#missed = 0;
        if (this.#take(push, source) === 'unwanted' && setting === 'auto') unusable.resolve();
      });
      this.#polling?.abort();
      this.#changeTo(source);
      this.#missed = 0;
      if (setting === 'auto') this.#giveUp = unusable.resolve;
      logger.info({ source }, 'subscribed to pending transactions');
      const outcome = await Promise.race([
        socket.over.then(() => 'over' as const),
        unusable.promise.then(() => 'unusable' as const),
      ]);
      end();
      return outcome;
    } catch (error) {
      if (!(error instanceof RpcRefusedError)) throw error;
      logger.warn({ err: error, source }, 'the node refused pending transactions');
      if (setting === 'auto' && refuses(error)) return 'unusable';
      // The next connection tries again; meanwhile this one still delivers heads.
      await Promise.race([socket.over, delay(REFUSED_MS)]);
      throw new SocketLostError('the node refused pending transactions', { cause: error });
    } finally {
      this.#giveUp = () => undefined;
    }
  }

  /** Passes on a body or looks up a hash; `unwanted` for a hash from a source of bodies. */
  #take(push: unknown, source: MempoolSource): 'taken' | 'unwanted' {
    const { exchanges, setting, onPending, onDropped } = this.#options;
    const shape = shapeOf(push);
    if (shape === 'hash') {
      if (source !== 'hashes' && setting === 'auto') return 'unwanted';
      this.#lookups.add(String(push));
    } else if (shape === 'other') onDropped('malformed', 1);
    else {
      // Nearly all transactions call other contracts and are not worth parsing.
      const { to } = push as { readonly to?: unknown };
      if (typeof to !== 'string' || !exchanges.has(to.toLowerCase())) return 'taken';
      const transaction = Transaction.safeParse(push);
      if (transaction.success) onPending(transaction.data, source);
      else onDropped('malformed', 1);
    }
    return 'taken';
  }

  #changeTo(source: MempoolSource | 'off'): void {
    this.#source = source;
    this.#options.onSource(source);
  }

  #startPolling(): void {
    const { node, logger, signal, setting } = this.#options;
    if (this.#polling?.signal.aborted === false) return;
    const polling = new AbortController();
    this.#polling = polling;
    this.#changeTo('txpool');
    logger.info('polling the pool for pending transactions');
    void pollPool({
      node,
      signal: AbortSignal.any([signal, polling.signal]),
      onBody: (body) => this.#take(body, 'txpool'),
      onFailure: (error) => {
        logger.warn({ err: error }, 'the pool could not be read');
        if (setting !== 'auto' || !refuses(error)) return;
        polling.abort();
        this.#changeTo('off');
      },
    });
  }

  /** Polls the head while none is pushed. */
  async #pollHeads(): Promise<void> {
    const { node, signal, logger, onHead } = this.#options;
    let polled = -1;
    while (!signal.aborted) {
      await delay(HEAD_POLL_MS, undefined, { signal }).catch(() => undefined);
      if (signal.aborted || performance.now() - this.#headAtMs < HEAD_QUIET_MS) continue;
      try {
        const head = await node.head();
        if (head !== polled) onHead(head);
        polled = head;
      } catch (error) {
        logger.warn({ err: error }, 'the head could not be polled');
      }
    }
  }
}

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

/** Bodies are not checked here: a pool has thousands, and nearly all are known from the previous poll. */
const PoolContent = z.object({ pending: z.record(z.string(), z.record(z.string(), z.unknown())) });
const Receipt = z.object({ status: Quantity, blockNumber: Quantity });
export type Receipt = z.infer<typeof Receipt>;

export type MempoolNode = {
  /** Number of the newest block. */
  head(): Promise<number>;
  /** As returned by the node, undefined for an unknown hash; in the order of the hashes. */
  transactions(hashes: readonly string[]): Promise<readonly (object | undefined)[]>;
  /** Every transaction that could be mined next, by hash, as returned by the node. */
  pool(): Promise<ReadonlyMap<string, object>>;
  /** Number of transactions of the sender that were mined up to the end of a block. */
  transactionCount(sender: string, blockNumber: number): Promise<number>;
  /** Undefined if the transaction is in no block. */
  receipt(hash: string): Promise<Receipt | undefined>;
};

/**
 * The HTTP requests of the mempool side, in their own pool: they do not wait behind a catch-up. Every
 * method rejects with RpcError if all endpoints failed. Nothing is retried over time: the caller repeats
 * its request, or the match comes with its block.
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
  /** Called for hashes that are dropped, with the reason. */
  readonly onDropped: (reason: 'too_many' | 'too_old', count: number) => void;
  /** Called when a request fails; its hashes are requested again. */
  readonly onFailure: (error: unknown) => void;
};

type Waiting = { readonly hash: string; readonly sinceMs: number };

/**
 * Bodies for a node that pushes hashes only: looked up in batches, a few at a time. Bounded in number and
 * in age: a hash that waits too long is dropped, because its match comes with the block. A node may push
 * a hash before it can return its body, so a missing body is requested again while it is young.
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
    // The newest hash is the most likely to be still pending, but older ones are closer to a response.
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
 * Polls the whole pool, for a node that pushes no pending transactions, and passes on the transactions
 * that are new since the previous poll. The pause grows with the duration of a poll. Ends when the signal
 * aborts and never rejects.
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

/** The node responded to the call with a JSON-RPC error. */
export class RpcRefusedError extends Error {
  /** JSON-RPC error code. */
  readonly code: number;

  constructor(method: string, code: number, message: string) {
    super(`${method}: ${message} (${code})`);
    this.code = code;
  }
}

/** The connection failed, was lost, or timed out. */
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
   * Resolves with a function that ends the subscription; pushes may arrive before that. Rejects with
   * RpcRefusedError if the node refuses it, with SocketLostError otherwise.
   */
  subscribe(params: readonly unknown[], onPush: (result: unknown) => void): Promise<() => void>;
  /** Resolves when the connection ends. */
  readonly over: Promise<void>;
  close(): void;
};

/**
 * Opens one WebSocket connection; rejects with SocketLostError. It is never repaired: when it fails, the
 * caller opens another. `onMalformed` is called for each message that is not JSON-RPC. This uses the
 * platform's WebSocket because it needs the code of a refused subscription and a timeout on every wait. A
 * malformed push must cost one push and not the connection.
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
