/** The nats-server of `npm start`: a part that the supervisor runs without a process in between. */
import { setTimeout as delay } from 'node:timers/promises';
import { type RunOptions, runNatsServer } from './nats-server.ts';
import { type ChildOptions, type Message, Part } from './supervise.ts';

export type NatsPartOptions = Omit<RunOptions, 'signal' | 'onListening'> &
  Pick<ChildOptions, 'onRestart'>;

export class NatsPart extends Part {
  readonly #options: NatsPartOptions;
  readonly #stopping = new AbortController();

  constructor(options: NatsPartOptions) {
    super(options.onRestart);
    this.#options = options;
  }

  protected run(onMessage: (message: Message) => void): Promise<string> {
    return runNatsServer({
      ...this.#options,
      signal: this.#stopping.signal,
      onListening: (server) => onMessage({ event: 'listening', ...server }),
    }).catch((error: Error) => error.message);
  }

  protected async end(waitMs: number): Promise<void> {
    this.#stopping.abort();
    // A download of the binary cannot be stopped; it ends with this process.
    await Promise.race([this.ended, delay(waitMs, undefined, { ref: false })]);
  }
}
