/**
 * Reads Server-Sent Events over fetch, because EventSource cannot send a header. Reconnects after any cut,
 * sleep or silence and resumes after the last event. Invariant: the cursor moves only after its event was
 * delivered, so no event is skipped or repeated. Errors that are final (a wrong key, filter or stream) are not
 * retried.
 */
import { ProblemError, problemOf, request } from './client.ts';

export type StreamEvent = { readonly id: string; readonly name: string; readonly data: string };

export type StreamState =
  | { readonly kind: 'connecting' }
  /** `cutMs`: how long the connection was down before; undefined for the first one. */
  | { readonly kind: 'live'; readonly cutMs: number | undefined; readonly from: string }
  | { readonly kind: 'waiting'; readonly why: string; readonly tryAtMs: number }
  | { readonly kind: 'refused'; readonly problem: ProblemError };

export type StreamListener = {
  readonly event: (event: StreamEvent) => void;
  readonly state: (state: StreamState) => void;
};

const RETRY_MS_MIN = 500;
const RETRY_MS_MAX = 15_000;
/** The server sends a heartbeat every 30 s; a connection that is silent for this long is dead. */
const SILENCE_MS_MAX = 45_000;
const WATCH_MS = 5_000;
const REFUSED = new Set([400, 401, 403, 404, 405]);

/** Opens the stream. Returns a function that closes it. */
export function openEventStream(path: string, listener: StreamListener): () => void {
  const ended = new AbortController();
  let position = '';
  let attempt = new AbortController();
  let heardAtMs = Date.now();
  let failures = 0;
  let lostAtMs: number | undefined;

  async function run(): Promise<void> {
    while (!ended.signal.aborted) {
      attempt = new AbortController();
      const why = await connect(AbortSignal.any([ended.signal, attempt.signal]));
      if (ended.signal.aborted || why === undefined) return;
      // A silent connection was lost when the last bytes arrived.
      lostAtMs ??= attempt.signal.aborted ? heardAtMs : Date.now();
      failures += 1;
      const waitMs = why.waitMs ?? Math.min(RETRY_MS_MAX, RETRY_MS_MIN * 2 ** (failures - 1));
      listener.state({ kind: 'waiting', why: why.text, tryAtMs: Date.now() + waitMs });
      await pause(waitMs);
    }
  }

  /** Reads one connection to its end. Returns undefined if a retry is pointless. */
  async function connect(signal: AbortSignal): Promise<Lost | undefined> {
    heardAtMs = Date.now();
    if (lostAtMs === undefined) listener.state({ kind: 'connecting' });
    try {
      const headers = position === '' ? {} : { 'Last-Event-ID': position };
      const response = await request(path, { signal }, { Accept: 'text/event-stream', ...headers });
      if (!response.ok) return refusedOrLost(await problemOf(response), response);
      const cutMs = lostAtMs === undefined ? undefined : Date.now() - lostAtMs;
      lostAtMs = undefined;
      failures = 0;
      listener.state({ kind: 'live', cutMs, from: position });
      await read(response);
      return { text: 'the server ended the connection' };
    } catch (error) {
      if (error instanceof ProblemError) return { text: error.message };
      return {
        text: attempt.signal.aborted ? 'the connection went silent' : 'the connection was cut',
      };
    }
  }

  function refusedOrLost(problem: ProblemError, response: Response): Lost | undefined {
    if (REFUSED.has(problem.status)) {
      listener.state({ kind: 'refused', problem });
      return undefined;
    }
    const seconds = Number(response.headers.get('Retry-After') ?? 0);
    return seconds > 0
      ? { text: problem.message, waitMs: seconds * 1_000 }
      : { text: problem.message };
  }

  async function read(response: Response): Promise<void> {
    if (response.body === null) return;
    const blocks = new BlockReader();
    for await (const chunk of chunksOf(response.body.pipeThrough(new TextDecoderStream()))) {
      heardAtMs = Date.now();
      for (const event of blocks.push(chunk)) {
        if (event.data !== '') listener.event(event);
        if (event.id !== '') position = event.id;
      }
    }
  }

  function pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(done, ms);
      function done(): void {
        clearTimeout(timer);
        removeEventListener('online', done);
        ended.signal.removeEventListener('abort', done);
        resolve();
      }
      addEventListener('online', done);
      ended.signal.addEventListener('abort', done);
    });
  }

  // Timers stop while the machine sleeps, so after waking up the last bytes are old.
  const watching = setInterval(() => {
    if (Date.now() - heardAtMs > SILENCE_MS_MAX) attempt.abort();
  }, WATCH_MS);
  void run();
  return () => {
    clearInterval(watching);
    ended.abort();
  };
}

type Lost = { readonly text: string; readonly waitMs?: number };

async function* chunksOf(stream: ReadableStream<string>): AsyncGenerator<string> {
  const reader = stream.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    yield value;
  }
}

/** Splits text into events. Lines end with LF, as this server sends them, or with CRLF. */
export class BlockReader {
  #rest = '';

  push(chunk: string): StreamEvent[] {
    const blocks = (this.#rest + chunk).replaceAll('\r\n', '\n').split('\n\n');
    this.#rest = blocks.pop() ?? '';
    return blocks.flatMap((block) => {
      const event = parse(block);
      return event === undefined ? [] : [event];
    });
  }
}

/** Returns undefined for a block without id and data: a comment, or `retry`. */
function parse(block: string): StreamEvent | undefined {
  let id = '';
  let name = 'message';
  const data: string[] = [];
  for (const line of block.split('\n')) {
    const colon = line.indexOf(':');
    if (colon <= 0) continue;
    const value = line.slice(colon + 1).replace(/^ /, '');
    const field = line.slice(0, colon);
    if (field === 'id') id = value;
    else if (field === 'event') name = value;
    else if (field === 'data') data.push(value);
  }
  return id === '' && data.length === 0 ? undefined : { id, name, data: data.join('\n') };
}
