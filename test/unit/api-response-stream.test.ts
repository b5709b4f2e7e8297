import express from 'express';
import pino from 'pino';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { problemHandler, unavailable } from '../../api/http/errors.ts';
import { type Encoding, encodeStream, send } from '../../api/http/response.ts';
import { forFile } from '../support/for-file.ts';
import { serve } from '../support/http-server.ts';

const row = { text: 'abc "quoted", and more; '.repeat(40) };
const schema = z.object({ total_count: z.int(), rows: z.array(z.object({ text: z.string() })) });
const HOW: Encoding = {
  ...{ format: 'json', schema, list: 'rows' },
  ...{ maxAgeSeconds: null, createdUnder: null, asOfMs: undefined },
};

/** `count` rows, optionally followed by a failure. */
async function* rows(count: number, failure?: Error) {
  for (let i = 0; i < count; i++) yield row;
  if (failure !== undefined) throw failure;
}

let left = 0;
const logged: string[] = [];
const app = express().disable('etag');
app.get('/:count/:fails/:format', async (request, response) => {
  const { count, fails, format } = request.params;
  async function* counted() {
    try {
      yield* rows(Number(count), fails === 'yes' ? unavailable('the store is gone') : undefined);
    } finally {
      left++;
    }
  }
  const how: Encoding = { ...HOW, format: format === 'csv' ? 'csv' : 'json' };
  const answer = { total_count: Number(count), rows: [] };
  await send(request, response, await encodeStream(answer, counted(), 'next', how));
});
const logger = pino({ level: 'error' }, { write: (line: string) => void logged.push(line) });
app.use(problemHandler(logger));
const server = forFile(() => serve(app));

describe('a streamed list', () => {
  test.each(['identity', 'gzip', 'br'])('is complete in %s, short or long', async (coding) => {
    for (const count of [0, 1, 5_000]) {
      const response = await fetch(`${server.url}/${count}/no/json`, {
        headers: { 'Accept-Encoding': coding },
      });
      expect(response.headers.get('x-total-count')).toBe(String(count));
      expect(response.headers.get('link')).toBe(`</${count}/no/json?cursor=next>; rel="next"`);
      expect(response.headers.get('content-length') === null).toBe(count === 5_000);
      const body = await response.json();
      expect(body).toEqual({ total_count: count, rows: Array(count).fill(row) });
    }
  });

  test('is complete as CSV', async () => {
    const text = await (await fetch(`${server.url}/5000/no/csv`)).text();
    const cell = `"${row.text.replaceAll('"', '""')}"`;
    expect(text).toBe(`text\r\n${`${cell}\r\n`.repeat(5_000)}`);
  });

  test('is an error response if it fails before anything is sent', async () => {
    const response = await fetch(`${server.url}/3/yes/json`);
    expect([response.status, await response.json()]).toMatchObject([503, { error: 'unavailable' }]);
  });

  test('is aborted and logged if it fails later, so that no client mistakes it for complete', async () => {
    const before = logged.length;
    const response = await fetch(`${server.url}/5000/yes/json`);
    expect(response.status).toBe(200);
    await expect(response.text()).rejects.toThrow();
    expect(logged.slice(before).join()).toContain('the store is gone');
  });

  test('stops reading when its client disconnects, without logging an error', async () => {
    const [before, reads] = [logged.length, left];
    const gone = new AbortController();
    const response = await fetch(`${server.url}/5000000/no/json`, { signal: gone.signal });
    await response.body?.getReader().read();
    gone.abort();
    while (left === reads) await new Promise((done) => setTimeout(done, 5));
    expect(logged.length).toBe(before);
  });

  test('has no body for HEAD', async () => {
    const response = await fetch(`${server.url}/5000/no/json`, { method: 'HEAD' });
    expect([response.status, await response.text()]).toEqual([200, '']);
  });
});
