/**
 * The faults that a chain node can have, how likely each is, and how often it was injected. A seed gives each proxy a
 * fixed sequence of choices; which request gets which choice depends on timing.
 */
import { Random } from '../../../local/devnet/random.ts';

/** About every third request fails in some way. */
export const ROUGH = {
  // Of an HTTP request.
  drop: 0.05,
  delay: 0.1,
  cut_body: 0.03,
  cut_json: 0.03,
  too_many: 0.03,
  too_many_retry_after: 0.02,
  server_error: 0.05,
  // Of a call.
  rpc_error: 0.03,
  shuffled_batch: 0.1,
  stale_head: 0.1,
  finalized_back: 0.1,
  null_block: 0.05,
  empty_logs: 0.1,
  // Of a WebSocket.
  refused_upgrade: 0.3,
  dropped_socket: 0.001,
  lost_push: 0.02,
  delayed_push: 0.03,
  duplicated_push: 0.03,
  reordered_push: 0.03,
  old_push_again: 0.02,
  cut_push: 0.01,
};
export type Fault = keyof typeof ROUGH;

/** Probability of each fault per request, call or push; omitted ones never happen. */
export type Rates = Readonly<Partial<Record<Fault, number>>>;

/** Rolls the dice for one proxy and counts the faults. */
export class FaultDice {
  readonly random: Random;
  readonly counts = new Map<Fault, number>();
  #rates: Rates = {};

  constructor(seed: string) {
    this.random = new Random(seed);
  }

  set(rates: Rates): void {
    this.#rates = rates;
  }

  /** Whether to inject the fault now. Call `count` if it was injected. */
  wants(fault: Fault): boolean {
    const rate = this.#rates[fault] ?? 0;
    return rate > 0 && this.random.chance(rate);
  }

  count(fault: Fault): void {
    this.counts.set(fault, (this.counts.get(fault) ?? 0) + 1);
  }

  /** The first of the faults to inject now; also counts it. */
  first<F extends Fault>(faults: readonly F[]): F | undefined {
    const fault = faults.find((one) => this.wants(one));
    if (fault !== undefined) this.count(fault);
    return fault;
  }
}

/** Sum of the counts of several proxies. */
export function sumCounts(all: readonly ReadonlyMap<Fault, number>[]) {
  const sums: Partial<Record<Fault, number>> = {};
  for (const [fault, count] of all.flatMap((counts) => [...counts])) {
    sums[fault] = (sums[fault] ?? 0) + count;
  }
  return sums;
}
