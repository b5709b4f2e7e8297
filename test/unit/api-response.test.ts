import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import express from 'express';
import { describe, expect, test } from 'vitest';
import { Encoded, privateFor, send } from '../../api/http/response.ts';
import { forFile } from '../support/for-file.ts';
import { serve } from '../support/http-server.ts';

const long = { text: 'abc '.repeat(1_000) };
const app = express().disable('etag');
const answers: Readonly<Record<string, Encoded>> = {
  '/long': new Encoded('json', JSON.stringify(long)),
  '/short': new Encoded('json', JSON.stringify({ a: 1 })),
  '/kept': new Encoded('json', JSON.stringify(long), privateFor(5)),
};
for (const [path, answer] of Object.entries(answers)) {
  app.get(path, (request, response) => send(request, response, answer));
}
const server = forFile(() => serve(app));

/** A GET that neither decompresses nor adds headers. */
async function fetchRaw(path: string, headers: Record<string, string> = {}) {
  const request = get(server.url + path, { headers, agent: false });
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  return { response, body: Buffer.concat(await response.toArray()) };
}

describe('send', () => {
  test.each([
    ['gzip', gunzipSync],
    ['br', brotliDecompressSync],
  ])('compresses with %s if the client accepts it', async (coding, decompress) => {
    const { response, body } = await fetchRaw('/long', { 'Accept-Encoding': coding });
    expect(response.headers['content-encoding']).toBe(coding);
    expect(response.headers.vary).toBe('Accept-Encoding');
    expect(body.length).toBeLessThan(500);
    expect(JSON.parse(decompress(body).toString())).toEqual(long);
  });

  test.each([
    ['/long', {}],
    ['/long', { 'Accept-Encoding': 'identity' }],
    ['/long', { 'Accept-Encoding': 'gzip;q=0' }],
    ['/short', { 'Accept-Encoding': 'gzip, br' }],
  ])('sends %s uncompressed for %j', async (path, headers) => {
    const { response, body } = await fetchRaw(path, headers);
    expect(response.headers['content-encoding']).toBeUndefined();
    expect(response.headers['content-type']).toBe('application/json; charset=utf-8');
    expect(body.equals(answers[path]?.body ?? Buffer.alloc(0))).toBe(true);
  });

  test('sends 304 for a matching ETag in any coding, and no ETag for uncached responses', async () => {
    const { response } = await fetchRaw('/kept');
    const etag = String(response.headers.etag);
    expect(response.headers['cache-control']).toBe('private, max-age=5');
    const again = await fetchRaw('/kept', { 'If-None-Match': etag, 'Accept-Encoding': 'gzip' });
    expect([again.response.statusCode, again.body.length]).toEqual([304, 0]);
    expect((await fetchRaw('/long')).response.headers.etag).toBeUndefined();
  });
});
