import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { afterEach, describe, expect, test } from 'vitest';
import { post, TooLongError } from '../../ingest/rpc-http.ts';

const closing: (() => Promise<void>)[] = [];

async function serve(answer: RequestListener): Promise<URL> {
  const server = createServer(answer).listen(0, '127.0.0.1');
  await once(server, 'listening');
  closing.push(async () => {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  });
  return new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/path?key=1`);
}

afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

const options = () => ({ signal: AbortSignal.timeout(10_000), bytesMax: 1_000_000 });
const TEXT = JSON.stringify({ text: 'ä'.repeat(100_000) });

describe('post', () => {
  test('sends the body to the path, and gives the answer', async () => {
    const url = await serve(async (request, response) => {
      const sent = (await buffer(request)).toString();
      response.end(JSON.stringify([request.method, request.url, sent]));
    });
    const { status, text } = await post(url, '{"a":"ü"}', options());
    expect(status).toBe(200);
    expect(JSON.parse(text)).toEqual(['POST', '/path?key=1', '{"a":"ü"}']);
  });

  test.each([
    ['gzip', gzipSync],
    ['br', brotliCompressSync],
  ])('unpacks %s, whose length counts unpacked', async (encoding, pack) => {
    const url = await serve((_request, response) => {
      response.setHeader('content-encoding', encoding).end(pack(TEXT));
    });
    expect((await post(url, '{}', options())).text).toBe(TEXT);
    const short = { ...options(), bytesMax: 10_000 };
    await expect(post(url, '{}', short)).rejects.toThrow(TooLongError);
  });

  test.each([
    ['plain', 'identity', Buffer.from(TEXT)],
    ['packed', 'gzip', gzipSync(TEXT)],
  ])('rejects an answer that breaks off, %s', async (_name, encoding, whole) => {
    const url = await serve((_request, response) => {
      response.setHeader('content-encoding', encoding).setHeader('content-length', whole.length);
      response.write(whole.subarray(0, whole.length / 2), () => response.destroy());
    });
    await expect(post(url, '{}', options())).rejects.toThrow();
  });

  test('tells status and header of a refusal, and asks again over the same connection', async () => {
    const ports = new Set<number | undefined>();
    const url = await serve(({ socket: { remotePort } }, response) => {
      ports.add(remotePort);
      response.writeHead(429, { 'retry-after': '7' }).end('slow down');
    });
    for (let i = 0; i < 3; i++) {
      const { status, headers, text } = await post(url, '{}', options());
      expect([status, headers['retry-after'], text]).toEqual([429, '7', '']);
      // The rest of the answer is read behind the call.
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    expect(ports.size).toBe(1);
  });

  test('ends with the signal while it waits for an answer or for its rest', async () => {
    for (const begin of ['', TEXT.slice(0, 100)]) {
      const url = await serve((_request, response) => {
        if (begin !== '') response.write(begin);
      });
      const signal = AbortSignal.timeout(100);
      await expect(post(url, '{}', { ...options(), signal })).rejects.toThrow();
      expect(signal.aborted).toBe(true);
    }
  });
});
