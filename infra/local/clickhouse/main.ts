// Entry of the embedded ClickHouse: one process that hosts the engine and answers the ClickHouse
// HTTP protocol on 127.0.0.1, so that clients need not know whether a server is embedded.
//   node infra/local/clickhouse/main.ts --data DIR --port N        (0 = a free port)
// Prints one JSON line on stdout when it listens. It ends on SIGTERM, SIGINT, and, when it was
// started with an IPC channel, when its parent goes away. Exit codes: 0 stopped, 2 bad arguments,
// 3 data directory in use, 4 platform not supported, 5 port taken, 1 anything else.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Server } from 'node:http';
import { resolve } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { DataDirectoryInUseError, DataDirectoryNameError, Engine } from './engine.ts';
import { createClickHouseServer, THREADS } from './http.ts';
import { UnsupportedPlatformError } from './native.ts';

/** Time for running calls to end after they were killed; 50 to 250 ms is usual. */
const DRAIN_MS = 2_000;
/** Time for the last answers to reach their clients. */
const ANSWER_MS = 200;
const STOP_SECONDS_MAX = 3;

class ArgumentError extends Error {}
class PortTakenError extends Error {}

// libuv reads this when its first thread starts, which nothing above has caused.
process.env.UV_THREADPOOL_SIZE ??= String(THREADS);

try {
  await main();
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exit(exitCode(error));
}

async function main(): Promise<void> {
  const { data, port } = readArguments();
  const engine = await Engine.open(resolve(data));
  const server = createClickHouseServer(engine);
  try {
    await listen(server, port);
  } catch (error) {
    await engine.close(DRAIN_MS);
    throw error;
  }
  let stopping = false;
  const stop = () => {
    if (stopping) return;
    stopping = true;
    shutDown(server, engine);
  };
  process.on('SIGTERM', stop);
  process.on('SIGINT', stop);
  if (process.channel !== undefined) process.on('disconnect', stop);
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('Not a TCP server.');
  const url = `http://127.0.0.1:${address.port}`;
  process.stdout.write(`${JSON.stringify({ event: 'listening', port: address.port, url })}\n`);
}

function readArguments(): { readonly data: string; readonly port: number } {
  const options = { data: { type: 'string' }, port: { type: 'string' } } as const;
  const { data, port } = parseArgs({ options, strict: false }).values;
  const number = typeof port === 'string' && /^\d{1,5}$/.test(port) ? Number(port) : Number.NaN;
  if (typeof data !== 'string' || data === '' || !(number <= 65_535)) {
    throw new ArgumentError('Usage: clickhouse.ts --data DIR --port N   (0 = a free port)');
  }
  return { data, port: number };
}

function listen(server: Server, port: number): Promise<void> {
  return new Promise((done, failed) => {
    server.once('error', (cause: NodeJS.ErrnoException) => {
      if (cause.code !== 'EADDRINUSE') failed(cause);
      else failed(new PortTakenError(`Port ${port} is taken: give another with --port, or 0.`));
    });
    server.listen(port, '127.0.0.1', done);
  });
}

/** Takes no more requests, stops the running ones, closes the engine, exits. */
async function shutDown(server: Server, engine: Engine): Promise<never> {
  // A native call that hangs would hold this process and its timers: another process waits.
  const watchdog = spawn('/bin/sh', ['-c', `sleep ${STOP_SECONDS_MAX}; kill -9 ${process.pid}`], {
    detached: true,
    stdio: 'ignore',
  });
  const answered = once(server, 'close');
  server.close();
  const end = await engine.close(DRAIN_MS);
  await Promise.race([answered, setTimeout(ANSWER_MS)]);
  // process.exit hangs while a query runs; kill −9 loses no acknowledged row.
  if (end === 'busy') process.kill(process.pid, 'SIGKILL');
  if (watchdog.pid !== undefined) process.kill(-watchdog.pid, 'SIGKILL');
  process.exit(0);
}

function exitCode(error: unknown): number {
  if (error instanceof ArgumentError || error instanceof DataDirectoryNameError) return 2;
  if (error instanceof DataDirectoryInUseError) return 3;
  if (error instanceof UnsupportedPlatformError) return 4;
  if (error instanceof PortTakenError) return 5;
  return 1;
}
