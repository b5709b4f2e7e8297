// The ClickHouse HTTP protocol over the engine: what `@clickhouse/client` and curl need. An answer
// is complete before its first byte is sent, so an error is always a status, never a torn answer.
// A client that goes away takes its call with it: waiting, it is never run; running, it is killed.
// Leaves out sessions, ClickHouse's block compression and progress headers.
import { createReadStream } from 'node:fs';
import { rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { ANALYST_CALLS_MAX, refuseUnlessRead } from './analyst.ts';
import { type Answer, type Engine, literal } from './engine.ts';
import { ClickHouseException, exceptionOf } from './exception.ts';
import { authenticate, type Request, readRequest } from './request.ts';
import { Slots } from './slots.ts';

/** Calls of the default user that run at once; each holds a libuv thread. */
export const CALLS_MAX = 8;
/** Threads for the calls of both users, their kills, and spooled files. */
export const THREADS = CALLS_MAX + ANALYST_CALLS_MAX + 6;
const WAITING_CALLS_MAX = 256;
/** A parameter may be a long list; 1 MiB is a server's own limit. */
const URL_BYTES_MAX = 2 ** 20;
/** Longer than the client keeps an idle socket (2.5 s): it never sends into a closed one. */
const KEEP_ALIVE_MS = 10_000;

/** A server, not yet listening, that answers from the engine. */
export function createClickHouseServer(engine: Engine): Server {
  const slots = {
    default: new Slots(CALLS_MAX, WAITING_CALLS_MAX),
    analyst: new Slots(ANALYST_CALLS_MAX, WAITING_CALLS_MAX),
  };
  const options = { maxHeaderSize: URL_BYTES_MAX, keepAliveTimeout: KEEP_ALIVE_MS };
  const server = createServer(options, (request, response) => {
    answer(engine, slots, request, response).catch((error: unknown) => {
      if (response.destroyed) return;
      // While the server closes, its connections end with their answers.
      if (!server.listening) response.setHeader('Connection', 'close');
      sendException(response, exceptionOf(error));
    });
  });
  return server;
}

async function answer(
  engine: Engine,
  slots: Readonly<Record<Request['user'], Slots>>,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const gone = new AbortController();
  response.once('close', () => {
    if (!response.writableFinished) gone.abort(new Error('The client has closed the connection.'));
  });
  const url = new URL(request.url ?? '/', 'http://127.0.0.1');
  const user = authenticate(request, url);
  const health = url.pathname === '/ping' || url.pathname === '/replicas_status';
  if (health || (request.method === 'GET' && url.search === '' && url.pathname === '/')) {
    response.end('Ok.\n');
    return;
  }
  if (url.pathname !== '/') {
    response.writeHead(404).end(`There is no handle ${url.pathname}\n`);
    return;
  }
  let spooled: string | undefined;
  const spool = () => {
    spooled ??= engine.spoolPath();
    return spooled;
  };
  try {
    const asked = await readRequest(request, url, user, spool);
    response.setHeader('X-ClickHouse-Query-Id', asked.queryId.replaceAll(/[^\x20-\x7e]/g, '?'));
    // A kill must not wait behind the call that it is to stop.
    const slot =
      user === 'default' && /^\s*KILL\b/i.test(asked.statement) ? undefined : slots[user];
    const call = () => run(engine, asked, gone.signal);
    const result = await (slot === undefined ? call() : slot.run(gone.signal, call));
    await send(engine, asked, result, response);
  } finally {
    if (spooled !== undefined) await rm(spooled, { force: true });
  }
}

async function run(engine: Engine, asked: Request, gone: AbortSignal): Promise<Answer> {
  const { statement, settings, queryId } = asked;
  // Without a semicolon there is one statement at most.
  if (asked.user === 'analyst' || statement.includes(';')) await requireOne(engine, asked);
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
    const { database, format } = asked;
    const spill = asked.user === 'default';
    return await engine.run({ statement, settings, database, format, mark, spill });
  } finally {
    gone.removeEventListener('abort', kill);
  }
}

/** Refuses several statements, and what the analyst may not run. */
async function requireOne(engine: Engine, asked: Request): Promise<void> {
  const found = await engine.classify(asked.statement);
  if (found.count > 1) {
    const reason = 'Syntax error (Multi-statements are not allowed).';
    throw new ClickHouseException(62, 'SYNTAX_ERROR', reason);
  }
  if (asked.user === 'default') return;
  if (found.count === 0) await throwSyntaxError(engine, asked);
  refuseUnlessRead(asked.statement, found);
}

/** Lets the engine explain what it cannot parse, without running any of it. */
async function throwSyntaxError(engine: Engine, asked: Request): Promise<never> {
  const statement = `SELECT formatQuery(${literal(asked.statement)})`;
  const settings = new Map([['readonly', '1']]);
  const { queryId: mark, format } = asked;
  await engine.run({ statement, settings, database: undefined, format, mark, spill: false });
  throw new ClickHouseException(62, 'SYNTAX_ERROR', 'Syntax error: this is not one statement.');
}

async function send(
  engine: Engine,
  asked: Request,
  result: Answer,
  response: ServerResponse,
): Promise<void> {
  const { body } = result;
  const clause = /\bFORMAT\s+(\w+)\s*(?:SETTINGS\b[\s\S]*)?[\s;]*$/i.exec(asked.statement);
  const format = clause?.[1] ?? asked.format;
  response.setHeader('Content-Type', contentType(format));
  response.setHeader('X-ClickHouse-Format', format);
  response.setHeader('X-ClickHouse-Timezone', engine.timezone);
  response.setHeader('X-ClickHouse-Server-Display-Name', 'embedded');
  response.setHeader('X-ClickHouse-Summary', JSON.stringify(summary(result)));
  const bytes = Buffer.isBuffer(body) ? body : createReadStream(body.path);
  try {
    if (asked.compressAnswer) {
      response.setHeader('Content-Encoding', 'gzip');
      const source = Buffer.isBuffer(bytes) ? Readable.from([bytes]) : bytes;
      await pipeline(source, createGzip({ level: 3 }), response);
    } else if (Buffer.isBuffer(bytes)) {
      response.setHeader('Content-Length', bytes.length);
      response.end(bytes);
    } else {
      if (!Buffer.isBuffer(body)) response.setHeader('Content-Length', body.bytes);
      await pipeline(bytes, response);
    }
  } finally {
    if (!Buffer.isBuffer(body)) await rm(body.path, { force: true });
  }
}

/** All as text, as a server has them. What the engine does not report is 0. */
function summary(result: Answer): Record<string, string> {
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
  // The rest of a body that is too large is not wanted.
  if (exception.status === 413) response.setHeader('Connection', 'close');
  response.writeHead(exception.status, {
    'Content-Type': 'text/plain; charset=UTF-8',
    'X-ClickHouse-Exception-Code': exception.code,
  });
  response.end(`${exception.message}\n`);
}
