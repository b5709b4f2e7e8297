/**
 * A proxy on loopback between the projector and ClickHouse that reports when an insert into `bookings` begins, so
 * that a kill can hit it. Forwards bytes unchanged; when one side of a connection ends, so does the other.
 */
import { connect, createServer, type Socket } from 'node:net';

/** Matches the head of the request, which comes first. */
const INSERT = /^POST \S*INSERT(?:\+|%20)INTO(?:\+|%20)bookings/;

export type InsertWatch = {
  readonly url: string;
  /** Resolves when the next insert begins. */
  readonly next: () => Promise<void>;
  readonly close: () => void;
};

export async function watchInserts(target: string): Promise<InsertWatch> {
  const url = new URL(target);
  const { hostname, port } = url;
  const sockets = new Set<Socket>();
  let began = Promise.withResolvers<void>();
  const server = createServer((client) => {
    const upstream = connect(Number(port), hostname);
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on('close', () => sockets.delete(socket));
      socket.on('error', () => undefined);
    }
    client.on('close', () => upstream.destroy());
    upstream.on('close', () => client.destroy());
    client.on('data', (chunk) => {
      if (INSERT.test(chunk.toString('latin1', 0, 4_096))) {
        began.resolve();
        began = Promise.withResolvers();
      }
    });
    client.pipe(upstream);
    upstream.pipe(client);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('not a TCP server');
  url.port = String(address.port);
  return {
    url: url.href,
    next: () => began.promise,
    close() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}
