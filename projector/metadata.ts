/**
 * METADATA → the tables markets, traders and balances. The owner of partition 0 reads the stream through
 * one durable consumer and acknowledges after the insert. Rows are upserts: the newest observation wins (for
 * a balance, the newest block), so inserting a row again is harmless.
 */
import type { ClickHouseClient } from '@clickhouse/client';
import type { Logger } from 'pino';
import { Gauge, type Registry } from 'prom-client';
import { z } from 'zod';
import type { Reasons } from '../infra/metrics.ts';
import type { Nats } from '../infra/nats/connection.ts';
import { durableBatches } from '../infra/nats/durable.ts';
import { retry } from '../infra/retry.ts';
import { decodeObservation, METADATA_STREAM, type Observation } from '../ingest/contract.ts';
import type { ProjectorMetrics } from './metrics.ts';
import { type Deployment, reloadStatement } from './store.ts';

/** Tags and series of new listings are visible to queries after at most this time. */
const DICTIONARY_MS = 2_000;
/** Beyond this the projector is not ready. */
const READY_EVENTS_MAX = 10_000;

export type MetadataOptions = {
  readonly nats: Nats;
  readonly client: ClickHouseClient;
  readonly deployment: Deployment;
  /** Throws if partition 0 may have another owner by now. */
  readonly assertOwner: () => void;
  readonly logger: Logger;
  readonly metrics: ProjectorMetrics;
  readonly lag: MetadataLag;
  readonly signal: AbortSignal;
  /** Called when everything up to a METADATA sequence is stored. */
  readonly onStored: (sequence: number) => void;
};

export class MetadataLag {
  /** Events of METADATA that are not stored; undefined while another projector stores them. */
  events: number | undefined;

  constructor(registry: Registry) {
    const lag = this;
    new Gauge({
      name: 'fillstream_projector_metadata_lag_events',
      help: 'events of METADATA that are not stored yet; 0 where another projector stores them',
      registers: [registry],
      collect() {
        this.set(lag.events ?? 0);
      },
    });
  }

  notReady(): Reasons {
    if (this.events === undefined || this.events <= READY_EVENTS_MAX) return {};
    return { metadata: `${this.events} events behind` };
  }
}

/** Runs until the signal aborts. Throws the errors of `assertOwner`. */
export async function projectMetadata(options: MetadataOptions): Promise<void> {
  const { nats, client, deployment, assertOwner, lag, signal, onStored } = options;
  let timer: NodeJS.Timeout | undefined;
  const reload = () => {
    timer = undefined;
    client.command({ query: reloadStatement(deployment) }).catch((err: unknown) => {
      options.logger.warn({ err }, 'reloading the dictionary of markets failed, retrying');
      timer ??= setTimeout(reload, DICTIONARY_MS);
    });
  };
  try {
    const name = await patiently(options, 'metadata', () => consumerName(client));
    for await (const batch of durableBatches(nats, { stream: METADATA_STREAM, name, signal })) {
      lag.events = batch.messages.length + batch.pending;
      const rows = rowsOf(batch.messages, options);
      for (const [table, { columns, values }] of rows) {
        assertOwner();
        await patiently(options, 'metadata', () =>
          client.insert({
            table,
            columns: [...columns] as [string, ...string[]],
            values,
            format: 'JSONCompactEachRow',
          }),
        );
      }
      batch.acknowledge();
      lag.events = batch.pending;
      onStored(batch.reached);
      if (rows.has('markets')) timer ??= setTimeout(reload, DICTIONARY_MS);
    }
  } finally {
    clearTimeout(timer);
    lag.events = undefined;
  }
}

/**
 * The acknowledgements apply to exactly these tables: when ClickHouse was created anew or restored, the
 * table has another UUID, and a new consumer delivers the whole stream again.
 */
async function consumerName(client: ClickHouseClient): Promise<string> {
  const result = await client.query({
    query: `SELECT toString(uuid) AS uuid FROM system.tables
      WHERE database = currentDatabase() AND name = 'markets'`,
    format: 'JSONEachRow',
  });
  const [row] = z.array(z.object({ uuid: z.uuid() })).parse(await result.json());
  if (row === undefined) throw new Error('there is no table markets: run the migrations');
  return `projector-${row.uuid}`;
}

type Rows = ReadonlyMap<string, { readonly columns: readonly string[]; values: unknown[][] }>;

/** Rows of a batch by table. */
function rowsOf(
  messages: readonly { readonly sequence: number; readonly data: Uint8Array }[],
  { logger, metrics }: MetadataOptions,
): Rows {
  const rows = new Map<string, { columns: readonly string[]; values: unknown[][] }>();
  for (const { sequence, data } of messages) {
    let observation: Observation;
    try {
      observation = decodeObservation(data);
    } catch (error) {
      // Only ingest writes here, so this is a bug; the next observation of the key repairs it.
      metrics.unreadable.inc();
      logger.error({ sequence, err: error }, 'METADATA message cannot be read');
      continue;
    }
    const { table, columns, values } = rowOf(observation);
    const entry = rows.get(table) ?? { columns, values: [] };
    entry.values.push(values);
    rows.set(table, entry);
  }
  return rows;
}

/** Retries until it succeeds or the signal aborts. */
function patiently<T>(
  { logger, metrics, signal }: MetadataOptions,
  what: string,
  attempt: () => Promise<T>,
): Promise<T> {
  return retry(attempt, {
    signal,
    isRetryable: () => true,
    onRetry(error) {
      metrics.retries.inc({ what });
      logger.warn({ err: error, what }, 'the insert failed, retrying');
    },
  });
}

/** Table, columns and values of one observation. */
function rowOf({ observedAtMs, event }: Observation) {
  const observedAt = (observedAtMs / 1_000).toFixed(3);
  switch (event.kind) {
    case 'listing':
      return {
        table: 'markets',
        columns: MARKET_COLUMNS,
        values: [
          bare(event.conditionId),
          event.marketId,
          event.question,
          event.slug,
          event.startDate,
          event.endDate,
          event.icon,
          event.negRisk,
          event.eventSlug,
          event.eventTitle,
          event.eventIcon,
          event.seriesSlug,
          event.tags,
          event.outcomes,
          event.tokenIds,
          event.groupItemTitle,
          event.sportsMarketType,
          observedAt,
        ],
      };
    case 'profile':
      return {
        table: 'traders',
        columns: TRADER_COLUMNS,
        values: [
          bare(event.address),
          event.name,
          event.profileImage,
          event.xUsername,
          event.createdAt,
          event.takerTier,
          event.takerTierName,
          event.weightedVolumeUsd ?? 0,
          event.weightedVolumeUsd !== null,
          observedAt,
        ],
      };
    case 'balance':
      return {
        table: 'balances',
        columns: ['trader_hex', 'balance', 'block_number'],
        values: [bare(event.address), event.balance.toString(), event.blockNumber],
      };
  }
}

const MARKET_COLUMNS = [
  'condition_id_hex',
  'market_id',
  'question',
  'slug',
  'start_date',
  'end_date',
  'icon',
  'neg_risk',
  'event_slug',
  'event_title',
  'event_icon',
  'series_slug',
  'tags',
  'outcomes',
  'token_ids',
  'group_item_title',
  'sports_market_type',
  'observed_at',
] as const;

const TRADER_COLUMNS = [
  'trader_hex',
  'name',
  'profile_image',
  'x_username',
  'profile_created_at',
  'taker_tier',
  'taker_tier_name',
  'weighted_volume_usd',
  'has_weighted_volume',
  'observed_at',
] as const;

/** Hex without 0x, the format of the *_hex columns. */
function bare(hex: `0x${string}`): string {
  return hex.slice(2);
}
