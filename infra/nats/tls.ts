// What TLS towards NATS needs beside the client library: servers that are named by address, and
// errors that are told apart from a server that is merely away.
import { isIP } from 'node:net';
import { checkServerIdentity, type PeerCertificate } from 'node:tls';

/** The name that Node checks where the library gives none, which it does for addresses. */
const NO_NAME = 'localhost';

/**
 * Checks a server's certificate. One that is reached by address has to be valid for one of the
 * addresses of `urls` (the library does not say which it reached), one with a name for its name.
 */
export function identityCheck(
  urls: readonly string[],
): (name: string, certificate: PeerCertificate) => Error | undefined {
  const addresses = urls
    .map((url) => new URL(url).hostname.replaceAll(/[[\]]/g, ''))
    .filter((host) => isIP(host) !== 0);
  return (name, certificate) => {
    const error = checkServerIdentity(name, certificate);
    if (error === undefined || name !== NO_NAME) return error;
    const isKnown = (address: string) => checkServerIdentity(address, certificate) === undefined;
    return addresses.some(isKnown) ? undefined : error;
  };
}

/** Whether TLS failed for a reason that trying again does not change: who is trusted, or the files. */
export function isTlsRefusal(error: unknown): error is Error {
  if (!(error instanceof Error)) return false;
  const code = 'code' in error ? String(error.code) : '';
  return /^(ERR_TLS|ERR_SSL|ERR_OSSL|CERT_|UNABLE_TO|SELF_SIGNED|DEPTH_ZERO)/.test(code);
}
