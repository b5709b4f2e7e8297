/**
 * The operators of each exchange. Anyone can broadcast a well-formed call that will revert, so a pending match is shown
 * only if its sender is an operator. Operators come from the exchanges' events and from the senders of mined matches,
 * and a bucket keeps them across restarts. An earlier block never overrides a later one, so a match from before an
 * operator's removal does not add it again. Configured operators apply to all exchanges; an entry for one exchange
 * takes precedence.
 */
import { z } from 'zod';
import { NatsUnavailableError } from '../../infra/nats/connection.ts';
import type { Kv } from '../../infra/nats/kv.ts';
import { retry } from '../../infra/retry.ts';
import { Address } from '../contract.ts';

const KEY = 'operators';

/** Every exchange. */
const ALL = '*';
const Stored = z.array(
  z.object({
    address: Address,
    exchange: z.union([Address, z.literal(ALL)]),
    allowed: z.boolean(),
    /** Block of the event or match; −1 for configuration. */
    block: z.int().min(-1),
  }),
);

/** An address on an exchange; both in lower case. */
type Place = { readonly exchange: string; readonly address: string };
type OperatorEvent = {
  readonly exchange: string;
  readonly operator: string;
  readonly allowed: boolean;
};
type Verdict = { readonly allowed: boolean; readonly block: number };

export class Operators {
  readonly #kv: Kv;
  readonly #standing: Map<string, Verdict>;

  private constructor(kv: Kv, standing: Map<string, Verdict>) {
    this.#kv = kv;
    this.#standing = standing;
  }

  /** Loads the stored operators; `configured` ones are allowed until an event removes them. */
  static async load(kv: Kv, configured: readonly string[]): Promise<Operators> {
    const entry = await kv.get(KEY);
    const stored =
      entry === undefined ? [] : Stored.parse(JSON.parse(new TextDecoder().decode(entry.value)));
    const standing = new Map<string, Verdict>(
      configured.map((address) => [
        keyOf(ALL, address.toLowerCase()),
        { allowed: true, block: -1 },
      ]),
    );
    for (const { address, exchange, ...verdict } of stored) {
      standing.set(keyOf(exchange, address), verdict);
    }
    return new Operators(kv, standing);
  }

  has(exchange: string, address: string): boolean {
    return this.#verdict({ exchange, address })?.allowed === true;
  }

  /**
   * Processes one final block: operator events in log order, and the senders of its matches. Resolves when they are
   * stored, and retries during an outage of NATS. Rejects when the signal aborts.
   */
  async learn(
    block: number,
    events: readonly OperatorEvent[],
    senders: readonly Place[],
    signal: AbortSignal,
  ): Promise<void> {
    let changed = false;
    for (const { exchange, operator, allowed } of events) {
      const place = { exchange, address: operator };
      const known = this.#verdict(place);
      if (known !== undefined && known.block > block) continue;
      this.#set(place, { allowed, block });
      changed = true;
    }
    for (const sender of senders) {
      const known = this.#verdict(sender);
      // Within a block the events take precedence, because they may come after the match.
      if (known !== undefined && (known.allowed || known.block >= block)) continue;
      this.#set(sender, { allowed: true, block });
      changed = true;
    }
    if (changed) await this.#store(signal);
  }

  #verdict({ exchange, address }: Place): Verdict | undefined {
    return this.#standing.get(keyOf(exchange, address)) ?? this.#standing.get(keyOf(ALL, address));
  }

  #set({ exchange, address }: Place, verdict: Verdict): void {
    this.#standing.set(keyOf(exchange, address), verdict);
  }

  async #store(signal: AbortSignal): Promise<void> {
    const list = [...this.#standing].map(([key, verdict]) => {
      const [exchange, address] = key.split(':');
      return { exchange, address, ...verdict };
    });
    await retry(() => this.#kv.put(KEY, JSON.stringify(list)), {
      signal,
      isRetryable: (error) => error instanceof NatsUnavailableError,
    });
  }
}

function keyOf(exchange: string, address: string): string {
  return `${exchange}:${address}`;
}
