/**
 * Tells the other api processes which requests this one counted, so that a rate holds for an account
 * over all of them. Each process sends what it counted every SHARE_MS, over NATS without JetStream: a
 * message that is lost while NATS is away costs the exactness of that moment and nothing else.
 */

import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import type { Nats } from '../infra/nats.ts';

const SUBJECT = 'fillstream.api.counted';
const SHARE_MS = 50;
/** Bounds the message: what does not fit goes with the next. */
const NAMES_MAX = 5_000;

const Message = z.object({ from: z.string(), counts: z.record(z.string(), z.int().min(1)) });

export type SharedCounts = {
  /** One request was counted here. */
  counted(name: string): void;
  /** Is told of what others counted; set once. */
  onOthers(listener: (name: string, count: number) => void): void;
  close(): void;
};

export function shareCounts(nats: Pick<Nats, 'connection' | 'connected'>): SharedCounts {
  const self = randomUUID();
  const unsent = new Map<string, number>();
  let listener: (name: string, count: number) => void = () => undefined;

  const subscription = nats.connection.subscribe(SUBJECT, {
    callback: (error, message) => {
      if (error !== null) return;
      const parsed = Message.safeParse(message.json());
      if (!parsed.success || parsed.data.from === self) return;
      for (const [name, count] of Object.entries(parsed.data.counts)) listener(name, count);
    },
  });

  const timer = setInterval(() => {
    // Kept while NATS is away: the sum is right again when it is back.
    if (unsent.size === 0 || !nats.connected) return;
    const counts = Object.fromEntries([...unsent].slice(0, NAMES_MAX));
    for (const name of Object.keys(counts)) unsent.delete(name);
    nats.connection.publish(SUBJECT, JSON.stringify({ from: self, counts }));
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
