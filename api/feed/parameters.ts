/** Schemas of the order feed's parameters: lists and decimals, with their limits. */
import { z } from 'zod';
import { parseMarketKey } from '../http/parameters.ts';
import { parseDecimal } from './filter-rules.ts';

const LIST_ENTRIES_MAX = 5_000;
/** As many as fit into the 16 KiB of a request's headers. */
export const ADDRESSES_MAX = 350;
/** Each market may need a lookup. */
export const MARKETS_MAX = 100;

/**
 * A comma-separated list. The parameter may also be repeated. An empty list is an error, because as a
 * filter it would let everything through.
 */
export const List = z
  .union([z.string(), z.array(z.string())])
  .transform((given) =>
    [given]
      .flat()
      .flatMap((part) => part.split(','))
      .map((part) => part.trim().toLowerCase())
      .filter((part) => part !== ''),
  )
  .pipe(z.array(z.string()).min(1, 'must not be empty').max(LIST_ENTRIES_MAX));

export const Addresses = List.pipe(
  z
    .array(
      z
        .string()
        .regex(/^0x[0-9a-f]{40}$/, 'must be a wallet address: 0x and 40 hexadecimal digits'),
    )
    .max(ADDRESSES_MAX, `must be at most ${ADDRESSES_MAX}; a managed stream takes more`),
);

export const Markets = List.pipe(
  z
    .array(
      z.string().transform((text, context) => {
        const key = parseMarketKey(text);
        if (key !== undefined) return key;
        context.addIssue({
          code: 'custom',
          message: 'must be a market id, a condition id or a slug',
        });
        return z.NEVER;
      }),
    )
    .max(MARKETS_MAX),
);

export const Decimal = z
  .string('must be given once')
  .transform((text, context) => {
    const fraction = parseDecimal(text);
    if (fraction !== undefined) return fraction;
    context.addIssue({ code: 'custom', message: 'must be a decimal number of 0 or more' });
    return z.NEVER;
  })
  .optional();

export const Price = Decimal.refine(
  (bound) => bound === undefined || bound.numerator <= 100n * bound.denominator,
  'must be from 0 to 100',
);

/** An optional list. */
export function listed<Entry>(
  list: z.ZodType<Entry[]>,
  description: string,
  items: object,
  maxItems = LIST_ENTRIES_MAX,
) {
  return list
    .optional()
    .transform((given) => given ?? [])
    .meta({
      ...{ type: 'array', minItems: 1, maxItems, items },
      description: `${description}; comma-separated`,
    });
}
