/** Parts of the client without a server: the parser of event streams, the retry delays, and the types. */

import { setImmediate } from 'node:timers/promises';
import fc from 'fast-check';
import { afterEach, describe, expect, test, vi } from 'vitest';
import type { JsonSchema } from '../../api/service/openapi.ts';
import {
  ApiError,
  backoffMs,
  ConnectionError,
  isTransient,
  pause,
} from '../../apps/client/http.ts';
import { Fillstream } from '../../apps/client/index.ts';
import { type Block, BlockParser, EVENT_TYPES } from '../../apps/client/stream.ts';
import { OPEN_API } from '../../apps/reference/document.ts';

function parsed(...chunks: readonly Uint8Array[]): Block[] {
  const parser = new BlockParser();
  return chunks.flatMap((chunk) => parser.push(chunk));
}

function bytes(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

/** Text without line breaks. */
const line = fc
  .string({ unit: fc.constantFrom(...'ab:0{"} ü雨😀\u2028\0') })
  // A space after the colon is not part of the value.
  .filter((text) => !text.startsWith(' '));

const block = fc.record({
  id: fc.constantFrom('', '0', '28492588'),
  type: fc.constantFrom('', 'order', 'gap'),
  data: fc.array(line, { maxLength: 3 }),
  retryMs: fc.option(fc.nat(), { nil: undefined }),
});

const lineEnd = fc.constantFrom('\n', '\r\n', '\r');

describe('BlockParser', () => {
  test('parses events, however chunks are cut, with any line breaks, byte order marks and comments', () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(block, lineEnd, fc.boolean()), { maxLength: 5 }),
        fc.boolean(),
        fc.array(fc.nat(), { maxLength: 6 }),
        (blocks, hasMark, cuts) => {
          const text = blocks.map(([{ id, type, data, retryMs }, end, hasComment]) => {
            const lines = [
              ...(hasComment ? [': heartbeat', 'unknown: field', ':'] : []),
              ...(id === '' ? [] : [`id: ${id}`]),
              ...(type === '' ? [] : [`event: ${type}`]),
              ...data.map((one) => `data: ${one}`),
              ...(retryMs === undefined ? [] : [`retry: ${retryMs}`]),
            ];
            return lines.map((one) => one + end).join('') + end;
          });
          const whole = bytes((hasMark ? '\ufeff' : '') + text.join(''));
          const at = cuts.map((cut) => cut % (whole.length + 1)).sort((a, b) => a - b);
          const chunks = [0, ...at].map((from, n) => whole.subarray(from, at[n] ?? whole.length));
          const expected = blocks
            .map(([{ data, ...one }]) => ({ ...one, data: data.join('\n') }))
            .filter(({ id, data, retryMs }) => id + data !== '' || retryMs !== undefined);
          expect(parsed(...chunks)).toEqual(expected);
        },
      ),
    );
  });

  test('gives the same result at whichever byte a chunk ends', () => {
    const whole = bytes(
      '\ufeffretry: 2000\r\n\r\nid: 7\revent: order\rdata: {"name":"雨 😀"}\r\r: heartbeat\n\nid:8\ndata\ndata: b\n\n',
    );
    const expected = [
      { id: '', type: '', data: '', retryMs: 2000 },
      { id: '7', type: 'order', data: '{"name":"雨 😀"}', retryMs: undefined },
      { id: '8', type: '', data: '\nb', retryMs: undefined },
    ];
    for (let cut = 0; cut <= whole.length; cut += 1) {
      expect(parsed(whole.subarray(0, cut), whole.subarray(cut))).toEqual(expected);
    }
    expect(parsed(...Array.from(whole, (_, n) => whole.subarray(n, n + 1)))).toEqual(expected);
  });

  test('returns nothing before the empty line that ends a block', () => {
    const parser = new BlockParser();
    expect(parser.push(bytes('id: 7\ndata: a\n'))).toEqual([]);
    expect(parser.push(bytes('\n'))).toHaveLength(1);
  });

  test('ignores an id with a NUL and a retry that is not a number', () => {
    expect(parsed(bytes('id: 7\0\nretry: soon\ndata: a\n\n'))).toEqual([
      { id: '', type: '', data: 'a', retryMs: undefined },
    ]);
  });
});

describe('retries', () => {
  afterEach(() => {
    vi.useRealTimers();
  });

  test('wait longer after each failure, up to 15 s, with jitter', () => {
    const bounds = (failures: number) => {
      const waits = Array.from({ length: 1_000 }, () => backoffMs(failures));
      return [Math.min(...waits), Math.max(...waits)].map((ms) => Math.round(ms / 250) * 250);
    };
    expect([1, 2, 3, 5].map(bounds)).toEqual([
      ...[
        [250, 500],
        [500, 1_000],
        [1_000, 2_000],
        [4_000, 8_000],
      ],
    ]);
    expect([6, 2_000].map(bounds)).toEqual([
      ...[
        [7_500, 15_000],
        [7_500, 15_000],
      ],
    ]);
  });

  test('wait as many seconds as Retry-After says, or until its date', () => {
    vi.useFakeTimers({ now: Date.parse('2026-01-31T12:00:00Z'), toFake: ['Date'] });
    const secondsOf = (text: string) => {
      const headers = { 'Retry-After': text };
      return new ApiError(new Response(null, { status: 503, headers }), {}).retryAfterSeconds;
    };
    const dates = ['Sat, 31 Jan 2026 12:00:07 GMT', 'Sat, 31 Jan 2026 11:00:00 GMT'];
    expect(['', '5', '0', '-1', 'soon', ...dates].map(secondsOf)).toEqual([0, 5, 0, 0, 0, 7, 0]);
  });

  test('do not follow at once upon a wait that is longer than a timer can be', async () => {
    vi.useFakeTimers();
    let isOver = false;
    void pause(2 ** 32, new AbortController().signal).then(() => {
      isOver = true;
    });
    await vi.advanceTimersByTimeAsync(86_400_000);
    expect(isOver).toBe(false);
  });

  test('happen after transient errors, not after rejections', () => {
    const answered = (status: number) => new ApiError(new Response(null, { status }), {});
    expect(isTransient(new ConnectionError('cut'))).toBe(true);
    expect([408, 429, 500, 502, 503, 504].map(answered).every(isTransient)).toBe(true);
    expect([400, 401, 403, 404, 405, 413].map(answered).some(isTransient)).toBe(false);
    expect(isTransient(new TypeError('a bug'))).toBe(false);
  });
});

test('a client rejects an invalid URL, and a key that cannot be sent', () => {
  const url = 'http://127.0.0.1:8080';
  expect(() => new Fillstream({ url: 'localhost', key: 'fs_pro_1' })).toThrow(TypeError);
  expect(() => new Fillstream({ url, key: 'ключ' })).toThrow(TypeError);
  expect(new Fillstream({ url, key: 'fs_pro_1' })).toBeInstanceOf(Fillstream);
});

test('a list whose error nobody has awaited yet does not end the program', async () => {
  const fetch = async () => new Response(null, { status: 404 });
  const list = new Fillstream({ url: 'http://127.0.0.1:8080', fetch }).markets();
  // Unhandled rejections are reported by now.
  await setImmediate();
  await expect(list).rejects.toThrow(ApiError);
});

describe('types', () => {
  test('name every event of the streams', () => {
    const streams = ['/v1/stream/orders', '/streams/{id}'].map((path) => {
      const schema = OPEN_API.paths[path]?.get?.responses[200]?.content?.['text/event-stream'];
      return (schema?.itemSchema?.oneOf ?? []).map((event) => (event as JsonSchema).title);
    });
    expect([...new Set(streams.flat())].sort()).toEqual([...EVENT_TYPES].sort());
  });
});
