/** Small HTTP servers for tests, in place of the services that our programs use. */
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A server on a free port of loopback. `using` ends it and its connections with its scope. */
export async function serve(listener: RequestListener) {
  const server = createServer(listener).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const stop = async () => void server.close().closeAllConnections();
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { url, stop, [Symbol.dispose]: stop };
}
