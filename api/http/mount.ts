/**
 * What programs around the API add to its server, such as the page: `api/main.ts` takes the list from `apps/mounts.ts`,
 * and the API knows none of them.
 */
import type { RequestHandler } from 'express';
import helmet from 'helmet';

/** Handlers by path. */
type Routes = Readonly<Record<string, RequestHandler | RequestHandler[]>>;

export type Mount = {
  /** Resolves when everything that it serves is built, so that no request waits for it. */
  readonly ready?: () => Promise<unknown>;
  /** GET without a key and not counted, because a page requests all of its files at once. */
  readonly files?: Routes;
  /** Called for every request to a path and those below it, before the key is checked. */
  readonly first?: Routes;
  /** GET without a key. */
  readonly open?: Routes;
  /** POST with a key. */
  readonly post?: Routes;
  /** What a browser gets at an unknown path, with the status 404. */
  readonly unknown?: RequestHandler;
};

/** Security headers for documents; they replace those for data. */
export const asDocument: RequestHandler = helmet();
