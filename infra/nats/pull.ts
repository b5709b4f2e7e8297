// Reads a stream in order through one short-lived pull consumer of its own, over core NATS.
// Written instead of the library's ordered consumer because that one stalls about 45 s after a
// server restart (it pulls again without resetting its pending count). Invariant: messages reach
// the sink exactly in stream order without a gap, or `lost` is called once and nothing after it;
// the caller then opens a new session where it stopped. A session never repairs itself.
import { AckPolicy, type ConsumerConfig, DeliverPolicy, ReplayPolicy } from '@nats-io/jetstream';
import { createInbox, type Msg, nanos, type Subscription } from '@nats-io/transport-node';
import { answered, type Nats } from './connection.ts';

/** Header with the id that a StreamWriter gives each message. */
export const ID_HEADER = 'Fillstream-Id';

/** A stored message. `data` is a view of a network buffer: copy what is kept for long. */
export class TailMessage {
  /** Position in the stream, from 1. */
  readonly sequence: number;
  readonly subject: string;
  readonly data: Uint8Array;
  /** When the server stored it, milliseconds since 1970 (rounded down from nanoseconds). */
  readonly timestampMs: number;
  readonly #header: (name: string) => string;

  constructor(
    fields: { sequence: number; subject: string; data: Uint8Array; timestampMs: number },
    header: (name: string) => string,
  ) {
    this.sequence = fields.sequence;
    this.subject = fields.subject;
    this.data = fields.data;
    this.timestampMs = fields.timestampMs;
    this.#header = header;
  }

  /** The writer's id for the message; '' if none. Headers are parsed at the first use only. */
  get messageId(): string {
    // FEED keeps messages of version 0.1, which have a Nats-Msg-Id, for 72 hours after an upgrade.
    return this.#header(ID_HEADER) || this.#header('Nats-Msg-Id');
  }

  /** The value of a header, '' if absent. */
  header(name: string): string {
    return this.#header(name);
  }
}

/** Where a session starts. */
export type PullStart =
  | { readonly sequence: number }
  | { readonly timeMs: number }
  | { readonly lastPerSubject: true };

export type PullSink = {
  message(message: TailMessage): void;
  /** The session is over; `reason` is for logs only. */
  lost(reason: string): void;
};

export type PullSession = {
  /** Messages that matched when the session opened. */
  readonly pending: number;
  /** Messages asked for and not yet received. */
  readonly outstanding: number;
  /** Asks for more messages; each arrives as soon as the stream holds it. */
  pull(count: number): void;
  close(): void;
};

// With a beat each 500 ms, 1.5 s without any answer means that the consumer is gone.
const HEARTBEAT_MS = 500;
const SILENCE_MS_MAX = 1_500;
const PULL_EXPIRES_MS = 30_000;
// The server removes a consumer that nobody pulls from: the backstop when close() cannot reach it.
const INACTIVE_MS_MAX = 30_000;

/** Opens a session. Throws StreamMissingError and NatsUnavailableError. */
export async function openPull(
  nats: Nats,
  options: { stream: string; start: PullStart; filterSubject?: string; sink: PullSink },
): Promise<PullSession> {
  const { stream, sink } = options;
  const consumer = await createConsumer(nats, stream, options.start, options.filterSubject);
  const pullSubject = `${nats.js.apiPrefix}.CONSUMER.MSG.NEXT.${stream}.${consumer.name}`;
  const inbox = createInbox();
  let outstanding = 0;
  let delivered = 0;
  let heardAt = performance.now();
  let over = false;

  function end(): void {
    over = true;
    clearInterval(watchdog);
    removeListener();
    subscription.unsubscribe();
    // Unreachable now means that INACTIVE_MS_MAX removes it.
    if (nats.connected) nats.jsm.consumers.delete(stream, consumer.name).catch(() => undefined);
  }

  function lose(reason: string): void {
    if (over) return;
    end();
    sink.lost(reason);
  }

  function receive(message: Msg): void {
    if (over) return;
    heardAt = performance.now();
    // Only status messages lack the reply subject that carries the position.
    const position = positionOf(message.reply);
    if (position === undefined) {
      status(message);
      return;
    }
    delivered += 1;
    if (position.delivered !== delivered) {
      lose('a delivery is missing');
      return;
    }
    outstanding -= 1;
    sink.message(
      new TailMessage(
        {
          sequence: position.sequence,
          subject: message.subject,
          data: message.data,
          timestampMs: position.timestampMs,
        },
        (name) => message.headers?.get(name) ?? '',
      ),
    );
  }

  function status(message: Msg): void {
    const code = message.headers?.code ?? 0;
    if (code === 100) return;
    // 408: a request expired; 404: nothing left for it. Both name what they did not deliver.
    const left = Number.parseInt(message.headers?.get('Nats-Pending-Messages') ?? '', 10);
    if ((code === 408 || code === 404) && Number.isSafeInteger(left)) {
      outstanding -= left;
      if (outstanding === 0) pull(left);
      return;
    }
    lose(`status ${code}`);
  }

  function pull(count: number): void {
    if (over) return;
    if (outstanding === 0) heardAt = performance.now();
    outstanding += count;
    const request = {
      batch: count,
      expires: nanos(PULL_EXPIRES_MS),
      idle_heartbeat: nanos(HEARTBEAT_MS),
    };
    nats.connection.publish(pullSubject, JSON.stringify(request), { reply: inbox });
  }

  const subscription: Subscription = nats.connection.subscribe(inbox, {
    callback: (error, message) => {
      if (error === null) receive(message);
      else lose(error.name);
    },
  });
  const removeListener = nats.onStatus(({ type }) => {
    // The consumer lives in the server's memory: a server that comes back may not know it.
    if (type === 'disconnect' || type === 'close') lose(type);
  });
  let suspected = false;
  const watchdog = setInterval(() => {
    const silent = outstanding > 0 && performance.now() - heardAt > SILENCE_MS_MAX;
    // Twice in a row: after a long pause of this process, what waits in the socket comes first.
    if (silent && suspected) lose('silence');
    suspected = silent;
  }, HEARTBEAT_MS / 2);

  return {
    pending: consumer.pending,
    get outstanding() {
      return outstanding;
    },
    pull,
    close: () => {
      if (!over) end();
    },
  };
}

async function createConsumer(
  nats: Nats,
  stream: string,
  start: PullStart,
  filterSubject: string | undefined,
): Promise<{ name: string; pending: number }> {
  const config: Partial<ConsumerConfig> = {
    ack_policy: AckPolicy.None,
    replay_policy: ReplayPolicy.Instant,
    max_deliver: 1,
    mem_storage: true,
    num_replicas: 1,
    inactive_threshold: nanos(INACTIVE_MS_MAX),
    ...startConfig(start),
    ...(filterSubject === undefined ? {} : { filter_subject: filterSubject }),
  };
  const info = await answered(nats, stream, () => nats.jsm.consumers.add(stream, config));
  return { name: info.name, pending: info.num_pending };
}

function startConfig(start: PullStart): Partial<ConsumerConfig> {
  if ('sequence' in start) {
    return { deliver_policy: DeliverPolicy.StartSequence, opt_start_seq: start.sequence };
  }
  if ('timeMs' in start) {
    return {
      deliver_policy: DeliverPolicy.StartTime,
      opt_start_time: new Date(start.timeMs).toISOString(),
    };
  }
  return { deliver_policy: DeliverPolicy.LastPerSubject };
}

/**
 * Reads a delivery's reply subject, which is the only place of its position:
 * `$JS.ACK.<stream>.<consumer>.<tries>.<sequence>.<delivered>.<nanoseconds>.<pending>`,
 * or with domain and account hash after ACK and a random token at the end (12 tokens).
 */
function positionOf(
  reply: string | undefined,
): { sequence: number; delivered: number; timestampMs: number } | undefined {
  if (reply === undefined || !reply.startsWith('$JS.ACK.')) return undefined;
  const tokens = reply.split('.');
  const first = tokens.length === 9 ? 5 : 7;
  // Nanoseconds since 1970 exceed 2^53: drop the last six digits as text, not as a number.
  const nanoseconds = tokens[first + 2] ?? '';
  return {
    sequence: Number(tokens[first]),
    delivered: Number(tokens[first + 1]),
    timestampMs: Number(nanoseconds.slice(0, -6)),
  };
}
