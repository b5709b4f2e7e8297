/**
 * Schemas for the kinds of fields in responses, with the unit and range that the OpenAPI document shows. v1
 * has amounts as decimal text, v2 as numbers.
 */
import { z } from 'zod';

/** A signed or unsigned amount as decimal text; `what` describes it, including its unit. */
export function amountText(what: string) {
  return z
    .string()
    .regex(/^-?\d{1,20}$/)
    .meta({ description: what, examples: ['12500000'] });
}

/** The same as a JSON number, always a safe integer. */
export function amount(what: string) {
  return z.int().meta({ description: what, examples: [12_500_000] });
}

/** An amount in v1. Members that both versions have are defined once, as a function of this or `usd`. */
export function usdcText(what: string) {
  return amountText(`${what}, micro-USDC`);
}

/** The same amount in v2. */
export function usd(what: string) {
  return amount(`${what}, micro-USD`);
}

/** The price of an outcome in v2. */
export function sharePrice(what: string) {
  return amount(`${what}, micro-USD a share, 0 to 1,000,000`);
}

export function count(what: string, example = 7) {
  return z
    .int()
    .min(0)
    .meta({ description: what, examples: [example] });
}

/** Percent. ROI has no bounds, because the cost does not include fees. */
export function percentage(what: string) {
  return z.number().meta({ description: `${what}, percent`, examples: [12.5] });
}

export const ROI = percentage('PnL divided by the cost of the closed shares');

/** From 0 to 100. */
export function share(what: string) {
  return z
    .number()
    .min(0)
    .max(100)
    .meta({ description: `${what}, percent from 0 to 100`, examples: [62.5] });
}

export function text(what: string, example = '') {
  return z.string().meta({ description: what, examples: [example] });
}

export function yes(what: string) {
  return z.boolean().meta({ description: what, examples: [false] });
}

/** `YYYY-MM-DDTHH:MM:SSZ`, or '' for none. */
export function time(what: string) {
  return z
    .string()
    .regex(/^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)?$/)
    .meta({ description: `${what}, ISO 8601 UTC`, examples: ['2026-05-01T12:00:00Z'] });
}

/** `YYYY-MM-DD HH:MM:SSZ`, or '' for none, as in the v1 trader profile. */
export function spacedTime(what: string) {
  return z
    .string()
    .regex(/^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ)?$/)
    .meta({
      description: `${what}, UTC with a space in place of T`,
      examples: ['2026-05-01 12:00:00Z'],
    });
}

export const hourStart = z
  .string()
  .regex(/^\d{4}-\d\d-\d\d \d\d:00:00$/)
  .meta({ description: 'start of the hour, UTC', examples: ['2026-05-01 12:00:00'] });

export function outcomeIndex(what: string) {
  return z
    .int()
    .min(0)
    .max(1)
    .meta({ description: what, examples: [0] });
}

export function rank(what: string) {
  return z
    .int()
    .min(1)
    .meta({ description: what, examples: [1] });
}

export const lowerAddress = z
  .string()
  .regex(/^0x[0-9a-f]{40}$/)
  .meta({
    description: 'wallet address in lower case',
    examples: ['0x56687bf447db6ffa42ffe2204a05edaa20f55839'],
  });

export const checksummedAddress = z
  .string()
  .regex(/^0x[0-9a-fA-F]{40}$/)
  .meta({
    description: 'wallet address with the ERC-55 checksum',
    examples: ['0x56687BF447dB6fFA42FFE2204A05EDAa20F55839'],
  });

export const side = z
  .enum(['BUY', 'SELL'])
  .meta({ description: 'whether the trader bought or sold the outcome share', examples: ['BUY'] });
