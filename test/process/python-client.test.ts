// examples/python/fillstream.py, and the Python samples of the OpenAPI document, run by the system's Python against the
// real api. How the client follows the feed across cuts, gaps and a revoked key: feed-readers.test.ts.
import { spawn, spawnSync } from 'node:child_process';
import type { ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { encodeMatch } from '../../api/feed/encode.ts';
import { filteredOf } from '../../api/feed/filter.ts';
import type { JsonSchema } from '../../api/service/openapi.ts';
import { OPEN_API } from '../../apps/reference/document.ts';
import { get } from '../support/api-harness.ts';
import { startSeeded } from '../support/api-seeded.ts';
import { message, positionOf, publish } from '../support/feed-harness.ts';
import { forFile } from '../support/for-file.ts';
import { serve } from '../support/http-server.ts';
import { until } from '../support/service.ts';
import { match } from '../unit/feed-matches.ts';

const FOLDER = fileURLToPath(new URL('../../examples/python', import.meta.url));
const isHere = spawnSync('python3', ['--version']).status === 0;
if (!isHere) console.info('skipped: there is no python3 here (apt-get install python3)');

const PYTHON_TYPES: Readonly<Record<string, string>> = {
  string: 'str',
  integer: 'int',
  boolean: 'bool',
};

/** The type of a schema as the test's Python program prints it. */
function pythonShape(schema: JsonSchema | undefined): unknown {
  const {
    type,
    enum: options,
    anyOf,
    prefixItems,
    items,
    properties,
    examples = [],
  } = schema ?? {};
  if (options !== undefined) return options;
  if (anyOf !== undefined) return anyOf.map((one) => one.const);
  if (prefixItems !== undefined) return { tuple: (prefixItems as JsonSchema[]).map(pythonShape) };
  // Some ids of markets exceed what the schema library calls an integer.
  if (type === 'number') return examples.every(Number.isInteger) ? 'int' : 'float';
  if (type === 'array') return { list: pythonShape(items as JsonSchema) };
  if (properties === undefined) return PYTHON_TYPES[String(type)];
  const members = Object.entries(properties);
  return Object.fromEntries(members.map(([name, one]) => [name, pythonShape(one as JsonSchema)]));
}

describe.skipIf(!isHere)('fillstream.py', () => {
  const seeded = forFile(startSeeded);
  let published = 0;

  /** The output of a program that starts with a client of the seeded api. */
  async function run(program: string, key = seeded.key, input = ''): Promise<string> {
    const lines = ['import json, os', 'from fillstream import *', 'client = Fillstream()'];
    const child = spawn('python3', ['-c', [...lines, program].join('\n')], {
      cwd: FOLDER,
      env: {
        ...{ ...process.env, FILLSTREAM_URL: seeded.api.url, FILLSTREAM_KEY: key },
        PYTHONDONTWRITEBYTECODE: '1',
      },
    });
    child.stdin.end(input);
    const [output, errors] = await Promise.all([text(child.stdout), text(child.stderr)]);
    expect(errors.split('\n').at(-2) ?? '').toBe('');
    return output.trim();
  }

  /** Publishes a match; returns the event that is printed for it. */
  async function trade() {
    published += 1;
    const one = match(published);
    await publish(seeded.nats.nats, 'FEED', [one]);
    const data = JSON.parse(encodeMatch(one, 'json', message('FEED', one).id));
    return { type: 'order', cursor: positionOf(published), data };
  }

  test('types events as the OpenAPI document does', async () => {
    const printed = await run(`
def shape(type):
    origin, args = get_origin(type), get_args(type)
    if is_typeddict(type):
        return {name: shape(of) for name, of in get_type_hints(type).items()}
    if origin is Literal:
        return list(args)
    if origin is tuple:
        return {"tuple": [shape(of) for of in args]}
    return {"list": shape(args[0])} if origin is list else type.__name__
from typing import Literal, get_args, get_origin, get_type_hints, is_typeddict
types = {"LabelledMatch": Match, "LiveTransaction": Transaction, "StreamPosition": Position, "Final": Final, "Void": Void, "Restored": Restored, "Gap": Gap}
print(json.dumps({name: shape(type) for name, type in types.items()}))`);
    const documented = (name: string) => [name, pythonShape(OPEN_API.components.schemas[name])];
    const shapes = JSON.parse(printed);
    expect(shapes).toEqual(Object.fromEntries(Object.keys(shapes).map(documented)));
  });

  test('runs what the document shows for each operation', async () => {
    const sources = Object.values(OPEN_API.paths)
      .flatMap((item) => Object.values(item))
      .filter(({ responses }) => !responses[200]?.content?.['text/event-stream'])
      .map(({ operationId, 'x-codeSamples': samples = [] }) => {
        const python = samples.find(({ lang }) => lang === 'python')?.source ?? 'nothing is shown';
        const own = python.replaceAll('https://api.example.com', seeded.api.url);
        return [operationId, own.replaceAll('fs_pro_…', seeded.key)];
      });
    const program = `
import contextlib, io, sys, urllib.error
for name, source in json.load(sys.stdin):
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(source, {})
    except (Problem, urllib.error.HTTPError) as error:
        # What it names does not exist here.
        if error.status != 404:
            print(name, error, source)`;
    expect(await run(program, seeded.key, JSON.stringify(sources))).toBe('');
  });

  test('iterates over all pages of a list', async () => {
    const path = '/v1/analytics/leaderboard';
    const whole = await get(`${seeded.api.url}${path}?limit=100`, seeded.key);
    const walked = await run(`print(json.dumps(list(client.pages("${path}", limit=4))))`);
    expect(whole.body.traders.length).toBeGreaterThan(8);
    expect(JSON.parse(walked)).toEqual(whole.body.traders);
  });

  test('creates a managed stream and listens to it', async () => {
    const { traders } = filteredOf(match(published + 1));
    const listening = run(`
created = client.post("/streams", {"name": "mine", "addresses": ${JSON.stringify(traders)}})
print(json.dumps(next(iter(client.stream(created["id"]))).__dict__))`);
    const [printed, { cursor, data }] = await Promise.all([
      listening,
      isListening(seeded.key).then(trade),
    ]);
    const tx = { type: 'tx', cursor, data: { match_id: data.match_id } };
    expect(JSON.parse(printed)).toMatchObject(tx);
  });

  test('raises the error of the api', async () => {
    const program = (ask: string) => `
try:
    ${ask}
except Problem as problem:
    print(problem.status, problem.code, problem.request_id != "", problem.detail)`;
    expect(await run(program('client.get("/v2/markets/nothing-with-this-name")'))).toMatch(
      /^404 not_found True no market/,
    );
    expect(await run(program('next(iter(client.feed(tag="crypto")))'))).toMatch(
      /^400 invalid_request True /,
    );
    expect(await run(program('client.get("/v2/markets")'), 'no-key')).toMatch(
      /^401 unauthorized True /,
    );
  });

  /** Runs `run` with a client of a server that sends these responses, one after the other. */
  async function answering(...answers: readonly ((response: ServerResponse) => void)[]) {
    const asked: unknown[] = [];
    const server = await serve((request, response) => {
      asked.push(request.headers['x-service-key']);
      // Then the end of the connection is the only end of the body.
      response.useChunkedEncodingByDefault = false;
      answers[asked.length - 1]?.(response);
    });
    return { ...server, asked };
  }

  test('retries a request whose response was cut', async () => {
    using server = await answering(
      (response) => {
        response.writeHead(200, { 'Content-Length': '100' });
        response.write('{"a": ', () => response.destroy());
      },
      (response) => response.end('{"a": 1}'),
    );
    expect(await run(`print(Fillstream("${server.url}", "k").get("/v2/status"))`)).toBe("{'a': 1}");
  });

  const refused =
    (status: number, problem: object = {}) =>
    (response: ServerResponse) =>
      response.writeHead(status).end(JSON.stringify(problem));

  test.each([408, 429, 500, 502])('retries a request after a %i', async (status) => {
    using server = await answering(refused(status), (response) => response.end('{"a": 1}'));
    expect(await run(`print(Fillstream("${server.url}", "k").get("/v2/status"))`)).toBe("{'a': 1}");
  });

  test('keeps the path of its base URL', async () => {
    const paths: unknown[] = [];
    using server = await answering(
      (response) => {
        paths.push(response.req.url);
        response.setHeader('Link', '</v2/markets?cursor=1>; rel="next"').end('{"markets": [1]}');
      },
      (response) => {
        paths.push(response.req.url);
        response.end('{"markets": [2]}');
      },
    );
    const output = await run(
      `print(list(Fillstream("${server.url}/prefix/", "k").pages("/v2/markets", limit=1)))`,
    );
    expect(output).toBe('[1, 2]');
    expect(paths).toEqual(['/prefix/v2/markets?limit=1', '/prefix/v2/markets?cursor=1']);
  });

  const order = (id: number) => (response: ServerResponse) => {
    response.writeHead(200, { 'Content-Type': 'text/event-stream', Connection: 'close' });
    response.end(`id: ${id}\nevent: order\ndata: {"n":${id}}\n\n`);
  };

  /** The events of a feed, at most two, and the reason for its end, while each wait takes five minutes of Python's clock. */
  const follow = (url: string) =>
    run(`
time.monotonic = iter(range(1, 10_000, 300)).__next__
time.sleep = lambda _: None
try:
    events = iter(Fillstream("${url}", "k").feed())
    print(next(events).data["n"])
    print(next(events).data["n"])
    events.close()
except Problem as problem:
    print(problem.status, problem.quota)`);
  const used = (name: string) => refused(403, { error: 'quota_exceeded', quota: { name } });

  test('waits for as long as the server may count its lost connection', async () => {
    const ghost = used('max_sessions');
    using server = await answering(order(1), ghost, ghost, order(2));
    expect(await follow(server.url)).toBe('1\n2');
    using other = await answering(order(1), ...Array(10).fill(ghost));
    expect(await follow(other.url)).toBe('1\n403 max_sessions');
  });

  test('does not wait when the seconds of the day are used up', async () => {
    using server = await answering(order(1), used('stream_seconds_per_day'), order(2));
    expect(await follow(server.url)).toBe('1\n403 stream_seconds_per_day');
  });

  test('parses lines and fields according to the standard', async () => {
    const parts = [
      '\ufeffretry: abc\rid: 7\revent: order\rdata: {"n":1}\r\r',
      // An id with NUL is ignored. The line end of `event` arrives in two parts.
      'id: 8\0\r\nevent: order\r',
      '\ndata: {"n":\ndata:2}\n\n',
      'id\nevent: order\r\ndata: {"n":3}\r\n\r\n',
    ];
    using server = await answering(async (response) => {
      response.writeHead(200, { 'Content-Type': 'text/event-stream; charset=utf-8' });
      for (const part of parts) {
        response.write(part);
        await delay(100);
      }
      // It stays open, so an event must not wait for the next line.
    });
    const output = await run(`
from itertools import islice
feed = Fillstream("${server.url}", "k").feed()
print([(event.cursor, event.data["n"]) for event in islice(feed, 3)])`);
    expect(output).toBe(`[('7', 1), ('7', 2), ('', 3)]`);
  });

  test('reports a response that is something else', async () => {
    const page = (response: ServerResponse) =>
      response.writeHead(200, { 'Content-Type': 'text/html' }).end('<!doctype html>\n\n');
    using server = await answering(page, page);
    const output = await run(`
client = Fillstream("${server.url}", "k")
for ask in (lambda: next(iter(client.feed())), lambda: client.get("/v2/status")):
    try:
        ask()
    except Problem as problem:
        print(problem)`);
    expect(output.split('\n')).toEqual([
      expect.stringMatching(/^200 unexpected: .*text\/html, not an event stream/),
      expect.stringMatching(/^200 unexpected: .*text\/html, not JSON/),
    ]);
  });

  test('accepts a key with a line end, as files have it, and rejects one that is no valid header', async () => {
    using server = await answering((response) => response.end('{}'));
    const output = await run(`
print(Fillstream("${server.url}", "fs_pro_1\\r\\n").get("/v2/status"))
try:
    Fillstream("${server.url}", "fs_pro_1\\nfs_pro_2")
except ValueError as error:
    print(error)`);
    expect(output).toBe('{}\nthe API key contains invalid characters');
    expect(server.asked).toEqual(['fs_pro_1']);
  });

  test('does not send its key to a server that it is redirected to', async () => {
    using other = await answering((response) => response.end('{}'));
    using server = await answering((response) => {
      response.writeHead(307, { Location: `${other.url}/v2/status` }).end();
    });
    const output = await run(`
try:
    print(Fillstream("${server.url}", "k").get("/v2/status"))
except Problem as problem:
    print(problem.status)`);
    expect([output, other.asked]).toEqual(['307', []]);
  });

  async function isListening(key: string): Promise<void> {
    await until(async () => {
      const { body } = await get(`${seeded.api.url}/sessions`, key);
      return body.data?.length > 0 || undefined;
    });
  }
});
