/**
 * Receives new heads and pending transactions from the chain node. The node pushes them over WebSocket; without a
 * connection, or if it is silent, they are polled over HTTP. A failed connection is replaced by one to the next
 * endpoint, which starts with the best source again. Pushes need not be complete, in order or unique: final blocks fill
 * the gaps.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import type { Logger } from 'pino';
import { numberToHex } from 'viem';
import { z } from 'zod';
import type { IngestConfig, MEMPOOL_SOURCES } from '../../infra/config.ts';
import { upTo } from '../../infra/lru.ts';
import { parsed, Quantity, Transaction } from '../chain/rpc.ts';
import { type PoolOptions, RpcError, RpcPool, withoutCredentials } from '../chain/rpc-pool.ts';

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
/** In `auto`, a source is abandoned if it pushed nothing while this many heads had unseen matches. */
const MUTE_HEADS_MAX = 10;
/**
 * Transient errors (EIP-1474): internal error, resource unavailable, limit exceeded; some providers use HTTP's 429 as a
 * code. Any other code means that the node does not support the call.
 */
const TRANSIENT_CODES: ReadonlySet<number> = new Set([-32603, -32002, -32005, 429]);

export type MempoolSource = (typeof MEMPOOL_SOURCES)[number];
export type MempoolSetting = IngestConfig['MEMPOOL'];

/**
 * The sources to try, best first. If none is usable, the source is `off`, and matches are first seen in blocks.
 */
function sourcesOf(setting: MempoolSetting): readonly MempoolSource[] {
  if (setting === 'auto') return ['full', 'alchemy', 'hashes', 'txpool'];
  return setting === 'off' ? [] : [setting];
}

/** Parameters of the subscription. */
function subscriptionOf(
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

/** The kind of a push. Its shape decides, because nodes ignore subscription parameters that they do not support. */
export function shapeOf(push: unknown): 'hash' | 'body' | 'other' {
  if (typeof push === 'string') return /^0x[0-9a-fA-F]{64}$/.test(push) ? 'hash' : 'other';
  return typeof push === 'object' && push !== null && 'hash' in push ? 'body' : 'other';
}

/** True if the error means that the node does not support the call; false if it is only busy. */
export function refuses(error: unknown): boolean {
  return isRefusal(error) && !TRANSIENT_CODES.has(error.code);
}

function isRefusal(error: unknown): error is RpcError {
  return error instanceof RpcError && error.class === 'refused';
}

const Head = z.object({ number: z.string().regex(/^0x[0-9a-f]{1,13}$/) });

export type SubscriptionOptions = {
  /** WebSocket endpoints, used in turn when a connection fails. */
  readonly urls: readonly string[];
  readonly node: MempoolNode;
  readonly setting: MempoolSetting;
  /** Only calls to these addresses are reported; lower case. */
  readonly exchanges: ReadonlySet<string>;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  readonly onHead: (number: number) => void;
  readonly onPending: (transaction: Transaction, source: MempoolSource) => void;
  /** Called when the source of pending transactions changes. */
  readonly onSource: (source: MempoolSource | 'off') => void;
  /** Called for pushes that are dropped, with the reason. */
  readonly onDropped: (reason: 'malformed' | 'too_old') => void;
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
    const { logger, node, signal, onDropped } = options;
    this.#lookups = new HashLookups({
      node,
      signal,
      onBody: (body) => this.#take(body, 'hashes'),
      onTooOld: () => onDropped('too_old'),
      // At debug level, because a busy chain would log a line for every hash.
      onFailure: (error) => logger.debug({ err: error }, 'could not look up a pending transaction'),
    });
  }

  /** The current source of pending transactions. */
  get source(): MempoolSource | 'off' {
    return this.#source;
  }

  /** Runs until the signal aborts. */
  async run(): Promise<void> {
    if (this.#options.setting === 'txpool') this.#startPolling();
    await Promise.all([this.#connect(), this.#pollHeads()]);
    this.#polling?.abort();
  }

  /** Call this for each head with matches that were not pushed. After several, a silent source is abandoned. */
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
        const socket = await openSocket(url, () => onDropped('malformed'));
        await this.#serve(socket);
        connectedAtMs = performance.now();
        if (!signal.aborted)
          logger.warn({ endpoint }, 'chain subscription lost, trying the next endpoint');
      } catch (error) {
        if (!(error instanceof RpcError)) throw error;
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
    const { setting, logger, signal } = this.#options;
    let timer = setTimeout(socket.close, SILENCE_MS_MAX);
    signal.addEventListener('abort', socket.close, { once: true });
    if (signal.aborted) socket.close();
    try {
      await this.#subscribeHeads(socket, () => {
        clearTimeout(timer);
        timer = setTimeout(socket.close, SILENCE_MS_MAX);
      });
      for (const source of sourcesOf(setting)) {
        if ((await this.#use(source, socket)) === 'over') break;
        logger.info({ source }, 'no pending transactions from this source');
      }
      await socket.over;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', socket.close);
      socket.close();
      if (this.#source !== 'txpool') this.#changeTo('off');
    }
  }

  async #subscribeHeads(socket: NodeSocket, onAlive: () => void): Promise<void> {
    const { logger, onHead, onDropped } = this.#options;
    try {
      await socket.subscribe(['newHeads'], (result) => {
        const head = Head.safeParse(result);
        if (!head.success) return onDropped('malformed');
        onAlive();
        this.#headAtMs = performance.now();
        onHead(Number(head.data.number));
      });
    } catch (error) {
      if (!isRefusal(error)) throw error;
      logger.warn({ err: error }, 'the node does not push heads, polling instead');
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
      if (!isRefusal(error)) throw error;
      logger.warn({ err: error, source }, 'the node refused pending transactions');
      if (setting === 'auto' && refuses(error)) return 'unusable';
      // This connection still delivers heads for a while; the next one tries to subscribe again.
      await Promise.race([socket.over, delay(REFUSED_MS)]);
      throw new RpcError('network', 'the node refused pending transactions', { cause: error });
    } finally {
      this.#giveUp = () => undefined;
    }
  }

  /** Reports a body or looks up a hash; returns `unwanted` for a hash from a source that should push bodies. */
  #take(push: unknown, source: MempoolSource): 'taken' | 'unwanted' {
    const { exchanges, setting, onPending, onDropped } = this.#options;
    const shape = shapeOf(push);
    if (shape === 'hash') {
      if (source !== 'hashes' && setting === 'auto') return 'unwanted';
      void this.#lookups.add(String(push));
    } else if (shape === 'other') onDropped('malformed');
    else {
      // Nearly all transactions call other contracts and are not worth parsing.
      const { to } = push as { readonly to?: unknown };
      if (typeof to !== 'string' || !exchanges.has(to.toLowerCase())) return 'taken';
      const transaction = Transaction.safeParse(push);
      if (transaction.success) onPending(transaction.data, source);
      else onDropped('malformed');
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
        logger.warn({ err: error }, 'could not read the transaction pool, retrying');
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
        logger.warn({ err: error }, 'could not poll the newest block, retrying');
      }
    }
  }
}

const KNOWN_MAX = 100_000;
/** Two blocks of Polygon. */
const AGE_MS_MAX = 4_000;
/** Pause before a missing body is requested again. */
const LOOKUP_RETRY_MS = 100;

const POLL_MS = 250;
/** The pause is at least this many times the duration of the poll. */
const PAUSE_FACTOR = 2;
const FAILED_MS = 2_000;

const ANSWER_MS_MAX = 10_000;

/** Bodies are not checked here: a pool has thousands, and nearly all were in the previous poll, too. */
const PoolContent = z.object({ pending: z.record(z.string(), z.record(z.string(), z.unknown())) });
const Receipt = z.object({ status: Quantity, blockNumber: Quantity });
export type Receipt = z.infer<typeof Receipt>;

export type MempoolNode = ReturnType<typeof connectMempoolNode>;

/**
 * The HTTP requests of the mempool side. They have their own pool, so they do not queue behind a catch-up. Every method
 * rejects with RpcError if all endpoints failed. Nothing is retried later: the caller repeats its request, or the match
 * is found in its block.
 */
export function connectMempoolNode(urls: string, options: PoolOptions = {}) {
  const pool = new RpcPool(urls.split(','), options);
  const request = <T>(method: string, params: readonly unknown[], schema: z.ZodType<T>) =>
    pool.call({ method, params }, (answer) => parsed(schema, answer));
  return {
    /** Number of the newest block. */
    head: () => request('eth_blockNumber', [], Quantity),
    /** As the node returned it, undefined for an unknown hash. Calls of the same tick share a request. */
    async transaction(hash: string): Promise<object | undefined> {
      const schema = z.looseObject({}).nullable();
      return (await request('eth_getTransactionByHash', [hash], schema)) ?? undefined;
    },
    /** By hash, every transaction that could be mined next, as the node returned it. */
    async pool(): Promise<ReadonlyMap<string, object>> {
      const { pending } = await request('txpool_content', [], PoolContent);
      const bodies = Object.values(pending).flatMap((ofSender): readonly unknown[] =>
        Object.values(ofSender),
      );
      const hasHash = (body: unknown): body is { readonly hash: unknown } =>
        typeof body === 'object' && body !== null && 'hash' in body;
      return new Map(bodies.filter(hasHash).map((body) => [String(body.hash), body]));
    },
    /** Number of the sender's transactions that were mined up to the end of a block. */
    transactionCount(sender: string, blockNumber: number): Promise<number> {
      return request('eth_getTransactionCount', [sender, numberToHex(blockNumber)], Quantity);
    },
    /** Undefined if the transaction is in no block. */
    async receipt(hash: string): Promise<Receipt | undefined> {
      return (await request('eth_getTransactionReceipt', [hash], Receipt.nullable())) ?? undefined;
    },
  };
}

export type HashLookupOptions = {
  readonly node: Pick<MempoolNode, 'transaction'>;
  readonly signal: AbortSignal;
  readonly onBody: (body: object) => void;
  /** Called when a hash is dropped. */
  readonly onTooOld: () => void;
  /** Called when a request fails; it is repeated. */
  readonly onFailure: (error: unknown) => void;
};

/**
 * Looks up bodies for a node that pushes only hashes. The node may push a hash before it can return the body, so a
 * missing body is requested again for a while. Then the hash is dropped, because its match is found in its block.
 */
export class HashLookups {
  readonly #options: HashLookupOptions;
  readonly #known = new LRUCache<string, true>(upTo(KNOWN_MAX));

  constructor(options: HashLookupOptions) {
    this.#options = options;
  }

  /** Requests the body of a pushed hash, unless the hash was pushed before. Never rejects. */
  async add(hash: string): Promise<void> {
    if (this.#known.has(hash)) return;
    this.#known.set(hash, true);
    const { node, signal, onBody, onTooOld, onFailure } = this.#options;
    const untilMs = performance.now() + AGE_MS_MAX;
    while (!signal.aborted && performance.now() < untilMs) {
      try {
        const body = await node.transaction(hash);
        if (body !== undefined) return onBody(body);
      } catch (error) {
        onFailure(error);
      }
      await delay(LOOKUP_RETRY_MS, undefined, { signal }).catch(() => undefined);
    }
    if (!signal.aborted) onTooOld();
  }
}

/**
 * Polls the whole pool of a node that pushes no pending transactions, and reports those that are new since the previous
 * poll. The pause grows with the duration of a poll. Ends when the signal aborts and never rejects.
 */
async function pollPool(options: {
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
      waitMs = Math.max(POLL_MS, (performance.now() - startedAt) * PAUSE_FACTOR);
    } catch (error) {
      if (signal.aborted) return;
      onFailure(error);
    }
    await delay(waitMs, undefined, { signal }).catch(() => undefined);
  }
}

const Answer = z.object({
  id: z.int(),
  result: z.unknown().optional(),
  error: z.object({ code: z.number(), message: z.string() }).optional(),
});
type Answer = z.infer<typeof Answer>;
const Push = z.object({
  method: z.literal('eth_subscription'),
  params: z.object({ subscription: z.string(), result: z.unknown() }),
});

type NodeSocket = Awaited<ReturnType<typeof openSocket>>;

/**
 * Opens one WebSocket connection; rejects with RpcError. It never reconnects: after a failure, the caller opens another
 * one. `onMalformed` is called for each message that is not JSON-RPC. We use the platform's WebSocket because we need
 * the code of a refused subscription and a timeout on every wait, and because a malformed push must not end the
 * connection.
 */
async function openSocket(url: string, onMalformed: () => void) {
  const { url: target, headers } = withoutCredentials(url);
  const socket = new WebSocket(target, { headers });
  const opened = Promise.withResolvers<void>();
  const over = Promise.withResolvers<void>();
  const waiting = new Map<number, PromiseWithResolvers<Answer>>();
  const subscriptions = new Map<string, (result: unknown) => void>();
  let nextId = 1;

  const end = () => {
    const lost = new RpcError('network', 'the connection to the chain node ended');
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
    const answer = Answer.safeParse(message);
    if (answer.success) waiting.get(answer.data.id)?.resolve(answer.data);
    else onMalformed();
  });

  async function call(method: string, params: readonly unknown[]): Promise<unknown> {
    const id = nextId++;
    const answer = Promise.withResolvers<Answer>();
    waiting.set(id, answer);
    const timer = setTimeout(
      () => answer.reject(new RpcError('timeout', `${method}: no response`)),
      ANSWER_MS_MAX,
    );
    try {
      if (socket.readyState !== WebSocket.OPEN) throw new RpcError('network', 'not connected');
      socket.send(JSON.stringify({ jsonrpc: '2.0', id, method, params }));
      const { error, result } = await answer.promise;
      if (error === undefined) return result;
      throw new RpcError('refused', `${method}: ${error.message}`, { code: error.code });
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
    /**
     * Resolves with a function that ends the subscription; pushes may arrive before that. Rejects with RpcError, of
     * class `refused` if the node refuses the subscription.
     */
    async subscribe(
      params: readonly unknown[],
      onPush: (result: unknown) => void,
    ): Promise<() => void> {
      const id = z.string().safeParse(await call('eth_subscribe', params));
      if (!id.success) throw new RpcError('shape', 'eth_subscribe: no subscription id');
      subscriptions.set(id.data, onPush);
      return () => {
        subscriptions.delete(id.data);
        call('eth_unsubscribe', [id.data]).catch(() => undefined);
      };
    },
    /** Resolves when the connection ends. */
    over: over.promise,
    close() {
      end();
      socket.close();
    },
  };
}

/** The parsed message; undefined if it is not JSON. */
function parse(data: unknown): unknown {
  if (typeof data !== 'string') return undefined;
  try {
    return JSON.parse(data);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}
