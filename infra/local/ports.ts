/** Ports on 127.0.0.1. */
import { randomInt } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { createServer } from 'node:net';

/**
 * Systems give ports from 32,768 or 49,152 on to outgoing connections. One of these, in the moment in which a server is
 * restarted, would keep the server's port; even its own clients, while they try to reach it, can be given it.
 */
const PORTS = { least: 20_000, beyond: 32_768 };

/**
 * A port that was free a moment ago, that no outgoing connection is given, and that no other call returns until this
 * process ends: a server may listen on it only many seconds later.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(PORTS.least, PORTS.beyond);
    if ((await reserve(port)) && !(await isPortTaken(port))) return port;
  }
}

/** Takes the UDP port of the same number, which nobody else needs, as a sign for all other processes. */
async function reserve(port: number): Promise<boolean> {
  const sign = createSocket('udp4').unref();
  sign.bind({ port, address: '127.0.0.1', exclusive: true });
  return isFree(once(sign, 'listening'));
}

/** Whether a program listens on the port. */
export async function isPortTaken(port: number): Promise<boolean> {
  const server = createServer().listen(port, '127.0.0.1');
  if (!(await isFree(once(server, 'listening')))) return true;
  server.close();
  await once(server, 'close');
  return false;
}

async function isFree(listening: Promise<unknown>): Promise<boolean> {
  try {
    await listening;
    return true;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EADDRINUSE') return false;
    throw error;
  }
}
