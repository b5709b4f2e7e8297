import { describe, expect, test } from 'vitest';
import { RpcError } from '../../ingest/chain/rpc-pool.ts';
import { refuses, shapeOf } from '../../ingest/pending/mempool.ts';

describe('shapeOf', () => {
  test.each([
    [`0x${'ab'.repeat(32)}`, 'hash'],
    ['0x12', 'other'],
    [{ hash: '0x1', to: null }, 'body'],
    [{}, 'other'],
    [null, 'other'],
    [7, 'other'],
  ])('%j is %s', (push, shape) => {
    expect(shapeOf(push)).toBe(shape);
  });
});

describe('refuses', () => {
  test.each([-32601, -32602, -32600, -32004, -32000])('code %i means unsupported', (code) => {
    expect(refuses(new RpcError('refused', 'no', { code }))).toBe(true);
  });

  test.each([-32005, -32603, 429])('code %i is transient', (code) => {
    expect(refuses(new RpcError('refused', 'later', { code }))).toBe(false);
  });

  test('a lost connection is not a refusal', () => {
    expect(refuses(new RpcError('network', 'gone'))).toBe(false);
  });
});
