// What the api may remember of a row that changes: never less than what the store had when it was asked.
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Memory } from '../../api/analytics/memory.ts';

type Row = { readonly sequence: bigint };

/** A store that a projector fills from a log some time after the memory saw the log, or before. */
class World {
  isLive = true;
  readonly memory = new Memory<Row>(() => this.isLive);
  readonly #log: string[] = [];
  readonly #stored = new Map<string, Row>();
  #seen = 0;
  #projected = 0;
  reads = 0;

  publish(key: string): void {
    this.#log.push(key);
  }

  see(): void {
    const key = this.#log[this.#seen];
    if (key !== undefined) this.memory.changed(key, ++this.#seen);
  }

  project(): void {
    const key = this.#log[this.#projected];
    if (key !== undefined) this.#stored.set(key, { sequence: BigInt(++this.#projected) });
  }

  stored(key: string): bigint {
    return this.#stored.get(key)?.sequence ?? 0n;
  }

  /** Of the facts that the memory saw, the newest that is stored. */
  known(key: string): bigint {
    const both = Math.min(this.#seen, this.#projected);
    return BigInt(this.#log.slice(0, both).lastIndexOf(key) + 1);
  }

  /** A read whose answer arrives when `arrive` is called, with what was stored when it began. */
  begin(key: string) {
    const { promise, resolve } = Promise.withResolvers<void>();
    const answer = this.memory.read([key], async (keys) => {
      this.reads += 1;
      const rows = new Map(keys.flatMap((one) => [...this.#stored].filter(([k]) => k === one)));
      await promise;
      return rows;
    });
    return { answer: answer.then((rows) => rows.get(key)?.sequence ?? 0n), arrive: resolve };
  }

  async read(key: string): Promise<bigint> {
    const { answer, arrive } = this.begin(key);
    arrive();
    return await answer;
  }
}

const key = fc.constantFrom('a', 'b');
const step = fc.oneof(
  ...(['publish', 'read', 'begin'] as const).map((kind) =>
    fc.record({ kind: fc.constant(kind), key }),
  ),
  ...(['see', 'project', 'arrive'] as const).map((kind) =>
    fc.record({ kind: fc.constant(kind), key }),
  ),
);

describe('Memory', () => {
  test('gives no row older than what was seen and stored when it was asked', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
        const world = new World();
        const under: ReturnType<World['begin']>[] = [];
        for (const { kind, key } of steps) {
          if (kind === 'publish') world.publish(key);
          else if (kind === 'see') world.see();
          else if (kind === 'project') world.project();
          else if (kind === 'begin') under.push(world.begin(key));
          else if (kind === 'arrive') {
            const one = under.shift();
            one?.arrive();
            await one?.answer;
          } else {
            const least = world.known(key);
            expect(await world.read(key)).toBeGreaterThanOrEqual(least);
          }
        }
        for (const one of under) one.arrive();
        await Promise.all(under.map(({ answer }) => answer));
        for (let i = 0; i < steps.length; i++) {
          world.see();
          world.project();
        }
        for (const key of ['a', 'b']) expect(await world.read(key)).toBe(world.stored(key));
      }),
      { numRuns: 2_000 },
    );
  });

  test('asks once for a row, and once for what is not there, until a fact comes', async () => {
    const world = new World();
    world.publish('a');
    world.see();
    world.project();
    for (let i = 0; i < 3; i++) {
      expect(await world.read('a')).toBe(1n);
      expect(await world.read('b')).toBe(0n);
    }
    expect(world.reads).toBe(2);
    world.publish('b');
    world.see();
    // Not stored yet: what is read now is of before the fact, and is not remembered.
    expect(await world.read('b')).toBe(0n);
    world.project();
    expect(await world.read('b')).toBe(2n);
    expect(await world.read('b')).toBe(2n);
    expect(world.reads).toBe(4);
  });

  test('remembers nothing while it is off, nor what came in then', async () => {
    const world = new World();
    const early = world.begin('a');
    world.isLive = false;
    early.arrive();
    await early.answer;
    await world.read('a');
    await world.read('a');
    expect(world.reads).toBe(3);
    world.isLive = true;
    await world.read('a');
    await world.read('a');
    expect(world.reads).toBe(4);
  });

  test('keeps so many keys, the newest ones', async () => {
    const memory = new Memory<Row>(() => true, 3);
    const asked: string[] = [];
    const read = (keys: readonly string[]) =>
      memory.read(keys, async (missing) => {
        asked.push(...missing);
        return new Map();
      });
    await read(['a', 'b', 'c', 'd']);
    await read(['b', 'c', 'd']);
    await read(['a']);
    await read(['c', 'd', 'a']);
    expect(asked).toEqual(['a', 'b', 'c', 'd', 'a']);
  });
});
