/**
 * The rule `resolution`, and settled positions of the rule `position`. Both follow from results in final blocks, which FEED does
 * not have, so this reads what the projectors have stored since the last time. Nothing of it is ever taken back.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import { z } from 'zod';
import type { MarketData } from '../../../api/analytics/match-data.ts';
import { createMetadata, type Listing } from '../../../api/analytics/metadata-cache.ts';
import { type Reading, read } from '../../../api/analytics/query.ts';
import { hexText, int, type RowOf, rowOf, seconds, typed } from '../../../api/analytics/rows.ts';
import { factsOfSequel, matches } from '../../../api/feed/filter.ts';
import { Bytes } from '../../../infra/clickhouse.ts';
import type { Nats } from '../../../infra/nats/connection.ts';
import { openKv, parseValue } from '../../../infra/nats/kv.ts';
import type { ProcessStates } from '../../../infra/nats/states.ts';
import { inParts } from '../../../infra/parts.ts';
import { type Hash, winningOutcome } from '../../../ingest/contract.ts';
import { type AlertEvent, eventId } from '../event.ts';
import { feedFilter } from '../feed-filter.ts';
import { type AlertMessage, PROGRESS_BUCKET, publishEvent } from '../logs.ts';
import type { AlertMetrics } from '../metrics.ts';
import type { AlertRecord, RuleOf } from '../rule.ts';
import { titleOf, traderName, usdc } from './words.ts';

const POLL_MS = 1_000;
const PROGRESS_KEY = 'settlements';
const BLOCKS_MAX = 2_000;
/** More would make a parameter too long. */
const TRADERS_AT_ONCE = 1_000;
const PUBLISHED_AT_ONCE = 500;

/** Everything up to this block and its time is sent. */
const Progress = z.object({ block: z.int().min(0), seconds: z.int().min(0) });
type Progress = z.infer<typeof Progress>;

const Resolution = rowOf({
  conditionId: hexText('condition_id'),
  payout0: int('payout_0'),
  payout1: int('payout_1'),
  at: seconds('resolved_at'),
});

const RESOLUTIONS = `
SELECT ${Resolution.columns} FROM resolutions FINAL
WHERE block_number > {after:UInt64} AND block_number <= {through:UInt64}
ORDER BY block_number, log_index, condition_id`;

const Settlement = rowOf({
  trader: hexText('trader'),
  conditionId: hexText('condition_id'),
  outcomeIndex: typed('outcome_index', z.literal([0, 1])),
  shares: int('shares'),
  payout: int('usdc'),
  pnl: int('realised_pnl'),
  block: int('block_number'),
  log: int('log_index'),
  at: seconds('block_time'),
});

const SETTLEMENTS = `
SELECT DISTINCT ${Settlement.columns} FROM bookings_by_time
WHERE block_time >= toDateTime({seconds:UInt32}, 'UTC')
  AND block_number > {after:UInt64} AND block_number <= {through:UInt64} AND kind = 'settlement'
  AND trader IN {traders:Array(FixedString(20))}
ORDER BY block_number, log_index, trader`;

export type SettlementOptions = {
  readonly nats: Nats;
  readonly logger: Logger;
  readonly reading: Reading;
  readonly states: ProcessStates;
  /** All alerts, as they are now. */
  readonly alerts: () => readonly AlertRecord[];
  readonly isDestination: (id: string, account: string) => boolean;
  readonly metrics: AlertMetrics;
  readonly replicas: number;
  readonly signal: AbortSignal;
};

type Found = Pick<AlertEvent, 'type' | 'text' | 'data'> & {
  readonly about: string;
  readonly seconds: number;
};

/** Resolves when the signal aborts. Throws Problem 503, and NatsUnavailableError. */
export async function followSettlements(options: SettlementOptions): Promise<void> {
  const { logger, metrics, nats, reading, signal, states } = options;
  const bucket = await openKv(nats, PROGRESS_BUCKET, { replicas: options.replicas });
  const metadata = createMetadata(reading);
  const entry = await bucket.get(PROGRESS_KEY);
  let progress = entry === undefined ? undefined : parseValue(Progress, entry.value);
  for (; !signal.aborted; await delay(POLL_MS, undefined, { signal }).catch(() => undefined)) {
    const newest = storedBy(states);
    if (newest === undefined || newest.block <= (progress?.block ?? -1)) continue;
    // After an outage in steps, each of which is stored.
    const through = Math.min(newest.block, (progress?.block ?? newest.block) + BLOCKS_MAX);
    const stored = { ...newest, block: through };
    if (through < newest.block) stored.seconds = progress?.seconds ?? 0;
    // Alerts begin now.
    if (progress !== undefined) {
      const messages = await settled(options, metadata, progress, stored);
      for (const some of inParts(messages, PUBLISHED_AT_ONCE)) {
        await Promise.all(some.map((message) => publishEvent(nats, message, signal)));
      }
      metrics.events.labels('final').inc(messages.length);
    } else logger.info({ event: 'evaluating', pass: PROGRESS_KEY, ...stored }, 'evaluating alerts');
    progress = stored;
    await bucket.put(PROGRESS_KEY, JSON.stringify(progress));
  }
}

/** The block up to which all projectors have stored everything; undefined while one does not say. */
function storedBy(states: ProcessStates): Progress | undefined {
  const all = states.of('projector');
  const blocks = all.map(({ block }) => block);
  if (blocks.length === 0 || blocks.includes(undefined)) return undefined;
  const block = Math.min(...blocks.map(Number));
  return block === 0
    ? undefined
    : { block, seconds: Math.floor(Math.min(...all.map(({ reached }) => reached))) };
}

async function settled(
  options: SettlementOptions,
  metadata: ReturnType<typeof createMetadata>,
  { block, seconds }: Progress,
  stored: Progress,
): Promise<readonly AlertMessage[]> {
  const { alerts, reading } = options;
  const active = alerts().filter(({ enabled }) => enabled);
  const wanted = active.filter(
    ({ rule }) =>
      rule.type === 'resolution' || (rule.type === 'position' && rule.events.includes('settled')),
  );
  if (wanted.length === 0) return [];
  const parameters = { after: block, through: stored.block };
  const resolutions = await read(reading, { sql: RESOLUTIONS, parameters, row: Resolution });
  const watched = new Set(
    wanted.flatMap(({ rule }) => (rule.type === 'position' ? rule.traders : [])),
  );
  const settledOf: RowOf<typeof Settlement>[] = [];
  for (const traders of inParts([...watched], TRADERS_AT_ONCE)) {
    const bound = { ...parameters, seconds, traders: new Bytes(traders) };
    settledOf.push(
      ...(await read(reading, { sql: SETTLEMENTS, parameters: bound, row: Settlement })),
    );
  }
  const ids = [...resolutions, ...settledOf].map(({ conditionId }) => conditionId);
  const [listings, profiles] = await Promise.all([
    metadata.listings([...new Set(ids)]),
    metadata.profiles([...new Set(settledOf.map(({ trader }) => trader))]),
  ]);
  const messages: AlertMessage[] = [];
  const send = (alert: AlertRecord, found: Found) =>
    messages.push(messageOf(alert, found, options.isDestination));
  for (const alert of wanted) {
    const { rule } = alert;
    if (rule.type === 'resolution') {
      for (const one of resolutions) {
        const listing = listings.get(one.conditionId);
        if (passes(rule, one.conditionId, listing)) send(alert, resolved(one, listing));
      }
    }
    if (rule.type !== 'position') continue;
    const traders = new Set(rule.traders);
    for (const one of settledOf) {
      const listing = listings.get(one.conditionId);
      const isLarge = Number(one.payout) >= (rule.min_usdc ?? 0) * 1e6;
      if (!traders.has(one.trader) || !isLarge || rule.first) continue;
      if (!passes(rule, one.conditionId, listing)) continue;
      const name = profiles.get(one.trader)?.name ?? '';
      send(alert, settlementOf(one, listing, name));
    }
  }
  return messages;
}

/** Whether a market passes the lists of a rule, as its matches would. */
function passes(
  rule: RuleOf<'resolution'> | RuleOf<'position'>,
  conditionId: string,
  listing: Listing | undefined,
): boolean {
  const { markets, tags } = rule;
  const series = 'series' in rule ? rule.series : undefined;
  const facts = factsOfSequel({
    ...{
      conditionId: conditionId as Hash,
      tags: listing?.tags ?? [],
      seriesSlug: listing?.series_slug ?? '',
    },
    ...{ traders: [], usdc: 0n, shares: 0n },
  });
  return matches(feedFilter({ markets, tags, series }), facts);
}

function resolved(
  { at, conditionId, payout0, payout1 }: RowOf<typeof Resolution>,
  listing: Listing | undefined,
): Found {
  const market = marketOf(conditionId, listing);
  const winner = winningOutcome(market.outcomes, [payout0, payout1]);
  const how = winner === '50-50' ? 'pays half for each outcome' : `resolved to ${winner}`;
  return {
    ...{ type: 'resolution', about: `resolution ${conditionId}`, seconds: at },
    text: `“${titleOf(market)}” ${how}`,
    data: { market, winning_outcome: winner, payouts: [Number(payout0), Number(payout1)] },
  };
}

function settlementOf(
  one: RowOf<typeof Settlement>,
  listing: Listing | undefined,
  name: string,
): Found {
  const { block, conditionId, log, outcomeIndex, payout, pnl, shares } = one;
  const market = marketOf(conditionId, listing);
  const trader = { address: one.trader, name };
  const outcome = market.outcomes[outcomeIndex];
  const gain = `${pnl < 0n ? '−' : '+'}${usdc(pnl < 0n ? -pnl : pnl)}`;
  return {
    ...{ type: 'position', about: `settled ${conditionId} ${one.trader} ${block} ${log}` },
    seconds: one.at,
    text: `${traderName(trader)} was paid ${usdc(payout)} for ${outcome} of “${titleOf(market)}”: ${gain}`,
    data: {
      ...{ event: 'settled', trader, market, outcome, outcome_index: outcomeIndex },
      ...{ shares_before: Number(shares), shares_after: 0 },
      ...{ price: shares === 0n ? 0 : Number((payout * 1_000_000n) / shares) },
      ...{ value: Number(payout), realised_pnl: Number(pnl), block_number: Number(block) },
    },
  };
}

function marketOf(conditionId: string, listing: Listing | undefined): MarketData {
  const [first = 'outcome 1', second = 'outcome 2'] = listing?.outcomes ?? [];
  return {
    ...{ condition_id: conditionId, id: listing?.id ?? '0' },
    ...{ question: listing?.question ?? '', slug: listing?.slug ?? '' },
    ...{ event_slug: listing?.event_slug ?? '', outcomes: [first, second] },
  };
}

function messageOf(
  alert: AlertRecord,
  { about, seconds, ...found }: Found,
  isDestination: SettlementOptions['isDestination'],
): AlertMessage {
  return {
    ...{ account: alert.account, about, matches: [], confirm: alert.confirm },
    destinations: alert.destinations.filter((id) => isDestination(id, alert.account)),
    event: {
      ...{ id: eventId(alert.id, about), state: 'final', refers_to: null },
      timestamp: new Date(seconds * 1_000).toISOString(),
      alert: { id: alert.id, name: alert.name },
      ...found,
    },
  };
}
