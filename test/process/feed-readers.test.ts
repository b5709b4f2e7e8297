/**
 * Our clients and standard libraries get each event of the order feed once and in order, or a gap: after an expired
 * cursor, across cuts at any byte, a restart and a replaced feed, until the key is revoked.
 */
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { EventSource } from 'eventsource';
import { createEventSource } from 'eventsource-client';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { cursorOf } from '../../api/feed/cursor.ts';
import { matchBlock } from '../../api/feed/encode.ts';
import { ApiError, Fillstream } from '../../apps/client/index.ts';
import { get, issueKey, revokeKey, startApi as startApplication } from '../support/api-harness.ts';
import {
  type Api,
  hashes,
  makeStream,
  matches,
  message,
  positionOf,
  publish,
  startApi,
  startBroker,
  startFeeds,
} from '../support/feed-harness.ts';
import { forFile } from '../support/for-file.ts';
import { Front } from '../support/front.ts';
import { serve } from '../support/http-server.ts';
import { temporaryDirectory } from '../support/service.ts';
import { startNats } from '../support/stack.ts';
import { match } from '../unit/feed-matches.ts';

const ROOT = join(import.meta.dirname, '../..');
const GO = 'go';
/** A client's last output when its key is revoked. */
const REVOKED = /\b401\b|key_revoked/;

type Ask = {
  readonly url: string;
  readonly key: string;
  /** The cursor that it resumes after; '' is live. */
  readonly from: string;
};
/** Reads until it is closed. Reports its events and the reason for its end. */
type Read = (
  ask: Ask,
  hear: (event: string, data: unknown) => void,
  end: (reason: string) => void,
) => () => void;

let directory: ReturnType<typeof temporaryDirectory>;
const feeds = forFile(startFeeds);
/** Stops everything that a test has started. */
const leaving: (() => void)[] = [];

beforeAll(async () => {
  directory = temporaryDirectory();
  if (HAS_GO) {
    const source = join(ROOT, 'test/support/sse-reader.go');
    execFileSync(GO, ['build', '-o', `${directory.path}/sse-reader`, source]);
  }
});

afterEach(() => {
  for (const leave of leaving.splice(0)) leave();
});

afterAll(async () => {
  await directory?.remove();
});

const readClient: Read = ({ url, key, from }, hear, end) => {
  const gone = new AbortController();
  const reading = async () => {
    const feed = new Fillstream({ url, key }).feed({}, { from, signal: gone.signal });
    for await (const { type, data } of feed) hear(type, data);
  };
  reading().catch((error) => end(error instanceof ApiError ? String(error.status) : error.message));
  return () => gone.abort();
};

/** Like a browser: the first cursor is a parameter, later ones are sent automatically. */
const readEventSource: Read = ({ url, key, from }, hear, end) => {
  const source = new EventSource(`${url}?lastEventId=${from}`, {
    fetch: (input, init) =>
      fetch(input, { ...init, headers: { ...init?.headers, 'X-Service-Key': key } }),
  });
  for (const name of ['order', 'tx', 'gap']) {
    source.addEventListener(name, ({ data }) => hear(name, JSON.parse(data)));
  }
  source.addEventListener('error', ({ code }) => {
    // It gives up by itself if the response is not an event stream.
    if (source.readyState === EventSource.CLOSED) end(String(code));
  });
  return () => source.close();
};

/** It reconnects after every status: its user must close it if the response is final. */
const readEventSourceClient: Read = ({ url, key, from }, hear, end) => {
  const source = createEventSource({
    url,
    headers: { 'X-Service-Key': key },
    initialLastEventId: from,
    fetch: async (input, init) => {
      const response = await fetch(input, init as RequestInit);
      if (response.status >= 400 && response.status < 500) {
        end(String(response.status));
        source.close();
      }
      return response;
    },
    onMessage: ({ event, data }) => hear(event ?? '', JSON.parse(data)),
  });
  return () => source.close();
};

/** A program that prints each event as a line of JSON. */
function readProgram(command: string, args: (ask: Ask) => readonly string[]): Read {
  return (ask, hear, end) => {
    const child = spawn(command.replace('{directory}', directory.path), args(ask), {
      cwd: join(ROOT, 'examples/python'),
      env: {
        ...{ ...process.env, FILLSTREAM_URL: ask.url, FILLSTREAM_KEY: ask.key },
        PYTHONDONTWRITEBYTECODE: '1',
      },
    });
    let last = '';
    createInterface({ input: child.stdout }).on('line', (line) => {
      last = line;
      const { type, event = type, data } = JSON.parse(line);
      hear(event, data);
    });
    const errors = text(child.stderr);
    child.on('close', async () => end(REVOKED.exec(last + (await errors))?.[0] ?? (await errors)));
    return () => child.kill('SIGKILL');
  };
}

const PYTHON = `
import json, sys
from fillstream import Fillstream
for event in Fillstream().feed(after=sys.argv[1]):
    print(json.dumps(event.__dict__), flush=True)`;
const CLI = join(ROOT, 'apps/cli/main.ts');
const tail = ['tail', '--format', 'json'];
const ofUrl = ({ url, key, from }: Ask) => [from === '' ? url : `${url}?lastEventId=${from}`, key];

const HAS_GO = isHere(GO, 'version', 'golang-go');
const HAS_PYTHON = isHere('python3', '--version', 'python3');
/** By whether they take the URL of a stream or that of the service. */
const STREAM_READERS: Readonly<Record<string, Read>> = {
  eventsource: readEventSource,
  'eventsource-client': readEventSourceClient,
  ...(HAS_PYTHON && {
    'urllib of Python': readProgram('python3', (ask) => [
      ...[join(ROOT, 'test/support/sse-reader.py'), ...ofUrl(ask)],
    ]),
  }),
  ...(HAS_GO && { 'net/http of Go': readProgram('{directory}/sse-reader', ofUrl) }),
};
const SERVICE_READERS: Readonly<Record<string, Read>> = {
  'the client': readClient,
  'fillstream tail': readProgram(process.execPath, ({ from }) => [
    ...[CLI, ...tail, ...(from === '' ? [] : ['--from', from])],
  ]),
  ...(HAS_PYTHON && {
    'fillstream.py': readProgram('python3', ({ from }) =>
      // As a command, it is always live.
      from === '' ? ['fillstream.py'] : ['-c', PYTHON, from],
    ),
  }),
};
const NAMES = [...Object.keys(STREAM_READERS), ...Object.keys(SERVICE_READERS)];

function isHere(program: string, version: string, debian: string): boolean {
  const found = spawnSync(program, [version]).status === 0;
  if (!found) console.info(`skipped: there is no ${program} here (apt-get install ${debian})`);
  return found;
}

/** A reader with its own address. */
class Reader {
  /** Transactions, and gaps with both cursors, in the order of their arrival. */
  readonly seen: string[] = [];
  ended = '';
  readonly front: Front;
  onGap = () => {};

  private constructor(front: Front) {
    this.front = front;
  }

  static async start(name: string, ask: Ask, path = '/v1/stream/orders'): Promise<Reader> {
    const front = await Front.listen();
    front.target = ask.url;
    const reader = new Reader(front);
    const read = STREAM_READERS[name] ?? SERVICE_READERS[name];
    const url = name in STREAM_READERS ? front.url + path : front.url;
    const stop = read?.(
      { ...ask, url },
      (event, data) => reader.#hear(event, data),
      (reason) => {
        reader.ended = reason;
      },
    );
    leaving.push(() => {
      stop?.();
      front.close();
    });
    return reader;
  }

  #hear(event: string, data: unknown): void {
    if (event === 'gap') {
      const { requested, first_available } = data as Record<string, number>;
      this.seen.push(`gap ${requested} ${first_available}`);
      this.onGap();
    } else if (event === 'order' || event === 'tx') {
      const txHash = Array.isArray(data) ? data[0] : (data as { tx_hash: string }).tx_hash;
      this.seen.push(txHash);
    }
  }
}

/** One reader of each kind. */
async function startAll(from: string, urlOf: (name: string) => string, key = 'unused') {
  const start = (name: string) => Reader.start(name, { url: urlOf(name), key, from });
  const readers = await Promise.all(NAMES.map(start));
  /** Waits until each reader has received exactly this. */
  const expectSeen = async (
    expected: readonly string[],
    of = (seen: readonly string[]) => seen,
  ) => {
    const seen = () => Object.fromEntries(readers.map((one, n) => [NAMES[n], of(one.seen)]));
    const wanted = Object.fromEntries(NAMES.map((name) => [name, expected]));
    await expect.poll(seen, { timeout: 120_000 }).toEqual(wanted);
  };
  return { readers, expectSeen };
}

const urlOf = ({ port }: Api) => `http://127.0.0.1:${port}`;

test('an expired cursor is a gap, followed by the events that are kept', async () => {
  const { stream } = await feeds.over(10);
  await feeds.nats.jsm.streams.purge(stream, { seq: 6 });
  const late = await feeds.serve(stream, { ringEventsMax: 1 });
  const { expectSeen } = await startAll(positionOf(2), () => urlOf(late));
  await expectSeen([`gap ${positionOf(2)} ${positionOf(6)}`, ...hashes(6, 10)]);
});

test('a stream may be cut at any byte', async () => {
  const blocks = ['a', 'b', 'c'].map((tx_hash, n) =>
    // The last characters have several bytes.
    Buffer.from(matchBlock(n + 11, JSON.stringify({ tx_hash, name: '雨 😀' }), 'json')),
  );
  /** Each connection gets a few bytes more than the previous one. */
  const start = async (step: number) => {
    let length = 0;
    const server = await serve(({ headers, url = '' }, response) => {
      const asked = new URL(url, 'http://localhost').searchParams.get('lastEventId');
      const cursor = Number(headers['last-event-id'] ?? asked);
      length += step;
      response.useChunkedEncodingByDefault = false;
      response.writeHead(200, { 'Content-Type': 'text/event-stream', Connection: 'close' });
      response.write('retry: 1\n\n');
      const rest = Buffer.concat(blocks.slice(cursor - 10));
      if (rest.length > 0) response.end(rest.subarray(0, length));
    });
    leaving.push(server.stop);
    return server.url;
  };
  // Our client waits before it reconnects, regardless of the server's delay. Its unit tests cut at
  // each byte.
  const steps = NAMES.map((name) => (/^the client$|tail/.test(name) ? 13 : 1));
  const urls = await Promise.all(steps.map(start));
  const { readers, expectSeen } = await startAll('10', (name) => urls[NAMES.indexOf(name)] ?? '');
  await expectSeen(['a', 'b', 'c']);
  for (const { front } of readers) expect(front.connections).toBeGreaterThan(5);
});

test('a cut and a restart lose nothing', async () => {
  const { api, stream } = await feeds.over(2);
  const { readers, expectSeen } = await startAll(positionOf(1), () => urlOf(api));
  await expectSeen(hashes(2, 2));
  for (const { front } of readers) front.cut();
  await publish(feeds.nats, stream, matches(3, 3));
  await expectSeen(hashes(2, 3));
  // The next process is ready before the current one stops.
  const next = await feeds.serve(stream);
  for (const { front } of readers) front.target = urlOf(next);
  await api.close();
  await publish(feeds.nats, stream, matches(4, 5));
  await expectSeen(hashes(2, 5));
});

test.each([
  ['shorter', 2],
  ['longer', 60],
])(
  'a feed that was replaced by a %s one is a gap, followed by all of the new feed',
  async (_, stored) => {
    const broker = await startBroker();
    const stream = 'replaced';
    await makeStream(broker.nats, stream);
    await publish(broker.nats, stream, matches(1, 40));
    const api = await startApi({ nats: broker.nats, stream });
    const { readers, expectSeen } = await startAll(positionOf(39), () => urlOf(api));
    await expectSeen(hashes(40, 40));
    // It reconnects with the cursor of the lost feed, unless it already had the next event.
    for (const reader of readers) {
      reader.onGap = () => {
        reader.onGap = () => {};
        reader.front.cut();
      };
    }
    const newer = matches(1_001, 1_000 + stored);
    await broker.replace(async (nats) => {
      await makeStream(nats, stream);
      await publish(nats, stream, newer);
    });
    const [first = match(1_001)] = newer;
    const available = cursorOf(1, message(stream, first).id);
    const expected = [...hashes(40, 40), `gap ${positionOf(40)} ${available}`];
    expected.push(...hashes(1_001, 1_000 + stored));
    await expectSeen(expected, (seen) => [...new Set(seen)]);
    await publish(broker.nats, stream, [match(2_000)]);
    await expectSeen([...expected, match(2_000).txHash], (seen) => [...new Set(seen)]);
    for (const leave of leaving.splice(0)) leave();
    await api.close();
    await broker.close();
  },
);

test('a revoked key ends the order feed and managed streams, and the next response is final', async () => {
  const nats = await startNats();
  // Nothing here queries ClickHouse.
  const api = await startApplication({ clickhouseUrl: 'http://127.0.0.1:9', nats });
  const key = await issueKey(nats.bucket, 'pro');
  const { body } = await get(`${api.url}/streams`, key, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: '{"name": "mine"}',
  });
  const { readers, expectSeen } = await startAll('', () => api.url, key);
  const managed = await Promise.all(
    Object.keys(STREAM_READERS).map((name) =>
      Reader.start(name, { url: api.url, key, from: '' }, `/streams/${body.id}`),
    ),
  );
  const all = [...readers, ...managed];
  const sessions = async () => (await get(`${api.url}/sessions`, key)).body.data.length;
  await expect.poll(sessions, { timeout: 120_000 }).toBe(all.length);
  await publish(nats.nats, 'FEED', matches(1, 1));
  await expectSeen(hashes(1, 1));
  for (const { seen } of managed) await expect.poll(() => seen).toEqual(hashes(1, 1));
  const before = all.map(({ front }) => front.connections);
  await revokeKey(nats, key);
  for (const [n, reader] of all.entries()) {
    await expect.poll(() => reader.ended, { timeout: 120_000 }).toMatch(REVOKED);
    expect(reader.front.connections - (before[n] ?? 0)).toBeLessThanOrEqual(1);
  }
  await api.stop();
  await nats.stop();
});
