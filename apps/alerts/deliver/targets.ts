/**
 * Limits where alerts can be sent. Users choose the targets, so a target must never lead into a private network. Only public
 * addresses are allowed, and those of the operator's own list. Names are checked after they are resolved: the socket connects to
 * the addresses that passed the check.
 */
import { lookup as systemLookup } from 'node:dns';
import { BlockList, isIP, type LookupFunction } from 'node:net';

/** The target must not be reached. The message contains the host, but neither path nor query, which can be secrets. */
export class RefusedTargetError extends Error {}

/** Addresses that are not public, from the special-purpose registries of IANA. */
const SPECIAL_NETWORKS = [
  '0.0.0.0/8', // this host
  '10.0.0.0/8', // private
  '100.64.0.0/10', // carrier-grade NAT
  '127.0.0.0/8', // loopback
  '168.63.129.16/32', // Azure: services of the host machine
  '169.254.0.0/16', // link-local, metadata of clouds
  '172.16.0.0/12', // private
  '192.0.0.0/24', // protocol assignments
  '192.0.2.0/24', // documentation
  '192.31.196.0/24', // AS112
  '192.52.193.0/24', // AMT relays
  '192.88.99.0/24', // 6to4 relays
  '192.168.0.0/16', // private
  '192.175.48.0/24', // AS112
  '198.18.0.0/15', // benchmarks
  '198.51.100.0/24', // documentation
  '203.0.113.0/24', // documentation
  '224.0.0.0/3', // multicast, reserved, broadcast
  '2001::/23', // Teredo and other protocol assignments
  '2001:db8::/32', // documentation
  '2002::/16', // 6to4
  '2620:4f:8000::/48', // AS112
  '3fff::/20', // documentation
];

/** All other IPv6 addresses are local, or translate into IPv4 addresses, such as NAT64 and ::ffff:0:0/96. */
const GLOBAL_IPV6 = '2000::/3';

const special = networkList(SPECIAL_NETWORKS);
const globalIpv6 = networkList([GLOBAL_IPV6]);

/** Throws an error for anything that is not in CIDR notation. */
export function networkList(networks: readonly string[]): BlockList {
  const list = new BlockList();
  for (const network of networks) {
    const [, address = '', bits] = /^([^/]+)\/(\d{1,3})$/.exec(network) ?? [];
    if (isIP(address) === 0) throw new Error(`not a network like 127.0.0.0/8: ${network}`);
    list.addSubnet(address, Number(bits), familyOf(address));
  }
  return list;
}

function familyOf(address: string): 'ipv4' | 'ipv6' {
  return isIP(address) === 4 ? 'ipv4' : 'ipv6';
}

export function isPublic(address: string): boolean {
  const family = familyOf(address);
  if (special.check(address, family)) return false;
  return family === 'ipv4' || globalIpv6.check(address, family);
}

export type TargetGuard = {
  /** Throws RefusedTargetError. A host that is a name still has to pass `lookup`. */
  readonly checkedUrl: (text: string) => URL;
  /** Resolves a name to its allowed addresses. Fails with RefusedTargetError if there are none. */
  readonly lookup: (protocol: string) => LookupFunction;
};

export function createTargetGuard(
  allowedNetworks: readonly string[],
  lookup: LookupFunction = systemLookup,
): TargetGuard {
  const allowed = networkList(allowedNetworks);

  function isAllowed(protocol: string, scopedAddress: string): boolean {
    const [address = ''] = scopedAddress.split('%');
    if (isIP(address) === 0) return false;
    if (allowed.check(address, familyOf(address))) return true;
    return protocol === 'https:' && isPublic(address);
  }

  return {
    checkedUrl(text) {
      const url = URL.parse(text);
      if (!url) throw new RefusedTargetError('not a valid URL');
      const { protocol } = url;
      if (protocol !== 'https:' && protocol !== 'http:') {
        throw new RefusedTargetError('only https: URLs are allowed');
      }
      if (url.username !== '' || url.password !== '') {
        throw new RefusedTargetError('a URL must not contain a user or a password');
      }
      // Sockets connect to literal addresses without a lookup.
      const host = url.hostname.replace(/^\[(.*)\]$/, '$1');
      if (isIP(host) !== 0 && !isAllowed(protocol, host)) throw refusal(protocol, host);
      return url;
    },
    lookup: (protocol) => (hostname, options, done) => {
      lookup(hostname, { ...options, all: true }, (error, found) => {
        if (error) return done(error, []);
        const addresses = typeof found === 'string' ? [] : found;
        const usable = addresses.filter(({ address }) => isAllowed(protocol, address));
        const [first] = usable;
        if (!first) return done(refusal(protocol, hostname), []);
        return options.all ? done(null, usable) : done(null, first.address, first.family);
      });
    },
  };
}

/** Omits resolved addresses: they would show the names of a private network. */
function refusal(protocol: string, host: string): RefusedTargetError {
  if (protocol === 'http:') return new RefusedTargetError(`${host} can only be used with https:`);
  return new RefusedTargetError(`${host} is not a public address`);
}
