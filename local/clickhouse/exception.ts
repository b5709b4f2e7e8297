/**
 * The one error type of the embedded ClickHouse, with the codes and wording of a ClickHouse server. The engine reports
 * exceptions as text; this file parses them, so that all other code can use the codes.
 */

/** HTTP status by exception code, as in ClickHouse's `exceptionCodeToHTTPStatus`. */
const STATUS_BY_CODE = new Map<number, number>(
  Object.entries({
    400: [6, 8, 15, 25, 26, 27, 36, 37, 38, 41, 44, 53, 62, 72, 117, 123, 167, 168, 223, 321],
    401: [194],
    403: [192, 193, 497, 512, 516],
    404: [46, 47, 50, 56, 60, 63, 73, 78, 81, 115, 152, 336, 511],
    408: [159],
    411: [381],
    413: [229, 307],
    415: [779],
    501: [48],
    503: [76, 202, 209, 439],
  }).flatMap(([status, codes]) => codes.map((code) => [code, Number(status)] as const)),
);

/** An exception in ClickHouse's form: `Code: N. DB::Exception: … (TYPE)`. */
export class ClickHouseException extends Error {
  override readonly name = 'ClickHouseException';
  readonly code: number;

  constructor(code: number, type: string, reason: string) {
    super(`Code: ${code}. DB::Exception: ${reason} (${type})`);
    this.code = code;
  }

  /** The HTTP status that a server sends with this exception; 500 by default. */
  get status(): number {
    return STATUS_BY_CODE.get(this.code) ?? 500;
  }
}

/** Parses the code of an error that the native addon threw. The message stays unchanged. */
export function exceptionOf(cause: unknown): ClickHouseException {
  if (cause instanceof ClickHouseException) return cause;
  const text = cause instanceof Error ? cause.message : String(cause);
  const code = /^Code: (\d+)\. /.exec(text)?.[1];
  if (code === undefined) return new ClickHouseException(1002, 'UNKNOWN_EXCEPTION', `${text}.`);
  const exception = new ClickHouseException(Number(code), 'ENGINE', '');
  exception.message = text;
  exception.cause = cause;
  return exception;
}

export function notImplemented(feature: string): ClickHouseException {
  const reason = `The embedded ClickHouse does not support ${feature}.`;
  return new ClickHouseException(48, 'NOT_IMPLEMENTED', reason);
}
