/**
 * The sent events that may still have to be taken back, because a match of theirs is not final. After a restart they are read from
 * ALERTS, so exactly what was sent is taken back, whatever became of the rule.
 */
import type { AlertMessage } from '../logs.ts';

export type Open = {
  readonly message: AlertMessage;
  /** Sequence in ALERTS. */
  readonly sequence: number;
  /** Its matches that are neither final nor void. */
  readonly unsettled: Set<string>;
  /** Its matches that did not happen, as far as is known. */
  readonly voided: Set<string>;
};

/** Afterwards, nothing is taken back or restored. Ingest decides within PENDING_SECONDS_MAX, if at all. */
const OPEN_MS_MAX = 3 * 3_600_000;

export class OpenEvents {
  readonly #byId = new Map<string, Open>();
  readonly #byMatch = new Map<string, Set<Open>>();

  add(open: Open): void {
    const { id } = open.message.event;
    if (this.#byId.has(id)) return;
    this.#byId.set(id, open);
    for (const matchId of open.message.matches) {
      const others = this.#byMatch.get(matchId) ?? new Set();
      this.#byMatch.set(matchId, others.add(open));
    }
  }

  ofMatch(matchId: string): readonly Open[] {
    return [...(this.#byMatch.get(matchId) ?? [])];
  }

  delete(open: Open): void {
    this.#byId.delete(open.message.event.id);
    for (const matchId of open.message.matches) {
      const others = this.#byMatch.get(matchId);
      others?.delete(open);
      if (others?.size === 0) this.#byMatch.delete(matchId);
    }
  }

  /** Forgets what is too old to be decided, and returns the one of the others that ALERTS has first. */
  oldest(nowMs: number): Open | undefined {
    let oldest: Open | undefined;
    for (const open of this.#byId.values()) {
      if (Date.parse(open.message.event.timestamp) < nowMs - OPEN_MS_MAX) this.delete(open);
      else if (open.sequence < (oldest?.sequence ?? Number.POSITIVE_INFINITY)) oldest = open;
    }
    return oldest;
  }

  get size(): number {
    return this.#byId.size;
  }
}
