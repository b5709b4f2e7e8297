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

/** A match that was never mined may still be mined for so long. */
const RESTORABLE_MS = 3_600_000;
/** Ingest may never say what became of a match, and gives up after a day at most. */
const UNSETTLED_MS_MAX = 48 * 3_600_000;

export class OpenEvents {
  /** In the order of ALERTS. */
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

  /** Forgets what is too old to be decided, and returns the oldest of the others. */
  oldest(nowMs: number): Open | undefined {
    for (const open of this.#byId.values()) {
      const ageMs = nowMs - Date.parse(open.message.event.timestamp);
      if (ageMs < (open.voided.size === 0 ? UNSETTLED_MS_MAX : RESTORABLE_MS)) return open;
      this.delete(open);
    }
    return undefined;
  }

  get size(): number {
    return this.#byId.size;
  }
}
