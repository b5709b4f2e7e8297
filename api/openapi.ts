/**
 * The OpenAPI 3.1 document, made from the endpoints themselves: parameters and answers are described
 * by the schemas that parse and type them. The event stream, which is no JSON answer, is described by
 * openapi-stream.ts.
 */
import { z } from 'zod';
import type { Endpoint } from './endpoint.ts';
import { STREAM_OPERATION, STREAM_PATH } from './openapi-stream.ts';
import { ProblemBody, type ProblemCode } from './problems.ts';

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
  readonly responses: Readonly<Record<string, Answer>>;
};

export type OpenApi = {
  readonly openapi: '3.1.0';
  readonly info: { readonly title: string; readonly version: string; readonly description: string };
  readonly servers: readonly { readonly url: string }[];
  readonly security: readonly Readonly<Record<string, readonly string[]>>[];
  readonly paths: Readonly<Record<string, { readonly get: Operation }>>;
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
Errors are \`application/problem+json\`; \`error\` is a stable code. Answers are compressed where
\`Accept-Encoding\` allows gzip or br. \`/healthz\` and \`/readyz\` answer without a key.`;

const RATE_HEADERS = {
  RateLimit: 'what is left: name of the policy, requests r, seconds t until it is full again',
  'RateLimit-Policy': 'name of the policy, requests q in a window of w seconds',
  'X-Request-Id': 'id of this request, taken over from the request where it has one',
};

export function openApi(endpoints: readonly Endpoint[]): OpenApi {
  const stream = {
    ...STREAM_OPERATION,
    responses: { ...STREAM_OPERATION.responses, ...problemAnswers(['quota_exceeded']) },
  };
  return {
    openapi: '3.1.0',
    info: { title: 'Fillstream', version: '2.0.0', description: DESCRIPTION },
    servers: [{ url: '/' }],
    security: [{ key: [] }],
    paths: {
      ...Object.fromEntries(
        endpoints.map((endpoint) => [template(endpoint.path), { get: operation(endpoint) }]),
      ),
      [STREAM_PATH]: { get: stream },
    },
    components: {
      securitySchemes: { key: { type: 'apiKey', in: 'header', name: 'X-Service-Key' } },
      schemas: { Problem: jsonSchema(ProblemBody, 'output') },
      headers: Object.fromEntries(
        Object.entries(RATE_HEADERS).map(([name, description]) => [
          name,
          { description, schema: { type: 'string' } },
        ]),
      ),
    },
  };
}

function operation(endpoint: Endpoint): Operation {
  return {
    operationId: endpoint.path.replaceAll(/[^a-z0-9]+/gi, '_').slice(1),
    tags: [endpoint.path.slice(1, 3)],
    summary: endpoint.summary,
    description: endpoint.description,
    parameters: parametersOf(endpoint),
    responses: {
      200: {
        description: endpoint.summary,
        headers: headerRefs(),
        content: { 'application/json': { schema: jsonSchema(endpoint.answer, 'output') } },
      },
      ...problemAnswers(endpoint.problems),
    },
  };
}

function parametersOf({ path, parameters }: Endpoint): Parameter[] {
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
        headers: headerRefs(),
        content: {
          'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } },
        },
      },
    ]),
  );
}

function headerRefs() {
  return Object.fromEntries(
    Object.keys(RATE_HEADERS).map((name) => [name, { $ref: `#/components/headers/${name}` }]),
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
