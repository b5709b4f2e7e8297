/**
 * New heads and pending transactions pushed by the chain node over WebSocket. A connection that
 * closes, fails or goes silent is replaced; what was missed meanwhile the blocks bring. Nothing here
 * is trusted to be complete, in order or unique.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import { createClient, webSocket } from 'viem';
import { z } from 'zod';
import { Transaction } from './rpc.ts';

/** Longest time without a new head: blocks come every two seconds. */
const SILENCE_MS_MAX = 30_000;
const RECONNECT_MS = 500;

const Head = z.object({ number: z.string().regex(/^0x[0-9a-f]+$/) });

export type SubscriptionOptions = {
  readonly url: string;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  readonly onHead: (number: number) => void;
  /** A pending transaction with its body; a node that pushes hashes only is counted as unusable. */
  readonly onPending: (transaction: Transaction) => void;
};

/** Stays subscribed until the signal aborts. */
export async function subscribe(options: SubscriptionOptions): Promise<void> {
  const { logger, signal } = options;
  while (!signal.aborted) {
    const reason = await subscribeOnce(options).catch((error: unknown) => error);
    if (signal.aborted) return;
    logger.warn({ err: reason }, 'chain subscription lost, subscribing again');
    await delay(RECONNECT_MS, undefined, { signal }).catch(() => undefined);
  }
}

/** Resolves with the reason when the subscription is over. */
async function subscribeOnce({ url, signal, onHead, onPending, logger }: SubscriptionOptions) {
  const over = Promise.withResolvers<unknown>();
  const client = createClient({
    transport: webSocket(url, { reconnect: false, keepAlive: { interval: 5_000 }, retryCount: 0 }),
  });
  let timer = setTimeout(() => over.resolve(new Error('silent')), SILENCE_MS_MAX);
  const heard = () => {
    clearTimeout(timer);
    timer = setTimeout(() => over.resolve(new Error('silent')), SILENCE_MS_MAX);
  };
  const onAbort = () => over.resolve(undefined);
  signal.addEventListener('abort', onAbort, { once: true });
  const onError = (error: unknown) => over.resolve(error);
  try {
    // viem types only the hash form of pending transactions; nodes push bodies when asked.
    const subscription = client.transport.subscribe as unknown as (call: {
      readonly params: readonly unknown[];
      readonly onData: (data: { readonly result: unknown }) => void;
      readonly onError: (error: unknown) => void;
    }) => Promise<unknown>;
    await subscription({
      params: ['newHeads'],
      onData: ({ result }) => {
        heard();
        const head = Head.safeParse(result);
        if (head.success) onHead(Number(head.data.number));
        else logger.warn({ issue: head.error.message }, 'malformed head');
      },
      onError,
    });
    await subscription({
      params: ['newPendingTransactions', true],
      onData: ({ result }) => {
        const transaction = Transaction.safeParse(result);
        if (transaction.success) onPending(transaction.data);
        else logger.warn({ issue: transaction.error.message }, 'malformed pending transaction');
      },
      onError,
    });
    return await over.promise;
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', onAbort);
    const socket = await client.transport.getRpcClient().catch(() => undefined);
    socket?.close();
  }
}
