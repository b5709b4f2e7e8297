/**
 * Routes that apps, such as the page, add to the API's server. `api/main.ts` takes the list from `apps/mounts.ts`; nothing
 * else in the API knows the apps.
 */
import type { Express, RequestHandler } from 'express';
import helmet from 'helmet';
import type { MarketKey } from './parameters.ts';

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
  /** Adds endpoints, which need a key, and event streams. */
  readonly routes?: (app: Express, parts: RouteParts) => void;
  /** Rejects when it can no longer serve, which ends the process. */
  readonly watching?: Promise<void>;
  readonly close?: () => Promise<void>;
  /** Answers a browser that asks for an unknown path; the status is already 404. */
  readonly unknown?: RequestHandler;
};

type RouteParts = {
  readonly requireKey: RequestHandler;
  /** Ends an event stream when its key is revoked. */
  readonly untilRevoked: RequestHandler;
  /** Rejects with Problem 404 for an unknown market. */
  readonly conditionOf: (market: MarketKey) => Promise<string>;
};

/** Security headers for documents; they replace those for data. */
export const asDocument: RequestHandler = helmet();
