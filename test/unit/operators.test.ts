import { describe, expect, test } from 'vitest';
import { NatsUnavailableError } from '../../infra/nats/connection.ts';
import type { Kv } from '../../infra/nats/kv.ts';
import { Operators } from '../../ingest/pending/operators.ts';

const [ANNE, BEN] = ['a', 'b'].map((digit) => `0x${digit.repeat(40)}`) as [string, string];
const [HERE, THERE] = ['1', '2'].map((digit) => `0x${digit.repeat(40)}`) as [string, string];
const { signal } = new AbortController();

/** A bucket with one value, whose first `failures` writes fail. */
function bucket() {
  const state: { value?: string; failures: number } = { failures: 0 };
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

const allowed = (operator: string) => ({ exchange: HERE, operator, allowed: true });
const removed = (operator: string) => ({ exchange: HERE, operator, allowed: false });
const sender = (address: string) => ({ exchange: HERE, address });

describe('Operators', () => {
  test('are learned from events and from senders of mined matches, and kept', async () => {
    const { kv } = bucket();
    const operators = await Operators.load(kv, []);
    await operators.learn(5, [allowed(ANNE)], [sender(BEN)], signal);
    const later = await Operators.load(kv, []);
    expect([ANNE, BEN].map((one) => later.has(HERE, one))).toEqual([true, true]);
  });

  test('and their removals are separate for each exchange', async () => {
    const { kv } = bucket();
    const operators = await Operators.load(kv, [BEN]);
    await operators.learn(5, [allowed(ANNE), removed(BEN)], [], signal);
    const later = await Operators.load(kv, [BEN]);
    for (const one of [operators, later]) {
      expect([HERE, THERE].map((exchange) => one.has(exchange, ANNE))).toEqual([true, false]);
      expect([HERE, THERE].map((exchange) => one.has(exchange, BEN))).toEqual([false, true]);
    }
  });

  test('that were removed are not learned again from a match in an earlier block or the same one', async () => {
    const { kv } = bucket();
    const operators = await Operators.load(kv, []);
    await operators.learn(10, [removed(ANNE)], [sender(ANNE)], signal);
    await operators.learn(9, [], [sender(ANNE)], signal);
    expect(operators.has(HERE, ANNE)).toBe(false);
    const later = await Operators.load(kv, []);
    await later.learn(9, [allowed(ANNE)], [sender(ANNE)], signal);
    expect(later.has(HERE, ANNE)).toBe(false);
    await later.learn(11, [], [sender(ANNE)], signal);
    expect(later.has(HERE, ANNE)).toBe(true);
  });

  test('from the configuration are allowed until an event removes them, even after a restart', async () => {
    const { kv } = bucket();
    const operators = await Operators.load(kv, [ANNE.toUpperCase().replace('0X', '0x')]);
    expect(operators.has(HERE, ANNE)).toBe(true);
    await operators.learn(3, [removed(ANNE)], [], signal);
    expect((await Operators.load(kv, [ANNE])).has(HERE, ANNE)).toBe(false);
  });

  test('are stored after the bucket recovers from an outage', async () => {
    const { kv, state } = bucket();
    const operators = await Operators.load(kv, []);
    state.failures = 1;
    await operators.learn(5, [], [sender(ANNE)], signal);
    expect(state.value).toContain(ANNE);
  });
});
