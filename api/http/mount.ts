/**
 * Routes that apps, such as the page, add to the API's server. `api/main.ts` takes the list from `apps/mounts.ts`; nothing
 * else in the API knows the apps.
 */
import type { RequestHandler } from 'express';
import helmet from 'helmet';

/** Handlers by path. */
type Routes = Readonly<Record<string, RequestHandler | RequestHandler[]>>;

export type Mount = {
  /** Builds what it serves, so that no request has to wait for that. */
  readonly ready?: () => Promise<unknown>;
  /** GET without a key and not counted, because a page requests all of its files at once. */
  readonly files?: Routes;
  /** Called before the key is checked, for every request to a path or below it. */
  readonly first?: Routes;
  /** GET without a key. */
  readonly open?: Routes;
  /** POST with a key. */
  readonly post?: Routes;
  /** Answers a browser that asks for an unknown path; the status is already 404. */
  readonly unknown?: RequestHandler;
};

/** Security headers for documents; they replace those for data. */
export const asDocument: RequestHandler = helmet();
