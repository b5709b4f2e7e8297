import { expect, test } from 'vitest';
import { Contradictions, FinalReorgError } from '../../ingest/final-blocks.ts';
import type { BlockRef } from '../../ingest/ledger/ledger.ts';
import { hash } from './feed-matches.ts';

const held = (number: number): BlockRef => ({ number, hash: hash(number) });

test('a contradiction is checked at growing intervals, and raises the alarm after five minutes', () => {
  const contradictions = new Contradictions();
  const pauses: number[] = [];
  let nowMs = 1_000;
  const alarm = () => {
    for (;;) {
      const pauseMs = contradictions.pauseMs(held(7), nowMs);
      pauses.push(pauseMs);
      nowMs += pauseMs;
    }
  };
  expect(alarm).toThrow(FinalReorgError);
  expect(alarm).toThrow(`no block followed ${hash(7)}, block 7 of LEDGER`);
  expect(pauses.slice(0, 6)).toEqual([200, 400, 800, 1_600, 3_200, 5_000]);
  expect(nowMs - 1_000).toBeGreaterThan(300_000);
  expect(nowMs - 1_000).toBeLessThan(310_000);
});

test('a contradiction is forgotten once LEDGER has passed its block', () => {
  const contradictions = new Contradictions();
  for (let i = 0; i < 4; i += 1) contradictions.pauseMs(held(7), i * 90_000);
  expect(contradictions.pauseMs(held(8), 400_000)).toBe(200);
  expect(contradictions.pauseMs(held(8), 600_000)).toBe(400);
});
