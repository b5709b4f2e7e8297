import { describe, expect, test } from 'vitest';
import { HashLookups } from '../../ingest/mempool.ts';

/** Lookups against a node whose answers the test resolves. */
function setUp() {
  const asked: {
    hashes: readonly string[];
    answer: PromiseWithResolvers<(object | undefined)[]>;
  }[] = [];
  const bodies: object[] = [];
  const dropped: [string, number][] = [];
  const failures: unknown[] = [];
  let heard: () => void = () => undefined;
  const lookups = new HashLookups({
    node: {
      transactions(hashes) {
        const answer = Promise.withResolvers<(object | undefined)[]>();
        asked.push({ hashes, answer });
        heard();
        return answer.promise;
      },
    },
    onBody: (body) => bodies.push(body),
    onDropped: (reason, count) => dropped.push([reason, count]),
    onFailure: (error) => failures.push(error),
  });
  const calls = async (count: number) => {
    while (asked.length < count) {
      await new Promise<void>((resolve) => {
        heard = resolve;
      });
    }
    return asked;
  };
  return { lookups, calls, asked, bodies, dropped, failures };
}

describe('HashLookups', () => {
  test('requests hashes of the same tick in one batch, and no hash twice', async () => {
    const { lookups, calls, bodies } = setUp();
    for (const hash of ['a', 'b', 'a', 'b']) lookups.add(hash);
    const [call] = await calls(1);
    expect(call?.hashes).toEqual(['a', 'b']);
    call?.answer.resolve([{ hash: 'a' }, { hash: 'b' }]);
    lookups.add('c');
    const [, later] = await calls(2);
    expect(later?.hashes).toEqual(['c']);
    expect(bodies).toEqual([{ hash: 'a' }, { hash: 'b' }]);
  });

  test('repeats the request if the node lacks the body, and after a failure', async () => {
    const { lookups, calls, failures } = setUp();
    lookups.add('a');
    (await calls(1))[0]?.answer.resolve([undefined]);
    (await calls(2))[1]?.answer.reject(new Error('down'));
    const [, , third] = await calls(3);
    expect(third?.hashes).toEqual(['a']);
    expect(failures.length).toBe(1);
  });

  test('keeps at most 4 batches of 100 in flight and 10,000 hashes waiting; counts the rest', async () => {
    const { lookups, calls, asked, dropped } = setUp();
    for (let i = 0; i < 10_010; i += 1) lookups.add(`${i}`);
    await calls(4);
    await new Promise(setImmediate);
    expect(asked.map(({ hashes }) => hashes.length)).toEqual([100, 100, 100, 100]);
    expect(dropped).toEqual(Array.from({ length: 10 }, () => ['too_many', 1]));
  });
});
