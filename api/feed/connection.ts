/**
 * The connection of one listener. better-sse's Session owns its life: when the head goes out and
 * when the client is gone. Bytes go out here and not through Session.batch, because the bound on
 * what waits needs the exact count before the write, and because of the cost: text would be encoded
 * again for each listener, and an EventBuffer takes 0.9 KB beside its text. They go to the socket
 * and not through the response, which would put a chunk around them for each listener again; what is
 * written in one turn of the event loop is one write of the operating system.
 * Invariant: nothing is written after the end, and at most `unsentBytesMax` waits, beside a single
 * frame that is larger by itself.
 */
import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { Connection, createSession } from 'better-sse';
import type { SessionEnd } from '../sessions/record.ts';
import { type Frame, joined } from './frame.ts';

const END_MS_MAX = 10_000;

export const FEED_HEADERS = {
  'Content-Type': 'text/event-stream',
  'Cache-Control': 'no-cache, no-transform',
  'X-Accel-Buffering': 'no',
};

// Not the request's own URL: better-sse answers parameters such as `padding`, which this feed
// ignores, and a malformed Host header must not be an error here.
const URL_UNUSED = new URL('http://localhost/');
const RESPONSE_UNUSED = new Response(null);

export class FeedConnection extends Connection {
  override readonly url = URL_UNUSED;
  override readonly request: Request;
  override readonly response = RESPONSE_UNUSED;
  /** Resolves when nothing more will be written: the client left, or `end`, or `destroy`. */
  readonly over: Promise<void>;
  /** Resolves when the socket is done with the response. */
  readonly gone: Promise<void>;
  /** Why it is over, as far as that is known here. */
  why: SessionEnd = 'client_left';
  readonly #response: ServerResponse;
  readonly #unsentBytesMax: number;
  readonly #abort = new AbortController();
  readonly #markOver: () => void;
  #open = true;
  #wake: (() => void) | undefined;

  constructor(response: ServerResponse, unsentBytesMax: number) {
    super();
    this.#response = response;
    this.#unsentBytesMax = unsentBytesMax;
    this.request = new Request(URL_UNUSED, { signal: this.#abort.signal });
    const over = Promise.withResolvers<void>();
    const gone = Promise.withResolvers<void>();
    this.over = over.promise;
    this.gone = gone.promise;
    this.#markOver = over.resolve;
    response.once('close', () => {
      this.#close();
      gone.resolve();
    });
    if (response.closed || response.destroyed) {
      this.#close();
      gone.resolve();
    }
  }

  get open(): boolean {
    return this.#open;
  }

  /** Bytes that were written and not yet taken by the operating system. */
  get unsentBytes(): number {
    return this.#response.writableLength;
  }

  /** Sends the head. The client may be gone before or after: then nothing is written. */
  async begin(): Promise<void> {
    await createSession(this, { keepAlive: null, retry: null, trustClientEventId: false });
  }

  /** Writes, or cuts the connection when more than the bound would wait. */
  send(frame: Frame): 'sent' | 'cut' {
    return this.#write(this.#bytesOf(frame));
  }

  /** The same of several, one or more, at once. */
  sendAll(frames: readonly Frame[]): 'sent' | 'cut' {
    return this.#write(joined(frames.map((frame) => this.#bytesOf(frame))));
  }

  /** Resolves when what was written is on its way, or the connection is over, at last by force. */
  async drained(stalledMsMax: number): Promise<void> {
    const stalled = setTimeout(() => this.destroy('too_slow'), stalledMsMax).unref();
    const { socket } = this.#response;
    const emitter = socket ?? this.#response;
    while (this.#open && emitter.writableNeedDrain) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
        emitter.once('drain', resolve);
      });
    }
    clearTimeout(stalled);
  }

  /** Ends the response as a complete one; cuts a client that does not read to its end in time. */
  end(why: SessionEnd): void {
    if (!this.#open) return;
    this.why = why;
    this.sendHead();
    this.#close();
    this.#response.end();
    const timer = setTimeout(() => this.#response.destroy(), END_MS_MAX).unref();
    void this.gone.then(() => clearTimeout(timer));
  }

  destroy(why: SessionEnd): void {
    if (this.#open) this.why = why;
    this.#close();
    this.#response.destroy();
  }

  override sendHead(): void {
    if (this.#open && !this.#response.headersSent) this.#response.writeHead(200, FEED_HEADERS);
  }

  override sendChunk(chunk: string): void {
    // Before the head is sent, better-sse flushes an empty chunk, which carries the head out.
    if (this.#open) this.#response.write(chunk);
  }

  override cleanup(): void {}

  #bytesOf(frame: Frame): Buffer {
    const { socket, chunkedEncoding } = this.#response;
    return socket !== null && chunkedEncoding ? frame.chunk : frame.blocks;
  }

  #write(bytes: Buffer): 'sent' | 'cut' {
    if (!this.#open) return 'cut';
    const waiting = this.unsentBytes;
    if (waiting > 0 && waiting + bytes.length > this.#unsentBytesMax) {
      this.destroy('too_slow');
      return 'cut';
    }
    const { socket } = this.#response;
    // Behind another answer on the same connection: there is no socket yet.
    if (socket === null) this.#response.write(bytes);
    else if (socket.writable) {
      cork(socket);
      socket.write(bytes);
    } else {
      // The client has closed its side; node:http closes ours.
      this.destroy('client_left');
      return 'cut';
    }
    return 'sent';
  }

  #close(): void {
    if (!this.#open) return;
    this.#open = false;
    this.#abort.abort();
    this.#wake?.();
    this.#markOver();
  }
}

const corked: Socket[] = [];

/** Holds what is written to the socket until the present turn is over. */
function cork(socket: Socket): void {
  if (socket.writableCorked > 0) return;
  socket.cork();
  if (corked.push(socket) === 1) process.nextTick(uncorkAll);
}

function uncorkAll(): void {
  for (const socket of corked.splice(0)) socket.uncork();
}
