/**
 * Tells the other api processes which requests this one counted, so that a rate holds for an account
 * over all of them. Each process sends what it counted every SHARE_MS, over NATS without JetStream: a
 * message that is lost while NATS is away costs the exactness of that moment and nothing else.
 */

import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import type { Nats } from '../../infra/nats/connection.ts';

/** Ends with the id of the process that tells. */
const SUBJECT = 'fillstream.api.counted.';
const SHARE_MS = 50;
/** Keeps the message under 1 MB, the most that NATS takes: what does not fit goes with the next. */
const NAMES_MAX = 1_000;

/** Pairs, because an object with a thousand names is slow to make. */
const Counts = z.array(z.tuple([z.string(), z.int().min(1)]));

export type SharedCounts = {
  /** One request was counted here. */
  counted(name: string): void;
  /** Is told of what others counted; set once. */
  onOthers(listener: (name: string, count: number) => void): void;
  close(): void;
};

export function shareCounts(nats: Pick<Nats, 'connection' | 'connected'>): SharedCounts {
  const own = SUBJECT + randomUUID();
  const unsent = new Map<string, number>();
  let listener: (name: string, count: number) => void = () => undefined;

  const subscription = nats.connection.subscribe(`${SUBJECT}*`, {
    callback: (error, message) => {
      if (error !== null || message.subject === own) return;
      const counts = Counts.safeParse(message.json());
      for (const [name, count] of counts.data ?? []) listener(name, count);
    },
  });

  const timer = setInterval(() => {
    // Kept while NATS is away: the sum is right again when it is back.
    if (unsent.size === 0 || !nats.connected) return;
    const counts = [...unsent].slice(0, NAMES_MAX);
    for (const [name] of counts) unsent.delete(name);
    nats.connection.publish(own, JSON.stringify(counts));
  }, SHARE_MS);
  timer.unref();

  return {
    counted(name) {
      unsent.set(name, (unsent.get(name) ?? 0) + 1);
    },
    onOthers(given) {
      listener = given;
    },
    close() {
      clearInterval(timer);
      subscription.unsubscribe();
    },
  };
}
