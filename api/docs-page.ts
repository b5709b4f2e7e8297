/**
 * The OpenAPI document as one page of HTML: a list of the operations, and of each its parameters, a
 * curl command, the fields of its answer and its errors. Every text is escaped.
 */
import type { Answer, JsonSchema, OpenApi, Operation } from './openapi.ts';

export function docsPage(document: OpenApi): string {
  const operations = Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({ path, method, operation })),
  );
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escaped(document.info.title)}</title>
<style>${STYLE}</style>
</head>
<body>
<h1>${escaped(document.info.title)}</h1>
${paragraphs(document.info.description)}
${FIRST_STEPS}
<p>The same as <a href="openapi.json">OpenAPI 3.1</a>.</p>
<nav><ul>
${operations.map(({ path, method, operation }) => `<li><a href="#${operation.operationId}"><code>${method.toUpperCase()} ${escaped(path)}</code></a> ${escaped(operation.summary)}</li>`).join('\n')}
</ul></nav>
${operations.map(section).join('\n')}
</body>
</html>
`;
}

/** What a newcomer needs before the first operation. */
const FIRST_STEPS = `<h2>First steps</h2>
<pre>URL=https://api.example.com   # this server
KEY=fs_…                      # your key

# The best traders of the last day; take an address from the answer.
curl -s -H "X-Service-Key: $KEY" "$URL/v1/analytics/leaderboard?time_frame=1D&amp;min_market_count=3"
curl -s -H "X-Service-Key: $KEY" "$URL/v1/traders/ADDRESS/markets?include_orders=true"

# The same list as CSV; the next page is in the Link field (curl -D - shows it).
curl -s -D - -H "X-Service-Key: $KEY" -H "Accept: text/csv" "$URL/v1/traders/ADDRESS/markets?limit=20"

# Only if it changed: the ETag of a leaderboard, answered by 304.
curl -s -D - -H "X-Service-Key: $KEY" -H 'If-None-Match: W/"…"' "$URL/v1/analytics/leaderboard"

# What is wrong with a request is told by name: what was given and what is allowed.
curl -s -H "X-Service-Key: $KEY" "$URL/v1/analytics/leaderboard?time_frame=2D"</pre>`;

const STYLE = `
body { font: 16px/1.5 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; padding: 0 1rem }
code, pre { font: 14px/1.4 ui-monospace, monospace }
pre { padding: .75rem; overflow-x: auto; background: #8881 }
table { border-collapse: collapse; width: 100% }
td, th { text-align: left; vertical-align: top; padding: .25rem .75rem .25rem 0 }
tr { border-top: 1px solid #8884 }
section { margin-top: 3rem; border-top: 2px solid #8888 }
summary { cursor: pointer; margin: 1rem 0 }
:root { color-scheme: light dark }
`;

type Shown = { readonly path: string; readonly method: string; readonly operation: Operation };

function section({ path, method, operation }: Shown): string {
  const isSuccess = ([status]: [string, Answer]) => status.startsWith('2');
  const [[, success] = []] = Object.entries(operation.responses).filter(isSuccess);
  const problems = Object.entries(operation.responses).filter((one) => !isSuccess(one));
  return `<section id="${operation.operationId}">
<h2><code>${method.toUpperCase()} ${escaped(path)}</code></h2>
<p><b>${escaped(operation.summary)}.</b></p>
${paragraphs(operation.description)}
<pre>${escaped(curl(path, method, operation))}</pre>
${
  operation.parameters.length === 0
    ? ''
    : `<h3>Parameters</h3>
${table(
  ['name', 'in', 'type', 'default', 'meaning'],
  operation.parameters.map(({ name, in: place, schema, description }) => [
    code(name),
    place,
    escaped(typeOf(schema)),
    schema.default === undefined ? '' : code(JSON.stringify(schema.default)),
    rich(description),
  ]),
)}`
}
${body(operation)}
${answer(success)}
<h3>Errors</h3>
${table(
  ['status', 'error'],
  problems.map(([status, { description }]) => [status, code(description)]),
)}
</section>`;
}

function answer(success: Answer | undefined): string {
  const [type = '', content] = Object.entries(success?.content ?? {})[0] ?? [];
  // An event stream has no fields: its description tells what comes.
  const rows = content?.schema.properties === undefined ? [] : fields(content.schema, '');
  if (rows.length === 0) return `<h3>Answer</h3><p>${code(type)}</p>`;
  return `<h3>Answer</h3>
<details open><summary>${code(type)}, ${rows.length} fields</summary>
${table(['field', 'type', 'meaning', 'example'], rows)}</details>`;
}

/** One row for each field that is no object, with its path from the top. */
function fields(schema: JsonSchema, path: string): string[][] {
  const { items, properties } = schema;
  if (properties !== undefined) {
    return Object.entries(properties).flatMap(([name, property]) =>
      typeof property === 'boolean' ? [] : fields(property, path === '' ? name : `${path}.${name}`),
    );
  }
  const isList = typeof items === 'object' && !Array.isArray(items);
  if (isList && items.properties !== undefined) return fields(items, `${path}[]`);
  const [example] = schema.examples ?? [];
  return [
    [
      code(path),
      escaped(isList ? `list of ${typeOf(items)}` : typeOf(schema)),
      rich(schema.description ?? ''),
      example === undefined ? '' : code(JSON.stringify(example)),
    ],
  ];
}

/** Type and range in words. */
function typeOf(schema: JsonSchema): string {
  if (schema.enum !== undefined) return schema.enum.join(' | ');
  const { minimum, maximum } = schema;
  const least = isBound(minimum) ? ` ≥ ${minimum}` : '';
  const most = isBound(maximum) ? ` ≤ ${maximum}` : '';
  return `${schema.type ?? 'any'}${least}${most}`;
}

/** Whether a bound says more than that the number is exact. */
function isBound(bound: number | undefined): bound is number {
  return bound !== undefined && Math.abs(bound) !== Number.MAX_SAFE_INTEGER;
}

function body({ requestBody }: Operation): string {
  const [type = '', content] = Object.entries(requestBody?.content ?? {})[0] ?? [];
  if (content === undefined) return '';
  return `<h3>Body</h3>
<p>${code(type)}</p>
${table(['field', 'type', 'meaning', 'example'], fields(content.schema, ''))}`;
}

function curl(path: string, method: string, operation: Operation): string {
  const filled = operation.parameters.reduce(
    (url, { name, schema }) => url.replace(`{${name}}`, String(schema.examples?.[0] ?? name)),
    path,
  );
  const isStream = 'text/event-stream' in (operation.responses[200]?.content ?? {});
  const verb = method === 'get' ? '' : ` -X ${method.toUpperCase()}`;
  const content = operation.requestBody?.content['application/json'];
  const success = operation.responses[200] ?? operation.responses[201];
  const answered = success?.content['application/json']?.schema;
  const data =
    content === undefined
      ? ''
      : ` -H "Content-Type: application/json" -d '${JSON.stringify(exampleOf(content.schema, answered))}'`;
  return `curl ${isStream ? '-sN' : '-s'}${verb} -H "X-Service-Key: $KEY"${data} "$URL${filled}"`;
}

/** A body that fits, from the examples of its members or of the answer's members of the same name. */
function exampleOf(body: JsonSchema, answer: JsonSchema | undefined): object {
  const examples = Object.entries(body.properties ?? {}).map(([name, member]) => {
    const own = typeof member === 'boolean' ? undefined : member.examples?.[0];
    const same = answer?.properties?.[name];
    const shown = typeof same === 'object' ? same.examples?.[0] : undefined;
    return [name, own ?? shown];
  });
  return Object.fromEntries(examples);
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const cells = (tag: string, row: readonly string[]) =>
    `<tr>${row.map((cell) => `<${tag}>${cell}</${tag}>`).join('')}</tr>`;
  return `<table>${cells('th', head)}${rows.map((row) => cells('td', row)).join('')}</table>`;
}

function paragraphs(text: string): string {
  return text
    .split('\n\n')
    .map((paragraph) => `<p>${rich(paragraph)}</p>`)
    .join('\n');
}

/** Escaped, with `…` as code. */
function rich(text: string): string {
  return escaped(text).replaceAll(/`([^`]+)`/g, '<code>$1</code>');
}

function code(text: string): string {
  return text === '' ? '' : `<code>${escaped(text)}</code>`;
}

function escaped(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;');
}
