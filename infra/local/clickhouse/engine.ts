// The native calls: one data directory, opened once, and a throw-away connection for every call that
// writes, so that a setting of one call never reaches another (an `insert_deduplication_token` that stays
// on a connection drops every later insert, silently). Reads take a kept one that was set alike. A
// connection is never used again after a failure: the output that the failed query had written stays
// in it and opens the next answer. Knows neither HTTP nor users.

import { randomUUID } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { totalmem } from 'node:os';
import { join } from 'node:path';
import { IdleConnections, isOfOneCall } from './connections.ts';
import { ClickHouseException, exceptionOf } from './exception.ts';
import { type Connection, loadNative, type Native } from './native.ts';

/** Memory of all queries together, bytes: half of the machine, at most 4 GiB. */
const SERVER_MEMORY_BYTES_MAX = Math.min(4 * 2 ** 30, Math.floor(totalmem() / 2));
/** Memory of one query, bytes. */
const QUERY_MEMORY_BYTES_MAX = Math.floor((SERVER_MEMORY_BYTES_MAX * 3) / 4);
const MARK_CACHE_BYTES = 256 * 2 ** 20;
/**
 * A larger answer goes through a file: the engine builds an answer in memory by copying (10M
 * numbers, 189 MB: 2.4 s and 1 GB of RSS; through a file: 0.23 s and no memory).
 */
const ANSWER_IN_MEMORY_BYTES_MAX = 32 * 2 ** 20;
const KILL_INTERVAL_MS = 100;

/** Given to every connection, where the compiled default or chdb's own differs from a server's. */
const CONNECTION_SETTINGS: Readonly<Record<string, string | number>> = {
  allow_introspection_functions: 0,
  async_insert: 0,
  deduplicate_blocks_in_dependent_materialized_views: 1,
  implicit_select: 0,
  max_memory_usage: QUERY_MEMORY_BYTES_MAX,
  output_format_json_quote_64bit_integers: 1,
};
const CONNECTION_ARGUMENTS = Object.entries(CONNECTION_SETTINGS).map(([k, v]) => `--${k}=${v}`);

/** Another process has the data directory open. */
export class DataDirectoryInUseError extends Error {
  override name = 'DataDirectoryInUseError';
}

/** The path of the data directory cannot be used. */
export class DataDirectoryNameError extends Error {
  override name = 'DataDirectoryNameError';
}

/** What the engine's own parser says of a text: how many statements, and of what kind. */
export type Statement = {
  /** 0 when the text cannot be parsed. */
  readonly count: number;
  readonly kind: 'read' | 'write' | 'other';
};

export type Call = {
  /** One complete statement. */
  readonly statement: string;
  /** Settings and `param_*`, applied in this order. Names are identifiers, values any text. */
  readonly settings: ReadonlyMap<string, string>;
  readonly database: string | undefined;
  /** Of an answer whose statement has no FORMAT clause. */
  readonly format: string;
  /** Unique among the running calls: `kill` finds a call by it. */
  readonly mark: string;
  /** Whether a large answer may go through a file; if not, it stays in memory. */
  readonly spill: boolean;
};

export type Answer = {
  /** The whole answer, or the file that holds it: its reader removes it. */
  readonly body: Buffer | { readonly path: string; readonly bytes: number };
  readonly elapsedSeconds: number;
  readonly readRows: number;
  readonly readBytes: number;
  readonly writtenRows: number;
  readonly writtenBytes: number;
};

export class Engine {
  readonly version: string;
  readonly timezone: string;
  readonly #native: Native;
  readonly #directory: string;
  readonly #spool: string;
  readonly #base: Connection;
  readonly #idle: IdleConnections;
  #closing = false;
  readonly #running = new Map<string, Promise<unknown>>();

  private constructor(native: Native, base: Connection, directory: string, identity: string) {
    this.#native = native;
    this.#base = base;
    this.#idle = new IdleConnections(native);
    this.#directory = join(directory, 'engine');
    this.#spool = join(directory, 'spool');
    [this.version = '', this.timezone = ''] = identity.trim().split('\t');
  }

  /**
   * Opens the data directory, and makes it where there is none. Throws UnsupportedPlatformError,
   * DataDirectoryNameError or DataDirectoryInUseError. The engine's lock is the kernel's (flock on
   * `status`) and goes with its process: a kill −9 leaves nothing that blocks a restart.
   */
  static async open(directory: string): Promise<Engine> {
    // FROM INFILE reads these as patterns; one that matches nothing inserts nothing, silently.
    if (/[*?{}]/.test(directory)) {
      throw new DataDirectoryNameError(`The path ${directory} may not have * ? { or } in it.`);
    }
    const native = loadNative();
    mkdirSync(join(directory, 'engine'), { recursive: true });
    const config = join(directory, 'config.xml');
    writeFileSync(
      config,
      `<clickhouse>
  <max_server_memory_usage>${SERVER_MEMORY_BYTES_MAX}</max_server_memory_usage>
  <mark_cache_size>${MARK_CACHE_BYTES}</mark_cache_size>
  <backups><allowed_path>${xml(`${directory}.backups`)}</allowed_path></backups>
</clickhouse>
`,
    );
    const base = openBase(native, join(directory, 'engine'), config);
    const spool = join(directory, 'spool');
    mkdirSync(spool, { recursive: true });
    for (const left of readdirSync(spool)) rmSync(join(spool, left), { force: true });
    const identity = await native.QueryAsyncConnection(
      base,
      'SELECT version(), timezone()',
      'TabSeparated',
    );
    return new Engine(native, base, directory, identity.bytes.toString());
  }

  /** A new path for a body or an answer; whatever is there at the next start is removed. */
  spoolPath(): string {
    return join(this.#spool, randomUUID());
  }

  isRunning(mark: string): boolean {
    return this.#running.has(mark);
  }

  /** Asks the engine's parser, about 0.04 ms. Says nothing of names: parameters need no values. */
  async classify(text: string): Promise<Statement> {
    const found = await this.#native.DurableClassifyAsync(this.#base, text);
    const kind = found.queryClass === 0 ? 'read' : found.queryClass === 1 ? 'write' : 'other';
    return { count: found.statementCount, kind };
  }

  /** Runs one call on a connection of its own. Throws ClickHouseException; 236 while it closes. */
  async run(call: Call): Promise<Answer> {
    if (this.#closing) {
      throw new ClickHouseException(236, 'ABORTED', 'The embedded ClickHouse is shutting down.');
    }
    const running = this.#run(call);
    this.#running.set(call.mark, running);
    try {
      return await running;
    } finally {
      this.#running.delete(call.mark);
    }
  }

  /**
   * Stops a running call and returns when it has ended. Asks again while it runs, as a call that
   * the engine has not registered yet cannot be found. ASYNC: the waiting form can wait for ever.
   */
  async kill(mark: string): Promise<void> {
    const ended = this.#running.get(mark);
    if (ended === undefined) return;
    const where = `Settings['log_comment'] = ${literal(mark)}`;
    while (this.#running.get(mark) === ended) {
      await this.#kill(where);
      await Promise.race([ended.catch(() => undefined), pause(KILL_INTERVAL_MS)]);
    }
  }

  /** Takes no more calls, stops the running ones within `waitMs`, and then closes the engine. */
  async close(waitMs: number): Promise<'closed' | 'busy'> {
    this.#closing = true;
    const deadline = Date.now() + waitMs;
    while (this.#running.size > 0) {
      if (Date.now() >= deadline) return 'busy';
      await this.#kill('1');
      await Promise.race([Promise.allSettled(this.#running.values()), pause(KILL_INTERVAL_MS)]);
    }
    this.#idle.close();
    this.#native.CloseConnection(this.#base);
    return 'closed';
  }

  async #run(call: Call): Promise<Answer> {
    const read = isSelect(call.statement);
    // Ours must not meet a limit of the caller's own: with 'break' it would cut the answer short.
    const limited = /max_result_|result_overflow_mode/i.test(
      [call.statement, ...call.settings.keys()].join(' '),
    );
    if (!(call.spill && read && !limited)) return this.#once(call, call.settings);
    const limit = ['max_result_bytes', String(ANSWER_IN_MEMORY_BYTES_MAX)] as const;
    try {
      return await this.#once(call, new Map([limit, ...call.settings]));
    } catch (error) {
      // 396 is TOO_MANY_ROWS_OR_BYTES: here only by our own limit.
      if (!(error instanceof ClickHouseException) || error.code !== 396) throw error;
      return this.#throughFile(call);
    }
  }

  /** The read again, its answer written to a file by the engine. */
  async #throughFile(call: Call): Promise<Answer> {
    const path = this.spoolPath();
    const [, select = call.statement, format = call.format] =
      /^([\s\S]*?)\s+FORMAT\s+(\w+)[\s;]*$/i.exec(call.statement) ?? [];
    const read = select.replace(/[\s;]+$/, '');
    const statement = `${read}\nINTO OUTFILE ${literal(path)} FORMAT ${format}`;
    try {
      const answer = await this.#once({ ...call, statement }, call.settings);
      return { ...answer, body: { path, bytes: (await stat(path)).size } };
    } catch (error) {
      rmSync(path, { force: true });
      throw error;
    }
  }

  async #once(call: Call, settings: ReadonlyMap<string, string>): Promise<Answer> {
    const kind = { database: call.database, settings };
    // What is read-only takes no further settings.
    const isKept = isSelect(call.statement) && !settings.has('readonly');
    const kept = isKept ? this.#idle.take(kind) : undefined;
    const connection = kept ?? this.#native.CreateConnection(this.#directory, CONNECTION_ARGUMENTS);
    let isIdle = false;
    try {
      if (kept === undefined) await this.#set(connection, call, settings);
      // One call of the engine for both: 0.2 ms less.
      const own = kept === undefined ? '' : `${setStatement(call.mark, ofOneCall(settings))};\n`;
      const answer = await this.#answer(connection, {
        ...call,
        statement: `${own}${call.statement}`,
      });
      isIdle = isKept;
      return answer;
    } catch (cause) {
      throw exceptionOf(cause);
    } finally {
      if (isIdle) this.#idle.give(kind, connection);
      else this.#native.CloseConnection(connection);
    }
  }

  async #set(
    connection: Connection,
    { database, mark }: Call,
    settings: ReadonlyMap<string, string>,
  ): Promise<void> {
    if (database !== undefined) {
      await this.#native.QueryAsyncConnection(connection, `USE ${identifier(database)}`, 'Null');
    }
    const set = setStatement(mark, settings);
    await this.#native.QueryAsyncConnection(connection, set, 'Null');
  }

  async #answer(connection: Connection, { statement, format }: Call): Promise<Answer> {
    if (/^\s*INSERT\b/i.test(statement)) {
      // This entry reports written rows; the data that it wants is a blank behind the statement.
      const blank = Buffer.from('\n');
      const insert = await this.#native.InsertRawAsyncConnection(
        connection,
        statement,
        blank,
        false,
      );
      return {
        body: Buffer.alloc(0),
        elapsedSeconds: insert.elapsed,
        readRows: 0,
        readBytes: 0,
        writtenRows: insert.rowsWritten,
        writtenBytes: insert.bytesWritten,
      };
    }
    const answer = await this.#native.QueryAsyncConnection(connection, statement, format);
    return {
      body: answer.bytes,
      elapsedSeconds: answer.elapsed,
      readRows: answer.rowsRead,
      readBytes: answer.bytesRead,
      writtenRows: 0,
      writtenBytes: 0,
    };
  }

  async #kill(where: string): Promise<void> {
    const connection = this.#native.CreateConnection(this.#directory, CONNECTION_ARGUMENTS);
    try {
      const sql = `KILL QUERY WHERE ${where} ASYNC`;
      await this.#native.QueryAsyncConnection(connection, sql, 'Null');
    } finally {
      this.#native.CloseConnection(connection);
    }
  }
}

/** Sets the mark and these. */
function setStatement(mark: string, settings: ReadonlyMap<string, string>): string {
  const others = [...settings].filter(([name]) => name !== 'log_comment');
  const set = [['log_comment', mark] as const, ...others]
    .map(([name, value]) => `${name} = ${literal(value)}`)
    .join(', ');
  return `SET ${set}`;
}

function isSelect(statement: string): boolean {
  return /^[\s(]*(SELECT|WITH)\b/i.test(statement);
}

function ofOneCall(settings: ReadonlyMap<string, string>): ReadonlyMap<string, string> {
  return new Map([...settings].filter(([name]) => isOfOneCall(name)));
}

function xml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

/** A value as an SQL string literal. */
export function literal(value: string): string {
  return `'${value.replaceAll('\\', '\\\\').replaceAll("'", "\\'").replaceAll('\0', '\\0')}'`;
}

function identifier(name: string): string {
  return `\`${name.replaceAll('\\', '\\\\').replaceAll('`', '\\`')}\``;
}

function openBase(native: Native, engine: string, config: string): Connection {
  try {
    return native.CreateConnection(engine, [`--config-file=${config}`, ...CONNECTION_ARGUMENTS]);
  } catch (cause) {
    const holder = lockHolder(engine);
    if (holder === undefined) throw cause;
    const remedy = 'stop it, or give another directory.';
    const message = `The data directory ${engine} is in use by process ${holder}: ${remedy}`;
    throw new DataDirectoryInUseError(message, { cause });
  }
}

/** The live process that wrote the engine's `status` file, asked only after the engine refused. */
function lockHolder(engine: string): number | undefined {
  try {
    const pid = Number(/^PID: (\d+)/.exec(readFileSync(join(engine, 'status'), 'utf8'))?.[1]);
    process.kill(pid, 0);
    return pid;
  } catch {
    return undefined;
  }
}

function pause(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}
