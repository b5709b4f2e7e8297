/**
 * Market objects (specification 2.2): the SQL that reads a listing and a resolution, and their
 * assembly. A market that no listing describes has the id 0 and empty texts.
 */
import { z } from 'zod';
import { winningOutcome } from '../../ingest/contract.ts';
import { text, time, yes } from './fields.ts';
import { Int, isoSecond, Seconds, safeInteger } from './wire.ts';

/** Expression of each member of a listing, over a row of `markets`. */
const LISTING = {
  condition_id: "concat('0x', lower(hex(condition_id)))",
  id: 'toString(market_id)',
  question: 'question',
  slug: 'slug',
  start_date: 'start_date',
  end_date: 'end_date',
  icon: 'icon',
  neg_risk: 'neg_risk',
  event_slug: 'event_slug',
  series_slug: 'series_slug',
  tags: 'tags',
  outcomes: 'outcomes',
  token_ids: 'arrayMap(token -> toString(token), token_ids)',
  group_item_title: 'group_item_title',
  event_title: 'event_title',
  event_icon: 'event_icon',
};

const Listing = z.object({
  condition_id: z.string(),
  id: z.string(),
  question: z.string(),
  slug: z.string(),
  start_date: z.string(),
  end_date: z.string(),
  icon: z.string(),
  neg_risk: z.boolean(),
  event_slug: z.string(),
  series_slug: z.string(),
  tags: z.array(z.string()),
  outcomes: z.array(z.string()),
  token_ids: z.array(z.string()),
  group_item_title: z.string(),
  event_title: z.string(),
  event_icon: z.string(),
});
export type Listing = z.output<typeof Listing>;

const ResolutionRow = z
  .tuple([z.string(), Seconds, Int, Int])
  .transform(([conditionId, resolvedAt, payout0, payout1]) => ({
    conditionId,
    resolvedAt,
    payouts: [payout0, payout1] as const,
  }));
export type Resolution = z.output<typeof ResolutionRow>;

/**
 * Two columns, `listings` and `resolutions`, of the markets that `condition` (SQL over condition_id)
 * keeps. Both tables are read by their primary key.
 */
export function marketColumns(condition: string): string {
  return `
  (
    SELECT groupArray((${Object.values(LISTING).join(', ')}))
    FROM markets FINAL
    WHERE ${condition}
  ) AS listings,
  (
    SELECT groupArray(
      (${LISTING.condition_id}, toUnixTimestamp(resolved_at), payout_0, payout_1))
    FROM resolutions FINAL
    WHERE ${condition}
  ) AS resolutions`;
}

/** The row members that `marketColumns` gives. */
export const MarketColumns = {
  listings: z.array(
    z
      .array(z.unknown())
      .transform((values) =>
        Object.fromEntries(Object.keys(LISTING).map((name, index) => [name, values[index]])),
      )
      .pipe(Listing),
  ),
  resolutions: z.array(ResolutionRow),
};

/** What is shown of a market that the catalogue does not know. */
export function unlisted(conditionId: string): Listing {
  return {
    ...{ condition_id: conditionId, id: '0', question: '', slug: '', start_date: '' },
    ...{ end_date: '', icon: '', neg_risk: false, event_slug: '', series_slug: '', tags: [] },
    ...{ outcomes: [], token_ids: [], group_item_title: '', event_title: '', event_icon: '' },
  };
}

const shared = {
  question: text('what is decided', 'Will it rain in Paris on 1 May?'),
  slug: text('name of the market in URLs', 'rain-in-paris-may-1'),
  start_date: time('when the market opened, or empty'),
  end_date: time('when the market closes or closed, or empty'),
  icon: text('URL of the icon', 'https://example.com/icon.png'),
  neg_risk: yes('one of the exclusive markets of a negative-risk event'),
  event_slug: text('slug of the parent event', 'weather-may-1'),
  series_slug: text('slug of the series, or empty', 'weather-daily'),
  tags: z.array(z.string()).meta({ description: 'category tags', examples: [['weather']] }),
  outcome_1: text('label of the first outcome', 'Yes'),
  outcome_2: text('label of the second outcome', 'No'),
  group_item_title: text('title inside an event group, or empty'),
  event_title: text('title of the parent event', 'Weather on 1 May'),
  event_icon: text('URL of the icon of the event'),
  resolved_at: time('when the market was resolved; empty while it is not'),
  winning_outcome: text(
    'label of the winning outcome, `50-50` where both are paid alike; empty while unresolved',
  ),
};

export const MarketV1 = z.object({
  id: z
    .string()
    .regex(/^\d{1,19}$/)
    .meta({
      description: 'market id, an int64 as text; 0 while the catalogue does not know the market',
      examples: ['2182202'],
    }),
  ...shared,
});

/** The market object of v1, in the order of the specification. */
export function marketV1(listing: Listing, resolution: Resolution | undefined) {
  return { id: listing.id, ...sharedMembers(listing, resolution) };
}

const UNRESOLVED = -2;
const VOID = -1;

export const MarketV2 = z.object({
  id: z
    .int()
    .min(0)
    .meta({
      description: 'market id; 0 while the catalogue does not know the market',
      examples: [2_182_202],
    }),
  condition_id: z
    .string()
    .regex(/^0x[0-9a-f]{64}$/)
    .meta({ description: 'id of the market on chain', examples: [`0x${'5f'.repeat(32)}`] }),
  token_ids: z.array(z.string()).meta({
    description:
      'ERC-1155 ids of the two outcome shares, decimal. Of a market that the catalogue does not know, those that were traded, else empty text',
    examples: [['7130', '5211']],
  }),
  ...shared,
  result: z
    .int()
    .min(UNRESOLVED)
    .max(100)
    .meta({
      description: '-2 unresolved, -1 void (pays nothing), else what outcome 1 is paid, percent',
      examples: [100],
    }),
});

export function marketV2(listing: Listing, resolution: Resolution | undefined) {
  return {
    id: safeInteger(BigInt(listing.id)),
    condition_id: listing.condition_id,
    token_ids: listing.token_ids,
    ...sharedMembers(listing, resolution),
    result: resultOf(resolution),
  };
}

function sharedMembers(listing: Listing, resolution: Resolution | undefined) {
  const outcomes = [listing.outcomes[0] ?? '', listing.outcomes[1] ?? ''] as const;
  return {
    question: listing.question,
    slug: listing.slug,
    start_date: listing.start_date,
    end_date: listing.end_date,
    icon: listing.icon,
    neg_risk: listing.neg_risk,
    event_slug: listing.event_slug,
    series_slug: listing.series_slug,
    tags: listing.tags,
    outcome_1: outcomes[0],
    outcome_2: outcomes[1],
    group_item_title: listing.group_item_title,
    event_title: listing.event_title,
    event_icon: listing.event_icon,
    resolved_at: resolution === undefined ? '' : isoSecond(resolution.resolvedAt),
    winning_outcome: resolution === undefined ? '' : winningOutcome(outcomes, resolution.payouts),
  };
}

function resultOf(resolution: Resolution | undefined): number {
  if (resolution === undefined) return UNRESOLVED;
  const [first, second] = resolution.payouts;
  if (first + second === 0n) return VOID;
  // Rounds down.
  return Number((100n * first) / (first + second));
}
