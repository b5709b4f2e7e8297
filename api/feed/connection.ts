/**
 * The connection of one listener. better-sse's Session owns its lifecycle: it sends the headers and
 * detects the disconnect. Events bypass `Session.push`, because they are encoded once for all listeners and
 * the limit on unsent bytes must be checked before a write. All frames that are pending when it is the
 * connection's turn (rounds.ts) become one `response.write`.
 * Invariant: nothing is written after the end, and at most UNSENT_BYTES_MAX is buffered, except for a
 * single larger frame and the `end` event.
 */
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { Connection, createSession } from 'better-sse';
import type { SessionEnd } from '../sessions/record.ts';
import { endBlock } from './encode.ts';
import { rounds } from './rounds.ts';

/** Bytes that may be buffered for a client before it is disconnected. */
const UNSENT_BYTES_MAX = 1_048_576;
const END_MS_MAX = 10_000;

export const FEED_HEADERS = {
  'Content-Type': 'text/event-stream',
  'Cache-Control': 'no-cache, no-transform',
  'X-Accel-Buffering': 'no',
};

// better-sse must not see the request's URL: it handles parameters such as `padding`, which this feed
// ignores, and rejects a malformed Host header.
const URL_UNUSED = new URL('http://localhost/');
const RESPONSE_UNUSED = new Response(null);

export class FeedConnection extends Connection {
  readonly #abort = new AbortController();
  readonly #over = Promise.withResolvers<void>();
  readonly #gone = Promise.withResolvers<void>();
  override readonly url = URL_UNUSED;
  override readonly request = new Request(URL_UNUSED, { signal: this.#abort.signal });
  override readonly response = RESPONSE_UNUSED;
  /** Resolves when nothing more will be written: the client left, or `end` or `cut` was called. */
  readonly over = this.#over.promise;
  /** Resolves when the response is closed. */
  readonly gone = this.#gone.promise;
  /** Why it is over, as far as is known here. */
  why: SessionEnd = 'client_left';
  readonly #response: ServerResponse;
  readonly #pending: Buffer[] = [];
  #pendingBytes = 0;
  #open = true;

  constructor(response: ServerResponse) {
    super();
    this.#response = response;
    const leave = () => {
      this.#close();
      this.#gone.resolve();
    };
    response.once('close', leave);
    if (response.closed || response.destroyed) leave();
  }

  get open(): boolean {
    return this.#open;
  }

  /** Aborts when nothing more will be written. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** Bytes that were sent and that the operating system has not yet accepted. */
  get unsentBytes(): number {
    return this.#response.writableLength + this.#pendingBytes;
  }

  /** Sends the headers, unless the client has already left. */
  async begin(): Promise<void> {
    await createSession(this, { keepAlive: null, retry: null, trustClientEventId: false });
  }

  /** Sends complete blocks in the next round, or disconnects a client that is too far behind. */
  send(frame: Buffer): 'open' | 'cut' {
    if (!this.#open) return 'cut';
    const unsent = this.unsentBytes;
    if (unsent > 0 && unsent + frame.length > UNSENT_BYTES_MAX) {
      this.end('too_slow');
      return 'cut';
    }
    if (this.#pending.length === 0) rounds.add(this);
    this.#pending.push(frame);
    this.#pendingBytes += frame.length;
    return 'open';
  }

  /** Writes the pending frames. */
  flush(): void {
    if (this.#open && this.#pending.length > 0) this.#response.write(concatenated(this.#pending));
    this.#pending.length = 0;
    this.#pendingBytes = 0;
  }

  /** Resolves when the buffer is empty or the connection has ended. A stalled client is disconnected. */
  async drained(stalledMsMax: number): Promise<void> {
    this.flush();
    if (!this.#open || !this.#response.writableNeedDrain) return;
    const stalled = setTimeout(() => this.end('too_slow'), stalledMsMax).unref();
    await once(this.#response, 'drain', { signal: this.#abort.signal }).catch(() => undefined);
    clearTimeout(stalled);
  }

  /**
   * Sends the reason in an `end` event and ends the response. A client that does not read to the end
   * is disconnected after 10 s.
   */
  end(why: SessionEnd): void {
    if (!this.#open) return;
    this.why = why;
    this.sendHead();
    this.#pending.push(Buffer.from(endBlock(why)));
    this.flush();
    this.#close();
    this.#response.end();
    const timer = setTimeout(() => this.#response.destroy(), END_MS_MAX).unref();
    void this.gone.then(() => clearTimeout(timer));
  }

  /** Disconnects a client that has not read to the end. */
  cut(): void {
    this.#close();
    this.#response.destroy();
  }

  override sendHead(): void {
    if (this.#open && !this.#response.headersSent) this.#response.writeHead(200, FEED_HEADERS);
  }

  override sendChunk(chunk: string): void {
    // better-sse begins with an empty chunk, which sends the headers.
    if (this.#open) this.#response.write(chunk);
  }

  override cleanup(): void {}

  #close(): void {
    if (!this.#open) return;
    this.#open = false;
    this.#abort.abort();
    this.#over.resolve();
  }
}

let latest: { readonly frames: readonly Buffer[]; readonly bytes: Buffer } | undefined;

/**
 * All frames as one buffer. Stored events are adjacent in memory, so a view suffices. Most live listeners
 * get the same frames in a turn, so the latest copy is reused.
 */
function concatenated(frames: readonly Buffer[]): Buffer {
  const view = adjacent(frames);
  if (view !== undefined) return view;
  const isSame =
    latest?.frames.length === frames.length && frames.every((one, n) => one === latest?.frames[n]);
  if (!isSame || latest === undefined) {
    latest = { frames: [...frames], bytes: Buffer.concat(frames) };
  }
  return latest.bytes;
}

function adjacent([first, ...others]: readonly Buffer[]): Buffer | undefined {
  if (first === undefined || others.length === 0) return first;
  let end = first.byteOffset + first.length;
  for (const { buffer, byteOffset, length } of others) {
    if (buffer !== first.buffer || byteOffset !== end) return undefined;
    end += length;
  }
  return Buffer.from(first.buffer, first.byteOffset, end - first.byteOffset);
}
