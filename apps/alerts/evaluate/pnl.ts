/**
 * The rule `pnl`: the realised PnL of a trader in a window crosses a level. It changes with each booking, and when bookings leave the
 * window, so it is read every POLL_MS. What was seen is stored per alert: after a crash, a crossing has the id that it had.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { IS_COUNTED } from '../../../api/analytics/bookings.ts';
import { createMetadata } from '../../../api/analytics/metadata-cache.ts';
import { read } from '../../../api/analytics/query.ts';
import { hexText, int, rowOf } from '../../../api/analytics/rows.ts';
import { TIME_FRAMES } from '../../../api/analytics/time-frames.ts';
import { Bytes } from '../../../infra/clickhouse.ts';
import { type Kv, openKv, parseValue } from '../../../infra/nats/kv.ts';
import { eventId } from '../event.ts';
import { type AlertMessage, PROGRESS_BUCKET, publishEvent } from '../logs.ts';
import type { AlertRecord, RuleOf } from '../rule.ts';
import type { SettlementOptions } from './settlements.ts';
import { traderName, usdc } from './words.ts';

const POLL_MS = 15_000;

type PnlAlert = AlertRecord & { readonly rule: RuleOf<'pnl'> };

/** By trader: whether the PnL is beyond the level, and how often it crossed it. */
const Seen = z.record(z.string(), z.object({ isBeyond: z.boolean(), crossings: z.int().min(0) }));
type Seen = z.infer<typeof Seen>;

const Row = rowOf({ trader: hexText('trader'), pnl: int('sum(realised_pnl)') });

const SQL = `
SELECT ${Row.columns} FROM bookings
WHERE trader IN {traders:Array(FixedString(20))} AND block_time >= toDateTime({since:UInt32}, 'UTC')
  AND ${IS_COUNTED}
GROUP BY trader`;

type Options = Omit<SettlementOptions, 'states'>;

/** Resolves when the signal aborts. Throws Problem 503, and NatsUnavailableError. */
export async function followPnl(options: Options): Promise<void> {
  const { alerts, nats, reading, replicas, signal } = options;
  const bucket = await openKv(nats, PROGRESS_BUCKET, { replicas });
  const metadata = createMetadata(reading);
  for (; !signal.aborted; await delay(POLL_MS, undefined, { signal }).catch(() => undefined)) {
    for (const alert of alerts()) {
      if (isPnl(alert) && alert.enabled) await look(options, metadata, bucket, alert);
    }
  }
}

function isPnl(alert: AlertRecord): alert is PnlAlert {
  return alert.rule.type === 'pnl';
}

async function look(
  { isDestination, metrics, nats, reading, signal }: Options,
  metadata: ReturnType<typeof createMetadata>,
  bucket: Kv,
  alert: PnlAlert,
): Promise<void> {
  const { direction, level, traders, window } = alert.rule;
  const key = `pnl.${alert.id}.${direction}.${Math.round(level * 1e6)}.${window}`;
  const entry = await bucket.get(key);
  const seen = (entry && parseValue(Seen, entry.value)) ?? {};
  const since = Math.floor(Date.now() / 1_000) - TIME_FRAMES[window].seconds;
  const parameters = { traders: new Bytes(traders), since };
  const rows = await read(reading, { sql: SQL, parameters, row: Row });
  const pnlOf = new Map(rows.map(({ pnl, trader }) => [trader, pnl]));
  const limit = BigInt(Math.round(level * 1e6));
  const next: Seen = {};
  const crossed: { readonly trader: string; readonly pnl: bigint; readonly number: number }[] = [];
  for (const trader of traders) {
    const pnl = pnlOf.get(trader) ?? 0n;
    const isBeyond = direction === 'above' ? pnl >= limit : pnl <= limit;
    const former = seen[trader];
    // An alert begins with what it sees first.
    const isCrossed = former !== undefined && isBeyond && !former.isBeyond;
    const crossings = (former?.crossings ?? 0) + (isCrossed ? 1 : 0);
    next[trader] = { isBeyond, crossings };
    if (isCrossed) crossed.push({ trader, pnl, number: crossings });
  }
  const profiles = await metadata.profiles(crossed.map(({ trader }) => trader));
  const messages = crossed.map((one) => {
    const name = profiles.get(one.trader)?.name ?? '';
    return messageOf(alert, { ...one, name }, isDestination);
  });
  await Promise.all(messages.map((message) => publishEvent(nats, message, signal)));
  metrics.events.labels('final').inc(messages.length);
  const text = JSON.stringify(next);
  if (text !== JSON.stringify(seen)) await bucket.put(key, text);
}

function messageOf(
  alert: PnlAlert,
  one: {
    readonly trader: string;
    readonly name: string;
    readonly pnl: bigint;
    readonly number: number;
  },
  isDestination: Options['isDestination'],
): AlertMessage {
  const { direction, level, window } = alert.rule;
  const trader = { address: one.trader, name: one.name };
  const about = `pnl ${one.trader} ${direction} ${level} ${window} ${one.number}`;
  const verb = direction === 'above' ? 'rose to' : 'fell to';
  const { period } = TIME_FRAMES[window];
  const pnl = `${one.pnl < 0n ? '−' : '+'}${usdc(one.pnl < 0n ? -one.pnl : one.pnl)}`;
  return {
    ...{ account: alert.account, about, matches: [], confirm: alert.confirm },
    destinations: alert.destinations.filter((id) => isDestination(id, alert.account)),
    event: {
      ...{ id: eventId(alert.id, about), type: 'pnl', state: 'final', refers_to: null },
      timestamp: new Date().toISOString(),
      alert: { id: alert.id, name: alert.name },
      text: `the PnL of ${traderName(trader)} in ${period} ${verb} ${pnl}`,
      data: { trader, window, level, direction, pnl: Number(one.pnl) },
    },
  };
}
