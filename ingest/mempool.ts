/**
 * New heads and pending transactions of the chain node: pushed over WebSocket while there is a
 * connection, polled over HTTP if there is none or it is silent. A connection that fails is replaced by
 * one to the next endpoint, which starts again with the best way. Pushes are not trusted to be complete,
 * in order or unique: final blocks bring what is missed.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import { z } from 'zod';
import {
  HashLookups,
  type MempoolNode,
  type NodeSocket,
  openSocket,
  pollPool,
  RpcRefusedError,
  SocketLostError,
} from './mempool-node.ts';
import { Transaction } from './rpc.ts';
import { RpcError } from './rpc-pool.ts';

/** A connection is replaced after this long without a new head; blocks come every two seconds. */
const SILENCE_MS_MAX = 30_000;
const RECONNECT_MS = 500;
/** How long a connection is kept on which the node refused pending transactions. */
const REFUSED_MS = 15_000;
/** Heads are polled after this long without a pushed one. */
const HEAD_QUIET_MS = 5_000;
const HEAD_POLL_MS = 1_000;
/** In `auto`, the pool is polled after this long without a connection. */
const DISCONNECTED_MS_MAX = 5_000;
/** In `auto`, a source is given up when this many heads had unseen matches and it pushed nothing. */
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

/** The source to try after an unusable one. A configured source is never left. */
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

/** The kind of a push, by its shape, because nodes ignore parameters that they do not know. */
export function shapeOf(push: unknown): 'hash' | 'body' | 'other' {
  if (typeof push === 'string') return /^0x[0-9a-fA-F]{64}$/.test(push) ? 'hash' : 'other';
  return typeof push === 'object' && push !== null && 'hash' in push ? 'body' : 'other';
}

/** True if the error means that the node does not support the call, not that it cannot serve it now. */
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

  /** Call this for each head with matches that were not pushed; a mute source is given up. */
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

  /** Uses one connection until it ends, falls silent, or the signal aborts. */
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
      // The next connection tries again; this one keeps delivering heads meanwhile.
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
