/**
 * Open event streams of each account across all api processes, counted against the quotas of its tier.
 * Each process writes a record of its open sessions, of which only the parts that changed, and a heartbeat after them,
 * at least once a second. It watches those of the others. Usage is the sum over the records of live processes.
 * Invariant: within a process a quota is exact. Several processes together may admit too many sessions at
 * the same moment. Each process then ends its newest excess ones within two seconds.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import {
  type Nats,
  NatsUnavailableError,
  StreamMissingError,
} from '../../infra/nats/connection.ts';
import {
  follow,
  type Kv,
  KvConflictError,
  type KvEvent,
  openKv,
  parseValue,
} from '../../infra/nats/kv.ts';
import { keyOf, PARTS, partOf } from '../auth/account-parts.ts';
import { TIERS } from '../auth/tiers.ts';
import type { Caller } from '../http/caller.ts';
import { Problem, quotaExceeded } from '../http/errors.ts';
import { History } from './history.ts';
import {
  addSession,
  type ClosedRecord,
  emptyPart,
  isSpent,
  type OpenRecord,
  type OpenSession,
  openSessionsOf,
  RecordPart,
  removeSession,
  usedMs,
} from './record.ts';
import { Visitors } from './visitors.ts';

/** Open event streams: for each api process a heartbeat and the parts of its record. */
const SESSIONS_BUCKET = 'sessions';

const CHECK_MS = 500;
const BEAT_MS = 1_000;
/** Changes within this time after a write are written together. */
const WRITE_PAUSE_MS = 500;
/** A process whose last heartbeat is older than this does not count. */
const LIVE_MS_MAX = 3_000;
/** A process whose last heartbeat is older than this is lost, and others close its sessions. */
const SILENT_MS_MAX = 6_000;
const CLOSE_MS_MAX = 500;
/**
 * How long a session waits for another one of its account to end. A page that opens its next stream as it closes the last
 * one would otherwise be refused, because the server learns of the end a moment later.
 */
const REPLACED_MS_MAX = 1_000;
const REPLACED_CHECK_MS = 100;
/** Ended sessions that wait for NATS, at about 700 bytes each. The oldest beyond them are missing from the history. */
const ENDED_MAX = 20_000;
/** Most ended sessions in one write, to limit memory after an outage. */
const ENDED_AT_ONCE = 1_000;
/** Other keys are of earlier versions. */
const KEY = /^(?:heartbeat|part)\.([0-9a-f-]{36})(?:\.(\d+))?$/;
const heartbeatKey = (process: string) => `heartbeat.${process}`;
const partKey = (process: string, part: number) => `part.${process}.${part}`;

type Other = {
  readonly parts: Map<number, { readonly record: RecordPart; readonly revision: number }>;
  /** 0 if there is none, because another process began to close the sessions of this one. */
  heartbeatRevision: number;
  /** When its last heartbeat arrived, by this process's clock, because clocks of processes may differ. */
  heartbeatAtMs: number;
};

type Own = {
  readonly key: string;
  readonly caller: Caller;
  readonly overQuota: PromiseWithResolvers<void>;
};

type SessionsOptions = {
  readonly nats: Nats;
  readonly logger: Logger;
  readonly replicas?: number;
  /** Milliseconds since the epoch. */
  readonly now?: () => number;
};

export class Sessions {
  /** Settles when the bucket is no longer watched; rejects if `close` was not called. */
  watching: Promise<void> = Promise.resolve();
  readonly #self = randomUUID();
  readonly #nats: Nats;
  readonly #logger: Logger;
  readonly #bucket: Kv;
  readonly #history: History;
  readonly #now: () => number;
  readonly #parts: readonly RecordPart[] = Array.from({ length: PARTS }, emptyPart);
  /** Parts with changes that are not written. */
  readonly #unwritten = new Set<number>();
  readonly #own = new Map<string, Own>();
  readonly #visitors: Visitors;
  readonly #others = new Map<string, Other>();
  /** Ended sessions whose history is not written yet, by account. */
  readonly #ended: [key: string, ClosedRecord][] = [];
  #isEndedFull = false;
  #isWriteDue = false;
  #writing: Promise<void> = Promise.resolve();
  #wasConnected = true;
  #checkedAtMs = performance.now();
  /** When heartbeats of others may last have been missed. */
  #outageAtMs = Number.NEGATIVE_INFINITY;
  /** Resolves at the next heartbeat of another process, and at the next check. */
  #changed = Promise.withResolvers<void>();
  readonly #closing = new AbortController();
  readonly #stop = new AbortController();
  readonly #timers: readonly NodeJS.Timeout[];

  private constructor(bucket: Kv, history: History, options: SessionsOptions) {
    this.#nats = options.nats;
    this.#logger = options.logger;
    this.#bucket = bucket;
    this.#history = history;
    this.#now = options.now ?? Date.now;
    this.#visitors = new Visitors(this.#now);
    this.#timers = [
      setInterval(() => this.#check(), CHECK_MS).unref(),
      setInterval(() => this.#write(), BEAT_MS).unref(),
      setInterval(() => this.#visitors.count(), BEAT_MS).unref(),
    ];
  }

  /** Watches the bucket; resolves once every open session is known. */
  static async start(options: SessionsOptions): Promise<Sessions> {
    const { nats, replicas = 1 } = options;
    const bucket = await openKv(nats, SESSIONS_BUCKET, { replicas });
    const sessions = new Sessions(bucket, await History.open(nats, replicas), options);
    const signal = sessions.#stop.signal;
    sessions.watching = (
      await follow(bucket, signal, (event) => sessions.#receive(event))
    ).watching;
    await sessions.#writeNow();
    return sessions;
  }

  /** Throws Problem 403 if a quota of the tier is still used up after REPLACED_MS_MAX. */
  async open(caller: Caller, streamId: string | null): Promise<OpenSession> {
    const giveUpAtMs = performance.now() + REPLACED_MS_MAX;
    for (;;) {
      try {
        return await this.#openNow(caller, streamId);
      } catch (error) {
        const isFull = error instanceof Problem && error.quota?.name === 'max_sessions';
        if (!isFull || performance.now() > giveUpAtMs) throw error;
      }
      await delay(REPLACED_CHECK_MS);
    }
  }

  async #openNow(caller: Caller, streamId: string | null): Promise<OpenSession> {
    if (caller.account === '') return this.#visitors.open(caller);
    const key = keyOf(caller.account);
    if (this.#refusal(caller) !== undefined) await this.#otherHeartbeats(key);
    const problem = this.#refusal(caller);
    if (problem !== undefined) throw problem;
    const record = { id: randomUUID(), streamId, startedAtMs: this.#now() };
    const overQuota = Promise.withResolvers<void>();
    addSession(this.#part(key), key, record);
    this.#own.set(record.id, { key, caller, overQuota });
    this.#write();
    return {
      id: record.id,
      overQuota: overQuota.promise,
      close: (end, events) => {
        const closed = { ...record, endedAtMs: this.#now(), end, events };
        this.#own.delete(record.id);
        removeSession(this.#part(key), key, closed, this.#now());
        this.#remember(key, closed);
        this.#write();
      },
    };
  }

  /** Open sessions of an account, oldest first. */
  list(account: string): OpenRecord[] {
    const key = keyOf(account);
    return openSessionsOf(this.#records(key), key);
  }

  /** The newest ended sessions, newest first, and the number of stored ones. Rejects with NatsUnavailableError. */
  history(account: string, limit: number) {
    return this.#history.newest(keyOf(account), limit);
  }

  /** Seconds of event streams of an account on this UTC day. */
  usedSeconds(account: string): number {
    const key = keyOf(account);
    // Round down: a second counts once it is complete.
    return Math.floor(usedMs(this.#records(key), key, this.#now()) / 1_000);
  }

  async close(): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer);
    this.#closing.abort();
    this.#write();
    await Promise.race([this.#writing, delay(CLOSE_MS_MAX, undefined, { ref: false })]);
    this.#stop.abort();
    await this.watching;
  }

  #receive(event: KvEvent): void {
    if (event.type === 'initialised') return;
    const [, process, part] = KEY.exec(event.key) ?? [];
    if (process === undefined) return;
    if (process === this.#self) {
      if (event.type === 'delete' && part === undefined) this.#restore();
      return;
    }
    const other = this.#others.get(process) ?? {
      ...{ parts: new Map(), heartbeatRevision: 0, heartbeatAtMs: performance.now() },
    };
    this.#others.set(process, other);
    if (part !== undefined) this.#receivePart(other, Number(part), event);
    else {
      other.heartbeatRevision = event.type === 'put' ? event.revision : 0;
      other.heartbeatAtMs = event.type === 'put' ? performance.now() : Number.NEGATIVE_INFINITY;
    }
    if (other.parts.size === 0 && other.heartbeatRevision === 0) this.#others.delete(process);
    this.#wake();
  }

  #receivePart(
    { parts }: Other,
    part: number,
    event: Exclude<KvEvent, { type: 'initialised' }>,
  ): void {
    const { revision } = event;
    const record = event.type === 'put' ? parseValue(RecordPart, event.value) : undefined;
    if (event.type === 'put' && record === undefined) {
      this.#logger.error({ key: event.key }, 'unreadable record in the bucket of sessions');
    }
    if (record === undefined) parts.delete(part);
    else parts.set(part, { record, revision });
  }

  /** Others thought that this process was lost, and may have closed its sessions in its record. */
  #restore(): void {
    for (const [part, { open }] of this.#parts.entries()) {
      if (Object.keys(open).length > 0) this.#unwritten.add(part);
    }
    this.#write();
  }

  #wake(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }

  /** The part of our record with this account, to change it. */
  #part(key: string): RecordPart {
    const part = partOf(key);
    this.#unwritten.add(part);
    return this.#parts[part] as RecordPart;
  }

  /**
   * All records, with our own first, of which only the part of this account. A process that is not live has no open
   * sessions, but today's usage counts.
   */
  #records(key: string): RecordPart[] {
    const part = partOf(key);
    const others = [...this.#others.values()].flatMap((other) => {
      const record = other.parts.get(part)?.record;
      if (record === undefined) return [];
      return isLive(other) ? record : { ...record, open: {} };
    });
    return [this.#parts[part] as RecordPart, ...others];
  }

  #remember(key: string, closed: ClosedRecord): void {
    this.#ended.push([key, closed]);
    if (this.#ended.length <= ENDED_MAX) return;
    this.#ended.shift();
    if (this.#isEndedFull) return;
    this.#isEndedFull = true;
    const sessions = ENDED_MAX;
    this.#logger.warn({ sessions }, 'only the newest ended sessions will be in the history');
  }

  /**
   * Why the account may not open another session. Without NATS the open sessions of other processes do not
   * count, because they may have ended or moved here, and clients treat a refusal as final.
   */
  #refusal({ account, tier }: Caller): Problem | undefined {
    const { sessionsMax, streamSecondsPerDayMax } = TIERS[tier];
    const key = keyOf(account);
    const records = this.#records(key).map((record, n) =>
      n === 0 || this.#nats.connected ? record : { ...record, open: {} },
    );
    const open = openSessionsOf(records, key).length;
    if (open >= sessionsMax) return quotaExceeded('max_sessions', tier, sessionsMax, open);
    if (streamSecondsPerDayMax === null) return undefined;
    const ms = usedMs(records, key, this.#now());
    if (ms < streamSecondsPerDayMax * 1_000) return undefined;
    const used = Math.floor(ms / 1_000);
    return quotaExceeded('stream_seconds_per_day', tier, streamSecondsPerDayMax, used);
  }

  /**
   * Resolves when every process with open sessions of the account has sent a new heartbeat or is no longer
   * live. A client that reconnects after a crash must not be refused because of the sessions that it lost.
   */
  async #otherHeartbeats(key: string): Promise<void> {
    const sinceMs = performance.now();
    const isAwaited = (other: Other) =>
      isLive(other) &&
      other.heartbeatAtMs < sinceMs &&
      other.parts.get(partOf(key))?.record.open[key] !== undefined;
    while (this.#nats.connected && [...this.#others.values()].some(isAwaited)) {
      await this.#changed.promise;
    }
  }

  #check(): void {
    const { connected } = this.#nats;
    const stoppedMs = performance.now() - this.#checkedAtMs;
    this.#checkedAtMs = performance.now();
    // A process that was disconnected or suspended has missed the heartbeats of the others.
    if (!connected || !this.#wasConnected || stoppedMs > BEAT_MS + CHECK_MS) {
      this.#outageAtMs = performance.now();
      for (const other of this.#others.values()) other.heartbeatAtMs = performance.now();
    }
    this.#wasConnected = connected;
    this.#wake();
    this.#endOverQuota();
    if (!connected) return;
    for (const [process, other] of this.#others) {
      if (performance.now() - other.heartbeatAtMs > SILENT_MS_MAX)
        void this.#closeLost(process, other);
    }
  }

  /** Ends our sessions of accounts that have used up their time, and our newest ones that exceed the quota. */
  #endOverQuota(): void {
    // After an outage, records are outdated until every live process has sent a heartbeat.
    const isCurrent = performance.now() - this.#outageAtMs > LIVE_MS_MAX;
    for (const key of new Set([...this.#own.values()].map(({ key }) => key))) {
      const records = this.#records(key);
      for (const [n, { id }] of openSessionsOf(records, key).entries()) {
        const own = this.#own.get(id);
        if (own === undefined) continue;
        const { sessionsMax, streamSecondsPerDayMax } = TIERS[own.caller.tier];
        if (n >= sessionsMax && isCurrent) own.overQuota.resolve();
        if (streamSecondsPerDayMax === null) continue;
        const used = usedMs(records, key, this.#now());
        if (used >= streamSecondsPerDayMax * 1_000) own.overQuota.resolve();
      }
    }
  }

  /**
   * Closes the sessions of a lost process. Several processes may do so at once with the same result. Deleting the heartbeat
   * comes first: this fails if there is a newer one, and a process that is alive after all then writes its record again.
   */
  async #closeLost(process: string, { parts, heartbeatRevision }: Other): Promise<void> {
    const nowMs = this.#now();
    await this.#tolerant(async () => {
      if (heartbeatRevision > 0)
        await this.#bucket.delete(heartbeatKey(process), heartbeatRevision);
      for (const [part, { record, revision }] of parts) {
        if (Object.keys(record.open).length === 0 && !isSpent(record, nowMs)) continue;
        const remaining = structuredClone(record);
        const lost = Object.entries(record.open).flatMap(([key, sessions]) =>
          sessions.map((session): [string, ClosedRecord] => [
            key,
            { ...session, endedAtMs: nowMs, end: 'process_lost', events: null },
          ]),
        );
        for (const [key, session] of lost) removeSession(remaining, key, session, nowMs);
        await this.#history.add(lost);
        const key = partKey(process, part);
        if (isSpent(remaining, nowMs)) await this.#bucket.delete(key, revision);
        else await this.#bucket.update(key, JSON.stringify(remaining), revision);
      }
    });
  }

  /** Writes the record, with all changes since the previous write. */
  #write(): void {
    if (this.#isWriteDue) return;
    this.#isWriteDue = true;
    this.#writing = this.#writing.then(async () => {
      this.#isWriteDue = false;
      await this.#writeNow();
      const { signal } = this.#closing;
      await delay(WRITE_PAUSE_MS, undefined, { signal, ref: false }).catch(() => undefined);
    });
  }

  /** Writes now: the history, what changed in the record, the heartbeat. After a failure, the next heartbeat retries. */
  async #writeNow(): Promise<void> {
    await this.#tolerant(async () => {
      while (this.#ended.length > 0) {
        const ended = this.#ended.splice(0, ENDED_AT_ONCE);
        try {
          await this.#history.add(ended);
        } catch (error) {
          this.#ended.unshift(...ended);
          throw error;
        }
      }
      this.#isEndedFull = false;
      await Promise.all([...this.#unwritten].map((part) => this.#writePart(part)));
      await this.#bucket.put(heartbeatKey(this.#self), '');
    });
  }

  async #writePart(part: number): Promise<void> {
    this.#unwritten.delete(part);
    try {
      await this.#bucket.put(partKey(this.#self, part), JSON.stringify(this.#parts[part]));
    } catch (error) {
      this.#unwritten.add(part);
      throw error;
    }
  }

  /** Ignores failures of a write that is retried: NATS is unavailable, or another process has written first. */
  async #tolerant(write: () => Promise<void>): Promise<void> {
    try {
      await write();
    } catch (error) {
      const isExpected =
        error instanceof NatsUnavailableError ||
        error instanceof StreamMissingError ||
        error instanceof KvConflictError;
      if (!isExpected) this.#logger.error({ err: error }, 'sessions could not be written');
    }
  }
}

function isLive({ heartbeatAtMs }: Other): boolean {
  return performance.now() - heartbeatAtMs < LIVE_MS_MAX;
}
