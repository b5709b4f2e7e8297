// Reads one HTTP request into a statement and its settings, as a ClickHouse server reads it. The
// rows of an INSERT are never put into the text: the engine would end CSV and TSV at an empty line
// and run the rest as SQL (JSON rows with a blank line between them too). They are spooled to a
// file, and the statement reads it with FROM INFILE, which keeps the column list, EPHEMERAL
// columns and the deduplication token; for 10k rows of 400 bytes it is as fast as inline data.
import { randomUUID } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { Transform, Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import * as zlib from 'node:zlib';
import { ANALYST_TEXT_BYTES_MAX, analystSettings } from './analyst.ts';
import { literal } from './engine.ts';
import { ClickHouseException } from './exception.ts';

/** Decoded rows of one INSERT, bytes. */
const ROWS_BYTES_MAX = 512 * 2 ** 20;
/** A statement that comes in the body, with the rows that are written into it, bytes. */
const TEXT_BYTES_MAX = 32 * 2 ** 20;

/** URL arguments that are no settings of the engine, and mean nothing here. */
const IGNORED = new Set([
  'buffer_size',
  'client_protocol_version',
  'close_session',
  'decompress',
  'password',
  'query',
  'quota_key',
  'session_check',
  'session_timeout',
  'stacktrace',
  'user',
  'wait_end_of_query',
]);

const UNSUPPORTED: ReadonlyMap<string, string> = new Map([
  ['compress', "ClickHouse's own block compression (compress=1); use Accept-Encoding: gzip"],
  ['session_id', 'sessions (session_id): every call has a connection of its own'],
  ['role', 'roles'],
]);

export type User = 'default' | 'analyst';

export type Request = {
  readonly user: User;
  readonly queryId: string;
  readonly statement: string;
  readonly settings: ReadonlyMap<string, string>;
  readonly database: string | undefined;
  readonly format: string;
  readonly compressAnswer: boolean;
};

/**
 * Who asks. Both users have no password, as the server listens on loopback only. Throws
 * ClickHouseException 516 for anybody else.
 */
export function authenticate(request: IncomingMessage, url: URL): User {
  const basic = /^Basic (.+)$/i.exec(request.headers.authorization ?? '')?.[1];
  const [, name, password] =
    basic === undefined
      ? []
      : (/^([^:]*):([\s\S]*)$/.exec(Buffer.from(basic, 'base64').toString()) ?? []);
  const user = header(request, 'x-clickhouse-user') ?? url.searchParams.get('user') ?? name;
  const key = header(request, 'x-clickhouse-key') ?? url.searchParams.get('password') ?? password;
  const named = user === undefined || user === '' || user === 'default' || user === 'analyst';
  // A web page may not speak to the full-access user through its reader's browser.
  const local = /^(127\.0\.0\.1|localhost)(:\d+)?$/.test(request.headers.host ?? '');
  const foreign = user !== 'analyst' && (request.headers.origin !== undefined || !local);
  if (
    !named ||
    foreign ||
    (key ?? '') !== '' ||
    request.headers.authorization?.startsWith('Bearer')
  ) {
    const known = 'default (not from a web page) and analyst, both without password';
    const reason = `${user ?? 'default'}: Authentication failed; there are ${known}.`;
    throw new ClickHouseException(516, 'AUTHENTICATION_FAILED', reason);
  }
  return user === 'analyst' ? 'analyst' : 'default';
}

/**
 * Reads the whole request. `spool` names a file for rows, asked when there are any: the caller removes
 * it. Throws ClickHouseException, or the stream's error when the client goes away.
 */
export async function readRequest(
  request: IncomingMessage,
  url: URL,
  user: User,
  spool: () => string,
): Promise<Request> {
  const parameters = new Map(url.searchParams);
  for (const [name, feature] of UNSUPPORTED) {
    if ((parameters.get(name) ?? '0') !== '0') throw notImplemented(feature);
  }
  const query = parameters.get('query') ?? '';
  const statement = await readStatement(request, query, user, spool, parameters);
  const asked = new Map<string, string>();
  for (const [name, value] of parameters) {
    if (IGNORED.has(name) || UNSUPPORTED.has(name)) continue;
    if (['database', 'default_format', 'enable_http_compression', 'query_id'].includes(name))
      continue;
    if (!/^[A-Za-z_]\w*$/.test(name)) {
      throw new ClickHouseException(115, 'UNKNOWN_SETTING', `Unknown setting '${name}'.`);
    }
    asked.set(name, value);
  }
  // As on a server, GET only reads; 2 leaves the other settings open.
  if (request.method === 'GET' && user === 'default' && !asked.has('readonly')) {
    asked.set('readonly', '2');
  }
  const gzip = /\bgzip\b/.test(header(request, 'accept-encoding') ?? '');
  return {
    user,
    queryId: header(request, 'x-clickhouse-query-id') ?? parameters.get('query_id') ?? randomUUID(),
    statement,
    settings: user === 'analyst' ? analystSettings(asked) : asked,
    database: header(request, 'x-clickhouse-database') ?? parameters.get('database'),
    format:
      header(request, 'x-clickhouse-format') ?? parameters.get('default_format') ?? 'TabSeparated',
    compressAnswer: gzip && parameters.get('enable_http_compression') === '1',
  };
}

async function readStatement(
  request: IncomingMessage,
  query: string,
  user: User,
  spool: () => string,
  parameters: Map<string, string>,
): Promise<string> {
  const insert = user === 'default' ? insertOfBody(query, spool) : undefined;
  if (insert !== undefined) {
    await receive(request, ROWS_BYTES_MAX, createWriteStream(spool()));
    return insert;
  }
  const textMax = user === 'analyst' ? ANALYST_TEXT_BYTES_MAX : TEXT_BYTES_MAX;
  const body = await receiveText(request, textMax);
  const type = header(request, 'content-type') ?? '';
  if (type.startsWith('multipart/form-data')) {
    const form = await new Response(body, { headers: { 'content-type': type } }).formData();
    for (const [name, value] of form) {
      if (typeof value !== 'string') throw notImplemented('external tables');
      parameters.set(name, value);
    }
    return parameters.get('query') ?? '';
  }
  if (query !== '') {
    if (/^\s*INSERT\b/i.test(query) && body.length > 0) {
      throw notImplemented('rows in the body for this INSERT; use INSERT INTO … FORMAT …');
    }
    return body.length === 0 ? query : `${query}\n${body.toString()}`;
  }
  const rows = user === 'default' ? rowsInText(body) : undefined;
  if (rows === undefined) return body.toString();
  await writeFile(spool(), body.subarray(rows.begin));
  return `${rows.head} FROM INFILE ${literal(spool())} FORMAT ${rows.format}`;
}

/** An INSERT whose rows are the body, as one that reads the file; undefined for other texts. */
function insertOfBody(query: string, spool: () => string): string | undefined {
  const found =
    /^(\s*INSERT\s+INTO\b[\s\S]*?)(\s+SETTINGS\s+\w+\s*=[\s\S]*?)?(?:\s+FORMAT\s+(\w+)|\s*\bVALUES)[\s;]*$/i.exec(
      query,
    );
  if (found === null || /\bSELECT\b/i.test(found[1] ?? '')) return undefined;
  const [, head, settings = '', format = 'Values'] = found;
  return `${head} FROM INFILE ${literal(spool())}${settings} FORMAT ${format}`;
}

type Rows = { readonly head: string; readonly format: string; readonly begin: number };

/** Where the rows begin in a text such as `INSERT INTO t (a) FORMAT CSV\n1`. */
function rowsInText(body: Buffer): Rows | undefined {
  const found =
    /^(\s*INSERT\s+INTO\s+(?:TABLE\s+)?[^\s(]+(?:\s*\([^()]*\))?)\s+FORMAT\s+(\w+)[ \t]*\r?\n?/i.exec(
      body.toString('utf8', 0, Math.min(body.length, 64 * 2 ** 10)),
    );
  if (found === null) return undefined;
  const [whole, head = '', format = ''] = found;
  return { head, format, begin: Buffer.byteLength(whole) };
}

/**
 * Runs the decoded body into the sink. Beyond the limit it reads on and drops, since a client that
 * still sends does not read an answer; then it throws ClickHouseException 307.
 */
async function receive(request: IncomingMessage, bytesMax: number, sink: Writable): Promise<void> {
  const decoder = decoderOf(header(request, 'content-encoding') ?? 'identity');
  let bytes = 0;
  const limit = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length;
      done(null, bytes > bytesMax ? undefined : chunk);
    },
    flush(done) {
      done(bytes > bytesMax ? tooLarge(bytesMax) : null);
    },
  });
  await pipeline([request, ...(decoder === undefined ? [] : [decoder]), limit, sink]);
}

async function receiveText(request: IncomingMessage, bytesMax: number): Promise<Buffer> {
  const encoding = header(request, 'content-encoding') ?? 'identity';
  if (encoding === 'identity') return receivePlain(request, bytesMax);
  const chunks: Buffer[] = [];
  const sink = new Writable({
    write(chunk: Buffer, _encoding, done) {
      chunks.push(chunk);
      done();
    },
  });
  await receive(request, bytesMax, sink);
  return Buffer.concat(chunks);
}

/** As `receive`, for a short text that needs no decoding: streams cost more than a small SELECT. */
function receivePlain(request: IncomingMessage, bytesMax: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    request.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes <= bytesMax) chunks.push(chunk);
    });
    request.once('end', () => {
      if (bytes > bytesMax) reject(tooLarge(bytesMax));
      else resolve(Buffer.concat(chunks));
    });
    request.once('error', reject);
  });
}

function tooLarge(bytesMax: number): ClickHouseException {
  const reason = `The body is larger than ${bytesMax} bytes: send smaller batches.`;
  return new ClickHouseException(307, 'TOO_MANY_BYTES', reason);
}

function decoderOf(encoding: string): Transform | undefined {
  switch (encoding) {
    case 'identity':
      return undefined;
    case 'gzip':
      return zlib.createGunzip();
    case 'deflate':
      return zlib.createInflate();
    case 'br':
      return zlib.createBrotliDecompress();
    case 'zstd':
      return zlib.createZstdDecompress();
    default:
      throw notImplemented(`Content-Encoding: ${encoding}`);
  }
}

function header(request: IncomingMessage, name: string): string | undefined {
  const value = request.headers[name];
  return Array.isArray(value) ? value[0] : value;
}

function notImplemented(feature: string): ClickHouseException {
  const reason = `The embedded ClickHouse does not support ${feature}.`;
  return new ClickHouseException(48, 'NOT_IMPLEMENTED', reason);
}
