/**
 * Protects servers on loopback from web pages. A page of any site reaches them through its reader's browser:
 * directly, or by a name of its own that it points at 127.0.0.1. Browsers say so in headers that no page
 * can change.
 */
import type { IncomingHttpHeaders } from 'node:http';

const LOOPBACK = /^(?:127\.0\.0\.1|localhost|\[::1\])(?::\d+)?$/i;
const OWN_SITES = new Set(['same-origin', 'none']);

export function isLoopback(host: string): boolean {
  return LOOPBACK.test(host) || host === '::1';
}

/** Why a request is refused: it comes from another site, or asks for a name that is not loopback's. */
export function foreignRequest(headers: IncomingHttpHeaders): string | undefined {
  const { host = '', origin, 'sec-fetch-site': site } = headers;
  if (!LOOPBACK.test(host)) return 'The Host header is not a name of loopback.';
  const isOwn = origin === undefined || LOOPBACK.test(origin.replace(/^http:\/\//, ''));
  if (!isOwn || !OWN_SITES.has(site?.toString() ?? 'none')) {
    return 'Requests from other sites are not allowed.';
  }
  return undefined;
}
