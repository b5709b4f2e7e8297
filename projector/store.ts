/**
 * ClickHouse as the projector sees it: batches written exactly once, and what is needed to go on
 * after a restart. The table `bookings` is the checkpoint: an event is done when its rows are in it.
 * Every write may be repeated; a repeated batch has the same rows and the same token and adds only
 * what a crash had left out of the views. Deliberately knows nothing of NATS.
 */
import type { ClickHouseClient } from '@clickhouse/client';
import { z } from 'zod';
import { partitionOf, type Refused, type Resolution } from '../ingest/contract.ts';
import type { Batch } from './batch.ts';
import { type Deployment, killStatement, runningStatement, syncStatements } from './cluster.ts';
import { BOOKING_COLUMNS, bookingValues, STORED_COLUMNS } from './contract.ts';
import type { Book } from './fold.ts';

/** Marks the projector's inserts in system.processes, so that a successor can end them. */
const INSERT_MARK = 'fillstream-projector';
const FENCE_POLL_MS = 50;
const HEX = (column: string) => `concat('0x', lower(hex(${column})))`;

const UInt = z.union([z.number(), z.string()]).transform(Number).pipe(z.int().nonnegative());
const Amount = z.union([z.number(), z.string()]).transform((value) => BigInt(value));

const Tip = z.object({
  partition: UInt,
  sequence: UInt,
  kind: z.enum(['fill', 'settlement']),
  tx_hash: z.string(),
  block_number: UInt,
  block_time: UInt,
  event_log_index: UInt,
  batch_id: z.string(),
});
const Checkpoint = z.object({
  partition: UInt,
  sequence: UInt,
  message_id: z.string(),
  message_time_ms: UInt,
  last_block: UInt,
  last_log: UInt,
});

const StoredResolution = z.object({
  condition_id: z.string(),
  payout_0: Amount,
  payout_1: Amount,
  block_number: UInt,
  log_index: UInt,
  sequence: UInt,
});

/** Up to where a partition is stored, and how to recognise that message in the stream. */
export type Progress = {
  readonly partition: number;
  readonly sequence: number;
  readonly messageId: string;
  readonly timeMs: number;
  /** Chain position of the partition's newest booking; 0, 0 where it has none. */
  readonly lastBlock: number;
  readonly lastLog: number;
};

/** A resolution or refused event with the LEDGER sequence that makes the newest one win. */
export type Fact = { readonly sequence: number; readonly event: Refused | Resolution };

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
   * Ends inserts that a killed predecessor left running, then inserts the newest batch of each
   * partition that is beyond its checkpoint again from its own rows: a crash between the table and its views is healed by that.
   * A batch behind the checkpoint is whole, and stays alone: after a rebuild the views' targets do
   * not know its token, because the token of a view's insert holds the id of the view.
   */
  async heal(): Promise<{ readonly healedBatches: number }> {
    await this.#fence();
    for (const query of syncStatements(this.#deployment)) await this.#client.command({ query });
    const known = new Map((await this.#checkpoints()).map((row) => [row.partition, row]));
    const doubtful = (await this.#tips()).filter((tip) => {
      const checkpoint = known.get(tip.partition);
      return checkpoint === undefined || isBefore(checkpoint, tip);
    });
    const batches = new Set(doubtful.map((tip) => tip.batch_id));
    const columns = STORED_COLUMNS.join(', ');
    for (const batch of batches) {
      await this.#client.command({
        query: `INSERT INTO bookings (${columns}) SELECT ${columns} FROM bookings
          WHERE batch_id = {batch:UInt64} ORDER BY sequence, leg`,
        query_params: { batch },
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

  /** Puts every open position, resolution and last event back into `book`; returns the progress. */
  async restore(book: Book): Promise<readonly Progress[]> {
    const tips = await this.#tips();
    for (const tip of tips) {
      book.restoreLast(tip.partition, {
        blockNumber: tip.block_number,
        logIndex: tip.event_log_index,
      });
    }
    const progress = new Map<number, Progress>();
    for (const row of await this.#checkpoints()) progress.set(row.partition, row);
    for (const tip of tips) {
      const stored = progress.get(tip.partition);
      if (stored === undefined || isBefore(stored, tip))
        progress.set(tip.partition, tipProgress(tip));
    }
    await this.#restorePositions(book);
    await this.#restoreResolutions(book, progress);
    return [...progress.values()];
  }

  async writeBatch(batch: Batch): Promise<void> {
    await this.#client.insert({
      table: 'bookings',
      columns: [...BOOKING_COLUMNS],
      values: batch.rows.map((row) => bookingValues(row, batch.id)),
      format: 'JSONCompactEachRow',
      clickhouse_settings: { insert_deduplication_token: batch.id, log_comment: this.#mark },
    });
  }

  /** Upserts resolutions and refused events; their order does not matter. */
  async writeFacts(facts: readonly Fact[]): Promise<void> {
    const rows = new Map<string, { columns: readonly string[]; values: unknown[][] }>();
    for (const fact of facts) {
      const { table, columns, values } = factRow(fact);
      const entry = rows.get(table) ?? { columns, values: [] };
      entry.values.push(values);
      rows.set(table, entry);
    }
    for (const [table, { columns, values }] of rows) {
      await this.#client.insert({
        table,
        columns: [...columns] as [string, ...string[]],
        values,
        format: 'JSONCompactEachRow',
      });
    }
  }

  /** Records that everything up to `progress` is stored; only ever after it is. */
  async writeProgress(progress: readonly Progress[]): Promise<void> {
    await this.#client.insert({
      table: 'projector_checkpoints',
      columns: ['partition', 'sequence', 'message_id', 'message_time', 'last_block', 'last_log'],
      values: progress.map((row) => [
        row.partition,
        row.sequence,
        row.messageId,
        (row.timeMs / 1_000).toFixed(3),
        row.lastBlock,
        row.lastLog,
      ]),
      format: 'JSONCompactEachRow',
    });
  }

  async #fence(): Promise<void> {
    // Any projector's that owned one of these partitions; the embedded engine appends an id.
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
      await new Promise((resolve) => setTimeout(resolve, FENCE_POLL_MS));
    }
  }

  #tips() {
    return this.#rows(
      `SELECT partition, tip.1 AS sequence, tip.2 AS kind, ${HEX('tip.3')} AS tx_hash,
         tip.4 AS block_number, tip.5 AS block_time, tip.6 AS event_log_index,
         toString(tip.7) AS batch_id
       FROM (SELECT partition, argMax((sequence, kind, tx_hash, block_number,
           toUnixTimestamp(block_time), event_log_index, batch_id),
           (block_number, event_log_index)) AS tip
         FROM bookings WHERE partition IN (${this.#partitions}) GROUP BY partition)`,
      Tip,
    );
  }

  async #checkpoints(): Promise<readonly Progress[]> {
    const rows = await this.#rows(
      `SELECT partition, sequence, message_id, toUnixTimestamp64Milli(message_time) AS message_time_ms,
         last_block, last_log
       FROM projector_checkpoints FINAL WHERE partition IN (${this.#partitions})`,
      Checkpoint,
    );
    return rows.map((row) => ({
      partition: row.partition,
      sequence: row.sequence,
      messageId: row.message_id,
      timeMs: row.message_time_ms,
      lastBlock: row.last_block,
      lastLog: row.last_log,
    }));
  }

  async #restorePositions(book: Book): Promise<void> {
    const result = await this.#client.query({
      query: `SELECT ${HEX('condition_id')}, ${HEX('trader')}, outcome, shares, cost_basis, open_fees
        FROM positions FINAL WHERE shares > 0 AND partition IN (${this.#partitions})`,
      format: 'TabSeparated',
    });
    // Six columns of our own SELECT, none of which can hold a tab; BigInt refuses what is no number.
    for await (const rows of result.stream()) {
      for (const { text } of rows) {
        const [condition = '', trader = '', outcome, shares = '', cost = '', fees = ''] =
          text.split('\t');
        book.restorePosition(condition, trader, {
          outcome: outcome === '0' ? 0 : 1,
          shares: BigInt(shares),
          costBasis: BigInt(cost),
          openFees: BigInt(fees),
        });
      }
    }
  }

  /** Only resolutions that were applied: one that was stored before its settlements is read again. */
  async #restoreResolutions(book: Book, progress: ReadonlyMap<number, Progress>): Promise<void> {
    const rows = await this.#rows(
      `SELECT ${HEX('condition_id')} AS condition_id, payout_0, payout_1, block_number, log_index,
         sequence
       FROM resolutions FINAL`,
      StoredResolution,
    );
    for (const row of rows) {
      const stored = progress.get(partitionOf(row.condition_id));
      if (stored === undefined) continue;
      const booked =
        row.block_number < stored.lastBlock ||
        (row.block_number === stored.lastBlock && row.log_index <= stored.lastLog);
      if (!booked && row.sequence > stored.sequence) continue;
      book.restoreResolution(row.condition_id, [row.payout_0, row.payout_1]);
    }
  }

  async #rows<Row>(query: string, schema: z.ZodType<Row>): Promise<readonly Row[]> {
    const result = await this.#client.query({ query, format: 'JSONEachRow' });
    return z.array(schema).parse(await result.json());
  }
}

function isBefore(stored: Progress, tip: z.infer<typeof Tip>): boolean {
  return (
    stored.lastBlock < tip.block_number ||
    (stored.lastBlock === tip.block_number && stored.lastLog < tip.event_log_index)
  );
}

function tipProgress(tip: z.infer<typeof Tip>): Progress {
  const kind = tip.kind === 'fill' ? 'match' : 'resolution';
  return {
    partition: tip.partition,
    sequence: tip.sequence,
    messageId: `${kind}:${tip.tx_hash}:${tip.event_log_index}`,
    timeMs: tip.block_time * 1_000,
    lastBlock: tip.block_number,
    lastLog: tip.event_log_index,
  };
}

const RESOLUTION_COLUMNS = [
  'condition_id_hex',
  'payout_0',
  'payout_1',
  'resolved_at',
  'block_number',
  'log_index',
  'sequence',
] as const;

const REFUSED_COLUMNS = [
  'block_number',
  'log_index',
  'tx_hash_hex',
  'reason',
  'detail',
  'sequence',
] as const;

/** Table, columns and values of one fact. */
function factRow({ sequence, event }: Fact) {
  if (event.kind === 'resolution') {
    const { conditionId, payouts, blockTime, blockNumber, logIndex } = event;
    const amounts = payouts.map(String);
    const values = [conditionId.slice(2), ...amounts, blockTime, blockNumber, logIndex, sequence];
    return { table: 'resolutions', columns: RESOLUTION_COLUMNS, values };
  }
  const { blockNumber, logIndex, txHash, reason, detail } = event;
  const values = [blockNumber, logIndex, txHash.slice(2), reason, detail, sequence];
  return { table: 'refused_events', columns: REFUSED_COLUMNS, values };
}
