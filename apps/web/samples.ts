/** Programs that send the request behind a view: in curl, TypeScript and Python. */
import type { FeedFilter } from './feed-filter.ts';

export type Request =
  /** Path with its query, and the call of the TypeScript client. */
  | { readonly path: string; readonly call: string }
  | { readonly feed: FeedFilter }
  /** Id of a managed stream. */
  | { readonly stream: string };

const LISTS = ['traders', 'tags', 'series', 'markets'];

/** By language. The key is read from FILLSTREAM_KEY. */
export function samplesOf(origin: string, request: Request): Readonly<Record<string, string>> {
  const { path, call, get } = partsOf(request);
  const loop = call.startsWith('feed') || call.startsWith('stream(');
  const curl = `curl ${loop ? '-sN' : '-s'} -H "X-Service-Key: $FILLSTREAM_KEY" '${origin}${path}'`;
  const typescript = `import { Fillstream } from '@fillstream/client';

const fillstream = new Fillstream({ url: '${origin}', key: process.env.FILLSTREAM_KEY! });
${
  loop
    ? `for await (const event of fillstream.${call}) console.log(event.type, event.cursor);`
    : `console.log(await fillstream.${call});`
}`;
  const python = `from fillstream import Fillstream

fillstream = Fillstream("${origin}")
${loop ? `for event in fillstream.${get}:\n    print(event.type, event.cursor)` : `print(fillstream.${get})`}`;
  return { curl, TypeScript: typescript, Python: python };
}

function partsOf(request: Request) {
  if ('path' in request) return { ...request, get: `get(${JSON.stringify(request.path)})` };
  if ('stream' in request) {
    const call = `stream(${JSON.stringify(request.stream)})`;
    return { path: `/streams/${request.stream}`, call, get: call };
  }
  const given = Object.entries(request.feed).filter(([, value]) => value !== '');
  const query = new URLSearchParams([...given, ['format', 'json']]);
  const typed = given.map(([name, value]) => {
    const entries = value.split(',').map((one) => one.trim());
    return [name, LISTS.includes(name) ? entries : Number(value)];
  });
  const named = given.map(([name, value]) => `${name}=${JSON.stringify(value)}`);
  return {
    path: `/v1/stream/orders?${query}`,
    call: `feed(${given.length === 0 ? '' : JSON.stringify(Object.fromEntries(typed))})`,
    get: `feed(${named.join(', ')})`,
  };
}
