/** The caller of a request, as authentication determined it, for every part of the api. */
import type { Response } from 'express';
import { z } from 'zod';

export const Tier = z.enum(['demo', 'individual', 'pro']);
export type Tier = z.infer<typeof Tier>;

export type Caller = {
  /** Hex SHA-256 of the API key, or of a visitor's network; safe to log and store. */
  readonly keyHash: string;
  /** Owner of streams and quotas; several keys may share one. '' for a visitor without a key. */
  readonly account: string;
  readonly tier: Tier;
};

/** The caller of an authenticated request. Throws if the route does not require a key. */
export function callerOf(response: Response): Caller {
  const caller: Caller | undefined = response.locals.caller;
  if (caller === undefined) throw new Error('callerOf: the route does not require a key');
  return caller;
}
