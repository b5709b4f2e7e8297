/**
 * An endpoint: its method and path, the schemas of its parameters, body and response, and the function
 * that computes the response. routes.ts serves endpoints and openapi.ts describes them from the same
 * value, so the document always matches the service. Endpoints know nothing about Express or headers.
 */
import { hash } from 'node:crypto';
import type { z } from 'zod';
import type { Caller } from './caller.ts';
import { Problem, type ProblemCode } from './errors.ts';
import { parse } from './parameters.ts';
import { type Encoded, encode, encodeStream, type Format, type Streamed } from './response.ts';
import { refuseMisspelt } from './typo.ts';

/** A POST with an Idempotency-Key: the identity of what it creates is derived from the seed instead of random. */
export type Repeatable = {
  /** 32 secret bytes, equal for requests with the same API key, path and Idempotency-Key. */
  readonly seed: Buffer;
  readonly bodyHash: string;
};

/** Passed to every endpoint with its request; groups of endpoints add their dependencies. */
export type Context = {
  /** Set if the request is a POST with an Idempotency-Key. */
  readonly repeatable: Repeatable | null;
  /** Aborted when every client waiting for the response has disconnected; null if nothing aborts it. */
  readonly signal: AbortSignal | null;
};

/** The context of endpoints whose response depends on the caller. */
export type CallerContext = Context & { readonly caller: Caller };

/** One request for a cached response. */
export type KeepRequest = {
  readonly key: string;
  /** Aborted when the client disconnects; null if nothing aborts the request. */
  readonly signal: AbortSignal | null;
  /** `signal` is aborted when nobody needs the response any more. */
  readonly compute: (signal: AbortSignal) => Promise<Encoded>;
};

/** A request as an endpoint sees it. */
type EndpointRequest = {
  readonly params: Readonly<Record<string, unknown>>;
  readonly query: Readonly<Record<string, unknown>>;
  readonly body: unknown;
  /** The format that the client prefers for a list. */
  readonly format: Format;
  /** The seed of `Repeatable`. */
  readonly seed: Buffer | null;
};

/** Throws Problem 400 if a repeated request has another body than the first one. */
export function requireSameBody(repeated: string | undefined, first: string | undefined): void {
  if (repeated === first) return;
  const message = 'was used with another body';
  throw new Problem({
    error: 'invalid_request',
    detail: `Idempotency-Key: ${message}`,
    issues: [{ path: 'Idempotency-Key', message }],
  });
}

/** A response that is one page of a longer list. */
export class Page<Answer extends object> {
  readonly answer: Answer;
  /** `cursor` of the next page, for the `Link` header; '' on the last page. */
  readonly next: string;
  /** The elements of a list that is streamed. */
  readonly elements: AsyncIterable<object> | undefined;
  /** When the answer was computed, milliseconds since the epoch, for the `Age` header. */
  readonly asOfMs: number | undefined;

  constructor(
    answer: Answer,
    next: string,
    more: { readonly elements?: AsyncIterable<object>; readonly asOfMs?: number | undefined } = {},
  ) {
    this.answer = answer;
    this.next = next;
    this.elements = more.elements;
    this.asOfMs = more.asOfMs;
  }
}

type Definition<
  Call extends Context,
  Parameters extends z.ZodObject,
  Answer extends z.ZodObject,
  Body extends z.ZodType,
  Input,
> = {
  /** Name of the client's method and operationId in the document; v1 and v2 may share a name. */
  readonly name: string;
  /** Default: `get`, which includes HEAD. */
  readonly method?: 'get' | 'post' | 'put' | 'patch' | 'delete';
  /** Path parameters start with a colon: `/v1/traders/:address`. */
  readonly path: `/${string}`;
  /** A short title: a noun if the operation only reads. */
  readonly summary: string;
  /** What it is for and what it returns, then rules, then ages and edge cases in a paragraph of their own; Markdown. */
  readonly description: string;
  /** Path and query parameters. */
  readonly parameters: Parameters;
  /** Schema of the JSON body, if the request has one. */
  readonly body?: Body;
  /** Status on success; default: 200. */
  readonly status?: 200 | 201;
  readonly answer: Answer;
  /** The member of the response that is a list of objects; `Accept: text/csv` returns it as rows. */
  readonly list?: keyof z.output<Answer> & string;
  /** Problems besides those of every endpoint. */
  readonly problems: readonly ProblemCode[];
  /** Applies the caller's tier to the parameters. Throws Problem 403 if the tier forbids them. */
  readonly allowed?: (given: z.output<Parameters>, caller: Caller) => Input;
  /** Set if one response is cached for all callers with the same parameters, after `allowed`. */
  readonly keep?: {
    /** How long a client may use the response without revalidating, seconds. */
    readonly maxAgeSeconds: number;
    /** Formats that are cached. */
    readonly formats: readonly Format[];
    /** Returns the cached response of `key`, or calls `compute`. */
    readonly page: (call: Call, input: Input, request: KeepRequest) => Promise<Encoded>;
  };
  /** Throws Problem if there is no response. A page with `elements` has an empty list. */
  readonly run: (
    call: Call,
    input: Input,
    body: z.output<Body>,
  ) => Promise<z.input<Answer> | Page<z.input<Answer>>>;
};

/** An endpoint as the OpenAPI document sees it. */
export type Described = Omit<
  Definition<Context, z.ZodObject, z.ZodObject, z.ZodType, unknown>,
  'allowed' | 'keep' | 'list' | 'run'
> & { readonly list?: string; readonly isCached: boolean };

/** An endpoint without its type parameters, which were checked where it was defined. */
export type Endpoint<Call extends Context> = Described & {
  /** Throws Problem 400 for a bad request, and the errors of the definition's functions. */
  readonly respond: (
    call: Omit<Call, 'repeatable'> & Pick<CallerContext, 'caller'>,
    request: EndpointRequest,
  ) => Promise<Encoded | Streamed>;
};

export function endpoint<
  Call extends Context,
  Parameters extends z.ZodObject,
  Answer extends z.ZodObject,
  Body extends z.ZodType = z.ZodUndefined,
  Input extends z.output<Parameters> = z.output<Parameters>,
>(
  definition: Definition<Call, Parameters, Answer, Body, Input>,
): Endpoint<Call> & { readonly answer: Answer } {
  const { allowed, keep, run, ...described } = definition;
  const { answer: schema, list } = described;

  async function produce(
    call: Call,
    input: Input,
    body: z.output<Body>,
    { format, isKept }: { readonly format: Format; readonly isKept: boolean },
  ): Promise<Encoded | Streamed> {
    const startMs = Date.now();
    const result = await run(call, input, body);
    const page: Page<object> = result instanceof Page ? result : new Page(result, '');
    const how = {
      ...{ format, schema, list, maxAgeSeconds: isKept ? (keep?.maxAgeSeconds ?? null) : null },
      createdUnder: described.status === 201 ? described.path : null,
      asOfMs: page.asOfMs ?? (isKept ? startMs : undefined),
    };
    if (page.elements === undefined) return encode(page.answer, page.next, how);
    return await encodeStream(page.answer, page.elements, page.next, how);
  }

  return {
    ...described,
    isCached: keep !== undefined,
    async respond(given, request) {
      refuseMisspelt(Object.keys(described.parameters.shape), Object.keys(request.query));
      const parsed = parse(described.parameters, { ...request.query, ...request.params });
      // Without `allowed`, Input is its default, the parsed parameters.
      const input = allowed === undefined ? (parsed as Input) : allowed(parsed, given.caller);
      const format = list === undefined ? 'json' : request.format;
      const body = (
        described.body === undefined ? undefined : parse(described.body, request.body)
      ) as z.output<Body>;
      const { seed } = request;
      const repeatable = seed && { seed, bodyHash: hash('sha256', JSON.stringify(body ?? null)) };
      const call = { ...given, repeatable } as unknown as Call;
      if (!keep?.formats.includes(format)) {
        return await produce(call, input, body, { format, isKept: false });
      }
      const { signal } = given;
      const key = JSON.stringify([described.path, format, input]);
      const compute = async (signal: AbortSignal) => {
        const answer = await produce({ ...call, signal }, input, body, { format, isKept: true });
        if (answer.kind === 'streamed') throw new Error(`${described.path} cannot be cached`);
        return answer;
      };
      return await keep.page(call, input, { key, signal, compute });
    },
  };
}
