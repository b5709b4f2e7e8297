import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import SwaggerParser from '@apidevtools/swagger-parser';
import { build } from 'esbuild';
import fc from 'fast-check';
import { generate } from 'openapi-typescript-codegen';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { z } from 'zod';
import type { Method, OpenApi, Operation, Parameter } from '../../api/service/openapi.ts';
import { addressOf } from '../support/api-bookings.ts';
import { SEED } from '../support/api-expected.ts';
import { get, issueKey } from '../support/api-harness.ts';
import { startSeeded } from '../support/api-seeded.ts';
import { forFile } from '../support/for-file.ts';
import { isLong } from '../support/seed.ts';
import { temporaryDirectory, until } from '../support/service.ts';

/** Requests for each operation. */
const RUNS = isLong ? 20 : 5;

const seeded = forFile(startSeeded);
let url: string;
let document: OpenApi;
let document32: OpenApi;
let streamId: string;
let alertId: string;
let destinationId: string;

beforeAll(async () => {
  url = seeded.api.url;
  document = (await get(`${url}/openapi.json`, undefined)).body;
  document32 = (await get(`${url}/openapi-3.2.json`, undefined)).body;
  streamId = await makeStream(seeded.key);
  const rule = { type: 'match', tags: ['crypto'] };
  const alert = await send('post', '/v2/alerts', seeded.key, { name: 'described', rule });
  alertId = alert.body.id;
  const target = { kind: 'webhook', url: 'https://bot.example/' };
  const made = await send('post', '/v2/destinations', seeded.key, { name: 'described', target });
  destinationId = made.body.destination.id;
});

/** Path parameters that exist in the made-up exchange. */
const KNOWN: Readonly<Record<string, string>> = {
  address: addressOf(3),
  id: '1002',
  id_or_slug: '1002',
  q: 'question',
};

/** The operations that read and respond with JSON. */
function operations() {
  return readable().filter(
    ({ operation }) => operation.responses[200]?.content?.['application/json'],
  );
}

/** The operations that read. */
function readable() {
  return Object.entries(document.paths).flatMap(([path, { get: operation }]) =>
    operation === undefined ? [] : [{ path, operation }],
  );
}

function send(method: Method, path: string, key: string, body: unknown) {
  return get(url + path, key, {
    method: method.toUpperCase(),
    headers: { 'Content-Type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
}

async function makeStream(key: string): Promise<string> {
  const { body } = await send('post', '/streams', key, { name: 'described', tags: ['crypto'] });
  return body.id;
}

function knownOf(path: string): Readonly<Record<string, string>> {
  if (path.startsWith('/v2/alerts/')) return { id: alertId };
  if (path.startsWith('/v2/destinations/')) return { id: destinationId };
  return path.startsWith('/streams/') ? { id: streamId } : KNOWN;
}

function fill(path: string, values: Readonly<Record<string, string>>): string {
  return path.replaceAll(/\{(\w+)\}/g, (_, name) => encodeURIComponent(values[name] ?? ''));
}

/** Headers that clients use. A response with one of them must be documented with it. */
const TOLD = [
  ...['Allow', 'ETag', 'Link', 'Location', 'Retry-After', 'WWW-Authenticate', 'X-Total-Count'],
  ...['RateLimit', 'RateLimit-Policy', 'X-Request-Id'],
];

/** Fails unless the document describes this response of the operation. */
function expectDescribed(operation: Operation, answer: Awaited<ReturnType<typeof get>>) {
  const described = operation.responses[answer.status];
  expect(described, `${operation.operationId} answers ${answer.status}`).toBeDefined();
  const type = answer.headers.get('content-type')?.split(';')[0] ?? '';
  const content = described?.content?.[type];
  if (answer.text === '') expect(described?.content).toBe(undefined);
  else expect(content, `${operation.operationId} answers ${type}`).toBeDefined();
  const parsed = schemaOf(content?.schema ?? {}).safeParse(answer.body);
  expect(parsed.error?.issues, `${operation.operationId}: ${answer.text.slice(0, 300)}`).toBe(
    undefined,
  );
  // A parsed object has its members in the order of the schema.
  expect(JSON.stringify(parsed.data), operation.operationId).toBe(JSON.stringify(answer.body));
  for (const name of TOLD) {
    if (answer.headers.get(name) === null) continue;
    const where = `${operation.operationId} answers ${answer.status} with ${name}`;
    expect(described?.headers?.[name], where).toBeDefined();
  }
  const headers = document.components.headers as Record<string, { required: boolean }>;
  for (const name of Object.keys(described?.headers ?? {})) {
    if (!headers[name]?.required) continue;
    expect(answer.headers.get(name), name).not.toBeNull();
  }
}

const schemas = new Map<string, z.ZodType>();

function schemaOf(schema: z.core.JSONSchema.JSONSchema): z.ZodType {
  const text = JSON.stringify(schema);
  const known = schemas.get(text);
  if (known !== undefined) return known;
  const whole = JSON.stringify({ ...schema, $defs: document.components.schemas });
  const made = z.fromJSONSchema(JSON.parse(whole.replaceAll('#/components/schemas/', '#/$defs/')));
  schemas.set(text, made);
  return made;
}

/** The query with the required parameters. */
function queryOf({ parameters }: Operation): string {
  const needed = parameters.filter((one) => one.in === 'query' && one.required);
  return `?${new URLSearchParams(Object.fromEntries(needed.map(({ name }) => [name, KNOWN[name] ?? ''])))}`;
}

/** The target of a reference. */
function resolved(schema: z.core.JSONSchema.JSONSchema): z.core.JSONSchema.JSONSchema {
  const name = schema.$ref?.split('/').pop();
  if (name === undefined) return schema;
  const { $ref, ...own } = schema;
  return { ...document.components.schemas[name], ...own };
}

describe('the document', () => {
  test('describes every operation', () => {
    expect(Object.keys(document.paths).sort()).toEqual([
      '/sessions',
      '/sessions/history',
      '/streams',
      '/streams/{id}',
      '/streams/{id}/meta',
      '/streams/{id}/subscription',
      '/v1/analytics/leaderboard',
      '/v1/market_data/{id_or_slug}',
      '/v1/markets/{id}',
      '/v1/stream/orders',
      '/v1/traders/{address}',
      '/v1/traders/{address}/hourly_stats',
      '/v1/traders/{address}/markets',
      '/v1/traders/{address}/markets/{id}/orders',
      ...['/v2/alerts', '/v2/alerts/events', '/v2/alerts/push_key', '/v2/alerts/{id}'],
      '/v2/alerts/{id}/test',
      '/v2/analytics/leaderboard',
      '/v2/analytics/pnl_lines',
      '/v2/biggest_trades',
      ...['/v2/destinations', '/v2/destinations/{id}', '/v2/destinations/{id}/deliveries'],
      '/v2/destinations/{id}/deliveries/{event_id}',
      '/v2/destinations/{id}/secret',
      '/v2/markets',
      '/v2/markets/{id}',
      '/v2/markets/{id}/candles',
      '/v2/markets/{id}/holders',
      '/v2/markets/{id}/trades',
      '/v2/position_events',
      '/v2/recent_matches',
      '/v2/search',
      '/v2/status',
      '/v2/tiers',
      '/v2/traders/batch',
      '/v2/traders/{address}',
      '/v2/traders/{address}/audit',
      '/v2/traders/{address}/hourly_stats',
      '/v2/traders/{address}/markets',
      '/v2/traders/{address}/markets/{id}/orders',
      '/v2/traders/{address}/movements',
      '/v2/traders/{address}/pnl',
      '/v2/traders/{address}/positions',
      '/v2/traders/{address}/trades',
      '/v2/user/keys',
      '/v2/user/keys/{id}',
      '/v2/user/me',
      '/v2/user/telemetry',
    ]);
  });

  test('is OpenAPI 3.1, which parsers and generators read', async () => {
    expect(document.openapi).toBe('3.1.0');
    // It dereferences its argument in place.
    const read = await SwaggerParser.validate(structuredClone(document) as never);
    expect(read.paths).toHaveProperty(['/v1/stream/orders', 'get', 'responses', '200']);
  });

  test('generates a client that compiles and returns the data of the API', async () => {
    const { path: output, remove } = temporaryDirectory();
    onTestFinished(remove);
    await generate({ input: structuredClone(document), output, useOptions: true });
    const index = join(output, 'index.ts');
    const given = ['--ignoreConfig', '--noEmit', '--strict', '--moduleResolution', 'bundler'];
    const checked = spawnSync('node_modules/.bin/tsc', [...given, index]);
    expect(checked.stdout.toString()).toBe('');
    const outfile = join(output, 'client.mjs');
    await build({ entryPoints: [index], outfile, bundle: true, format: 'esm', platform: 'node' });
    const { OpenAPI, V2Service } = await import(outfile);
    Object.assign(OpenAPI, { BASE: url, HEADERS: { 'X-Service-Key': seeded.key } });
    const path = '/v2/traders/{address}/positions';
    const name = operationOf(path).operationId;
    const asked = { address: KNOWN.address, status: 'resolved', limit: 3 };
    const answer = await V2Service[name](asked);
    expect(answer.positions).toHaveLength(3);
    const same = fill(`${path}?status=resolved&limit=3`, KNOWN);
    expect(answer).toEqual((await get(url + same, seeded.key)).body);
  });

  test('has the version of the packages, of the lock file and of the newest change', () => {
    const paths = [
      ...['package.json', 'package-lock.json'],
      ...['apps/client/package.json', 'apps/cli/package.json'],
    ];
    const versions = paths.map((path) => JSON.parse(readFileSync(path, 'utf8')).version);
    const [, newest] = /^## (\S+)/m.exec(readFileSync('CHANGELOG.md', 'utf8')) ?? [];
    expect(new Set([document.info.version, newest, ...versions]).size).toBe(1);
  });

  test('is the same in version 3.2, but for the events of streams and how they resume', () => {
    expect(document32.openapi).toBe('3.2.0');
    const streams: unknown[] = [];
    const withoutStreams = ({ paths }: OpenApi) =>
      JSON.parse(
        JSON.stringify(paths, (name, value) => {
          if (name === 'parameters') {
            return value.filter((one: Parameter) => one.name !== 'Last-Event-ID');
          }
          if (name !== 'text/event-stream') return value;
          streams.push(Object.keys(value));
          return undefined;
        }),
      );
    expect({ ...document, openapi: '3.2.0', paths: withoutStreams(document) }).toEqual({
      ...document32,
      paths: withoutStreams(document32),
    });
    expect(streams).toEqual([['schema'], ['schema'], ['itemSchema'], ['itemSchema']]);
  });

  test('titles operations with different short names, and those that read with nouns', () => {
    const all = Object.values(document.paths).flatMap((item) => Object.entries(item));
    const titles = all.map(([, { summary }]) => summary);
    expect(new Set(titles).size).toBe(titles.length);
    for (const title of titles) expect(title).toMatch(/^[A-Z][^.:;]{3,39}$/);
    for (const [method, { summary }] of all) {
      if (method === 'get') expect(summary).not.toMatch(/^(Find|Get|List|Listen|Read)\b/);
    }
  });

  test('explains every parameter and every field', () => {
    for (const { operation } of operations()) {
      for (const { name, description, schema } of operation.parameters) {
        expect(description, `${operation.operationId} ${name}`).not.toBe('');
        expect(schema.type, `${operation.operationId} ${name}`).toBeDefined();
      }
      const content = operation.responses[200]?.content?.['application/json'];
      for (const [path, field] of leaves(content?.schema ?? {}, operation.operationId)) {
        expect(field.description, path).toBeDefined();
        expect(field.examples ?? field.items, path).toBeDefined();
      }
    }
  });

  test('shows requests that the server accepts', async () => {
    for (const [path, item] of Object.entries(document.paths)) {
      for (const [method, operation] of Object.entries(item)) {
        if (operation.responses[200]?.content?.['text/event-stream']) continue;
        const samples = operation['x-codeSamples'] ?? [];
        const [curl = '', , python] = samples.map(({ source }) => source);
        const [, shown = ''] = /'https:\/\/api\.example\.com([^']*)'$/.exec(curl) ?? [];
        expect(python).toContain(shown.split('?')[0]);
        // The resource does not exist here.
        const [, body] = /-d '(.*)'/.exec(curl) ?? [];
        const given = body === undefined ? undefined : JSON.parse(body);
        const answer = await send(method as Method, shown, seeded.key, given);
        expect([200, 201, 404], `${method} ${path}: ${answer.text}`).toContain(answer.status);
      }
    }
  });

  test('names its schemas, and the forms of every event', () => {
    const { schemas } = document.components;
    expect(Object.keys(schemas)).toEqual(
      expect.arrayContaining([
        ...['Problem', 'Trader', 'Profile', 'Market', 'MarketListing', 'Fill', 'FillV1', 'Stream'],
        ...['CompactMatch', 'LabelledMatch', 'LiveTransaction', 'Leaderboard', 'LeaderboardV1'],
      ]),
    );
    const text = JSON.stringify(document);
    for (const [, name = ''] of text.matchAll(/"#\/components\/schemas\/(\w+)"/g)) {
      expect(schemas[name], name).toBeDefined();
    }
    expect(text).not.toContain('$defs');
    const { itemSchema } =
      document32.paths['/v1/stream/orders']?.get?.responses[200]?.content?.['text/event-stream'] ??
      {};
    const events = itemSchema?.oneOf as z.core.JSONSchema.JSONSchema[];
    const names = ['CompactMatch', 'LabelledMatch'];
    expect(events.find(({ title }) => title === 'order')?.properties?.data).toMatchObject({
      contentSchema: { oneOf: names.map((name) => ({ $ref: `#/components/schemas/${name}` })) },
    });
  });

  test('has the limits that the server enforces', () => {
    const bodyOf = (path: string, method: Method) => {
      const content = operationOf(path, method).requestBody?.content['application/json'];
      return resolved(content?.schema ?? {});
    };
    expect(bodyOf('/streams', 'post')).toMatchObject({
      additionalProperties: false,
      properties: {
        name: { minLength: 1, maxLength: 64 },
        tags: { maxItems: 10_000, items: { minLength: 1, maxLength: 100 } },
        addresses: { maxItems: 10_000, items: { pattern: expect.any(String) } },
      },
    });
    expect(bodyOf('/v2/user/keys', 'post').properties).toMatchObject({
      label: { maxLength: 200 },
      expires_at: { anyOf: [{ format: 'date-time' }, { type: 'null' }] },
    });
    const traders = operationOf('/v1/stream/orders').parameters.find(
      ({ name }) => name === 'traders',
    );
    expect(traders).toMatchObject({ explode: false, schema: { minItems: 1, maxItems: 350 } });
    for (const [path, method] of [
      ['/streams', 'post'],
      ['/v2/user/keys', 'post'],
    ] as const) {
      const { parameters, responses } = operationOf(path, method);
      expect(Object.keys(responses)).toEqual(expect.arrayContaining(['201', '413', '415']));
      expect(parameters.map(({ name }) => name)).toContain('Idempotency-Key');
    }
  });

  test('has the defaults, ranges and allowed values of the specification', () => {
    const { parameters } = operationOf('/v1/analytics/leaderboard');
    const named = new Map(parameters.map((parameter) => [parameter.name, parameter.schema]));
    expect(named.get('limit')).toMatchObject({ type: 'integer', minimum: 1, maximum: 100 });
    expect(named.get('time_frame')?.enum).toEqual(['1H', '4H', '1D', '3D', '7D', '30D']);
    expect(named.get('time_frame')?.default).toBe('30D');
    expect(named.get('tag')?.enum).toHaveLength(22);
    expect(operationOf('/v1/traders/{address}/markets').parameters[1]?.schema.default).toBe(20);
  });

  test.each([
    '/openapi.json',
    '/openapi-3.2.json',
    '/docs',
    '/docs/streams',
    '/docs/streams.md',
    '/llms.txt',
  ])('is at %s without a key, with an ETag', async (path) => {
    const first = await fetch(url + path);
    expect(first.status).toBe(200);
    const etag = first.headers.get('etag') ?? '';
    // Without Cache-Control, fetch would add no-cache, which requests the whole response.
    const headers = { 'If-None-Match': etag, 'Cache-Control': 'max-age=0' };
    const second = await fetch(url + path, { headers });
    expect([second.status, await second.text()]).toEqual([304, '']);
    expect((await fetch(url + path, { method: 'POST' })).status).toBe(405);
  });
});

/**
 * A new key of a new account. Until the api knows it, its requests count for their address, which may have made too many: here, a
 * fast host makes more in a second than an address may.
 */
async function knownKey(tier: 'demo' | 'pro'): Promise<string> {
  const key = await issueKey(seeded.nats.bucket, tier);
  await until(async () => (await get(`${url}/sessions`, key)).status === 200 || undefined);
  return key;
}

describe('live responses', () => {
  test('of every path match the document', async () => {
    for (const { path, operation } of operations()) {
      const known = fill(path, knownOf(path)) + queryOf(operation);
      const answer = await get(url + known, seeded.key);
      expect(answer.status, path).toBe(200);
      expectDescribed(operation, answer);
    }
  });

  test('with every optional part match the document', async () => {
    for (const path of ['/v1/traders/{address}/markets', '/v2/traders/{address}/markets']) {
      const query = '?include_orders=true&is_active=false';
      expectDescribed(
        operationOf(path),
        await get(url + fill(path, knownOf(path)) + query, seeded.key),
      );
    }
  });

  test('that are already cached match the document', async () => {
    const cached = operations().filter(({ operation }) => operation.responses[304] !== undefined);
    const known = cached.map(({ path }) => path);
    expect(known).toContain('/v1/analytics/leaderboard');
    expect(known).toContain('/v2/traders/{address}/positions');
    for (const { path: template, operation } of cached) {
      const path = fill(template, knownOf(template)) + queryOf(operation);
      const first = await get(url + path, seeded.key);
      const headers = {
        'If-None-Match': first.headers.get('etag') ?? '',
        'Cache-Control': 'max-age=0',
      };
      const again = await get(url + path, seeded.key, { headers });
      expect(again.status).toBe(304);
      expectDescribed(operation, again);
    }
  });

  test('to too many requests are a 429 with the time to wait', async () => {
    for (const { path, operation } of operations()) {
      const key = await knownKey('demo');
      // They count before their parameters are checked.
      const target = `${url}${fill(path, { address: 'x', id: '!', id_or_slug: '!' })}?limit=x`;
      // On a slow machine, these requests may take more than a second.
      const refused = await until(async () => {
        const answers = await Promise.all(Array.from({ length: 12 }, () => get(target, key)));
        return answers.find(({ status }) => status === 429);
      });
      expect([path, refused.body.error]).toEqual([path, 'rate_limited']);
      expect(refused.headers.get('retry-after')).toBe('1');
      expect(refused.headers.get('ratelimit')).toBe('"demo";r=0;t=1');
      expectDescribed(operation, refused);
    }
  });

  test('to a wrong key or id match the document', async () => {
    for (const { path, operation } of operations()) {
      expectDescribed(operation, await get(url + fill(path, knownOf(path)), undefined));
      const unknown = fill(path, { address: `0x${'0'.repeat(40)}`, id: '77', id_or_slug: '77' });
      const key = await knownKey('demo');
      expectDescribed(operation, await get(url + unknown, key));
    }
  });

  test('of a market that is not known are a 404, by each of its names', async () => {
    let count = 0;
    for (const { path, operation } of readable()) {
      const market = operation.parameters.find(
        ({ name }) =>
          ['market', 'markets', 'id_or_slug'].includes(name) ||
          (name === 'id' && path.includes('/markets/')),
      );
      if (market === undefined) continue;
      count += 1;
      const key = await knownKey('pro');
      const names = ['0', '424242', '9223372036854775807'];
      if (market.schema.type !== 'integer') names.push('no-such-market');
      // A filter takes any condition id.
      if (market.in === 'path' && names.length > 3) names.push(`0x${'9'.repeat(64)}`);
      for (const name of names) {
        const filled = fill(path, { ...KNOWN, [market.name]: name });
        const query = market.in === 'query' ? `?${market.name}=${name}` : '';
        const answer = await get(url + filled + query, key);
        expect([filled, query, answer.status]).toEqual([filled, query, 404]);
        expect(answer.body.error).toBe('not_found');
        expectDescribed(operation, answer);
      }
    }
    expect(count).toBeGreaterThan(12);
  });

  test('to what a parameter may not be are a 400 that names it', async () => {
    for (const { path, operation } of readable()) {
      const key = await knownKey('pro');
      const given = operation.parameters
        .filter((one) => one.in !== 'header')
        .flatMap((one) => refusedOf(one.schema).map((text) => ({ ...one, text })))
        .filter((one) => one.in === 'query' || one.text !== '');
      const ask = async ({ name, text, in: place }: (typeof given)[number]) => {
        const filled = fill(path, { ...knownOf(path), [name]: text });
        const query = new URLSearchParams(queryOf(operation));
        if (place === 'query') query.set(name, text);
        const answer = await get(`${url}${filled}?${query}`, key);
        const where = `${path}: ${name}=${text}`;
        expect([where, answer.status, answer.body?.error]).toEqual([where, 400, 'invalid_request']);
        const names = answer.body.issues.map((issue: { path: string }) => issue.path.split('.')[0]);
        expect([where, names]).toEqual([where, [name]]);
        expectDescribed(operation, answer);
      };
      await Promise.all(given.map(ask));
    }
  });

  /** Features that the tier demo does not have, and the details of the errors. */
  const DEMO: readonly (readonly [path: string, query: string, says: RegExp])[] = [
    ...['/v1/analytics/leaderboard', '/v2/analytics/leaderboard'].flatMap((path) => [
      [path, 'limit=21', /^limit: .*the tier demo allows at most 20$/] as const,
      [path, 'offset=1', /^offset: .*the tier demo allows at most 0$/] as const,
    ]),
    ['/v1/traders/{address}/markets', 'include_orders=true', /^include_orders: /],
    ['/v2/traders/{address}/markets', 'include_orders=true', /^include_orders: /],
    ['/v1/market_data/{id_or_slug}', '', /demo/],
  ];

  // A client may keep a response for another tier, but this tier does not get it.
  test.each(DEMO)('of %s with %j are a 403 for the tier demo alone', async (path, query, says) => {
    const target = `${url}${fill(path, KNOWN)}?${query}`;
    for (const key of [seeded.key, seeded.individualKey]) {
      expect((await get(target, key)).status).toBe(200);
    }
    const refused = await get(target, await knownKey('demo'));
    expect([refused.status, refused.body.error]).toEqual([403, 'tier_required']);
    expect(refused.body.detail).toMatch(says);
    expectDescribed(operationOf(path), refused);
  });

  test('that no tier is refused have no 403', () => {
    const limited = operations().filter(({ operation }) => operation.responses[403] !== undefined);
    const paths = limited.map(({ path }) => path);
    expect(new Set(paths)).toEqual(new Set(DEMO.map(([path]) => path)));
  });

  test('to any parameters match the document, and none is 5xx', async () => {
    for (const { path, operation } of operations()) {
      const key = await knownKey('pro');
      const values = fc.record(
        Object.fromEntries(operation.parameters.map((one) => [one.name, textOf(one)])),
        { requiredKeys: operation.parameters.filter((one) => one.required).map((one) => one.name) },
      );
      await fc.assert(
        fc.asyncProperty(values, async (given) => {
          const query = new URLSearchParams(
            Object.entries(given).filter(([name]) => !path.includes(`{${name}}`)),
          );
          const answer = await get(`${url + fill(path, given)}?${query}`, key);
          expect(answer.status, `${path} ${query} ${answer.text}`).toBeLessThan(500);
          expectDescribed(operation, answer);
        }),
        { numRuns: RUNS, seed: SEED },
      );
    }
  });
});

describe('responses to bodies', () => {
  const names = ['label', 'name', 'addresses', 'tags', 'series', 'enabled', 'other'];
  const slugs = fc.array(fc.oneof(fc.constantFrom('crypto', ' NFL ', '5M'), fc.string()), {
    maxLength: 120,
  });
  const members: Readonly<Record<string, fc.Arbitrary<unknown>>> = {
    name: fc.string(),
    addresses: fc.array(fc.constantFrom(addressOf(1), addressOf(2).toUpperCase(), '0x12')),
    tags: slugs,
    series: slugs,
    enabled: fc.boolean(),
    label: fc.string({ maxLength: 300 }),
    expires_at: fc.constantFrom(null, '2099-01-01T00:00:00Z', 'tomorrow'),
    rule: fc.constantFrom({ type: 'match', tags: ['crypto'] }, { type: 'match' }, { type: 'x' }),
    target: fc.constantFrom({ kind: 'webhook', url: 'https://bot.example/' }, { kind: 'x' }),
    destinations: fc.constantFrom([], ['x']),
    confirm: fc.boolean(),
  };
  /** Mostly a body of the members that the operation has. */
  function bodyOf({ requestBody }: Operation): fc.Arbitrary<unknown> {
    const { schema = {} } = requestBody?.content['application/json'] ?? {};
    const known = resolved(schema).properties ?? {};
    const own = Object.entries(members).filter(([name]) => name in known);
    const fitting = fc.record(Object.fromEntries(own), { requiredKeys: [] });
    return fc.oneof(
      { weight: 4, arbitrary: fitting },
      { weight: 1, arbitrary: fc.dictionary(fc.constantFrom(...names), fc.jsonValue()) },
      { weight: 1, arbitrary: fc.jsonValue() },
    );
  }

  test.each([
    ['post', '/streams'],
    ['put', '/streams/{id}/subscription'],
    ['put', '/streams/{id}/meta'],
    ['post', '/v2/user/keys'],
    ['post', '/v2/traders/batch'],
    ['post', '/v2/alerts'],
    ['post', '/v2/destinations'],
  ] as const)('of %s %s match the document for any body', async (method, path) => {
    const operation = operationOf(path, method);
    const key = await knownKey('pro');
    const filled = fill(path, { id: await makeStream(key) });
    const seen = new Set<number>();
    await fc.assert(
      fc.asyncProperty(bodyOf(operation), async (given) => {
        const answer = await send(method, filled, key, given);
        seen.add(answer.status);
        expect(answer.status).toBeLessThan(500);
        expectDescribed(operation, answer);
      }),
      { numRuns: 60, seed: SEED },
    );
    const [success = ''] = Object.keys(operation.responses);
    expect([...seen]).toEqual(expect.arrayContaining([Number(success), 400]));
    for (const [type, body, status, detail] of [
      ['application/json', '{"name": ', 400, 'body: must be JSON'],
      ['application/json', '[]', 400, /^body: /],
      ['text/plain', '{}', 415, 'the body must be application/json'],
    ] as const) {
      const other = await get(url + filled, key, {
        ...{ method: method.toUpperCase(), headers: { 'Content-Type': type }, body },
      });
      expect([other.status, other.body.detail]).toEqual([status, expect.stringMatching(detail)]);
      expectDescribed(operation, other);
    }
    const large = await send(method, filled, key, { name: 'x'.repeat(256 * 1_024) });
    expect(large.status).toBe(413);
    expectDescribed(operation, large);
  });

  test('of delete match the document', async () => {
    const key = await knownKey('pro');
    const id = await makeStream(key);
    const operation = operationOf('/streams/{id}', 'delete');
    for (const status of [200, 404]) {
      const answer = await send('delete', `/streams/${id}`, key, undefined);
      expect(answer.status).toBe(status);
      expectDescribed(operation, answer);
    }
  });
});

test('the reference and /llms.txt link every guide, which is served as it is written', async () => {
  const links = [...document.info.description.matchAll(/\]\((\/docs\/[\w-]+\.md)\)/g)];
  const paths = links.map(([, path = '']) => path);
  expect(paths).toEqual(
    expect.arrayContaining(['quick-start', 'errors'].map((name) => `/docs/${name}.md`)),
  );
  const summary = await (await fetch(`${url}/llms.txt`)).text();
  for (const path of paths) {
    const response = await fetch(url + path);
    expect(await response.text()).toBe(
      readFileSync(join(import.meta.dirname, '../..', path), 'utf8'),
    );
    expect(summary).toContain(`](${path})`);
  }
});

test('a browser gets every guide as HTML without scripts, whose links all work', async () => {
  // Without it, fewer requests a second are allowed.
  const withKey = { 'X-Service-Key': seeded.key };
  const pages = new Map<string, string>();
  for (const [, path = ''] of document.info.description.matchAll(/\((\/docs\/[\w-]+)\.md\)/g)) {
    const headers = { Accept: 'text/html,application/xhtml+xml,*/*;q=0.8', ...withKey };
    const response = await fetch(`${url}${path}.md`, { headers });
    expect(response.url).toBe(url + path);
    expect(response.headers.get('content-type')).toBe('text/html; charset=utf-8');
    expect(response.headers.get('content-security-policy')).toMatch(
      /^default-src 'none'; style-src 'self'; img-src 'self' data:;/,
    );
    pages.set(path, await response.text());
  }
  expect(pages.size).toBeGreaterThan(10);
  let links = 0;
  const others = new Set<string>();
  for (const [path, page] of pages) {
    expect(page).not.toMatch(/<script|<style| style="| on\w+="|```/);
    const own = [...page.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id);
    expect(own, path).toEqual([...new Set(own)]);
    for (const [, target = '', anchor] of page.matchAll(/href="([^"#:]*)(?:#([^"]*))?"/g)) {
      const to = pages.get(target || path);
      if (to === undefined) others.add(target);
      else if (anchor !== undefined) expect(to, `${path}: #${anchor}`).toContain(`id="${anchor}"`);
      links += 1;
    }
  }
  expect(links).toBeGreaterThan(200);
  for (const path of others) {
    expect((await fetch(url + path, { headers: withKey })).status, path).toBe(200);
  }
});

test('/llms.txt names every endpoint and the rules', async () => {
  const response = await fetch(`${url}/llms.txt`);
  const text = await response.text();
  expect(response.headers.get('content-type')).toBe('text/plain; charset=utf-8');
  for (const { path } of operations()) {
    expect(text).toContain(` ${path.replaceAll(/\{(\w+)\}/g, ':$1')}\``);
  }
  expect(text).toContain('X-Service-Key');
});

describe('/docs', () => {
  test('loads the viewer and the document from this host only', async () => {
    const response = await fetch(`${url}/docs`);
    const page = await response.text();
    expect(response.headers.get('content-type')).toBe('text/html; charset=utf-8');
    const policy = response.headers.get('content-security-policy') ?? '';
    expect(policy).toMatch(/^default-src 'none'; script-src 'self';/);
    expect(policy).not.toMatch(/https?:|\*|unsafe-eval/);
    expect(page).toContain('/openapi.json');
    const sources = [...page.matchAll(/(?:src|href)="([^"]*)"/g)].map((match) => match[1] ?? '');
    expect(sources.filter((source) => !/^(\/|data:)/.test(source))).toEqual([]);
    const name = sources.find((source) => source.endsWith('.js'));
    const script = await fetch(url + name, { headers: { 'Accept-Encoding': 'br' } });
    expect([script.status, script.headers.get('content-encoding')]).toEqual([200, 'br']);
    expect(script.headers.get('content-type')).toBe('text/javascript; charset=utf-8');
    expect(script.headers.get('cache-control')).toBe('public, max-age=31536000, immutable');
  });
});

/** Texts that do not match the schema. */
function refusedOf(schema: z.core.JSONSchema.JSONSchema): string[] {
  const { type, enum: allowed, minimum, maximum, minLength, maxLength, pattern, items } = schema;
  if (allowed !== undefined) return ['', 'no-such-value'];
  if (type === 'boolean') return ['', 'yes', 'tRUE', '2'];
  if (type === 'array') return refusedOf(items as z.core.JSONSchema.JSONSchema);
  if (type === 'string') {
    const long = maxLength === undefined ? [] : ['x'.repeat(maxLength + 1)];
    return [...(minLength === undefined ? [] : ['']), ...long, ...(pattern ? ['?!'] : [])];
  }
  const outside = [
    ...(minimum === undefined ? [] : [String(minimum - 1)]),
    ...(maximum === undefined ? [] : [String(maximum + 1)]),
  ];
  return ['', 'ten', ...outside, ...(type === 'integer' ? ['1.5'] : [])];
}

/** A value that the schema allows, mostly; now and then anything. */
function textOf({ name, schema }: Parameter): fc.Arbitrary<string> {
  const { minimum = -10, maximum = 1_000, enum: allowed } = schema;
  const fitting =
    allowed !== undefined
      ? fc.constantFrom(...allowed.map(String))
      : schema.type === 'boolean'
        ? fc.boolean().map(String)
        : schema.type === 'integer'
          ? fc.integer({ min: Math.max(minimum, -(2 ** 31)), max: Math.min(maximum, 2 ** 31 - 1) })
          : schema.type === 'number'
            ? fc
                .double({ min: minimum, max: maximum, noNaN: true })
                .map((value) => value.toFixed(3))
            : fc.constantFrom(...(schema.examples ?? ['sports', 'series-x']).map(String));
  return fc.oneof(
    { weight: 6, arbitrary: fitting.map(String) },
    { weight: 4, arbitrary: fc.constant(KNOWN[name] ?? String(schema.default ?? '1')) },
    // A path parameter cannot be empty, and dots alone are resolved away by the client.
    { weight: 1, arbitrary: fc.string({ minLength: 1 }).filter((text) => !/^\.+$/.test(text)) },
  );
}

function operationOf(path: string, method: Method = 'get'): Operation {
  const operation = document.paths[path]?.[method];
  if (operation === undefined) throw new Error(`the document has no ${path}`);
  return operation;
}

/** Every schema below `schema` that is no object, with its path. */
function leaves(
  schema: z.core.JSONSchema.JSONSchema,
  path: string,
): [string, z.core.JSONSchema.JSONSchema][] {
  const { items: listed, properties } = resolved(schema);
  const items = typeof listed === 'object' && !Array.isArray(listed) ? resolved(listed) : listed;
  if (properties !== undefined) {
    return Object.entries(properties).flatMap(([name, property]) =>
      typeof property === 'boolean' ? [] : leaves(property, `${path}.${name}`),
    );
  }
  if (typeof items === 'object' && !Array.isArray(items) && items.properties !== undefined) {
    return leaves(items, `${path}[]`);
  }
  return [[path, schema]];
}
