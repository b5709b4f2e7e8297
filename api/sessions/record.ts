/**
 * The record of one api process: its open event streams by account, and the time that ended ones used today, split into
 * parts by account (auth/account-parts.ts). The usage of a quota is a sum over the records of all processes. Times are
 * milliseconds since the epoch, and usage counts for the UTC day on which it occurs.
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

/** An admitted event stream. */
export type OpenSession = {
  readonly id: string;
  /**
   * Resolves when the account has used up its time of today, or when the session exceeds the session quota.
   * The stream must then be ended.
   */
  readonly overQuota: Promise<void>;
  /** Call it once. */
  close(end: SessionEnd, events: number): void;
};

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
  /** Number of events sent; null if the process was lost. */
  events: z.int().nullable(),
});
export type ClosedRecord = z.infer<typeof ClosedRecord>;

/** A part, as JSON in the bucket. Both members are keyed by `keyOf` the account. */
export const RecordPart = z.object({
  /** Time of ended sessions on `day`. */
  used: z.object({ day: z.string(), ms: z.record(z.string(), z.int().nonnegative()) }),
  open: z.record(z.string(), z.array(OpenRecord)),
});
export type RecordPart = z.infer<typeof RecordPart>;

export function emptyPart(): RecordPart {
  return { used: { day: '', ms: {} }, open: {} };
}

/** The open sessions of an account, oldest first; the order is the same in every process. */
export function openSessionsOf(records: readonly RecordPart[], key: string): OpenRecord[] {
  return records
    .flatMap(({ open }) => open[key] ?? [])
    .sort((a, b) => a.startedAtMs - b.startedAtMs || (a.id < b.id ? -1 : 1));
}

/** Milliseconds of ended and open event streams on the day of `nowMs`. */
export function usedMs(records: readonly RecordPart[], key: string, nowMs: number): number {
  const day = dayOf(nowMs);
  const ended = records.map(({ used }) => (used.day === day ? (used.ms[key] ?? 0) : 0));
  const open = openSessionsOf(records, key).map(({ startedAtMs }) =>
    onDay(startedAtMs, nowMs, nowMs),
  );
  return [...ended, ...open].reduce((sum, ms) => sum + ms, 0);
}

/** Adds a session to the part of its account. */
export function addSession({ open }: RecordPart, key: string, session: OpenRecord): void {
  open[key] = [...(open[key] ?? []), session];
}

/** Removes a session from the part of its account and adds its time to the usage. */
export function removeSession(
  record: RecordPart,
  key: string,
  session: ClosedRecord,
  nowMs: number,
): void {
  const rest = (record.open[key] ?? []).filter(({ id }) => id !== session.id);
  if (rest.length > 0) record.open[key] = rest;
  else delete record.open[key];
  const day = dayOf(nowMs);
  if (record.used.day !== day) record.used = { day, ms: {} };
  const { ms } = record.used;
  ms[key] = (ms[key] ?? 0) + onDay(session.startedAtMs, session.endedAtMs, nowMs);
}

/** Whether the part no longer counts. */
export function isSpent({ used, open }: RecordPart, nowMs: number): boolean {
  return Object.keys(open).length === 0 && used.day !== dayOf(nowMs);
}

/** How much of a span falls on the day of `nowMs`; never negative, because clocks of processes differ slightly. */
function onDay(fromMs: number, toMs: number, nowMs: number): number {
  const dayStartMs = Date.parse(`${dayOf(nowMs)}T00:00:00Z`);
  return Math.max(0, toMs - Math.max(fromMs, dayStartMs));
}

function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}
