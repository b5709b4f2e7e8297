/**
 * The reference for the feed: node:http alone, which writes the same bytes to the same sockets in a
 * loop. It knows in advance what to write to which socket, and has no filters, history or limits. With the
 * argument `better-sse`, it broadcasts the same events to a channel of better-sse instead.
 */
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createChannel, createSession } from 'better-sse';
import { FEED_HEADERS } from '../../../api/feed/connection.ts';
import { partsOf } from '../../../api/feed/encode.ts';
import { paced, timeHash } from './paced.ts';

/** Writes for some seconds; each event goes to one in `groups` listeners, in turn. */
export type BareOrder = {
  readonly frame: string;
  readonly eventsPerSecond: number;
  readonly seconds: number;
  readonly groups: number;
};

const HASH = /0x[0-9a-f]{64}/;

const responses: ServerResponse[] = [];
const channel = process.argv[2] === 'better-sse' ? createChannel() : undefined;
/** JSON after a space, which the load generator expects. */
const serializer = (data: unknown) => ` ${JSON.stringify(data)}`;

const server = createServer((request, response) => {
  if (channel !== undefined) {
    void createSession(request, response, { serializer }).then((session) =>
      channel.register(session),
    );
    return;
  }
  response.writeHead(200, FEED_HEADERS);
  response.write('retry: 2000\n\n');
  responses.push(response);
});
server.listen(0, '127.0.0.1', () => {
  process.send?.({ port: (server.address() as AddressInfo).port });
});
process.on('message', (order: BareOrder) => void write(order));
process.on('disconnect', () => process.exit(0));

async function write({ frame, eventsPerSecond, seconds, groups }: BareOrder): Promise<void> {
  const [before = '', after = ''] = frame.split(HASH, 2);
  const { event, data } = partsOf(frame);
  const [, ...members] = data as readonly unknown[];
  const written = await paced(eventsPerSecond, seconds, (n) => {
    if (channel !== undefined) return channel.broadcast([timeHash(), ...members], event);
    const bytes = Buffer.from(before + timeHash() + after);
    for (let at = n % groups; at < responses.length; at += groups) responses[at]?.write(bytes);
  });
  process.send?.(written);
}
