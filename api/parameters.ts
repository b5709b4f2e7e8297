/**
 * Parsing of path and query parameters: text in, typed value or a 400 that names the parameter,
 * what was given and what is allowed. Each kind of parameter is a zod schema over the raw text, so
 * that the same schema can describe it. Unknown parameters are ignored.
 */
import type { Request } from 'express';
import { z } from 'zod';
import { Problem } from './problems.ts';

const GIVEN_CHARACTERS_MAX = 80;
const SECONDS_MAX = 4_294_967_295;
const INT64_MAX = 9_223_372_036_854_775_807n;

/** A whole number from `min` to `max`, both inclusive and safe integers. */
export function integer(min: number, max: number) {
  return parameter(`a whole number from ${min} to ${max}`, (text) => {
    if (!/^-?\d{1,16}$/.test(text)) return undefined;
    const value = Number(text);
    return value >= min && value <= max ? value : undefined;
  });
}

/** A decimal number from `min` to `max`, both inclusive. */
export function decimal(min: number, max: number) {
  return parameter(`a number from ${min} to ${max}`, (text) => {
    if (!/^-?\d{1,16}(\.\d{1,16})?$/.test(text)) return undefined;
    const value = Number(text);
    return value >= min && value <= max ? value : undefined;
  });
}

/** One of the texts, exactly. */
export function oneOf<const Text extends string>(allowed: readonly Text[]) {
  return parameter(`one of ${allowed.join(', ')}`, (text) =>
    allowed.find((candidate) => candidate === text),
  );
}

/** A wallet address in any letter case; lower case afterwards. */
export const address = parameter('0x and 40 hexadecimal digits', (text) =>
  /^0x[0-9a-fA-F]{40}$/.test(text) ? text.toLowerCase() : undefined,
);

/** A numeric market id: an int64 that is not negative, as decimal text without leading zeros. */
export const marketId = parameter(`a whole number from 0 to ${INT64_MAX}`, (text) => {
  if (!/^\d{1,19}$/.test(text)) return undefined;
  const value = BigInt(text);
  return value <= INT64_MAX ? value.toString() : undefined;
});

/** A tag as it stands in a market's tags. */
export const tagSlug = parameter('a tag of 1 to 100 characters', (text) =>
  text.length >= 1 && text.length <= 100 ? text : undefined,
);

/** A time in ISO 8601 (UTC where no zone is given) or epoch seconds; epoch seconds afterwards. */
export const instant = parameter(
  'an ISO 8601 time such as 2026-05-01T00:00:00Z, or seconds since 1970',
  (text) => {
    if (/^\d{1,10}$/.test(text)) return withinSeconds(Number(text));
    const parts = ISO_TIME.exec(text);
    if (parts === null) return undefined;
    const [, day, time = '00:00', zone = 'Z'] = parts;
    return withinSeconds(Math.floor(Date.parse(`${day}T${time}${zone}`) / 1000));
  },
);

const ISO_TIME =
  /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?)(Z|[+-]\d\d:\d\d)?)?$/;

/** Parses the path and query of a request. Throws Problem 400 with one issue a bad parameter. */
export function parseParameters<Shape extends z.ZodType>(
  schema: Shape,
  request: Request,
): z.output<Shape> {
  const parsed = schema.safeParse({ ...request.query, ...request.params });
  if (parsed.success) return parsed.data;
  const issues = parsed.error.issues.map(({ path, message }) => ({
    path: path.join('.'),
    message,
  }));
  throw new Problem({
    status: 400,
    error: 'invalid_request',
    detail: issues.map((issue) => `${issue.path}: ${issue.message}`).join('; '),
    issues,
  });
}

function parameter<Value>(allowed: string, parse: (text: string) => Value | undefined) {
  return z
    .unknown()
    .transform((given, context): Value => {
      const value = typeof given === 'string' ? parse(given) : undefined;
      if (value !== undefined) return value;
      context.addIssue({ code: 'custom', message: `given ${show(given)}, allowed is ${allowed}` });
      return z.NEVER;
    })
    .meta({ allowed });
}

function show(given: unknown): string {
  if (Array.isArray(given)) return `${given.length} values`;
  if (typeof given !== 'string') return 'nothing';
  if (given.length <= GIVEN_CHARACTERS_MAX) return JSON.stringify(given);
  return `${JSON.stringify(given.slice(0, GIVEN_CHARACTERS_MAX))}…`;
}

function withinSeconds(seconds: number): number | undefined {
  return seconds >= 0 && seconds <= SECONDS_MAX ? seconds : undefined;
}
