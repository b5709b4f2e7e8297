/**
 * The rules of alerts, one schema each: what must happen before something is sent. The request bodies, the stored record, and how an
 * alert looks in responses.
 */
import { z } from 'zod';
import { text } from '../../api/analytics/schemas.ts';
import { TIME_FRAME_NAMES } from '../../api/analytics/time-frames.ts';
import { filtersNothing } from '../../api/feed/filter.ts';
import { MARKETS_MAX } from '../../api/feed/parameters.ts';
import { ADDRESS, inOrder, parseMarketKey } from '../../api/http/parameters.ts';
import { feedFilter } from './feed-filter.ts';

const NAME_CHARACTERS_MAX = 64;
const USDC_MAX = 1e9;
const PNL_TRADERS_MAX = 100;
const GROUP_SECONDS_MAX = 3_600;
const DESTINATIONS_MAX = 10;

const EXAMPLE_TRADERS: string[] = ['0x56687bf447db6ffa42ffe2204a05edaa20f55839'];
const EXAMPLE_MARKETS = ['2182202'];
const TIME_EXAMPLE = '2026-05-01T12:00:00.000Z';
const DATE_TIME = { format: 'date-time' };

/** Longer than every quota, so that a list that exceeds a quota gets the quota's error. */
const LIST_ENTRIES_MAX = 10_000;
const SLUG_CHARACTERS_MAX = 100;

const Traders = z
  .array(
    z
      .string()
      .regex(ADDRESS, 'must be a wallet address: 0x and 40 hexadecimal digits')
      .toLowerCase(),
    'must be a list of wallet addresses',
  )
  .max(LIST_ENTRIES_MAX, `must have at most ${LIST_ENTRIES_MAX} entries`);

const Slugs = z
  .array(
    z.string().trim().toLowerCase().min(1, 'must not be empty').max(SLUG_CHARACTERS_MAX),
    'must be a list of strings',
  )
  .max(LIST_ENTRIES_MAX, `must have at most ${LIST_ENTRIES_MAX} entries`);

/** The key of a market, which is stored as its condition id. */
const Market = z
  .string('must be a string')
  .refine(
    (key) => parseMarketKey(key) !== undefined,
    'must be a market id, a condition id or a slug',
  );
const Markets = z
  .array(Market, 'must be a list of strings')
  .max(MARKETS_MAX, `must have at most ${MARKETS_MAX} entries`);

const Usdc = (description: string) =>
  z
    .number()
    .min(0)
    .max(USDC_MAX)
    .meta({ description, examples: [1_000] });
const Percent = (description: string) =>
  z
    .number()
    .min(0)
    .max(100)
    .meta({ description, examples: [90] });
const Seconds = z
  .int()
  .min(1)
  .max(GROUP_SECONDS_MAX)
  .meta({ description: 'within so many seconds', examples: [600] });

/** What restricts the matches of a rule, as in the order feed. */
const FILTER = {
  traders: Traders.optional().meta({
    description: 'only matches that involve one of these wallets',
    examples: [EXAMPLE_TRADERS],
  }),
  markets: Markets.optional().meta({
    description: 'only matches in these markets: ids, condition ids or slugs',
    examples: [EXAMPLE_MARKETS],
  }),
  tags: Slugs.optional().meta({
    description: 'only matches in markets with one of these tags',
    examples: [['crypto']],
  }),
  series: Slugs.optional().meta({
    description: 'only matches in markets of one of these series',
    examples: [['btc-up-or-down-hourly']],
  }),
  min_usdc: Usdc('minimum value of the taker order, USDC').optional(),
  max_usdc: Usdc('maximum value of the taker order, USDC').optional(),
  min_price: Percent('minimum execution price of the taker, 0 to 100').optional(),
  max_price: Percent('maximum execution price of the taker, 0 to 100').optional(),
} as const;

const OutcomeIndex = z
  .union([z.literal(0), z.literal(1)])
  .meta({ description: 'index of the outcome whose price counts', examples: [0] });

const POSITION_EVENTS = ['opened', 'added', 'reduced', 'closed', 'settled'] as const;

export const Rule = z.discriminatedUnion('type', [
  z
    .strictObject({ type: z.literal('match'), ...FILTER })
    .superRefine(inOrder(['min_usdc', 'max_usdc'], ['min_price', 'max_price']))
    .refine((rule) => !filtersNothing(feedFilter(rule)), 'must restrict something')
    .meta({ id: 'MatchRule', description: 'a match that passes a filter, as in the order feed' }),
  z
    .strictObject({
      type: z.literal('group'),
      traders: Traders.min(2, 'must be at least two wallets').meta({
        description: 'the wallets that are watched',
        examples: [EXAMPLE_TRADERS],
      }),
      count: z
        .int()
        .min(2)
        .max(100)
        .meta({ description: 'so many of them', examples: [3] }),
      within_seconds: Seconds,
      markets: FILTER.markets,
      tags: FILTER.tags,
      min_usdc: Usdc('minimum value of an order that counts, USDC').optional(),
    })
    .refine((rule) => rule.count <= new Set(rule.traders).size, {
      path: ['count'],
      message: 'must not be above the number of traders',
    })
    .meta({
      id: 'GroupRule',
      description:
        'several wallets of a set buy the same outcome of a market within a time; selling an outcome counts as buying the other',
    }),
  z
    .strictObject({
      type: z.literal('position'),
      traders: Traders.min(1, 'must not be empty').meta({
        description: 'the wallets whose positions are watched',
        examples: [EXAMPLE_TRADERS],
      }),
      events: z
        .array(z.enum(POSITION_EVENTS))
        .min(1, 'must not be empty')
        .default([...POSITION_EVENTS])
        .meta({ description: 'what became of the position', examples: [['opened', 'closed']] }),
      markets: FILTER.markets,
      tags: FILTER.tags,
      first: z
        .boolean('must be true or false')
        .default(false)
        .meta({ description: 'only the trader’s first trade in a market', examples: [true] }),
      min_usdc: Usdc('minimum value of the event, USDC').optional(),
    })
    .meta({
      id: 'PositionRule',
      description: 'a trader opens, adds to, reduces or closes a position',
    }),
  z
    .strictObject({
      type: z.literal('price'),
      market: Market.meta({
        description: 'the market: its id, condition id or slug',
        examples: ['2182202'],
      }),
      outcome_index: OutcomeIndex.default(0),
      level: Percent('the price, 0 to 100'),
      direction: z.enum(['above', 'below']).meta({
        description: 'above: it rises to the level or above; below: it falls to it or below',
        examples: ['above'],
      }),
    })
    .meta({ id: 'PriceRule', description: 'the price of an outcome crosses a level' }),
  z
    .strictObject({
      type: z.literal('resolution'),
      markets: FILTER.markets,
      tags: FILTER.tags,
      series: FILTER.series,
    })
    .refine((rule) => !filtersNothing(feedFilter(rule)), 'must restrict something')
    .meta({ id: 'ResolutionRule', description: 'a market is resolved, in a final block' }),
  z
    .strictObject({
      type: z.literal('pnl'),
      traders: Traders.min(1, 'must not be empty')
        .max(PNL_TRADERS_MAX, `must have at most ${PNL_TRADERS_MAX} entries`)
        .meta({
          description: 'the wallets whose realised PnL is watched',
          examples: [EXAMPLE_TRADERS],
        }),
      window: z
        .enum(TIME_FRAME_NAMES)
        .meta({ description: 'of the bookings that count', examples: ['1D'] }),
      level: z
        .number()
        .min(-USDC_MAX)
        .max(USDC_MAX)
        .meta({ description: 'the PnL, USDC; below 0: a loss', examples: [10_000] }),
      direction: z.enum(['above', 'below']).meta({
        description: 'above: it rises to the level or above; below: it falls to it or below',
        examples: ['above'],
      }),
    })
    .meta({
      id: 'PnlRule',
      description: 'the realised PnL of a trader in a window crosses a level',
    }),
  z
    .strictObject({
      type: z.literal('move'),
      markets: Markets.min(1, 'must not be empty').meta({
        description: 'the markets: ids, condition ids or slugs',
        examples: [EXAMPLE_MARKETS],
      }),
      points: z
        .number()
        .min(0.1)
        .max(100)
        .meta({ description: 'by so many cents', examples: [10] }),
      within_seconds: Seconds,
    })
    .meta({ id: 'MoveRule', description: 'the price of a market moves within a time' }),
]);
export type Rule = z.output<typeof Rule>;
export type RuleOf<Type extends Rule['type']> = Extract<Rule, { type: Type }>;

const Name = z
  .string('must be a string')
  .trim()
  .min(1, 'must not be empty')
  .max(NAME_CHARACTERS_MAX, `must have at most ${NAME_CHARACTERS_MAX} characters`)
  .meta({ description: 'name of the alert', examples: ['whales'] });

const Destinations = z.array(z.uuid('must be the id of a destination')).max(DESTINATIONS_MAX);
const DESTINATIONS_MEANING = {
  description: 'ids of the destinations; without any, events are only in the event stream',
  examples: [['0b9c2f6e-4a51-4c5b-9a0a-1f2e3d4c5b6a']],
};
const CONFIRM_MEANING = {
  description:
    'whether an event is also sent when a pending one became final; retractions are always sent',
  examples: [false],
};
const RULE_EXAMPLE = { type: 'match', traders: EXAMPLE_TRADERS, min_usdc: 1_000 } as const;
const RULE_MEANING = { description: 'what must happen', examples: [RULE_EXAMPLE] };

/** Body of `POST /v2/alerts`. */
export const NewAlert = z.strictObject({
  name: Name,
  rule: Rule.meta(RULE_MEANING),
  destinations: Destinations.default([]).meta(DESTINATIONS_MEANING),
  confirm: z.boolean('must be true or false').default(false).meta(CONFIRM_MEANING),
});
export type NewAlert = z.output<typeof NewAlert>;

/** Body of `PATCH /v2/alerts/{id}`: omitted members keep their values. */
export const AlertChange = z.strictObject({
  name: Name.optional(),
  rule: Rule.optional().meta(RULE_MEANING),
  destinations: Destinations.optional().meta(DESTINATIONS_MEANING),
  confirm: z.boolean('must be true or false').optional().meta(CONFIRM_MEANING),
  enabled: z
    .boolean('must be true or false')
    .optional()
    .meta({ description: 'false pauses the alert', examples: [false] }),
});
export type AlertChange = z.output<typeof AlertChange>;

/** Value of a bucket entry, as JSON; markets are condition ids. */
export const AlertRecord = z.object({
  id: z.string(),
  account: z.string(),
  name: z.string(),
  rule: Rule,
  destinations: z.array(z.string()),
  confirm: z.boolean(),
  enabled: z.boolean(),
  createdAt: z.iso.datetime(),
  updatedAt: z.iso.datetime(),
  bodyHash: z.string().optional(),
});
export type AlertRecord = z.infer<typeof AlertRecord>;

/** An alert in responses. */
export const Alert = z
  .object({
    id: text('id of the alert', '0b9c2f6e-4a51-4c5b-9a0a-1f2e3d4c5b6a').meta({ format: 'uuid' }),
    name: Name,
    rule: Rule.meta({
      description: 'the rule as it was given, with markets as condition ids',
      examples: [RULE_EXAMPLE],
    }),
    destinations: z.array(z.string()).meta(DESTINATIONS_MEANING),
    confirm: z.boolean().meta(CONFIRM_MEANING),
    enabled: z.boolean().meta({ description: 'false: paused', examples: [true] }),
    created_at: text('when it was created, UTC with milliseconds', TIME_EXAMPLE).meta(DATE_TIME),
    updated_at: text('when it last changed', TIME_EXAMPLE).meta(DATE_TIME),
  })
  .meta({ id: 'Alert' });

export function wireAlert(record: AlertRecord): z.infer<typeof Alert> {
  const { confirm, createdAt, destinations, enabled, id, name, rule, updatedAt } = record;
  return {
    ...{ id, name, rule, destinations, confirm, enabled },
    ...{ created_at: createdAt, updated_at: updatedAt },
  };
}

/** How many entries of each list a rule has, for the quotas of the tier. */
export function sizesOf(rule: Rule) {
  return {
    max_filter_addrs: 'traders' in rule ? (rule.traders?.length ?? 0) : 0,
    max_filter_tags: 'tags' in rule ? (rule.tags?.length ?? 0) : 0,
    max_filter_series: 'series' in rule ? (rule.series?.length ?? 0) : 0,
  };
}
