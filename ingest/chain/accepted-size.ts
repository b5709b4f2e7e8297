/**
 * The size that a chain node accepts in one request: blocks of a range, calls of a batch. Nodes publish no limit and
 * refuse with any code or status, so the size is found by trial: it shrinks after a refusal, and grows again while
 * requests succeed, because the node may only have been busy.
 */

/** The limit of a refused size grows by this factor with each success. */
const FORGET_REFUSED = 1.002;
/** Equal failures of a size that could also have another cause, before a smaller one is tried. */
export const FAILURES_MAX = 3;

export class AcceptedSize {
  readonly #max: number;
  #size: number;
  /** Smallest size that was refused. Later requests stay below it. */
  #refused = Number.POSITIVE_INFINITY;
  /** A size that failed, but perhaps not because of its size. */
  #doubted = Number.POSITIVE_INFINITY;

  constructor(start: number, max: number) {
    this.#size = start;
    this.#max = max;
  }

  get size(): number {
    return this.#size;
  }

  /** Call this after a success. The next size is `wanted`, or less if that was refused. */
  accepted(size: number, wanted: number, afterFailures = 0): void {
    // A smaller size succeeds at once: it was the size. After an outage, every size succeeds late.
    if (size < this.#doubted) {
      if (afterFailures === 0) this.#refused = Math.min(this.#refused, this.#doubted);
      this.#doubted = Number.POSITIVE_INFINITY;
    }
    this.#size = Math.max(1, Math.min(wanted, this.#max, Math.ceil(this.#refused) - 1));
    this.#refused *= FORGET_REFUSED;
  }

  /** Call this after a refusal. */
  refused(size: number): void {
    this.#refused = Math.max(2, Math.min(this.#refused, size));
    this.#halve(size);
  }

  /** Call this after FAILURES_MAX equal failures. */
  failed(size: number): void {
    this.#doubted = Math.min(this.#doubted, size);
    this.#halve(size);
  }

  #halve(size: number): void {
    this.#size = Math.max(1, Math.min(this.#size, Math.floor(size / 2)));
  }
}
