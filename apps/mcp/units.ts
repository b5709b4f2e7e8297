/**
 * Results in whole units: 12.5 in place of 12,500,000 micro-USDC. The schemas of the endpoints describe the unit of each
 * amount, so they say which members to convert. A member name has one unit within an endpoint.
 */
import { z } from 'zod';

const MICRO = 1_000_000;

/** The names of the members of a response that are in micro-units. */
export function microMembers(answer: z.ZodType): ReadonlySet<string> {
  const names = new Set<string>();
  JSON.stringify(z.toJSONSchema(answer), (name, schema) => {
    if (/\bmicro-/.test(schema?.description)) names.add(name);
    return schema;
  });
  return names;
}

/** A response, or a part of it, with these members in whole units. */
export function inWholeUnits(value: unknown, micro: ReadonlySet<string>): unknown {
  if (Array.isArray(value)) return value.map((one) => inWholeUnits(one, micro));
  if (typeof value !== 'object' || value === null) return value;
  const members = Object.entries(value).map(([name, one]) => {
    // A number holds all six decimals of amounts below 8.5 billion. A price may be missing.
    const whole = micro.has(name) && one !== null ? Number(one) / MICRO : inWholeUnits(one, micro);
    return [name, whole];
  });
  return Object.fromEntries(members);
}
