// Connections that are kept between reads: opening one and choosing its database and settings costs as
// much as a small SELECT. A connection is kept under everything that was set on it, the names of
// parameters included, and taken again only for a call that sets just the same: so nothing of one call
// reaches another. The caller gives back only what read without an error and without `readonly`.
import type { Connection, Native } from './native.ts';

/** A request of each kind needs some of its own kinds; an idle one holds 0.2 MB. */
const IDLE_MAX = 128;

export type Kind = {
  readonly database: string | undefined;
  readonly settings: ReadonlyMap<string, string>;
};

/** Whether a value is set anew with each call: parameters, and the mark. */
export function isOfOneCall(name: string): boolean {
  return name.startsWith('param_') || name === 'log_comment';
}

export class IdleConnections {
  readonly #native: Native;
  /** Least recently used first. */
  #idle: { readonly name: string; readonly connection: Connection }[] = [];

  constructor(native: Native) {
    this.#native = native;
  }

  /** One of this kind, which is the caller's then; undefined where none is idle. */
  take(kind: Kind): Connection | undefined {
    const name = nameOf(kind);
    const index = this.#idle.findLastIndex((one) => one.name === name);
    return index < 0 ? undefined : this.#idle.splice(index, 1)[0]?.connection;
  }

  give(kind: Kind, connection: Connection): void {
    this.#idle.push({ name: nameOf(kind), connection });
    if (this.#idle.length <= IDLE_MAX) return;
    const oldest = this.#idle.shift();
    if (oldest !== undefined) this.#native.CloseConnection(oldest.connection);
  }

  close(): void {
    for (const { connection } of this.#idle) this.#native.CloseConnection(connection);
    this.#idle = [];
  }
}

function nameOf({ database, settings }: Kind): string {
  const set = [...settings].map(([name, value]) => (isOfOneCall(name) ? [name] : [name, value]));
  return JSON.stringify([database, ...set]);
}
