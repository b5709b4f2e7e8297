/**
 * LEDGER as ingest writes it: the facts of each block in log order, closed by a marker, which is the
 * cursor after a restart. A block without facts gets a marker near the head and at the end of a range
 * only. What a killed predecessor published after its last marker is known and never published again:
 * those facts are all of one block, because a marker closes every block that has facts.
 */
import type { Nats } from '../infra/nats/connection.ts';
import type { OrderedPublisher } from '../infra/nats/publisher.ts';
import { lastMessage, storedSince } from '../infra/nats/read.ts';
import type { BlockFacts } from './blocks.ts';
import {
  BLOCK_SUBJECT,
  type BlockMarker,
  decodeLedgerEvent,
  encodeEvent,
  LEDGER_STREAM,
  type LedgerEvent,
  ledgerMessageId,
  ledgerSubject,
} from './contract.ts';
import { FinalReorgError } from './fork.ts';
import type { BlockHead } from './rpc.ts';

const CHAIN_FACT = /^(match|resolution|refused):/;

export type Cursor = {
  /** Newest block of LEDGER; undefined when it has none. */
  readonly marker: BlockMarker | undefined;
  /** When the server stored it, milliseconds since 1970 by its own clock; 0 without a marker. */
  readonly storedAtMs: number;
  /** Chain facts after it, by their place: what a crash left of the next block. */
  readonly published: ReadonlySet<string>;
};

/** Publishes an event of LEDGER under its own subject and id. */
export function publishEvent(ledger: OrderedPublisher, event: LedgerEvent): Promise<void> {
  return ledger.publish(ledgerSubject(event), ledgerMessageId(event), encodeEvent(event));
}

/** The newest block marker of LEDGER and what was published after it. */
export async function readCursor(nats: Nats): Promise<Cursor> {
  const message = await lastMessage(nats, LEDGER_STREAM, BLOCK_SUBJECT);
  const event = message === undefined ? undefined : decodeLedgerEvent(message.data);
  const marker = event?.kind === 'block' ? event : undefined;
  const published = new Set<string>();
  const start = { sequence: (message?.sequence ?? 0) + 1 };
  for await (const { messageId } of storedSince(nats, LEDGER_STREAM, start)) {
    if (CHAIN_FACT.test(messageId)) published.add(placeOf(messageId));
  }
  return { marker, storedAtMs: message?.timestampMs ?? 0, published };
}

type ChainFact = Extract<LedgerEvent, { kind: 'match' | 'resolution' | 'refused' }>;

export class LedgerWriter {
  readonly #ledger: OrderedPublisher;
  readonly #published: Set<string>;
  #markerAt: number | undefined;

  constructor(ledger: OrderedPublisher, cursor: Cursor) {
    this.#ledger = ledger;
    this.#published = new Set(cursor.published);
    this.#markerAt = cursor.marker?.blockNumber;
  }

  /**
   * Publishes the facts of a block and its marker; resolves when the publisher has taken them.
   *
   * Throws FinalReorgError when a predecessor published other facts of this block: it was replaced.
   */
  async writeBlock(facts: BlockFacts): Promise<void> {
    const events = chainFacts(facts);
    if (events.length > 0) this.#checkPublished(facts.block.number, events);
    await this.writeFacts(events);
    if (events.length > 0) this.#published.clear();
    await this.#mark(facts.block, {
      matches: facts.matches.length,
      fills: facts.matches.reduce((count, match) => count + match.fills.length, 0),
      resolutions: facts.resolutions.length,
    });
  }

  /** Facts after the last marker that a predecessor published. */
  get published(): number {
    return this.#published.size;
  }

  /** Publishes facts without closing their block; resolves with how many were new to LEDGER. */
  async writeFacts(events: readonly ChainFact[]): Promise<number> {
    const isNew = (event: ChainFact) => !this.#published.has(placeOf(ledgerMessageId(event)));
    const left = this.#published.size === 0 ? events : events.filter(isNew);
    await Promise.all(left.map((event) => publishEvent(this.#ledger, event)));
    return left.length;
  }

  /**
   * The cursor after a block without facts. Left out while facts of a later block wait for theirs:
   * a marker behind them would make a restart forget that they are there.
   */
  async writeMarker(head: BlockHead): Promise<void> {
    if (this.#published.size > 0) return;
    await this.#mark(head, { matches: 0, fills: 0, resolutions: 0 });
  }

  /** Closes the resolutions before the first block, of which there were `resolutions`. */
  async closePrelude(head: BlockHead, resolutions: number): Promise<void> {
    this.#published.clear();
    await this.#mark(head, { matches: 0, fills: 0, resolutions });
  }

  async #mark(
    { number, hash, timestamp }: BlockHead,
    counts: Pick<BlockMarker, 'matches' | 'fills' | 'resolutions'>,
  ): Promise<void> {
    if (this.#markerAt !== undefined && number <= this.#markerAt) return;
    // While a marker is left out the next block may be far behind it; it is never out of order.
    if (this.#published.size > 0) return;
    const at = { blockNumber: number, blockHash: hash, blockTime: timestamp };
    await publishEvent(this.#ledger, { kind: 'block', ...at, ...counts });
    this.#markerAt = number;
  }

  #checkPublished(block: number, events: readonly ChainFact[]): void {
    const places = new Set(events.map((event) => placeOf(ledgerMessageId(event))));
    const stray = [...this.#published].find((place) => !places.has(place));
    if (stray === undefined) return;
    throw new FinalReorgError(
      `LEDGER holds ${stray} after its last marker, but the next block with facts, ${block}, does ` +
        'not: a final block was replaced while it was written. Nothing more was published.',
    );
  }
}

/** Chain facts of a block in log order: a resolution between two matches stays between them. */
export function chainFacts({ block, matches, resolutions, refused }: BlockFacts): ChainFact[] {
  const at = { blockNumber: block.number, blockTime: block.timestamp };
  const events: ChainFact[] = [
    ...matches.map((match) => ({
      kind: 'match' as const,
      ...at,
      txHash: match.txHash,
      logIndex: match.logIndex,
      exchange: match.exchange,
      conditionId: match.conditionId,
      fills: match.fills.map((fill) => ({ ...fill, tokenId: fill.tokenId.toString() })),
    })),
    ...resolutions.map((resolution) => ({
      kind: 'resolution' as const,
      ...at,
      ...resolution,
      payouts: [...resolution.payouts] as [bigint, bigint],
    })),
    ...refused.map(({ txHash, logIndex, error, logs }) => ({
      kind: 'refused' as const,
      reason: error.reason,
      blockNumber: block.number,
      txHash,
      logIndex,
      detail: JSON.stringify(logs),
    })),
  ];
  return events.toSorted((a, b) => a.logIndex - b.logIndex);
}

/**
 * `<txHash>:<logIndex>` of a fact. What it was taken for may change over a restart: a match that was
 * refused for want of metadata is the same fact as the match.
 */
function placeOf(messageId: string): string {
  return messageId.slice(messageId.indexOf(':') + 1);
}
