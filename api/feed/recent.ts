/**
 * `GET /v2/recent_matches`: the newest events of the order feed, or those after a cursor or a time, for programs that do
 * not keep a stream open. Filters, events and retention are those of the stream.
 */
import { z } from 'zod';
import { type CallerContext, type Endpoint, endpoint } from '../http/endpoint.ts';
import { instant, integer, type MarketKey, parameter } from '../http/parameters.ts';
import { parseCursor } from './cursor.ts';
import { partsOf } from './encode.ts';
import { EVENT_SCHEMAS } from './event-schemas.ts';
import type { Feed } from './feed.ts';
import { filterOf } from './filter.ts';
import { boundsInOrder, FILTERS, Finality } from './query.ts';

type RecentCall = CallerContext & {
  readonly feed: Pick<Feed, 'recent'>;
  /** Rejects with Problem 404 for an unknown market. */
  readonly conditionOf: (market: MarketKey) => Promise<string>;
};

const LIMIT_DEFAULT = 50;
const LIMIT_MAX = 200;

const CURSOR_EXAMPLE = '28492588';

/** A text of digits is a cursor. An empty text counts as absent. */
const From = parameter<bigint | Date | null>(
  'the cursor of an event, or an ISO 8601 time such as 2026-05-01T00:00:00Z',
  { type: 'string', examples: [CURSOR_EXAMPLE, '2026-05-01T00:00:00Z'] },
  (text) => {
    if (text === '') return null;
    if (/^\d+$/.test(text)) return parseCursor(text);
    const seconds = instant.safeParse(text).data;
    return seconds === undefined ? undefined : new Date(seconds * 1_000);
  },
);

const Parameters = z
  .strictObject({
    ...FILTERS,
    finality: Finality,
    from: From.optional().describe(
      'start after the event with this cursor, or at an ISO 8601 time; digits are a cursor, never seconds; default: the newest matches that pass the filter',
    ),
    limit: integer(1, LIMIT_MAX)
      .default(LIMIT_DEFAULT)
      .describe('maximum matches; `final`, `void` and `restored` events do not count'),
  })
  .superRefine(boundsInOrder);

function eventShape<Type extends string, Data extends z.ZodType>(type: Type, data: Data) {
  return z.object({ type: z.literal(type), cursor: z.string(), data });
}

const { LabelledMatch, Void, Restored, Final } = EVENT_SCHEMAS;

const Answer = z.object({
  events: z
    .array(
      z.union([
        eventShape('order', LabelledMatch),
        eventShape('void', Void),
        eventShape('restored', Restored),
        eventShape('final', Final),
      ]),
    )
    .meta({ description: 'events as the stream sends them with `format=json`, oldest first' }),
  cursor: z.string().meta({
    description:
      '`from` of the next request: the cursor of the newest examined event; empty if there is none',
    examples: [CURSOR_EXAMPLE],
  }),
  more: z.boolean().meta({
    description: 'whether later events are available now: continue with `cursor`',
    examples: [false],
  }),
  gap: z.boolean().meta({
    description: 'whether the feed no longer has some of the events after `from`',
    examples: [false],
  }),
});

export const recentMatches = endpoint({
  name: 'recentMatches',
  path: '/v2/recent_matches',
  summary: 'Recent matches',
  description: `The order feed without an open stream: the events that \`/v1/stream/orders\` would send up to now, as JSON. These are
matches when they are first seen, including pending ones, and later events about them. \`from\` is a cursor or a time within
the last 72 hours, unless the operator chose another time. Unknown parameters return 400.

A request reads at most 16,384 messages of the feed, and \`more\` says whether there are others. Each process reads two
pages at a time for an account or visitor; up to 20 more wait, and others get a 429.`,
  parameters: Parameters,
  answer: Answer,
  problems: ['not_found'],
  async run({ feed, conditionOf, caller, signal }: RecentCall, given) {
    const markets = await Promise.all(given.markets.map(conditionOf));
    const page = await feed.recent({
      ...{ from: given.from ?? undefined, limit: given.limit, withFinal: given.finality },
      filter: filterOf({ ...given, markets }),
      ...{ caller, signal },
    });
    const events = page.events.map((event) => {
      const { event: type, data } = partsOf(event.frame('json').toString());
      // The schemas describe what the feed writes; tests compare them.
      return { type, cursor: String(event.cursor), data } as z.output<
        typeof Answer
      >['events'][number];
    });
    const cursor = page.cursor === 0 ? '' : String(page.cursor);
    return { events, cursor, more: page.hasMore, gap: page.hasGap };
  },
});

export const FEED_ENDPOINTS: readonly Endpoint<RecentCall>[] = [recentMatches];
