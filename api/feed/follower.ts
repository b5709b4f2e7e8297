/**
 * Keeps the log attached to its stream, for ever, and knows whether it is being read: what passes
 * by itself (an absent server, a missing stream) is waited for and told as `trouble`.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import {
  type Nats,
  NatsUnavailableError,
  StreamMissingError,
  streamState,
} from '../../infra/nats/connection.ts';
import { StreamRewoundError } from '../../infra/nats/reader.ts';
import type { FeedLog } from './feed-log.ts';

const RETRY_MS = 250;
const LAG_CHECK_MS = 2_000;
/** Some seconds of the highest rate that the service is built for. */
const LAG_MESSAGES_MAX = 10_000;

export class Follower {
  /** Resolves after the first attempt, whatever came of it. */
  readonly attached: Promise<void>;
  readonly #log: FeedLog;
  readonly #nats: Nats;
  readonly #stream: string;
  readonly #logger: Logger;
  readonly #abort = new AbortController();
  readonly #done: Promise<unknown>;
  #trouble: string | undefined = 'the feed is starting';
  #lag: string | undefined;
  #behind = 0;

  constructor(options: { log: FeedLog; nats: Nats; stream: string; logger: Logger }) {
    this.#log = options.log;
    this.#nats = options.nats;
    this.#stream = options.stream;
    this.#logger = options.logger;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.attached = promise;
    this.#done = Promise.all([this.#follow(resolve), this.#watchLag()]);
  }

  /** Why the stream is not being read as it should; undefined while it is. */
  get trouble(): string | undefined {
    return this.#trouble ?? this.#lag;
  }

  /** Messages of the stream that were not taken in when it was last asked. */
  get behind(): number {
    return this.#behind;
  }

  async stop(): Promise<void> {
    this.#abort.abort();
    await this.#done;
  }

  async #follow(firstAttempt: () => void): Promise<void> {
    const { signal } = this.#abort;
    while (!signal.aborted) {
      try {
        await this.#log.attach();
        this.#trouble = undefined;
        firstAttempt();
        await this.#log.follow(signal);
      } catch (error) {
        this.#note(error);
        firstAttempt();
        await this.#pause(RETRY_MS);
      }
    }
  }

  async #watchLag(): Promise<void> {
    while (!this.#abort.signal.aborted) {
      await this.#pause(LAG_CHECK_MS);
      try {
        const { lastSequence } = await streamState(this.#nats, this.#stream);
        const behind = lastSequence - (this.#log.head?.sequence ?? 0);
        this.#behind = Math.max(0, behind);
        this.#lag = behind > LAG_MESSAGES_MAX ? `the feed is ${behind} messages behind` : undefined;
      } catch (error) {
        if (!passes(error)) throw error;
        this.#lag = error.message;
      }
    }
  }

  async #pause(ms: number): Promise<void> {
    const { signal } = this.#abort;
    // Rejects only when it is aborted, which the loops look at themselves.
    await delay(ms, undefined, { signal, ref: false }).catch(() => undefined);
  }

  /**
   * What passes is logged once and tried again. Anything else is a fault of ours: it stays an
   * unhandled rejection, which ends the process, and a new one starts clean.
   */
  #note(error: unknown): void {
    if (!passes(error)) throw error;
    if (this.#trouble !== error.message) this.#logger.warn({ err: error }, 'the feed is not read');
    this.#trouble = error.message;
  }
}

function passes(
  error: unknown,
): error is NatsUnavailableError | StreamMissingError | StreamRewoundError {
  return (
    error instanceof NatsUnavailableError ||
    error instanceof StreamMissingError ||
    error instanceof StreamRewoundError
  );
}
