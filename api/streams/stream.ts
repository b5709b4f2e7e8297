/**
 * A managed stream: the stored record, the request bodies that create and change it, its filter, and its
 * representation in responses.
 */
import { z } from 'zod';
import { count, text } from '../analytics/schemas.ts';
import type { TierLimits } from '../auth/tiers.ts';
import { type Filter, filterOf, filtersNothing } from '../feed/filter.ts';
import { MARKETS_MAX } from '../feed/parameters.ts';
import { ADDRESS, marketKey } from '../http/parameters.ts';

const NAME_CHARACTERS_MAX = 64;
const SLUG_CHARACTERS_MAX = 100;
/** Higher than every quota, so that a list that exceeds a quota gets the quota's error. */
const LIST_ENTRIES_MAX = 10_000;

const EXAMPLE_ADDRESS = '0x56687bf447db6ffa42ffe2204a05edaa20f55839';
const EXAMPLE_TIME = '2026-05-01T12:00:00.000Z';
const DATE_TIME = { format: 'date-time' };

const Slug = z
  .string()
  .transform((text) => text.trim().toLowerCase())
  .pipe(
    z
      .string()
      .min(1, 'must not be empty')
      .max(SLUG_CHARACTERS_MAX, `must have at most ${SLUG_CHARACTERS_MAX} characters`),
  )
  .meta({ minLength: 1, maxLength: SLUG_CHARACTERS_MAX });
const Slugs = z
  .array(Slug, 'must be a list of strings')
  .max(LIST_ENTRIES_MAX)
  .transform((slugs) => [...new Set(slugs)]);

const Addresses = z
  .array(
    z
      .string()
      .regex(ADDRESS, 'must be a wallet address: 0x and 40 hexadecimal digits')
      .transform((address) => address.toLowerCase()),
    'must be a list of wallet addresses',
  )
  .max(LIST_ENTRIES_MAX)
  .transform((addresses) => [...new Set(addresses)]);

const Markets = z.array(marketKey, 'must be a list of strings').max(MARKETS_MAX);

const Name = z
  .string('must be a string')
  .transform((text) => text.trim())
  .pipe(
    z
      .string()
      .min(1, 'must not be empty')
      .refine(
        (text) => [...text].length <= NAME_CHARACTERS_MAX,
        `must have at most ${NAME_CHARACTERS_MAX} characters`,
      ),
  );

const NAME_MEANING = {
  description: `name of the stream, 1 to ${NAME_CHARACTERS_MAX} characters`,
  ...{ minLength: 1, maxLength: NAME_CHARACTERS_MAX },
  examples: ['whales'],
};
const ADDRESSES_MEANING = {
  description: 'wallet addresses; delivers matches that involve any of them',
  examples: [[EXAMPLE_ADDRESS]],
};
const TAGS_MEANING = {
  description: 'market tags; delivers matches in markets with any of them; `all` does not filter',
  examples: [['crypto', '5m']],
};
const SERIES_MEANING = {
  description: 'series slugs; delivers matches in markets of any of them',
  examples: [['btc-up-or-down-hourly']],
};
const MARKETS_MEANING = {
  description: 'markets; delivers matches in any of them',
  examples: [[`0x${'5f'.repeat(32)}`]],
};

/** Body of `PUT /streams/{id}/subscription`: an omitted list keeps its entries, an empty list is cleared. */
export const Subscription = z.strictObject({
  addresses: Addresses.optional().meta(ADDRESSES_MEANING),
  tags: Slugs.optional().meta(TAGS_MEANING),
  series: Slugs.optional().meta(SERIES_MEANING),
  markets: Markets.optional().meta({
    ...{ description: `${MARKETS_MEANING.description}: ids, condition ids or slugs` },
    examples: [['2182202', 'bitcoin-up-or-down-may-1']],
  }),
});
export type Subscription = z.output<typeof Subscription>;

/** Body of `POST /streams`. */
export const NewStream = Subscription.extend({ name: Name.meta(NAME_MEANING) });
export type NewStream = z.output<typeof NewStream>;

/** Body of `PUT /streams/{id}/meta`: omitted members keep their values. */
export const Meta = z.strictObject({
  name: Name.optional().meta(NAME_MEANING),
  enabled: z
    .boolean('must be true or false')
    .optional()
    .meta({ description: 'false disconnects listeners and refuses new ones', examples: [false] }),
});
export type Meta = z.output<typeof Meta>;

/** Value of a bucket entry, as JSON. */
export const StreamRecord = z.object({
  id: z.string(),
  account: z.string(),
  name: z.string(),
  addresses: z.array(z.string()),
  tags: z.array(z.string()),
  series: z.array(z.string()),
  /** Condition ids; streams of earlier versions have none. */
  markets: z.array(z.string()).default([]),
  enabled: z.boolean(),
  createdAt: z.iso.datetime(),
  updatedAt: z.iso.datetime(),
  /** Hash of the body that created the stream with an Idempotency-Key. */
  bodyHash: z.string().optional(),
});
export type StreamRecord = z.infer<typeof StreamRecord>;

/** A stream in responses. */
export const Stream = z
  .object({
    id: text('id of the stream', '0b9c2f6e-4a51-4c5b-9a0a-1f2e3d4c5b6a').meta({ format: 'uuid' }),
    name: z.string().meta(NAME_MEANING),
    addresses: z.array(z.string()).meta(ADDRESSES_MEANING),
    tags: z.array(z.string()).meta(TAGS_MEANING),
    series: z.array(z.string()).meta(SERIES_MEANING),
    markets: z
      .array(z.string())
      .meta({ ...MARKETS_MEANING, description: `${MARKETS_MEANING.description}: condition ids` }),
    enabled: z.boolean().meta({ description: 'false: listeners are refused', examples: [true] }),
    active_sessions: count('connected listeners across all processes of the service', 2),
    created_at: text('when the stream was created, UTC with milliseconds', EXAMPLE_TIME).meta(
      DATE_TIME,
    ),
    updated_at: text('when filters, name or state last changed', EXAMPLE_TIME).meta(DATE_TIME),
  })
  .meta({ id: 'Stream' });
export type Stream = z.infer<typeof Stream>;

export function wireStream(record: StreamRecord, activeSessions: number): Stream {
  return {
    id: record.id,
    name: record.name,
    addresses: record.addresses,
    tags: record.tags,
    series: record.series,
    markets: record.markets,
    enabled: record.enabled,
    active_sessions: activeSessions,
    created_at: record.createdAt,
    updated_at: record.updatedAt,
  };
}

type Lists = Pick<StreamRecord, 'addresses' | 'tags' | 'series' | 'markets'>;

export function filterOfLists({ addresses, tags, series, markets }: Lists): Filter {
  return filterOf({ traders: addresses, tags, series, markets });
}

/** Whether every match passes, which makes the stream "naked". */
export function isNaked(lists: Lists): boolean {
  return filtersNothing(filterOfLists(lists));
}

/** The first list that is longer than the tier allows. */
export function longList(
  { addresses, tags, series }: Omit<Lists, 'markets'>,
  limits: TierLimits,
): { readonly name: string; readonly limit: number; readonly used: number } | undefined {
  return [
    { name: 'max_filter_addrs', limit: limits.filterAddressesMax, used: addresses.length },
    { name: 'max_filter_tags', limit: limits.filterTagsMax, used: tags.length },
    { name: 'max_filter_series', limit: limits.filterSeriesMax, used: series.length },
  ].find(({ limit, used }) => used > limit);
}
