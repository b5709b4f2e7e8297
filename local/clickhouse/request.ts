/**
 * Reads a statement and its settings from an HTTP request, as a ClickHouse server does. The rows of an INSERT never
 * become part of the statement, because the engine ends inline rows at an empty line and runs the rest as SQL. They
 * go to a file, which the statement reads with FROM INFILE. That supports column lists, EPHEMERAL columns and the
 * deduplication token, and is as fast as inline data.
 */
import { randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import { analystDatabase, analystSettings, type User } from './access.ts';
import { type Call, literal } from './engine.ts';
import { ClickHouseException, notImplemented } from './exception.ts';

/** Decoded rows of one INSERT, bytes. */
const ROWS_BYTES_MAX = 512 * 2 ** 20;
/** A statement that arrives in the body, including rows written into it, bytes. */
const TEXT_BYTES_MAX = 32 * 2 ** 20;
const ANALYST_TEXT_BYTES_MAX = 256 * 2 ** 10;
/** How many bytes of a body are searched for the head of an INSERT. */
const INSERT_HEAD_BYTES_MAX = 64 * 2 ** 10;

/** URL parameters that are not settings of the engine: handled elsewhere, or not applicable. */
const NOT_SETTINGS = new Set([
  ...['buffer_size', 'client_protocol_version', 'close_session', 'compress', 'database'],
  ...['decompress', 'default_format', 'enable_http_compression', 'password', 'query', 'query_id'],
  ...['quota_key', 'role', 'session_check', 'session_id', 'session_timeout', 'stacktrace', 'user'],
  'wait_end_of_query',
]);

const UNSUPPORTED: ReadonlyMap<string, string> = new Map([
  ['compress', "ClickHouse's own block compression (compress=1); use Accept-Encoding: gzip"],
  ['session_id', 'sessions (session_id): every call has its own connection'],
  ['role', 'roles'],
]);

export type Request = Omit<Call, 'mark'> & {
  readonly user: User;
  readonly queryId: string;
  readonly acceptsGzip: boolean;
};

/**
 * Reads the whole request. Rows go to a new file `rowsPath`, which the caller removes. Throws
 * ClickHouseException, or the stream's error if the client disconnects.
 */
export async function readRequest(
  request: IncomingMessage,
  url: URL,
  user: User,
  rowsPath: string,
): Promise<Request> {
  const parameters = new Map(url.searchParams);
  for (const [name, feature] of UNSUPPORTED) {
    if ((parameters.get(name) ?? '0') !== '0') throw notImplemented(feature);
  }
  const statement = await readStatement(request, parameters, user, rowsPath);
  const settings = new Map([...parameters].filter(([name]) => !NOT_SETTINGS.has(name)));
  const unknown = [...settings.keys()].find((name) => !/^[A-Za-z_]\w*$/.test(name));
  if (unknown !== undefined) {
    throw new ClickHouseException(115, 'UNKNOWN_SETTING', `Unknown setting '${unknown}'.`);
  }
  // As on a server, GET is always read-only. 2 still allows changes of other settings.
  const isGet = request.method === 'GET' && user === 'service';
  if (isGet && settings.get('readonly') !== '1') settings.set('readonly', '2');
  const header = (name: string) => request.headers[`x-clickhouse-${name}`]?.toString();
  const database = header('database') ?? parameters.get('database');
  return {
    user,
    queryId: header('query-id') ?? parameters.get('query_id') ?? randomUUID(),
    statement,
    settings: user === 'analyst' ? analystSettings(settings) : settings,
    database: user === 'analyst' ? analystDatabase(database) : database,
    format: header('format') ?? parameters.get('default_format') ?? 'TabSeparated',
    acceptsGzip:
      /\bgzip\b/.test(request.headers['accept-encoding']?.toString() ?? '') &&
      parameters.get('enable_http_compression') === '1',
  };
}

/** Returns the statement; adds the fields of a multipart body to the parameters. */
async function readStatement(
  request: IncomingMessage,
  parameters: Map<string, string>,
  user: User,
  rowsPath: string,
): Promise<string> {
  const query = parameters.get('query') ?? '';
  const insert = user === 'service' ? insertOfBody(query) : undefined;
  if (insert !== undefined) {
    await receive(request, ROWS_BYTES_MAX, (rows) => writeFile(rowsPath, rows));
    return `${insert.head} FROM INFILE ${literal(rowsPath)}${insert.tail}`;
  }
  const parts: Buffer[] = [];
  const textMax = user === 'analyst' ? ANALYST_TEXT_BYTES_MAX : TEXT_BYTES_MAX;
  await receive(request, textMax, async (chunks) => {
    for await (const chunk of chunks) parts.push(chunk);
  });
  const body = Buffer.concat(parts);
  const type = request.headers['content-type'] ?? '';
  if (type.startsWith('multipart/form-data')) {
    const form = await new Response(body, { headers: { 'content-type': type } }).formData();
    for (const [name, value] of form) {
      if (typeof value !== 'string') throw notImplemented('external tables');
      parameters.set(name, value);
    }
    return parameters.get('query') ?? '';
  }
  if (query !== '' && body.length > 0 && /^\s*INSERT\b/i.test(query)) {
    throw notImplemented('rows in the body for this INSERT; use INSERT INTO … FORMAT …');
  }
  if (query !== '') return body.length === 0 ? query : `${query}\n${body.toString()}`;
  const rows = user === 'service' ? rowsInText(body) : undefined;
  if (rows === undefined) return body.toString();
  await writeFile(rowsPath, body.subarray(rows.begin));
  return `${rows.head} FROM INFILE ${literal(rowsPath)}${rows.tail}`;
}

/** An INSERT without its rows: FROM INFILE goes between the two parts. */
type Insert = { readonly head: string; readonly tail: string };

/** Splits an INSERT whose rows are the body; undefined for other statements. */
function insertOfBody(query: string): Insert | undefined {
  const found =
    /^(\s*INSERT\s+INTO\b[\s\S]*?)(\s+SETTINGS\s+\w+\s*=[\s\S]*?)?(?:\s+FORMAT\s+(\w+)|\s*\bVALUES)[\s;]*$/i.exec(
      query,
    );
  if (found === null || /\bSELECT\b/i.test(found[1] ?? '')) return undefined;
  const [, head = '', settings = '', format = 'Values'] = found;
  return { head, tail: `${settings} FORMAT ${format}` };
}

/** Splits a text such as `INSERT INTO t (a) FORMAT CSV\n1`; the rows start at byte `begin`. */
function rowsInText(body: Buffer): (Insert & { readonly begin: number }) | undefined {
  const found =
    /^(\s*INSERT\s+INTO\s+(?:TABLE\s+)?[^\s(]+(?:\s*\([^()]*\))?)\s+FORMAT\s+(\w+)[ \t]*\r?\n?/i.exec(
      body.toString('utf8', 0, INSERT_HEAD_BYTES_MAX),
    );
  if (found === null) return undefined;
  const [whole, head = '', format = ''] = found;
  return { head, tail: ` FORMAT ${format}`, begin: Buffer.byteLength(whole) };
}

/**
 * Passes the decoded body to `use`. Beyond the limit, it reads and drops the rest, because a client that is still
 * sending does not read the response; then it throws ClickHouseException 307.
 */
async function receive(
  request: IncomingMessage,
  bytesMax: number,
  use: (chunks: AsyncIterable<Buffer>) => Promise<void>,
): Promise<void> {
  const limited = async function* (chunks: AsyncIterable<Buffer>) {
    let bytes = 0;
    for await (const chunk of chunks) {
      bytes += chunk.length;
      if (bytes <= bytesMax) yield chunk;
    }
    if (bytes <= bytesMax) return;
    const reason = `The body is larger than ${bytesMax} bytes: send smaller batches.`;
    throw new ClickHouseException(307, 'TOO_MANY_BYTES', reason);
  };
  const consume = (chunks: AsyncIterable<Buffer>) => use(limited(chunks));
  const encoding = request.headers['content-encoding'] ?? 'identity';
  if (encoding === 'gzip') await pipeline(request, createGunzip(), consume);
  else if (encoding === 'identity') await consume(request);
  else throw notImplemented(`Content-Encoding: ${encoding}`);
}
