// The native addon that carries the engine: whether it can run here, and the few of its functions
// that are used, with their types. The package index of `chdb` is passed by: it starts a session
// handling of its own, whose close waits for every other call.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

export type Connection = { readonly __native: 'connection' };
type NativeAnswer = {
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
  QueryAsyncConnection(c: Connection, sql: string, format: string): Promise<NativeAnswer>;
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

/** The engine cannot run on this machine; the message says why and what to do. */
export class UnsupportedPlatformError extends Error {
  override name = 'UnsupportedPlatformError';
}

/** Loads the addon. Throws UnsupportedPlatformError: the library itself dies without a word. */
export function loadNative(): Native {
  const platform = `${process.platform}-${process.arch}`;
  const remedy = 'Set CLICKHOUSE_URL to a ClickHouse server instead.';
  const name = PACKAGES[platform];
  if (name === undefined) {
    throw new UnsupportedPlatformError(`No embedded ClickHouse for ${platform}. ${remedy}`);
  }
  if (process.platform === 'linux') {
    const { header } = process.report.getReport() as { header?: { glibcVersionRuntime?: string } };
    if (header?.glibcVersionRuntime === undefined) {
      throw new UnsupportedPlatformError(`The embedded ClickHouse needs glibc. ${remedy}`);
    }
  }
  if (platform === 'linux-x64' && !readFileSync('/proc/cpuinfo', 'utf8').includes(' avx2 ')) {
    throw new UnsupportedPlatformError(`The embedded ClickHouse needs a CPU with AVX2. ${remedy}`);
  }
  try {
    const chdb = createRequire(createRequire(import.meta.url).resolve('chdb/package.json'));
    return chdb(name) as Native;
  } catch (cause) {
    const why = `The package ${name} is missing or does not load: run npm install on this machine.`;
    throw new UnsupportedPlatformError(`${why} ${remedy}`, { cause });
  }
}

const PACKAGES: Readonly<Record<string, string>> = {
  'darwin-arm64': '@chdb/lib-darwin-arm64',
  'darwin-x64': '@chdb/lib-darwin-x64',
  'linux-arm64': '@chdb/lib-linux-arm64-gnu',
  'linux-x64': '@chdb/lib-linux-x64-gnu',
};
