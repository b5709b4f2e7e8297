/**
 * The matches that were shown and are not final yet, by id and by transaction: a block may hold several
 * matches of one transaction. Decides nothing.
 */
import type { LocatedMatch } from './blocks.ts';
import { type FeedMatch, feedMessageId } from './contract-feed.ts';

export type Shown = {
  readonly id: string;
  readonly txHash: string;
  readonly sender: string;
  readonly nonce: number;
  readonly detectedAtMs: number;
  /** Timestamp of the block that showed it; left out where the mempool did. */
  readonly minedTime?: number;
};

/** A shown match that is not final yet. */
export type OpenMatch = Shown & {
  /** Heads whose reading had begun when it was shown. */
  readonly heads: number;
  /** Undefined while it is being published. */
  match: FeedMatch | undefined;
  /** What final blocks held of its transaction meanwhile. */
  final: readonly LocatedMatch[];
  /** Timestamp of its block, or of the first head that was read after it was shown. */
  sinceTime: number | undefined;
  mined: boolean;
  absent: number;
};

/** Message id of a match of a block. */
export function matchIdOf({ txHash, fills, ordinal }: LocatedMatch): string {
  return feedMessageId(txHash, fills.at(-1)?.orderHash ?? '', ordinal);
}

export function newEntry(shown: Shown): Omit<OpenMatch, 'heads'> {
  const { minedTime } = shown;
  const mined = minedTime !== undefined;
  return { ...shown, match: undefined, final: [], sinceTime: minedTime, mined, absent: 0 };
}

export class OpenMatches {
  readonly #byId = new Map<string, OpenMatch>();
  readonly #ofTransaction = new Map<string, Set<OpenMatch>>();

  get size(): number {
    return this.#byId.size;
  }

  get(id: string): OpenMatch | undefined {
    return this.#byId.get(id);
  }

  /** Oldest first. */
  values(): Iterable<OpenMatch> {
    return this.#byId.values();
  }

  inTransaction(txHash: string): readonly OpenMatch[] {
    return [...(this.#ofTransaction.get(txHash) ?? [])];
  }

  add(match: OpenMatch): void {
    const { id, txHash } = match;
    this.#byId.set(id, match);
    const others = this.#ofTransaction.get(txHash) ?? new Set();
    this.#ofTransaction.set(txHash, others.add(match));
  }

  delete(match: OpenMatch): void {
    const { id, txHash } = match;
    this.#byId.delete(id);
    const others = this.#ofTransaction.get(txHash);
    others?.delete(match);
    if (others?.size === 0) this.#ofTransaction.delete(txHash);
  }
}
