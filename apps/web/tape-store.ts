/**
 * The rows of a tape: the newest matches of a stream, each pending until it is final or void. Reads both event formats,
 * `order` (labelled) of the order feed and `tx` of a managed stream. Amounts stay decimal text. Changes are batched and
 * announced at most every FLUSH_MS. The store does not know how rows are displayed.
 */
import { type Signal, signal } from '@preact/signals';
import {
  type FeedEvent,
  FillstreamError,
  type Gap,
  type LabelledMatch,
  type LiveTransaction,
  type Restored,
  type StreamEvent,
  type Traded,
  traded,
} from '../client/index.ts';
import { serverMs } from './client.ts';
import { span } from './format.ts';
import type { FeedState } from './shared-feed.ts';

export type RowState = 'pending' | 'final' | 'void';

export type Participant = {
  readonly address: string;
  readonly name: string;
  readonly side: 'BUY' | 'SELL';
  readonly outcome: string;
  readonly usdc: string;
  readonly shares: string;
  readonly fee: string;
};

export type Row = {
  /** Number of the row, counting all rows the tape ever had. */
  readonly number: number;
  /** Cursor in the feed. */
  readonly cursor: string;
  readonly txHash: string;
  /** The id by which `void` and `restored` refer to it. */
  readonly matchId: string;
  readonly detectedAtMs: number;
  readonly market: { readonly id: string; readonly question: string };
  readonly taker: Participant;
  readonly makers: readonly Participant[];
  /** What the tape is about: the taker's fill, or that of a trader whom it follows. */
  readonly shown: Traded;
  state: RowState;
  /** Why it is void. */
  reason: string;
};

type Place = { readonly number: number; readonly cursor: string };

function rowOfOrder(place: Place, order: LabelledMatch, followed: readonly string[]): Row {
  return {
    ...place,
    txHash: order.tx_hash,
    matchId: order.match_id,
    detectedAtMs: Date.parse(order.timestamp.replace(' ', 'T')),
    market: { id: order.market.id, question: order.market.question },
    taker: participant(order.taker_order, order.taker_order.trader),
    makers: order.maker_orders.map((maker) => participant(maker, maker.trader)),
    shown: traded(order.taker_order, order.maker_orders, followed),
    state: 'pending',
    reason: '',
  };
}

function rowOfTransaction(
  place: Place,
  transaction: LiveTransaction,
  followed: readonly string[],
): Row {
  const { makers, market, taker } = transaction;
  const order = ({ user, ...fill }: typeof taker) => ({ ...fill, trader: user });
  return {
    ...place,
    txHash: transaction.tx_hash,
    matchId: transaction.match_id,
    detectedAtMs: Date.parse(transaction.timestamp),
    market: {
      id: market.id === 0 ? market.condition_id : String(market.id),
      question: market.question,
    },
    taker: participant(taker, taker.user),
    makers: makers.map((maker) => participant(maker, maker.user)),
    shown: traded(order(taker), makers.map(order), followed),
    state: 'pending',
    reason: '',
  };
}

function participant(
  { side, outcome, usdc, shares, fee }: Omit<Participant, 'address' | 'name'>,
  { address, name }: { readonly address: string; readonly name: string },
): Participant {
  return { address, name, side, outcome, usdc, shares, fee };
}

const ROWS_MAX = 5_000;
/** Rows are dropped in bulk, not one per event. */
const ROWS_SLACK = 500;
const FLUSH_MS = 350;
/** Delay of the first flush after a pause: events often arrive together. */
const FIRST_FLUSH_MS = 50;
const RATE_SECONDS = 5;

export type Notice = {
  readonly kind: 'resumed' | 'gap';
  readonly text: string;
};

/** Opens the stream of a tape. */
export type Open = (options: {
  readonly signal: AbortSignal;
  readonly onState: (state: FeedState) => void;
}) => AsyncIterable<FeedEvent | StreamEvent>;

type TapeState =
  | Exclude<FeedState, { kind: 'waiting' }>
  | { readonly kind: 'waiting'; readonly why: string; readonly tryAtMs: number }
  | { readonly kind: 'refused'; readonly problem: FillstreamError };

export class TapeStore {
  /** Oldest first. Changes in place: readers follow `version`. */
  readonly rows: Row[] = [];
  readonly version = signal(0);
  readonly state: Signal<TapeState> = signal({ kind: 'connecting' });
  readonly notice = signal<Notice | undefined>(undefined);
  /** Events per second over the last seconds. */
  readonly rate = signal(0);
  /** Time of the newest match. Not a signal, because that would redraw with every event. */
  cursor = '';
  #number = 0;
  readonly #byTx = new Map<string, Row[]>();
  #flush: ReturnType<typeof setTimeout> | undefined;
  #flushedAtMs = Number.NEGATIVE_INFINITY;
  readonly #openedAtMs = Date.now();
  #arrivals: number[] = [];
  #resume: { readonly atMs: number; readonly cutMs: number; caughtUp: number } | undefined;
  readonly #followed: readonly string[];
  readonly #close: () => void;

  /** Rows show what the followed traders did, by address; without any, what takers did. */
  constructor(open: Open, followed: readonly string[] = []) {
    this.#followed = followed;
    const timer = setInterval(() => this.#measure(), 1_000);
    const closed = new AbortController();
    void this.#read(open, closed.signal);
    this.#close = () => {
      clearInterval(timer);
      clearTimeout(this.#flush);
      closed.abort();
    };
  }

  close(): void {
    this.#close();
  }

  dismissNotice(): void {
    this.#resume = undefined;
    this.notice.value = undefined;
  }

  async #read(open: Open, signal: AbortSignal): Promise<void> {
    try {
      const events = open({ signal, onState: (state) => this.#changeState(state) });
      for await (const event of events) this.#take(event);
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof FillstreamError)) throw error;
      this.state.value = { kind: 'refused', problem: error };
    }
  }

  #take(event: FeedEvent | StreamEvent): void {
    const place = { number: this.#number, cursor: event.cursor };
    switch (event.type) {
      case 'order':
        this.#add(rowOfOrder(place, event.data, this.#followed));
        break;
      case 'tx':
        this.#add(rowOfTransaction(place, event.data, this.#followed));
        break;
      case 'void':
        this.#settle(event.data, 'void', event.data.reason);
        break;
      case 'restored':
      case 'final':
        this.#settle(event.data, 'final', '');
        break;
      case 'gap':
        this.#showGap(event.data);
        break;
    }
  }

  #add(row: Row): void {
    this.#number += 1;
    this.rows.push(row);
    const own = this.#byTx.get(row.txHash);
    if (own === undefined) this.#byTx.set(row.txHash, [row]);
    else own.push(row);
    if (this.rows.length > ROWS_MAX + ROWS_SLACK) this.#drop();
    // The rows that the tape opens with are not new.
    if (row.detectedAtMs > serverMs(this.#openedAtMs) - RATE_SECONDS * 1_000) {
      this.#arrivals.push(Date.now());
    }
    this.cursor = row.cursor;
    if (this.#resume !== undefined && row.detectedAtMs < serverMs(this.#resume.atMs)) {
      this.#resume.caughtUp += 1;
    }
    this.#changed();
  }

  #drop(): void {
    for (const dropped of this.rows.splice(0, this.rows.length - ROWS_MAX)) {
      const own = this.#byTx.get(dropped.txHash);
      // Rows arrive in order, so this is the oldest row of the transaction.
      if (own !== undefined && own.length > 1) own.shift();
      else this.#byTx.delete(dropped.txHash);
    }
  }

  /** Sets the state of the event's match. */
  #settle(sequel: Restored, state: RowState, reason: string): void {
    for (const row of this.#byTx.get(sequel.tx_hash) ?? []) {
      if (row.matchId !== sequel.match_id) continue;
      row.state = state;
      row.reason = reason;
    }
    this.#changed();
  }

  #showGap(gap: Gap): void {
    this.#resume = undefined;
    this.notice.value = {
      kind: 'gap',
      text: `Events after ${gap.requested} are no longer available. The tape continues at ${gap.first_available}.`,
    };
  }

  #changeState(state: FeedState): void {
    this.state.value =
      state.kind === 'waiting'
        ? { kind: 'waiting', why: state.error.message, tryAtMs: Date.now() + state.waitMs }
        : state;
    if (state.kind !== 'live' || state.cutMs === undefined) return;
    this.#resume = { atMs: Date.now(), cutMs: state.cutMs, caughtUp: 0 };
    this.#showResume(state.from);
  }

  #showResume(from: string): void {
    const resume = this.#resume;
    if (resume === undefined) return;
    const where = from === '' ? 'from now on' : `after ${from}`;
    this.notice.value = {
      kind: 'resumed',
      text: `The connection was cut for ${span(Math.max(1_000, resume.cutMs))}. Resumed ${where}: ${resume.caughtUp} missed events were delivered, none is missing.`,
    };
  }

  #measure(): void {
    const since = Date.now() - RATE_SECONDS * 1_000;
    this.#arrivals = this.#arrivals.filter((at) => at >= since);
    this.rate.value = this.#arrivals.length / RATE_SECONDS;
    if (this.#resume !== undefined && this.state.value.kind === 'live') {
      this.#showResume(this.state.value.from);
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
