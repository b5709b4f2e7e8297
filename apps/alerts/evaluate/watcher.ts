/** A watcher finds what one alert waits for among the matches of FEED, in their order. */
import type { Filter } from '../../../api/feed/filter.ts';
import type { FeedMatch } from '../../../ingest/contract.ts';

type Seen = {
  readonly match: FeedMatch;
  /** Its id in FEED. */
  readonly matchId: string;
};

export type Found = {
  /** What the alert found, once: the same text for the same thing. */
  readonly about: string;
  readonly text: string;
  readonly data: Readonly<Record<string, unknown>>;
  /** Earlier matches without which it would not have happened. */
  readonly earlier: readonly string[];
};

/** Called with each match that passes the filter. It remembers what it needs of earlier ones. */
type See = (seen: Seen) => readonly Found[];

export type Watcher = {
  readonly filter: Filter;
  /** After a restart, matches of so many seconds are shown again before new ones. */
  readonly memorySeconds: number;
  readonly see: See;
  /** Called instead of `see` with matches that were evaluated before a restart; by default, `see` is. */
  readonly remember?: (seen: Seen) => void;
  /** Called before `see` and `remember` to say what has to be looked up. */
  readonly prepare?: (match: FeedMatch) => void;
  /** A match that was seen did not happen. */
  readonly forget: (matchId: string) => void;
};
