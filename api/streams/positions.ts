/**
 * `event: position` of a managed stream with `positions=true`: what a match does to the positions of the stream's wallets. A wallet
 * holds what is booked, from ClickHouse, and what its later matches of the stream did.
 */
import type { Logger } from 'pino';
import { retry } from '../../infra/retry.ts';
import type { FeedMatch } from '../../ingest/contract.ts';
import { BOOKED_SECONDS_MAX, type Portfolios, PositionBook } from '../analytics/position-book.ts';
import { changesOf, figuresOf, fillsByWallet, netOf } from '../analytics/position-changes.ts';
import type { Reading } from '../analytics/query.ts';
import { positionBlock } from '../feed/encode.ts';
import type { Feed } from '../feed/feed.ts';
import { type Filter, matches } from '../feed/filter.ts';
import type { Tell } from '../feed/listener.ts';
import type { Decoded } from '../feed/replay.ts';
import { Problem } from '../http/errors.ts';

type TellerOptions = {
  readonly feed: Pick<Feed, 'since' | 'eventsOf'>;
  readonly logger: Logger;
  readonly reading: Omit<Reading, 'signal'>;
  readonly portfolios: Portfolios;
  /** The wallets whose positions are told. */
  readonly wallets: () => readonly string[];
};

/** What a listener was told so far, through a sequence of the feed. */
type Told = { readonly filter: Filter; readonly book: PositionBook; through: number };

const NOTHING: ReadonlyMap<number, string> = new Map();

/** Waits while ClickHouse cannot be read. Rejects with NatsUnavailableError, StreamMissingError and the signal's reason. */
export function createTeller(options: TellerOptions): Tell {
  const { feed, logger, reading, wallets } = options;
  let told: Told | undefined;

  const tell: Tell = async (passing, filter, signal) => {
    const blocks = new Map<number, string>();
    const watched = new Set(wallets());
    const decoded = watched.size === 0 ? [] : await feed.eventsOf(passing);
    const [first] = decoded;
    if (first === undefined) return blocks;
    // A book fits one filter, and what follows.
    if (told?.filter !== filter || first.sequence <= told.through) {
      const book = await bookBefore(first, options, filter, signal);
      told = { filter, book, through: first.sequence - 1 };
    }
    const { book } = told;
    const shown = decoded.flatMap(({ event }) => (event.kind === 'match' ? [event] : []));
    for (const match of shown) {
      for (const wallet of fillsByWallet(match, watched).keys()) book.want(wallet, match);
    }
    await book.load({ ...reading, signal }, shown);
    for (const one of decoded) {
      const { event, messageId, sequence } = one;
      if (event.kind === 'match') {
        blocks.set(sequence, blocksOf(event, messageId, { book, wallets: watched }));
      }
      note(book, one);
      told.through = sequence;
    }
    book.clear();
    return blocks;
  };

  return async (events, filter, signal) => {
    const passing = events.filter(
      ({ facts, isFinality }) => !isFinality && facts !== undefined && matches(filter, facts),
    );
    if (passing.length === 0) return NOTHING;
    return await retry(() => tell(passing, filter, signal), {
      ...{ isRetryable: (error) => error instanceof Problem, signal },
      onRetry: (err) => logger.warn({ err }, 'positions cannot be read, retrying'),
    });
  };
}

/** A book with the matches of the last minutes before an event. */
async function bookBefore(
  { event, sequence }: Decoded,
  { feed, portfolios }: TellerOptions,
  filter: Filter,
  signal: AbortSignal,
): Promise<PositionBook> {
  const book = new PositionBook(portfolios);
  const sinceMs = event.detectedAtMs - BOOKED_SECONDS_MAX * 1_000;
  for await (const events of feed.since(sinceMs, sequence, filter, signal)) {
    for (const one of await feed.eventsOf(events)) note(book, one);
  }
  return book;
}

/** From now on, a match counts in the positions, or no longer. */
function note(book: PositionBook, { event, messageId }: Decoded): void {
  if (event.kind === 'match') book.add(event, messageId);
  else if (event.kind === 'void') book.forget(event.matchId);
  else if (event.kind === 'restored') book.restore(event.matchId);
}

/** An event for each position that the match changes. */
function blocksOf(
  match: FeedMatch,
  matchId: string,
  { book, wallets }: { readonly book: PositionBook; readonly wallets: ReadonlySet<string> },
): string {
  const blocks: string[] = [];
  for (const [address, fills] of fillsByWallet(match, wallets)) {
    const trader = { address, name: fills[0]?.trader.name ?? '' };
    const before = book.before(address, match);
    const after = fills.reduce((net, fill) => net + netOf(fill), before);
    const isBooked = book.isBooked(address, match);
    for (const change of changesOf(before, after)) {
      const figures = figuresOf(change, fills, book.others(address, match));
      blocks.push(positionBlock({ change, figures, isBooked, match, matchId, trader }));
    }
  }
  return blocks.join('');
}
