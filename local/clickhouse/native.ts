/**
 * Loads the native addon that contains the engine, after checking that it can run here, and declares the types of the
 * few functions that we use. The package's index is not used, because closing its sessions waits for every other
 * call.
 */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { virtualMemoryMax } from '../limits.ts';

export type Connection = { readonly __native: 'connection' };
type NativeResult = {
  readonly bytes: Buffer;
  readonly elapsed: number;
  readonly rowsRead: number;
  readonly bytesRead: number;
};
type NativeInsert = {
  readonly elapsed: number;
  readonly rowsWritten: number;
  readonly bytesWritten: number;
};
export type Native = {
  CreateConnection(directory: string, args: readonly string[]): Connection;
  CloseConnection(connection: Connection): void;
  QueryAsyncConnection(c: Connection, sql: string, format: string): Promise<NativeResult>;
  InsertRawAsyncConnection(
    c: Connection,
    prefix: string,
    data: Buffer,
    countLines: boolean,
  ): Promise<NativeInsert>;
  DurableClassifyAsync(
    c: Connection,
    sql: string,
  ): Promise<{ readonly statementCount: number; readonly queryClass: number }>;
};

const PACKAGES: Readonly<Record<string, string>> = {
  'darwin-arm64': '@chdb/lib-darwin-arm64',
  'darwin-x64': '@chdb/lib-darwin-x64',
  'linux-arm64': '@chdb/lib-linux-arm64-gnu',
  'linux-x64': '@chdb/lib-linux-x64-gnu',
};

/** Loads the addon. Throws an Error for the user; the library itself would crash without a message. */
export function loadNative(): Native {
  const platform = `${process.platform}-${process.arch}`;
  const name = PACKAGES[platform];
  if (name === undefined) throw unsupported(`No embedded ClickHouse for ${platform}.`);
  if (process.platform === 'linux') {
    const { header } = process.report.getReport() as { header?: { glibcVersionRuntime?: string } };
    if (header?.glibcVersionRuntime === undefined) {
      throw unsupported('The embedded ClickHouse needs glibc.');
    }
  }
  if (platform === 'linux-x64' && !readFileSync('/proc/cpuinfo', 'utf8').includes(' avx2 ')) {
    throw unsupported('The embedded ClickHouse needs a CPU with AVX2.');
  }
  try {
    const chdb = createRequire(createRequire(import.meta.url).resolve('chdb/package.json'));
    return chdb(name) as Native;
  } catch (cause) {
    const bytes = virtualMemoryMax();
    const isMissing =
      cause instanceof Error && 'code' in cause && cause.code === 'MODULE_NOT_FOUND';
    if (bytes !== undefined && !isMissing) {
      const megabytes = Math.floor(bytes / 2 ** 20);
      throw unsupported(
        `The embedded ClickHouse does not fit into ${megabytes} MB of virtual memory (ulimit -v).`,
        cause,
      );
    }
    const why = `The package ${name} is missing or does not load: run npm install on this machine.`;
    throw unsupported(why, cause);
  }
}

function unsupported(why: string, cause?: unknown): Error {
  const remedy = 'Set CLICKHOUSE_URL to a ClickHouse server instead.';
  return new Error(`${why} ${remedy}`, { cause });
}
