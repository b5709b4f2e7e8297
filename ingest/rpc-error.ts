/** Why a chain node's answer was not taken; the class decides what happens next. */
export type RpcErrorClass =
  /** No connection, or it broke. */
  | 'network'
  | 'timeout'
  /** 429, or its JSON-RPC counterpart: not asked again before `retryAfterMs`. */
  | 'rate_limited'
  /** Any other HTTP status than 200. */
  | 'http'
  /** Not JSON: cut off, or an error page. */
  | 'malformed'
  /** JSON of another shape than asked for. */
  | 'shape'
  /** A JSON-RPC error; `code` says which. */
  | 'refused'
  /** The node does not have (yet) what another answer says exists. */
  | 'lagging'
  /** Well formed, but it contradicts another answer: logs and bloom, block and parent. */
  | 'inconsistent'
  /** The node is of another chain: a configuration error, never retried. */
  | 'wrong_chain';

/** A request to the chain node failed. Only `wrong_chain` is not worth another attempt. */
export class RpcError extends Error {
  readonly class: RpcErrorClass;
  /** Of a JSON-RPC error or an HTTP status; 0 where there is none. */
  readonly code: number;
  /** How long to wait at least; 0 where the node said nothing. */
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

/** Thrown when an answer has another shape than the JSON-RPC specification says. */
export class RpcAnswerError extends RpcError {
  constructor(message: string) {
    super('shape', message);
  }
}
