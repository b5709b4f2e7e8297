/**
 * Open event streams of each account across all api processes, counted against the quotas of its tier.
 * Each process writes one record with its open sessions, on every change and once a second as a
 * heartbeat, and watches the records of the others. Usage is the sum over the records of live processes.
 * Invariant: within a process a quota is exact. Several processes together may admit too many sessions at
 * the same moment. Each process then ends its newest excess ones within two seconds.
 */
import { createHash, randomUUID } from 'node:crypto';
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
import type { Caller } from '../auth/keys.ts';
import { TIERS } from '../auth/tiers.ts';
import { Problem, quotaExceeded } from '../errors.ts';
import { History } from './history.ts';
import {
  addSession,
  type ClosedRecord,
  isSpent,
  type OpenRecord,
  type OpenSession,
  openSessionsOf,
  ProcessRecord,
  removeSession,
  usedMs,
} from './record.ts';
import { Visitors } from './visitors.ts';

/** Open event streams, one record for each api process. */
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
/** `process.` and `account.` are keys of version 0.1. */
const RECORD_KEY = 'record.';

type Other = {
  readonly record: ProcessRecord;
  readonly revision: number;
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
  readonly #record: ProcessRecord = { used: { day: '', ms: {} }, open: {} };
  readonly #own = new Map<string, Own>();
  readonly #visitors: Visitors;
  readonly #others = new Map<string, Other>();
  /** Ended sessions whose history is not written yet, by account. */
  #ended: [key: string, ClosedRecord][] = [];
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

  /** Throws Problem 403 if a quota of the tier is used up, and stays so for REPLACED_MS_MAX. */
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
    addSession(this.#record, key, record);
    this.#own.set(record.id, { key, caller, overQuota });
    this.#write();
    return {
      id: record.id,
      overQuota: overQuota.promise,
      close: (end, events) => {
        const closed = { ...record, endedAtMs: this.#now(), end, events };
        this.#own.delete(record.id);
        removeSession(this.#record, key, closed, this.#now());
        this.#ended.push([key, closed]);
        this.#write();
      },
    };
  }

  /** Open sessions of an account, oldest first. */
  list(account: string): OpenRecord[] {
    return openSessionsOf(this.#records(), keyOf(account));
  }

  /** The newest ended sessions, newest first, and the number of stored ones. Rejects with NatsUnavailableError. */
  history(account: string, limit: number) {
    return this.#history.newest(keyOf(account), limit);
  }

  /** Seconds of event streams of an account on this UTC day. */
  usedSeconds(account: string): number {
    // Round down: a second counts once it is complete.
    return Math.floor(usedMs(this.#records(), keyOf(account), this.#now()) / 1_000);
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
    if (event.type === 'initialised' || !event.key.startsWith(RECORD_KEY)) return;
    const process = event.key.slice(RECORD_KEY.length);
    if (process === this.#self) return;
    const { revision } = event;
    const record = event.type === 'put' ? parseValue(ProcessRecord, event.value) : undefined;
    if (event.type === 'put' && record === undefined) {
      // The process writes its record again within a second.
      this.#logger.error({ key: event.key }, 'unreadable record in the bucket of sessions');
    }
    if (record === undefined) this.#others.delete(process);
    else this.#others.set(process, { record, revision, heartbeatAtMs: performance.now() });
    this.#wake();
  }

  #wake(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }

  /** All records, with our own first. A process that is not live has no open sessions, but today's usage counts. */
  #records(): ProcessRecord[] {
    const others = [...this.#others.values()];
    return [
      this.#record,
      ...others.map((other) => (isLive(other) ? other.record : { ...other.record, open: {} })),
    ];
  }

  /**
   * Why the account may not open another session. Without NATS the open sessions of other processes do not
   * count, because they may have ended or moved here, and clients treat a refusal as final.
   */
  #refusal({ account, tier }: Caller): Problem | undefined {
    const { sessionsMax, streamSecondsPerDayMax } = TIERS[tier];
    const records = this.#records().map((record, n) =>
      n === 0 || this.#nats.connected ? record : { ...record, open: {} },
    );
    const key = keyOf(account);
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
      isLive(other) && other.heartbeatAtMs < sinceMs && other.record.open[key] !== undefined;
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
    const records = this.#records();
    // After an outage, records are outdated until every live process has sent a heartbeat.
    const isCurrent = performance.now() - this.#outageAtMs > LIVE_MS_MAX;
    for (const key of new Set([...this.#own.values()].map(({ key }) => key))) {
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

  /** Closes the sessions of a lost process. Several processes may do so at once with the same result. */
  async #closeLost(process: string, { record, revision }: Other): Promise<void> {
    const nowMs = this.#now();
    const remaining = structuredClone(record);
    const lost = Object.entries(record.open).flatMap(([key, sessions]) =>
      sessions.map((session): [string, ClosedRecord] => [
        key,
        { ...session, endedAtMs: nowMs, end: 'process_lost', events: null },
      ]),
    );
    if (lost.length === 0 && !isSpent(record, nowMs)) return;
    for (const [key, session] of lost) removeSession(remaining, key, session, nowMs);
    await this.#tolerant(async () => {
      await this.#history.add(lost);
      const key = RECORD_KEY + process;
      if (isSpent(remaining, nowMs)) await this.#bucket.delete(key, revision);
      else await this.#bucket.update(key, JSON.stringify(remaining), revision);
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

  /** Writes now. After a failure, the next heartbeat retries. */
  async #writeNow(): Promise<void> {
    await this.#tolerant(async () => {
      const ended = this.#ended.slice();
      await this.#history.add(ended);
      this.#ended.splice(0, ended.length);
      await this.#bucket.put(RECORD_KEY + this.#self, JSON.stringify(this.#record));
    });
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

/** Hashed, because an account name may contain characters that a subject must not contain. */
function keyOf(account: string): string {
  return `account.${createHash('sha256').update(account).digest('hex').slice(0, 32)}`;
}
