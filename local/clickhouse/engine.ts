/**
 * Calls the native engine: opens one data directory once, and a new connection for every call, so that no setting
 * leaks into another call. (An `insert_deduplication_token` left on a connection silently drops every later insert.)
 * Only a SELECT may reuse the connection of an earlier one with the same database, settings and parameter names,
 * because setting up a connection takes a third of the time of a short read. This file does not handle HTTP or
 * users.
 */
import { randomUUID } from 'node:crypto';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { totalmem } from 'node:os';
import { join, relative } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { DISK_RESERVE_BYTES } from '../../infra/disk.ts';
import { DataDirectoryInUseError, readText, runs } from '../lock.ts';
import { ClickHouseException, exceptionOf } from './exception.ts';
import { type Connection, loadNative, type Native } from './native.ts';
import { DamagedDefinitionError, setAsideDefinitions } from './repair.ts';

/** Memory of all queries together in bytes: half of the machine's, at most 4 GiB. */
const SERVER_MEMORY_BYTES_MAX = Math.min(4 * 2 ** 30, Math.floor(totalmem() / 2));
/** Memory of one query, bytes. */
const QUERY_MEMORY_BYTES_MAX = Math.floor((SERVER_MEMORY_BYTES_MAX * 3) / 4);
/** A refresh drops a table. By default its files are kept for eight minutes: 32,000 files after 25 minutes. */
const DROP_DELAY_SECONDS = 1;
const MARK_CACHE_BYTES = 256 * 2 ** 20;
const KILL_INTERVAL_MS = 100;
/** Connections kept for the next SELECT. */
const IDLE_MAX = 32;

/** Settings of every connection whose default in chdb differs from a server's. */
const CONNECTION_SETTINGS: Readonly<Record<string, string | number>> = {
  allow_introspection_functions: 0,
  async_insert: 0,
  deduplicate_blocks_in_dependent_materialized_views: 1,
  implicit_select: 0,
  max_memory_usage: QUERY_MEMORY_BYTES_MAX,
  output_format_json_quote_64bit_integers: 1,
};
const CONNECTION_ARGUMENTS = Object.entries(CONNECTION_SETTINGS).map(([k, v]) => `--${k}=${v}`);

/**
 * chdb's database `default` shows files as tables, to every user and permanently once a file was read. These
 * statements replace it by an ordinary database without tables.
 */
const CLOSE_FILES = ['DETACH DATABASE default', 'ATTACH DATABASE default ENGINE = Memory'];

/** How the engine's parser classifies a text. */
export type Parsed = {
  /** Statements; 0 when the text cannot be parsed. */
  readonly count: number;
  readonly isRead: boolean;
};

export type Call = {
  /** One complete statement. */
  readonly statement: string;
  /** Settings and `param_*`, applied in this order. Names are identifiers, values any text. */
  readonly settings: ReadonlyMap<string, string>;
  readonly database: string | undefined;
  /** Format of the result if the statement has no FORMAT clause. */
  readonly format: string;
  /** Identifies the call for `kill`; unique among the running calls. */
  readonly mark: string;
};

export type Result = {
  readonly body: Buffer;
  readonly elapsedSeconds: number;
  readonly readRows: number;
  readonly readBytes: number;
  readonly writtenRows: number;
  readonly writtenBytes: number;
};

export class Engine {
  readonly timezone: string;
  readonly #native: Native;
  readonly #path: string;
  readonly #spool: string;
  /** Keeps the engine open while no call runs. */
  readonly #base: Connection;
  /** Connections of finished SELECTs with the settings made on them, oldest first. */
  readonly #idle: { readonly setup: string; readonly connection: Connection }[] = [];
  readonly #running = new Map<string, Promise<unknown>>();
  #isClosing = false;

  private constructor(native: Native, base: Connection, directory: string, timezone: string) {
    this.#native = native;
    this.#base = base;
    this.#path = enginePath(directory);
    this.#spool = join(directory, 'spool');
    this.timezone = timezone;
  }

  /**
   * Opens the data directory, creating it if necessary. Throws an Error whose message is for the user if the engine
   * cannot run here or the directory is in use. The engine holds a kernel lock (flock on `status`), which ends with its
   * process, so a kill −9 cannot block a restart.
   */
  static async open(directory: string): Promise<Engine> {
    // FROM INFILE reads these as glob patterns; a pattern without a match silently inserts nothing.
    if (/[*?{}]/.test(directory)) {
      throw new Error(`The path ${directory} must not contain * ? { or }.`);
    }
    const native = loadNative();
    mkdirSync(join(directory, 'engine'), { recursive: true });
    const config = join(directory, 'config.xml');
    writeFileSync(config, serverConfiguration(directory));
    const { base, statements } = openBase(native, directory, config);
    rmSync(join(directory, 'spool'), { recursive: true, force: true });
    mkdirSync(join(directory, 'spool'));
    for (const statement of [...CLOSE_FILES, ...statements]) {
      await native.QueryAsyncConnection(base, statement, 'Null');
    }
    const { bytes } = await native.QueryAsyncConnection(base, 'SELECT timezone()', 'TSVRaw');
    return new Engine(native, base, directory, bytes.toString().trim());
  }

  /** A new path for the rows of an INSERT. Leftover files are removed at the next start. */
  spoolPath(): string {
    return join(this.#spool, randomUUID());
  }

  isRunning(mark: string): boolean {
    return this.#running.has(mark);
  }

  /** Runs the engine's parser, about 0.04 ms. It resolves no names, so parameters need no values. */
  async parse(text: string): Promise<Parsed> {
    const found = await this.#native.DurableClassifyAsync(this.#base, text);
    return { count: found.statementCount, isRead: found.queryClass === 0 };
  }

  /** Runs one call. Throws ClickHouseException, 236 while closing. */
  async run(call: Call): Promise<Result> {
    if (this.#isClosing) {
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
   * Stops a running call and resolves when it has ended. Repeats the KILL until then, because the engine may not have
   * registered the call yet. Uses ASYNC, because the waiting form can wait forever.
   */
  async kill(mark: string): Promise<void> {
    const running = this.#running.get(mark);
    if (running === undefined) return;
    const where = `Settings['log_comment'] = ${literal(mark)}`;
    while (this.#running.get(mark) === running) await this.#killWhile(where, running);
  }

  /** Refuses new calls, stops the running ones within `waitMs`, then closes the engine. */
  async close(waitMs: number): Promise<'closed' | 'busy'> {
    this.#isClosing = true;
    const deadline = Date.now() + waitMs;
    while (this.#running.size > 0) {
      if (Date.now() >= deadline) return 'busy';
      await this.#killWhile('1', Promise.allSettled(this.#running.values()));
    }
    for (const { connection } of this.#idle) this.#native.CloseConnection(connection);
    this.#native.CloseConnection(this.#base);
    return 'closed';
  }

  async #killWhile(where: string, running: Promise<unknown>): Promise<void> {
    await this.#onConnection((connection) =>
      this.#native.QueryAsyncConnection(connection, `KILL QUERY WHERE ${where} ASYNC`, 'Null'),
    );
    await Promise.race([running.catch(() => undefined), delay(KILL_INTERVAL_MS)]);
  }

  async #run({ statement, settings, database, format, mark }: Call): Promise<Result> {
    const use = database === undefined ? '' : `USE ${identifier(database)};\n`;
    // `log_comment` comes first, because a `readonly` among the settings freezes all others.
    const values = [...new Map([['log_comment', ''], ...settings]).set('log_comment', mark)];
    const setup = use + setStatement(values);
    const counts = { readRows: 0, readBytes: 0, writtenRows: 0, writtenBytes: 0 };
    if (/^\s*INSERT\b/i.test(statement)) {
      return await this.#onConnection(async (connection) => {
        await this.#native.QueryAsyncConnection(connection, setup, 'Null');
        // This entry point reports written rows. It requires inline data, here a blank line.
        const blank = Buffer.from('\n');
        const insert = this.#native.InsertRawAsyncConnection(connection, statement, blank, false);
        const { elapsed: elapsedSeconds, rowsWritten, bytesWritten } = await insert;
        const written = { writtenRows: rowsWritten, writtenBytes: bytesWritten };
        return { ...counts, ...written, body: Buffer.alloc(0), elapsedSeconds };
      });
    }
    const query = async (connection: Connection, before: string) => {
      const text = `${before};\n${statement}`;
      const result = await this.#native.QueryAsyncConnection(connection, text, format);
      const { bytes: body, elapsed: elapsedSeconds, rowsRead, bytesRead } = result;
      return { ...counts, body, elapsedSeconds, readRows: rowsRead, readBytes: bytesRead };
    };
    if (!/^\s*SELECT\b/i.test(statement) || settings.has('readonly')) {
      return await this.#onConnection((connection) => query(connection, setup));
    }
    // The values that differ between calls are set for each call; the connection is found by their names.
    const own = values.filter(([name]) => name === 'log_comment' || name.startsWith('param_'));
    const names = own.map(([name]) => [name, ''] as const);
    return await this.#onKeptConnection(
      use + setStatement([...new Map([...values, ...names])]),
      (connection, isNew) => query(connection, isNew ? setup : setStatement(own)),
    );
  }

  /** Throws ClickHouseException. */
  async #onConnection<T>(use: (connection: Connection) => Promise<T>): Promise<T> {
    const connection = this.#native.CreateConnection(this.#path, CONNECTION_ARGUMENTS);
    try {
      return await use(connection);
    } catch (cause) {
      throw exceptionOf(cause);
    } finally {
      this.#native.CloseConnection(connection);
    }
  }

  /**
   * Uses the connection of an earlier call with the same `setup`, or a new one. Closes it after a failed query, whose
   * partial output would otherwise appear in the next result. Throws ClickHouseException.
   */
  async #onKeptConnection<T>(
    setup: string,
    use: (connection: Connection, isNew: boolean) => Promise<T>,
  ): Promise<T> {
    const at = this.#idle.findLastIndex((idle) => idle.setup === setup);
    const [known] = at < 0 ? [] : this.#idle.splice(at, 1);
    const connection =
      known?.connection ?? this.#native.CreateConnection(this.#path, CONNECTION_ARGUMENTS);
    try {
      const result = await use(connection, known === undefined);
      this.#idle.push({ setup, connection });
      const oldest = this.#idle.length > IDLE_MAX ? this.#idle.shift() : undefined;
      if (oldest !== undefined) this.#native.CloseConnection(oldest.connection);
      return result;
    } catch (cause) {
      this.#native.CloseConnection(connection);
      throw exceptionOf(cause);
    }
  }
}

function setStatement(values: readonly (readonly [string, string])[]): string {
  return `SET ${values.map(([name, value]) => `${name} = ${literal(value)}`).join(', ')}`;
}

/** A value as an SQL string literal. */
export function literal(value: string): string {
  return `'${value.replaceAll('\\', '\\\\').replaceAll("'", "\\'").replaceAll('\0', '\\0')}'`;
}

function identifier(name: string): string {
  return `\`${name.replaceAll('\\', '\\\\').replaceAll('`', '\\`')}\``;
}

function serverConfiguration(directory: string): string {
  const backups = `${directory}.backups`.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
  return `<clickhouse>
  <max_server_memory_usage>${SERVER_MEMORY_BYTES_MAX}</max_server_memory_usage>
  <database_atomic_delay_before_drop_table_sec>${DROP_DELAY_SECONDS}</database_atomic_delay_before_drop_table_sec>
  <mark_cache_size>${MARK_CACHE_BYTES}</mark_cache_size>
  <backups><allowed_path>${backups}</allowed_path></backups>
  <storage_configuration>
    <disks><default><keep_free_space_bytes>${DISK_RESERVE_BYTES}</keep_free_space_bytes></default></disks>
  </storage_configuration>
</clickhouse>
`;
}

/** The path as the engine receives it: relative, so that no table or error message reveals the location of the directory. */
function enginePath(directory: string): string {
  return relative(process.cwd(), join(directory, 'engine'));
}

type Opened = {
  readonly base: Connection;
  /** Recreate the tables and views whose definitions were set aside. */
  readonly statements: readonly string[];
};

/**
 * Opens the engine, after a repair if necessary. Throws DataDirectoryInUseError while the process that wrote the engine's
 * `status` file runs, and an Error for the user if the data cannot be opened.
 */
function openBase(native: Native, directory: string, config: string): Opened {
  const engine = join(directory, 'engine');
  const pid = Number(/^PID: (\d+)/.exec(readText(join(engine, 'status')))?.[1]);
  const isInUse = runs(pid, '');
  try {
    // The process that uses the directory may be writing a definition.
    const statements = isInUse ? [] : setAsideDefinitions(directory);
    const settings = [`--config-file=${config}`, ...CONNECTION_ARGUMENTS];
    return { base: native.CreateConnection(enginePath(directory), settings), statements };
  } catch (cause) {
    if (isInUse) throw new DataDirectoryInUseError(engine, pid);
    const why = cause instanceof DamagedDefinitionError ? cause.message : 'the line above says why';
    const remedy = 'restore a backup of ClickHouse, or delete this directory and start again';
    throw new Error(
      `${directory} cannot be opened (${why}): ${remedy}; then LEDGER fills the tables.`,
      { cause },
    );
  }
}
