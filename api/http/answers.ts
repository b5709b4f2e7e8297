/**
 * A cache of encoded responses that are the same for every caller. Concurrent requests wait for one computation, and
 * later requests get its result while it is fresh. An answer's age counts from the start of its computation. The cache
 * is bounded in bytes and evicts the least recently used answers. Errors are not cached. A computation is aborted when
 * the last client that waits for it disconnects.
 */
import { LRUCache } from 'lru-cache';
import type { KeepRequest } from './endpoint.ts';
import type { Encoded } from './response.ts';

export type AnswerRequest = KeepRequest & {
  /** A cached answer with another version is stale. */
  readonly version?: string;
  /** Maximum age of a cached answer, milliseconds. */
  readonly ageMsMax: number;
};

type Answer = { readonly encoded: Encoded; readonly atMs: number; readonly version: string };

type Computation = {
  readonly encoded: Promise<Encoded>;
  readonly abandoned: AbortController;
  clients: number;
};

export type Answers = ReturnType<typeof createAnswers>;

/** `now` is in milliseconds and monotonic. */
export function createAnswers(options: { readonly bytesMax: number; readonly now: () => number }) {
  const { bytesMax, now } = options;
  const cache = new LRUCache<string, Answer>({
    maxSize: bytesMax,
    sizeCalculation: ({ encoded }, key) => encoded.bytesMax + 2 * key.length,
  });
  const computations = new Map<string, Computation>();

  function begin({ compute, key, version = '' }: AnswerRequest): Computation {
    const atMs = now();
    const abandoned = new AbortController();
    const encoded = compute(abandoned.signal)
      .then((encoded) => {
        cache.set(key, { encoded, atMs, version });
        return encoded;
      })
      .finally(() => forget(key, computation));
    const computation = { encoded, abandoned, clients: 0 };
    computations.set(key, computation);
    return computation;
  }

  function forget(key: string, computation: Computation): void {
    if (computations.get(key) === computation) computations.delete(key);
  }

  return {
    /** Rejects with the error of `compute`, or with the reason of a signal that has already aborted. */
    async get(request: AnswerRequest): Promise<Encoded> {
      const { ageMsMax, key, signal, version = '' } = request;
      // Its `abort` event has already passed, so this client would never be counted out.
      signal?.throwIfAborted();
      const cached = cache.get(key);
      if (cached?.version === version && now() - cached.atMs < ageMsMax) return cached.encoded;
      const computation = computations.get(key) ?? begin(request);
      computation.clients += 1;
      const leave = () => {
        computation.clients -= 1;
        if (computation.clients > 0) return;
        forget(key, computation);
        computation.abandoned.abort();
      };
      signal?.addEventListener('abort', leave, { once: true });
      try {
        return await computation.encoded;
      } finally {
        signal?.removeEventListener('abort', leave);
      }
    },
    /** The last answer of a key, even of another version, if it is at most `ageMsMax` milliseconds old. */
    last(key: string, ageMsMax: number): Encoded | undefined {
      const cached = cache.get(key);
      return cached !== undefined && now() - cached.atMs <= ageMsMax ? cached.encoded : undefined;
    },
  };
}
