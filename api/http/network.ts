/** The addresses that count as one client. */

/** An IPv4 address, or the /64 network of an IPv6 address, because one client usually has a whole /64. */
export function networkOf(ip: string): string {
  const mapped = /^::ffff:([\d.]+)$/i.exec(ip)?.[1] ?? ip;
  if (!mapped.includes(':')) return mapped;
  const [head = [], tail = []] = mapped.split('::').map((part) => part.split(':').filter(Boolean));
  const zeros = 8 - head.length - tail.length - (mapped.includes('.') ? 1 : 0);
  const groups = [...head, ...Array(Math.max(0, zeros)).fill('0'), ...tail].slice(0, 4);
  return `${groups.map((group) => Number.parseInt(group, 16).toString(16)).join(':')}::/64`;
}
