/**
 * The ClickHouse HTTP protocol on top of the engine, as far as `@clickhouse/client` and curl need it. A result is
 * complete before its first byte is sent, so an error is always a status, never a truncated response. When a client
 * disconnects, its call is killed, or not started if it is still queued. Does not support sessions, ClickHouse's block
 * compression and progress headers.
 */
import { existsSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { promisify } from 'node:util';
import * as zlib from 'node:zlib';
import { createSlots, type Slots } from '../../infra/slots.ts';
import { authenticate, readonly, refuseUnlessRead, type User } from './access.ts';
import { type Engine, literal, type Result } from './engine.ts';
import { ClickHouseException, exceptionOf } from './exception.ts';
import { type Request, readRequest } from './request.ts';

/** Most concurrent calls, by user; each occupies a libuv thread. */
const CALLS_MAX: Readonly<Record<User, number>> = { service: 8, analyst: 2 };
/** Threads for the calls of both users, for kills, and for files. */
export const THREADS = CALLS_MAX.service + CALLS_MAX.analyst + 6;
/** Parameters may be long lists; 1 MiB is also a server's limit. */
const URL_BYTES_MAX = 2 ** 20;
/** Longer than the client keeps an idle socket (2.5 s), so it never sends on a closed one. */
const KEEP_ALIVE_MS = 10_000;
const GZIP = { level: 3 };
const gzip = promisify<zlib.InputType, zlib.ZlibOptions, Buffer>(zlib.gzip);

/** Creates a server that is not listening yet. `password` is that of the user `service`. */
export function createClickHouseServer(engine: Engine, password: string): Server {
  const slots = {
    service: createSlots(CALLS_MAX.service),
    analyst: createSlots(CALLS_MAX.analyst),
  };
  const options = { maxHeaderSize: URL_BYTES_MAX, keepAliveTimeout: KEEP_ALIVE_MS };
  const server = createServer(options, (request, response) => {
    // Prevents a page from running a result as a script.
    response.setHeader('X-Content-Type-Options', 'nosniff');
    answer(engine, password, slots, request, response).catch((error: unknown) => {
      if (response.destroyed) return;
      // While the server is closing, each connection ends after its response.
      if (!server.listening) response.setHeader('Connection', 'close');
      sendException(response, exceptionOf(error));
    });
  });
  return server;
}

async function answer(
  engine: Engine,
  password: string,
  slots: Readonly<Record<User, Slots>>,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const gone = new AbortController();
  response.once('close', () => {
    if (!response.writableFinished) gone.abort(new Error('The client has closed the connection.'));
  });
  const url = new URL(request.url ?? '/', 'http://127.0.0.1');
  const user = authenticate(request, url, password);
  const isHealthCheck = url.pathname === '/ping' || url.pathname === '/replicas_status';
  if (isHealthCheck || (request.method === 'GET' && request.url === '/')) {
    response.end('Ok.\n');
    return;
  }
  if (url.pathname !== '/') {
    response.writeHead(404).end(`There is no handle ${url.pathname}\n`);
    return;
  }
  const rowsPath = engine.spoolPath();
  try {
    const given = await readRequest(request, url, user, rowsPath);
    response.setHeader('X-ClickHouse-Query-Id', given.queryId.replaceAll(/[^\x20-\x7e]/g, '?'));
    const call = () => run(engine, given, gone.signal);
    // A KILL must not wait for the call that it is meant to stop.
    const isKill = user === 'service' && /^\s*KILL\b/i.test(given.statement);
    const result = await (isKill ? call() : slots[user](gone.signal, call));
    await send(engine, given, result, response);
  } finally {
    if (existsSync(rowsPath)) await rm(rowsPath);
  }
}

async function run(engine: Engine, request: Request, gone: AbortSignal): Promise<Result> {
  const { user, settings, database, format, queryId } = request;
  let { statement } = request;
  // Without a semicolon there is at most one statement.
  if (user === 'analyst' || statement.includes(';'))
    statement = await oneStatement(engine, request);
  const comment = settings.get('log_comment');
  const mark = comment === undefined ? queryId : `${comment} #${queryId}`;
  if (engine.isRunning(mark)) {
    const reason = `Query with id = ${queryId} is already running.`;
    throw new ClickHouseException(216, 'QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING', reason);
  }
  const kill = () => {
    engine.kill(mark).catch((error: unknown) => process.stderr.write(`${String(error)}\n`));
  };
  gone.throwIfAborted();
  gone.addEventListener('abort', kill, { once: true });
  try {
    return await engine.run({ statement, settings, database, format, mark });
  } finally {
    gone.removeEventListener('abort', kill);
  }
}

/**
 * Refuses texts with several statements, and statements that the analyst may not run. Returns the statement to run; for
 * the analyst, the text that was checked.
 */
async function oneStatement(engine: Engine, request: Request): Promise<string> {
  const { user, statement, settings, queryId } = request;
  const found = await engine.parse(statement);
  if (found.count > 1) {
    const reason = 'Syntax error (Multi-statements are not allowed).';
    throw new ClickHouseException(62, 'SYNTAX_ERROR', reason);
  }
  if (user === 'service') return statement;
  const read = async (query: string, given: ReadonlyMap<string, string>) => {
    const call = {
      statement: query,
      settings: new Map(given).set('readonly', '1'),
      database: undefined,
    };
    const { body } = await engine.run({ ...call, format: 'TSVRaw', mark: `check ${queryId}` });
    return body.toString();
  };
  // The engine explains what it cannot parse, without running any of it.
  const formatted = await read(`SELECT formatQuery(${literal(statement)})`, new Map());
  if (found.count === 0) {
    throw new ClickHouseException(62, 'SYNTAX_ERROR', 'Syntax error: this is not one statement.');
  }
  if (!found.isRead || (await engine.parse(formatted)).count !== 1)
    throw readonly('Cannot execute query in readonly mode.');
  refuseUnlessRead(formatted, await read(`EXPLAIN AST ${formatted}`, settings));
  return formatted;
}

async function send(
  engine: Engine,
  request: Request,
  result: Result,
  response: ServerResponse,
): Promise<void> {
  const { body } = result;
  const clause = /\bFORMAT\s+(\w+)\s*(?:SETTINGS\b[\s\S]*)?[\s;]*$/i.exec(request.statement);
  const format = clause?.[1] ?? request.format;
  response.setHeader('Content-Type', contentType(format));
  response.setHeader('X-ClickHouse-Format', format);
  response.setHeader('X-ClickHouse-Timezone', engine.timezone);
  response.setHeader('X-ClickHouse-Server-Display-Name', 'embedded');
  response.setHeader('X-ClickHouse-Summary', JSON.stringify(summaryOf(result)));
  if (request.acceptsGzip) response.setHeader('Content-Encoding', 'gzip');
  response.end(request.acceptsGzip ? await gzip(body, GZIP) : body);
}

/** All values are strings, as on a server; 0 if the engine does not report them. */
function summaryOf(result: Result): Record<string, string> {
  return {
    read_rows: String(result.readRows),
    read_bytes: String(result.readBytes),
    written_rows: String(result.writtenRows),
    written_bytes: String(result.writtenBytes),
    total_rows_to_read: '0',
    result_rows: '0',
    result_bytes: '0',
    elapsed_ns: String(Math.round(result.elapsedSeconds * 1e9)),
  };
}

function contentType(format: string): string {
  if (/^JSON\w*EachRow/i.test(format)) return 'application/x-ndjson; charset=UTF-8';
  if (/^JSON/i.test(format)) return 'application/json; charset=UTF-8';
  if (/^CSV/i.test(format)) return 'text/csv; charset=UTF-8';
  if (/^(TSV|TabSeparated)/i.test(format)) return 'text/tab-separated-values; charset=UTF-8';
  if (/^(RowBinary|Native|Parquet|Arrow|ORC|Avro)/i.test(format)) return 'application/octet-stream';
  return 'text/plain; charset=UTF-8';
}

function sendException(response: ServerResponse, exception: ClickHouseException): void {
  if (response.headersSent) {
    response.destroy(exception);
    return;
  }
  response.removeHeader('Content-Length');
  response.removeHeader('Content-Encoding');
  // The client may still be sending a body that is too large.
  if (exception.status === 413) response.setHeader('Connection', 'close');
  response.writeHead(exception.status, {
    'Content-Type': 'text/plain; charset=UTF-8',
    'X-ClickHouse-Exception-Code': exception.code,
  });
  response.end(`${exception.message}\n`);
}
