/** An entry about a recent match. Entries are kept for some seconds, under a key such as the market. */
type Remembered = { readonly matchId: string; readonly atMs: number };

/** Above so many keys, and twice as many as were left the last time, those without a recent match are removed. */
const KEYS_MAX = 1_000;

export class Recent<One extends Remembered> {
  readonly #spanMs: number;
  readonly #byKey = new Map<string, readonly One[]>();
  /** The keys of each remembered match. */
  readonly #keysOf = new Map<string, Set<string>>();
  #keysMax = KEYS_MAX;

  constructor(seconds: number) {
    this.#spanMs = seconds * 1_000;
  }

  /** The entries of a key within the span before this time, oldest first. */
  of(key: string, atMs: number): readonly One[] {
    return (this.#byKey.get(key) ?? []).filter((one) => one.atMs > atMs - this.#spanMs);
  }

  set(key: string, all: readonly One[], atMs: number): void {
    const former = this.#byKey.get(key) ?? [];
    const kept = new Set(all);
    for (const one of former) if (!kept.has(one)) this.#leave(one.matchId, key);
    this.#byKey.set(key, all);
    for (const { matchId } of all) {
      const keys = this.#keysOf.get(matchId);
      if (keys === undefined) this.#keysOf.set(matchId, new Set([key]));
      else keys.add(key);
    }
    if (this.#byKey.size <= this.#keysMax) return;
    for (const [other, all] of this.#byKey) {
      if (this.of(other, atMs).length > 0) continue;
      for (const { matchId } of all) this.#leave(matchId, other);
      this.#byKey.delete(other);
    }
    this.#keysMax = Math.max(KEYS_MAX, 2 * this.#byKey.size);
  }

  /** Returns what was remembered of the match, by key. */
  forget(matchId: string): ReadonlyMap<string, One> {
    const forgotten = new Map<string, One>();
    for (const key of this.#keysOf.get(matchId) ?? []) {
      const all = this.#byKey.get(key) ?? [];
      for (const one of all) if (one.matchId === matchId) forgotten.set(key, one);
      this.#byKey.set(
        key,
        all.filter((one) => one.matchId !== matchId),
      );
    }
    this.#keysOf.delete(matchId);
    return forgotten;
  }

  #leave(matchId: string, key: string): void {
    const keys = this.#keysOf.get(matchId);
    keys?.delete(key);
    if (keys?.size === 0) this.#keysOf.delete(matchId);
  }
}
