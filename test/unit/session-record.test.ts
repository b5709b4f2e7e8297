// The record of an api process: sums over several records, and the day to which streaming time counts.
import { expect, test } from 'vitest';
import {
  addSession,
  isSpent,
  openSessionsOf,
  type RecordPart,
  removeSession,
  usedMs,
} from '../../api/sessions/record.ts';

const NOON_MS = Date.parse('2026-05-01T12:00:00Z');
const MIDNIGHT_MS = Date.parse('2026-05-02T00:00:00Z');

function record(): RecordPart {
  return { used: { day: '', ms: {} }, open: {} };
}

function open(to: RecordPart, key: string, id: string, startedAtMs: number) {
  const session = { id, streamId: null, startedAtMs };
  addSession(to, key, session);
  return (endedAtMs: number) => {
    const closed = { ...session, endedAtMs, end: 'client_left' as const, events: 0 };
    removeSession(to, key, closed, endedAtMs);
  };
}

test('open sessions of all records are ordered by start, then by id', () => {
  const [one, other] = [record(), record()];
  open(one, 'a', '2', NOON_MS);
  open(other, 'a', '3', NOON_MS - 1);
  open(other, 'a', '1', NOON_MS);
  open(other, 'b', '0', NOON_MS);
  expect(openSessionsOf([one, other], 'a').map(({ id }) => id)).toEqual(['3', '1', '2']);
});

test('the used time includes open and ended sessions of all records', () => {
  const [one, other] = [record(), record()];
  const close = open(one, 'a', '1', NOON_MS);
  open(other, 'a', '2', NOON_MS);
  close(NOON_MS + 1_000);
  expect(usedMs([one, other], 'a', NOON_MS + 5_000)).toBe(6_000);
  expect(usedMs([one, other], 'b', NOON_MS + 5_000)).toBe(0);
});

test('time counts towards the day on which it passes', () => {
  const one = record();
  const close = open(one, 'a', '1', MIDNIGHT_MS - 10_000);
  expect(usedMs([one], 'a', MIDNIGHT_MS + 3_000)).toBe(3_000);
  close(MIDNIGHT_MS + 4_000);
  expect(one.used).toEqual({ day: '2026-05-02', ms: { a: 4_000 } });
  expect(isSpent(one, MIDNIGHT_MS)).toBe(false);
  expect(isSpent(one, MIDNIGHT_MS + 86_400_000)).toBe(true);
});

test('a record with open sessions is never spent', () => {
  const one = record();
  open(one, 'a', '1', NOON_MS);
  expect(isSpent(one, NOON_MS + 10 * 86_400_000)).toBe(false);
});
