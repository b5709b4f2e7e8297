import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { describe, expect, test } from 'vitest';
import { freePort } from '../../local/ports.ts';

describe('a free port', () => {
  test('is returned only once, even if nothing listens on it', async () => {
    const ports = new Set<number>();
    for (let n = 0; n < 300; n += 1) ports.add(await freePort());
    expect(ports.size).toBe(300);
  });

  test('is reserved for all processes until this one ends', async () => {
    const other = createSocket('udp4').bind({ port: await freePort(), address: '127.0.0.1' });
    await expect(once(other, 'listening')).rejects.toMatchObject({ code: 'EADDRINUSE' });
  });
});
