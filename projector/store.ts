/**
 * The projector's access to ClickHouse: writes batches exactly once, and restores places and markets. An event is
 * done when its rows are in `bookings`. Every write may be repeated: a repeated batch has the same rows and the same
 * token, and adds only the view rows that a crash left out. Does not use NATS.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { ClickHouseClient } from '@clickhouse/client';
import { z } from 'zod';
import { ExpectedError } from '../infra/expected.ts';
import { Hash, type Refused, type Resolution } from '../ingest/contract.ts';
import { BOOKING_COLUMNS, bookingValues, STORED_COLUMNS } from './contract.ts';
import type { Batch } from './fold/batches.ts';
import { payoutsOf } from './fold/position.ts';
import { isAfter, type OpenPositions, type StoredMarket } from './fold/positions.ts';

/** On a cluster, any node may hold the rows or run the inserts. */
export type Deployment = {
  readonly database: string;
  /** Name in remote_servers, or the macro `{cluster}`; a single node without it. */
  readonly cluster?: string | undefined;
};

/** Marks the projector's inserts in system.processes, so that a successor can kill them. */
const INSERT_MARK = 'fillstream-projector';
const FENCE_POLL_MS = 50;
const HEX = (column: string) => `concat('0x', lower(hex(${column})))`;

export const UInt = z.union([z.number(), z.string()]).transform(Number).pipe(z.int().nonnegative());

const Tip = z.object({
  partition: UInt,
  blockNumber: UInt,
  logIndex: UInt,
  txHash: z.string(),
  batchId: z.string(),
  /** 202611 for November 2026: that of its whole batch. */
  month: UInt,
});
/** The newest stored event of a partition. */
export type Tip = z.infer<typeof Tip>;

const StoredCheckpoint = z.object({
  partition: UInt,
  blockNumber: UInt,
  logIndex: UInt,
  blockHash: Hash,
});
/** Everything up to this event is stored. The event has rows, so LEDGER lists its block. */
export type Checkpoint = Omit<z.infer<typeof StoredCheckpoint>, 'partition'>;

/** The content of the tables. */
export type StoredState = {
  /** By partition. */
  readonly checkpoints: ReadonlyMap<number, Checkpoint>;
  /** Newest stored events beyond the checkpoint of their partition; their batch may be incomplete. */
  readonly tips: readonly Tip[];
};

/** non_replicated_deduplication_window of the tables, less those that may be in flight. */
const REMEMBERED_INSERTS = 9_900;

/** A restart does not help; a rebuild does. */
export class ForgottenBatchError extends ExpectedError {}

/** An event that is stored as its own row, not in bookings. */
export type Fact = Refused | Resolution;

export class Store {
  readonly #client: ClickHouseClient;
  readonly #partitions: readonly number[];
  readonly #deployment: Deployment;
  readonly #mark: string;

  /** `partitions` are those that this projector owns; the client's database is the deployment's. */
  constructor(client: ClickHouseClient, partitions: readonly number[], deployment: Deployment) {
    this.#client = client;
    this.#partitions = partitions;
    this.#deployment = deployment;
    this.#mark = `${INSERT_MARK} ${deployment.database}:${partitions.join(',')};`;
  }

  /**
   * Kills inserts that a killed predecessor left running. Then, if the newest batch of a partition is beyond its
   * checkpoint, inserts that batch again from its own rows, which completes the views after a crash. Batches up to the
   * checkpoint are complete and must not be repeated: the token of a view's insert contains the view's id, so after a
   * rebuild the views would not recognise them.
   */
  async heal(): Promise<{ readonly healedBatches: number }> {
    await this.#fence();
    await this.sync();
    const tips = await this.unconfirmed();
    await this.#refuseForgotten(tips);
    const batches = new Map(tips.map((tip) => [tip.batchId, tip.month]));
    const columns = STORED_COLUMNS.join(', ');
    for (const [batch, month] of batches) {
      await this.#client.command({
        query: `INSERT INTO bookings (${columns}) SELECT ${columns} FROM bookings
          WHERE batch_id = {batch:UInt64} AND toYYYYMM(block_time) = {month:UInt32}
          ORDER BY block_number, event_log_index, leg`,
        query_params: { batch, month },
        clickhouse_settings: {
          insert_deduplication_token: batch,
          insert_deduplicate: 1,
          deduplicate_insert_select: 'force_enable',
          max_insert_threads: '1',
          log_comment: this.#mark,
        },
      });
    }
    return { healedBatches: batches.size };
  }

  /** The newest stored events that are beyond the checkpoints of their partitions. */
  async unconfirmed(): Promise<readonly Tip[]> {
    const checkpoints = await this.#checkpoints();
    return stateOf(await this.#tips(checkpoints), checkpoints).tips;
  }

  /** Throws ForgottenBatchError if ClickHouse may no longer recognise these batches, so that they would be counted twice. */
  async #refuseForgotten(tips: readonly Tip[]): Promise<void> {
    const oldest = Math.min(...tips.map(({ blockNumber }) => blockNumber));
    if (oldest === Number.POSITIVE_INFINITY) return;
    const [row] = await this.#rows(
      `SELECT uniqExact(batch_id) AS newer FROM bookings WHERE block_number > ${oldest}`,
      z.object({ newer: UInt }),
    );
    if (row === undefined || row.newer < REMEMBERED_INSERTS) return;
    throw new ForgottenBatchError(
      `this projector was killed ${row.newer} inserts ago, and ClickHouse remembers ${REMEMBERED_INSERTS}: ` +
        'it cannot complete its last batch without counting it twice. Run npm run rebuild',
    );
  }

  /** On a cluster, waits until every replica has all rows that any of them acknowledged. */
  async sync(): Promise<void> {
    for (const query of syncStatements(this.#deployment)) await this.#client.command({ query });
  }

  /** Restores the last event of each partition into `positions`. */
  async restore(positions: OpenPositions): Promise<StoredState> {
    const checkpoints = await this.#checkpoints();
    const tips = await this.#tips(checkpoints);
    for (const tip of tips) positions.restoreLast(tip.partition, tip);
    for (const [partition, checkpoint] of checkpoints) positions.restoreLast(partition, checkpoint);
    return stateOf(tips, checkpoints);
  }

  /**
   * The stored state of these markets. On a cluster, a replica may lack rows that were acknowledged since `sync`.
   * One thread groups the rows in the order of the key, so the engine holds one market at a time.
   */
  async markets(conditionIds: readonly string[]): Promise<ReadonlyMap<string, StoredMarket>> {
    const markets = new Map<string, StoredMarket>();
    for (const id of conditionIds) markets.set(id, { held: new Map(), resolution: undefined });
    const list = conditionIds.map(bytesOf).join(',');
    const result = await this.#client.query({
      query: `SELECT ${HEX('condition_id')}, ${HEX('trader')}, toString(held.outcome), toString(held.shares),
          toString(held.cost_basis), toString(held.open_fees), toString(held_0), toString(held_1)
        FROM (SELECT condition_id, trader, max(position) AS held, sum(balance_0) AS held_0, sum(balance_1) AS held_1
          FROM market_traders WHERE condition_id IN (${list}) GROUP BY condition_id, trader)
        WHERE held.shares > 0 OR held_0 != 0 OR held_1 != 0
        UNION ALL
        SELECT ${HEX('condition_id')}, '', toString(block_number), toString(log_index), toString(payout_0),
          toString(payout_1), toString(parts_0), toString(parts_1)
        FROM resolutions FINAL WHERE condition_id IN (${list})
        SETTINGS optimize_aggregation_in_order = 1, max_threads = 1`,
      format: 'JSONCompactEachRow',
    });
    for await (const rows of result.stream<readonly string[]>()) {
      for (const row of rows) {
        const [id = '', trader = '', ...columns] = row.json();
        addTo(markets.get(id), trader, columns);
      }
    }
    return markets;
  }

  async writeBatch(batch: Batch): Promise<void> {
    await this.#client.insert({
      table: 'bookings',
      columns: BOOKING_COLUMNS as [string, ...string[]],
      values: batch.rows.map((row) => bookingValues(row, batch.id)),
      format: 'JSONCompactEachRow',
      clickhouse_settings: {
        insert_deduplication_token: batch.id,
        // The views already group their rows; merging them again would cost a sixth of the insert.
        optimize_on_insert: 0,
        log_comment: this.#mark,
      },
    });
  }

  /** Upserts resolutions and refused events; their order does not matter. */
  async writeFacts(facts: readonly Fact[]): Promise<void> {
    await insertRows(this.#client, facts.map(factRow));
  }

  /** Records the checkpoint of each partition. Call it only after everything that it covers is stored. */
  async writeCheckpoints(checkpoints: ReadonlyMap<number, Checkpoint>): Promise<void> {
    const rows = [...checkpoints].map(([partition, { blockNumber, blockHash, logIndex }]) => ({
      table: 'projector_checkpoints',
      row: { partition, block_number: blockNumber, block_hash: blockHash, log_index: logIndex },
    }));
    await insertRows(this.#client, rows);
  }

  async #fence(): Promise<void> {
    // Matches inserts of any projector that owned one of these partitions. The embedded engine appends an id.
    const list = this.#partitions.map((partition) => `'${partition}'`).join(',');
    const pattern = `'${INSERT_MARK} ${this.#deployment.database}:([0-9,]+);'`;
    const marked = `splitByChar(',', extract(Settings['log_comment'], ${pattern}))`;
    const mine = `hasAny(${marked}, [${list}])`;
    for (;;) {
      const [row] = await this.#rows(
        runningStatement(this.#deployment, mine),
        z.object({ running: UInt }),
      );
      if (row === undefined || row.running === 0) return;
      await this.#client.command({ query: killStatement(this.#deployment, mine) });
      await delay(FENCE_POLL_MS);
    }
  }

  /**
   * Once every partition has a checkpoint, only what was stored since the oldest one: reading the hashes of all history
   * would take longer than a request may.
   */
  #tips(checkpoints: ReadonlyMap<number, Checkpoint>) {
    const places = [...checkpoints.values()].map(({ blockNumber }) => blockNumber);
    const since = places.length === this.#partitions.length ? Math.min(...places) : 0;
    return this.#rows(
      `SELECT partition, ${HEX('tip.1')} AS txHash, tip.2 AS blockNumber, tip.3 AS logIndex,
         toString(tip.4) AS batchId, toYYYYMM(tip.5) AS month
       FROM (SELECT partition, argMax((tx_hash, block_number, event_log_index, batch_id, block_time),
           (block_number, event_log_index)) AS tip
         FROM bookings WHERE partition IN (${this.#partitions}) AND block_number >= ${since}
         GROUP BY partition)`,
      Tip,
    );
  }

  async #checkpoints(): Promise<ReadonlyMap<number, Checkpoint>> {
    const rows = await this.#rows(
      `SELECT partition, block_number AS blockNumber, log_index AS logIndex, block_hash AS blockHash
       FROM projector_checkpoints FINAL WHERE partition IN (${this.#partitions})`,
      StoredCheckpoint,
    );
    return new Map(rows.map(({ partition, ...checkpoint }) => [partition, checkpoint]));
  }

  async #rows<Row>(query: string, schema: z.ZodType<Row>): Promise<readonly Row[]> {
    const result = await this.#client.query({ query, format: 'JSONEachRow' });
    return z.array(schema).parse(await result.json());
  }
}

function stateOf(tips: readonly Tip[], checkpoints: ReadonlyMap<number, Checkpoint>): StoredState {
  return {
    checkpoints,
    tips: tips.filter((tip) => isAfter(tip, checkpoints.get(tip.partition))),
  };
}

/** A condition id as a literal. Calls of unhex would take the server half as long again. */
function bytesOf(conditionId: string): string {
  return `'${conditionId.slice(2).replaceAll(/../g, '\\x$&')}'`;
}

/** Adds a row of `markets`: an open position, or the resolution if there is no trader. BigInt rejects all but integers. */
function addTo(market: StoredMarket | undefined, trader: string, columns: readonly string[]): void {
  if (market === undefined) throw new RangeError('a row of a market that was not requested');
  if (trader === '') {
    const [block, log, payout0 = '', payout1 = '', parts0 = '', parts1 = ''] = columns;
    const parts: [bigint, bigint] = [BigInt(parts0), BigInt(parts1)];
    const payouts = payoutsOf({
      payouts: [BigInt(payout0), BigInt(payout1)],
      ...(parts[0] + parts[1] === 0n ? {} : { parts }),
    });
    market.resolution = { blockNumber: Number(block), logIndex: Number(log), payouts };
    return;
  }
  const [outcome, shares = '', cost = '', fees = '', zero = '', one = ''] = columns;
  const position = {
    outcome: outcome === '0' ? 0 : 1,
    shares: BigInt(shares),
    costBasis: BigInt(cost),
    openFees: BigInt(fees),
  } as const;
  market.held.set(trader, { position, balances: [BigInt(zero), BigInt(one)] });
}

/** A row with its table, by column. All rows of a table must have the same columns in the same order. */
export type TableRow = {
  readonly table: string;
  readonly row: Readonly<Record<string, unknown>>;
};

/** Inserts rows, with one insert for each table. */
export async function insertRows(
  client: ClickHouseClient,
  rows: readonly TableRow[],
): Promise<void> {
  for (const [table, own] of Map.groupBy(rows, (row) => row.table)) {
    await client.insert({
      table,
      columns: Object.keys(own[0]?.row ?? {}) as [string, ...string[]],
      values: own.map(({ row }) => Object.values(row)),
      format: 'JSONCompactEachRow',
      // Half a surrogate pair in a text must not hold up all metadata.
      clickhouse_settings: { input_format_json_throw_on_bad_escape_sequence: 0 },
    });
  }
}

function factRow(fact: Fact): TableRow {
  const place = { block_number: fact.blockNumber, log_index: fact.logIndex };
  if (fact.kind === 'resolution') {
    const [payout_0, payout_1] = fact.payouts.map(String);
    const [parts_0, parts_1] = (fact.parts ?? [0n, 0n]).map(String);
    const condition_id_hex = fact.conditionId.slice(2);
    const resolved_at = fact.blockTime;
    const row = { condition_id_hex, payout_0, payout_1, parts_0, parts_1, resolved_at, ...place };
    return { table: 'resolutions', row };
  }
  const { txHash, reason, detail } = fact;
  const row = { ...place, tx_hash_hex: txHash.slice(2), reason, detail };
  return { table: 'refused_events', row };
}

// Statements that differ on a cluster. A test has the engine parse their cluster form, but they were never run on a
// real cluster (docs/decisions/0006-schema-analysts-and-cluster.md).

/** The tables that hold the state; sharded tables by their local names. */
const CHECKPOINT_TABLES = [
  'bookings_local',
  'market_traders_local',
  'projector_checkpoints',
  'resolutions',
];

/** Make every replica have all rows that any of them acknowledged. */
export function syncStatements({ database, cluster }: Deployment): readonly string[] {
  if (cluster === undefined) return [];
  return CHECKPOINT_TABLES.map(
    (table) => `SYSTEM SYNC REPLICA ON CLUSTER '${cluster}' ${database}.${table}`,
  );
}

/** Counts the running queries that match `where`, on any node. */
export function runningStatement({ cluster }: Deployment, where: string): string {
  const processes =
    cluster === undefined
      ? 'system.processes'
      : `clusterAllReplicas('${cluster}', system.processes)`;
  return `SELECT count() AS running FROM ${processes} WHERE ${where}`;
}

export function killStatement({ cluster }: Deployment, where: string): string {
  const on = cluster === undefined ? '' : `ON CLUSTER '${cluster}' `;
  return `KILL QUERY ${on}WHERE ${where} ASYNC`;
}

export function reloadStatement({ cluster }: Deployment): string {
  const on = cluster === undefined ? '' : `ON CLUSTER '${cluster}' `;
  return `SYSTEM RELOAD DICTIONARY ${on}market_dictionary`;
}
