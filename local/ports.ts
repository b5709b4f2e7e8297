/** Ports on 127.0.0.1. */
import { randomInt } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { createServer } from 'node:net';

/**
 * Outgoing connections get ports from 32,768 or 49,152 upwards, so servers stay below: otherwise a connection could
 * take a server's port during its restart, even one of its own clients that is trying to reconnect.
 */
const PORTS = { min: 20_000, end: 32_768 };

/**
 * A port that was free a moment ago and that no outgoing connection gets. No other call, in any process, returns it
 * until this process ends, because the server may start to listen much later.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(PORTS.min, PORTS.end);
    if (await reservePort(port)) return port;
  }
}

/** Whether the port is free. If so, it is reserved until this process ends. */
export async function reservePort(port: number): Promise<boolean> {
  return (await reserve(port)) && !(await isPortTaken(port));
}

/** Reserves the port among our processes by binding the UDP port of the same number. */
async function reserve(port: number): Promise<boolean> {
  const socket = createSocket('udp4').unref();
  socket.bind({ port, address: '127.0.0.1', exclusive: true });
  return isFree(once(socket, 'listening'));
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
