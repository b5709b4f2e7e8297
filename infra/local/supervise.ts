/**
 * Child processes of `infra/local/up`: started, watched, started again with backoff when they die, stopped
 * together. A child tells its state in JSON lines on stdout or over IPC. It runs in a process group of
 * its own, so that Ctrl-C reaches only the supervisor, and it ends by itself when the supervisor dies.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { createWriteStream, type WriteStream } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';

const RESTART_MIN_MS = 250;
const RESTART_MAX_MS = 5_000;
/** A child that ran this long starts its backoff anew. */
const STEADY_MS = 30_000;
const ERROR_LINES_MAX = 5;
const LAST_WORDS_MS = 200;
/** Lines of a stack trace and of Node's own: the log has them, the user does not need them. */
const STACK_LINE = /^\s+at |^Node\.js v|^\s*$/;

export type Message = Readonly<Record<string, unknown>>;

export type ChildOptions = {
  readonly name: string;
  /** Module below the repository's root and its arguments. */
  readonly module: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly logs: string;
  readonly onMessage: (message: Message) => void;
  readonly onRestart: (reason: string, waitMs: number) => void;
  /** Called for each process that is started, the first included. */
  readonly onSpawn?: (pid: number) => void;
};

/** A child ended before it had become ready for the first time; the message is its own last words. */
export class ChildStartError extends Error {}

export class Child {
  readonly name: string;
  readonly #options: ChildOptions;
  readonly #log: WriteStream;
  #process: ChildProcess | undefined;
  #ended = Promise.withResolvers<string>();
  #stopping = false;
  #errors: string[] = [];

  constructor(options: ChildOptions) {
    this.name = options.name;
    this.#options = options;
    this.#log = createWriteStream(join(options.logs, `${options.name}.log`), { flags: 'a' });
  }

  /**
   * Starts the child and resolves with its first message whose `event` is `ready`; from then on the
   * child is started again whenever it ends. Throws ChildStartError when it ends before.
   */
  async start(ready: string): Promise<Message> {
    const { promise, resolve } = Promise.withResolvers<Message>();
    this.#spawn((message) => {
      if (message.event === ready) resolve(message);
    });
    const first = await Promise.race([promise, this.#ended.promise]);
    if (typeof first === 'string') throw new ChildStartError(first);
    void this.#keepRunning();
    return first;
  }

  /** Asks the child to end and waits; after `waitMs` it is killed. */
  async stop(waitMs: number): Promise<void> {
    this.#stopping = true;
    const running = this.#process;
    if (running === undefined || running.exitCode !== null || running.signalCode !== null) return;
    running.kill('SIGTERM');
    const timer = new AbortController();
    const late = delay(waitMs, 'late' as const, { signal: timer.signal }).catch(() => '');
    const outcome = await Promise.race([this.#ended.promise, late]);
    timer.abort();
    if (outcome !== 'late') return;
    running.kill('SIGKILL');
    await this.#ended.promise;
  }

  async #keepRunning(): Promise<void> {
    for (let waitMs = RESTART_MIN_MS; ; waitMs = Math.min(waitMs * 2, RESTART_MAX_MS)) {
      const startedAt = performance.now();
      const reason = await this.#ended.promise;
      if (this.#stopping) return;
      if (performance.now() - startedAt > STEADY_MS) waitMs = RESTART_MIN_MS;
      this.#options.onRestart(reason, waitMs);
      await delay(waitMs);
      if (this.#stopping) return;
      this.#spawn(() => undefined);
    }
  }

  #spawn(onFirst: (message: Message) => void): void {
    const { module, args, env, onMessage, name } = this.#options;
    const ended = Promise.withResolvers<string>();
    this.#ended = ended;
    this.#errors = [];
    const child = spawn(process.execPath, [module, ...args], {
      cwd: join(import.meta.dirname, '../..'),
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
      detached: true,
    });
    this.#process = child;
    if (child.pid !== undefined) this.#options.onSpawn?.(child.pid);
    const hear = (message: Message) => {
      onFirst(message);
      onMessage(message);
    };
    child.on('message', (message) => hear(message as Message));
    child.on('error', (error) => ended.resolve(`${name} could not be started: ${error.message}`));
    const end = (code: number | null, signal: NodeJS.Signals | null) => {
      const last = this.#errors.join('\n').trim();
      ended.resolve(last === '' ? `${name} ended (${signal ?? `code ${code}`})` : last);
    };
    child.on('close', end);
    // A grandchild may hold the pipes for longer: the last words get a moment, not for ever.
    child.on('exit', (code, signal) => setTimeout(() => end(code, signal), LAST_WORDS_MS));
    for (const stream of [child.stdout, child.stderr]) {
      if (stream === null) continue;
      createInterface({ input: stream }).on('line', (line) => {
        this.#log.write(`${line}\n`);
        if (stream === child.stdout) this.#hearLine(line, hear);
        else if (!STACK_LINE.test(line)) {
          this.#errors = [...this.#errors, line].slice(-ERROR_LINES_MAX);
        }
      });
    }
  }

  /** JSON lines with an `event` are messages; others are the child's log. */
  #hearLine(line: string, hear: (message: Message) => void): void {
    if (!line.startsWith('{"event":')) return;
    try {
      hear(JSON.parse(line) as Message);
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
    }
  }
}
