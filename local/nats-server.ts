/**
 * Runs a nats-server with JetStream as a child process on loopback, for `npm start`, for operators and tests. Only one server
 * may use a data directory at a time. This file does not restart a server that dies; the caller does, if necessary on
 * the same port. The server ends when its starter does, however that dies.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  closeSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { NatsConfig } from '../infra/config.ts';
import { diskFull, isNoSpace } from '../infra/disk.ts';
import { connectNats, jetStreamAnswers, natsOptions } from '../infra/nats/connection.ts';
import { whenParentEnds } from '../infra/process.ts';
import { DataDirectoryInUseError, kill, readText, runs } from './lock.ts';
import { findNatsServer } from './nats-server-binary.ts';
import { freePort, isPortTaken } from './ports.ts';
import { natsToken } from './secret.ts';
import { LOG_BYTES_MAX } from './supervise.ts';

export type NatsServerOptions = {
  /** Created if missing; holds the store, the configuration, the log and the lock. */
  readonly dataDir: string;
  /** Any free port if 0 or omitted. */
  readonly port?: number;
  /** Name of the server, unique in a cluster; "fillstream-embedded" by default. */
  readonly name?: string;
  /** The token that clients must send; none by default. */
  readonly token?: string;
  /** Appended to the configuration file. */
  readonly configExtra?: string;
  /** Stops the server, even while it opens its store; the call then rejects with the signal's reason. */
  readonly signal?: AbortSignal;
  /** The binary to run; by default NATS_SERVER_BIN, PATH, our cache, or a download. */
  readonly binary?: string | undefined;
  /** Called with the process id, before the server is ready. */
  readonly onSpawn?: (pid: number) => void;
};

export type NatsServer = {
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  readonly child: ChildProcess;
  /** Sends SIGTERM, after 10 s SIGKILL; resolves when the process is gone. */
  stop(): Promise<void>;
};

/** Another program listens on the port. */
export class NatsPortTakenError extends Error {
  override readonly name = 'NatsPortTakenError';
  constructor(port: number) {
    super(`port ${port} on 127.0.0.1 is taken; choose another or stop the program that uses it`);
  }
}

/** The server ended during startup or was not ready in time; the message ends with its last log lines. */
export class NatsServerStartError extends Error {
  override readonly name = 'NatsServerStartError';
}

// 20M messages reopen in about 1 s; a cold disk may take far longer.
const READY_MS_MAX = 60_000;
const READY_POLL_MS = 5;
const STOP_MS_MAX = 10_000;
/** The supervisor waits 1.8 s. */
const SUPERVISED_STOP_MS_MAX = 1_500;
// A port may stay busy for a moment after kill −9, for example while a client's connection closes.
const PORT_FREE_MS_MAX = 1_000;
const PORT_POLL_MS = 50;
const ORPHAN_STOP_MS_MAX = 3_000;
const ORPHAN_POLL_MS = 20;
const LOG_LINES_SHOWN_MAX = 5;
const SILENT_MS_MAX = 10_000;
const ANSWER_POLL_MS = 1_000;
const LOG_POLL_MS = 1_000;
const LOG_NAME = 'nats-server.log';
const LOCK_NAME = 'nats-server.lock';

/**
 * Writes the process ids of its parent and of itself to the lock file ($0), or fails if the file exists. Then becomes
 * the server, which keeps its id. Its stdin closes when the parent ends, and then a subshell stops the server.
 */
const LOCK_AND_RUN = `
exec 3<&0 </dev/null
set -C
echo "$PPID $$" > "$0" || exit 1
(cat <&3; kill -TERM $$) >/dev/null 2>&1 &
exec "$@" 3<&-
`;

/**
 * Starts nats-server and resolves when it accepts connections (5–120 ms with an empty store). Throws
 * NatsPortTakenError, DataDirectoryInUseError, NatsServerMissingError and NatsServerStartError.
 */
export async function startNatsServer(options: NatsServerOptions): Promise<NatsServer> {
  const dataDir = resolve(options.dataDir);
  const port = options.port || (await freePort());
  const binary = await findNatsServer(options.binary ?? process.env.NATS_SERVER_BIN);
  mkdirSync(dataDir, { recursive: true });
  const configPath = join(dataDir, 'nats-server.conf');
  const lockPath = join(dataDir, LOCK_NAME);
  await takeOver(dataDir, lockPath, configPath);
  await waitUntilPortIsFree(port);
  // If another starter was faster, its files must not be touched.
  if (existsSync(lockPath)) await takeOver(dataDir, lockPath, configPath);
  for (const name of readdirSync(dataDir)) {
    if (name.endsWith('.ports')) rmSync(join(dataDir, name));
  }
  // The file may contain a token, and `mode` only applies to new files.
  rmSync(configPath, { force: true });
  writeFileSync(configPath, configuration(dataDir, port, options), { mode: 0o600 });
  const logPath = join(dataDir, LOG_NAME);
  // A file, not a pipe: a server that outlives us must not die on its next log line.
  const log = openSync(logPath, 'a');
  const command = ['-c', LOCK_AND_RUN, lockPath, binary, '--config', configPath];
  // Its own process group: Ctrl-C reaches only the starter.
  const child = spawn('/bin/sh', command, { stdio: ['pipe', log, log], detached: true });
  closeSync(log);
  child.stdin?.on('error', () => undefined);
  await once(child, 'spawn');
  const pid = child.pid ?? 0;
  options.onSpawn?.(pid);
  child.once('exit', () => {
    if (readText(lockPath) === `${process.pid} ${pid}\n`) rmSync(lockPath, { force: true });
  });
  const portsPath = join(dataDir, `nats-server_${pid}.ports`);
  const url = await listening(child, portsPath, logPath, options.signal);
  return { url, port: Number(new URL(url).port), pid, child, stop: () => stop(child) };
}

/**
 * Stops a server whose starter was killed and removes its lock, because two servers would destroy the store. Throws
 * DataDirectoryInUseError if the starter is alive.
 */
async function takeOver(dataDir: string, lockPath: string, configPath: string): Promise<void> {
  const lock = readText(lockPath);
  const [starterPid = 0, serverPid = 0] = lock.split(' ').map(Number);
  const isServing = () => runs(serverPid, configPath);
  if (isServing()) {
    if (runs(starterPid, '')) throw new DataDirectoryInUseError(dataDir, serverPid);
    kill(serverPid, 'SIGTERM');
  }
  const deadline = Date.now() + ORPHAN_STOP_MS_MAX;
  while (isServing()) {
    // The server hangs, for example because its disk was full.
    if (Date.now() > deadline) kill(serverPid, 'SIGKILL');
    await delay(ORPHAN_POLL_MS);
  }
  // A starter creates the lock and fills it right afterwards, unless the disk is full.
  if (lock === '') await delay(ORPHAN_POLL_MS);
  // If the text changed, another server has started and owns the lock.
  if (readText(lockPath) === lock) rmSync(lockPath, { force: true });
}

/** How to reach the server that `npm start` runs on this data directory; undefined if none is running. */
export function runningNats(
  directory: string,
): Pick<NatsConfig, 'NATS_URL' | 'NATS_TOKEN'> | undefined {
  const dataDir = join(directory, 'nats');
  const pid = Number(readText(join(dataDir, LOCK_NAME)).split(' ')[1]);
  if (!runs(pid, 'nats-server')) return undefined;
  const url = urlFrom(join(dataDir, `nats-server_${pid}.ports`));
  return url === undefined ? undefined : { NATS_URL: url, NATS_TOKEN: natsToken(dataDir) };
}

function configuration(
  dataDir: string,
  port: number,
  { name = 'fillstream-embedded', token, configExtra = '' }: NatsServerOptions,
): string {
  const quoted = (path: string) => JSON.stringify(path);
  return `server_name: ${quoted(name)}
listen: "127.0.0.1:${port}"
ports_file_dir: ${quoted(dataDir)}
max_payload: 8MB
jetstream {
  store_dir: ${quoted(join(dataDir, 'jetstream'))}
  max_mem: 256MB
  max_file: 1TB
}
${token === undefined ? '' : `authorization { token: ${quoted(token)} }`}
${configExtra}
`;
}

async function waitUntilPortIsFree(port: number): Promise<void> {
  const deadline = Date.now() + PORT_FREE_MS_MAX;
  while (await isPortTaken(port)) {
    if (Date.now() > deadline) throw new NatsPortTakenError(port);
    await delay(PORT_POLL_MS);
  }
}

/** Waits for the ports file, which the server writes once it accepts connections. */
async function listening(
  child: ChildProcess,
  portsPath: string,
  logPath: string,
  signal: AbortSignal | undefined,
): Promise<string> {
  const deadline = Date.now() + READY_MS_MAX;
  while (Date.now() < deadline) {
    if (hasEnded(child)) {
      throw new NatsServerStartError(`nats-server ended at startup: ${lastLines(logPath)}`);
    }
    if (signal?.aborted) {
      await stop(child, SUPERVISED_STOP_MS_MAX);
      throw signal.reason;
    }
    const url = urlFrom(portsPath);
    if (url !== undefined) return url;
    await delay(READY_POLL_MS);
  }
  await stop(child);
  const message = `nats-server was not ready in ${READY_MS_MAX} ms: ${lastLines(logPath)}`;
  throw new NatsServerStartError(message);
}

function urlFrom(portsPath: string): string | undefined {
  const text = readText(portsPath);
  // The file is created before it is filled; the closing brace is written last.
  if (!text.trimEnd().endsWith('}')) return undefined;
  return /(nats|tls):\/\/127\.0\.0\.1:\d+/.exec(text)?.[0];
}

async function stop(child: ChildProcess, msMax = STOP_MS_MAX): Promise<void> {
  if (hasEnded(child)) return;
  const exited = once(child, 'exit');
  child.kill('SIGTERM');
  const kill = setTimeout(() => child.kill('SIGKILL'), msMax);
  await exited;
  clearTimeout(kill);
}

function hasEnded(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null;
}

function lastLines(logPath: string): string {
  const lines = readFileSync(logPath, 'utf8').trimEnd().split('\n');
  return lines.slice(-LOG_LINES_SHOWN_MAX).join(' | ');
}

export type RunOptions = Required<Pick<NatsServerOptions, 'dataDir' | 'port' | 'signal'>> &
  Pick<NatsServerOptions, 'binary' | 'onSpawn'> & {
    /** Called when the server listens. */
    readonly onListening: (server: Pick<NatsServer, 'url' | 'port' | 'pid'>) => void;
  };

/**
 * Runs the server of a data directory, whose token clients need, until the signal aborts or the server ends. Keeps its log
 * short and kills it if it hangs. Resolves with the reason for its end. Throws the errors of `startNatsServer`.
 */
export async function runNatsServer(options: RunOptions): Promise<string> {
  const { dataDir, signal, onListening, ...rest } = options;
  const token = natsToken(dataDir);
  const { url, port, pid, child } = await startNatsServer({ dataDir, token, signal, ...rest });
  const exited = once(child, 'exit');
  const end = () => void stop(child, SUPERVISED_STOP_MS_MAX);
  if (signal.aborted) end();
  signal.addEventListener('abort', end);
  const limiting = setInterval(limitLog, LOG_POLL_MS, join(dataDir, LOG_NAME)).unref();
  const access = natsOptions(NatsConfig.parse({ NATS_URL: url, NATS_TOKEN: token }));
  let why: string | undefined;
  const kill = (reason: string) => {
    // While it stops, it may refuse connections before it has ended.
    if (signal.aborted || hasEnded(child)) return;
    why = reason;
    child.kill('SIGKILL');
  };
  untilSilent(child, access, dataDir).then(kill, (error: Error) => kill(error.message));
  onListening({ url, port, pid });
  const [code, killedBy] = await exited;
  clearInterval(limiting);
  signal.removeEventListener('abort', end);
  return `nats-server ended (${why ?? killedBy ?? `code ${code}`})`;
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      data: { type: 'string', default: '.data/nats' },
      port: { type: 'string', default: '0' },
    },
  });
  // Registered first, because a signal during startup must not leave the server behind.
  const stopping = new AbortController();
  const onStop = () => stopping.abort();
  process.on('SIGTERM', onStop).on('SIGINT', onStop);
  whenParentEnds(onStop);
  // After a failed start, the IPC channel must not keep this process alive.
  process.channel?.unref();
  const { signal } = stopping;
  const say = (line: object) => process.stdout.write(`${JSON.stringify(line)}\n`);
  const reason = await runNatsServer({
    ...{ dataDir: resolve(values.data), port: Number(values.port), signal },
    onListening: (server) => say({ event: 'listening', ...server }),
  }).catch((error: unknown) => {
    if (error !== signal.reason) throw error;
    return 'nats-server was not started';
  });
  say({ event: 'stopped', reason });
  // A connection that is still being made must not keep this process.
  process.exit(signal.aborted ? 0 : 1);
}

/**
 * Copies and empties a long log, because nats-server keeps the file open and 2.9 would keep every old one. Lines written in
 * between are lost.
 */
function limitLog(path: string): void {
  const bytes = statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  if (bytes <= LOG_BYTES_MAX) return;
  try {
    copyFileSync(path, `${path}.1`);
  } catch (error) {
    if (!isNoSpace(error)) throw error;
  }
  truncateSync(path);
}

/**
 * Resolves when the server has not responded for SILENT_MS_MAX and its disk has room, because nats-server 2.9 hangs
 * forever after a failed write, or when it has ended. If it is restarted, nothing acknowledged is lost.
 */
async function untilSilent(
  child: ChildProcess,
  access: ReturnType<typeof natsOptions>,
  dataDir: string,
): Promise<string> {
  const nats = await connectNats({ ...access, name: 'nats-server.ts', isPatient: false });
  try {
    let answeredAt = performance.now();
    while (!hasEnded(child)) {
      if (await jetStreamAnswers(nats)) answeredAt = performance.now();
      else if (performance.now() - answeredAt > SILENT_MS_MAX && diskFull(dataDir) === undefined)
        break;
      await delay(ANSWER_POLL_MS, undefined, { ref: false });
    }
  } finally {
    // Not awaited, because the server may hang.
    nats.close().catch(() => undefined);
  }
  return `did not respond for ${SILENT_MS_MAX / 1_000} s`;
}

if (import.meta.main) {
  main().catch((error: unknown) => {
    const message = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
    process.stderr.write(`${message}\n`);
    process.exitCode = 1;
  });
}
