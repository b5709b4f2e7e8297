// Bounds how many calls run at once and how many wait. A waiter whose signal fires leaves the queue
// and never runs: a request that its client has given up must not be executed later, when the same
// batch may long have been sent again.
import { ClickHouseException } from './exception.ts';

export class Slots {
  #free: number;
  readonly #waiting = new Set<() => void>();
  readonly #waitingMax: number;

  constructor(runningMax: number, waitingMax: number) {
    this.#free = runningMax;
    this.#waitingMax = waitingMax;
  }

  /**
   * Runs the task when a slot is free, in the order of asking. Throws the signal's reason when it
   * fires before that, and ClickHouseException 202 when too many wait already.
   */
  async run<T>(signal: AbortSignal, task: () => Promise<T>): Promise<T> {
    await this.#take(signal);
    try {
      signal.throwIfAborted();
      return await task();
    } finally {
      const next = this.#waiting.values().next();
      if (next.done) this.#free += 1;
      else next.value();
    }
  }

  async #take(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (this.#free > 0) {
      this.#free -= 1;
      return;
    }
    if (this.#waiting.size >= this.#waitingMax) {
      const reason = `Too many requests wait already, maximum ${this.#waitingMax}.`;
      throw new ClickHouseException(202, 'TOO_MANY_SIMULTANEOUS_QUERIES', reason);
    }
    await new Promise<void>((resolve, reject) => {
      const given = () => {
        this.#waiting.delete(given);
        signal.removeEventListener('abort', left);
        resolve();
      };
      const left = () => {
        this.#waiting.delete(given);
        reject(signal.reason);
      };
      this.#waiting.add(given);
      signal.addEventListener('abort', left, { once: true });
    });
  }
}
