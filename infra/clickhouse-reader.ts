/**
 * Reads of ClickHouse where a millisecond counts: one SELECT, one request over a kept connection.
 * The client library waits a timer's tick before each request and reads answers as streams, 2 ms a
 * statement together (ADR 10); its own errors and settings are kept here. Does not retry, but for
 * a kept connection that the server had closed before it saw the request.
 */
import { Agent as HttpAgent, type IncomingMessage, request as requestHttp } from 'node:http';
import { Agent as HttpsAgent, request as requestHttps } from 'node:https';
import { parseError } from '@clickhouse/client';
import { decodeNative, type Table } from './clickhouse-native.ts';

const CONNECTIONS_MAX = 16;
/** Shorter than any server's own keep-alive (the embedded one's is 10 s). */
const IDLE_MS = 2_500;
/** The server should stop by itself before we hang up on it. */
const HANG_UP_MS = 500;

/** What a statement's `{name:Type}` can be bound to; Bytes as FixedString(n), or a list of them as Array. */
export type ReadParameter = string | number | boolean | Bytes;

/** Keys as hexadecimal texts with 0x, to be bound as the bytes that they stand for. */
export class Bytes {
  readonly texts: string | readonly string[];

  constructor(texts: string | readonly string[]) {
    this.texts = texts;
  }
}

export type Select = {
  readonly sql: string;
  readonly parameters: Readonly<Record<string, unknown>>;
  /** The same object for all statements that have the same: it is made text once. */
  readonly settings: Settings;
  /** Ends the read when its client goes away; null where nobody can. */
  readonly signal: AbortSignal | null;
  /** Longest time on the server, which then answers an error that says so. */
  readonly msMax: number;
};
type Settings = Readonly<Record<string, string | number>>;

export type ClickHouseReader = {
  /**
   * The columns of the rows. Rejects with ClickHouseError where the server refuses, with Node's error (it
   * has a `code`) where there is none, with LateError where not even the server's error comes, with the
   * signal's reason.
   */
  select(select: Select): Promise<Table>;
  /** Ends the kept connections. */
  close(): void;
};

/** No answer, although the server should have stopped. */
class LateError extends Error {
  /** As Node's errors of the network have it. */
  readonly code = 'ETIMEDOUT';
}

/** Opens nothing yet. The user and password are the URL's. */
export function connectReader(options: {
  readonly url: string;
  readonly database: string;
  readonly name: string;
}): ClickHouseReader {
  const base = new URL(options.url);
  const [Agent, request] =
    base.protocol === 'https:' ? [HttpsAgent, requestHttps] : [HttpAgent, requestHttp];
  const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS_MAX, timeout: IDLE_MS });
  const target = {
    agent,
    method: 'POST',
    host: base.hostname.replace(/^\[|\]$/g, ''),
    ...(base.port === '' ? {} : { port: base.port }),
    auth: [base.username, base.password].map(decodeURIComponent).join(':'),
  };
  const headers = {
    'User-Agent': `fillstream-${options.name}`,
    'Content-Type': 'text/plain; charset=UTF-8',
  };
  const fixed = {
    database: options.database,
    default_format: 'Native',
    // An error while rows are written would else come behind a status 200.
    wait_end_of_query: '1',
  };

  const settingsTexts = new WeakMap<Settings, string>();
  function textOf(settings: Settings): string {
    const known = settingsTexts.get(settings);
    if (known !== undefined) return known;
    const query = new URLSearchParams(fixed);
    for (const [name, value] of Object.entries(settings)) query.set(name, String(value));
    const text = query.toString();
    settingsTexts.set(settings, text);
    return text;
  }

  // A timer and a listener of our own: AbortSignal.timeout and .any cost 10 to 40 µs a read.
  async function ask(path: string, { sql, signal, msMax }: Select): Promise<Buffer> {
    signal?.throwIfAborted();
    return await new Promise((resolve, reject) => {
      const asked = request({ ...target, path, headers }, (response) => {
        bytesOf(response).then((bytes) => {
          if (response.statusCode === 200) resolve(bytes);
          else reject(parseError(bytes.toString()));
        }, reject);
      });
      const end = (reason: unknown) => {
        reject(reason);
        asked.destroy();
      };
      const late = () => end(new LateError(`no answer in ${msMax} ms`));
      const timer = setTimeout(late, msMax + HANG_UP_MS);
      const leave = () => end(signal?.reason);
      signal?.addEventListener('abort', leave);
      asked.once('error', (error: NodeJS.ErrnoException) => {
        const isStale = asked.reusedSocket && error.code === 'ECONNRESET';
        reject(isStale ? new StaleConnectionError() : error);
      });
      asked.once('close', () => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', leave);
      });
      asked.end(sql);
    });
  }

  return {
    async select(select) {
      let query = `${textOf(select.settings)}&max_execution_time=${select.msMax / 1_000}`;
      for (const [name, value] of Object.entries(select.parameters)) {
        if (value === undefined) continue;
        query += `&param_${name}=${encodeURIComponent(bound(value as ReadParameter))}`;
      }
      const path = `${base.pathname}?${query}`;
      for (;;) {
        try {
          return decodeNative(await ask(path, select));
        } catch (error) {
          if (!(error instanceof StaleConnectionError)) throw error;
        }
      }
    },
    close: () => agent.destroy(),
  };
}

/** The server closed the connection while it was idle; the request is sent again on another. */
class StaleConnectionError extends Error {}

function bytesOf(response: IncomingMessage): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    response.on('data', (chunk: Buffer) => chunks.push(chunk));
    response.once('end', () => resolve(Buffer.concat(chunks)));
    response.once('error', reject);
  });
}

/** As ClickHouse reads a bound value: escaped text, and escaped bytes in quotes inside a list. */
function bound(value: ReadParameter): string {
  if (value instanceof Bytes) {
    const { texts } = value;
    if (typeof texts === 'string') return escapedBytes(texts);
    return `[${texts.map((text) => `'${escapedBytes(text)}'`).join(',')}]`;
  }
  if (typeof value === 'boolean') return value ? '1' : '0';
  return typeof value === 'number' ? String(value) : escaped(value);
}

function escapedBytes(text: string): string {
  return text.slice(2).replaceAll(/../g, '\\x$&');
}

const ESCAPES: Readonly<Record<string, string>> = {
  '\\': '\\\\',
  "'": "\\'",
  '\t': '\\t',
  '\n': '\\n',
  '\r': '\\r',
  '\0': '\\0',
};

function escaped(text: string): string {
  return text.replaceAll(/[\\'\t\n\r\0]/g, (character) => ESCAPES[character] ?? character);
}
