/**
 * Entry point of the embedded ClickHouse: one process that hosts the engine and serves the ClickHouse
 * HTTP protocol on 127.0.0.1, so that clients need not distinguish it from a server.
 *
 *   node local/clickhouse/main.ts --data DIR --port N        (0 = a free port)
 *
 * The user `service`, whose password is in DIR/password, is unrestricted; all others may only read. Prints one JSON
 * line on stdout when it listens. Stops on SIGTERM, SIGINT and, if it has an IPC channel, when its parent
 * disconnects. If it cannot start, it prints the reason in one line on stderr.
 */
import { spawn } from 'node:child_process';
import { lookup } from 'node:dns/promises';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { readArguments, text } from '../../infra/arguments.ts';
import { whenParentEnds } from '../../infra/process.ts';
import { clickHousePassword } from '../secret.ts';
import { guardDisk } from './disk-guard.ts';
import { Engine } from './engine.ts';
import { createClickHouseServer, THREADS } from './http.ts';

/** How long killed calls may take to end; usually 50 to 250 ms. */
const DRAIN_MS = 2_000;
/** How long the last responses may take to reach their clients. */
const RESPONSE_MS = 200;
const STOP_SECONDS_MAX = 3;

// libuv reads this when its first thread starts, which has not happened yet.
process.env.UV_THREADPOOL_SIZE ??= String(THREADS);
// Otherwise now() and dates without a zone would be those of the machine.
process.env.TZ = 'UTC';

try {
  await main();
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exit(1);
}

async function main(): Promise<void> {
  const { data, port } = readOptions();
  // The engine's dictionaries look it up; otherwise a migration would fail with "DNS error".
  await lookup('localhost').catch(() => {
    throw new Error(
      'This machine cannot resolve localhost: add "127.0.0.1 localhost" to /etc/hosts.',
    );
  });
  const directory = resolve(data);
  mkdirSync(directory, { recursive: true });
  // The engine then knows only relative paths.
  process.chdir(directory);
  const engine = await Engine.open(directory);
  guardDisk(engine, directory);
  const server = createClickHouseServer(engine, clickHousePassword(directory));
  try {
    server.listen(port, '127.0.0.1');
    await once(server, 'listening');
  } catch (error) {
    await engine.close(DRAIN_MS);
    if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error;
    throw new Error(`Port ${port} is taken: use another --port, or 0 for a free one.`);
  }
  let isStopping = false;
  const stop = () => {
    if (!isStopping) void shutDown(server, engine);
    isStopping = true;
  };
  process.on('SIGTERM', stop);
  process.on('SIGINT', stop);
  whenParentEnds(stop);
  const address = server.address() as AddressInfo;
  const url = `http://127.0.0.1:${address.port}`;
  process.stdout.write(`${JSON.stringify({ event: 'listening', port: address.port, url })}\n`);
}

function readOptions(): { readonly data: string; readonly port: number } {
  const { data, port } = readArguments({
    options: { data: text, port: text },
    strict: false,
  }).values;
  const number = typeof port === 'string' && /^\d{1,5}$/.test(port) ? Number(port) : Number.NaN;
  if (typeof data !== 'string' || data === '' || !(number <= 65_535)) {
    throw new Error('Usage: clickhouse/main.ts --data DIR --port N   (0 = a free port)');
  }
  return { data, port: number };
}

/** Refuses new requests, stops the running ones, closes the engine and exits. */
async function shutDown(server: Server, engine: Engine): Promise<never> {
  // A native call that hangs would block this process and its timers, and so would an exit while a killed query is
  // still ending. So another process enforces the time limit; it stops when its stdin closes, because this one has
  // ended.
  const limit = `(sleep ${STOP_SECONDS_MAX}; kill -9 ${process.pid}) & cat >/dev/null; kill -9 0`;
  spawn('/bin/sh', ['-c', limit], { detached: true, stdio: ['pipe', 'ignore', 'ignore'] });
  const closed = once(server, 'close');
  server.close();
  const end = await engine.close(DRAIN_MS);
  await Promise.race([closed, delay(RESPONSE_MS)]);
  // process.exit hangs while a query runs; kill −9 loses no acknowledged row.
  if (end === 'busy') process.kill(process.pid, 'SIGKILL');
  process.exit(0);
}
