import { describe, expect, test } from 'vitest';
import { NatsUnavailableError } from '../../infra/nats.ts';
import type { Kv } from '../../infra/nats-kv.ts';
import { Operators } from '../../ingest/operators.ts';

const [ANNE, BEN] = ['a', 'b'].map((digit) => `0x${digit.repeat(40)}`) as [string, string];
const { signal } = new AbortController();

/** A bucket with one value, which fails as often as it is told to. */
function bucket(stored?: string) {
  const state = { value: stored, failures: 0 };
  const kv = {
    get: async () =>
      state.value === undefined ? undefined : { value: new TextEncoder().encode(state.value) },
    put: async (_key: string, value: string) => {
      if (state.failures-- > 0) throw new NatsUnavailableError('down');
      state.value = value;
      return 1;
    },
  } as unknown as Kv;
  return { state, kv };
}

const allowed = (operator: string) => ({ operator, allowed: true });
const removed = (operator: string) => ({ operator, allowed: false });

describe('Operators', () => {
  test('are learned from events and from senders of mined matches, and kept', async () => {
    const { kv } = bucket();
    const operators = await Operators.load(kv, []);
    await operators.learn(5, [allowed(ANNE)], [BEN], signal);
    const later = await Operators.load(kv, []);
    expect([ANNE, BEN].map((one) => later.has(one))).toEqual([true, true]);
  });

  test('that were removed are not learned again from an older match or one of that block', async () => {
    const { kv } = bucket();
    const operators = await Operators.load(kv, []);
    await operators.learn(10, [removed(ANNE)], [ANNE], signal);
    await operators.learn(9, [], [ANNE], signal);
    expect(operators.has(ANNE)).toBe(false);
    const later = await Operators.load(kv, []);
    await later.learn(9, [allowed(ANNE)], [ANNE], signal);
    expect(later.has(ANNE)).toBe(false);
    await later.learn(11, [], [ANNE], signal);
    expect(later.has(ANNE)).toBe(true);
  });

  test('that were configured are believed until an event removes them, over restarts', async () => {
    const { kv } = bucket();
    const operators = await Operators.load(kv, [ANNE.toUpperCase().replace('0X', '0x')]);
    expect(operators.has(ANNE)).toBe(true);
    await operators.learn(3, [removed(ANNE)], [], signal);
    expect((await Operators.load(kv, [ANNE])).has(ANNE)).toBe(false);
  });

  test('wait for the bucket through an outage', async () => {
    const { kv, state } = bucket();
    const operators = await Operators.load(kv, []);
    state.failures = 1;
    await operators.learn(5, [], [ANNE], signal);
    expect(state.value).toContain(ANNE);
  });

  test('are read as they were stored before removals were remembered', async () => {
    const { kv } = bucket(JSON.stringify([ANNE]));
    expect((await Operators.load(kv, [])).has(ANNE)).toBe(true);
  });
});
