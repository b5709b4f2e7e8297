/**
 * The sessions of one account in this process, and the only writer of them in the account's book.
 * Invariant: the book is written by compare-and-set, so that a quota holds over all processes;
 * what came together is written together. While the bucket cannot be reached, sessions are admitted
 * by what this process has open, and the book is put right afterwards: what others have open may have
 * ended or come here, and a refusal would be final.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { NatsUnavailableError, StreamMissingError } from '../../infra/nats/connection.ts';
import { KvConflictError } from '../../infra/nats/kv.ts';
import type { Problem } from '../errors.ts';
import { type Book, type ClosedRecord, type OpenRecord, written } from './record.ts';

/** The account's book in the bucket. */
export type Shelf = {
  /** As this process knows it; revision 0 where there is none. */
  known(): { readonly book: Book; readonly revision: number };
  /** Asks the bucket, and knows it from then on. */
  fetch(): Promise<void>;
  /** Throws KvConflictError when the revision is another one. */
  write(book: Book, revision: number): Promise<void>;
  /** Keeps what ended; the same record again changes nothing. */
  record(closed: readonly ClosedRecord[]): Promise<void>;
  isAlive(process: string): boolean;
  /** Asks the processes themselves; afterwards `isAlive` knows who is gone. */
  verify(processes: readonly string[]): Promise<void>;
};

type Waiting = {
  readonly record: OpenRecord;
  /** Why the account may not have one more beside `others`; undefined where it may. */
  readonly refuse: (book: Book) => Problem | undefined;
  readonly answer: PromiseWithResolvers<void>;
};

const RETRY_MS = 250;

export class AccountSessions {
  readonly open = new Map<string, OpenRecord>();
  readonly #process: string;
  readonly #shelf: Shelf;
  readonly #now: () => number;
  #waiting: Waiting[] = [];
  #closed: ClosedRecord[] = [];
  #isBehind = false;
  #isWriting = false;
  #written: Promise<void> = Promise.resolve();

  constructor(process: string, shelf: Shelf, now: () => number) {
    this.#process = process;
    this.#shelf = shelf;
    this.#now = now;
  }

  /** Resolves when the session counts. Rejects with what `refuse` gives. */
  admit(record: OpenRecord, refuse: Waiting['refuse']): Promise<void> {
    const answer = Promise.withResolvers<void>();
    this.#waiting.push({ record, refuse, answer });
    this.#write();
    return answer.promise;
  }

  close(record: ClosedRecord): void {
    this.open.delete(record.id);
    this.#closed.push(record);
    this.#write();
  }

  /** Writes the book again, without what lost processes had open. */
  renew(): void {
    this.#isBehind = true;
    this.#write();
  }

  /** Looks at a book that somebody wrote: ours must be in it as they are. */
  compare({ open }: Book): void {
    if (this.#isWriting) return;
    const listed = new Set((open[this.#process] ?? []).map(({ id }) => id));
    if (listed.size === this.open.size && [...this.open.keys()].every((id) => listed.has(id))) {
      return;
    }
    this.renew();
  }

  /** Nothing is open or waits to be written. */
  get isIdle(): boolean {
    return this.open.size === 0 && !this.#isWriting;
  }

  /** Resolves when all is written. */
  async settled(): Promise<void> {
    await this.#written;
  }

  #write(): void {
    if (!this.#isWriting) this.#written = this.#writeAll();
  }

  async #writeAll(): Promise<void> {
    this.#isWriting = true;
    try {
      while (this.#waiting.length > 0 || this.#closed.length > 0 || this.#isBehind) {
        await this.#writeWaiting();
      }
    } finally {
      // In the same turn as the last look: whoever adds work later starts the writing again.
      this.#isWriting = false;
    }
  }

  async #writeWaiting(): Promise<void> {
    const waiting = this.#waiting.splice(0);
    const closed = this.#closed.splice(0);
    this.#isBehind = false;
    try {
      await this.#writeOnce(waiting, closed);
    } catch (error) {
      const passes = error instanceof NatsUnavailableError || error instanceof StreamMissingError;
      if (!passes) {
        for (const { answer } of waiting) answer.reject(error);
        throw error;
      }
      this.#judge(waiting, this.#shelf.known().book);
      this.#closed.unshift(...closed);
      this.#isBehind = true;
      await delay(RETRY_MS, undefined, { ref: false });
    }
  }

  async #writeOnce(waiting: readonly Waiting[], closed: readonly ClosedRecord[]): Promise<void> {
    let isSure = false;
    for (;;) {
      const { book, revision } = this.#shelf.known();
      const lost = Object.keys(book.open).filter((process) => !this.#shelf.isAlive(process));
      const ended = [...closed, ...this.#lostOf(book, lost)];
      const open = [...this.open.values()];
      const next = () =>
        written(book, { process: this.#process, open, lost, closed: ended }, this.#now());
      const refused = new Map<Waiting, Problem>();
      for (const one of waiting) {
        const problem = one.refuse(next());
        if (problem === undefined) open.push(one.record);
        else refused.set(one, problem);
      }
      if (refused.size > 0 && !isSure) {
        // Nobody is refused for sessions that ended a moment ago, or whose process is gone.
        await Promise.all([this.#shelf.fetch(), this.#shelf.verify(Object.keys(book.open))]);
        isSure = true;
        continue;
      }
      try {
        if (ended.length > 0) await this.#shelf.record(ended);
        if (refused.size < waiting.length || ended.length > 0 || waiting.length === 0) {
          await this.#shelf.write(next(), revision);
        }
      } catch (error) {
        if (!(error instanceof KvConflictError)) throw error;
        await this.#shelf.fetch();
        continue;
      }
      for (const one of waiting) this.#answer(one, refused.get(one));
      return;
    }
  }

  #lostOf(book: Book, lost: readonly string[]): ClosedRecord[] {
    return lost
      .flatMap((process) => book.open[process] ?? [])
      .map((one) => ({ ...one, endedAtMs: this.#now(), end: 'process_lost', events: null }));
  }

  /** By what is open here and was used today, without writing. */
  #judge(waiting: readonly Waiting[], { used }: Book): void {
    for (const one of waiting) {
      const change = { open: [...this.open.values()], lost: [], closed: [] };
      const next = written({ used, open: {} }, { process: this.#process, ...change }, this.#now());
      this.#answer(one, one.refuse(next));
    }
  }

  #answer({ record, answer }: Waiting, problem: Problem | undefined): void {
    if (problem === undefined) {
      this.open.set(record.id, record);
      answer.resolve();
    } else answer.reject(problem);
  }
}
