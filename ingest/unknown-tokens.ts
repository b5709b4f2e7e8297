/**
 * Tokens whose market neither calldata nor derivation reveals. The metadata API is asked for a limited
 * time, because LEDGER waits meanwhile. A token that it does not know is given up after `waitMs` and not
 * requested again for a while; an outage of the service is waited for once, not once per token. The
 * caller refuses matches of tokens that were given up and keeps them raw; a market that appears later is
 * reported.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Hash } from './contract.ts';
import type { Listing } from './contract-metadata.ts';
import { GammaError } from './gamma-http.ts';

/** How long LEDGER waits for the market of a token before the match is refused. */
const WAIT_MS = 30_000;
const RETRY_MIN_MS = 250;
const RETRY_MAX_MS = 4_000;
/** How long a token that the service did not know is refused without another request. */
const GIVEN_UP_MS = 600_000;
const TOKENS_MAX = 100_000;
const RETRY_TOKENS_MAX = 50;

export type UnknownTokensOptions = {
  readonly fetch: (tokenIds: readonly string[]) => Promise<ReadonlyMap<string, Listing>>;
  /** Called with each listing that was found. */
  readonly onListing: (listing: Listing) => Promise<void>;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  readonly waitMs?: number;
};

export class UnknownTokens {
  readonly #options: UnknownTokensOptions;
  readonly #waitMs: number;
  readonly #asking = new Map<string, Promise<Hash | undefined>>();
  /** Token → until when it is refused without a request (monotonic milliseconds). */
  readonly #givenUp = new Map<string, number>();
  /** Since when the service has answered none of these requests. */
  #unansweredSinceMs: number | undefined;
  #requests = 0;
  /** Number of tokens whose market appeared after their matches were refused. */
  foundLate = 0;

  constructor(options: UnknownTokensOptions) {
    this.#options = options;
    this.#waitMs = options.waitMs ?? WAIT_MS;
  }

  /** Number of tokens that were given up and are still unknown. */
  get givenUp(): number {
    return this.#givenUp.size;
  }

  /** Number of tokens that are being waited for. */
  get waiting(): number {
    return this.#asking.size;
  }

  /** The market of a token; undefined if the service does not return it in time. Never rejects. */
  find(tokenId: string): Promise<Hash | undefined> {
    if (performance.now() < (this.#givenUp.get(tokenId) ?? 0)) return Promise.resolve(undefined);
    const asking = this.#asking.get(tokenId) ?? this.#ask(tokenId);
    this.#asking.set(tokenId, asking);
    return asking;
  }

  /** Requests some of the tokens that were given up again, the oldest first. Throws GammaError. */
  async retry(): Promise<void> {
    const tokenIds = [...this.#givenUp.keys()].slice(0, RETRY_TOKENS_MAX);
    if (tokenIds.length === 0) return;
    const found = await this.#options.fetch(tokenIds);
    for (const listing of new Set(found.values())) await this.#options.onListing(listing);
    // Tokens that are still unknown go to the end of the queue.
    for (const tokenId of tokenIds) {
      const until = this.#givenUp.get(tokenId);
      if (until === undefined) continue;
      this.#givenUp.delete(tokenId);
      this.#givenUp.set(tokenId, until);
    }
  }

  /** Notes that the tokens of a listing are known now. */
  listed(listing: Listing): void {
    for (const tokenId of listing.tokenIds) {
      if (!this.#givenUp.delete(tokenId)) continue;
      this.foundLate += 1;
      const { conditionId } = listing;
      this.#options.logger.error(
        { tokenId, conditionId },
        'the market of refused matches is known now: a rebuild from their block adds them',
      );
    }
  }

  async #ask(tokenId: string): Promise<Hash | undefined> {
    const { signal } = this.#options;
    const startedAt = performance.now();
    try {
      for (let waitMs = RETRY_MIN_MS; ; waitMs = Math.min(waitMs * 2, RETRY_MAX_MS)) {
        const listing = await this.#attempt(tokenId);
        if (listing !== undefined) {
          await this.#options.onListing(listing);
          return listing.conditionId;
        }
        if (signal.aborted) return undefined;
        const waitedMs =
          performance.now() - Math.min(startedAt, this.#unansweredSinceMs ?? startedAt);
        if (waitedMs >= this.#waitMs) break;
        await delay(Math.min(waitMs, this.#waitMs - waitedMs), undefined, { signal });
      }
    } catch (error) {
      if (!signal.aborted) throw error;
      return undefined;
    } finally {
      this.#asking.delete(tokenId);
    }
    this.#giveUp(tokenId);
    return undefined;
  }

  /** One request, given up when the wait is over: the service's own pace may be slower. */
  async #attempt(tokenId: string): Promise<Listing | undefined> {
    const { fetch, signal } = this.#options;
    const begunAt = performance.now();
    const leftMs = this.#waitMs - (begunAt - (this.#unansweredSinceMs ?? begunAt));
    // During an outage that was waited for already, one open request is enough to notice its end.
    if (leftMs <= 0 && this.#requests > 0) return undefined;
    this.#requests += 1;
    const answer = fetch([tokenId]).then(
      (found) => {
        this.#unansweredSinceMs = undefined;
        return found.get(tokenId);
      },
      (error: unknown) => {
        if (!(error instanceof GammaError) && !signal.aborted) throw error;
        this.#unansweredSinceMs ??= begunAt;
        return undefined;
      },
    );
    const answered = answer.finally(() => {
      this.#requests -= 1;
    });
    answered.catch(() => undefined);
    const timer = new AbortController();
    const late = delay(Math.max(leftMs, 0), undefined, { signal: timer.signal })
      .then(() => {
        this.#unansweredSinceMs ??= begunAt;
      })
      .catch(() => undefined);
    try {
      return (await Promise.race([answered, late])) ?? undefined;
    } finally {
      timer.abort();
    }
  }

  #giveUp(tokenId: string): void {
    this.#options.logger.error(
      { tokenId, waitedMs: this.#waitMs },
      'no market is known for a token: its matches are refused and kept raw',
    );
    this.#givenUp.delete(tokenId);
    const isOutage = this.#unansweredSinceMs !== undefined;
    // After an outage the token is requested again as soon as the service is back.
    this.#givenUp.set(tokenId, isOutage ? 0 : performance.now() + GIVEN_UP_MS);
    const oldest = this.#givenUp.keys().next();
    if (this.#givenUp.size > TOKENS_MAX && !oldest.done) this.#givenUp.delete(oldest.value);
  }
}
