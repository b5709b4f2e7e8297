import { describe, expect, test } from 'vitest';
import { createAnswers } from '../../api/http/answers.ts';
import { Encoded } from '../../api/http/response.ts';

const BYTES_MAX = 100_000;

/** A cache whose computations the test completes. */
function staged() {
  const clock = { nowMs: 0 };
  const answers = createAnswers({ bytesMax: BYTES_MAX, now: () => clock.nowMs });
  const begun: {
    readonly signal: AbortSignal;
    readonly end: (text: string) => void;
    readonly fail: (error: Error) => void;
  }[] = [];
  const get = async ({
    key = 'a',
    version = '',
    signal = new AbortController().signal,
  }: {
    key?: string;
    version?: string;
    signal?: AbortSignal;
  } = {}) => {
    const compute = (abandoned: AbortSignal) => {
      const { promise, reject, resolve } = Promise.withResolvers<Encoded>();
      abandoned.addEventListener('abort', () => reject(abandoned.reason));
      const end = (text: string) => resolve(new Encoded('json', text));
      begun.push({ signal: abandoned, end, fail: reject });
      return promise;
    };
    const encoded = await answers.get({ key, version, signal, compute, ageMsMax: 1_000 });
    return encoded.body.toString();
  };
  /** Completes a computation with a new text, which it returns. */
  const answered = async (key: string) => {
    const text = `answer ${begun.length + 1}`;
    const asked = get({ key });
    begun.at(-1)?.end(text);
    return await asked;
  };
  return { answers, answered, begun, clock, get };
}

describe('a shared response', () => {
  test('is not waited for by a client that has already left, which is not counted', async () => {
    const { begun, get } = staged();
    const leaving = new AbortController();
    const waiting = Promise.allSettled([get({ signal: leaving.signal })]);
    await expect(get({ signal: AbortSignal.abort(new Error('gone')) })).rejects.toThrow('gone');
    leaving.abort();
    await waiting;
    expect(begun[0]?.signal.aborted).toBe(true);
  });

  test('is reused until one second after the start of its computation', async () => {
    const { begun, clock, get } = staged();
    const first = get();
    clock.nowMs = 400;
    begun[0]?.end('one');
    await first;
    clock.nowMs = 999;
    expect(await get()).toBe('one');
    clock.nowMs = 1_000;
    const second = get();
    begun[1]?.end('two');
    expect(await second).toBe('two');
  });

  test('is computed again for another version', async () => {
    const { begun, get } = staged();
    const first = get({ version: '1' });
    begun[0]?.end('one');
    expect([await first, await get({ version: '1' })]).toEqual(['one', 'one']);
    const second = get({ version: '2' });
    begun[1]?.end('two');
    expect(await second).toBe('two');
  });

  test('that fails rejects all waiting requests, and no later ones', async () => {
    const { begun, get } = staged();
    const asked = Promise.allSettled([get(), get()]);
    begun[0]?.fail(new Error('broken'));
    expect((await asked).map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    const again = get();
    begun[1]?.end('whole');
    expect(await again).toBe('whole');
  });

  test('remains the last one of its key while newer computations fail', async () => {
    const { answered, answers, begun, clock, get } = staged();
    await answered('a');
    clock.nowMs = 5_000;
    const failing = get();
    begun[1]?.fail(new Error('broken'));
    await expect(failing).rejects.toThrow('broken');
    expect(answers.last('a', 5_000)?.body.toString()).toBe('answer 1');
    clock.nowMs = 5_001;
    expect(answers.last('a', 5_000)).toBeUndefined();
  });
});

test('responses stay within the byte limit; the least recently used are evicted first', async () => {
  const { answered, begun, get } = staged();
  const each = new Encoded('json', 'answer 1').bytesMax;
  // The keys take some bytes, too.
  const count = Math.floor(BYTES_MAX / each) - 5;
  expect(count).toBeGreaterThan(50);
  for (let n = 0; n < count; n++) await answered(`key ${n}`);
  // A request makes the first one recently used.
  expect(await get({ key: 'key 0' })).toBe('answer 1');
  for (let n = 0; n < 10; n++) await answered(`more ${n}`);
  expect(await get({ key: 'key 0' })).toBe('answer 1');
  const before = begun.length;
  await answered('key 1');
  expect(begun).toHaveLength(before + 1);
  expect(await get({ key: `key ${count - 1}` })).toBe(`answer ${count}`);
  const large = 'x'.repeat(BYTES_MAX);
  const asked = get({ key: 'large' });
  begun.at(-1)?.end(large);
  expect(await asked).toBe(large);
  expect(await get({ key: 'key 0' })).toBe('answer 1');
});
