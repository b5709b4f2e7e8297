/**
 * One chain node over JSON-RPC and HTTP. Sends a batch as one request, finds each answer by its id
 * (answers may come in any order, twice, or not at all), and gives every failure a class. It never
 * repeats a request: that is for the pool, which knows other nodes.
 */
import { z } from 'zod';
import { RpcError } from './rpc-error.ts';
import { type HttpAnswer, post, TooLongError } from './rpc-http.ts';

const REQUEST_MS_MAX = 10_000;
const BODY_BYTES_MAX = 128 * 1_048_576;
const BATCH_CALLS_MAX = 100;
const RATE_LIMIT_MS = 1_000;
const RATE_LIMIT_MS_MAX = 60_000;
/** JSON-RPC's counterpart of the status 429. */
const TOO_MANY_REQUESTS = 429;
const PAYLOAD_TOO_LARGE = 413;

export type RpcCall = { readonly method: string; readonly params: readonly unknown[] };

const Answer = z.object({
  id: z.union([z.int(), z.string(), z.null()]).optional(),
  result: z.unknown().optional(),
  error: z.object({ code: z.number(), message: z.string() }).nullish(),
});
type Answer = z.infer<typeof Answer>;

let lastId = 0;

export class Endpoint {
  readonly #url: URL;
  /** Host and port: a URL may carry a key in its path. */
  readonly label: string;
  /** Calls in one request; halved where the node refuses a batch as a whole. */
  batchMax = BATCH_CALLS_MAX;

  constructor(url: string, label: string) {
    this.#url = new URL(url);
    this.label = label;
  }

  /** A result or an RpcError for each call, in their order. Throws RpcError when all of it failed. */
  async send(calls: readonly RpcCall[]): Promise<readonly unknown[]> {
    const requests = calls.map((call) => ({ jsonrpc: '2.0', id: ++lastId, ...call }));
    const single = requests.length === 1;
    try {
      const body = await this.#post(JSON.stringify(single ? requests[0] : requests));
      const answers = answersOf(body, single);
      return requests.map(({ id, method }) => resultOf(answers.get(id), method));
    } catch (error) {
      const tooMany = error instanceof RpcError && (error.class === 'refused' || isTooLarge(error));
      if (!single && tooMany) this.batchMax = Math.max(1, Math.floor(calls.length / 2));
      throw error;
    }
  }

  async #post(body: string): Promise<unknown> {
    const signal = AbortSignal.timeout(REQUEST_MS_MAX);
    let text: string;
    try {
      const answer = await post(this.#url, body, { signal, bytesMax: BODY_BYTES_MAX });
      if (answer.status !== 200) throw statusError(answer);
      text = answer.text;
    } catch (error) {
      if (error instanceof RpcError) throw error;
      if (error instanceof TooLongError) {
        throw new RpcError('http', error.message, { code: PAYLOAD_TOO_LARGE });
      }
      // The request rejects with whatever broke below it; the signal tells a timeout from the rest.
      throw new RpcError(signal.aborted ? 'timeout' : 'network', this.label, { cause: error });
    }
    try {
      return JSON.parse(text);
    } catch (cause) {
      throw new RpcError('malformed', `${text.length} characters that are no JSON`, { cause });
    }
  }
}

function isTooLarge(error: RpcError): boolean {
  return error.class === 'http' && error.code === PAYLOAD_TOO_LARGE;
}

function statusError({ status, headers }: HttpAnswer): RpcError {
  if (status !== TOO_MANY_REQUESTS)
    return new RpcError('http', `status ${status}`, { code: status });
  const given = headers['retry-after'] ?? '';
  // Seconds, or a date; a clock that is wrong must not stop us for hours.
  const waitMs = /^\d+$/.test(given) ? Number(given) * 1_000 : Date.parse(given) - Date.now();
  const retryAfterMs = Number.isFinite(waitMs) ? waitMs : RATE_LIMIT_MS;
  return new RpcError('rate_limited', 'status 429', {
    code: status,
    retryAfterMs: Math.min(Math.max(retryAfterMs, 0), RATE_LIMIT_MS_MAX),
  });
}

function answersOf(body: unknown, single: boolean): ReadonlyMap<unknown, Answer> {
  const parsed = z.array(Answer).safeParse(Array.isArray(body) ? body : [body]);
  if (!parsed.success) throw new RpcError('shape', 'no JSON-RPC answer');
  const [first] = parsed.data;
  // One error in place of a batch: the node takes no batches, or none of this size.
  if (!single && !Array.isArray(body) && first?.error) throw refusal(first.error, 'batch');
  // An error that cannot name its request has id null.
  if (single && first?.error && first.id === null) throw refusal(first.error, 'request');
  return new Map(parsed.data.toReversed().map((answer) => [answer.id, answer]));
}

function resultOf(answer: Answer | undefined, method: string): unknown {
  if (answer === undefined) return new RpcError('shape', `no answer to ${method}`);
  if (answer.error) return refusal(answer.error, method);
  if (answer.result === undefined) return new RpcError('shape', `neither result nor error`);
  return answer.result;
}

function refusal(error: { readonly code: number; readonly message: string }, what: string) {
  if (error.code === TOO_MANY_REQUESTS) {
    return new RpcError('rate_limited', what, { code: error.code, retryAfterMs: RATE_LIMIT_MS });
  }
  return new RpcError('refused', `${what}: ${error.message} (${error.code})`, { code: error.code });
}
