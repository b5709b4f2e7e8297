/**
 * What one wallet has in one market, by the rules of docs/pnl.md: the balances of both outcomes, and what was paid for the
 * shares that it has more of one than of the other. The net position is not stored; it follows from the balances.
 */

/** Micro-USDC a share of an outcome, rounded down. */
export type Mark = readonly [bigint, bigint];

export type Realised = { readonly pnl: bigint; readonly cost: bigint };

const SHARE = 1_000_000n;

export class Ledger {
  readonly balances: [bigint, bigint] = [0n, 0n];
  /** Of the net position. */
  cost = 0n;
  fees = 0n;

  /** The net position: at most one is above 0. */
  get shares(): readonly [bigint, bigint] {
    const net = this.balances[0] - this.balances[1];
    return net > 0n ? [net, 0n] : [0n, -net];
  }
}

/**
 * Shares that come and leave for `paid` and a fee. `paid` is the price of the net shares that come; a share of the other
 * outcome that leaves costs 1 USDC less what it was sold for.
 */
export function change(
  ledger: Ledger,
  by: readonly [bigint, bigint],
  paid: bigint,
  fee: bigint,
): Realised {
  const [first, second] = ledger.shares;
  ledger.balances[0] += by[0];
  ledger.balances[1] += by[1];
  const bought = by[0] - by[1];
  const shares = bought < 0n ? -bought : bought;
  if (shares === 0n) return { pnl: -paid - fee, cost: 0n };
  const held = bought > 0n ? second : first;
  const closed = held < shares ? held : shares;
  const paidNow = divided(paid * closed, shares);
  const feeNow = (fee * closed) / shares;
  const cost = held === 0n ? 0n : divided(ledger.cost * closed, held);
  const fees = held === 0n ? 0n : (ledger.fees * closed) / held;
  ledger.cost += paid - paidNow - cost;
  ledger.fees += fee - feeNow - fees;
  return { pnl: closed - paidNow - feeNow - cost - fees, cost };
}

/** A fill. */
export function trade(
  ledger: Ledger,
  isBuy: boolean,
  outcome: 0 | 1,
  shares: bigint,
  usdc: bigint,
  fee: bigint,
): Realised {
  const by = isBuy ? shares : -shares;
  const paid = isBuy ? usdc : shares - usdc;
  return change(ledger, only(outcome, by), paid, fee);
}

/** Shares leave for another wallet; returns the cost and the fees that go with them. */
export function send(ledger: Ledger, outcome: 0 | 1, shares: bigint, mark: Mark) {
  const held = ledger.shares[outcome];
  const covered = held < shares ? held : shares;
  const cost = held === 0n ? 0n : divided(ledger.cost * covered, held);
  const fees = held === 0n ? 0n : (ledger.fees * covered) / held;
  ledger.cost -= cost;
  ledger.fees -= fees;
  ledger.balances[outcome] -= covered;
  // The rest was half of pairs. The other half stays, at 1 USDC a pair less the value of what left.
  const rest = shares - covered;
  const value = worth(rest, outcome, mark);
  if (rest > 0n) change(ledger, only(outcome, -rest), rest - value, 0n);
  return { cost: cost + value, fees };
}

/** What the wallet lacks of an outcome was there before the first block, and was bought at this price. */
export function open(
  ledger: Ledger,
  outcome: 0 | 1,
  needed: bigint,
  price: (shares: bigint) => bigint,
): Realised & { readonly shares: bigint } {
  const shares = needed - ledger.balances[outcome];
  if (shares <= 0n) return { pnl: 0n, cost: 0n, shares: 0n };
  return { ...change(ledger, only(outcome, shares), price(shares), 0n), shares };
}

/** The payout of the net position, if there is one. The ledger ends with it. */
export function payOut(ledger: Ledger, payouts: readonly bigint[]): Realised | undefined {
  const outcome = ledger.shares[0] > 0n ? 0 : 1;
  const shares = ledger.shares[outcome];
  if (shares === 0n) return undefined;
  const total = payouts.reduce((sum, one) => sum + one, 0n);
  const payout = (shares * (payouts[outcome] ?? 0n)) / total;
  return { pnl: payout - ledger.cost - ledger.fees, cost: ledger.cost };
}

export function worth(shares: bigint, outcome: 0 | 1, mark: Mark): bigint {
  return (shares * mark[outcome]) / SHARE;
}

/** That of outcome 0 is rounded down; the two add up to 1 USDC. */
export function markAt(usdc: bigint, shares: bigint): Mark {
  const first = divided(usdc * SHARE, shares);
  return [first, SHARE - first];
}

/** Without a match. */
export const NO_MARK: Mark = [SHARE / 2n, SHARE / 2n];

export function only(outcome: 0 | 1, amount: bigint): [bigint, bigint] {
  return outcome === 0 ? [amount, 0n] : [0n, amount];
}

/** Rounded down, for amounts below 0 too: shares that were sold above 1 USDC have cost less than nothing. */
function divided(amount: bigint, by: bigint): bigint {
  const whole = amount / by;
  return amount < 0n && whole * by !== amount ? whole - 1n : whole;
}
