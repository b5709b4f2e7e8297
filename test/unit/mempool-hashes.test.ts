import { afterEach, describe, expect, test, vi } from 'vitest';
import { HashLookups } from '../../ingest/pending/mempool.ts';

const ended: AbortController[] = [];
afterEach(() => {
  vi.useRealTimers();
  for (const one of ended.splice(0)) one.abort();
});

/** Lookups at a node with these responses; the last one repeats. */
function setUp(...responses: (object | Error | undefined)[]) {
  const abort = new AbortController();
  ended.push(abort);
  const requested: string[] = [];
  const bodies: object[] = [];
  const failures: unknown[] = [];
  let dropped = 0;
  const lookups = new HashLookups({
    node: {
      async transaction(hash) {
        requested.push(hash);
        const response = responses.length > 1 ? responses.shift() : responses[0];
        if (response instanceof Error) throw response;
        return response;
      },
    },
    signal: abort.signal,
    onBody: (body) => bodies.push(body),
    onTooOld: () => {
      dropped += 1;
    },
    onFailure: (error) => failures.push(error),
  });
  return { lookups, requested, bodies, failures, dropped: () => dropped };
}

describe('HashLookups', () => {
  test('requests each hash once', async () => {
    const { lookups, requested, bodies } = setUp({ hash: 'a' }, { hash: 'b' });
    await Promise.all(['a', 'b', 'a', 'b'].map((hash) => lookups.add(hash)));
    await lookups.add('a');
    expect(requested).toEqual(['a', 'b']);
    expect(bodies).toEqual([{ hash: 'a' }, { hash: 'b' }]);
  });

  test('repeats the request if the node does not have the body, and after a failure', async () => {
    const { lookups, requested, bodies, failures } = setUp(undefined, new Error('down'), {
      hash: 'a',
    });
    await lookups.add('a');
    expect(requested).toEqual(['a', 'a', 'a']);
    expect(bodies).toEqual([{ hash: 'a' }]);
    expect(failures.length).toBe(1);
  });

  test('drops a hash whose body is missing for two blocks', async () => {
    vi.useFakeTimers({ toFake: ['performance'] });
    const { lookups, requested, bodies, dropped } = setUp(undefined);
    const added = lookups.add('a');
    await expect.poll(() => requested.length).toBeGreaterThan(1);
    expect(dropped()).toBe(0);
    vi.advanceTimersByTime(4_001);
    await added;
    expect(dropped()).toBe(1);
    expect(bodies).toEqual([]);
  });
});
