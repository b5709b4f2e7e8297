/**
 * METADATA → the tables markets, traders, balances and share_balances. The owner of partition 0 reads the stream through one durable
 * consumer and acknowledges after the insert. At a damaged message it stops and is not ready until the message is
 * restored or removed. Rows are upserts: the newest observation wins (for a balance, the newest block), so inserting a
 * row again is harmless.
 */
import type { ClickHouseClient } from '@clickhouse/client';
import type { Logger } from 'pino';
import { Gauge, type Registry } from 'prom-client';
import { z } from 'zod';
import type { Reasons } from '../infra/metrics-server.ts';
import type { Nats } from '../infra/nats/connection.ts';
import { durableBatches } from '../infra/nats/durable.ts';
import { refuseHoles } from '../infra/nats/reader.ts';
import {
  decodeObservation,
  METADATA_STREAM,
  type Observation,
  partitionOf,
} from '../ingest/contract.ts';
import { type ProjectorMetrics, retryLogged } from './progress.ts';
import { type Deployment, insertRows, reloadStatement, type TableRow } from './store.ts';

/** Queries see the tags and series of a new listing after at most this time. */
const DICTIONARY_MS = 2_000;
/** The projector is not ready if more events than this are not stored. */
const READY_EVENTS_MAX = 10_000;

export type MetadataOptions = {
  readonly nats: Nats;
  readonly client: ClickHouseClient;
  readonly deployment: Deployment;
  /** Throws if partition 0 may already have another owner. */
  readonly assertOwner: () => void;
  readonly logger: Logger;
  readonly metrics: ProjectorMetrics;
  readonly lag: MetadataLag;
  readonly signal: AbortSignal;
  /** Called when everything up to a METADATA sequence is stored. */
  readonly onStored: (sequence: number) => void;
};

export class MetadataLag {
  /** METADATA messages that are not stored yet; undefined if another projector stores them. */
  events: number | undefined;

  constructor(registry: Registry) {
    const lag = this;
    new Gauge({
      name: 'fillstream_projector_metadata_lag_events',
      help: 'METADATA messages that are not stored yet; 0 if another projector stores them',
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
      if (!signal.aborted) timer ??= setTimeout(reload, DICTIONARY_MS);
    });
  };
  try {
    // The previous reader may have stopped before its reload.
    timer = setTimeout(reload, DICTIONARY_MS);
    let reached: number | undefined;
    const name = await retryLogged(options, 'metadata', () => consumerName(client));
    for await (const batch of durableBatches(nats, { stream: METADATA_STREAM, name, signal })) {
      lag.events = batch.messages.length + batch.pending;
      const read = batch.messages.map(({ sequence }) => sequence);
      const range = { start: (reached ?? batch.reached) + 1, end: batch.reached, read };
      await retryLogged(options, 'metadata', () => refuseHoles(nats, METADATA_STREAM, range));
      reached = batch.reached;
      const rows = rowsOf(batch.messages, options);
      assertOwner();
      await retryLogged(options, 'metadata', () => insertRows(client, rows));
      batch.acknowledge();
      lag.events = batch.pending;
      onStored(batch.reached);
      if (rows.some(({ table }) => table === 'markets'))
        timer ??= setTimeout(reload, DICTIONARY_MS);
    }
  } finally {
    clearTimeout(timer);
    lag.events = undefined;
  }
}

/**
 * The consumer's name contains the UUID of a table. If ClickHouse is recreated or restored, the UUID changes, and a new
 * consumer delivers the whole stream again.
 */
async function consumerName(client: ClickHouseClient): Promise<string> {
  const result = await client.query({
    query: `SELECT toString(uuid) AS uuid FROM system.tables
      WHERE database = currentDatabase() AND name = 'markets'`,
    format: 'JSONEachRow',
  });
  const [row] = z.array(z.object({ uuid: z.uuid() })).parse(await result.json());
  if (row === undefined) throw new Error('the table markets does not exist: run the migrations');
  return `projector-${row.uuid}`;
}

function rowsOf(
  messages: readonly { readonly sequence: number; readonly data: Uint8Array }[],
  { logger, metrics }: MetadataOptions,
): readonly TableRow[] {
  return messages.flatMap(({ sequence, data }) => {
    try {
      return rowsIn(decodeObservation(data));
    } catch (error) {
      // Only ingest writes METADATA, so this is a bug. The next observation of the key replaces this one.
      metrics.unreadable.inc();
      logger.error({ sequence, err: error }, 'METADATA message cannot be read');
      return [];
    }
  });
}

function rowsIn({ observedAtMs, event }: Observation): TableRow | readonly TableRow[] {
  const observed_at = (observedAtMs / 1_000).toFixed(3);
  switch (event.kind) {
    case 'listing':
      return {
        table: 'markets',
        row: {
          condition_id_hex: bare(event.conditionId),
          market_id: event.marketId,
          question: event.question,
          slug: event.slug,
          start_date: event.startDate,
          end_date: event.endDate,
          icon: event.icon,
          neg_risk: event.negRisk,
          event_slug: event.eventSlug,
          event_title: event.eventTitle,
          event_icon: event.eventIcon,
          series_slug: event.seriesSlug,
          tags: event.tags,
          outcomes: event.outcomes,
          token_ids: event.tokenIds,
          group_item_title: event.groupItemTitle,
          sports_market_type: event.sportsMarketType,
          observed_at,
        },
      };
    case 'profile':
      return {
        table: 'traders',
        row: {
          trader_hex: bare(event.address),
          name: event.name,
          profile_image: event.profileImage,
          x_username: event.xUsername,
          profile_created_at: event.createdAt,
          taker_tier: event.takerTier,
          taker_tier_name: event.takerTierName,
          weighted_volume_usd: event.weightedVolumeUsd ?? 0,
          has_weighted_volume: event.weightedVolumeUsd !== null,
          observed_at,
        },
      };
    case 'balances':
      return event.balances.map(([address, balance]) => ({
        table: 'balances',
        row: {
          trader_hex: bare(address),
          balance: balance.toString(),
          block_number: event.blockNumber,
        },
      }));
    case 'share_balances':
      return event.balances.map(([trader, conditionId, zero, one]) => ({
        table: 'share_balances',
        row: {
          trader_hex: bare(trader),
          condition_id_hex: bare(conditionId),
          partition: partitionOf(conditionId),
          block_number: event.blockNumber,
          covered_from: event.coveredFrom,
          balance_0: zero.toString(),
          balance_1: one.toString(),
          observed_at: Math.floor(observedAtMs / 1_000),
        },
      }));
  }
}

/** Hex without 0x, as in the *_hex columns. */
function bare(hex: `0x${string}`): string {
  return hex.slice(2);
}
