/**
 * Inserts booking rows as fast as ClickHouse accepts them: large inserts in RowBinary, two at a time. The values equal
 * those that the projector inserts, and the materialized views fill the other tables as usual.
 */
import { type Booking, STORED_COLUMNS } from '../../../projector/contract.ts';

const ROWS = 250_000;
const ROW_BYTES = 250;
const IN_FLIGHT = 2;
const KINDS = { fill: 0, settlement: 1 } as const;
const SIDES = { NONE: 0, BUY: 1, SELL: 2 } as const;
/** The encoded bytes of the most recent token ids. */
const TOKENS_MAX = 10_000;

export class BulkInsert {
  readonly #url: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #tokens = new Map<string, Buffer>();
  readonly #sent = new Set<Promise<void>>();
  readonly #free = Array.from({ length: IN_FLIGHT + 1 }, () =>
    Buffer.allocUnsafe(ROWS * ROW_BYTES),
  );
  #rows = this.#free.pop() ?? Buffer.allocUnsafe(ROWS * ROW_BYTES);
  #at = 0;
  #batch = 1n;

  constructor(url: string, database: string) {
    const { origin, username, password } = new URL(url);
    const user = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
    const authorization = `Basic ${Buffer.from(user).toString('base64')}`;
    // The server would close a kept connection while the next rows are generated.
    this.#headers = { authorization, connection: 'close' };
    const query = `INSERT INTO bookings (${STORED_COLUMNS.join(', ')}) FORMAT RowBinary`;
    const settings = { insert_deduplicate: '0', optimize_on_insert: '0' };
    this.#url = `${origin}/?${new URLSearchParams({ database, query, ...settings })}`;
  }

  /** Adds a row. If it returns a promise, await it before you add the next row. */
  add(row: Booking): Promise<void> | undefined {
    this.#write(row);
    return this.#at === ROWS * ROW_BYTES ? this.#send() : undefined;
  }

  /** Resolves once all rows are stored. */
  async end(): Promise<void> {
    if (this.#at > 0) await this.#send();
    await Promise.all(this.#sent);
  }

  async #send(): Promise<void> {
    const [rows, bytes] = [this.#rows, this.#rows.subarray(0, this.#at)];
    const sent = this.#post(bytes).then(() => {
      this.#sent.delete(sent);
      this.#free.push(rows);
    });
    // The promise is awaited later, so its rejection must not count as unhandled.
    sent.catch(() => undefined);
    this.#sent.add(sent);
    if (this.#sent.size > IN_FLIGHT) await Promise.race(this.#sent);
    this.#rows = this.#free.pop() ?? Buffer.allocUnsafe(ROWS * ROW_BYTES);
    this.#at = 0;
    this.#batch += 1n;
  }

  async #post(body: Buffer<ArrayBuffer>): Promise<void> {
    const response = await fetch(this.#url, { method: 'POST', headers: this.#headers, body });
    const text = await response.text();
    if (response.status !== 200) throw new Error(text);
  }

  /** Writes the columns in the order of STORED_COLUMNS. */
  #write(row: Booking): void {
    const rows = this.#rows;
    let at = this.#at;
    const amount = (value: bigint) => {
      at = rows.writeBigInt64LE(value, at);
    };
    const hex = (text: string, bytes: number) => {
      if (rows.write(text.slice(2), at, bytes, 'hex') < bytes) rows.fill(0, at, at + bytes);
      at += bytes;
    };
    at = rows.writeUInt8(KINDS[row.kind], at);
    at = rows.writeBigUInt64LE(BigInt(row.blockNumber), at);
    at = rows.writeUInt32LE(row.blockTime, at);
    at = rows.writeUInt32LE(row.logIndex, at);
    at = rows.writeUInt32LE(row.eventLogIndex, at);
    hex(row.txHash, 32);
    hex(row.conditionId, 32);
    hex(row.trader, 20);
    hex(row.orderHash, 32);
    at = rows.writeUInt8(row.isTaker ? 1 : 0, at);
    at = rows.writeUInt8(SIDES[row.side], at);
    at = rows.writeUInt8(row.outcomeIndex, at);
    at += this.#token(row.tokenId).copy(rows, at);
    amount(row.shares);
    amount(row.usdc);
    amount(row.fee);
    amount(row.realisedPnl);
    amount(row.realisedCost);
    at = rows.writeUInt8(row.positionOutcome, at);
    amount(row.positionShares);
    amount(row.positionCost);
    amount(row.positionFees);
    at = rows.writeUInt8(row.partition, at);
    at = rows.writeUInt32LE(row.leg, at);
    this.#at = rows.writeBigUInt64LE(this.#batch, at);
  }

  #token(id: string): Buffer {
    let bytes = this.#tokens.get(id);
    if (bytes === undefined) {
      if (this.#tokens.size === TOKENS_MAX) this.#tokens.clear();
      bytes = Buffer.from(BigInt(id).toString(16).padStart(64, '0'), 'hex').reverse();
      this.#tokens.set(id, bytes);
    }
    return bytes;
  }
}
