/**
 * Protects servers on loopback from web pages. Through the visitor's browser, a page of any site can reach them:
 * directly, or through a hostname that its owner resolves to 127.0.0.1 (DNS rebinding). Browsers reveal both in headers
 * that a page cannot change.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { isIPv6 } from 'node:net';

const LOOPBACK = /^(?:127\.0\.0\.1|localhost|\[::1\])(?::\d+)?$/i;
const OWN_SITES = new Set(['same-origin', 'none']);

export function isLoopback(host: string): boolean {
  return LOOPBACK.test(host) || host === '::1';
}

/** The host by which this machine reaches a server that listens on `address`, as URLs write it. */
export function hostOf(address: string): string {
  if (address === '0.0.0.0') return '127.0.0.1';
  if (address === '::') return '[::1]';
  return isIPv6(address) ? `[${address}]` : address;
}

/** The reason to reject a request: it is from another site, or its Host is not a loopback name. Otherwise undefined. */
export function foreignRequest(headers: IncomingHttpHeaders): string | undefined {
  const { host = '', origin, 'sec-fetch-site': site } = headers;
  if (!LOOPBACK.test(host)) return 'The Host header is not a loopback name.';
  // Browsers send no Sec-Fetch-Site with a WebSocket, so a page on another port is known by its Origin only.
  const isOwn = origin === undefined || origin.toLowerCase() === `http://${host.toLowerCase()}`;
  if (!isOwn || !OWN_SITES.has(site?.toString() ?? 'none')) {
    return 'Requests from other sites are not allowed.';
  }
  return undefined;
}
