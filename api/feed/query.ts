/**
 * The parameters of `GET /v1/stream/orders` (specification 4.2) and of resuming it, parsed once at
 * the edge. Everything wrong with a request is told in one answer. Unknown parameters are ignored;
 * an empty list does not filter.
 */
import { z } from 'zod';
import { Problem } from '../errors.ts';
import { parsePosition } from './cursor.ts';
import type { Format } from './encode.ts';
import { effectiveTags, type Filter, type Fraction } from './filter.ts';

export type FeedQuery = {
  readonly format: Format;
  readonly filter: Filter;
  /** The position after which delivery starts; 0 is live from now. */
  readonly requested: bigint;
};

const MICRO = 1_000_000n;
const LIST_ENTRIES_MAX = 5_000;
/** Ten to this power bounds the size of a number, not its meaning. */
const EXPONENT_MAX = 40;
const DECIMAL = /^(\d{0,40})(?:\.(\d{0,40}))?(?:[eE]([+-]?\d{1,3}))?$/;

/** A list by comma; the parameter may also be repeated. */
const List = z
  .union([z.string(), z.array(z.string())])
  .default('')
  .transform((given) =>
    [given]
      .flat()
      .flatMap((part) => part.split(','))
      .map((part) => part.trim().toLowerCase())
      .filter((part) => part !== ''),
  )
  .pipe(z.array(z.string()).max(LIST_ENTRIES_MAX));

const Addresses = List.pipe(
  z.array(
    z.string().regex(/^0x[0-9a-f]{40}$/, 'must be a wallet address: 0x and 40 hexadecimal digits'),
  ),
);

const Decimal = z
  .string('must be given once')
  .transform((text, context) => {
    const fraction = parseDecimal(text);
    if (fraction !== undefined) return fraction;
    context.addIssue({ code: 'custom', message: 'must be a decimal number of 0 or more' });
    return z.NEVER;
  })
  .optional();

const Price = Decimal.refine(
  (bound) => bound === undefined || bound.numerator <= 100n * bound.denominator,
  'must be from 0 to 100',
);

const LastEventId = z
  .string('must be given once')
  .transform((text, context) => {
    const requested = text === '' ? 0n : parsePosition(text);
    if (requested !== undefined) return requested;
    context.addIssue({ code: 'custom', message: 'must be the id of an event of this feed' });
    return z.NEVER;
  })
  .optional();

const Position = z.object({ lastEventId: LastEventId, 'Last-Event-ID': LastEventId });

const Query = z
  .object({
    traders: Addresses,
    tags: List,
    series: List,
    min_usdc: Decimal,
    max_usdc: Decimal,
    min_shares: Decimal,
    max_shares: Decimal,
    min_price: Price,
    max_price: Price,
    format: z.literal('json', 'must be json, or absent for the compact form').optional(),
    ...Position.shape,
  })
  .superRefine((query, context) => {
    for (const name of ['usdc', 'shares', 'price'] as const) {
      const min = query[`min_${name}`];
      const max = query[`max_${name}`];
      if (min === undefined || max === undefined) continue;
      if (min.numerator * max.denominator > max.numerator * min.denominator) {
        const message = `must not be above max_${name}`;
        context.addIssue({ code: 'custom', path: [`min_${name}`], message });
      }
    }
  });

/**
 * Parses the query and the Last-Event-ID header, which wins over `lastEventId`; empty is absent.
 *
 * Throws Problem 400 with an issue for each fault.
 */
export function parseFeedQuery(
  query: Readonly<Record<string, unknown>>,
  lastEventIdHeader: string | undefined,
): FeedQuery {
  const data = parse(Query, query, lastEventIdHeader);
  return {
    format: data.format ?? 'compact',
    requested: requestedBy(data),
    filter: {
      traders: new Set(data.traders),
      tags: new Set(effectiveTags(data.tags)),
      series: new Set(data.series),
      usdcMin: microAtLeast(data.min_usdc),
      usdcMax: microAtMost(data.max_usdc),
      sharesMin: microAtLeast(data.min_shares),
      sharesMax: microAtMost(data.max_shares),
      priceMin: data.min_price ?? null,
      priceMax: data.max_price ?? null,
    },
  };
}

/** The position that a client of a managed stream comes with. Throws as `parseFeedQuery`. */
export function parsePositionQuery(
  query: Readonly<Record<string, unknown>>,
  lastEventIdHeader: string | undefined,
): bigint {
  return requestedBy(parse(Position, query, lastEventIdHeader));
}

function parse<Schema extends z.ZodType>(
  schema: Schema,
  query: Readonly<Record<string, unknown>>,
  lastEventIdHeader: string | undefined,
): z.output<Schema> {
  const header = lastEventIdHeader === '' ? undefined : lastEventIdHeader;
  const position = header === undefined ? {} : { lastEventId: undefined };
  const parsed = schema.safeParse({ ...query, ...position, 'Last-Event-ID': header });
  if (parsed.success) return parsed.data;
  throw new Problem({
    status: 400,
    error: 'invalid_request',
    detail: 'a parameter of the feed is not valid',
    issues: parsed.error.issues.map(({ path, message }) => ({ path: path.join('.'), message })),
  });
}

function requestedBy(given: z.output<typeof Position>): bigint {
  return given['Last-Event-ID'] ?? given.lastEventId ?? 0n;
}

/** The exact value of a decimal such as `0.5`, `12` or `1e-05`; undefined where it is none. */
function parseDecimal(text: string): Fraction | undefined {
  const [, whole = '', fraction = '', exponent = '0'] = DECIMAL.exec(text) ?? [];
  const shift = Number(exponent) - fraction.length;
  if (whole + fraction === '' || Math.abs(Number(exponent)) > EXPONENT_MAX) return undefined;
  const digits = BigInt(whole + fraction);
  return shift >= 0
    ? { numerator: digits * 10n ** BigInt(shift), denominator: 1n }
    : { numerator: digits, denominator: 10n ** BigInt(-shift) };
}

// Rounds up: an amount of whole micro-units is at least the bound exactly when it is at least this.
function microAtLeast(bound: Fraction | undefined): bigint | null {
  if (bound === undefined) return null;
  return (bound.numerator * MICRO + bound.denominator - 1n) / bound.denominator;
}

// Rounds down: an amount of whole micro-units is at most the bound exactly when it is at most this.
function microAtMost(bound: Fraction | undefined): bigint | null {
  return bound === undefined ? null : (bound.numerator * MICRO) / bound.denominator;
}
