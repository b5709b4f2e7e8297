/**
 * Connections to ClickHouse, embedded or a server. `@clickhouse/client` does everything except short reads: it waits
 * for a timer before each request, which takes longer than the read itself (2.7 ms; `createSelect` takes 1.3 ms).
 * Settings are explicit where the defaults of server versions or the embedded engine differ.
 */
import * as http from 'node:http';
import * as https from 'node:https';
import { text as textOf } from 'node:stream/consumers';
import {
  type ClickHouseClient,
  ClickHouseError,
  ClickHouseLogLevel,
  createClient,
  parseError,
} from '@clickhouse/client';
import type { z } from 'zod';
import { createSlots } from './slots.ts';

const REQUEST_TIMEOUT_MS = 30_000;
const CONNECTIONS_MAX = 16;
/** Grace period: lets the server time out first. */
const GRACE_MS = 500;

/** Settings of every query of the client, see docs/decisions. */
const SETTINGS = {
  // Newer engines buffer inserts by default, so an acknowledged insert might not be stored yet.
  async_insert: 0,
  // A repeated batch must fill only the views that a crash skipped.
  deduplicate_blocks_in_dependent_materialized_views: 1,
  output_format_json_quote_64bit_integers: 1,
} as const;

/** Creates a client of `database`: one per process, closed at its end. */
export function connectClickHouse(options: {
  readonly url: string;
  readonly database: string;
  readonly name: string;
  readonly requestTimeoutMs?: number;
}): ClickHouseClient {
  return createClient({
    url: options.url,
    database: options.database,
    application: `fillstream-${options.name}`,
    request_timeout: options.requestTimeoutMs ?? REQUEST_TIMEOUT_MS,
    max_open_connections: CONNECTIONS_MAX,
    clickhouse_settings: { ...SETTINGS },
    // Errors are thrown, and their handlers log them.
    log: { level: ClickHouseLogLevel.OFF },
  });
}

/** Refreshes a view. Throws if that fails. */
export async function refreshView(client: ClickHouseClient, view: string): Promise<void> {
  const command = (action: string) => client.command({ query: `SYSTEM ${action} VIEW ${view}` });
  // A scheduled refresh that is already running may have missed the latest rows. Waiting for it fails if it fails.
  await command('WAIT').catch(() => undefined);
  await command('REFRESH');
  await command('WAIT');
}

/** The server is unreachable, did not respond within the time limit, or a proxy responded in its place. */
export class StoreUnreachableError extends Error {}

/** Binds 0x-prefixed hex as the bytes of a FixedString, or of an Array of them. */
export class Bytes {
  readonly texts: string | readonly string[];

  constructor(texts: string | readonly string[]) {
    this.texts = texts;
  }
}

type Statement<Row> = {
  readonly sql: string;
  /** Values of the statement's `{name:Type}`: text, numbers, booleans or Bytes; undefined binds nothing. */
  readonly parameters: Readonly<Record<string, unknown>>;
  /** Converts the columns of JSONCompactColumns to rows. */
  readonly rows: z.ZodType<readonly Row[]>;
  readonly settings: Readonly<Record<string, string | number>>;
  /** Aborts the read. */
  readonly signal: AbortSignal | null;
  /** Time limit on the server. */
  readonly msMax: number;
};

/** Condition on rows of system.tables that excludes the temporary tables of a view's refresh. */
export const LASTING_TABLES = `NOT startsWith(name, '.') AND NOT startsWith(name, '_tmp_replace_')`;

/**
 * Runs one SELECT. Rejects with ClickHouseError if the server refuses it, StoreUnreachableError if the server does
 * not respond, ZodError if the rows do not match their schema, or the signal's reason.
 */
export type Select = <Row>(statement: Statement<Row>) => Promise<readonly Row[]>;

type Received = { readonly response: http.IncomingMessage; readonly text: string };

/** Opens no connection until the first query. The URL contains user and password. */
export function createSelect(options: {
  readonly url: string;
  readonly database: string;
  readonly name: string;
}): Select {
  const base = new URL(options.url);
  const headers = { 'User-Agent': `fillstream-${options.name}` };
  const { Agent, request } = base.protocol === 'https:' ? https : http;
  const agent = new Agent({ keepAlive: true });
  const slots = createSlots(CONNECTIONS_MAX);

  async function send(query: URLSearchParams, body: string, signal: AbortSignal) {
    const { response, text } = await new Promise<Received>((resolve, reject) => {
      const failed = (cause: Error) => {
        const error = new StoreUnreachableError('ClickHouse cannot be reached', { cause });
        reject(signal.aborted ? signal.reason : error);
      };
      // Node sends the user and password of the URL. Without them the server assumes the user
      // `default`.
      const url = new URL(`?${query}`, base);
      const sent = request(url, { method: 'POST', agent, headers, signal }, (response) => {
        textOf(response).then((text) => resolve({ response, text }), failed);
      });
      sent.on('error', failed);
      sent.end(body);
    });
    if (response.statusCode !== 200) {
      const error = parseError(text);
      if (error instanceof ClickHouseError) throw error;
      // A proxy responds while the servers behind it are down.
      throw new StoreUnreachableError(`ClickHouse responds with status ${response.statusCode}`);
    }
    return JSON.parse(text) as unknown;
  }

  return async ({ sql, parameters, rows, settings, signal, msMax }) => {
    const query = new URLSearchParams({
      database: options.database,
      default_format: 'JSONCompactColumns',
      output_format_json_quote_64bit_integers: '1',
      // Otherwise an error while rows are written would hide behind a status 200.
      wait_end_of_query: '1',
      max_execution_time: String(msMax / 1_000),
    });
    for (const [name, value] of Object.entries(settings)) query.set(name, String(value));
    for (const [name, value] of Object.entries(parameters)) {
      if (value !== undefined) query.set(`param_${name}`, bound(value));
    }
    const late = AbortSignal.timeout(msMax + GRACE_MS);
    const end = signal === null ? late : AbortSignal.any([signal, late]);
    const attempt = () => send(query, sql, end);
    try {
      const columns = await slots(end, () =>
        attempt().catch((error: unknown) => {
          if (!isStale(error)) throw error;
          return attempt();
        }),
      );
      return rows.parse(columns);
    } catch (error) {
      if (error !== late.reason) throw error;
      throw new StoreUnreachableError(`no response in ${msMax} ms`, { cause: error });
    }
  };
}

/** Whether the server had closed the keep-alive connection. If so, the SELECT can be sent again. */
function isStale(error: unknown): boolean {
  const cause = error instanceof Error ? error.cause : undefined;
  const code = cause instanceof Error && 'code' in cause ? cause.code : undefined;
  return code === 'ECONNRESET' || code === 'EPIPE';
}

/** Encodes a parameter for ClickHouse: escaped text; bytes as escapes, quoted in a list. */
function bound(value: unknown): string {
  if (value instanceof Bytes) {
    const { texts } = value;
    if (typeof texts === 'string') return escapedBytes(texts);
    return `[${texts.map((text) => `'${escapedBytes(text)}'`).join(',')}]`;
  }
  if (typeof value === 'boolean') return value ? '1' : '0';
  return String(value).replaceAll(/[\\'\t\n\r\0]/g, (character) => ESCAPES[character] ?? character);
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

/** Unknown user, wrong password, missing password, and the newer code for all three. */
const REFUSED_CODES = new Set(['192', '193', '194', '516']);
const UNREACHABLE_CODES = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'ETIMEDOUT']);

/** If a wrong CLICKHOUSE_URL caused the error, explains what is wrong with it. */
export function clickHouseUrlFault(error: unknown): string | undefined {
  if (error instanceof ClickHouseError) {
    return REFUSED_CODES.has(error.code) ? 'the server rejects the user or password' : undefined;
  }
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  return UNREACHABLE_CODES.has(code) ? `the server cannot be reached (${code})` : undefined;
}

/** The disk is full. */
const NO_SPACE = new Set(['NOT_ENOUGH_SPACE']);
/** Stored data was changed. */
const DAMAGED = new Set(['CHECKSUM_DOESNT_MATCH', 'CORRUPTED_DATA', 'CANNOT_DECOMPRESS']);
const FAULT_LENGTH_MAX = 1_000;

/** Explains to an operator why a request failed; recognises a full disk and damaged data. */
export function storeFault(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const text = error.message.slice(0, FAULT_LENGTH_MAX);
  const type = error instanceof ClickHouseError ? (error.type ?? '') : '';
  if (NO_SPACE.has(type) || /no space left on device/i.test(text)) return `disk full: ${text}`;
  if (!DAMAGED.has(type)) return text;
  // Without file paths, because the api's readiness endpoint is public.
  const [, table = 'unknown'] = /in table (\S+)/.exec(text) ?? [];
  return damage(`table ${table}`);
}

/** Names the damaged data and the remedy. */
export function damage(text: string): string {
  return `damaged data: ${text}. Restore or rebuild it: docs/operations.md, "Damaged data"`;
}
