/**
 * The accounts of all wallets and markets, from matches, resolutions and movements in the order of the chain, by the rules of
 * docs/pnl.md. It knows nothing of the project's fold.
 */
import { at } from './at.ts';
import { type Conversion, changesOf, type Movement, type Restructuring } from './share-moves.ts';
import { pricesOf } from './v2-account.ts';
import {
  change,
  Ledger,
  type Mark,
  markAt,
  NO_MARK,
  only,
  open,
  payOut,
  type Realised,
  send,
  trade,
  worth,
} from './wallet-ledger.ts';

export type Account = {
  pnl: bigint;
  cost: bigint;
  fee: bigint;
  makerVolume: bigint;
  takerVolume: bigint;
  fills: number;
  settlements: number;
};

/** One match: the fill of its taker. */
export type ChainMatch = {
  readonly block: number;
  readonly log: number;
  /** Seconds since the epoch. */
  readonly time: number;
  readonly txHash: string;
  readonly orderHash: string;
  readonly taker: string;
  readonly side: 'BUY' | 'SELL';
  readonly outcome: 0 | 1;
  readonly shares: bigint;
  readonly usdc: bigint;
  readonly fee: bigint;
};

export type ChainMarket = {
  /** In chain order. */
  readonly matches: ChainMatch[];
  resolution: { readonly time: number; readonly payouts: readonly bigint[] } | undefined;
  /** By trader; empty once it is resolved. */
  readonly holdings: Map<string, Ledger>;
};

/** What a trader's account of a market got at one event. */
export type Booking = Partial<Account> & {
  readonly time: number;
  readonly trader: string;
  readonly condition: string;
  readonly kind: 'fill' | 'settlement' | 'movement' | 'opening';
};

/** A movement of one wallet in one market. */
export type Moved = {
  readonly time: number;
  readonly block: number;
  readonly log: number;
  readonly txHash: string;
  readonly trader: string;
  readonly condition: string;
  readonly reason: Movement['reason'] | 'convert';
  readonly change: readonly [bigint, bigint];
  /** Paid for it, or the cost that moved with the shares, fees included; after the resolution their payout. */
  readonly value: bigint;
  readonly pnl: bigint;
  readonly counterparty: string;
  readonly opened: readonly [bigint, bigint];
};

export type BookedFill = {
  readonly trader: string;
  readonly isTaker: boolean;
  readonly side: 'BUY' | 'SELL';
  readonly outcome: 0 | 1;
  readonly shares: bigint;
  readonly usdc: bigint;
  readonly fee: bigint;
};

type Of = { readonly time: number; readonly trader: string; readonly condition: string };
type Result = { readonly value: bigint; readonly pnl: bigint; readonly opened: [bigint, bigint] };

export class Books {
  readonly markets = new Map<string, ChainMarket>();
  /** By `trader condition`. */
  readonly accounts = new Map<string, Account>();
  readonly bookings: Booking[] = [];
  readonly movements: Moved[] = [];
  /** Payouts of combos that were decided when they were prepared, with that transaction. */
  readonly decidedAtOnce = new Map<string, { txHash: string; payouts: readonly bigint[] }>();

  marketOf(condition: string): ChainMarket {
    return at(this.markets, condition, () => ({
      ...{ matches: [], resolution: undefined, holdings: new Map() },
    }));
  }

  fill(time: number, condition: string, fill: BookedFill): void {
    const { trader, isTaker, side, outcome, shares, usdc, fee } = fill;
    const of = { time, trader, condition };
    const { resolution } = this.marketOf(condition);
    const ledger = resolution === undefined ? this.#ledgerOf(of) : new Ledger();
    if (side === 'SELL' && resolution === undefined)
      this.#open(of, outcome, shares, (missing) => (usdc * missing) / shares);
    const realised = trade(ledger, side === 'BUY', outcome, shares, usdc, fee);
    const volume = { [isTaker ? 'takerVolume' : 'makerVolume']: usdc };
    this.#book('fill', of, realised, { ...volume, fee, fills: 1 });
    if (resolution !== undefined) this.#settle(of, ledger, resolution.payouts);
  }

  /** A second resolution of a market changes nothing. */
  resolve(time: number, condition: string, payouts: readonly bigint[]): void {
    const market = this.marketOf(condition);
    if (market.resolution !== undefined) return;
    for (const [trader, ledger] of market.holdings)
      this.#settle({ time, trader, condition }, ledger, payouts);
    market.holdings.clear();
    market.resolution = { time, payouts };
  }

  move(time: number, movement: Movement | Conversion | Restructuring): void {
    const { block, log, txHash, reason } = movement;
    if (movement.reason === 'restructure') {
      const { wallet, cash, pieces } = movement;
      const prices = pricesOf(
        cash,
        pieces.map((one) => ({ ...one, price: this.#priceOf(one, txHash) })),
      );
      for (const [i, { condition, outcome, shares }] of pieces.entries()) {
        const price = prices[i] ?? 0n;
        const of = { time, trader: wallet, condition };
        const change = only(outcome, shares);
        const result = this.#exchange(of, outcome, shares, price < 0n ? -price : price);
        const place = { time, block, log, txHash, reason: 'convert' } as const;
        this.movements.push({ ...place, ...of, change, counterparty: '', ...result });
      }
      return;
    }
    if (reason === 'restructure') return;
    const place = { time, block, log, txHash, reason };
    if (movement.reason === 'convert') {
      const values = this.valuesOf(movement);
      for (const [i, { wallet, condition, change }] of changesOf(movement).entries()) {
        const value = values[i] ?? 0n;
        const of = { time, trader: wallet, condition };
        const result = this.#convert(of, change, change[1] < 0n ? movement.out - value : value);
        this.movements.push({ ...place, ...of, change, counterparty: '', ...result });
      }
      return;
    }
    const { wallet, condition, change, counterparty } = movement;
    const of = { time, trader: wallet, condition };
    const isOut = change[0] < 0n || change[1] < 0n;
    if (reason === 'transfer' || (reason === 'unexplained' && isOut)) {
      const [sent, received] = this.#transfer(of, change, counterparty, reason === 'transfer');
      this.movements.push({ ...place, ...of, change, counterparty, ...sent });
      if (received === undefined) return;
      const to = { ...of, trader: counterparty };
      const back = [-change[0], -change[1]] as const;
      this.movements.push({ ...place, ...to, change: back, counterparty: wallet, ...received });
      return;
    }
    const result = this.#receive(of, movement);
    this.movements.push({ ...place, ...of, change, counterparty, ...result });
  }

  /** Of Yes of each question; they add up to what was paid for one No of each. */
  valuesOf({ questions, out }: Conversion): readonly bigint[] {
    const states = questions.map(({ condition }) => {
      const { matches, resolution } = this.marketOf(condition);
      const total = resolution?.payouts.reduce((sum, one) => sum + one, 0n) ?? 0n;
      const fixed = resolution && (out * (resolution.payouts[0] ?? 0n)) / total;
      return { fixed, weight: matches.some(hasPrice) ? this.markOf(condition)[0] : undefined };
    });
    const free = states.filter(({ fixed }) => fixed === undefined);
    const known = free.flatMap(({ weight }) => weight ?? []);
    const mean = known.length === 0 ? 1n : sumOf(known) / BigInt(known.length);
    const weights = free.map(({ weight }) => weight ?? mean);
    const rest = out - sumOf(states.flatMap(({ fixed }) => fixed ?? []));
    const whole = sumOf(weights);
    const parts = weights.map((one) =>
      whole === 0n ? rest / BigInt(weights.length) : (rest * one) / whole,
    );
    const last = parts.pop();
    if (last !== undefined) parts.push(rest - sumOf(parts));
    return states.map(({ fixed }) => fixed ?? parts.shift() ?? 0n);
  }

  #ledgerOf({ trader, condition }: Of): Ledger {
    return at(this.marketOf(condition).holdings, trader, () => new Ledger());
  }

  /** Before the next event. */
  markOf(condition: string): Mark {
    const last = this.marketOf(condition).matches.findLast(hasPrice);
    if (last === undefined) return NO_MARK;
    const paid = last.outcome === 0 ? last.usdc : last.shares - last.usdc;
    return markAt(paid, last.shares);
  }

  /** For `usdc`: what No was sold for, or what Yes cost. */
  #convert(of: Of, by: readonly [bigint, bigint], usdc: bigint): Result {
    const { resolution } = this.marketOf(of.condition);
    const isResolved = resolution !== undefined;
    const ledger = isResolved ? new Ledger() : this.#ledgerOf(of);
    const given = -by[1];
    const opened = isResolved ? { shares: 0n } : this.#openAtMark(of, 1, given);
    const realised =
      given > 0n
        ? trade(ledger, false, 1, given, usdc, 0n)
        : trade(ledger, true, 0, by[0], usdc, 0n);
    this.#book('movement', of, realised);
    if (resolution !== undefined) this.#settle(of, ledger, resolution.payouts);
    return { value: usdc, pnl: realised.pnl, opened: [0n, opened.shares] };
  }

  /** Shares of one outcome are sold or bought for `usdc`. */
  #exchange(of: Of, outcome: 0 | 1, shares: bigint, usdc: bigint): Result {
    const { resolution } = this.marketOf(of.condition);
    const isResolved = resolution !== undefined;
    const ledger = isResolved ? new Ledger() : this.#ledgerOf(of);
    const opened = isResolved ? { shares: 0n } : this.#openAtMark(of, outcome, -shares);
    const size = shares < 0n ? -shares : shares;
    const realised = trade(ledger, shares > 0n, outcome, size, usdc, 0n);
    this.#book('movement', of, realised);
    if (resolution !== undefined) this.#settle(of, ledger, resolution.payouts);
    return { value: usdc, pnl: realised.pnl, opened: only(outcome, opened.shares) };
  }

  /** Of one share, by the result or the newest match; undefined without either. */
  #priceOf(
    { condition, outcome }: { condition: string; outcome: 0 | 1 },
    txHash: string,
  ): bigint | undefined {
    const { matches, resolution } = this.marketOf(condition);
    const atOnce = this.decidedAtOnce.get(condition);
    const payouts = resolution?.payouts ?? (atOnce?.txHash === txHash ? atOnce.payouts : undefined);
    if (payouts !== undefined) {
      const first = (1_000_000n * (payouts[0] ?? 0n)) / sumOf(payouts);
      return outcome === 0 ? first : 1_000_000n - first;
    }
    return matches.some(hasPrice) ? this.markOf(condition)[outcome] : undefined;
  }

  /** Shares that leave, and come to the counterparty if that is a wallet. */
  #transfer(of: Of, by: readonly [bigint, bigint], to: string, isWallet: boolean) {
    const receiver = { ...of, trader: to };
    const sent = { value: 0n, pnl: 0n, opened: [0n, 0n] as [bigint, bigint] };
    const received: typeof sent = { value: 0n, pnl: 0n, opened: [0n, 0n] };
    if (this.marketOf(of.condition).resolution !== undefined) {
      sent.value = this.#worthOf(of, [-by[0], -by[1]]);
      received.value = sent.value;
    }
    const isOpen = this.marketOf(of.condition).resolution === undefined;
    const mark = this.markOf(of.condition);
    const outcomes = ([0, 1] as const).filter((outcome) => isOpen && by[outcome] !== 0n);
    // All that is missing is there before anything leaves.
    for (const outcome of outcomes)
      sent.opened[outcome] = this.#openAtMark(of, outcome, -by[outcome]).shares;
    for (const outcome of outcomes) {
      const shares = -by[outcome];
      const { cost, fees } = send(this.#ledgerOf(of), outcome, shares, mark);
      sent.value += cost + fees;
      if (!isWallet) continue;
      const realised = change(this.#ledgerOf(receiver), only(outcome, shares), cost, fees);
      this.#book('movement', receiver, realised);
      received.value += cost + fees;
      received.pnl += realised.pnl;
    }
    this.#account(of);
    if (isWallet) this.#account(receiver);
    return [sent, isWallet ? received : undefined] as const;
  }

  /** Splits, merges, redemptions, refunds, and shares that came from nowhere. */
  #receive(of: Of, { reason, change: by, paid }: Movement): Result {
    this.#account(of);
    const value = paid < 0n ? -paid : paid;
    const nothing: Result = { value, pnl: 0n, opened: [0n, 0n] };
    const { resolution } = this.marketOf(of.condition);
    if (resolution !== undefined && reason === 'refund') {
      const ledger = new Ledger();
      const realised = change(ledger, by, 0n, 0n);
      this.#book('movement', of, realised);
      this.#settle(of, ledger, resolution.payouts);
      return { ...nothing, pnl: realised.pnl };
    }
    if (resolution !== undefined)
      return reason === 'unexplained' ? { ...nothing, value: this.#worthOf(of, by) } : nothing;
    if (reason === 'merge') nothing.opened.splice(0, 2, ...this.#openPairs(of, -by[0]));
    const cost = reason === 'unexplained' ? this.#worthOf(of, by) : 0n;
    const realised = change(this.#ledgerOf(of), by, cost, 0n);
    this.#book('movement', of, realised);
    return { ...nothing, value: value + cost, pnl: realised.pnl };
  }

  /** At the mark, or at the payout. */
  #worthOf({ condition }: Of, by: readonly [bigint, bigint]): bigint {
    const { resolution } = this.marketOf(condition);
    if (resolution !== undefined) {
      const [first = 0n, second = 0n] = resolution.payouts;
      const total = sumOf(resolution.payouts);
      return (by[0] * first) / total + (by[1] * second) / total;
    }
    const mark = this.markOf(condition);
    return worth(by[0], 0, mark) + worth(by[1], 1, mark);
  }

  #openAtMark(of: Of, outcome: 0 | 1, needed: bigint) {
    const mark = this.markOf(of.condition);
    return this.#open(of, outcome, needed, (missing) => worth(missing, outcome, mark));
  }

  #open(of: Of, outcome: 0 | 1, needed: bigint, price: (missing: bigint) => bigint) {
    const { shares, ...realised } = open(this.#ledgerOf(of), outcome, needed, price);
    if (shares > 0n) this.#book('opening', of, realised);
    return { shares };
  }

  /** A pair that the wallet lacks was bought for 1 USDC, and what it lacks of one outcome only at the mark. */
  #openPairs(of: Of, needed: bigint): [bigint, bigint] {
    const ledger = this.#ledgerOf(of);
    const missing = ledger.balances.map((held) => (needed > held ? needed - held : 0n));
    const [first = 0n, second = 0n] = missing;
    const pairs = first < second ? first : second;
    change(ledger, [pairs, pairs], 0n, 0n);
    this.#openAtMark(of, 0, needed);
    this.#openAtMark(of, 1, needed);
    return [first, second];
  }

  #settle(of: Of, ledger: Ledger, payouts: readonly bigint[]): void {
    const paid = payOut(ledger, payouts);
    if (paid !== undefined) this.#book('settlement', of, paid, { settlements: 1 });
  }

  #account({ trader, condition }: Of): Account {
    return at(this.accounts, `${trader} ${condition}`, empty);
  }

  #book(kind: Booking['kind'], of: Of, realised: Realised, more: Partial<Account> = {}) {
    const booked = { ...realised, ...more };
    add(this.#account(of), booked);
    this.bookings.push({ ...of, kind, ...booked });
  }
}

export function empty(): Account {
  return {
    pnl: 0n,
    cost: 0n,
    fee: 0n,
    makerVolume: 0n,
    takerVolume: 0n,
    fills: 0,
    settlements: 0,
  };
}

export function add(
  account: Account,
  { fills = 0, settlements = 0, ...sums }: Partial<Account>,
): void {
  account.fills += fills;
  account.settlements += settlements;
  for (const name of ['pnl', 'cost', 'fee', 'makerVolume', 'takerVolume'] as const) {
    account[name] += sums[name] ?? 0n;
  }
}

function hasPrice({ shares }: ChainMatch): boolean {
  return shares > 0n;
}

function sumOf(values: readonly bigint[]): bigint {
  return values.reduce((sum, one) => sum + one, 0n);
}
