/**
 * Compares sampled balances of shares on the chain (ingest/chain/share-balances.ts) with the bookings up to the same block.
 * The rows wait in the table share_balances. Each projector compares those of its partitions once it has stored all
 * bookings of their block, which later ones do not change, so a result does not depend on when it is computed.
 *
 * Equal is right. Less than on the chain was booked if a wallet had shares before the first block of LEDGER. More is always a
 * defect. A failed comparison is repeated and holds up nothing.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { ClickHouseClient } from '@clickhouse/client';
import type { Logger } from 'pino';
import type { Counter } from 'prom-client';
import { z } from 'zod';
import { type Deployment, insertRows, syncStatements, UInt } from './store.ts';

const ROUND_MS = 5_000;
const ROWS_AT_ONCE = 500;

export const RESULTS = ['equal', 'less', 'more', 'left_out'] as const;
type Result = (typeof RESULTS)[number];

const Amount = z.string().transform(BigInt);
const Waiting = z.object({
  /** Hex without 0x, as the next. */
  wallet: z.string(),
  market: z.string(),
  partition: UInt,
  block: UInt,
  coveredFrom: UInt,
  zero: Amount,
  one: Amount,
  observedAt: UInt,
});
type Waiting = z.output<typeof Waiting>;

const Booked = z.object({
  wallet: z.string(),
  market: z.string(),
  zero: Amount,
  one: Amount,
  first: UInt,
});
type Booked = z.output<typeof Booked>;
const NOTHING_BOOKED = { zero: 0n, one: 0n, first: Number.POSITIVE_INFINITY };

export type CompareOptions = {
  readonly client: ClickHouseClient;
  readonly deployment: Deployment;
  readonly partitions: readonly number[];
  /** Block up to which all bookings of these partitions are stored; undefined until it is known. */
  readonly storedBlock: () => number | undefined;
  /** Throws if the partitions may already have another owner. */
  readonly assertOwner: () => void;
  readonly logger: Logger;
  readonly metrics: { readonly compared: Counter<'result'> };
  readonly signal: AbortSignal;
  /** Pause between two rounds, milliseconds; 5,000 by default. */
  readonly roundMs?: number;
};

/** Runs until the signal aborts. */
export async function compareBalances(options: CompareOptions): Promise<void> {
  const { storedBlock, logger, signal, roundMs = ROUND_MS } = options;
  while (!signal.aborted) {
    try {
      const stored = storedBlock();
      if (stored !== undefined) await compareUpTo(options, stored);
    } catch (err) {
      if (!signal.aborted) logger.warn({ err }, 'balances could not be compared, retrying');
    }
    await delay(roundMs, undefined, { signal }).catch(() => undefined);
  }
}

/** Compares what waits, up to block `stored`. */
async function compareUpTo(options: CompareOptions, stored: number): Promise<void> {
  const { client, deployment, partitions, assertOwner, logger, metrics } = options;
  const waiting = await rowsOf(
    client,
    `SELECT hex(trader) AS wallet, hex(condition_id) AS market, partition, block_number AS block,
       covered_from AS coveredFrom, toString(balance_0) AS zero, toString(balance_1) AS one,
       toUnixTimestamp(observed_at) AS observedAt
     FROM share_balances FINAL
     WHERE result = 'waiting' AND partition IN (${partitions}) AND block_number <= ${stored}
       AND observed_at > now() - INTERVAL 1 DAY
     ORDER BY block LIMIT ${ROWS_AT_ONCE}`,
    Waiting,
  );
  if (waiting.length === 0) return;
  // On a cluster, the replica that is read may lack what another one has acknowledged.
  for (const query of syncStatements(deployment)) await client.command({ query });
  for (const [block, own] of Map.groupBy(waiting, (row) => row.block)) {
    const booked = await bookedUpTo(client, block, own);
    const compared = own.map((row) => {
      const known = booked.get(keyOf(row)) ?? NOTHING_BOOKED;
      return { row, known, result: resultOf(row, known) };
    });
    assertOwner();
    await insertRows(client, compared.map(comparedRow));
    for (const { row, known, result } of compared) {
      metrics.compared.inc({ result });
      if (result !== 'more') continue;
      const [trader, conditionId] = [row.wallet, row.market].map((hex) => `0x${hex.toLowerCase()}`);
      const [chain, booked] = [row, known].map(({ zero, one }) => [
        zero.toString(),
        one.toString(),
      ]);
      const of = { block, trader, conditionId };
      logger.error({ ...of, chain, booked }, 'ALARM: more shares were booked than the wallet has');
    }
  }
}

function resultOf(of: Waiting, booked: Omit<Booked, 'wallet' | 'market'>): Result {
  if (booked.first < of.coveredFrom) return 'left_out';
  if (booked.zero > of.zero || booked.one > of.one) return 'more';
  return booked.zero === of.zero && booked.one === of.one ? 'equal' : 'less';
}

/** The balances of these traders and markets by all bookings up to a block, as in sql/migrations/0003_trader_markets.sql. */
async function bookedUpTo(client: ClickHouseClient, block: number, of: readonly Waiting[]) {
  const pairs = of.map(({ wallet, market }) => `(unhex('${wallet}'), unhex('${market}'))`);
  const rows = await rowsOf(
    client,
    `SELECT hex(trader) AS wallet, hex(condition_id) AS market, min(block_number) AS first,
       toString(sumIf(if(side = 'BUY', shares, -shares), side != 'NONE' AND outcome_index = 0)) AS zero,
       toString(sumIf(if(side = 'BUY', shares, -shares), side != 'NONE' AND outcome_index = 1)) AS one
     FROM bookings WHERE (trader, condition_id) IN (${pairs}) AND block_number <= ${block}
     GROUP BY trader, condition_id`,
    Booked,
  );
  return new Map(rows.map((row) => [keyOf(row), row]));
}

function keyOf({ wallet, market }: Pick<Waiting, 'wallet' | 'market'>): string {
  return `${wallet}:${market}`;
}

function comparedRow({
  row: { wallet, market, partition, block, coveredFrom, zero, one, observedAt },
  known,
  result,
}: {
  readonly row: Waiting;
  readonly known: Pick<Booked, 'zero' | 'one'>;
  readonly result: Result;
}) {
  return {
    table: 'share_balances',
    row: {
      trader_hex: wallet,
      condition_id_hex: market,
      partition,
      block_number: block,
      covered_from: coveredFrom,
      balance_0: zero.toString(),
      balance_1: one.toString(),
      booked_0: known.zero.toString(),
      booked_1: known.one.toString(),
      result,
      observed_at: observedAt,
    },
  };
}

async function rowsOf<Row>(client: ClickHouseClient, query: string, schema: z.ZodType<Row>) {
  const result = await client.query({ query, format: 'JSONEachRow' });
  return z.array(schema).parse(await result.json());
}
