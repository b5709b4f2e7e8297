// Runs a nats-server with JetStream as a child process on loopback, for `npm start` and tests.
// Invariant: at most one server at a time uses a data directory; a lock file names its process,
// and a lock whose process is gone never blocks. Finding or fetching the binary is
// nats-server-binary.ts. It does not supervise: a server that dies stays dead until the caller
// starts it again, on the same port if it likes.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { findNatsServer } from './nats-server-binary.ts';
import { lockDataDirectory } from './nats-server-lock.ts';

export type NatsServerOptions = {
  /** Created when missing; holds the store, the configuration, the log and the lock. */
  readonly dataDir: string;
  /** 0 or absent: any free port. */
  readonly port?: number;
  /** Name of the server, which must be its own in a cluster; "fillstream-embedded" by default. */
  readonly name?: string;
  /** Appended to the configuration file as it is. */
  readonly configExtra?: string;
  /** The binary to run; otherwise NATS_SERVER_BIN, PATH, our cache, or a download. */
  readonly binary?: string;
};

export type NatsServer = {
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  readonly child: ChildProcess;
  /** SIGTERM, then SIGKILL after 10 s; resolves when the process is gone. */
  stop(): Promise<void>;
};

/** Something else listens on the port. */
export class NatsPortTakenError extends Error {
  override readonly name = 'NatsPortTakenError';
  constructor(port: number, options?: ErrorOptions) {
    super(`port ${port} on 127.0.0.1 is taken; choose another or stop what listens there`, options);
  }
}

/** The server ended, or was not ready in time; the message ends with its last log lines. */
export class NatsServerStartError extends Error {
  override readonly name = 'NatsServerStartError';
}

// 20M messages reopen in about 1 s; a cold disk may take far longer.
const READY_MS_MAX = 60_000;
const READY_POLL_MS = 5;
const STOP_MS_MAX = 10_000;
// A port may stay busy for a moment after kill -9, e.g. while a client's connection closes.
const PORT_FREE_MS_MAX = 1_000;
const PORT_POLL_MS = 50;
const LOG_LINES_SHOWN_MAX = 5;

/**
 * Starts nats-server and resolves when it accepts connections (5–120 ms with an empty store).
 *
 * Throws NatsPortTakenError, DataDirectoryInUseError, NatsServerMissingError when there is no
 * binary, and NatsServerStartError when the server gives up.
 */
export async function startNatsServer(options: NatsServerOptions): Promise<NatsServer> {
  const dataDir = resolve(options.dataDir);
  const port = options.port ?? 0;
  const binary = await findNatsServer(options.binary ?? process.env.NATS_SERVER_BIN);
  mkdirSync(dataDir, { recursive: true });
  const configPath = join(dataDir, 'nats-server.conf');
  const lock = await lockDataDirectory(dataDir, configPath);
  try {
    if (port !== 0) await waitUntilPortIsFree(port);
    for (const name of readdirSync(dataDir)) {
      if (name.endsWith('.ports')) rmSync(join(dataDir, name));
    }
    writeFileSync(configPath, configuration(dataDir, port, options));
    const logPath = join(dataDir, 'nats-server.log');
    // A file and not a pipe: a server that outlives us must not die on its next log line.
    const log = openSync(logPath, 'a');
    const child = spawn(binary, ['--config', configPath], { stdio: ['ignore', log, log] });
    closeSync(log);
    child.once('exit', () => lock.release());
    const pid = await spawned(child, binary);
    lock.hold(pid);
    const url = await listening(child, join(dataDir, `nats-server_${pid}.ports`), logPath);
    return { url, port: Number(new URL(url).port), pid, child, stop: () => stop(child) };
  } catch (error) {
    lock.release();
    throw error;
  }
}

function configuration(
  dataDir: string,
  port: number,
  { name = 'fillstream-embedded', configExtra = '' }: NatsServerOptions,
): string {
  const quoted = (path: string) => JSON.stringify(path);
  return `server_name: ${quoted(name)}
listen: "127.0.0.1:${port === 0 ? -1 : port}"
ports_file_dir: ${quoted(dataDir)}
max_payload: 8MB
jetstream {
  store_dir: ${quoted(join(dataDir, 'jetstream'))}
  max_mem: 256MB
  max_file: 1TB
}
${configExtra}
`;
}

async function waitUntilPortIsFree(port: number): Promise<void> {
  const deadline = Date.now() + PORT_FREE_MS_MAX;
  for (;;) {
    const probe = createServer();
    try {
      probe.listen({ host: '127.0.0.1', port });
      await once(probe, 'listening');
      probe.close();
      await once(probe, 'close');
      return;
    } catch (error) {
      if (!hasCode(error, 'EADDRINUSE') || Date.now() > deadline) {
        throw hasCode(error, 'EADDRINUSE') ? new NatsPortTakenError(port, { cause: error }) : error;
      }
    }
    await delay(PORT_POLL_MS);
  }
}

async function spawned(child: ChildProcess, binary: string): Promise<number> {
  try {
    await once(child, 'spawn');
  } catch (error) {
    throw new NatsServerStartError(`${binary} cannot be run`, { cause: error });
  }
  if (child.pid === undefined) throw new NatsServerStartError(`${binary} has no process id`);
  return child.pid;
}

/** Waits for the ports file, which the server writes once it accepts connections. */
async function listening(child: ChildProcess, portsPath: string, logPath: string): Promise<string> {
  const deadline = Date.now() + READY_MS_MAX;
  while (Date.now() < deadline) {
    if (child.exitCode !== null || child.signalCode !== null) {
      throw new NatsServerStartError(`nats-server ended at start: ${lastLines(logPath)}`);
    }
    const url = urlFrom(portsPath);
    if (url !== undefined) return url;
    await delay(READY_POLL_MS);
  }
  await stop(child);
  throw new NatsServerStartError(
    `nats-server was not ready in ${READY_MS_MAX} ms: ${lastLines(logPath)}`,
  );
}

function urlFrom(portsPath: string): string | undefined {
  let text: string;
  try {
    text = readFileSync(portsPath, 'utf8');
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined;
    throw error;
  }
  // The file appears before its text; the closing brace is the last byte written.
  return text.trimEnd().endsWith('}')
    ? /(nats|tls):\/\/127\.0\.0\.1:\d+/.exec(text)?.[0]
    : undefined;
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill('SIGTERM');
  const kill = setTimeout(() => child.kill('SIGKILL'), STOP_MS_MAX);
  await exited;
  clearTimeout(kill);
}

function lastLines(logPath: string): string {
  return readFileSync(logPath, 'utf8')
    .trimEnd()
    .split('\n')
    .slice(-LOG_LINES_SHOWN_MAX)
    .join(' | ');
}

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code;
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      data: { type: 'string', default: '.data/nats' },
      port: { type: 'string', default: '0' },
    },
  });
  // Before the start: a signal that comes while the server starts must not leave it behind.
  let asked = false;
  let stopServer = () => {};
  const stop = () => {
    asked = true;
    stopServer();
  };
  process.on('SIGTERM', stop).on('SIGINT', stop);
  // Started by a supervisor: it ends with it.
  if (process.channel !== undefined) {
    process.on('disconnect', stop);
    // Listening must not keep a process alive that could not start.
    process.channel.unref();
  }
  const server = await startNatsServer({ dataDir: values.data, port: Number(values.port) });
  stopServer = () => void server.stop();
  if (asked) stopServer();
  const { url, port, pid } = server;
  process.stdout.write(`${JSON.stringify({ event: 'listening', url, port, pid })}\n`);
  const [code, signal] = await once(server.child, 'exit');
  process.stdout.write(`${JSON.stringify({ event: 'stopped', code, signal })}\n`);
  // nats-server 2.9 answers SIGTERM with exit code 1.
  process.exitCode = asked ? 0 : (code ?? 1);
}

if (import.meta.main) {
  main().catch((error: unknown) => {
    const message = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
    process.stderr.write(`${message}\n`);
    process.exitCode = 1;
  });
}
