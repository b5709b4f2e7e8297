/**
 * The header fields that every answer has, whatever it is: those of helmet's that mean something for data,
 * that caches keep nothing of it (an answer that may be kept says so itself), and the id of the request.
 * What a browser shows as a document has all of helmet's. Each field costs time in every answer (ADR 14).
 */
import type { RequestHandler } from 'express';
import helmet from 'helmet';
import { requestIdOf } from './errors.ts';
import type { Fields } from './response.ts';

/** Data is never a document: whoever makes one of it gets an empty page without rights, in no frame. */
const ofData = helmet({
  contentSecurityPolicy: {
    useDefaults: false,
    directives: { defaultSrc: ["'none'"], frameAncestors: ["'none'"] },
  },
  xFrameOptions: { action: 'deny' },
  crossOriginOpenerPolicy: false,
  originAgentCluster: false,
  referrerPolicy: false,
  xDnsPrefetchControl: false,
  xDownloadOptions: false,
  xPermittedCrossDomainPolicies: false,
  xXssProtection: false,
});

/** The fields that are the same in every answer. */
export const FIXED_FIELDS: Fields = new Map([
  ['Cache-Control', 'no-store'],
  ...fieldsSetBy(ofData as RequestHandler),
]);

/** Sets helmet's fields for a document, over those of data. */
export const setDocumentFields: RequestHandler = helmet();

/** Sets them, and X-Request-Id. */
export const setFixedFields: RequestHandler = (_request, response, next) => {
  for (const [name, value] of FIXED_FIELDS) response.setHeader(name, value);
  response.setHeader('X-Request-Id', requestIdOf(response));
  next();
};

/** What a middleware sets in the answer to a request that has no fields. */
export function fieldsSetBy(middleware: RequestHandler): Fields {
  const fields = new Map<string, string>();
  const request = { method: 'GET', headers: {} };
  const recorder = {
    getHeader: (name: string) => fields.get(name),
    setHeader: (name: string, value: string) => fields.set(name, value),
    removeHeader: () => undefined,
  };
  const [given, answer] = [request, recorder] as unknown as Parameters<RequestHandler>;
  middleware(given, answer, () => undefined);
  return fields;
}
