/**
 * Several nodes of one chain as one. A call goes to the healthiest node, and to the next one where the
 * answer fails, is malformed, or does not pass the caller's own check; it rejects when every node was
 * asked once. A node of another chain is never believed. Calls of the same tick travel together.
 */
import type { Logger } from 'pino';
import { Counter, Gauge, type Registry } from 'prom-client';
import { Endpoint, type RpcCall } from './rpc-endpoint.ts';
import { RpcError } from './rpc-error.ts';

const REQUESTS_MAX = 16;
const WHOLE_BLOCKS_MAX = 4;
const COOL_MIN_MS = 100;
const COOL_MAX_MS = 10_000;
const DOUBT_MS = 2_000;
/** Weight of the newest request in a node's error share and latency. */
const NEWEST = 0.1;

export type PoolOptions = {
  /** The chain that every node must be of; not checked when left out. */
  readonly chainId?: number;
  readonly registry?: Registry;
  readonly logger?: Logger;
};

type Item = {
  readonly call: RpcCall;
  readonly accept: (result: unknown) => void;
  readonly reject: (error: unknown) => void;
  /** Of the node that was asked last. */
  error?: RpcError;
};

type Node = {
  readonly endpoint: Endpoint;
  state: 'unknown' | 'right_chain' | 'wrong_chain';
  failures: number;
  errorShare: number;
  latencyMs: number;
  coolUntilMs: number;
  /** Until then it is asked after those that are not in doubt. */
  doubtUntilMs: number;
  /** Said 429: not asked at all before `coolUntilMs`. */
  limited: boolean;
};

export class RpcPool {
  readonly #nodes: readonly Node[];
  readonly #options: PoolOptions;
  readonly #requests: Counter<'endpoint'> | undefined;
  readonly #errors: Counter<'endpoint' | 'class'> | undefined;
  #gathered: Item[] = [];
  #running = 0;
  readonly #turns: (() => void)[] = [];

  constructor(urls: readonly string[], options: PoolOptions = {}) {
    this.#options = options;
    this.#nodes = labelled(urls).map(([url, label]) => ({
      endpoint: new Endpoint(url, label),
      state: options.chainId === undefined ? 'right_chain' : 'unknown',
      failures: 0,
      errorShare: 0,
      latencyMs: 0,
      coolUntilMs: 0,
      doubtUntilMs: 0,
      limited: false,
    }));
    const registers = options.registry === undefined ? [] : [options.registry];
    if (registers.length === 0) return;
    const name = 'fillstream_rpc';
    this.#requests = new Counter({
      name: `${name}_requests_total`,
      help: 'HTTP requests to a chain node; a batch counts once',
      labelNames: ['endpoint'],
      registers,
    });
    this.#errors = new Counter({
      name: `${name}_errors_total`,
      help: 'requests and answers of a chain node that failed, by class',
      labelNames: ['endpoint', 'class'],
      registers,
    });
    const nodes = this.#nodes;
    new Gauge({
      name: `${name}_health`,
      help: 'share of recent requests that a chain node answered well',
      labelNames: ['endpoint'],
      registers,
      collect() {
        for (const { endpoint, errorShare } of nodes) {
          this.set({ endpoint: endpoint.label }, 1 - errorShare);
        }
      },
    });
  }

  /**
   * The first answer that `parse` takes, from the healthiest node on; `parse` throws RpcError for one
   * that it does not believe. Rejects with the last node's RpcError when none gave one.
   */
  call<T>(call: RpcCall, parse: (result: unknown) => T): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const accept = (result: unknown) => resolve(parse(result));
    if (this.#gathered.length === 0) setImmediate(() => this.#flush());
    this.#gathered.push({ call, accept, reject });
    return promise;
  }

  /** What each node says, asked apart: a value, or why it gave none. */
  async everyone<T>(call: RpcCall, parse: (result: unknown) => T) {
    const ask = async (node: Node) => {
      const { promise, resolve, reject } = Promise.withResolvers<T>();
      const item: Item = { call, accept: (result) => resolve(parse(result)), reject };
      if ((await this.#ask(node, [item])).length > 0) reject(item.error as RpcError);
      return promise;
    };
    return Promise.allSettled(this.#nodes.map(ask));
  }

  /** Answers did not fit together, and nobody knows whose are wrong: the next attempt asks others first. */
  doubt(): void {
    const [first] = this.#ranked();
    if (first === undefined) return;
    this.#errors?.inc({ endpoint: first.endpoint.label, class: 'inconsistent' });
    first.doubtUntilMs = performance.now() + DOUBT_MS;
  }

  #flush(): void {
    const size = this.#ranked()[0]?.endpoint.batchMax ?? 1;
    const items = this.#gathered;
    this.#gathered = [];
    for (const [together, some] of Map.groupBy(items, togetherMax)) {
      const step = Math.min(together, size);
      for (let i = 0; i < some.length; i += step) void this.#settle(some.slice(i, i + step));
    }
  }

  async #settle(items: readonly Item[]): Promise<void> {
    await this.#turn();
    let left = items;
    try {
      for (const node of this.#ranked()) {
        left = await this.#ask(node, left);
        if (left.length === 0) return;
      }
    } finally {
      this.#running -= 1;
      this.#turns.shift()?.();
    }
    const usable = this.#nodes.some((node) => node.state !== 'wrong_chain');
    for (const { error, reject } of left) {
      const final = error === undefined || (error.class === 'wrong_chain' && usable);
      reject(final ? this.#nobody() : error);
    }
  }

  /** Asks one node; resolves with the items that it did not answer well, each with its error. */
  async #ask(node: Node, items: readonly Item[]): Promise<readonly Item[]> {
    const startedMs = performance.now();
    const left: Item[] = [];
    let asked = 0;
    try {
      await this.#identify(node);
      while (asked < items.length) {
        const some = items.slice(asked, asked + node.endpoint.batchMax);
        this.#requests?.inc({ endpoint: node.endpoint.label });
        const results = await node.endpoint.send(some.map((item) => item.call));
        left.push(...some.filter((item, index) => !this.#take(node, item, results[index])));
        asked += some.length;
      }
    } catch (error) {
      if (!(error instanceof RpcError)) throw error;
      this.#failed(node, error);
      const unanswered = items.slice(asked);
      for (const item of unanswered) item.error = error;
      return [...left, ...unanswered];
    }
    node.latencyMs += NEWEST * (performance.now() - startedMs - node.latencyMs);
    if (left.length === 0) this.#succeeded(node);
    return left;
  }

  #take(node: Node, item: Item, result: unknown): boolean {
    try {
      if (result instanceof RpcError) throw result;
      item.accept(result);
      return true;
    } catch (error) {
      if (!(error instanceof RpcError)) {
        // A fault of the caller's parser, no answer of a node: nobody else is asked.
        item.reject(error);
        return true;
      }
      item.error = error;
      this.#failed(node, error);
      return false;
    }
  }

  /** Asks a node once which chain it is of. */
  async #identify(node: Node): Promise<void> {
    const { chainId, logger } = this.#options;
    if (node.state === 'right_chain') return;
    const { label } = node.endpoint;
    const [answer] = await node.endpoint.send([{ method: 'eth_chainId', params: [] }]);
    if (answer instanceof RpcError) throw answer;
    const actual = typeof answer === 'string' ? Number(answer) : Number.NaN;
    if (!Number.isSafeInteger(actual)) throw new RpcError('shape', 'eth_chainId');
    node.state = actual === chainId ? 'right_chain' : 'wrong_chain';
    if (node.state === 'right_chain') return;
    const message = `${label} is a node of chain ${actual}, not of ${chainId}: see CHAIN, RPC_URL`;
    logger?.error({ endpoint: label, actual, expected: chainId }, message);
    throw new RpcError('wrong_chain', message);
  }

  #succeeded(node: Node): void {
    node.failures = 0;
    node.errorShare *= 1 - NEWEST;
    node.limited = false;
    node.coolUntilMs = 0;
  }

  #failed(node: Node, error: RpcError): void {
    this.#errors?.inc({ endpoint: node.endpoint.label, class: error.class });
    // An honest "no" is an answer: another node may know more, but this one is well.
    if (error.class === 'refused') return;
    node.failures += 1;
    node.errorShare += NEWEST * (1 - node.errorShare);
    const coolMs = Math.min(COOL_MIN_MS * 2 ** Math.min(node.failures, 10), COOL_MAX_MS);
    node.limited = error.class === 'rate_limited';
    node.coolUntilMs = performance.now() + Math.max(coolMs, error.retryAfterMs);
  }

  /**
   * Whom to ask, best first: the cooling ones last, those that may not be asked left out. Equals in
   * the order of RPC_URL, so that answers that must fit together come from one node.
   */
  #ranked(): readonly Node[] {
    const now = performance.now();
    return this.#nodes
      .filter((node) => node.state !== 'wrong_chain' && !(node.limited && node.coolUntilMs > now))
      .toSorted(
        (a, b) =>
          restMs(a, now) - restMs(b, now) ||
          Math.round((a.errorShare - b.errorShare) * 10) ||
          speed(a) - speed(b),
      );
  }

  #nobody(): RpcError {
    const usable = this.#nodes.filter((node) => node.state !== 'wrong_chain');
    if (usable.length === 0) {
      const { chainId } = this.#options;
      return new RpcError('wrong_chain', `no endpoint of RPC_URL is a node of chain ${chainId}`);
    }
    const untilMs = Math.min(...usable.map((node) => node.coolUntilMs));
    const retryAfterMs = Math.max(untilMs - performance.now(), COOL_MIN_MS);
    return new RpcError('rate_limited', 'no endpoint may be asked now', { retryAfterMs });
  }

  async #turn(): Promise<void> {
    this.#running += 1;
    if (this.#running <= REQUESTS_MAX) return;
    await new Promise<void>((resolve) => this.#turns.push(resolve));
  }
}

/** Doublings of the latency; a node that was never asked is not preferred for it. */
function speed({ latencyMs }: Node): number {
  return latencyMs === 0 ? 0 : Math.round(Math.log2(Math.max(latencyMs, 1) / 8));
}

function restMs(node: Node, now: number): number {
  return Math.max(node.coolUntilMs - now, node.doubtUntilMs - now, 0);
}

/**
 * How many calls of this kind travel in one request. A node works through a batch one by one and answers
 * with all of it at once: what is large or slow goes alone or with a few others.
 */
function togetherMax({ call: { method, params } }: Item): number {
  if (method === 'eth_getLogs' || method === 'eth_getBlockReceipts') return 1;
  const isWhole = method === 'eth_getBlockByNumber' && params[1] === true;
  return isWhole ? WHOLE_BLOCKS_MAX : Number.POSITIVE_INFINITY;
}

/** Each URL with its host, numbered where several share one. */
function labelled(urls: readonly string[]): readonly (readonly [string, string])[] {
  const seen = new Map<string, number>();
  return urls.map((url) => {
    const { host } = new URL(url);
    const count = (seen.get(host) ?? 0) + 1;
    seen.set(host, count);
    return [url, count === 1 ? host : `${host}#${count}`] as const;
  });
}
