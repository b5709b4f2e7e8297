import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { afterEach, describe, expect, test } from 'vitest';
import { connectRpc, RangeLog, Transaction } from '../../ingest/chain/rpc.ts';
import { RpcError, RpcPool } from '../../ingest/chain/rpc-pool.ts';
import receipt from '../fixtures/atlas-0001-receipt.json' with { type: 'json' };
import atlas from '../fixtures/atlas-0001-tx.json' with { type: 'json' };

const closing: (() => Promise<void>)[] = [];

async function serve(answer: RequestListener): Promise<string> {
  const server = createServer(answer).listen(0, '127.0.0.1');
  await once(server, 'listening');
  closing.push(async () => {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/path?key=1`;
}

afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

const CALL = { method: 'a', params: ['ü'] } as const;
const call = (url: string) => new RpcPool([url]).call(CALL, (result) => result);
const LONG = 'ä'.repeat(100_000);

/** The response to one request, as the bytes of its body. */
async function bodyFor(request: IncomingMessage, result: unknown): Promise<Buffer> {
  const { id } = (await json(request)) as { readonly id: number };
  return Buffer.from(JSON.stringify({ jsonrpc: '2.0', id, result }));
}

async function classOf(calling: Promise<unknown>): Promise<string> {
  try {
    await calling;
  } catch (error) {
    if (error instanceof RpcError) return error.class;
    throw error;
  }
  return 'answered';
}

describe('a request to a chain node', () => {
  test('is a POST to the path, with the credentials of the URL', async () => {
    const seen: unknown[] = [];
    const url = await serve(async (request, response) => {
      seen.push(request.method, request.url, request.headers.authorization);
      response.end(await bodyFor(request, 'ok'));
    });
    expect(await call(url.replace('http://', 'http://me:s%20cret@'))).toBe('ok');
    const authorization = `Basic ${Buffer.from('me:s cret').toString('base64')}`;
    expect(seen).toEqual(['POST', '/path?key=1', authorization]);
  });

  test.each([
    ['gzip', gzipSync],
    ['br', brotliCompressSync],
  ])('accepts a response compressed with %s', async (encoding, pack) => {
    const url = await serve(async (request, response) => {
      const body = await bodyFor(request, LONG);
      response.setHeader('content-encoding', encoding).end(pack(body));
    });
    expect(await call(url)).toBe(LONG);
  });

  test('fails if the response breaks off, is a redirect, is an error, or is not JSON', async () => {
    const answers: readonly [string, RequestListener][] = [
      [
        'network',
        (_request, response) => {
          response.setHeader('content-length', 1_000);
          response.write('{"jsonrpc":', () => response.destroy());
        },
      ],
      ['http', (_request, response) => response.writeHead(307, { location: '/other' }).end()],
      ['http', (_request, response) => response.writeHead(503).end('{}')],
      ['rate_limited', (_request, response) => response.writeHead(429).end('slow down')],
      ['malformed', (_request, response) => response.end('<html>')],
      ['shape', (_request, response) => response.end('{"id":{}}')],
    ];
    for (const [expected, answer] of answers) {
      expect(await classOf(call(await serve(answer)))).toBe(expected);
    }
  });

  test('reports the beginning of the provider’s message in one line', async () => {
    const page = `<html>\n  slow ${'x'.repeat(1_000)}`;
    const url = await serve((_request, response) => response.writeHead(503).end(page));
    const error = await call(url).catch((reason: unknown) => reason as Error);
    expect((error as Error).message).toMatch(/^http: status 503: <html> slow x{200,300}$/);
  });

  test.each([
    ['rate_limited', { code: -32005, message: 'limit exceeded' }],
    [
      'rate_limited',
      { code: -32005, message: 'daily request count exceeded, request rate limited' },
    ],
    ['rate_limited', { code: '429', message: '' }],
    ['rate_limited', 'Too many requests'],
    ['rate_limited', { code: -32007, message: '15/second request limit reached' }],
    ['rate_limited', { code: -32000, message: 'exceeded its compute units per second capacity' }],
    ['refused', { code: -32005, message: 'query returned more than 10000 results' }],
    ['refused', { code: -32602, message: 'block range limit exceeded' }],
    ['refused', { code: -32000, message: 'execution reverted' }],
    ['refused', {}],
    ['refused', ''],
    ['refused', false],
  ])('is %s by the error %o, whatever the status is', async (expected, error) => {
    for (const status of [200, 400, 500, 503]) {
      const url = await serve(async (request, response) => {
        const { id } = (await json(request)) as { readonly id: number };
        response.writeHead(status).end(JSON.stringify({ jsonrpc: '2.0', id, error }));
      });
      expect(await classOf(call(url))).toBe(expected);
    }
  });
});

const [log] = receipt.result.logs;
const transaction = atlas.result;
const NOT_HEX = [undefined, 7, {}, '', 'ab', '0xzz', '0x1 '] as const;
const NOT_QUANTITIES = [...NOT_HEX, null, '0x', '0x20000000000001'] as const;
const NOT_DATA = [...NOT_HEX, null, '0xabc'] as const;

describe('the shapes of JSON-RPC', () => {
  test('a log: whole bytes of any case in lower case, and numbers', () => {
    const parsed = RangeLog.parse({
      ...log,
      address: log?.address.toUpperCase().replace('X', 'x'),
    });
    expect(parsed).toEqual({
      address: log?.address.toLowerCase(),
      topics: log?.topics,
      data: log?.data,
      transactionHash: log?.transactionHash,
      logIndex: Number(log?.logIndex),
      blockHash: log?.blockHash,
      blockNumber: Number(log?.blockNumber),
    });
    for (const name of ['data', 'transactionHash', 'blockHash']) {
      for (const value of NOT_DATA) {
        expect(RangeLog.safeParse({ ...log, [name]: value }).success).toBe(false);
      }
    }
    for (const name of ['logIndex', 'blockNumber']) {
      for (const value of NOT_QUANTITIES) {
        expect(RangeLog.safeParse({ ...log, [name]: value }).success).toBe(false);
      }
    }
    for (const topics of [undefined, 'ab', [7], ['0xabc'], [null]]) {
      expect(RangeLog.safeParse({ ...log, topics }).success).toBe(false);
    }
  });

  test('a transaction: a contract creation has no receiver', () => {
    const { hash, from, nonce, input } = transaction;
    const { to: _to, ...creation } = transaction;
    const expected = { hash, from, nonce: Number(nonce), input };
    expect(Transaction.parse(creation)).toEqual(expected);
    expect(Transaction.parse({ ...transaction, to: null })).toEqual({ ...expected, to: null });
    for (const name of ['hash', 'from', 'input']) {
      for (const value of [...NOT_HEX, null]) {
        expect(Transaction.safeParse({ ...transaction, [name]: value }).success).toBe(false);
      }
    }
    for (const value of NOT_QUANTITIES) {
      expect(Transaction.safeParse({ ...transaction, nonce: value }).success).toBe(false);
    }
  });

  test('anything else is an RpcError', async () => {
    const url = await serve(async (request, response) => {
      response.end(await bodyFor(request, answers.shift()));
    });
    const answers: unknown[] = [];
    const rpc = connectRpc(url);
    await fc.assert(
      fc.asyncProperty(fc.jsonValue(), async (value) => {
        answers.push(value, value);
        expect(await classOf(rpc.header(1))).not.toBe('answered');
        expect(await classOf(rpc.blockNumber('latest'))).not.toBe('answered');
      }),
      { numRuns: 50 },
    );
  });
});
