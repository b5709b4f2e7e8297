/**
 * FEED: every match once, when it is first seen. The mempool and the blocks offer the same match under
 * the same id; the first one wins. Ids are remembered here, across restarts by reading them back from
 * the stream, because the stream's own duplicate window is only two minutes.
 */
import type { Nats } from '../infra/nats.ts';
import type { OrderedPublisher } from '../infra/nats-publisher.ts';
import { storedSince } from '../infra/nats-read.ts';
import type { Catalogue } from './catalogue.ts';
import {
  encodeEvent,
  FEED_MATCH_SUBJECT,
  FEED_STREAM,
  type FeedFill,
  type FeedMatch,
  type Hash,
} from './contract.ts';
import type { CalledFill } from './decode-call.ts';

const IDS_MAX = 200_000;
/** How long a match waits for unknown metadata before it is shown without. */
const METADATA_MS = 250;

/** A fill on its way to the feed; `order` where the calldata is known. */
export type ShownFill = Pick<
  CalledFill,
  'orderHash' | 'trader' | 'side' | 'tokenId' | 'shares' | 'usdc' | 'fee'
> & { readonly outcomeIndex: 0 | 1; readonly order: CalledFill['order'] | null };

export type ShownMatch = {
  readonly id: string;
  readonly txHash: string;
  readonly exchange: string;
  readonly conditionId: string;
  readonly pending: boolean;
  readonly detectedAtMs: number;
  readonly taker: ShownFill;
  readonly makers: readonly ShownFill[];
};

export class FeedWriter {
  readonly #publisher: OrderedPublisher;
  readonly #catalogue: Catalogue;
  readonly #ids = new Set<string>();
  /** Matches shown from the mempool and from blocks; for the log and later for metrics. */
  readonly shown = { pending: 0, confirmed: 0 };

  constructor(publisher: OrderedPublisher, catalogue: Catalogue) {
    this.#publisher = publisher;
    this.#catalogue = catalogue;
  }

  /** Remembers what the stream holds since a time, so that a restart shows nothing twice. */
  async restore(nats: Nats, sinceMs: number): Promise<void> {
    for await (const message of storedSince(nats, FEED_STREAM, { timeMs: sinceMs })) {
      this.#remember(message.messageId);
    }
  }

  /** True when the match was shown before. */
  has(id: string): boolean {
    return this.#ids.has(id);
  }

  /** Publishes the match unless it was shown before; resolves when the publisher has taken it. */
  async show(match: ShownMatch): Promise<void> {
    if (this.#ids.has(match.id)) return;
    this.#remember(match.id);
    const fills = [match.taker, ...match.makers];
    const traders = new Set(fills.map((fill) => fill.trader));
    await this.#catalogue.learn(match.conditionId, traders, METADATA_MS);
    const message: FeedMatch = {
      kind: 'match',
      txHash: match.txHash as Hash,
      conditionId: match.conditionId as Hash,
      detectedAtMs: match.detectedAtMs,
      pending: match.pending,
      market: this.#catalogue.feedMarket(match.conditionId, match.exchange),
      taker: this.#fill(match.taker),
      makers: match.makers.map((fill) => this.#fill(fill)),
    };
    await this.#publisher.publish(FEED_MATCH_SUBJECT, match.id, encodeEvent(message));
    this.shown[match.pending ? 'pending' : 'confirmed'] += 1;
  }

  #fill(fill: ShownFill): FeedFill {
    return {
      orderHash: fill.orderHash,
      side: fill.side,
      outcomeIndex: fill.outcomeIndex,
      tokenId: fill.tokenId.toString(),
      shares: fill.shares,
      usdc: fill.usdc,
      fee: fill.fee,
      trader: this.#catalogue.feedTrader(fill.trader),
      order: fill.order,
    };
  }

  #remember(id: string): void {
    this.#ids.add(id);
    const oldest = this.#ids.values().next();
    if (this.#ids.size > IDS_MAX && !oldest.done) this.#ids.delete(oldest.value);
  }
}
