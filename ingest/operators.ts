/**
 * Who may send matches: anyone can broadcast a well-formed call that will revert, so a pending match
 * is shown only when its sender is an operator. Learned from the exchanges' own events and from the
 * senders of matches that were mined; kept in a bucket over restarts. What a later block said is not
 * changed by an earlier one, so a removed operator is not learned again from a match before that. Each
 * exchange has its own: what is known of an address there goes before what is said of all exchanges,
 * which only configuration and older versions of this file do.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { NatsUnavailableError } from '../infra/nats/connection.ts';
import type { Kv } from '../infra/nats/kv.ts';

const KEY = 'operators';
const RETRY_MS = 500;
/** Operators and removed ones that are remembered; Polygon has had some dozens. */
const OPERATORS_MAX = 10_000;

const Address = z.string().regex(/^0x[0-9a-f]{40}$/);
/** Every exchange. */
const ALL = '*';
const Standing = z.object({
  address: Address,
  /** Left out: as it was stored before the exchanges were told apart. */
  exchange: z.union([Address, z.literal(ALL)]).default(ALL),
  allowed: z.boolean(),
  /** Block that said so; −1 where it was configured. */
  block: z.int().min(-1),
});
const Stored = z.array(
  z.union([
    // As it was stored before removals were remembered.
    Address.transform((address) => ({ address, exchange: ALL, allowed: true, block: -1 })),
    Standing,
  ]),
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

  /** Loads what was learned; `configured` are trusted until an event removes them. */
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
   * Takes in what one final block says: operator events in log order, and who sent its matches.
   * Resolves when it is stored: through an outage of NATS it waits. Rejects when the signal aborts.
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
      // Of one block the events count: they may stand behind the match.
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
    const key = keyOf(exchange, address);
    this.#standing.delete(key);
    this.#standing.set(key, verdict);
    const [oldest] = this.#standing.keys();
    if (this.#standing.size > OPERATORS_MAX && oldest !== undefined) this.#standing.delete(oldest);
  }

  async #store(signal: AbortSignal): Promise<void> {
    const list = [...this.#standing].map(([key, verdict]) => {
      const [exchange, address] = key.split(':');
      return { exchange, address, ...verdict };
    });
    for (;;) {
      try {
        await this.#kv.put(KEY, JSON.stringify(list));
        return;
      } catch (error) {
        if (!(error instanceof NatsUnavailableError)) throw error;
        await delay(RETRY_MS, undefined, { signal });
      }
    }
  }
}

function keyOf(exchange: string, address: string): string {
  return `${exchange}:${address}`;
}
