/** The holdings of a trader in memory. Of a busy trader only the wanted ones become objects. */
import type { Holding } from './holdings.ts';
import { PackedRows } from './packed-rows.ts';

/** Each a column, except the market, which is the key. */
const COLUMNS = [
  ...(['version', 'outcome', 'shares', 'cost', 'fees', 'realised', 'realisedCost'] as const),
  ...(['volume', 'firstAt', 'lastAt', 'settled', 'balance0', 'balance1'] as const),
];
type Column = (typeof COLUMNS)[number];
const SHARES = COLUMNS.indexOf('shares');
const LAST_AT = COLUMNS.indexOf('lastAt');

/** Numbers of markets, the same for all traders. */
export class MarketIds {
  readonly #numbers = new Map<string, number>();
  readonly #ids: string[] = [];

  get size(): number {
    return this.#ids.length;
  }

  find(conditionId: string): number | undefined {
    return this.#numbers.get(conditionId);
  }

  numberOf(conditionId: string): number {
    const known = this.#numbers.get(conditionId);
    if (known !== undefined) return known;
    const number = this.#ids.push(conditionId) - 1;
    this.#numbers.set(conditionId, number);
    return number;
  }

  /** Throws RangeError if no market has this number. */
  idOf(number: number): string {
    const id = this.#ids[number];
    if (id === undefined) throw new RangeError(`no market ${number}`);
    return id;
  }
}

export class PackedHoldings {
  readonly #ids: MarketIds;
  readonly #rows: PackedRows;
  #version = 0;

  constructor(ids: MarketIds, holdings: readonly Holding[] = []) {
    this.#ids = ids;
    this.#rows = new PackedRows(COLUMNS.length, holdings.length);
    const numbered = holdings.map((one) => ({ one, number: ids.numberOf(one.conditionId) }));
    // In the order of the rows, so that none has to be moved.
    for (const { one } of numbered.sort((a, b) => a.number - b.number)) this.set(one);
  }

  get size(): number {
    return this.#rows.size;
  }

  /** Bytes of memory. */
  get bytes(): number {
    return this.#rows.bytes;
  }

  /** Of the newest booking in all markets. */
  get version(): number {
    return this.#version;
  }

  find(conditionId: string): Holding | undefined {
    const number = this.#ids.find(conditionId);
    const row = number === undefined ? undefined : this.#rows.find(number);
    return row === undefined ? undefined : this.#at(row);
  }

  set(holding: Holding): void {
    const row = this.#rows.open(this.#ids.numberOf(holding.conditionId));
    for (const [at, name] of COLUMNS.entries()) this.#rows.set(row, at, BigInt(holding[name]));
    this.#version = Math.max(this.#version, holding.version);
  }

  /** In these markets. */
  of(conditionIds: readonly string[]): Holding[] {
    return conditionIds.flatMap((id) => this.find(id) ?? []);
  }

  all(): Holding[] {
    return this.#where(() => true).map((row) => this.#at(row));
  }

  /** Those with shares. */
  open(): Holding[] {
    return this.#open().map((row) => this.#at(row));
  }

  /** The markets in which shares are held. */
  openIds(): string[] {
    return this.#open().map((row) => this.#idAt(row));
  }

  /** All markets, and when the trader last traded there, seconds since the epoch. */
  traded(): { readonly conditionId: string; readonly lastAt: number }[] {
    return this.#where(() => true).map((row) => ({
      conditionId: this.#idAt(row),
      lastAt: Number(this.#rows.get(row, LAST_AT)),
    }));
  }

  #open(): number[] {
    return this.#where((row) => this.#rows.get(row, SHARES) > 0n);
  }

  #where(isWanted: (row: number) => boolean): number[] {
    const rows: number[] = [];
    for (let row = 0; row < this.size; row++) if (isWanted(row)) rows.push(row);
    return rows;
  }

  #idAt(row: number): string {
    return this.#ids.idOf(this.#rows.key(row));
  }

  #at(row: number): Holding {
    const of = (name: Column) => this.#rows.get(row, COLUMNS.indexOf(name));
    return {
      ...{ conditionId: this.#idAt(row), version: Number(of('version')) },
      ...{ outcome: of('outcome') === 0n ? 0 : 1, shares: of('shares'), cost: of('cost') },
      ...{ fees: of('fees'), realised: of('realised'), realisedCost: of('realisedCost') },
      ...{ volume: of('volume'), firstAt: Number(of('firstAt')), lastAt: Number(of('lastAt')) },
      settled: Number(of('settled')),
      ...{ balance0: of('balance0'), balance1: of('balance1') },
    };
  }
}
