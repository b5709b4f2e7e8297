/**
 * A TCP proxy in front of a server that can be shut. For clients it looks as if the server was killed, which works for
 * servers that share a process with others. Connections are cut without a close handshake.
 */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

export type Gate = {
  readonly url: string;
  down(): void;
  up(): void;
  close(): Promise<void>;
};

/** Forwards a free port of 127.0.0.1 to the host and port of `target` (http://…). */
export async function startGate(target: string): Promise<Gate> {
  const { hostname, port } = new URL(target);
  const open = new Set<Socket>();
  let isDown = false;
  const server = createServer((client) => {
    if (isDown) {
      client.destroy();
      return;
    }
    const behind = connect(Number(port), hostname);
    const end = () => {
      client.destroy();
      behind.destroy();
      open.delete(client);
    };
    open.add(client);
    for (const socket of [client, behind]) socket.on('error', end).on('close', end);
    client.pipe(behind).pipe(client);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const cut = () => {
    for (const socket of open) socket.destroy();
  };
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    down() {
      isDown = true;
      cut();
    },
    up() {
      isDown = false;
    },
    async close() {
      server.close();
      cut();
      await once(server, 'close');
    },
  };
}
