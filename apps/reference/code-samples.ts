/**
 * A sample request for each operation in curl, TypeScript and Python, for the viewer of the document. Values come from
 * the examples of the schemas, and the key is a placeholder.
 */
import type {
  CodeSample,
  JsonSchema,
  Parameter,
  SampledRequest,
} from '../../api/service/openapi.ts';

/** Stands for the server; the viewer shows its own address instead. */
export const SERVER = 'https://api.example.com';
const KEY = 'fs_pro_…';

export function codeSamples(request: SampledRequest): readonly CodeSample[] {
  return [
    { lang: 'shell', label: 'curl', source: curl(request) },
    { lang: 'typescript', label: 'TypeScript', source: typescript(request) },
    { lang: 'python', label: 'Python', source: pythonOf(request) },
  ];
}

function curl({ method, path, parameters, body, isStream }: SampledRequest): string {
  const query = new URLSearchParams(queryOf(parameters)).toString();
  const options = [
    ...(isStream ? ['-N'] : []),
    ...(method === 'get' ? [] : [`-X ${method.toUpperCase()}`]),
    `-H 'X-Service-Key: ${KEY}'`,
    ...(body === undefined
      ? []
      : [`-H 'Content-Type: application/json'`, `-d '${JSON.stringify(exampleOf(body))}'`]),
    `'${SERVER}${filled(path, parameters)}${query && `?${query}`}'`,
  ];
  return `curl ${options.join(' \\\n  ')}`;
}

function typescript({
  path,
  name,
  parameters,
  body,
  isIterable,
  isStream,
}: SampledRequest): string {
  const query = Object.fromEntries(queryOf(parameters));
  const given = [
    ...inPath(parameters).map((one) => JSON.stringify(exampleOf(one.schema))),
    ...(body === undefined ? [] : [JSON.stringify(exampleOf(body))]),
    ...(Object.keys(query).length === 0 ? [] : [JSON.stringify(query)]),
  ].join(', ');
  const version = path.startsWith('/v1/') && !isStream ? '.v1' : '';
  const call = `fillstream${version}.${name}(${given})`;
  const use = isIterable
    ? `for await (const one of ${call}) console.log(one);`
    : `console.log(await ${call});`;
  return `import { Fillstream } from '@fillstream/client';

const fillstream = new Fillstream({ url: '${SERVER}', key: '${KEY}' });
${use}`;
}

/** The Python client (examples/python) reads and posts. For the rest, the standard library is enough. */
function pythonOf(request: SampledRequest): string {
  return ['get', 'post'].includes(request.method) ? python(request) : urllib(request);
}

function urllib({ method, path, parameters, body }: SampledRequest): string {
  const query = new URLSearchParams(queryOf(parameters)).toString();
  const url = `${SERVER}${filled(path, parameters)}${query && `?${query}`}`;
  const headers = body === undefined ? '' : ', "Content-Type": "application/json"';
  const data = body === undefined ? '' : `\n    data=json.dumps(${pythonValue(body)}).encode(),`;
  return `import json
import urllib.request

request = urllib.request.Request(
    "${url}",
    method="${method.toUpperCase()}",
    headers={"X-Service-Key": "${KEY}"${headers}},${data}
)
with urllib.request.urlopen(request) as response:
    print(json.load(response))`;
}

function pythonValue(body: JsonSchema): string {
  const names = { null: 'None', true: 'True', false: 'False' };
  return JSON.stringify(exampleOf(body)).replaceAll(
    /"(?:[^"\\]|\\.)*"|null|true|false/g,
    (token) => names[token as keyof typeof names] ?? token,
  );
}

function python({ method, path, parameters, body, isIterable, isStream }: SampledRequest): string {
  const target = `"${filled(path, parameters)}"`;
  const named = queryOf(parameters).map(([name, value]) => `, ${name}=${JSON.stringify(value)}`);
  const [id = ''] = inPath(parameters).map(({ schema }) => String(exampleOf(schema)));
  const stream = path === '/streams/{id}' ? `stream("${id}")` : 'feed()';
  const use = isStream
    ? `for event in api.${stream}:\n    print(event)`
    : method === 'post'
      ? `print(api.post(${target}, ${pythonValue(body ?? {})}))`
      : isIterable
        ? `for one in api.pages(${target}${named.join('')}):\n    print(one)`
        : `print(api.get(${target}${named.join('')}))`;
  return `from fillstream import Fillstream

api = Fillstream("${SERVER}", "${KEY}")
${use}`;
}

function inPath(parameters: readonly Parameter[]): readonly Parameter[] {
  return parameters.filter((one) => one.in === 'path');
}

/** The required parameters. */
function queryOf(parameters: readonly Parameter[]): [string, string][] {
  return parameters
    .filter((one) => one.in === 'query' && one.required)
    .map(({ name, schema }) => [name, String(exampleOf(schema))]);
}

function filled(path: string, parameters: readonly Parameter[]): string {
  return inPath(parameters).reduce(
    (text, { name, schema }) => text.replace(`{${name}}`, String(exampleOf(schema))),
    path,
  );
}

/** The example of a schema. An object gets the members that are required or have an example. */
function exampleOf(schema: JsonSchema): unknown {
  const [example] = (schema.examples ?? []) as unknown[];
  if (example !== undefined) return example;
  if (schema.type === 'array') return [exampleOf((schema.items ?? {}) as JsonSchema)];
  const members = Object.entries(schema.properties ?? {}).flatMap(([name, member]) => {
    if (typeof member === 'boolean') return [];
    const isShown = member.examples !== undefined || schema.required?.includes(name) === true;
    return isShown ? [[name, exampleOf(member)] as const] : [];
  });
  return Object.fromEntries(members);
}
