/**
 * The rows of a tape: the newest of a stream, each pending until its transaction is final or void.
 * Changes are collected and told at most every FLUSH_MS, whatever the rate. Nothing of it knows how
 * rows look.
 */
import { type Signal, signal } from '@preact/signals';
import { ask, ProblemError } from './client.ts';
import { openEventStream, type StreamEvent, type StreamState } from './event-stream.ts';
import { span } from './format.ts';
import { type Row, rowOfOrder, rowOfTransaction } from './tape-row.ts';

const ROWS_MAX = 5_000;
/** Rows are dropped in bulk, so that dropping is not paid for with each event. */
const ROWS_SLACK = 500;
const FLUSH_MS = 250;
/** Of what comes after a pause: long enough for what comes together. */
const FIRST_FLUSH_MS = 50;
const FINAL_EVERY_MS = 2_000;
/** Of all transactions, shown or not: finality may be heard before a match that is replayed. */
const FINAL_KEPT_MAX = 20_000;
const RATE_SECONDS = 5;

export type Notice = {
  readonly kind: 'resumed' | 'gap';
  readonly text: string;
};

type FinalMatches = {
  readonly tx_hashes: readonly string[];
  readonly next: number;
  readonly more: boolean;
};

export class TapeStore {
  /** Oldest first. Grows in place: what is shown follows `version`. */
  readonly rows: Row[] = [];
  readonly version = signal(0);
  readonly state: Signal<StreamState> = signal({ kind: 'connecting' });
  readonly notice = signal<Notice | undefined>(undefined);
  /** Events a second over the last seconds. */
  readonly rate = signal(0);
  /** Of the newest match; read with `version`: told by itself it would draw with every event. */
  position = '';
  #number = 0;
  readonly #byTx = new Map<string, Row[]>();
  readonly #final = new Set<string>();
  #cursor: number | undefined;
  #flush: ReturnType<typeof setTimeout> | undefined;
  #flushedAtMs = Number.NEGATIVE_INFINITY;
  #arrivals: number[] = [];
  #resume: { readonly atMs: number; readonly cutMs: number; caughtUp: number } | undefined;
  readonly #close: () => void;

  constructor(path: string) {
    const ended = new AbortController();
    const timers = [
      setInterval(() => void this.#readFinal(ended.signal), FINAL_EVERY_MS),
      setInterval(() => this.#measure(), 1_000),
    ];
    let closeStream = () => {};
    // The cursor first: a match that is shown later cannot become final before it.
    void this.#readFinal(ended.signal).then(() => {
      if (ended.signal.aborted) return;
      closeStream = openEventStream(path, {
        event: (event) => this.#take(event),
        state: (state) => this.#turn(state),
      });
    });
    this.#close = () => {
      ended.abort();
      for (const timer of timers) clearInterval(timer);
      clearTimeout(this.#flush);
      closeStream();
    };
  }

  close(): void {
    this.#close();
  }

  #take(event: StreamEvent): void {
    const place = { number: this.#number, position: event.id };
    switch (event.name) {
      case 'order':
        this.#add(rowOfOrder(place, event.data));
        break;
      case 'tx':
        this.#add(rowOfTransaction(place, event.data));
        break;
      case 'void':
        this.#void(event);
        break;
      case 'restored':
        this.#settle((JSON.parse(event.data) as { tx_hash: string }).tx_hash);
        break;
      case 'gap':
        this.#tellGap(event);
        break;
    }
  }

  #add(row: Row): void {
    this.#number += 1;
    this.rows.push(row);
    const own = this.#byTx.get(row.txHash);
    if (own === undefined) this.#byTx.set(row.txHash, [row]);
    else own.push(row);
    if (this.#final.has(row.txHash)) row.state = 'final';
    if (this.rows.length > ROWS_MAX + ROWS_SLACK) this.#drop();
    this.#arrivals.push(Date.now());
    this.position = row.position;
    if (this.#resume !== undefined && row.detectedAtMs < this.#resume.atMs) {
      this.#resume.caughtUp += 1;
    }
    this.#changed();
  }

  #drop(): void {
    for (const dropped of this.rows.splice(0, this.rows.length - ROWS_MAX)) {
      const own = this.#byTx.get(dropped.txHash);
      // Rows come in order: of a transaction's own rows this is the oldest.
      if (own !== undefined && own.length > 1) own.shift();
      else this.#byTx.delete(dropped.txHash);
    }
  }

  #void(event: StreamEvent): void {
    const told = JSON.parse(event.data) as { tx_hash: string; match_id: string; reason: string };
    const [, orderHash = ''] = told.match_id.split(':');
    for (const row of this.#byTx.get(told.tx_hash) ?? []) {
      // Only a managed stream tells of its rows which match of the transaction they are.
      if (row.takerOrderHash !== '' && row.takerOrderHash !== orderHash) continue;
      row.state = 'void';
      row.reason = told.reason;
    }
    this.#changed();
  }

  #settle(txHash: string): void {
    for (const row of this.#byTx.get(txHash) ?? []) row.state = 'final';
    this.#changed();
  }

  #tellGap(event: StreamEvent): void {
    const told = JSON.parse(event.data) as { requested: number; first_available: number };
    this.#resume = undefined;
    this.notice.value = {
      kind: 'gap',
      text: `Events after position ${told.requested} are not kept any more: the tape goes on at ${told.first_available}.`,
    };
  }

  #turn(state: StreamState): void {
    this.state.value = state;
    if (state.kind !== 'live' || state.cutMs === undefined) return;
    this.#resume = { atMs: Date.now(), cutMs: state.cutMs, caughtUp: 0 };
    this.#tellResume(state.from);
  }

  #tellResume(from: string): void {
    const resume = this.#resume;
    if (resume === undefined) return;
    const where = from === '' ? 'from now on' : `after position ${from}`;
    this.notice.value = {
      kind: 'resumed',
      text: `The connection was cut for ${span(Math.max(1_000, resume.cutMs))}. Resumed ${where}: ${resume.caughtUp} events of that time came after, none is missing.`,
    };
  }

  async #readFinal(signal: AbortSignal): Promise<void> {
    try {
      for (let more = true; more; ) {
        const after = this.#cursor === undefined ? '' : `?after=${this.#cursor}`;
        const answer = await ask<FinalMatches>(`/v2/final_matches${after}`, { signal });
        this.#cursor = answer.next;
        more = answer.more;
        for (const txHash of answer.tx_hashes) this.#confirm(txHash);
      }
    } catch (error) {
      // Asked again from the same cursor; the tape's own state tells of an outage.
      if (!signal.aborted && !(error instanceof ProblemError)) throw error;
    }
  }

  #confirm(txHash: string): void {
    this.#final.add(txHash);
    if (this.#final.size > FINAL_KEPT_MAX) {
      const [oldest = ''] = this.#final;
      this.#final.delete(oldest);
    }
    for (const row of this.#byTx.get(txHash) ?? []) {
      // A void is told of what did not happen in a transaction that itself may well be final.
      if (row.state !== 'pending') continue;
      row.state = 'final';
      this.#changed();
    }
  }

  #measure(): void {
    const since = Date.now() - RATE_SECONDS * 1_000;
    this.#arrivals = this.#arrivals.filter((at) => at >= since);
    this.rate.value = this.#arrivals.length / RATE_SECONDS;
    if (this.#resume !== undefined && this.state.value.kind === 'live') {
      this.#tellResume(this.state.value.from);
      if (Date.now() - this.#resume.atMs > RATE_SECONDS * 1_000) this.#resume = undefined;
    }
  }

  #changed(): void {
    if (this.#flush !== undefined) return;
    const waitMs = Math.max(FIRST_FLUSH_MS, this.#flushedAtMs + FLUSH_MS - performance.now());
    this.#flush = setTimeout(() => {
      this.#flush = undefined;
      this.#flushedAtMs = performance.now();
      this.version.value += 1;
    }, waitMs);
  }
}
