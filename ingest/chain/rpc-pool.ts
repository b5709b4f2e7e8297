/**
 * Presents several nodes of one chain as one. A call goes to the healthiest node, by default the first configured one.
 * If the response is missing, malformed, or rejected by the caller's own check, the next node is tried. The call
 * rejects once every node has failed. Nodes of another chain are never used. Calls of the same tick share a batch.
 */
import type { Logger } from 'pino';
import { Counter, Gauge, type Registry } from 'prom-client';
import { z } from 'zod';
import { beginningOf, type HttpAnswer, NoAnswerError, request } from '../../infra/http-request.ts';
import { createSlots } from '../../infra/slots.ts';
import { AcceptedSize, FAILURES_MAX } from './accepted-size.ts';

const LIMITS = { msMax: 10_000, bytesMax: 128 * 1_048_576 };
const BATCH_CALLS_MAX = 100;
const RATE_LIMIT_MS = 1_000;
const TOO_MANY_REQUESTS = 429;
export const PAYLOAD_TOO_LARGE = 413;
/**
 * How providers report a rate limit in a response with status 200: by the code of HTTP or by such words. -32005 (EIP-1474,
 * "limit exceeded") alone is ambiguous: it is also the code for ranges that are too wide, whose messages mention results or
 * blocks.
 */
const RATE_WORDS =
  /\b(rate|throttl\w*|too many requests?|requests? (?:limit|count)|(?:requests?|calls) per|limit exceeded|exceeded .*(quota|capacity|credits?|units?))\b/i;
const SIZE_WORDS = /\b(blocks?|range|results?|logs|response|batch|timeout|timed out)\b/i;

const REQUESTS_MAX = 16;
const WHOLE_BLOCKS_MAX = 4;
const COOL_MIN_MS = 100;
const COOL_MAX_MS = 10_000;
const DOUBT_MS = 2_000;
/** Weight of the newest request in a node's error share. */
const NEWEST = 0.1;

/** Why a chain node's response was rejected; the class determines the handling. */
const RPC_ERROR_CLASSES = [
  /** The connection failed or broke. */
  'network',
  'timeout',
  /** 429 or its JSON-RPC counterpart: wait for `retryAfterMs` before the next request. */
  'rate_limited',
  /** Any HTTP status except 200 and 429, unless the body is a JSON-RPC error. */
  'http',
  /** Not JSON: cut off, or an error page. */
  'malformed',
  /** Valid JSON of an unexpected shape. */
  'shape',
  /** A JSON-RPC error, identified by `code`. */
  'refused',
  /** The node lacks something that exists according to another response. */
  'lagging',
  /** Well formed, but contradicts another response, for example logs and bloom, or block and parent. */
  'inconsistent',
  /** The node belongs to another chain: a configuration error, never retried. */
  'wrong_chain',
] as const;
export type RpcErrorClass = (typeof RPC_ERROR_CLASSES)[number];

/** A request to the chain node failed. Every class but `wrong_chain` is worth another attempt. */
export class RpcError extends Error {
  readonly class: RpcErrorClass;
  /** Code of a JSON-RPC error or HTTP status; 0 for neither. */
  readonly code: number;
  /** Minimum wait that the node requested; 0 if none. */
  readonly retryAfterMs: number;

  constructor(
    errorClass: RpcErrorClass,
    message: string,
    more: { readonly code?: number; readonly retryAfterMs?: number; readonly cause?: unknown } = {},
  ) {
    super(`${errorClass}: ${message}`, { cause: more.cause });
    this.class = errorClass;
    this.code = more.code ?? 0;
    this.retryAfterMs = more.retryAfterMs ?? 0;
  }
}

export type RpcCall = { readonly method: string; readonly params: readonly unknown[] };

const Answer = z.object({
  /** Some nodes return it as text. */
  id: z.union([z.int(), z.string().transform(Number), z.null()]).optional(),
  result: z.unknown().optional(),
  /** By specification an object with code and message; any other value except null is an error, too. */
  error: z.unknown().optional(),
});
type Answer = z.infer<typeof Answer>;
const ErrorObject = z.object({
  code: z.coerce.number().catch(0),
  message: z.string().catch(''),
});

let lastId = 0;

/**
 * One chain node over JSON-RPC and HTTP, and its health as the pool sees it. Sends a batch as one request, matches each
 * response by its id (responses may come in any order, twice, or not at all), and gives every failure a class. It
 * never retries a request; the pool does, because it knows the other nodes.
 */
class Node {
  readonly #url: URL;
  readonly #headers: Readonly<Record<string, string>>;
  /** Host and port, because the path of a URL may contain a key. */
  readonly label: string;
  /** Calls in one request. */
  readonly #batch = new AcceptedSize(BATCH_CALLS_MAX, BATCH_CALLS_MAX);
  /** Consecutive failures of requests with several calls. */
  #batchFailures = 0;
  chain: 'unknown' | 'right' | 'wrong' = 'unknown';
  /** Consecutive failures. */
  failures = 0;
  /** Share of recent requests that failed, 0 to 1. */
  errorShare = 0;
  /** Until then, other nodes are preferred. */
  coolUntilMs = 0;
  /** Set after a 429: the node gets no request until then. */
  limitedUntilMs = 0;

  constructor(url: string, label: string) {
    const bare = withoutCredentials(url);
    this.#url = bare.url;
    this.#headers = { 'content-type': 'application/json', ...bare.headers };
    this.label = label;
  }

  get batchMax(): number {
    return this.#batch.size;
  }

  /** A result or an RpcError for each call, in their order. Throws RpcError if the request failed. */
  async send(calls: readonly RpcCall[]): Promise<readonly unknown[]> {
    const requests = calls.map((call) => ({ jsonrpc: '2.0', id: ++lastId, ...call }));
    const single = requests.length === 1;
    try {
      const body = await this.#post(JSON.stringify(single ? requests[0] : requests));
      const answers = answersOf(body, single);
      const results = requests.map(({ id, method }) => resultOf(answers.get(id), method));
      if (calls.length >= this.batchMax) {
        this.#batch.accepted(calls.length, 2 * calls.length, this.#batchFailures);
      }
      this.#batchFailures = 0;
      return results;
    } catch (error) {
      if (error instanceof RpcError && !single) this.#batchFailed(calls.length, error);
      throw error;
    }
  }

  #batchFailed(size: number, { class: errorClass, code }: RpcError): void {
    if (errorClass === 'rate_limited') return;
    this.#batchFailures += 1;
    if (errorClass === 'refused' || code === PAYLOAD_TOO_LARGE) this.#batch.refused(size);
    else if (this.#batchFailures % FAILURES_MAX === 0) this.#batch.failed(size);
  }

  async #post(body: string): Promise<unknown> {
    const answer = await request(this.#url, LIMITS, {
      ...{ method: 'POST', headers: this.#headers, body, redirect: 'manual' },
    }).catch((error) => {
      if (!(error instanceof NoAnswerError)) throw error;
      if (error.reason === 'too_long') {
        throw new RpcError('http', error.message, { code: PAYLOAD_TOO_LARGE });
      }
      throw new RpcError(error.reason, this.label, { cause: error.cause });
    });
    if (answer.status !== 200) return errorBody(answer);
    try {
      return JSON.parse(answer.text);
    } catch (cause) {
      throw new RpcError('malformed', `not JSON: ${beginningOf(answer.text)}`, { cause });
    }
  }
}

/** Moves user and password of a URL to a header: `fetch` refuses such a URL, and WebSocket ignores them. */
export function withoutCredentials(text: string) {
  const url = new URL(text);
  const { username, password } = url;
  if (username === '' && password === '') return { url, headers: {} };
  const credentials = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  url.username = '';
  url.password = '';
  const authorization = `Basic ${Buffer.from(credentials).toString('base64')}`;
  return { url, headers: { authorization } };
}

/**
 * The body of a response with an error status, if it is a JSON-RPC error: many providers refuse a request this way.
 * Otherwise throws RpcError with the provider's message.
 */
function errorBody({ status, text, retryAfterMs = RATE_LIMIT_MS }: HttpAnswer): unknown {
  if (status === TOO_MANY_REQUESTS) {
    throw new RpcError('rate_limited', `status 429: ${beginningOf(text)}`, {
      code: status,
      retryAfterMs,
    });
  }
  try {
    const body: unknown = JSON.parse(text);
    const parsed = z.array(Answer).min(1).safeParse([body].flat());
    if (parsed.success && parsed.data.every(({ error }) => isError(error))) return body;
  } catch {
    // An error page.
  }
  throw new RpcError('http', `status ${status}: ${beginningOf(text)}`, { code: status });
}

function answersOf(body: unknown, single: boolean): ReadonlyMap<unknown, Answer> {
  const items = Array.isArray(body) ? body : [body];
  // A malformed item is a missing response to one call and does not affect the others.
  const answers = items.flatMap((item) => Answer.safeParse(item).data ?? []);
  const [first] = answers;
  if (first === undefined) throw new RpcError('shape', 'not a JSON-RPC response');
  // One error instead of a batch: the node accepts no batches, or none of this size.
  if (!single && !Array.isArray(body) && isError(first.error)) throw refusal(first.error, 'batch');
  // An error that cannot name its request.
  if (single && isError(first.error) && typeof first.id !== 'number')
    throw refusal(first.error, 'request');
  return new Map(answers.toReversed().map((answer) => [answer.id, answer]));
}

function resultOf(answer: Answer | undefined, method: string): unknown {
  if (answer === undefined) return new RpcError('shape', `no response to ${method}`);
  if (isError(answer.error)) return refusal(answer.error, method);
  if (answer.result === undefined) return new RpcError('shape', `neither result nor error`);
  return answer.result;
}

function isError(error: unknown): boolean {
  return error !== undefined && error !== null;
}

function refusal(error: unknown, what: string): RpcError {
  const { code, message } = ErrorObject.safeParse(error).data ?? {
    code: 0,
    message: String(error),
  };
  const said = `${what}: ${beginningOf(message === '' ? JSON.stringify(error) : message)} (${code})`;
  const isRate =
    code === TOO_MANY_REQUESTS || (!SIZE_WORDS.test(message) && RATE_WORDS.test(message));
  if (isRate) return new RpcError('rate_limited', said, { code, retryAfterMs: RATE_LIMIT_MS });
  return new RpcError('refused', said, { code });
}

export type PoolOptions = {
  /** The chain that every node must belong to; not checked if omitted. */
  readonly chainId?: number;
  readonly registry?: Registry;
  readonly logger?: Logger;
};

type Item = {
  readonly call: RpcCall;
  readonly accept: (result: unknown) => void;
  readonly reject: (error: unknown) => void;
  /** The error of the node that was tried last. */
  error?: RpcError;
};

export class RpcPool {
  readonly #nodes: readonly Node[];
  readonly #options: PoolOptions;
  readonly #requests: Counter<'endpoint'> | undefined;
  readonly #errors: Counter<'endpoint' | 'class'> | undefined;
  #gathered: Item[] = [];
  readonly #slots = createSlots(REQUESTS_MAX);

  constructor(urls: readonly string[], options: PoolOptions = {}) {
    this.#options = options;
    this.#nodes = labelled(urls).map(([url, label]) => new Node(url, label));
    if (options.registry === undefined) return;
    const registers = [options.registry];
    this.#requests = new Counter({
      name: 'fillstream_rpc_requests_total',
      help: 'HTTP requests to a chain node; a batch counts once',
      labelNames: ['endpoint'],
      registers,
    });
    this.#errors = new Counter({
      name: 'fillstream_rpc_errors_total',
      help: 'requests to a chain node that failed and responses that were rejected, by class',
      labelNames: ['endpoint', 'class'],
      registers,
    });
    const nodes = this.#nodes;
    for (const { label: endpoint } of nodes) {
      this.#requests.inc({ endpoint }, 0);
      // Prometheus sees no increase in a series that begins with 1.
      for (const name of RPC_ERROR_CLASSES) this.#errors.inc({ endpoint, class: name }, 0);
    }
    new Gauge({
      name: 'fillstream_rpc_health',
      help: 'share of recent requests to a chain node that succeeded',
      labelNames: ['endpoint'],
      registers,
      collect() {
        for (const { label, errorShare } of nodes) this.set({ endpoint: label }, 1 - errorShare);
      },
    });
  }

  /**
   * The first response that `parse` accepts, starting with the healthiest node; `parse` throws RpcError
   * to reject a response. If it accepts none, rejects with the last node's RpcError.
   */
  call<T>(call: RpcCall, parse: (result: unknown) => T): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const accept = (result: unknown) => resolve(parse(result));
    if (this.#gathered.length === 0) setImmediate(() => this.#flush());
    this.#gathered.push({ call, accept, reject });
    return promise;
  }

  /** Queries every node, and resolves with the value or error of each. */
  async everyone<T>(call: RpcCall, parse: (result: unknown) => T) {
    const query = async (node: Node) => {
      const { promise, resolve, reject } = Promise.withResolvers<T>();
      const item: Item = { call, accept: (result) => resolve(parse(result)), reject };
      if ((await this.#query(node, [item])).length > 0) reject(item.error as RpcError);
      return promise;
    };
    return Promise.allSettled(this.#nodes.map(query));
  }

  /**
   * Call this when responses contradict each other and it is unclear which are wrong. For a while, other nodes are
   * tried first.
   */
  doubt(): void {
    const [first] = this.#ranked();
    if (first === undefined) return;
    this.#errors?.inc({ endpoint: first.label, class: 'inconsistent' });
    first.coolUntilMs = Math.max(first.coolUntilMs, performance.now() + DOUBT_MS);
  }

  #flush(): void {
    const size = this.#ranked()[0]?.batchMax ?? 1;
    const items = this.#gathered;
    this.#gathered = [];
    for (const [together, some] of Map.groupBy(items, togetherMax)) {
      const step = Math.min(together, size);
      for (let i = 0; i < some.length; i += step) void this.#settle(some.slice(i, i + step));
    }
  }

  async #settle(items: readonly Item[]): Promise<void> {
    let left = items;
    await this.#slots(null, async () => {
      for (const node of this.#ranked()) {
        left = await this.#query(node, left);
        if (left.length === 0) return;
      }
    });
    const usable = this.#nodes.some((node) => node.chain !== 'wrong');
    for (const { error, reject } of left) {
      const final = error === undefined || (error.class === 'wrong_chain' && usable);
      reject(final ? this.#nobody() : error);
    }
  }

  /** Queries one node; resolves with the items that failed, each with its error. */
  async #query(node: Node, items: readonly Item[]): Promise<readonly Item[]> {
    const left: Item[] = [];
    let sent = 0;
    try {
      await this.#identify(node);
      while (sent < items.length) {
        const some = items.slice(sent, sent + node.batchMax);
        this.#requests?.inc({ endpoint: node.label });
        const results = await node.send(some.map((item) => item.call));
        left.push(...some.filter((item, index) => !this.#take(node, item, results[index])));
        sent += some.length;
      }
    } catch (error) {
      if (!(error instanceof RpcError)) throw error;
      this.#failed(node, error);
      const unanswered = items.slice(sent);
      for (const item of unanswered) item.error = error;
      return [...left, ...unanswered];
    }
    if (left.length === 0) {
      node.failures = 0;
      node.errorShare *= 1 - NEWEST;
    }
    return left;
  }

  #take(node: Node, item: Item, result: unknown): boolean {
    try {
      if (result instanceof RpcError) throw result;
      item.accept(result);
      return true;
    } catch (error) {
      if (!(error instanceof RpcError)) {
        // A fault of the caller's parser, not of a node: no other node is tried.
        item.reject(error);
        return true;
      }
      item.error = error;
      this.#failed(node, error);
      return false;
    }
  }

  /** Checks the node's chain id, once. */
  async #identify(node: Node): Promise<void> {
    const { chainId, logger } = this.#options;
    if (node.chain === 'right' || chainId === undefined) return;
    const { label } = node;
    const [answer] = await node.send([{ method: 'eth_chainId', params: [] }]);
    if (answer instanceof RpcError) throw answer;
    const actual = typeof answer === 'string' ? Number(answer) : Number.NaN;
    if (!Number.isSafeInteger(actual)) throw new RpcError('shape', 'eth_chainId');
    node.chain = actual === chainId ? 'right' : 'wrong';
    if (node.chain === 'right') return;
    const message = `${label} belongs to chain ${actual}, not ${chainId}: see CHAIN, RPC_URL`;
    logger?.error({ endpoint: label, actual, expected: chainId }, message);
    throw new RpcError('wrong_chain', message);
  }

  #failed(node: Node, error: RpcError): void {
    this.#errors?.inc({ endpoint: node.label, class: error.class });
    // A refusal is a response: another node may know more, but this one is healthy.
    if (error.class === 'refused') return;
    node.failures += 1;
    node.errorShare += NEWEST * (1 - node.errorShare);
    const coolMs = Math.min(COOL_MIN_MS * 2 ** node.failures, COOL_MAX_MS);
    node.coolUntilMs = performance.now() + Math.max(coolMs, error.retryAfterMs);
    if (error.class === 'rate_limited') node.limitedUntilMs = node.coolUntilMs;
  }

  /**
   * The nodes to try, best first: by their remaining pause after a failure, then by their error share, which keeps a
   * node that hangs from being tried again and again. Equal nodes stay in the order of RPC_URL, so that responses that
   * must be consistent come from one node. Excludes rate-limited nodes and nodes of another chain.
   */
  #ranked(): readonly Node[] {
    const now = performance.now();
    const pauseMs = (node: Node) => Math.max(node.coolUntilMs - now, 0);
    return this.#nodes
      .filter((node) => node.chain !== 'wrong' && node.limitedUntilMs <= now)
      .toSorted(
        (a, b) => pauseMs(a) - pauseMs(b) || Math.round((a.errorShare - b.errorShare) * 10),
      );
  }

  #nobody(): RpcError {
    const usable = this.#nodes.filter((node) => node.chain !== 'wrong');
    if (usable.length === 0) {
      const { chainId } = this.#options;
      return new RpcError('wrong_chain', `no endpoint of RPC_URL is a node of chain ${chainId}`);
    }
    const untilMs = Math.min(...usable.map((node) => node.limitedUntilMs));
    const retryAfterMs = Math.max(untilMs - performance.now(), COOL_MIN_MS);
    return new RpcError('rate_limited', 'every endpoint is rate limited', { retryAfterMs });
  }
}

/**
 * How many calls of this kind may share one request. A node processes a batch call by call and responds at the end,
 * so large or slow calls are sent alone or with a few others.
 */
function togetherMax({ call: { method, params } }: Item): number {
  if (method === 'eth_getLogs' || method === 'eth_getBlockReceipts') return 1;
  const isWhole = method === 'eth_getBlockByNumber' && params[1] === true;
  return isWhole ? WHOLE_BLOCKS_MAX : Number.POSITIVE_INFINITY;
}

/** Each URL with its host as a label, numbered if several URLs share it. */
function labelled(urls: readonly string[]): readonly (readonly [string, string])[] {
  const seen = new Map<string, number>();
  return urls.map((url) => {
    const { host } = new URL(url);
    const count = (seen.get(host) ?? 0) + 1;
    seen.set(host, count);
    return [url, count === 1 ? host : `${host}#${count}`] as const;
  });
}
