/**
 * The OpenAPI document, generated from the endpoints: the schemas that parse and type parameters and
 * responses also describe them. The event streams are not JSON endpoints, so they are described here. The
 * feed parses their parameters (feed/query.ts), and a test compares the names.
 */
import { z } from 'zod';
import manifest from '../../package.json' with { type: 'json' };
import { EVENT_SCHEMAS } from '../feed/event-schemas.ts';
import { LAST_EVENT_ID, ManagedQuery, OrdersQuery } from '../feed/query.ts';
import type { Described } from '../http/endpoint.ts';
import { PROBLEMS, ProblemBody, type ProblemCode } from '../http/errors.ts';

export type JsonSchema = z.core.JSONSchema.JSONSchema;

export type Parameter = {
  readonly name: string;
  readonly in: 'path' | 'query' | 'header';
  readonly required: boolean;
  readonly description: string;
  readonly schema: JsonSchema;
  /** false: a list is comma-separated. */
  readonly explode?: false;
  readonly examples?: Readonly<Record<string, { value: unknown; 'x-disabled': true }>>;
};

/** The schema of a whole body, or of each event in a stream. */
type Media = { readonly schema?: JsonSchema; readonly itemSchema?: JsonSchema };
type Content = Readonly<Record<string, Media>>;

export type Answer = {
  readonly description: string;
  readonly headers?: Readonly<Record<string, { readonly $ref: string }>>;
  /** Absent if there is no body. */
  readonly content?: Content;
};

export type CodeSample = { readonly lang: string; readonly label: string; readonly source: string };

/** A request for which there are sample programs. */
export type SampledRequest = {
  readonly method: string;
  /** With parameters as `{name}`. */
  readonly path: string;
  /** The client's method. */
  readonly name: string;
  readonly parameters: readonly Parameter[];
  readonly body: JsonSchema | undefined;
  /** Whether the method returns an iterable in TypeScript: an event stream or a paginated list. */
  readonly isIterable: boolean;
  readonly isStream: boolean;
};

/** The parts of the document that do not come from the endpoints. */
type Additions = {
  readonly guides: readonly { readonly title: string; readonly path: string }[];
  readonly samplesOf: (request: SampledRequest) => readonly CodeSample[];
};

export type Operation = {
  readonly operationId: string;
  readonly tags: readonly string[];
  readonly summary: string;
  readonly description: string;
  readonly parameters: readonly Parameter[];
  readonly requestBody?: { readonly required: true; readonly content: Content };
  readonly responses: Readonly<Record<string, Answer>>;
  /** For the viewer. */
  readonly 'x-codeSamples'?: readonly CodeSample[];
};

export type Method = 'get' | 'post' | 'put' | 'patch' | 'delete';
type PathItem = Readonly<Partial<Record<Method, Operation>>>;

export type OpenApi = ReturnType<typeof openApi>;

const SCHEMAS = '#/components/schemas/';

/** Problems that any request can get. */
const COMMON: readonly ProblemCode[] = [
  'invalid_request',
  'unauthorized',
  'rate_limited',
  'internal',
  'unavailable',
];

const descriptionOf = (
  guides: Additions['guides'],
) => `Trader analytics of a prediction-market exchange, and its live order flow.

Send your API key in the header \`X-Service-Key\`. Its tier (demo, individual, pro) sets rates and limits.
This document needs no key; it is OpenAPI 3.1 at \`/openapi.json\`, and 3.2, with the schemas of the events of
streams, at \`/openapi-3.2.json\`. Amounts are micro-units, 10⁻⁶ of a USDC, pUSD or share: decimal strings in v1,
numbers in v2. PnL is realised PnL, net of fees, dated when it is realised. Unknown parameters are
ignored, unless the name is a typo away from a known one, which returns 400. Event streams reject all unknown ones
with 400, because a misspelt filter would let every event through.

PnL covers fills of the version 2 and 3 exchanges, their fees, resolutions, and shares that move without a fill: splits,
merges, redemptions, conversions of negative-risk positions and transfers. In blocks that were read with
\`MOVEMENTS=off\`, a wallet that sells shares of unknown origin is booked as holding the other outcome.
Version 1 trades, rebates and rewards are not included.

Lists are paginated: \`limit\` is the page size, and \`Link: <…>; rel="next"\` is the next page. Its
\`cursor\` continues after the last element. Lists with a fixed order (fills, hours, traders of a market)
never repeat or omit an entry while trades arrive. Leaderboards and the markets of a trader are sorted by
values that trades change; their descriptions say what can happen. \`order\` reverses a list, and
\`Accept: text/csv\` returns it as CSV.

Requests with the same parameters share a response while it is computed and until it is a second old
(positions: half a second). So a match or resolution that became final since then can be missing, and two
responses can differ by that time. A single response is always consistent. \`Age\` is its age in whole
seconds. Shared responses and leaderboards have an ETag. CSV (except of leaderboards), streamed lists
and batches are computed for each request.

Errors are \`application/problem+json\`; \`error\` is a stable code. Responses are compressed if
\`Accept-Encoding\` allows gzip or br. \`/healthz\` and \`/readyz\` need no key.

## First steps

\`\`\`sh
URL=https://api.example.com   # this server
KEY=fs_…                      # your key

# The best traders of the last day, and the markets of one of them.
curl -s -H "X-Service-Key: $KEY" "$URL/v1/analytics/leaderboard?time_frame=1D&min_market_count=3"
curl -s -H "X-Service-Key: $KEY" "$URL/v1/traders/ADDRESS/markets?include_orders=true"

# The same list as CSV; -D - shows the Link header with the next page.
curl -s -D - -H "X-Service-Key: $KEY" -H "Accept: text/csv" "$URL/v1/traders/ADDRESS/markets?limit=20"

# With the ETag of an earlier response: 304 if nothing has changed.
curl -s -D - -H "X-Service-Key: $KEY" -H 'If-None-Match: W/"…"' "$URL/v1/analytics/leaderboard"

# A 400 names each bad parameter, its value and the allowed values.
curl -s -H "X-Service-Key: $KEY" "$URL/v1/analytics/leaderboard?time_frame=2D"
\`\`\`

## Guides

${guides.map(({ title, path }) => `- [${title}](${path})`).join('\n')}`;

const COUNT_HEADERS = { 'X-Total-Count': 'total_count of the response' };

const PAGE_HEADERS = {
  Link: 'the next page of the list, as `rel="next"` (RFC 8288); absent on the last page',
};

const RATE_HEADERS = {
  RateLimit:
    'policy with the fewest requests left: r = requests left, t = seconds until another is admitted',
  'RateLimit-Policy':
    'policies of the key and of its account: q = requests per window, w = window in seconds',
  'X-Request-Id': 'id of this request; the one that you sent, if any',
};

const CACHE_HEADERS = {
  ETag: 'version of this response; send it back in If-None-Match',
  'Cache-Control':
    'how long you may use the response without revalidating; no-cache: revalidate each time',
  Age: 'seconds since the response was computed',
};

/** Additional headers of problems, by status. */
const PROBLEM_HEADERS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  401: { 'WWW-Authenticate': 'how to send a key' },
  429: { 'Retry-After': 'seconds to wait' },
  503: { 'Retry-After': 'seconds to wait' },
};

const CREATED_HEADERS = { Location: 'path of the created resource' };

const IF_NONE_MATCH: Parameter = {
  ...parameter('If-None-Match', 'ETag of an earlier response: 304 if it is still current', {
    type: 'string',
  }),
  in: 'header',
};

const IDEMPOTENCY_KEY: Parameter = {
  ...parameter(
    'Idempotency-Key',
    'preferably a random UUID; a retry with the same API key, value and body creates nothing more',
    { type: 'string', minLength: 1, maxLength: 255, pattern: '^[!-~]+$' },
  ),
  in: 'header',
};

const NOT_MODIFIED: Answer = {
  description: 'the response with the ETag in If-None-Match is still current',
  headers: headerRefs({ ...RATE_HEADERS, ...PAGE_HEADERS, ...COUNT_HEADERS, ...CACHE_HEADERS }),
};

const CSV: JsonSchema = {
  type: 'string',
  description: 'the list as CSV for Accept: text/csv: a header, then one row per element',
};

const DELIVERY = `The server sends \`: heartbeat\` every 30 s. Events have an \`id\`, an increasing integer. A client
that sends the last one as \`Last-Event-ID\` gets all later events, from any process of the service, and then the
live ones. \`event: gap\` says that events between the two cursors in its data are no longer stored, or
that the cursor belongs to another feed.

A match is delivered before it is final. \`event: void\` retracts a match that never settled on chain, and
\`event: restored\` says that it settled after all. With \`finality=true\`, \`event: final\` says that a match
is in a final block. These events pass the same filter as the match. Clients may ignore them.

Before the server ends a stream, it sends \`event: end\` with a reason: \`shutdown\` and \`too_slow\` (reconnect
and resume), \`key_revoked\`, \`stream_deleted\`, \`stream_disabled\`, \`quota_used_up\` or \`fault\`. 401, 403 and
404 are final: do not retry the same request.

\`void\`, \`restored\`, \`final\`, \`gap\` and \`end\` have the same data in both event streams. Lines end with LF,
and an event has one \`data:\` line. The line exceeds 64 KiB, the default limit of Go's \`bufio.Scanner\`, only
for a match of more than about 100 orders.`;

const EVENT_ID: JsonSchema = {
  type: 'string',
  description: 'cursor; `gap`, `end` and `position` may have none',
  examples: ['28492588'],
};
const LAST_EVENT_ID_HEADER = 'Last-Event-ID';
const { description: resumedAfter, ...lastEventId } = LAST_EVENT_ID;
const RESUMED: Parameter = {
  ...parameter(LAST_EVENT_ID_HEADER, resumedAfter, lastEventId),
  in: 'header',
};

const ORDERS: Operation = {
  operationId: 'feed',
  tags: ['v1'],
  summary: 'Order feed',
  description: `Every match when it is first seen, seconds before its block is final, as Server-Sent Events:
\`event: order\` with one match in \`data:\`. The default is the compact form,
\`[tx_hash, timestamp, market, taker order, maker orders]\`. With \`format=json\`, a match is an object with named fields. Filters are combined with AND, the values
of a list with OR. Bounds are inclusive. The tag \`sports\` excludes markets tagged \`esports\`; \`all\` means
no filter.

${DELIVERY}`,
  parameters: [
    ...Object.entries(OrdersQuery.shape).map(([name, one]) => parameterOf(name, one, 'query')),
    RESUMED,
  ],
  responses: opened({ order: ['CompactMatch', 'LabelledMatch'] }),
};

const LISTEN: Operation = {
  operationId: 'stream',
  tags: ['streams'],
  summary: 'Events of a stream',
  description: `The matches of a managed stream when they are first seen, seconds before their block is final, as
Server-Sent Events: \`event: tx\` with one live transaction in \`data:\`. A changed filter applies to later events. The response ends when the stream is
deleted or disabled.

With \`positions=true\`, \`event: position\` says what a match does to the positions of the stream's wallets: opened, added, reduced or
closed, the position before and after, its value and its share of the portfolio. It is sent just before the match and has no
\`id\`, so a client that resumes gets it again with its match. It is as pending as the match: \`void\` takes back
both. Settlements, and what final blocks say, are in \`GET /v2/position_events\`.

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
    ...Object.entries(ManagedQuery.shape).map(([name, one]) => parameterOf(name, one, 'query')),
    RESUMED,
  ],
  responses: opened({ tx: ['LiveTransaction'], position: ['StreamPosition'] }),
};

/** By path, with the problems in addition to those of every endpoint. */
export const STREAM_OPERATIONS: Readonly<
  Record<string, { readonly operation: Operation; readonly problems: readonly ProblemCode[] }>
> = {
  '/v1/stream/orders': { operation: ORDERS, problems: ['quota_exceeded', 'not_found'] },
  '/streams/{id}': {
    operation: LISTEN,
    problems: ['quota_exceeded', 'stream_disabled', 'not_found'],
  },
};

/** In version 3.2, which can describe the events of a stream. */
export function openApi(endpoints: readonly Described[], { guides, samplesOf }: Additions) {
  const paths: Record<string, PathItem> = {};
  const schemas = new Schemas();
  for (const [name, schema] of Object.entries({ Problem: ProblemBody, ...EVENT_SCHEMAS })) {
    schemas.ref(name, schema, 'output');
  }
  for (const [path, own] of Map.groupBy(endpoints, (endpoint) => template(endpoint.path))) {
    paths[path] = Object.fromEntries(
      own.map((one) => [one.method ?? 'get', operation(one, schemas, samplesOf)]),
    );
  }
  for (const [path, { operation, problems }] of Object.entries(STREAM_OPERATIONS)) {
    const responses = { ...operation.responses, ...problemResponses(problems) };
    const { operationId: name, parameters } = operation;
    const samples = samplesOf({
      ...{
        method: 'get',
        path,
        name,
        parameters,
        body: undefined,
        isIterable: true,
        isStream: true,
      },
    });
    paths[path] = { get: { ...operation, responses, 'x-codeSamples': samples }, ...paths[path] };
  }
  return {
    openapi: '3.2.0',
    info: { title: 'Fillstream', version: manifest.version, description: descriptionOf(guides) },
    servers: [{ url: '/' }],
    security: [{ key: [] }],
    paths,
    components: {
      securitySchemes: { key: { type: 'apiKey', in: 'header', name: 'X-Service-Key' } },
      schemas: schemas.named,
      headers: Object.fromEntries(
        Object.entries(HEADERS).map(([name, description]) => [
          name,
          { description, required: name in RATE_HEADERS, schema: { type: 'string' } },
        ]),
      ),
    },
  };
}

/**
 * The document in version 3.1, for generators and validators that cannot read 3.2. A stream is a text there. The header
 * Last-Event-ID is left out, because generators give it and the parameter lastEventId, which says the same, one name.
 */
export function asVersion31(document: OpenApi): OpenApi {
  const paths = Object.entries(document.paths).map(([path, item]) => {
    if (!(path in STREAM_OPERATIONS) || item.get === undefined) return [path, item];
    const opened = { ...item.get.responses[200], content: { 'text/event-stream': TEXT_STREAM } };
    const responses = { ...item.get.responses, 200: opened };
    const parameters = item.get.parameters.filter(({ name }) => name !== LAST_EVENT_ID_HEADER);
    return [path, { ...item, get: { ...item.get, parameters, responses } }];
  });
  return { ...document, openapi: '3.1.0', paths: Object.fromEntries(paths) };
}

const TEXT_STREAM: Media = {
  schema: {
    type: 'string',
    description: 'server-sent events; /openapi-3.2.json has the schema of each',
  },
};

const HEADERS = {
  ...RATE_HEADERS,
  ...PAGE_HEADERS,
  ...COUNT_HEADERS,
  ...CACHE_HEADERS,
  ...CREATED_HEADERS,
  ...Object.assign({}, ...Object.values(PROBLEM_HEADERS)),
} as Readonly<Record<string, string>>;

type Override = { readonly zodSchema: z.core.$ZodType; readonly jsonSchema: JsonSchema };

/** The schemas of the document. Those with an `id` appear under that name wherever they are used. */
class Schemas {
  readonly named: Record<string, JsonSchema> = {};

  /** Adds the schema under this name and returns a reference to it. */
  ref(name: string, schema: z.ZodType, io: 'input' | 'output'): JsonSchema {
    // zod omits the examples of a transformed input.
    const override = ({ zodSchema, jsonSchema }: Override) => {
      const { examples } = (z.globalRegistry.get(zodSchema) ?? {}) as JsonSchema;
      if (examples !== undefined) jsonSchema.examples = examples;
    };
    const converted = z.toJSONSchema(schema, { io, override });
    const text = JSON.stringify(converted).replaceAll('#/$defs/', SCHEMAS);
    const { $schema, $defs = {}, ...own } = JSON.parse(text) as JsonSchema;
    Object.assign(this.named, $defs);
    // A schema with its own id is already a reference.
    if (own.$ref !== undefined) return own;
    this.named[name] = own;
    return { $ref: SCHEMAS + name };
  }
}

function operation(
  endpoint: Described,
  schemas: Schemas,
  samplesOf: Additions['samplesOf'],
): Operation {
  const { method = 'get', path, body, status = 200, list, isCached } = endpoint;
  const operationId = `${endpoint.name}${path.startsWith('/v1/') ? 'V1' : ''}`;
  const title = operationId.charAt(0).toUpperCase() + operationId.slice(1);
  const bodyProblems: ProblemCode[] = ['payload_too_large', 'unsupported_media_type'];
  const inRequest = parametersOf(endpoint);
  const bodySchema = body && schemas.ref(`${title}Body`, body, 'input');
  return {
    operationId,
    tags: [/^\/(v\d)\//.exec(path)?.[1] ?? 'streams'],
    summary: endpoint.summary,
    description: endpoint.description,
    parameters: [
      ...inRequest,
      ...(isCached ? [IF_NONE_MATCH] : []),
      ...(method === 'post' ? [IDEMPOTENCY_KEY] : []),
    ],
    ...(bodySchema !== undefined && {
      requestBody: { required: true, content: { 'application/json': { schema: bodySchema } } },
    }),
    responses: {
      [status]: {
        description: endpoint.summary,
        headers: headerRefs({
          ...RATE_HEADERS,
          ...(list !== undefined && PAGE_HEADERS),
          ...('total_count' in endpoint.answer.shape && COUNT_HEADERS),
          ...(isCached && CACHE_HEADERS),
          ...(status === 201 && CREATED_HEADERS),
        }),
        content: {
          'application/json': { schema: schemas.ref(title, endpoint.answer, 'output') },
          ...(list !== undefined && { 'text/csv': { schema: CSV } }),
        },
      },
      ...(isCached && { 304: NOT_MODIFIED }),
      ...problemResponses([...endpoint.problems, ...(body === undefined ? [] : bodyProblems)]),
    },
    'x-codeSamples': samplesOf({
      ...{ method, name: endpoint.name, parameters: inRequest, isStream: false },
      path: template(path),
      body: body && schemas.named[`${title}Body`],
      isIterable: list !== undefined && inRequest.some((one) => one.name === 'cursor'),
    }),
  };
}

function parametersOf({ path, parameters }: Described): Parameter[] {
  const inPath = new Set([...path.matchAll(/:(\w+)/g)].map((match) => match[1]));
  return Object.entries(parameters.shape).map(([name, one]) =>
    parameterOf(name, one, inPath.has(name) ? 'path' : 'query'),
  );
}

function parameterOf(name: string, parameter: z.ZodType, where: 'path' | 'query'): Parameter {
  const { description = '', ...schema } = described(parameter);
  const required = where === 'path' || !parameter.safeParse(undefined).success;
  const list = schema.type === 'array' && { explode: false as const };
  return { name, in: where, required, description, schema, ...list, ...untried(required, schema) };
}

/**
 * Keeps the viewer from sending the sample of an optional parameter, such as a cursor of another list, before the
 * user chooses it. https://github.com/scalar/scalar/issues/7803
 */
function untried(required: boolean, schema: Parameter['schema']): Pick<Parameter, 'examples'> {
  const value = schema.default ?? schema.enum?.[0] ?? schema.examples?.[0];
  if (required || value === undefined) return {};
  return { examples: { sample: { value, 'x-disabled': true } } };
}

/** Schema of a parameter's text. toJSONSchema would omit its default and examples. */
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
        headers: headerRefs({ ...RATE_HEADERS, ...PROBLEM_HEADERS[status] }),
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

/** The response of an event stream; `matches` has the schemas of a match by the name of its event. */
function opened(matches: Readonly<Record<string, readonly (keyof typeof EVENT_SCHEMAS)[]>>) {
  const others = {
    ...{ gap: ['Gap'], void: ['Void'], restored: ['Restored'], final: ['Final'], end: ['End'] },
  };
  const events = Object.entries({ ...matches, ...others }).map(([event, names]): JsonSchema => {
    const [ref = {}, ...more] = names.map((name) => ({ $ref: SCHEMAS + name }));
    const contentSchema = more.length === 0 ? ref : { oneOf: [ref, ...more] };
    // The viewer does not show contentSchema, so the description names the schema, too.
    const description = `JSON of one line: ${names.map((name) => `\`${name}\``).join(' or ')} (see Models)`;
    const json = { type: 'string', contentMediaType: 'application/json', contentSchema } as const;
    const properties: Record<string, JsonSchema> = {
      id: EVENT_ID,
      event: { type: 'string', const: event },
      data: { ...json, description },
    };
    return { title: event, type: 'object', required: ['event', 'data'], properties };
  });
  return {
    200: {
      description: 'the open stream',
      headers: headerRefs(RATE_HEADERS),
      content: { 'text/event-stream': { itemSchema: { oneOf: events } } },
    },
  };
}

function parameter(name: string, description: string, schema: Parameter['schema']): Parameter {
  return { name, in: 'query', required: false, description, schema, ...untried(false, schema) };
}
