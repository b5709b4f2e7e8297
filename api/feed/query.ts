/** The query of an event stream: `GET /v1/stream/orders`, and of managed streams. */
import { z } from 'zod';
import { flag, type MarketKey, parse } from '../http/parameters.ts';
import { parseCursor } from './cursor.ts';
import type { Format } from './encode.ts';
import { type Filter, filterOf } from './filter.ts';
import { BOUNDS, LISTS } from './filters.ts';
import type { Tell } from './listener.ts';

/** A request for an event stream. */
export type FeedRequest = {
  readonly format: Format;
  /** The cursor after which delivery starts; 0 = from now on. */
  readonly requested: bigint;
  /** The managed stream; null = the order feed. */
  readonly streamId: string | null;
  /** Whether the client wants `final` events. */
  readonly withFinal: boolean;
  /** If `requested` is 0, delivery starts with this many earlier matches. */
  readonly last: number;
  /** Says more about matches than FEED does. */
  readonly tell?: Tell | undefined;
  /** Returns the current filter. Throws Problem if the stream cannot be listened to. */
  readonly filter: () => Filter;
};

type Query = Readonly<Record<string, unknown>>;
type FeedQuery = Pick<FeedRequest, 'format' | 'requested' | 'withFinal' | 'last'> & {
  readonly marketKeys: readonly MarketKey[];
  /** The filter; markets by condition id. */
  readonly filterOf: (markets: readonly string[]) => Filter;
};

const LAST_MAX = 1_000;

export const Finality = flag
  .default(false)
  .describe('true: also send `event: final` when a delivered match is in a final block');

const CURSOR = { type: 'string' as const, pattern: '^[0-9]{0,20}$', examples: ['28492588'] };
/** The header Last-Event-ID. */
export const LAST_EVENT_ID = { ...CURSOR, description: 'cursor to resume after' };

const LastEventId = z
  .string('must be given once')
  .transform((text, context) => {
    const requested = text === '' ? 0n : parseCursor(text);
    if (requested !== undefined) return requested;
    context.addIssue({ code: 'custom', message: 'must be the id of an event of this feed' });
    return z.NEVER;
  })
  .optional()
  .meta({ ...CURSOR, description: 'the same as Last-Event-ID, which takes precedence' });

const Last = z
  .string('must be given once')
  .regex(/^\d{1,4}$/, `must be a number from 0 to ${LAST_MAX}`)
  .transform(Number)
  .refine((count) => count <= LAST_MAX, `must be a number from 0 to ${LAST_MAX}`)
  .default(0)
  .meta({
    ...{ type: 'integer', minimum: 0, maximum: LAST_MAX },
    description:
      'start with this many of the newest matches that pass the filter; a cursor takes precedence',
  });

/** Parameters of every event stream. */
const StreamQuery = z.strictObject({
  ...{ finality: Finality, last: Last, lastEventId: LastEventId },
});

/** Parameters of managed streams. */
export const ManagedQuery = StreamQuery.extend({
  positions: flag
    .default(false)
    .describe(
      'true: before a match, send `event: position` for each position that it changes of a wallet in `addresses`',
    ),
});

/** The parameters of all filters. */
export const FILTERS = {
  ...parametersOf(LISTS),
  ...parametersOf(BOUNDS),
};
type Filters = z.output<z.ZodObject<typeof FILTERS>>;

function parametersOf<Rows extends Readonly<Record<string, { readonly parameter: z.ZodType }>>>(
  rows: Rows,
) {
  const parameters = Object.entries(rows).map(([name, { parameter }]) => [name, parameter]);
  return Object.fromEntries(parameters) as { [Name in keyof Rows]: Rows[Name]['parameter'] };
}

/** Rejects a minimum above its maximum. */
export function boundsInOrder(query: Filters, context: z.RefinementCtx): void {
  for (const name of ['usdc', 'shares', 'price'] as const) {
    const min = query[`min_${name}`];
    const max = query[`max_${name}`];
    if (min === undefined || max === undefined) continue;
    if (min.numerator * max.denominator > max.numerator * min.denominator) {
      const message = `must not be above max_${name}`;
      context.addIssue({ code: 'custom', path: [`min_${name}`], message });
    }
  }
}

export const OrdersQuery = z
  .strictObject({
    ...FILTERS,
    format: z
      .literal('json', 'must be json, or absent for the compact form')
      .optional()
      .meta({
        ...{ type: 'string', enum: ['json'] },
        description: 'json: objects with named fields; default: the compact form',
      }),
    ...StreamQuery.shape,
  })
  .superRefine(boundsInOrder);

/**
 * Parses the query and the Last-Event-ID header, which takes precedence over `lastEventId`. An empty
 * header counts as absent. An unknown parameter is an error, because a misspelt filter would let
 * everything through. Throws Problem 400 with all issues.
 */
export function parseFeedQuery(query: Query, lastEventIdHeader: string | undefined): FeedQuery {
  const data = parse(OrdersQuery, withHeader(query, lastEventIdHeader));
  return {
    format: data.format ?? 'compact',
    requested: data.lastEventId ?? 0n,
    withFinal: data.finality,
    last: data.last,
    marketKeys: data.markets,
    filterOf: (markets) => filterOf({ ...data, markets }),
  };
}

/** The query of a managed stream. Throws like `parseFeedQuery`. */
export function parseStreamQuery(
  query: Query,
  lastEventIdHeader: string | undefined,
): Pick<FeedRequest, 'requested' | 'withFinal' | 'last'> & { readonly positions: boolean } {
  const data = parse(ManagedQuery, withHeader(query, lastEventIdHeader));
  const { finality, last, lastEventId = 0n, positions } = data;
  return { requested: lastEventId, withFinal: finality, last, positions };
}

function withHeader(query: Query, header = ''): Query {
  if (header === '') return query;
  parse(z.object({ 'Last-Event-ID': LastEventId }), { 'Last-Event-ID': header });
  return { ...query, lastEventId: header };
}
