/**
 * Calls each member about once per interval, spread over it: members are in buckets by the time
 * they came, so that thousands of heartbeats never go out at once.
 */

const BUCKETS = 30;

export class Heartbeats<Member> {
  readonly #buckets: Set<Member>[] = Array.from({ length: BUCKETS }, () => new Set());
  readonly #timer: NodeJS.Timeout;
  #current = 0;

  constructor(intervalMs: number, beat: (member: Member) => void) {
    this.#timer = setInterval(() => {
      this.#current = (this.#current + 1) % BUCKETS;
      for (const member of this.#buckets[this.#current] ?? []) beat(member);
    }, intervalMs / BUCKETS);
    this.#timer.unref();
  }

  /** First called after one interval. Returns the function that removes the member. */
  add(member: Member): () => void {
    const bucket = this.#buckets[this.#current];
    bucket?.add(member);
    return () => bucket?.delete(member);
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}
