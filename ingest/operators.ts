/**
 * Who may send matches: anyone can broadcast a well-formed call that will revert, so a pending match
 * is shown only when its sender is an operator. Learned from the exchanges' own events and from the
 * senders of matches that were mined; kept in a bucket over restarts.
 */
import { z } from 'zod';
import type { Kv } from '../infra/nats-kv.ts';

const KEY = 'operators';
const Stored = z.array(z.string().regex(/^0x[0-9a-f]{40}$/));

export class Operators {
  readonly #kv: Kv;
  readonly #allowed: Set<string>;

  private constructor(kv: Kv, allowed: Set<string>) {
    this.#kv = kv;
    this.#allowed = allowed;
  }

  /** Loads what was learned; `configured` are trusted from the start. */
  static async load(kv: Kv, configured: readonly string[]): Promise<Operators> {
    const entry = await kv.get(KEY);
    const stored =
      entry === undefined ? [] : Stored.parse(JSON.parse(new TextDecoder().decode(entry.value)));
    return new Operators(kv, new Set([...stored, ...configured.map((one) => one.toLowerCase())]));
  }

  has(address: string): boolean {
    return this.#allowed.has(address);
  }

  async set(address: string, allowed: boolean): Promise<void> {
    if (this.#allowed.has(address) === allowed) return;
    if (allowed) this.#allowed.add(address);
    else this.#allowed.delete(address);
    await this.#kv.put(KEY, JSON.stringify([...this.#allowed].sort()));
  }
}
