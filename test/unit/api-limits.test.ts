import express from 'express';
import { describe, expect, test } from 'vitest';
import { createLimits } from '../../api/auth/rate-limit.ts';
import { Problem } from '../../api/http/errors.ts';

/** An Express response that is never sent, to collect headers. */
function response() {
  const fields = new Map<string, string>();
  const answer = Object.create(express.response);
  answer.setHeader = (name: string, value: string) => {
    fields.set(name, value);
    return answer;
  };
  return { answer, fields };
}

describe('createLimits', () => {
  const demo = [{ name: 'key', policy: 'demo' }] as const;
  const account = { name: 'acme', policy: 'demo-account' } as const;

  test('allows a burst of one second, then rejects, then refills evenly', () => {
    let nowMs = 0;
    const limits = createLimits({ now: () => nowMs });
    const take = () => limits.charge(response().answer, demo);
    for (let i = 0; i < 5; i++) take();
    expect(take).toThrow(Problem);
    nowMs = 199;
    expect(take).toThrow(Problem);
    nowMs = 200;
    take();
    expect(take).toThrow(Problem);
    nowMs = 60_000;
    for (let i = 0; i < 5; i++) take();
    expect(take).toThrow(Problem);
  });

  test('describes the policy and the remaining requests in headers', () => {
    const limits = createLimits({ now: () => 0 });
    const { answer, fields } = response();
    limits.charge(answer, demo);
    expect(Object.fromEntries(fields)).toEqual({
      'RateLimit-Policy': '"demo";q=5;w=1',
      RateLimit: '"demo";r=4;t=1',
    });
    limits.charge(answer, [...demo, account]);
    expect(Object.fromEntries(fields)).toEqual({
      'RateLimit-Policy': '"demo";q=5;w=1, "demo-account";q=10;w=1',
      RateLimit: '"demo";r=3;t=1',
    });
    limits.show(answer, demo);
    expect(fields.get('RateLimit')).toBe('"demo";r=3;t=1');
  });

  test('rejects with 429 and Retry-After', () => {
    const limits = createLimits({ now: () => 0 });
    for (let i = 0; i < 5; i++) limits.charge(response().answer, demo);
    const refused = (() => {
      try {
        return limits.charge(response().answer, demo);
      } catch (error) {
        return error;
      }
    })();
    expect(refused).toMatchObject({
      status: 429,
      error: 'rate_limited',
      headers: { 'Retry-After': '1' },
    });
  });

  test('counts each key separately, and the account over all its keys', () => {
    const limits = createLimits({ now: () => 0 });
    const take = (name: string) =>
      limits.charge(response().answer, [{ ...demo[0], name }, account]);
    for (let i = 0; i < 5; i++) take('one');
    expect(() => take('one')).toThrow('more than 5 requests per second with this key');
    // Rejected requests do not count.
    for (let i = 0; i < 5; i++) take('two');
    expect(() => take('three')).toThrow('more than 10 requests per second of this account');
    limits.charge(response().answer, [{ name: 'acme', policy: 'pro-account' }]);
  });

  test('charges requests that other processes admitted', () => {
    let nowMs = 0;
    let others: (name: string, count: number) => void = () => undefined;
    const counts: string[] = [];
    const shared = {
      counted: (name: string) => void counts.push(name),
      onOthers: (listener: typeof others) => {
        others = listener;
      },
    };
    const limits = createLimits({ now: () => nowMs, shared });
    const take = () => limits.charge(response().answer, demo);
    for (let i = 0; i < 5; i++) take();
    expect(counts).toEqual(Array.from({ length: 5 }, () => 'demo key'));
    // Two more processes admitted a full burst at the same moment.
    others('demo key', 5);
    others('demo key', 5);
    nowMs = 2_100;
    expect(take).toThrow(Problem);
    nowMs = 2_200;
    take();
    expect(take).toThrow(Problem);
  });

  test('ignores malformed counts from other processes', () => {
    let others: (name: string, count: number) => void = () => undefined;
    const shared = {
      counted: () => undefined,
      onOthers: (listener: typeof others) => {
        others = listener;
      },
    };
    const limits = createLimits({ now: () => 0, shared });
    for (const name of ['', 'root key', 'constructor key', 'key', 'anonymous key'])
      others(name, 1_000);
    limits.charge(response().answer, demo);
  });
});
