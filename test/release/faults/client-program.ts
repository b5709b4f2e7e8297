/**
 * A program that uses the client, for fault runs: iterates the streams that its parent requests, and sends the number
 * of each match, each gap and, on request, its memory usage.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { Fillstream } from '../../../apps/client/index.ts';

/** From the parent. */
export type Order =
  | { readonly listen: number; readonly url: string; readonly key: string; readonly target: string }
  | { readonly stop: number }
  | { readonly measure: true };

/** To the parent; `of` is the number of the stream. */
export type Report =
  | { readonly of: number; readonly seen: number | 'gap' }
  | { readonly of: number; readonly cursor: string }
  | { readonly of: number; readonly over: string }
  | { readonly heapBytes: number };

const stops = new Map<number, AbortController>();

function report(message: Report): void {
  process.send?.(message);
}

async function listen(of: number, url: string, key: string, target: string): Promise<void> {
  const stop = new AbortController();
  stops.set(of, stop);
  const fillstream = new Fillstream({ url, key, signal: stop.signal });
  const { pathname, searchParams } = new URL(target, url);
  const [, streams, id = ''] = pathname.split('/');
  searchParams.delete('format');
  const query = Object.fromEntries(searchParams);
  const events = streams === 'streams' ? fillstream.stream(id) : fillstream.feed(query);
  void (async () => {
    while (events.cursor === '') await delay(20);
    report({ of, cursor: events.cursor });
  })();
  for await (const { type, data } of events) {
    if (type === 'gap') report({ of, seen: 'gap' });
    if (type === 'order' || type === 'tx') report({ of, seen: Number(data.tx_hash) });
  }
}

process.on('message', (order: Order) => {
  if ('measure' in order) {
    globalThis.gc?.();
    report({ heapBytes: process.memoryUsage().heapUsed });
  } else if ('stop' in order) stops.get(order.stop)?.abort(new Error('stopped'));
  else {
    listen(order.listen, order.url, order.key, order.target).catch((error: unknown) => {
      report({ of: order.listen, over: String(error) });
    });
  }
});
