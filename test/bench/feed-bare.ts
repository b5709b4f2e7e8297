/**
 * The limit that the feed is compared with: node:http alone, which writes the same bytes to the same
 * sockets in a loop. It knows what to write to whom beforehand, filters nothing, keeps nothing and
 * bounds nothing.
 */
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { FEED_HEADERS } from '../../api/feed/connection.ts';
import { timeHash } from './feed-load.ts';

/** Writes for some seconds; a group is what one filter wants, of `groups` alike. */
export type BareOrder = {
  readonly frame: string;
  readonly eventsPerSecond: number;
  readonly seconds: number;
  readonly groups: number;
};

const TICK_MS = 10;
const HASH = /0x[0-9a-f]{64}/;

const responses: ServerResponse[][] = [];
let listeners = 0;

const server = createServer((_request, response) => {
  response.writeHead(200, FEED_HEADERS);
  response.write('retry: 2000\n\n');
  // In the order of coming, as the filters are given out.
  const group = listeners % 100;
  listeners += 1;
  responses[group] = [...(responses[group] ?? []), response];
});
server.listen(0, '127.0.0.1', () => {
  process.send?.({ port: (server.address() as AddressInfo).port });
});
process.on('message', (order: BareOrder) => void write(order));
process.on('disconnect', () => process.exit(0));

async function write({ frame, eventsPerSecond, seconds, groups }: BareOrder): Promise<void> {
  const startedAtMs = performance.now();
  const [before = '', after = ''] = frame.split(HASH, 2);
  let written = 0;
  for (;;) {
    const elapsed = (performance.now() - startedAtMs) / 1_000;
    if (elapsed > seconds) break;
    for (; written < elapsed * eventsPerSecond; written += 1) {
      const bytes = Buffer.from(before + timeHash() + after);
      const meant = groups === 1 ? responses : [responses[written % groups] ?? []];
      for (const group of meant) for (const response of group ?? []) response.write(bytes);
    }
    await new Promise((resolve) => setTimeout(resolve, TICK_MS));
  }
  process.send?.('written');
}
