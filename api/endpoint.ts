/**
 * What an endpoint is: its method and path, the schemas of its parameters, body and answer, and the
 * function from one to the other. routes.ts serves endpoints and openapi.ts describes them, from the
 * same value, so that the document cannot differ from what is served. An endpoint knows neither
 * express nor headers.
 */
import type { z } from 'zod';
import type { Caller } from './auth/keys.ts';
import type { Tier } from './auth/tiers.ts';
import type { ProblemCode } from './errors.ts';
import { parseBody, parseParameters } from './parameters.ts';
import { type Encoded, encode, type Format } from './response.ts';
import { beginStream, type Streamed } from './streamed.ts';

const PARSED_URLS_MAX = 500;
const PARSED_URL_CHARACTERS_MAX = 1_000;

/** What every endpoint gets with its request; a group of endpoints adds what it works with. */
export type Context = {
  readonly caller: Caller;
  /** Aborted when the client goes away; null where others wait for the same answer. */
  readonly signal: AbortSignal | null;
};

/** A request as an endpoint sees it. */
export type Asked = {
  /** Path and query as they came. */
  readonly url: string;
  readonly params: Readonly<Record<string, unknown>>;
  readonly query: Readonly<Record<string, unknown>>;
  readonly body: unknown;
  /** What the client would rather have, where the endpoint has a list. */
  readonly format: Format;
};

/** An answer that is one page of a longer list. */
export class Page<Answer extends object> {
  readonly answer: Answer;
  /** `cursor` of the next page, for the Link field; '' where the list ends. */
  readonly next: string;
  /** The elements of the answer's list where they are read while they are sent. */
  readonly elements: AsyncIterable<object> | undefined;

  constructor(answer: Answer, next: string, elements?: AsyncIterable<object>) {
    this.answer = answer;
    this.next = next;
    this.elements = elements;
  }
}

type Definition<
  Call extends Context,
  Parameters extends z.ZodObject,
  Answer extends z.ZodObject,
  Body extends z.ZodType,
> = {
  /** `get`, with which HEAD goes, unless it says otherwise. */
  readonly method?: 'get' | 'post' | 'put' | 'patch' | 'delete';
  /** With a colon before each path parameter: `/v1/traders/:address`. */
  readonly path: `/${string}`;
  readonly summary: string;
  /** What a client must know beyond the fields; Markdown. */
  readonly description: string;
  /** Path and query parameters. */
  readonly parameters: Parameters;
  /** Schema of the JSON body, where the request has one. */
  readonly body?: Body;
  /** Status of success; 200 unless it says otherwise. */
  readonly status?: 200 | 201;
  readonly answer: Answer;
  /** The member of the answer that is a list of objects: `Accept: text/csv` gives it as rows. */
  readonly list?: keyof z.output<Answer> & string;
  /** Problems besides those of every endpoint. */
  readonly problems: readonly ProblemCode[];
  /** The parameters as this caller has them. Throws Problem 403 where the tier does not. */
  readonly allowed?: (given: z.output<Parameters>, caller: Caller) => z.output<Parameters>;
  /** Where an answer is kept for all who ask the same. */
  readonly keep?: {
    /** How long a client may keep it, seconds. */
    readonly maxAgeSeconds: number;
    /** The answer of `key` where it is there and as new as it has to be. */
    readonly fresh: (call: Call, given: z.output<Parameters>, key: string) => Encoded | undefined;
    readonly page: (
      call: Call,
      given: z.output<Parameters>,
      one: { readonly key: string; readonly compute: () => Promise<Encoded> },
    ) => Promise<Encoded>;
  };
  /** Throws Problem where there is no answer. A page with `elements` has its list empty. */
  readonly run: (
    call: Call,
    given: z.output<Parameters>,
    body: z.output<Body>,
  ) => Promise<z.input<Answer> | Page<z.input<Answer>>>;
};

/** An endpoint as the documents see it. */
export type Described = Omit<
  Definition<Context, z.ZodObject, z.ZodObject, z.ZodType>,
  'allowed' | 'keep' | 'list' | 'run'
> & { readonly list?: string };

/** An endpoint whose types were checked against each other where it was defined. */
export type Endpoint<Call extends Context> = Described & {
  /** Whether its answers are kept for all who ask the same: none of them has a signal. */
  readonly isKept: boolean;
  /** Throws Problem 400 for a bad request, and what the definition's functions throw. */
  readonly respond: (call: Call, asked: Asked) => Promise<Encoded | Streamed>;
  /** The kept answer, where the URL was answered before and the answer is fresh. */
  readonly atHand: (call: Call, asked: Pick<Asked, 'url' | 'format'>) => Encoded | undefined;
};

export function endpoint<
  Call extends Context,
  Parameters extends z.ZodObject,
  Answer extends z.ZodObject,
  Body extends z.ZodType = z.ZodUndefined,
>(definition: Definition<Call, Parameters, Answer, Body>): Endpoint<Call> {
  const { allowed, keep, run, ...described } = definition;
  const { answer: schema, list } = described;

  async function produce(
    call: Call,
    given: z.output<Parameters>,
    body: z.output<Body>,
    format: Format,
  ): Promise<Encoded | Streamed> {
    const result = await run(call, given, body);
    const page: Page<object> = result instanceof Page ? result : new Page(result, '');
    const how = { format, schema, list, maxAgeSeconds: keep?.maxAgeSeconds ?? null };
    if (page.elements === undefined) return encode(page.answer, page.next, how);
    return await beginStream(page.answer, page.elements, page.next, how);
  }

  function givenOf(call: Call, asked: Asked): z.output<Parameters> {
    const parsed = parseParameters(described.parameters, asked);
    return allowed === undefined ? parsed : allowed(parsed, call.caller);
  }

  function formatOf({ format }: Pick<Asked, 'format'>): Format {
    return list === undefined ? 'json' : format;
  }

  /** What a URL asks for is the same for all of a tier, and parsed once. */
  type Parsed = { readonly given: z.output<Parameters>; readonly key: string };
  const parsedUrls = new Map<string, Partial<Record<Format, Partial<Record<Tier, Parsed>>>>>();
  function keptOf(call: Call, asked: Asked, format: Format): Parsed {
    const { tier } = call.caller;
    const ofUrl = parsedUrls.get(asked.url) ?? {};
    const known = ofUrl[format]?.[tier];
    if (known !== undefined) return known;
    const given = givenOf(call, asked);
    const key = JSON.stringify([described.path, format, Object.entries(given).sort()]);
    if (parsedUrls.size >= PARSED_URLS_MAX) parsedUrls.clear();
    const parsed = { given, key };
    if (asked.url.length <= PARSED_URL_CHARACTERS_MAX) {
      ofUrl[format] = { ...ofUrl[format], [tier]: parsed };
      parsedUrls.set(asked.url, ofUrl);
    }
    return parsed;
  }

  return {
    ...described,
    isKept: keep !== undefined,
    atHand(call, asked) {
      const known = parsedUrls.get(asked.url)?.[formatOf(asked)]?.[call.caller.tier];
      return known === undefined ? undefined : keep?.fresh(call, known.given, known.key);
    },
    async respond(call, asked) {
      const format = formatOf(asked);
      if (keep === undefined) {
        const given = givenOf(call, asked);
        const body = (
          described.body === undefined ? undefined : parseBody(described.body, asked.body)
        ) as z.output<Body>;
        return await produce(call, given, body, format);
      }
      const { given, key } = keptOf(call, asked, format);
      // Computed for all who ask for it: no client's leaving ends it.
      const compute = async () => {
        const nobody = undefined as z.output<Body>;
        const answer = await produce({ ...call, signal: null }, given, nobody, format);
        if (answer.kind === 'streamed') throw new Error(`${described.path} cannot be kept`);
        return answer;
      };
      return await keep.page({ ...call, signal: null }, given, { key, compute });
    },
  };
}
