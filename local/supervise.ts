/**
 * The parts of `npm start`, which are restarted with backoff when they end. Most are child processes that run a module and
 * report their state as JSON lines on stdout or over IPC. A child has its own process group, so that Ctrl-C reaches only the
 * supervisor, and it stops by itself when the supervisor dies.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, existsSync, fstatSync, openSync, renameSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { isNoSpace } from '../infra/disk.ts';
import { ExpectedError } from '../infra/expected.ts';

const RESTART_MIN_MS = 250;
const RESTART_MAX_MS = 5_000;
/** The backoff starts over after a child has run this long. */
const STEADY_MS = 30_000;
const ERROR_LINES_MAX = 5;
const LAST_LINES_MS = 200;
/** A longer log is renamed to `NAME.log.1`, instead of the one before. */
export const LOG_BYTES_MAX = 20_000_000;
/** Stack traces and Node's own lines, which are only useful in the log. */
const STACK_LINE = /^\s+at |^Node\.js v|^\s*$/;

export type Message = Readonly<Record<string, unknown>>;

export type Report = (message: Message) => void;

export type ChildOptions = {
  readonly name: string;
  /** Module, relative to the repository's root, and its arguments. */
  readonly module: string;
  readonly args: readonly string[];
  /** Flags for Node. NODE_OPTIONS does not allow some of V8's. */
  readonly nodeFlags?: readonly string[];
  /** The whole environment. */
  readonly env: NodeJS.ProcessEnv;
  /** Directory of the child's log. */
  readonly logs: string;
  readonly onMessage: (message: Message) => void;
  readonly onRestart: (reason: string, waitMs: number) => void;
  /** Called for each process that is started, including the first. */
  readonly onSpawn: (pid: number) => void;
};

/** A child ended before it was ready for the first time; the message is the end of its stderr. */
export class ChildStartError extends ExpectedError {}

/** Something that is started, started again whenever it ends, and stopped. */
export abstract class Part {
  readonly #onRestart: ChildOptions['onRestart'];
  #isStopping = false;
  /** Resolves with the reason when the newest run has ended. */
  protected ended: Promise<string> = Promise.resolve('');

  constructor(onRestart: ChildOptions['onRestart']) {
    this.#onRestart = onRestart;
  }

  /** Runs it once. Resolves with the reason when it has ended; never rejects. */
  protected abstract run(onMessage: (message: Message) => void): Promise<string>;

  /** Ends a run, within about `waitMs`. */
  protected abstract end(waitMs: number): Promise<void>;

  /**
   * Starts the part and resolves with its first message whose `event` equals `ready`. Throws ChildStartError if it
   * ends before that; afterwards it is restarted whenever it ends.
   */
  async start(ready: string): Promise<Message> {
    const { promise, resolve } = Promise.withResolvers<Message>();
    this.ended = this.run((message) => {
      if (message.event === ready) resolve(message);
    });
    const first = await Promise.race([promise, this.ended]);
    if (typeof first === 'string') throw new ChildStartError(first);
    void this.#keepRunning();
    return first;
  }

  /** Resolves when the part has ended. */
  async stop(waitMs: number): Promise<void> {
    this.#isStopping = true;
    await this.end(waitMs);
  }

  async #keepRunning(): Promise<void> {
    for (let waitMs = RESTART_MIN_MS; ; waitMs = Math.min(waitMs * 2, RESTART_MAX_MS)) {
      const startedAt = performance.now();
      const reason = await this.ended;
      if (this.#isStopping) return;
      if (performance.now() - startedAt > STEADY_MS) waitMs = RESTART_MIN_MS;
      this.#onRestart(reason, waitMs);
      await delay(waitMs);
      if (this.#isStopping) return;
      this.ended = this.run(() => undefined);
    }
  }
}

export class Child extends Part {
  readonly #options: ChildOptions;
  #log: number;
  #logBytes: number;
  #process: ChildProcess | undefined;

  constructor(options: ChildOptions) {
    super(options.onRestart);
    this.#options = options;
    this.#log = openSync(this.#logPath(), 'a');
    this.#logBytes = fstatSync(this.#log).size;
  }

  /** Sends a message to the process, if it runs. */
  send(message: Message): void {
    if (this.#process?.connected) this.#process.send(message, () => undefined);
  }

  /** Sends SIGTERM, after `waitMs` SIGKILL. */
  protected async end(waitMs: number): Promise<void> {
    const child = this.#process;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGTERM');
    const kill = setTimeout(() => child.kill('SIGKILL'), waitMs);
    await this.ended;
    clearTimeout(kill);
  }

  #logPath(): string {
    return join(this.#options.logs, `${this.#options.name}.log`);
  }

  #write(line: string): void {
    try {
      this.#logBytes += writeSync(this.#log, `${line}\n`);
      if (this.#logBytes > LOG_BYTES_MAX) this.#beginLog();
    } catch (error) {
      // While the disk is full, only log lines may be lost.
      if (!isNoSpace(error)) throw error;
    }
  }

  #beginLog(): void {
    const path = this.#logPath();
    // Somebody may have removed it.
    if (existsSync(path)) renameSync(path, `${path}.1`);
    const full = this.#log;
    this.#log = openSync(path, 'a');
    this.#logBytes = 0;
    closeSync(full);
  }

  protected run(onFirst: (message: Message) => void): Promise<string> {
    const { module, args, nodeFlags = [], env, onMessage, onSpawn, name } = this.#options;
    const ended = Promise.withResolvers<string>();
    const child = spawn(process.execPath, [...nodeFlags, module, ...args], {
      cwd: join(import.meta.dirname, '..'),
      env,
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
      detached: true,
    });
    this.#process = child;
    if (child.pid !== undefined) onSpawn(child.pid);
    const handle = (message: Message) => {
      onFirst(message);
      onMessage(message);
    };
    let errors: string[] = [];
    const onLine = (isError: boolean) => (line: string) => {
      this.#write(line);
      if (!isError) handleLine(line, handle);
      else if (!STACK_LINE.test(line)) errors = [...errors, line].slice(-ERROR_LINES_MAX);
    };
    for (const stream of [child.stdout, child.stderr]) {
      if (stream === null) continue;
      createInterface({ input: stream }).on('line', onLine(stream === child.stderr));
    }
    child.on('message', (message) => handle(message as Message));
    child.on('error', (error) => ended.resolve(`${name} could not be started: ${error.message}`));
    const end = (code: number | null, signal: NodeJS.Signals | null) => {
      ended.resolve(errors.join('\n').trim() || `${name} ended (${signal ?? `code ${code}`})`);
    };
    child.on('close', end);
    // A grandchild may keep the pipes open, so we do not wait long for the last lines.
    child.on('exit', (code, signal) => setTimeout(() => end(code, signal), LAST_LINES_MS));
    return ended.promise;
  }
}

/** JSON lines with an `event` are messages; other lines only go to the log. */
function handleLine(line: string, handle: (message: Message) => void): void {
  if (!line.startsWith('{"event":')) return;
  try {
    handle(JSON.parse(line) as Message);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
  }
}
