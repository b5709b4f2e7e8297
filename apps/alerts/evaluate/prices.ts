/** The price of a market before the matches that its rules have seen. */
import { type Reading, read } from '../../../api/analytics/query.ts';
import { hexText, int, rowOf } from '../../../api/analytics/rows.ts';
import { Bytes } from '../../../infra/clickhouse.ts';
import type { FeedMatch } from '../../../ingest/contract.ts';

/** A match that FEED has from a block was detected after its block. */
const BLOCK_SECONDS = 60;

const Row = rowOf({
  conditionId: hexText('condition_id'),
  usdc: int('last.1'),
  shares: int('last.2'),
});

const SQL = `
SELECT ${Row.columns}
FROM
(
  SELECT condition_id, argMax(
    (if(outcome_index = 0, usdc, shares - usdc), shares), (block_number, log_index)) AS last
  FROM market_bookings
  WHERE condition_id = {condition:FixedString(32)} AND kind = 'fill' AND is_taker AND shares > 0
    AND block_time < toDateTime({until:UInt32}, 'UTC')
  GROUP BY condition_id
)`;

/** Micro-USDC a share of outcome 0, by condition id. */
export class PriceBook {
  readonly #prices = new Map<string, number>();
  readonly #wanted = new Map<string, number>();

  /** `load` will read the price before this match. */
  want({ conditionId, detectedAtMs, pending }: FeedMatch): void {
    if (this.#wanted.has(conditionId)) return;
    const at = Math.floor(detectedAtMs / 1_000);
    this.#wanted.set(conditionId, Math.max(0, pending ? at : at - BLOCK_SECONDS));
  }

  /** Throws Problem 503. */
  async load(reading: Reading): Promise<void> {
    for (const [conditionId, until] of this.#wanted) {
      const parameters = { condition: new Bytes(conditionId), until };
      const [row] = await read(reading, { sql: SQL, parameters, row: Row });
      if (row !== undefined) {
        this.#prices.set(conditionId, Number((row.usdc * 1_000_000n) / row.shares));
      }
      this.#wanted.delete(conditionId);
    }
  }

  /** Undefined if the market was never matched. */
  before(conditionId: string): number | undefined {
    return this.#prices.get(conditionId);
  }

  /** Forgets the prices, which would be stale for later matches. */
  clear(): void {
    this.#wanted.clear();
    this.#prices.clear();
  }
}
