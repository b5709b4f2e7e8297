/** What a rule remembers of the matches of the last seconds, by market or outcome. */
type Remembered = { readonly matchId: string; readonly atMs: number };

/** Above so many keys, and twice as many as were left the last time, those without a recent match are removed. */
const KEYS_MAX = 1_000;

export class Recent<One extends Remembered> {
  readonly #spanMs: number;
  readonly #byKey = new Map<string, readonly One[]>();
  #keysMax = KEYS_MAX;

  constructor(seconds: number) {
    this.#spanMs = seconds * 1_000;
  }

  /** What is remembered of a key from less than the span before this time, oldest first. */
  of(key: string, atMs: number): readonly One[] {
    return (this.#byKey.get(key) ?? []).filter((one) => one.atMs > atMs - this.#spanMs);
  }

  set(key: string, all: readonly One[], atMs: number): void {
    this.#byKey.set(key, all);
    if (this.#byKey.size <= this.#keysMax) return;
    for (const other of this.#byKey.keys()) {
      if (this.of(other, atMs).length === 0) this.#byKey.delete(other);
    }
    this.#keysMax = Math.max(KEYS_MAX, 2 * this.#byKey.size);
  }

  forget(matchId: string): void {
    for (const [key, all] of this.#byKey) {
      const left = all.filter((one) => one.matchId !== matchId);
      if (left.length < all.length) this.#byKey.set(key, left);
    }
  }
}
