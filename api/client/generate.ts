/**
 * `npm run client:types`: writes types.ts and endpoints.ts from the endpoints of the API and its OpenAPI document,
 * so that the client knows every endpoint with the types of its parameters, body and response, and
 * depends on no schema library. A test compares the files with what this makes.
 */
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ENDPOINTS, OPEN_API } from '../docs.ts';
import type { Described } from '../endpoint.ts';
import type { JsonSchema, Method, Operation, Parameter } from '../openapi.ts';

const HEAD = '// Written by generate.ts: do not edit.\n';
const BIOME = join(import.meta.dirname, '../../node_modules/@biomejs/biome/bin/biome');

/** The files by name. Throws if a schema cannot be written as a type. */
export function generate(): Readonly<Record<'types.ts' | 'endpoints.ts', string>> {
  const v2 = ENDPOINTS.filter(({ path }) => !path.startsWith('/v1/'));
  const v1 = ENDPOINTS.filter(({ path }) => path.startsWith('/v1/'));
  const types = typesText();
  const classes = classOf('Endpoints', v2) + classOf('EndpointsV1', v1);
  const names = [...types.matchAll(/^export type (\w+)/gm)].map(([, name = '']) => name);
  const code = classes.replaceAll(/\/\*[\s\S]*?\*\//g, '');
  const used = names.filter((name) => new RegExp(`\\b${name}\\b`).test(code)).sort();
  const endpoints = `${HEAD}import type { CallOptions, Http, List } from './http.ts';
import type { ${used.join(', ')} } from './types.ts';
${classes}
const segment = encodeURIComponent;
`;
  return { 'types.ts': formatted(HEAD + types), 'endpoints.ts': formatted(endpoints) };
}

function typesText(): string {
  const named = Object.entries(OPEN_API.components.schemas).map(
    ([name, schema]) => `${comment(schema.description)}export type ${name} = ${typeOf(schema)};\n`,
  );
  const feed = operationOf('get', '/v1/stream/orders').parameters;
  const isFilter = ({ name, in: where }: Parameter) =>
    where === 'query' && name !== 'format' && name !== 'lastEventId';
  const queries = ENDPOINTS.flatMap((endpoint) => {
    const inQuery = queryOf(endpoint);
    return inQuery.length === 0
      ? []
      : [`export type ${queryName(endpoint)} = ${queryType(inQuery)};\n`];
  });
  return `${named.join('\n')}
${queries.join('\n')}
/** What the order feed delivers; the default is everything. */
export type FeedQuery = ${queryType(feed.filter(isFilter))};
/** What a managed stream delivers beside its matches. */
export type StreamQuery = ${queryType(
    operationOf('get', '/streams/:id').parameters.filter(
      (one) => one.in === 'query' && one.name !== 'lastEventId',
    ),
  )};
`;
}

function classOf(name: string, endpoints: readonly Described[]): string {
  return `
export class ${name} {
  protected readonly http: Http;

  constructor(http: Http) {
    this.http = http;
  }
${endpoints.map(methodOf).join('\n')}
}
`;
}

function methodOf(endpoint: Described): string {
  const { name, method = 'get', path, summary, list, body } = endpoint;
  const { parameters, responses, requestBody, description } = operationOf(method, path);
  const answer = typeOf(
    responses[endpoint.status ?? 200]?.content?.['application/json']?.schema ?? {},
  );
  const inPath = parameters.filter((one) => one.in === 'path');
  const inQuery = queryOf(endpoint);
  const hasQuery = inQuery.length > 0;
  const isOptional = !inQuery.some(({ required }) => required);
  const given = [
    ...inPath.map((one) => `${camel(one.name)}: ${pathType(one.schema)}`),
    ...(body === undefined
      ? []
      : [`body: ${typeOf(requestBody?.content['application/json']?.schema ?? {})}`]),
    ...(hasQuery ? [`query: ${queryName(endpoint)}${isOptional ? ' = {}' : ''}`] : []),
    'options?: CallOptions',
  ].join(', ');
  const target = path.includes(':')
    ? `\`${path.replaceAll(/:(\w+)/g, (_, one) => `\${segment(${camel(one)})}`)}\``
    : `'${path}'`;
  const isPaged = list !== undefined && inQuery.some((one) => one.name === 'cursor');
  const sent = [hasQuery ? 'query' : '', body === undefined ? '' : 'body'].filter(Boolean);
  return `
${comment(`\`${method.toUpperCase()} ${path}\`: ${summary}.\n\n${description}`)}${name}(${given}): ${isPaged ? `List<${answer}, ${answer}['${list}'][number]>` : `Promise<${answer}>`} {
  return ${
    isPaged
      ? `this.http.list(${target}, '${list}', query, options)`
      : `this.http.call('${method.toUpperCase()}', ${target}, { ${sent.join(', ')} }, options)`
  };
}`;
}

function queryOf({ method = 'get', path }: Described): readonly Parameter[] {
  return operationOf(method, path).parameters.filter((one) => one.in === 'query');
}

function queryName(endpoint: Described): string {
  const { name } = endpoint;
  const version = endpoint.path.startsWith('/v1/') ? 'V1' : '';
  return `${name.charAt(0).toUpperCase()}${name.slice(1)}Query${version}`;
}

function operationOf(method: Method, path: string): Operation {
  const operation = OPEN_API.paths[path.replaceAll(/:(\w+)/g, '{$1}')]?.[method];
  if (operation === undefined) throw new Error(`${method} ${path} is not in the document`);
  return operation;
}

/** Numbers may also be given as text: a market id can be larger than any number that is exact. */
function pathType(schema: JsonSchema): string {
  return schema.type === 'integer' ? 'number | string' : 'string';
}

function queryType(parameters: readonly Parameter[]): string {
  const members = parameters.map(({ name, required, description, schema }) => {
    const { default: preset, minimum, maximum } = schema;
    const about = [
      description,
      ...(minimum === undefined || maximum === undefined ? [] : [`${minimum} to ${maximum}`]),
      ...(preset === undefined ? [] : [`default: ${preset}`]),
    ].join('; ');
    const type = typeOf(schema);
    return `${comment(about)}${name}${required ? `: ${type}` : `?: ${type} | undefined`};`;
  });
  return `{ ${members.join('\n')} }`;
}

function typeOf(schema: JsonSchema | boolean): string {
  if (typeof schema === 'boolean') return 'unknown';
  const { $ref, anyOf, type, enum: options, prefixItems, items, properties } = schema;
  if ($ref !== undefined) return $ref.split('/').at(-1) ?? '';
  if ('const' in schema) return JSON.stringify(schema.const);
  if (options !== undefined) return options.map((one) => JSON.stringify(one)).join(' | ');
  if (anyOf !== undefined) return anyOf.map(typeOf).join(' | ');
  if (Array.isArray(type)) return type.map((one) => typeOf({ type: one })).join(' | ');
  if (type === 'integer' || type === 'number') return 'number';
  if (type === 'string' || type === 'boolean' || type === 'null') return type;
  if (type === 'array' && prefixItems !== undefined) {
    return `[${(prefixItems as JsonSchema[]).map(typeOf).join(', ')}]`;
  }
  if (type === 'array') return `(${typeOf((items ?? {}) as JsonSchema)})[]`;
  if (type !== 'object' || properties === undefined) {
    throw new Error(`no type for ${JSON.stringify(schema)}`);
  }
  const members = Object.entries(properties).map(([name, member]) => {
    const isRequired = schema.required?.includes(name) ?? false;
    const about = typeof member === 'boolean' ? undefined : member.description;
    return `${comment(about)}${name}${isRequired ? '' : '?'}: ${typeOf(member)};`;
  });
  return `{ ${members.join('\n')} }`;
}

function comment(text: string | undefined): string {
  if (text === undefined) return '';
  const lines = text.replaceAll('*/', '* /').split('\n');
  if (lines.length === 1) return `\n/** ${text} */\n`;
  return `\n/**\n${lines.map((line) => ` * ${line}`.trimEnd()).join('\n')}\n */\n`;
}

function camel(name: string): string {
  return name.replaceAll(/_([a-z])/g, (_, letter) => letter.toUpperCase());
}

function formatted(source: string): string {
  const args = [BIOME, 'check', '--write', '--stdin-file-path=api/client/types.ts'];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, {
    ...{ input: source, encoding: 'utf8', cwd: join(import.meta.dirname, '../..') },
  });
  if (status !== 0) throw new Error(stderr);
  return stdout;
}

if (import.meta.main) {
  for (const [name, text] of Object.entries(generate())) {
    writeFileSync(join(import.meta.dirname, name), text);
  }
}
