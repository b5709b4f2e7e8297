/**
 * Confirmations of position events. The pending event had to guess in which order matches would be mined; its confirmation
 * waits until the match is booked, a moment after it is final, and says what was booked.
 */
import { z } from 'zod';
import { changesOf } from '../../../api/analytics/position-changes.ts';
import { type Reading, read } from '../../../api/analytics/query.ts';
import {
  boolean,
  count,
  hexText,
  int,
  type RowOf,
  rowOf,
  typed,
} from '../../../api/analytics/rows.ts';
import { Bytes } from '../../../infra/clickhouse.ts';
import type { AlertMessage } from '../logs.ts';
import { describe } from './position.ts';

/** As `describe` made it. */
const PositionData = z.object({
  event: z.string(),
  trader: z.object({ address: z.string(), name: z.string() }),
  market: z.object({
    ...{ condition_id: z.string(), id: z.string(), question: z.string(), slug: z.string() },
    ...{ event_slug: z.string(), outcomes: z.tuple([z.string(), z.string()]) },
  }),
  ...{ value_after: z.number(), portfolio_value: z.number(), tx_hash: z.string() },
  ...{ match_id: z.string(), taker: z.string() },
});
type PositionData = z.infer<typeof PositionData>;

const Row = rowOf({
  trader: hexText('trader'),
  conditionId: hexText('condition_id'),
  txHash: hexText('tx_hash'),
  /** The log that closes the match. */
  match: count('event_log_index'),
  orderHash: hexText('order_hash'),
  isTaker: boolean('is_taker'),
  outcomeIndex: typed('outcome_index', z.literal([0, 1])),
  shares: int('shares'),
  usdc: int('usdc'),
  before: int('position_before'),
  after: int('if(position_outcome = 0, position_shares, -position_shares)'),
});

const SQL = `
SELECT ${Row.columns}
FROM bookings
WHERE trader IN {traders:Array(FixedString(20))} AND condition_id IN {conditions:Array(FixedString(32))}
  AND block_number >= {block:UInt64} AND kind = 'fill' AND tx_hash IN {hashes:Array(FixedString(32))}
ORDER BY block_number, log_index, rank`;

type Waiting = {
  readonly message: AlertMessage;
  readonly data: PositionData;
  readonly blockNumber: number;
  /** Sequence of the pending event in ALERTS. */
  readonly alerts: number;
  readonly sinceMs: number;
};

/** A statement has at most so many keys of each kind. */
const AT_ONCE = 200;
/** Afterwards, a confirmation is sent with what the pending event said. */
const WAIT_MS_MAX = 600_000;

export class Confirmations {
  readonly #waiting = new Set<Waiting>();

  /** Whether the confirmation has to wait; otherwise it can be sent as it is. */
  add(message: AlertMessage, blockNumber: number, alerts: number): boolean {
    const data = PositionData.safeParse(message.event.data);
    if (message.event.type !== 'position' || !data.success) return false;
    const sinceMs = Date.now();
    this.#waiting.add({ message, data: data.data, blockNumber, alerts, sinceMs });
    return true;
  }

  /** The least sequence in ALERTS of what waits. */
  get oldest(): number | undefined {
    let oldest: number | undefined;
    for (const { alerts } of this.#waiting) oldest = Math.min(oldest ?? alerts, alerts);
    return oldest;
  }

  /**
   * Confirmations that can be sent: corrected to what was booked, or unchanged after WAIT_MS_MAX. Call `sent` once one is
   * stored. Throws Problem 503.
   */
  async booked(reading: Reading) {
    const some = [...this.#waiting].slice(0, AT_ONCE);
    if (some.length === 0) return [];
    const traders = some.flatMap(({ data }) => [data.trader.address, data.taker]);
    const conditions = some.map(({ data }) => data.market.condition_id);
    const rows = await read(reading, {
      sql: SQL,
      parameters: {
        traders: new Bytes([...new Set(traders)]),
        conditions: new Bytes([...new Set(conditions)]),
        hashes: new Bytes([...new Set(some.map(({ data }) => data.tx_hash))]),
        block: Math.min(...some.map(({ blockNumber }) => blockNumber)),
      },
      row: Row,
    });
    return some.flatMap((one) => {
      const message = corrected(one, rows);
      const sent = () => this.#waiting.delete(one);
      if (message !== undefined) return [{ message, sent }];
      // Others get their turn.
      this.#waiting.delete(one);
      this.#waiting.add(one);
      // The match is booked otherwise than it was shown, or the projector is far behind.
      return Date.now() - one.sinceMs > WAIT_MS_MAX ? [{ message: one.message, sent }] : [];
    });
  }
}

/** Undefined if the match is not booked yet. */
function corrected(
  { data, message }: Waiting,
  rows: readonly RowOf<typeof Row>[],
): AlertMessage | undefined {
  const { market, match_id, taker, trader, tx_hash } = data;
  const [, takerOrder, ordinal = '1'] = match_id.split(':');
  const ofMarket = rows.filter(
    (row) => row.txHash === tx_hash && row.conditionId === market.condition_id,
  );
  const takers = ofMarket.filter(
    (row) => row.isTaker && row.trader === taker && row.orderHash === takerOrder,
  );
  const closing = takers[Number(ordinal) - 1]?.match;
  const own = ofMarket.filter((row) => row.match === closing && row.trader === trader.address);
  const [first, last] = [own[0], own.at(-1)];
  if (first === undefined || last === undefined) return undefined;
  const changes = changesOf(first.before, last.after);
  const change = changes.find(({ event }) => event === data.event) ?? changes[0];
  if (change === undefined) return message;
  const others = BigInt(data.portfolio_value) - BigInt(data.value_after);
  const { data: booked, text } = describe(change, own, { market, trader, others });
  const { event } = message;
  return { ...message, event: { ...event, text, data: { ...event.data, ...booked } } };
}
