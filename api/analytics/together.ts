/**
 * Reads of rows by their keys, put together: while one statement is under way, the keys that others ask for
 * meanwhile wait for the next one, which asks for all of them. A statement costs far more than the rows that it
 * finds (ADR 10), so that many callers at once take little more than one; one alone never waits.
 */

/** Reads the rows of these keys; bound to none of the callers. */
type ReadRows<Row> = (keys: readonly string[]) => Promise<ReadonlyMap<string, Row>>;

type Waiting<Row> = {
  readonly keys: Set<string>;
  readonly readRows: ReadRows<Row>;
  readonly rows: PromiseWithResolvers<ReadonlyMap<string, Row>>;
};

/** Whoever has more keys asks for them alone: a statement is not to grow without bound. */
const KEYS_MAX = 200;

export class Together<Row> {
  #isReading = false;
  #waiting: Waiting<Row> | undefined;

  /**
   * The rows of these keys and, it may be, of others. Rejects with what `readRows` rejects with, also where
   * that was the statement before: a store that cannot answer is not waited for twice.
   */
  async read(keys: readonly string[], readRows: ReadRows<Row>): Promise<ReadonlyMap<string, Row>> {
    if (!this.#isReading) return await this.#run(keys, readRows);
    const waiting = this.#waiting ?? { keys: new Set(), readRows, rows: Promise.withResolvers() };
    if (waiting.keys.size + keys.length > KEYS_MAX) return await readRows(keys);
    this.#waiting = waiting;
    for (const key of keys) waiting.keys.add(key);
    return await waiting.rows.promise;
  }

  async #run(keys: readonly string[], readRows: ReadRows<Row>): Promise<ReadonlyMap<string, Row>> {
    this.#isReading = true;
    try {
      const rows = await readRows(keys);
      this.#runNext();
      return rows;
    } catch (error) {
      this.#isReading = false;
      this.#next()?.rows.reject(error);
      throw error;
    }
  }

  #runNext(): void {
    this.#isReading = false;
    const next = this.#next();
    if (next === undefined) return;
    this.#run([...next.keys], next.readRows).then(next.rows.resolve, next.rows.reject);
  }

  #next(): Waiting<Row> | undefined {
    const next = this.#waiting;
    this.#waiting = undefined;
    return next;
  }
}
