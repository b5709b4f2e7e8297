/**
 * `/openapi.json` and `/docs`: the OpenAPI document and a page that shows it. Both are made once when
 * the process starts. The page is plain HTML without scripts and asks no other host for anything.
 * Neither needs a key.
 */
import type { RequestHandler } from 'express';
import { ANALYTICS_ENDPOINTS } from './analytics/endpoints.ts';
import { ACCOUNT_ENDPOINTS } from './auth/account.ts';
import { docsPage } from './docs-page.ts';
import { FINALITY_ENDPOINTS } from './finality.ts';
import { openApi } from './openapi.ts';
import { Encoded, send } from './response.ts';
import { STATUS_ENDPOINTS } from './status.ts';
import { STREAMS_ENDPOINTS } from './streams/endpoints.ts';

const MAX_AGE_SECONDS = 300;
const DOCUMENT = openApi([
  ...ANALYTICS_ENDPOINTS,
  ...ACCOUNT_ENDPOINTS,
  ...STREAMS_ENDPOINTS,
  ...STATUS_ENDPOINTS,
  ...FINALITY_ENDPOINTS,
]);
const ENCODED_DOCUMENT = new Encoded('json', JSON.stringify(DOCUMENT), MAX_AGE_SECONDS);
const ENCODED_PAGE = new Encoded('html', docsPage(DOCUMENT), MAX_AGE_SECONDS);

export const documentHandler: RequestHandler = async (request, response) => {
  await send(request, response, ENCODED_DOCUMENT);
};

export const docsHandler: RequestHandler = async (request, response) => {
  response.set('Content-Security-Policy', "default-src 'none'; style-src 'unsafe-inline'");
  await send(request, response, ENCODED_PAGE);
};
