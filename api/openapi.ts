/**
 * The OpenAPI 3.1 document, made from the endpoints themselves: parameters and answers are described
 * by the schemas that parse and type them. The event streams, which are no JSON answers, are described
 * by openapi-stream.ts.
 */
import { z } from 'zod';
import type { Described } from './endpoint.ts';
import { ProblemBody, type ProblemCode } from './errors.ts';
import { EVENT_SCHEMAS } from './openapi-events.ts';
import { STREAM_OPERATIONS } from './openapi-stream.ts';

export type JsonSchema = z.core.JSONSchema.JSONSchema;

export type Parameter = {
  readonly name: string;
  readonly in: 'path' | 'query' | 'header';
  readonly required: boolean;
  readonly description: string;
  readonly schema: JsonSchema;
};

type Content = Readonly<Record<string, { readonly schema: JsonSchema }>>;

export type Answer = {
  readonly description: string;
  readonly headers?: Readonly<Record<string, { readonly $ref: string }>>;
  readonly content: Content;
};

export type Operation = {
  readonly operationId: string;
  readonly tags: readonly string[];
  readonly summary: string;
  readonly description: string;
  readonly parameters: readonly Parameter[];
  readonly requestBody?: { readonly required: true; readonly content: Content };
  readonly responses: Readonly<Record<string, Answer>>;
};

export type Method = 'get' | 'post' | 'put' | 'patch' | 'delete';
type PathItem = Readonly<Partial<Record<Method, Operation>>>;

export type OpenApi = {
  readonly openapi: '3.1.0';
  readonly info: { readonly title: string; readonly version: string; readonly description: string };
  readonly servers: readonly { readonly url: string }[];
  readonly security: readonly Readonly<Record<string, readonly string[]>>[];
  readonly paths: Readonly<Record<string, PathItem>>;
  readonly components: Readonly<Record<string, unknown>>;
};

const STATUSES: Readonly<Record<ProblemCode, number>> = {
  invalid_request: 400,
  unauthorized: 401,
  tier_required: 403,
  quota_exceeded: 403,
  stream_disabled: 403,
  not_found: 404,
  method_not_allowed: 405,
  payload_too_large: 413,
  unsupported_media_type: 415,
  rate_limited: 429,
  internal: 500,
  unavailable: 503,
};

/** What every request can be answered with. */
const COMMON: readonly ProblemCode[] = [
  ...(['invalid_request', 'unauthorized', 'rate_limited', 'internal', 'unavailable'] as const),
];

const DESCRIPTION = `Analytics of traders on a prediction-market exchange, and its order flow live.

Every request but those for this document carries an API key in \`X-Service-Key\`; the key's tier
(demo, individual, pro) decides rates and limits. Amounts are micro-units, 10⁻⁶ of a USDC, pUSD or
share: decimal text in v1, numbers in v2. PnL is realised PnL, net of fees; it belongs to the moment
in which it is realised. Only version 2 exchange data is included. Unknown parameters are ignored.
Lists come in pages: \`limit\`, and the next page as \`Link: <…>; rel="next"\` with a \`cursor\`, which
repeats and leaves out nothing while trades arrive; \`order\` turns a list round. \`Accept: text/csv\` gives
a list as CSV. Leaderboards carry an ETag.

Errors are \`application/problem+json\`; \`error\` is a stable code. Answers are compressed where
\`Accept-Encoding\` allows gzip or br. \`/healthz\` and \`/readyz\` answer without a key.`;

const PAGE_HEADERS = {
  Link: 'the next page of the list, as `rel="next"` (RFC 8288); absent on the last one',
  'X-Total-Count': 'elements on all pages: total_count of the answer, where it has one',
};

const RATE_HEADERS = {
  RateLimit: 'what is left: name of the policy, requests r, seconds t until it is full again',
  'RateLimit-Policy': 'name of the policy, requests q in a window of w seconds',
  'X-Request-Id': 'id of this request, taken over from the request where it has one',
};

const CSV: JsonSchema = {
  type: 'string',
  description: 'the list as CSV: a header, then one row an element; asked for by Accept: text/csv',
};

export function openApi(endpoints: readonly Described[]): OpenApi {
  const answered: Readonly<Record<string, PathItem>> = Object.fromEntries(
    [...Map.groupBy(endpoints, (endpoint) => template(endpoint.path))].map(([path, own]) => [
      path,
      Object.fromEntries(own.map((one) => [one.method ?? 'get', operation(one)])),
    ]),
  );
  const listened = Object.entries(STREAM_OPERATIONS).map(([path, { operation, problems }]) => {
    const responses = { ...operation.responses, ...problemAnswers(problems) };
    return [path, { get: { ...operation, responses }, ...answered[path] }];
  });
  return {
    openapi: '3.1.0',
    info: { title: 'Fillstream', version: '2.0.0', description: DESCRIPTION },
    servers: [{ url: '/' }],
    security: [{ key: [] }],
    paths: {
      ...answered,
      ...Object.fromEntries(listened),
    },
    components: {
      securitySchemes: { key: { type: 'apiKey', in: 'header', name: 'X-Service-Key' } },
      schemas: Object.fromEntries(
        Object.entries({ Problem: ProblemBody, ...EVENT_SCHEMAS }).map(([name, schema]) => [
          name,
          jsonSchema(schema, 'output'),
        ]),
      ),
      headers: Object.fromEntries(
        Object.entries({ ...RATE_HEADERS, ...PAGE_HEADERS }).map(([name, description]) => [
          name,
          { description, required: name in RATE_HEADERS, schema: { type: 'string' } },
        ]),
      ),
    },
  };
}

function operation(endpoint: Described): Operation {
  const { method = 'get', path, body, status = 200, list } = endpoint;
  const name = path.replaceAll(/[^a-z0-9]+/gi, '_').slice(1);
  return {
    operationId: method === 'get' ? name : `${method}_${name}`,
    tags: [/^\/(v\d)\//.exec(path)?.[1] ?? 'streams'],
    summary: endpoint.summary,
    description: endpoint.description,
    parameters: parametersOf(endpoint),
    ...(body !== undefined && {
      requestBody: {
        required: true,
        content: { 'application/json': { schema: jsonSchema(body, 'input') } },
      },
    }),
    responses: {
      [status]: {
        description: endpoint.summary,
        headers: headerRefs({ ...RATE_HEADERS, ...(list !== undefined && PAGE_HEADERS) }),
        content: {
          'application/json': { schema: jsonSchema(endpoint.answer, 'output') },
          ...(list !== undefined && { 'text/csv': { schema: CSV } }),
        },
      },
      ...problemAnswers(endpoint.problems),
    },
  };
}

function parametersOf({ path, parameters }: Described): Parameter[] {
  const inPath = new Set([...path.matchAll(/:(\w+)/g)].map((match) => match[1]));
  return Object.entries(parameters.shape).map(([name, parameter]) => {
    const { description = '', ...schema } = described(parameter);
    const isInPath = inPath.has(name);
    return { name, in: isInPath ? 'path' : 'query', required: isInPath, description, schema };
  });
}

/** Schema of the text of a parameter: toJSONSchema leaves out the default and examples of one. */
function described(parameter: z.core.$ZodType): JsonSchema {
  // The registry holds what parameters.ts put there: members of JSON Schema.
  const own = (z.globalRegistry.get(parameter) ?? {}) as JsonSchema;
  if (parameter instanceof z.ZodDefault) {
    const { defaultValue, innerType } = parameter.def;
    return { ...described(innerType), default: defaultValue, ...own };
  }
  if (parameter instanceof z.ZodOptional) return { ...described(parameter.def.innerType), ...own };
  return own;
}

/** One answer a status; its description names the codes. */
function problemAnswers(codes: readonly ProblemCode[]): Record<string, Answer> {
  const byStatus = Map.groupBy([...COMMON, ...codes], (code) => STATUSES[code]);
  return Object.fromEntries(
    [...byStatus].map(([status, all]) => [
      status,
      {
        description: all.join(', '),
        headers: headerRefs(RATE_HEADERS),
        content: {
          'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } },
        },
      },
    ]),
  );
}

function headerRefs(headers: Readonly<Record<string, string>>) {
  return Object.fromEntries(
    Object.keys(headers).map((name) => [name, { $ref: `#/components/headers/${name}` }]),
  );
}

/** `/v1/traders/:address` as `/v1/traders/{address}`. */
function template(path: string): string {
  return path.replaceAll(/:(\w+)/g, '{$1}');
}

function jsonSchema(schema: z.ZodType, io: 'input' | 'output'): JsonSchema {
  const { $schema, ...described } = z.toJSONSchema(schema, { io });
  return described;
}
