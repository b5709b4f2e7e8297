/** Reads FEED for tests: every message in order, and waits for an expected one. */
import type { Nats } from '../../infra/nats/connection.ts';
import { type StreamMessage, tail } from '../../infra/nats/reader.ts';
import { decodeFeedEvent, FEED_STREAM, type FeedEvent } from '../../ingest/contract.ts';

export type FeedMessage = {
  readonly sequence: number;
  readonly id: string;
  readonly event: FeedEvent;
};

/** FEED as it grows. */
export class FeedReader {
  readonly messages: FeedMessage[] = [];
  readonly #ending = new AbortController();
  readonly #running: Promise<void>;
  #wake: () => void = () => undefined;

  constructor(nats: Nats) {
    this.#running = this.#read(
      tail(nats, { stream: FEED_STREAM, fromSequence: 1, signal: this.#ending.signal }),
    );
  }

  /** Resolves with the first message that passes; the test's own time limit is the only one. */
  async first(passes: (message: FeedMessage) => boolean): Promise<FeedMessage> {
    for (;;) {
      const found = this.messages.find(passes);
      if (found !== undefined) return found;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  match(txHash: string): Promise<FeedMessage> {
    return this.first(({ event }) => event.kind === 'match' && event.txHash === txHash);
  }

  sequel(kind: 'final' | 'void' | 'restored', txHash: string): Promise<FeedMessage> {
    return this.first(({ event }) => event.kind === kind && event.txHash === txHash);
  }

  /** Kinds of all messages of a transaction, in order. */
  kinds(txHash: string): readonly string[] {
    return this.messages
      .filter(({ event }) => event.txHash === txHash)
      .map(({ event }) => event.kind);
  }

  async stop(): Promise<void> {
    this.#ending.abort();
    await this.#running;
  }

  async #read(messages: AsyncIterable<StreamMessage>): Promise<void> {
    for await (const { sequence, messageId, data } of messages) {
      this.messages.push({ sequence, id: messageId, event: decodeFeedEvent(data) });
      this.#wake();
    }
  }
}
