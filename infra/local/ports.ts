/** Ports on 127.0.0.1. */
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';

/**
 * Systems give ports from 32,768 or 49,152 on to outgoing connections. One of these, in the moment in which a server is
 * restarted, would keep the server's port; even its own clients, while they try to reach it, can be given it.
 */
const PORTS = { least: 20_000, beyond: 32_768 };

/** A port that was free a moment ago, and that no outgoing connection is given. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(PORTS.least, PORTS.beyond);
    if (!(await isPortTaken(port))) return port;
  }
}

/** Whether a program listens on the port. */
export async function isPortTaken(port: number): Promise<boolean> {
  try {
    const server = createServer().listen(port, '127.0.0.1');
    await once(server, 'listening');
    server.close();
    await once(server, 'close');
    return false;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EADDRINUSE') return true;
    throw error;
  }
}
