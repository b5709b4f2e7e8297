/**
 * The OpenAPI 3.1 document, generated from the endpoints: the schemas that parse and type parameters and
 * responses also describe them. The event streams are not JSON endpoints and are described here; the
 * feed parses their parameters itself (feed/route.ts), and a test compares the names.
 */
import { z } from 'zod';
import type { Described } from './endpoint.ts';
import { PROBLEMS, ProblemBody, type ProblemCode } from './errors.ts';
import { EVENT_SCHEMAS } from './openapi-events.ts';

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

export type OpenApi = ReturnType<typeof openApi>;

/** Problems that every request can get. */
const COMMON: readonly ProblemCode[] = [
  'invalid_request',
  'unauthorized',
  'rate_limited',
  'internal',
  'unavailable',
];

const DESCRIPTION = `Trader analytics of a prediction-market exchange, and its live order flow.

Every request except those for this document carries an API key in \`X-Service-Key\`; the key's tier
(demo, individual, pro) determines rates and limits. Amounts are micro-units, 10⁻⁶ of a USDC, pUSD or
share: decimal strings in v1, numbers in v2. PnL is realised PnL, net of fees, dated at the moment it
is realised. Only version 2 exchange data is included. Unknown parameters are ignored, but refused with
400 by event streams, where a misspelt filter would deliver everything.

Lists are paginated: \`limit\` is the page size, and \`Link: <…>; rel="next"\` is the next page. Its
\`cursor\` repeats and skips nothing while trades arrive. \`order\` reverses a list, and
\`Accept: text/csv\` returns it as CSV. Leaderboards carry an ETag.

Errors are \`application/problem+json\`; \`error\` is a stable code. Responses are compressed if
\`Accept-Encoding\` allows gzip or br. \`/healthz\` and \`/readyz\` need no key.

## First steps

\`\`\`sh
URL=https://api.example.com   # this server
KEY=fs_…                      # your key

# The best traders of the last day; take an address from the response.
curl -s -H "X-Service-Key: $KEY" "$URL/v1/analytics/leaderboard?time_frame=1D&min_market_count=3"
curl -s -H "X-Service-Key: $KEY" "$URL/v1/traders/ADDRESS/markets?include_orders=true"

# The same list as CSV; -D - shows the Link header with the next page.
curl -s -D - -H "X-Service-Key: $KEY" -H "Accept: text/csv" "$URL/v1/traders/ADDRESS/markets?limit=20"

# Only if it has changed since the leaderboard with this ETag; otherwise 304.
curl -s -D - -H "X-Service-Key: $KEY" -H 'If-None-Match: W/"…"' "$URL/v1/analytics/leaderboard"

# A 400 names each bad parameter, its value and the allowed values.
curl -s -H "X-Service-Key: $KEY" "$URL/v1/analytics/leaderboard?time_frame=2D"
\`\`\``;

const PAGE_HEADERS = {
  Link: 'the next page of the list, as `rel="next"` (RFC 8288); absent on the last one',
  'X-Total-Count': 'elements on all pages; total_count of the response, if it has one',
};

const RATE_HEADERS = {
  RateLimit:
    'name of the policy with the fewest requests left, how many r, seconds t until it is full again',
  'RateLimit-Policy':
    'policies of the key and of its account, each with requests q in a window of w seconds',
  'X-Request-Id': 'id of this request; the one in the request, if it has one',
};

const CSV: JsonSchema = {
  type: 'string',
  description: 'the list as CSV for Accept: text/csv: a header, then one row per element',
};

const DELIVERY = `\`: heartbeat\` comes every 30 s. Every event has an \`id\`, an increasing integer. A client that
sends its last one as \`Last-Event-ID\` gets all later events, from any process of the service, and
then continues live. \`event: gap\` says that events between the two positions in its data are no
longer stored, or that the position belongs to another feed. A match is delivered before it is
final: \`event: void\` retracts one that never settled on chain, and \`event: restored\` says that it
settled after all. Both pass the same filter as the match; clients may ignore them. Before
the server ends a stream, \`event: end\` says why: \`shutdown\` and \`too_slow\` (reconnect and resume),
\`key_revoked\`, \`stream_deleted\`, \`stream_disabled\`, \`quota_used_up\`, \`fault\`. 401, 403 and 404 are final: do not retry the same request. \`void\`,
\`restored\`, \`gap\` and \`end\` have the same data in both event streams. Lines end with LF, and an
event has one \`data:\` line. It exceeds 64 KiB, the default limit of Go's \`bufio.Scanner\`, only for a
match of more than about 100 orders.`;

const LISTS = {
  traders: 'comma-separated wallet addresses; only matches that involve one of them',
  tags: 'comma-separated tags of markets',
  series: 'comma-separated series slugs',
};

const BOUNDS = {
  min_usdc: 'minimum value of the taker order, USDC',
  max_usdc: 'maximum value of the taker order, USDC',
  min_shares: 'minimum shares of the taker order',
  max_shares: 'maximum shares of the taker order',
  min_price: 'minimum execution price of the taker, 0 to 100',
  max_price: 'maximum execution price of the taker, 0 to 100',
};

const POSITION: readonly Parameter[] = [
  parameter('lastEventId', 'the same as Last-Event-ID, which takes precedence', { type: 'string' }),
  {
    ...parameter('Last-Event-ID', 'position to resume after', { type: 'string' }),
    in: 'header',
  },
];

const ORDERS: Operation = {
  operationId: 'v1_stream_orders',
  tags: ['v1'],
  summary: 'Every match when it is first seen, as Server-Sent Events',
  description: `An open event stream: \`event: order\` with one match in \`data:\`, seconds before its
block is final. Compact form: \`[tx_hash, timestamp, market, taker order, maker orders]\`; with
\`format=json\` an object with labels. Lists are joined with OR inside one list and AND between them;
bounds are inclusive. The tag \`sports\` excludes markets tagged \`esports\`; \`all\` is no filter.

${DELIVERY}`,
  parameters: [
    ...Object.entries(LISTS).map(([name, description]) =>
      parameter(name, description, { type: 'string' }),
    ),
    ...Object.entries(BOUNDS).map(([name, description]) =>
      parameter(name, description, {
        type: 'number',
        minimum: 0,
        ...(name.endsWith('price') && { maximum: 100 }),
      }),
    ),
    parameter('format', 'json: objects with labels; absent: the compact form', {
      type: 'string',
      enum: ['json'],
    }),
    ...POSITION,
  ],
  responses: opened({ order: 'LabelledMatch' }),
};

const LISTEN: Operation = {
  operationId: 'streams_id',
  tags: ['streams'],
  summary: 'Listen to a stream, as Server-Sent Events',
  description: `An open event stream: \`event: tx\` with one live transaction in \`data:\`, seconds before
its block is final. Changed filters apply to later events. The
response ends when the stream is deleted or disabled.

${DELIVERY}`,
  parameters: [
    {
      ...parameter('id', 'stream id', {
        type: 'string',
        format: 'uuid',
        examples: ['0b9c2f6e-4a51-4c5b-9a0a-1f2e3d4c5b6a'],
      }),
      in: 'path',
      required: true,
    },
    ...POSITION,
  ],
  responses: opened({ tx: 'LiveTransaction' }),
};

/** By path, with the problems besides those of every endpoint. */
export const STREAM_OPERATIONS: Readonly<
  Record<string, { readonly operation: Operation; readonly problems: readonly ProblemCode[] }>
> = {
  '/v1/stream/orders': { operation: ORDERS, problems: ['quota_exceeded'] },
  '/streams/{id}': {
    operation: LISTEN,
    problems: ['quota_exceeded', 'stream_disabled', 'not_found'],
  },
};

export function openApi(endpoints: readonly Described[]) {
  const paths: Record<string, PathItem> = {};
  for (const [path, own] of Map.groupBy(endpoints, (endpoint) => template(endpoint.path))) {
    paths[path] = Object.fromEntries(own.map((one) => [one.method ?? 'get', operation(one)]));
  }
  for (const [path, { operation, problems }] of Object.entries(STREAM_OPERATIONS)) {
    const responses = { ...operation.responses, ...problemResponses(problems) };
    paths[path] = { get: { ...operation, responses }, ...paths[path] };
  }
  return {
    openapi: '3.1.0',
    info: { title: 'Fillstream', version: '2.0.0', description: DESCRIPTION },
    servers: [{ url: '/' }],
    security: [{ key: [] }],
    paths,
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
      ...problemResponses(endpoint.problems),
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

/** Schema of a parameter's text; toJSONSchema would omit its default and examples. */
function described(parameter: z.core.$ZodType): JsonSchema {
  // parameters.ts registers members of JSON Schema.
  const own = (z.globalRegistry.get(parameter) ?? {}) as JsonSchema;
  if (parameter instanceof z.ZodDefault) {
    const { defaultValue, innerType } = parameter.def;
    return { ...described(innerType), default: defaultValue, ...own };
  }
  if (parameter instanceof z.ZodOptional) return { ...described(parameter.def.innerType), ...own };
  return own;
}

/** One response per status; its description lists the codes. */
function problemResponses(codes: readonly ProblemCode[]): Record<string, Answer> {
  const byStatus = Map.groupBy([...COMMON, ...codes], (code) => PROBLEMS[code].status);
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

/** The response of an event stream; `matches` is its event with a match. */
function opened(matches: Readonly<Record<string, keyof typeof EVENT_SCHEMAS>>) {
  const events = { ...matches, gap: 'Gap', void: 'Void', restored: 'Restored', end: 'End' };
  const data = Object.entries(events).map(([event, schema]) => [
    event,
    { $ref: `#/components/schemas/${schema}` },
  ]);
  return {
    200: {
      description: 'the open stream',
      content: {
        'text/event-stream': {
          schema: { type: 'string' as const, 'x-event-data': Object.fromEntries(data) },
        },
      },
    },
  };
}

function parameter(name: string, description: string, schema: Parameter['schema']): Parameter {
  return { name, in: 'query', required: false, description, schema };
}
