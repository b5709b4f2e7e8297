/**
 * The order feed for all tabs of this browser, over one event stream: each stream counts as a session, and browsers open
 * only six connections to a host. One tab leads. It opens the stream with a filter that passes what any tab wants, and
 * broadcasts the events, which each tab filters again. When it closes, another tab leads and resumes after the last event.
 * Without locks (the page has no HTTPS) or broadcasts (storage is blocked), each tab has its own stream.
 */
import { ApiError, type FeedEvent, FillstreamError, type StreamState } from '../client/index.ts';
import { fillstream } from './client.ts';
import { type FeedFilter, passes, unionOf } from './feed-filter.ts';
import { key } from './key.ts';
import { tabChannel } from './stored.ts';

export type FeedState =
  | Exclude<StreamState, { kind: 'waiting' }>
  | {
      readonly kind: 'waiting';
      readonly error: { readonly message: string };
      readonly waitMs: number;
    };

/** A permanent error, as it is sent to other tabs. */
type Refusal = {
  readonly kind: 'refused';
  readonly status: number;
  readonly problem: ConstructorParameters<typeof ApiError>[1];
};

/** What a tab wants of the stream: the matches of a filter and later events, after this cursor; '' is from now on. */
type Want = { readonly id: string; readonly filter: FeedFilter; readonly cursor: string };

type Message =
  | { readonly kind: 'leads' }
  | { readonly kind: 'wants'; readonly want: Want }
  | { readonly kind: 'has enough'; readonly id: string }
  /** From now on, the stream has every event that these want. */
  | { readonly kind: 'serves'; readonly stream: string; readonly ids: readonly string[] }
  | { readonly kind: 'event'; readonly stream: string; readonly event: FeedEvent }
  | { readonly kind: 'state'; readonly state: FeedState | Refusal };

/** The wants of several tabs, or of a view that opens, arrive within this time. */
const GATHER_MS = 60;
const RETRY_MS = 5_000;

/**
 * The events that pass a filter, from the last `last` matches on (at most 200). Later events about other matches may be
 * among them. Throws FillstreamError if the server rejects the filter or the key, and the signal's reason.
 */
export async function* sharedFeed(
  filter: FeedFilter,
  options: {
    readonly last?: number;
    readonly signal: AbortSignal;
    readonly onState?: (state: FeedState) => void;
  },
): AsyncGenerator<FeedEvent, void> {
  const { last = 0, onState, signal } = options;
  onState?.({ kind: 'connecting' });
  const page = await newest(filter, last, options);
  if (last > 0) yield* page.events;
  const listener = new Listener({ filter, cursor: page.cursor }, onState);
  const feed = feedOf(key.value);
  const abort = () => listener.fail(signal.reason);
  signal.addEventListener('abort', abort);
  feed.add(listener);
  try {
    for (;;) yield await listener.next();
  } finally {
    feed.remove(listener);
    signal.removeEventListener('abort', abort);
  }
}

/** The newest matches, and the cursor after them. Repeated while the service is unavailable. */
async function newest(
  filter: FeedFilter,
  last: number,
  { signal, onState }: Parameters<typeof sharedFeed>[1],
) {
  for (;;) {
    try {
      // Without past matches, only the cursor counts, which needs no search for matches that pass.
      const query = last > 0 ? { ...filter, finality: true, limit: last } : { limit: 1 };
      return await fillstream.value.recentMatches(query as object, { signal });
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof FillstreamError) || isPermanent(error)) throw error;
      onState?.({ kind: 'waiting', error, waitMs: RETRY_MS });
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      signal.throwIfAborted();
    }
  }
}

function isPermanent({ status }: FillstreamError): boolean {
  return status >= 400 && status < 500 && status !== 429;
}

class Listener {
  readonly id = crypto.randomUUID();
  readonly filter: FeedFilter;
  readonly onState: ((state: FeedState) => void) | undefined;
  /** Of the newest event that this listener had; '' at first, and after a gap. */
  cursor: string;
  readonly #events: FeedEvent[] = [];
  /** While no stream has everything: events that arrive, of which the stream that will serve it may have sent some. */
  #early: { readonly stream: string; readonly event: FeedEvent }[] | undefined = [];
  #failure: { readonly error: unknown } | undefined;
  #wake = () => {};

  constructor(want: Omit<Want, 'id'>, onState: Listener['onState']) {
    this.filter = want.filter;
    this.cursor = want.cursor;
    this.onState = onState;
  }

  want(): Want {
    return { id: this.id, filter: this.filter, cursor: this.cursor };
  }

  /** Waits until a stream has every event after its cursor. */
  wait(): void {
    this.#early ??= [];
  }

  /** The stream has every event after its cursor. */
  serve(stream: string): void {
    const early = this.#early ?? [];
    this.#early = undefined;
    for (const one of early) if (one.stream === stream) this.#accept(one.event);
  }

  push(stream: string, event: FeedEvent): void {
    if (this.#early === undefined) this.#accept(event);
    else this.#early.push({ stream, event });
  }

  /** Ignores an event that it had before: a stream that is opened for another tab may begin earlier. */
  #accept(event: FeedEvent): void {
    if (event.type === 'gap') this.cursor = '';
    else if (this.cursor !== '' && Number(event.cursor) <= Number(this.cursor)) return;
    else this.cursor = event.cursor;
    if (event.type === 'order' && !passes(this.filter, event.data)) return;
    this.#events.push(event);
    this.#wake();
  }

  fail(error: unknown): void {
    this.#failure ??= { error };
    this.#wake();
  }

  async next(): Promise<FeedEvent> {
    for (;;) {
      if (this.#failure !== undefined) throw this.#failure.error;
      const event = this.#events.shift();
      if (event !== undefined) return event;
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#wake = resolve;
      await promise;
    }
  }
}

/** The stream of the leading tab. */
type Opened = {
  readonly name: string;
  readonly query: string;
  /** Wants that get every event of it. */
  readonly served: Set<string>;
  /** Later wants that began at the stream's cursor or after it, so it has everything for them if its filter has. */
  readonly ahead: Set<string>;
  readonly stop: () => void;
  /** The cursor of the stream. */
  readonly cursor: () => string;
};

class TabsFeed {
  readonly key: string;
  readonly #channel: ReturnType<typeof tabChannel>;
  readonly #name: string;
  readonly #listeners = new Map<string, Listener>();
  /** Wants of other tabs, while this one leads. */
  readonly #others = new Map<string, Want>();
  #state: FeedState = { kind: 'connecting' };
  /** Set while this tab leads or waits for that. */
  #candidate: AbortController | undefined;
  #isLeader = false;
  #opened: Opened | undefined;
  #gathering: ReturnType<typeof setTimeout> | undefined;

  constructor(key: string) {
    this.key = key;
    this.#name = `fillstream.feed ${key}`;
    this.#channel = tabChannel(this.#name);
    this.#channel.addEventListener('message', ({ data }: MessageEvent<Message>) =>
      this.#receive(data),
    );
    addEventListener('pagehide', () => {
      for (const id of this.#listeners.keys()) this.#post({ kind: 'has enough', id });
    });
  }

  add(listener: Listener): void {
    this.#listeners.set(listener.id, listener);
    this.#note(listener.want());
    if (this.#isLeader) this.#gather();
    else this.#post({ kind: 'wants', want: listener.want() });
    if (this.#candidate === undefined) this.#apply();
  }

  remove({ id }: Listener): void {
    this.#listeners.delete(id);
    if (this.#isLeader) this.#gather();
    else this.#post({ kind: 'has enough', id });
    // A view that is replaced by another one does not give up the stream.
    setTimeout(() => {
      if (this.#listeners.size > 0) return;
      this.#candidate?.abort();
      this.#candidate = undefined;
    }, GATHER_MS);
  }

  #post(message: Message): void {
    this.#channel.postMessage(message);
  }

  #receive(message: Message): void {
    switch (message.kind) {
      case 'leads':
        for (const listener of this.#listeners.values()) {
          listener.wait();
          this.#post({ kind: 'wants', want: listener.want() });
        }
        break;
      case 'wants':
        if (!this.#isLeader) break;
        this.#others.set(message.want.id, message.want);
        this.#note(message.want);
        this.#post({ kind: 'state', state: this.#state });
        this.#gather();
        break;
      case 'has enough':
        if (this.#others.delete(message.id)) this.#gather();
        break;
      case 'serves':
        this.#serve(message);
        break;
      case 'event':
        this.#take(message);
        break;
      case 'state':
        this.#show(message.state);
        break;
    }
  }

  /** Leads as soon as no other tab does. Browsers have no locks without HTTPS, and reject them if storage is blocked. */
  #apply(): void {
    const candidate = new AbortController();
    this.#candidate = candidate;
    const { signal } = candidate;
    const lead = () => this.#lead(signal);
    const isBlocked = (error: unknown) =>
      error instanceof DOMException && error.name === 'SecurityError';
    if (!('locks' in navigator)) void lead();
    else {
      void navigator.locks.request(this.#name, { signal }, lead).catch((error: unknown) => {
        if (isBlocked(error)) return lead();
        if (!signal.aborted) throw error;
      });
    }
  }

  async #lead(signal: AbortSignal): Promise<void> {
    this.#isLeader = true;
    for (const listener of this.#listeners.values()) listener.wait();
    this.#post({ kind: 'leads' });
    this.#gather();
    const { promise, resolve } = Promise.withResolvers<void>();
    signal.addEventListener('abort', () => resolve());
    if (signal.aborted) resolve();
    await promise;
    this.#isLeader = false;
    clearTimeout(this.#gathering);
    this.#close();
    this.#others.clear();
  }

  #note({ id, cursor }: Want): void {
    const opened = this.#opened;
    const isAhead = cursor !== '' && Number(cursor) >= Number(opened?.cursor());
    if (isAhead) opened?.ahead.add(id);
  }

  #gather(): void {
    clearTimeout(this.#gathering);
    this.#gathering = setTimeout(() => this.#open(), GATHER_MS);
  }

  /** Opens the stream that all tabs want, unless it is open. It begins where the first of them needs it. */
  #open(): void {
    const own = [...this.#listeners.values()].map((listener) => listener.want());
    const wants = [...own, ...this.#others.values()];
    if (wants.length === 0) {
      this.#close();
      return;
    }
    const opened = this.#opened;
    const query = unionOf(wants.map(({ filter }) => filter));
    if (opened !== undefined && opened.query === JSON.stringify(query)) {
      const ids = wants.flatMap(({ id }) => (opened.ahead.has(id) ? [id] : []));
      if (wants.every(({ id }) => opened.served.has(id) || opened.ahead.has(id))) {
        this.#announceServed(opened, ids);
        return;
      }
    }
    const cursors = wants.flatMap(({ id, cursor }) => {
      const from = opened?.served.has(id) ? opened.cursor() : cursor;
      return from === '' ? [] : [Number(from)];
    });
    const from = cursors.length === 0 ? '' : String(Math.min(...cursors));
    this.#close();
    const stop = new AbortController();
    const stream = fillstream.value.feed(
      { ...(query as object), finality: true },
      {
        from,
        signal: stop.signal,
        onState: (state) => this.#announce(state),
      },
    );
    const next = {
      name: crypto.randomUUID(),
      query: JSON.stringify(query),
      served: new Set<string>(),
      ahead: new Set<string>(),
      stop: () => stop.abort(),
      cursor: () => stream.cursor,
    };
    this.#opened = next;
    this.#announceServed(
      next,
      wants.map(({ id }) => id),
    );
    void this.#read(next.name, stream, stop.signal);
  }

  #announceServed({ ahead, name, served }: Opened, ids: readonly string[]): void {
    for (const id of ids) {
      served.add(id);
      ahead.delete(id);
    }
    this.#post({ kind: 'serves', stream: name, ids });
    this.#serve({ stream: name, ids });
  }

  #serve({ stream, ids }: { readonly stream: string; readonly ids: readonly string[] }): void {
    for (const id of ids) this.#listeners.get(id)?.serve(stream);
  }

  #close(): void {
    this.#opened?.stop();
    this.#opened = undefined;
  }

  async #read(name: string, events: AsyncIterable<FeedEvent>, signal: AbortSignal): Promise<void> {
    try {
      for await (const event of events) {
        if (signal.aborted) return;
        this.#post({ kind: 'event', stream: name, event });
        this.#take({ stream: name, event });
      }
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      this.#opened = undefined;
      const { status, message, code, requestId, issues, quota } = error;
      const problem = { detail: message, error: code, request_id: requestId, issues, quota };
      const refusal = { kind: 'refused', status, problem } as Refusal;
      this.#post({ kind: 'state', state: refusal });
      this.#show(refusal);
    }
  }

  #take({ stream, event }: { readonly stream: string; readonly event: FeedEvent }): void {
    for (const listener of this.#listeners.values()) listener.push(stream, event);
  }

  /** Tells all tabs. A stream that is opened again for another filter stays live for them. */
  #announce(state: StreamState): void {
    if (state.kind === 'connecting' && this.#state.kind === 'live') return;
    const { message } = state.kind === 'waiting' ? state.error : { message: '' };
    const shown = state.kind === 'waiting' ? { ...state, error: { message } } : state;
    this.#post({ kind: 'state', state: shown });
    this.#show(shown);
  }

  #show(state: FeedState | Refusal): void {
    if (state.kind === 'refused') {
      const { status, problem } = state;
      const error = new ApiError(new Response(null, { status }), problem);
      for (const listener of this.#listeners.values()) listener.fail(error);
      return;
    }
    this.#state = state;
    for (const { onState } of this.#listeners.values()) onState?.(state);
  }
}

let current: TabsFeed | undefined;

function feedOf(key: string): TabsFeed {
  if (current?.key !== key) current = new TabsFeed(key);
  return current;
}
