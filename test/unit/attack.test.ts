import { brotliCompressSync, gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { leakOf } from '../release/attack.ts';

const KEY = `fs_pro_${'2'.repeat(43)}`;
const answer = (status: number, body: Buffer | string, ...fields: string[]) =>
  Buffer.concat([
    Buffer.from([`HTTP/1.1 ${status} X`, ...fields, '\r\n'].join('\r\n')),
    Buffer.from(body),
  ]);

test.each([
  ['names a store', answer(400, 'ClickHouse')],
  [
    'says so in chunks',
    answer(400, '5\r\nClick\r\n5\r\nHouse\r\n0\r\n\r\n', 'Transfer-Encoding: chunked'),
  ],
  ['says so compressed', answer(400, gzipSync('ClickHouse'), 'Content-Encoding: gzip')],
  ['says so in brotli', answer(400, brotliCompressSync('ClickHouse'), 'Content-Encoding: br')],
  ['repeats the key', answer(401, `${KEY} is not a key`)],
  ['has it in a header', answer(400, '', `X-Key: ${KEY}`)],
  ['makes a key and repeats another', answer(201, `{"key":"fs_pro_new","by":"${KEY}"}`)],
  ['has a secret', answer(404, 'no such file: /data/of/ours')],
])('a response that %s is a leak', (_, bytes) => {
  expect(leakOf(bytes, ['/data/of/ours'])).toBeDefined();
});

test('a response with the key that it created, or with what the client sent, is not a leak', () => {
  expect(leakOf(answer(201, `{"key":"${KEY}","tier":"pro"}`), [])).toBeUndefined();
  expect(leakOf(answer(400, 'limit: not a number: 1e309'), [])).toBeUndefined();
  expect(leakOf(Buffer.alloc(0), [])).toBeUndefined();
});
