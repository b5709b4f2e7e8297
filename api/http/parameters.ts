/**
 * Parses path and query parameters: returns typed values or throws a 400 that names the parameter, its
 * value and the allowed values. Each kind of parameter is a zod schema over the raw text. The schema also
 * describes the parameter in /openapi.json. Unknown parameters are ignored.
 */
import { z } from 'zod';
import { invalid } from './errors.ts';
import { instantMs } from './instants.ts';

const GIVEN_CHARACTERS_MAX = 80;
const UINT32_MAX = 4_294_967_295;
const INT64_MAX = 9_223_372_036_854_775_807n;

/** A whole number from `min` to `max`, both inclusive and safe integers. */
export function integer(min: number, max: number) {
  const schema = { type: 'integer', minimum: min, maximum: max } as const;
  return parameter(`a whole number from ${min} to ${max}`, schema, (text) => {
    if (!/^-?\d{1,16}$/.test(text)) return undefined;
    const value = Number(text);
    return value >= min && value <= max ? value : undefined;
  });
}

/** The texts that `decimal` reads, in any range. */
export const DECIMAL = /^-?(\d{1,40}(\.\d{0,40})?|\.\d{1,40})([eE][+-]?\d{1,3})?$/;

/** A decimal number such as `0.5` or `1e-7` from `min` to `max`, both inclusive. */
export function decimal(min: number, max: number) {
  const schema = { type: 'number', minimum: min, maximum: max } as const;
  return parameter(`a number from ${min} to ${max}`, schema, (text) => {
    if (!DECIMAL.test(text)) return undefined;
    const value = Number(text);
    return value >= min && value <= max ? value : undefined;
  });
}

/** Exactly one of the texts. */
export function oneOf<const Text extends string>(allowed: readonly Text[]) {
  const schema = { type: 'string', enum: [...allowed] } as const;
  return parameter(`one of ${allowed.join(', ')}`, schema, (text) =>
    allowed.find((candidate) => candidate === text),
  );
}

/** One of the texts in any letter case, returned as listed. */
export function oneOfAnyCase(allowed: readonly string[]) {
  const schema = { type: 'string', enum: [...allowed] } as const;
  return parameter(`one of ${allowed.join(', ')}`, schema, (text) =>
    allowed.find((candidate) => candidate.toLowerCase() === text.toLowerCase()),
  );
}

/** Rejects a minimum above its maximum, given the names of each pair, because nothing could match. */
export function inOrder(...pairs: readonly (readonly [min: string, max: string])[]) {
  return (given: Readonly<Record<string, unknown>>, context: z.RefinementCtx): void => {
    for (const [min, max] of pairs) {
      if (given[min] === undefined || given[max] === undefined) continue;
      if (Number(given[min]) <= Number(given[max])) continue;
      context.addIssue({ code: 'custom', path: [min], message: `must not be above ${max}` });
    }
  };
}

/** `true` or `false`, also as `True`, `TRUE` or `1`, which clients in other languages send. */
export const flag = parameter('true or false', { type: 'boolean' }, (text) => {
  if (/^(true|True|TRUE|1)$/.test(text)) return true;
  return /^(false|False|FALSE|0)$/.test(text) ? false : undefined;
});

export const ADDRESS = /^0[xX][0-9a-fA-F]{40}$/;
const CONDITION_ID = /^0[xX][0-9a-fA-F]{64}$/;
const SLUG = /^[a-z0-9][a-z0-9_-]{0,199}$/;

/** A wallet address in any letter case; returned in lower case. */
export const address = parameter(
  '0x and 40 hexadecimal digits',
  {
    type: 'string',
    pattern: ADDRESS.source,
    examples: ['0x56687bf447db6ffa42ffe2204a05edaa20f55839'],
  },
  (text) => (ADDRESS.test(text) ? text.toLowerCase() : undefined),
).describe('wallet of the trader; letter case is ignored');

/** A trader by address, in lower case, or by `@` and a name. */
export const traderKey = parameter(
  '0x and 40 hexadecimal digits, or @ and a name',
  {
    type: 'string',
    pattern: `${ADDRESS.source}|^@.{1,100}$`,
    examples: ['0x56687bf447db6ffa42ffe2204a05edaa20f55839', '@alice'],
  },
  (text) => {
    if (ADDRESS.test(text)) return text.toLowerCase();
    return /^@.{1,100}$/.test(text) ? text : undefined;
  },
).describe('wallet of the trader; letter case is ignored');

/** 1 to `most` comma-separated wallet addresses; returned in lower case, without duplicates. */
export function addresses(most: number) {
  return parameter(
    `1 to ${most} comma-separated addresses (0x and 40 hexadecimal digits)`,
    {
      type: 'string',
      pattern: `${ADDRESS.source.slice(0, -1)}(,${ADDRESS.source.slice(1, -1)}){0,${most - 1}}$`,
      examples: ['0x56687bf447db6ffa42ffe2204a05edaa20f55839'],
    },
    (text) => {
      const given = [...new Set(text.toLowerCase().split(','))];
      const isGood = given.length <= most && given.every((address) => ADDRESS.test(address));
      return isGood ? given : undefined;
    },
  );
}

/** A numeric market id: a non-negative int64; returned as decimal text without leading zeros. */
export const marketId = parameter(
  `a whole number from 0 to ${INT64_MAX}`,
  { type: 'integer', format: 'int64', minimum: 0, examples: [2182202] },
  wholeInt64,
);

export type MarketKey =
  | { readonly kind: 'id'; readonly id: string }
  | { readonly kind: 'condition'; readonly conditionId: string }
  | { readonly kind: 'slug'; readonly slug: string };

/** A market by number, condition id or slug. A text of digits is a number. */
export const marketKey = parameter<MarketKey>(
  'a market id, a condition id (0x and 64 hexadecimal digits) or a slug',
  { type: 'string', pattern: `${CONDITION_ID.source}|${SLUG.source}`, examples: ['2182202'] },
  parseMarketKey,
);

/** Undefined if the text is none of the three. */
export function parseMarketKey(text: string): MarketKey | undefined {
  if (/^\d+$/.test(text)) {
    const id = wholeInt64(text);
    return id === undefined ? undefined : { kind: 'id', id };
  }
  if (CONDITION_ID.test(text)) return { kind: 'condition', conditionId: text.toLowerCase() };
  return SLUG.test(text) ? { kind: 'slug', slug: text } : undefined;
}

/** The direction of a list. */
export function order(first: 'asc' | 'desc') {
  return oneOf(['asc', 'desc']).default(first);
}

/** The id of an API key. */
export const keyId = parameter(
  '16 hexadecimal digits in lower case',
  { type: 'string', pattern: '^[0-9a-f]{16}$', examples: ['9f86d081884c7d65'] },
  (text) => (/^[0-9a-f]{16}$/.test(text) ? text : undefined),
);

/** A tag or series slug in any letter case; returned in lower case. */
export const slug = parameter(
  'a slug of 1 to 100 characters',
  { type: 'string', minLength: 1, maxLength: 100 },
  (text) => (text.length >= 1 && text.length <= 100 ? text.toLowerCase() : undefined),
);

/** A time in ISO 8601 (UTC by default) or epoch seconds; returned as epoch seconds. */
export const instant = parameter(
  'an ISO 8601 time such as 2026-05-01T00:00:00Z, or seconds since 1970',
  { type: 'string', examples: ['2026-05-01T00:00:00Z', '1777593600'] },
  (text) => {
    const ms = instantMs(text);
    return ms === undefined ? undefined : withinSeconds(Math.floor(ms / 1000));
  },
);

/** Parses parameters or a JSON body. Throws Problem 400 with one issue per bad member. */
export function parse<Shape extends z.ZodType>(schema: Shape, given: unknown): z.output<Shape> {
  const parsed = schema.safeParse(given);
  if (parsed.success) return parsed.data;
  const issues = parsed.error.issues.flatMap((issue) =>
    issue.code === 'unrecognized_keys'
      ? issue.keys.map((key) => ({ path: [...issue.path, key].join('.'), message: 'is unknown' }))
      : [{ path: issue.path.join('.') || 'body', message: issue.message }],
  );
  throw invalid(issues);
}

/** `schema` describes the text as JSON Schema, `allowed` describes it in the error message. */
export function parameter<Value>(
  allowed: string,
  schema: Readonly<Record<string, unknown>>,
  parse: (text: string) => Value | undefined,
) {
  return z
    .unknown()
    .transform((given, context): Value => {
      const value = typeof given === 'string' ? parse(given) : undefined;
      if (value !== undefined) return value;
      context.addIssue({ code: 'custom', message: `got ${show(given)}, expected ${allowed}` });
      return z.NEVER;
    })
    .meta(schema);
}

function wholeInt64(text: string): string | undefined {
  if (!/^\d{1,19}$/.test(text)) return undefined;
  const value = BigInt(text);
  return value <= INT64_MAX ? value.toString() : undefined;
}

function show(given: unknown): string {
  if (Array.isArray(given)) return `${given.length} values`;
  if (typeof given !== 'string') return 'nothing';
  if (given.length <= GIVEN_CHARACTERS_MAX) return JSON.stringify(given);
  return `${JSON.stringify(given.slice(0, GIVEN_CHARACTERS_MAX))}…`;
}

function withinSeconds(seconds: number): number | undefined {
  return seconds >= 0 && seconds <= UINT32_MAX ? seconds : undefined;
}
