/** What a trader did in a match, for lists that follow traders: a match has one taker and one or more makers. */

type Order = {
  readonly trader: { readonly address: string; readonly name: string };
  readonly side: 'BUY' | 'SELL';
  /** Label of the outcome. */
  readonly outcome: string;
  /** Micro-USDC without the fee, micro-shares, and the fee in micro-USDC, as decimal text. */
  readonly usdc: string;
  readonly shares: string;
  readonly fee: string;
};

/** A trader's orders of one side and outcome in a match, summed. */
export type Traded = Order & { readonly isTaker: boolean };

/**
 * What the followed traders did in a match: of their orders, summed by trader, side and outcome, the largest sum. The
 * taker's order if nobody is followed or none of them took part. Addresses may be in any letter case.
 */
export function traded(
  taker: Order,
  makers: readonly Order[],
  followed: Iterable<string> = [],
): Traded {
  const addresses = new Set(Array.from(followed, (address) => address.toLowerCase()));
  const sums = new Map<string, Traded>();
  for (const order of [taker, ...makers]) {
    const { address } = order.trader;
    if (!addresses.has(address.toLowerCase())) continue;
    const isTaker = order === taker;
    const key = `${isTaker} ${address} ${order.side} ${order.outcome}`;
    sums.set(key, { ...plus(order, sums.get(key)), isTaker });
  }
  const [largest] = [...sums.values()].sort((a, b) => Number(BigInt(b.usdc) - BigInt(a.usdc)));
  return largest ?? { ...plus(taker, undefined), isTaker: true };
}

function plus({ trader, side, outcome, usdc, shares, fee }: Order, sum: Order | undefined): Order {
  const total = (own: string, before = '0') => String(BigInt(own) + BigInt(before));
  return {
    ...{ trader, side, outcome },
    usdc: total(usdc, sum?.usdc),
    shares: total(shares, sum?.shares),
    fee: total(fee, sum?.fee),
  };
}
