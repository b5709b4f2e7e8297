/**
 * Open event streams of each account over all api processes, counted against its tier (decisions:
 * "Streams and the order feed"). Every process watches the bucket, so counts and lists are reads of
 * a map; one process writes an account's book at a time (account.ts). What a crashed process had
 * open stops counting when somebody needs the place, at the latest some seconds after the crash.
 */
import { createHash, randomUUID } from 'node:crypto';
import type { Logger } from 'pino';
import {
  type Nats,
  NatsUnavailableError,
  StreamMissingError,
} from '../../infra/nats/connection.ts';
import { type Kv, KvConflictError, type KvEvent, openKv } from '../../infra/nats/kv.ts';
import { answerPings, ping } from '../../infra/nats/ping.ts';
import { SESSIONS_BUCKET } from '../../infra/streams.ts';
import type { Caller } from '../auth/keys.ts';
import { TIERS, type Tier } from '../auth/tiers.ts';
import { type Problem, quotaExceeded } from '../errors.ts';
import { AccountSessions } from './account.ts';
import { History } from './history.ts';
import { Presence } from './presence.ts';
import {
  Book,
  type ClosedRecord,
  EMPTY_BOOK,
  isSpent,
  type OpenRecord,
  type SessionEnd,
  usedMs,
  written,
} from './record.ts';

/** An admitted event stream. */
export type OpenSession = {
  readonly id: string;
  /** Resolves when the account has used up its time of today; the stream must be ended then. */
  readonly usedUp: Promise<void>;
  /** Gives the place back; call it once. */
  close(end: SessionEnd, events: number): void;
};

export type Sessions = {
  /** Throws Problem 403 where a quota of the tier is used up. */
  open(caller: Caller, streamId: string | null): Promise<OpenSession>;
  /** Open sessions of an account, oldest first. */
  list(account: string): OpenRecord[];
  /** Ended sessions, newest first. Rejects with NatsUnavailableError. */
  history(account: string, limit: number): Promise<ClosedRecord[]>;
  /** Seconds of event streams of an account on this UTC day. */
  usedSeconds(account: string): number;
  /** Settles when the bucket is no longer watched; rejects where that was not asked for. */
  readonly watching: Promise<void>;
  close(): Promise<void>;
};

const CHECK_MS = 500;
const CLOSE_MS_MAX = 500;
const ACCOUNT_KEY = 'account.';
const PROCESS_KEY = 'process.';

/** Watches the bucket; resolves once every open session is known. */
export async function openSessions(options: {
  readonly nats: Nats;
  readonly logger: Logger;
  readonly replicas?: number;
  /** Milliseconds since the epoch. */
  readonly now?: () => number;
}): Promise<Sessions> {
  const { nats, replicas = 1 } = options;
  const bucket = await openKv(nats, SESSIONS_BUCKET, { replicas });
  const history = await History.open(nats, replicas);
  const registry = new Registry({ ...options, bucket, history });
  await registry.start();
  return registry;
}

type Shelved = { readonly book: Book; readonly revision: number };

class Registry implements Sessions {
  readonly #self = randomUUID();
  readonly #nats: Nats;
  readonly #logger: Logger;
  readonly #bucket: Kv;
  readonly #history: History;
  readonly #now: () => number;
  readonly #presence: Presence;
  /** By key of the account. */
  readonly #books = new Map<string, Shelved>();
  readonly #accounts = new Map<string, AccountSessions>();
  readonly #limited = new Map<string, { readonly caller: Caller; readonly usedUp: () => void }>();
  readonly #stop = new AbortController();
  readonly #removePings: () => void;
  readonly #checking: NodeJS.Timeout;
  watching: Promise<void> = Promise.resolve();

  constructor(options: {
    readonly nats: Nats;
    readonly logger: Logger;
    readonly bucket: Kv;
    readonly history: History;
    readonly now?: () => number;
  }) {
    this.#nats = options.nats;
    this.#logger = options.logger;
    this.#bucket = options.bucket;
    this.#history = options.history;
    this.#now = options.now ?? Date.now;
    this.#presence = new Presence({
      self: this.#self,
      connected: () => this.#nats.connected,
      beat: () => this.#beat(),
      onLost: (process) => this.#clear(process),
    });
    this.#removePings = answerPings(this.#nats, pingSubject(this.#self));
    this.#checking = setInterval(() => this.#check(), CHECK_MS);
    this.#checking.unref();
  }

  async start(): Promise<void> {
    const initialised = Promise.withResolvers<void>();
    this.watching = this.#follow(initialised.resolve);
    this.watching.catch(initialised.reject);
    await initialised.promise;
    await this.#beat();
  }

  async open(caller: Caller, streamId: string | null): Promise<OpenSession> {
    const record = { id: randomUUID(), streamId, startedAtMs: this.#now() };
    const account = this.#accountOf(caller.account);
    await account.admit(record, (book) => refusal(book, caller.tier, this.#now()));
    const usedUp = Promise.withResolvers<void>();
    if (TIERS[caller.tier].streamSecondsPerDayMax !== null) {
      this.#limited.set(record.id, { caller, usedUp: usedUp.resolve });
    }
    return {
      id: record.id,
      usedUp: usedUp.promise,
      close: (end, events) => {
        this.#limited.delete(record.id);
        account.close({ ...record, endedAtMs: this.#now(), end, events });
      },
    };
  }

  list(account: string): OpenRecord[] {
    const { open } = this.#bookOf(keyOf(account)).book;
    const own = this.#accounts.get(keyOf(account))?.open.values() ?? [];
    const others = Object.entries(open)
      .filter(([process]) => process !== this.#self && this.#presence.isAlive(process))
      .flatMap(([, sessions]) => sessions);
    return [...own, ...others].sort((a, b) => a.startedAtMs - b.startedAtMs);
  }

  history(account: string, limit: number): Promise<ClosedRecord[]> {
    return this.#history.newest(keyOf(account), limit);
  }

  usedSeconds(account: string): number {
    // Rounds down: a second that has begun is not used up.
    return Math.floor(usedMs(this.#present(keyOf(account)), this.#now()) / 1_000);
  }

  async close(): Promise<void> {
    clearInterval(this.#checking);
    this.#presence.stop();
    const deadline = AbortSignal.timeout(CLOSE_MS_MAX);
    await Promise.race([this.#leave(), aborted(deadline)]);
    this.#removePings();
    this.#stop.abort();
    await this.watching;
  }

  async #leave(): Promise<void> {
    await Promise.all([...this.#accounts.values()].map((account) => account.settled()));
    await this.#tolerant(this.#bucket.delete(PROCESS_KEY + this.#self));
  }

  async #follow(initialised: () => void): Promise<void> {
    for await (const event of this.#bucket.watch(this.#stop.signal)) {
      if (event.type === 'initialised') initialised();
      else if (event.key.startsWith(PROCESS_KEY)) this.#hear(event);
      else this.#learn(event);
    }
  }

  #hear(event: Exclude<KvEvent, { type: 'initialised' }>): void {
    const process = event.key.slice(PROCESS_KEY.length);
    if (event.type === 'put') this.#presence.heard(process);
    else this.#presence.gone(process);
  }

  #learn(event: Exclude<KvEvent, { type: 'initialised' }>): void {
    const { key, revision } = event;
    if (revision <= this.#bookOf(key).revision) return;
    const book = event.type === 'put' ? this.#parse(key, event.value) : EMPTY_BOOK;
    this.#books.set(key, { book, revision });
    this.#accounts.get(key)?.compare(book);
  }

  #parse(key: string, value: Uint8Array): Book {
    const parsed = Book.safeParse(jsonOf(value));
    if (parsed.success) return parsed.data;
    // Written anew by the next session; counts start again, nothing else depends on it.
    this.#logger.error({ key }, 'unreadable book in the bucket of sessions');
    return EMPTY_BOOK;
  }

  #bookOf(key: string): Shelved {
    return this.#books.get(key) ?? { book: EMPTY_BOOK, revision: 0 };
  }

  /** With what is open here, whether it is written already or not. */
  #present(key: string): Book {
    const { book } = this.#bookOf(key);
    const own = this.#accounts.get(key);
    if (own === undefined) return book;
    const change = { process: this.#self, open: [...own.open.values()], lost: [], closed: [] };
    return written(book, change, this.#now());
  }

  #accountOf(account: string): AccountSessions {
    return this.#writerOf(keyOf(account));
  }

  #writerOf(key: string): AccountSessions {
    const found = this.#accounts.get(key);
    if (found !== undefined) return found;
    const shelf = {
      known: () => this.#bookOf(key),
      fetch: async () => {
        const entry = await this.#bucket.get(key);
        if (entry !== undefined) this.#learn({ type: 'put', ...entry });
      },
      write: async (book: Book, revision: number) => {
        const value = JSON.stringify(book);
        const stored =
          revision === 0
            ? await this.#bucket.create(key, value)
            : await this.#bucket.update(key, value, revision);
        if (stored > this.#bookOf(key).revision) this.#books.set(key, { book, revision: stored });
      },
      record: (closed: readonly ClosedRecord[]) => this.#history.add(key, closed),
      isAlive: (process: string) => this.#presence.isAlive(process),
      verify: (processes: readonly string[]) => this.#verify(processes),
    };
    const made = new AccountSessions(this.#self, shelf, this.#now);
    this.#accounts.set(key, made);
    return made;
  }

  async #verify(processes: readonly string[]): Promise<void> {
    const others = processes.filter((process) => process !== this.#self);
    await Promise.all(
      others.map(async (process) => {
        if ((await ping(this.#nats, pingSubject(process))) === 'nobody') {
          this.#presence.gone(process);
        }
      }),
    );
  }

  /** Takes what a lost process had open out of every book. */
  #clear(process: string): void {
    const keys = [...this.#books].filter(([, { book }]) => book.open[process] !== undefined);
    for (const [key] of keys) this.#writerOf(key).renew();
    if (keys.length > 0) return;
    this.#presence.forget(process);
    void this.#tolerant(this.#bucket.delete(PROCESS_KEY + process));
  }

  #beat(): Promise<void> {
    return this.#tolerant(this.#bucket.put(PROCESS_KEY + this.#self, ''));
  }

  /** Ends what is over its time, and forgets accounts and books that are done with. */
  #check(): void {
    const nowMs = this.#now();
    for (const { caller, usedUp } of this.#limited.values()) {
      if (isUsedUp(this.#present(keyOf(caller.account)), caller.tier, nowMs)) usedUp();
    }
    for (const [key, account] of this.#accounts) if (account.isIdle) this.#accounts.delete(key);
    for (const [key, { book, revision }] of this.#books) {
      if (revision === 0 || book === EMPTY_BOOK || !isSpent(book, nowMs)) continue;
      this.#books.set(key, { book: EMPTY_BOOK, revision });
      void this.#tolerant(this.#bucket.delete(key, revision));
    }
  }

  /** What is done again anyway may fail while the server is away, or because another did it. */
  async #tolerant(write: Promise<unknown>): Promise<void> {
    try {
      await write;
    } catch (error) {
      const passes =
        error instanceof NatsUnavailableError ||
        error instanceof StreamMissingError ||
        error instanceof KvConflictError;
      if (!passes) this.#logger.error({ err: error }, 'the bucket of sessions refused a write');
    }
  }
}

function refusal(book: Book, tier: Tier, nowMs: number): Problem | undefined {
  const { sessionsMax, streamSecondsPerDayMax } = TIERS[tier];
  const open = Object.values(book.open).flat().length;
  if (open >= sessionsMax) return quotaExceeded('max_sessions', tier, sessionsMax, open);
  if (streamSecondsPerDayMax === null || !isUsedUp(book, tier, nowMs)) return undefined;
  const used = Math.floor(usedMs(book, nowMs) / 1_000);
  return quotaExceeded('stream_seconds_per_day', tier, streamSecondsPerDayMax, used);
}

function isUsedUp(book: Book, tier: Tier, nowMs: number): boolean {
  const { streamSecondsPerDayMax } = TIERS[tier];
  return streamSecondsPerDayMax !== null && usedMs(book, nowMs) >= streamSecondsPerDayMax * 1_000;
}

/** An account's name may hold any character, a key of a bucket may not. */
function keyOf(account: string): string {
  return ACCOUNT_KEY + createHash('sha256').update(account).digest('hex').slice(0, 32);
}

function pingSubject(process: string): string {
  return `fillstream.api.${process}.ping`;
}

function jsonOf(value: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(value));
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
