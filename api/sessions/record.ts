/**
 * The open event streams of one account over all api processes, and the time that they used today:
 * what the bucket holds for the account, and the arithmetic on it. Pure; times are milliseconds
 * since the epoch. Time counts for the UTC day in which it passes.
 */
import { z } from 'zod';

/** Why an event stream ended. */
export const SessionEnd = z.enum([
  'client_left',
  'too_slow',
  'key_revoked',
  'stream_deleted',
  'stream_disabled',
  'quota_used_up',
  'shutdown',
  'fault',
  'process_lost',
]);
export type SessionEnd = z.infer<typeof SessionEnd>;

export const OpenRecord = z.object({
  id: z.string(),
  /** The managed stream; null = the order feed. */
  streamId: z.string().nullable(),
  startedAtMs: z.int(),
});
export type OpenRecord = z.infer<typeof OpenRecord>;

export const ClosedRecord = OpenRecord.extend({
  endedAtMs: z.int(),
  end: SessionEnd,
  /** Events that were written to it; null where its process was lost. */
  events: z.int().nullable(),
});
export type ClosedRecord = z.infer<typeof ClosedRecord>;

/** Value of a bucket entry, as JSON. */
export const Book = z.object({
  /** Time of the sessions that ended, in the part of them that was on `day`. */
  used: z.object({ day: z.string(), ms: z.int().nonnegative() }),
  /** By api process. */
  open: z.record(z.string(), z.array(OpenRecord)),
});
export type Book = z.infer<typeof Book>;

export const EMPTY_BOOK: Book = { used: { day: '', ms: 0 }, open: {} };

/** Milliseconds of event streams on the day of `nowMs`, of ended and of open ones. */
export function usedMs(book: Book, nowMs: number): number {
  const ended = book.used.day === dayOf(nowMs) ? book.used.ms : 0;
  const open = Object.values(book.open).flat();
  return open.reduce((sum, { startedAtMs }) => sum + onDay(startedAtMs, nowMs, nowMs), ended);
}

/** The book in which a process has these sessions open, others are lost, and these ended. */
export function written(
  book: Book,
  change: {
    readonly process: string;
    readonly open: readonly OpenRecord[];
    readonly lost: readonly string[];
    readonly closed: readonly ClosedRecord[];
  },
  nowMs: number,
): Book {
  const { process, open, lost, closed } = change;
  const others = Object.entries(book.open).filter(
    ([name]) => name !== process && !lost.includes(name),
  );
  const before = book.used.day === dayOf(nowMs) ? book.used.ms : 0;
  const ms = closed.reduce(
    (sum, { startedAtMs, endedAtMs }) => sum + onDay(startedAtMs, endedAtMs, nowMs),
    before,
  );
  return {
    used: { day: dayOf(nowMs), ms },
    open: Object.fromEntries(open.length === 0 ? others : [...others, [process, [...open]]]),
  };
}

/** Whether nothing is lost with the book. */
export function isSpent(book: Book, nowMs: number): boolean {
  return Object.keys(book.open).length === 0 && book.used.day !== dayOf(nowMs);
}

/** How much of a span lies on the day of `nowMs`; clocks of processes may differ a little. */
function onDay(fromMs: number, toMs: number, nowMs: number): number {
  const dayStartMs = Date.parse(`${dayOf(nowMs)}T00:00:00Z`);
  return Math.max(0, toMs - Math.max(fromMs, dayStartMs));
}

function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}
