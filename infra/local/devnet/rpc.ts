/**
 * JSON-RPC over HTTP to the devnet's own chain: single calls and batches, nothing else.
 * An error answer is thrown as RpcError; there are no retries, because the node is a child process
 * on the same machine and a failure means something.
 */

export type RpcCall = { readonly method: string; readonly params: readonly unknown[] };

type RpcAnswer = {
  readonly id: number;
  readonly result?: unknown;
  readonly error?: { readonly code: number; readonly message: string };
};

/** The node answered a call with an error. */
class RpcError extends Error {
  override readonly name = 'RpcError';
  readonly code: number;
  readonly method: string;

  constructor(method: string, code: number, message: string) {
    super(`${method}: ${message}`);
    this.code = code;
    this.method = method;
  }
}

export class Rpc {
  readonly url: string;

  constructor(url: string) {
    this.url = url;
  }

  /** One call. Throws RpcError when the node refuses it. */
  async call<T>(method: string, ...params: readonly unknown[]): Promise<T> {
    const answer = (await this.#post({ jsonrpc: '2.0', id: 0, method, params })) as RpcAnswer;
    return resultOf(answer, method) as T;
  }

  /** Many calls in one request; the answers in the order of the calls. Throws at the first error. */
  async batch<T>(calls: readonly RpcCall[]): Promise<readonly T[]> {
    if (calls.length === 0) return [];
    const body = calls.map((call, id) => ({ jsonrpc: '2.0', id, ...call }));
    const answers = (await this.#post(body)) as readonly RpcAnswer[];
    const results: T[] = new Array(calls.length);
    for (const answer of answers) {
      results[answer.id] = resultOf(answer, calls[answer.id]?.method ?? '?') as T;
    }
    return results;
  }

  async #post(body: unknown): Promise<unknown> {
    const response = await fetch(this.url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    return response.json();
  }
}

function resultOf(answer: RpcAnswer, method: string): unknown {
  if (answer.error !== undefined) {
    throw new RpcError(method, answer.error.code, answer.error.message);
  }
  return answer.result;
}
